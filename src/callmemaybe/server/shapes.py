"""What a request may look like: OpenAI's two interfaces, and the few extensions of ours.

A parameter stands here if it is kept. Those that OpenAI knows and this server does not do are in
the tables of ``NEUTRAL`` values: such a value asks for nothing, so it may be sent; any other is
refused by name. What is in neither is refused as unknown.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Annotated, Any, Literal, TypeVar

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    model_validator,
)

from callmemaybe.server.http_errors import Problem
from callmemaybe.server.validation_errors import mistake_of, not_done

MOST_STOPS = 4
#: How many alternatives of a token may be shown, as OpenAI has it.
MOST_ALTERNATIVES = 20


class Shape(BaseModel):
    """A JSON object with these members and no others; nothing is converted."""

    model_config = ConfigDict(extra="forbid", strict=True, hide_input_in_errors=True)


class Echo(Shape):
    """What clients send back of an answer; a null in it that nobody knows asks for nothing.

    They write all that their types can hold, and those grow: ``caller``, ``async_``, ``moderation``.
    """

    model_config = ConfigDict(json_schema_extra={"additionalProperties": {"type": "null"}})

    @model_validator(mode="before")
    @classmethod
    def _without_nulls(cls, data: Any) -> Any:
        if not isinstance(data, dict):
            return data
        return {name: value for name, value in data.items()
                if value is not None or name in cls.model_fields}  # fmt: skip


#: What a client made of a text that stands beside it, and sends back with it; the text is what counts.
Parsed = Annotated[Any, Field(exclude=True)]


def _nothing(value: object) -> object:
    """Return None for an object of nulls, which says as little."""
    is_empty = isinstance(value, dict) and all(one is None for one in value.values())
    return None if is_empty else value


Nulls = Annotated[
    None,
    BeforeValidator(_nothing),
    Field(json_schema_extra={"type": ["object", "null"], "additionalProperties": {"type": "null"}}),
]


def _number(value: object) -> object:
    """Numbers are read as Decimal, so that schemas keep every digit."""
    is_number = isinstance(value, Decimal | int) and not isinstance(value, bool)
    try:
        return float(value) if is_number else value  # type: ignore[arg-type]
    except OverflowError:
        return float("inf")


Number = Annotated[float, BeforeValidator(_number)]
Temperature = Annotated[Number, Field(ge=0, le=2)]
Share = Annotated[Number, Field(gt=0, le=1)]
Seed = Annotated[int, Field(ge=-(2**63), lt=2**63)]
Count = Annotated[int, Field(ge=1, le=2**31 - 1)]
Name = Annotated[str, Field(min_length=1, max_length=256)]
JsonSchema = dict[str, Any]
#: Ends at the first item that is wrong: of a million mistakes one is told, and counting the others
#: would keep the event loop from everybody.
_FIRST = Field(fail_fast=True)


# -- tools ----------------------------------------------------------------------------------------


class Function(Shape):
    """A function: its name, what it is for, the JSON Schema of its arguments."""

    name: Name
    description: str | None = None
    parameters: JsonSchema | None = None
    #: Arguments are always valid by the schema, so this changes nothing.
    strict: bool | None = None


class ChatTool(Shape):
    """A tool of the chat interface."""

    type: Literal["function"]
    function: Function


class ResponsesTool(Function):
    """A tool of the responses interface."""

    type: Literal["function"]


class Named(Shape):
    """The name of a function."""

    name: Name


class ChatNamed(Shape):
    """A function by its name, in the chat interface."""

    type: Literal["function"]
    function: Named


class ResponsesNamed(Named):
    """A function by its name, in the responses interface."""

    type: Literal["function"]


class Allowed(Shape):
    """Some functions, and whether one of them must be called."""

    mode: Literal["auto", "required"]
    tools: Annotated[list[ChatNamed], _FIRST, Field(min_length=1)]


class ChatAllowed(Shape):
    """The functions that may be called, in the chat interface."""

    type: Literal["allowed_tools"]
    allowed_tools: Allowed


class ResponsesAllowed(Shape):
    """The functions that may be called, in the responses interface."""

    type: Literal["allowed_tools"]
    mode: Literal["auto", "required"]
    tools: Annotated[list[ResponsesNamed], _FIRST, Field(min_length=1)]


ChoiceWord = Literal["auto", "none", "required"]


# -- the form of an answer ------------------------------------------------------------------------


class FreeText(Shape):
    """Text, as the model likes."""

    type: Literal["text"]


class AnyObject(Shape):
    """A JSON object."""

    type: Literal["json_object"]


class NamedSchema(Shape):
    """A JSON Schema with a name."""

    name: Name
    description: str | None = None
    schema_: Annotated[JsonSchema | None, Field(alias="schema")] = None
    strict: bool | None = None


class BySchema(Shape):
    """JSON by a schema, in the chat interface."""

    type: Literal["json_schema"]
    json_schema: NamedSchema


class BySchemaFlat(NamedSchema):
    """JSON by a schema, in the responses interface."""

    type: Literal["json_schema"]


class ByRegex(Shape):
    """Extension: text that a regular expression matches, as a whole (ECMA-262)."""

    type: Literal["regex"]
    regex: Annotated[str, Field(min_length=1)]


class ByGrammar(Shape):
    """Extension: text of a grammar, written in the manner of Lark or of GBNF."""

    type: Literal["grammar"]
    grammar: Annotated[str, Field(min_length=1)]


ChatForm = Annotated[
    FreeText | AnyObject | BySchema | ByRegex | ByGrammar, Field(discriminator="type")
]
ResponsesForm = Annotated[
    FreeText | AnyObject | BySchemaFlat | ByRegex | ByGrammar, Field(discriminator="type")
]


# -- messages of the chat interface ---------------------------------------------------------------


class TextPart(Shape):
    """A part of a message; others than text are not understood."""

    type: Literal["text"]
    text: str


Content = str | Annotated[list[TextPart], _FIRST, Field(min_length=1)]


class SystemMessage(Shape):
    """What holds for the whole conversation."""

    role: Literal["system", "developer"]
    content: Content
    name: str | None = None


class UserMessage(Shape):
    """What a person said."""

    role: Literal["user"]
    content: Content
    name: str | None = None


class Written(Echo):
    """A call as it was written: the arguments are a JSON text."""

    name: Name
    arguments: str
    parsed_arguments: Parsed = None


class MadeCall(Echo):
    """A call that the model made earlier."""

    id: Annotated[str, Field(min_length=1)]
    type: Literal["function"]
    function: Written
    #: Its number, which clients keep of a stream; the order says the same.
    index: Annotated[int | None, Field(exclude=True)] = None


class AssistantMessage(Echo):
    """What the model said earlier. The last members are what clients send back besides; all empty."""

    role: Literal["assistant"]
    content: Content | None = None
    tool_calls: Annotated[list[MadeCall], _FIRST] | None = None
    name: str | None = None
    refusal: None = None
    audio: None = None
    function_call: None = None
    annotations: Annotated[list[Any], Field(max_length=0)] | None = None
    parsed: Parsed = None
    provider_specific_fields: Nulls = None


class ToolMessage(Shape):
    """What a call came to."""

    role: Literal["tool"]
    content: Content
    tool_call_id: Annotated[str, Field(min_length=1)]
    name: str | None = None


ChatMessage = Annotated[
    SystemMessage | UserMessage | AssistantMessage | ToolMessage, Field(discriminator="role")
]


# -- requests -------------------------------------------------------------------------------------


class StreamOptions(Shape):
    """What a stream tells besides."""

    include_usage: bool | None = None
    include_obfuscation: Literal[False] | None = None


#: How much a model that thinks aloud is to think; see ``common.THOUGHTS``.
Effort = Literal["none", "minimal", "low", "medium", "high", "xhigh"]


class Reasoning(Shape):
    """How much a model is to think; thoughts are not told, nor summed up."""

    effort: Effort | None = None
    summary: None = None


class Extensions(Shape):
    """Extensions of ours: ``steps`` tells each step of the decoding in the stream."""

    steps: bool | None = None


class ChatRequest(Shape):
    """A request for a chat completion."""

    model: str
    messages: Annotated[list[ChatMessage], _FIRST, Field(min_length=1)]
    tools: Annotated[list[ChatTool], _FIRST] | None = None
    tool_choice: ChoiceWord | ChatNamed | ChatAllowed | None = None
    parallel_tool_calls: bool | None = None
    response_format: ChatForm | None = None
    max_tokens: Count | None = None
    max_completion_tokens: Count | None = None
    temperature: Temperature | None = None
    top_p: Share | None = None
    reasoning_effort: Effort | None = None
    n: Count | None = None
    seed: Seed | None = None
    stop: str | Annotated[list[str], Field(min_length=1, max_length=MOST_STOPS)] | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    logprobs: bool | None = None
    top_logprobs: Annotated[int, Field(ge=0, le=MOST_ALTERNATIVES)] | None = None
    metadata: dict[str, str] | None = None
    user: str | None = None
    safety_identifier: str | None = None
    prompt_cache_key: str | None = None
    callmemaybe: Extensions | None = None


class InputText(Shape):
    """A part of a message; others than text are not understood."""

    type: Literal["input_text"]
    text: str


class OutputText(Echo):
    """A part of what the model said earlier."""

    type: Literal["output_text"]
    text: str
    annotations: Annotated[list[Any], Field(max_length=0)] | None = None
    logprobs: list[Any] | None = None
    parsed: Parsed = None


class InputMessage(Echo):
    """A message of a person, of the system, or of the model."""

    type: Literal["message"] = "message"
    role: Literal["user", "assistant", "system", "developer"]
    content: str | Annotated[list[InputText | OutputText], _FIRST, Field(min_length=1)]
    id: str | None = None
    status: Literal["in_progress", "completed", "incomplete"] | None = None
    phase: None = None


class InputCall(Echo):
    """A call that the model made earlier."""

    type: Literal["function_call"]
    call_id: Annotated[str, Field(min_length=1)]
    name: Name
    arguments: str
    id: str | None = None
    status: Literal["in_progress", "completed", "incomplete"] | None = None
    namespace: None = None
    parsed_arguments: Parsed = None


class InputResult(Echo):
    """What a call came to."""

    type: Literal["function_call_output"]
    call_id: Annotated[str, Field(min_length=1)]
    output: str | Annotated[list[InputText], _FIRST, Field(min_length=1)]
    id: str | None = None
    status: Literal["in_progress", "completed", "incomplete"] | None = None


class TextSettings(Shape):
    """The form of an answer in text."""

    format: ResponsesForm | None = None
    verbosity: None = None


class ResponsesRequest(Shape):
    """A request for a response."""

    model: str
    input: (
        str | Annotated[list[InputMessage | InputCall | InputResult], _FIRST, Field(min_length=1)]
    )
    instructions: str | None = None
    tools: Annotated[list[ResponsesTool], _FIRST] | None = None
    tool_choice: ChoiceWord | ResponsesNamed | ResponsesAllowed | None = None
    parallel_tool_calls: bool | None = None
    max_tool_calls: Count | None = None
    max_output_tokens: Count | None = None
    text: TextSettings | None = None
    temperature: Temperature | None = None
    top_p: Share | None = None
    reasoning: Reasoning | None = None
    top_logprobs: Annotated[int, Field(ge=0, le=MOST_ALTERNATIVES)] | None = None
    include: Annotated[list[Literal["message.output_text.logprobs"]], _FIRST] | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    metadata: dict[str, str] | None = None
    user: str | None = None
    safety_identifier: str | None = None
    prompt_cache_key: str | None = None


#: Parameters that are known and not done, with the values that ask for nothing.
CHAT_NEUTRAL: Mapping[str, Sequence[Any]] = {
    "audio": (None,),
    "frequency_penalty": (None, 0),
    "function_call": (None,),
    "functions": (None,),
    "logit_bias": (None, {}),
    "modalities": (None, ["text"]),
    "moderation": (None,),
    "prediction": (None,),
    "presence_penalty": (None, 0),
    "prompt_cache_options": (None,),
    "prompt_cache_retention": (None,),
    "service_tier": (None, "auto", "default"),
    "store": (None, False),
    "verbosity": (None,),
    "web_search_options": (None,),
}
RESPONSES_NEUTRAL: Mapping[str, Sequence[Any]] = {
    "access_programs": (None,),
    "background": (None, False),
    "background_options": (None,),
    "context_management": (None,),
    "conversation": (None,),
    "image": (None,),
    "moderation": (None,),
    "previous_response_id": (None,),
    "prompt": (None,),
    "prompt_cache_options": (None,),
    "prompt_cache_retention": (None,),
    "service_tier": (None, "auto", "default"),
    "store": (None, False),
    "truncation": (None, "disabled"),
}

R = TypeVar("R", bound=Shape)


def read(kind: type[R], neutral: Mapping[str, Sequence[Any]], data: Any) -> R:
    """Return a request of this kind; raise Problem naming the parameter that is wrong."""
    if not isinstance(data, dict):
        raise Problem(400, "The body must be a JSON object.", code="invalid_type")
    kept = {}
    for name, value in data.items():
        if name not in neutral:
            kept[name] = value
        elif not any((value == one and type(value) is type(one)) or _is_zero(value, one)
                     for one in neutral[name]):  # fmt: skip
            raise not_done(name)
    try:
        return kind.model_validate(kept)
    except ValidationError as error:
        raise mistake_of(error, kept) from None


def _is_zero(value: Any, neutral: Any) -> bool:
    return neutral == 0 and neutral is not False and isinstance(value, Decimal) and value == 0
