"""Pydantic models of requests: OpenAI's two interfaces, and a few extensions.

A supported parameter is a field. Parameters of OpenAI that this server does not support are in the
``NEUTRAL`` tables with the values that ask for nothing; those are accepted, any other value is refused.
All other parameters are refused as unknown.
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

from callmemaybe.server.http_errors import ApiError
from callmemaybe.server.validation_errors import unsupported_parameter, validation_error

MAX_STOPS = 4
#: The most alternatives shown for a token, as in OpenAI's API.
MAX_TOP_LOGPROBS = 20


class RequestObject(BaseModel):
    """A JSON object with these fields and no others; values are not converted."""

    model_config = ConfigDict(extra="forbid", strict=True, hide_input_in_errors=True)


class EchoedObject(RequestObject):
    """A part of an answer that clients send back; unknown fields are allowed if they are null.

    Clients send every field of their types, which grow: ``caller``, ``async_``, ``moderation``.
    """

    model_config = ConfigDict(json_schema_extra={"additionalProperties": {"type": "null"}})

    @model_validator(mode="before")
    @classmethod
    def _without_nulls(cls, data: Any) -> Any:
        if not isinstance(data, dict):
            return data
        return {name: value for name, value in data.items()
                if value is not None or name in cls.model_fields}  # fmt: skip


#: The parsed form of a text beside it, which some clients send back; ignored.
Parsed = Annotated[Any, Field(exclude=True)]
#: What the model thought before an earlier answer; it is no part of the prompt.
EarlierThoughts = Annotated[str | None, Field(exclude=True)]


def _null_if_empty(value: object) -> object:
    """Return None for an object of nulls, which means the same."""
    is_empty = isinstance(value, dict) and all(one is None for one in value.values())
    return None if is_empty else value


Nulls = Annotated[
    None,
    BeforeValidator(_null_if_empty),
    Field(json_schema_extra={"type": ["object", "null"], "additionalProperties": {"type": "null"}}),
]


def _as_float(value: object) -> object:
    """Convert numbers, which are read as Decimal so that schemas keep every digit."""
    is_number = isinstance(value, Decimal | int) and not isinstance(value, bool)
    try:
        return float(value) if is_number else value  # type: ignore[arg-type]
    except OverflowError:
        return float("inf")


Number = Annotated[float, BeforeValidator(_as_float)]
Temperature = Annotated[Number, Field(ge=0, le=2)]
Probability = Annotated[Number, Field(gt=0, le=1)]
TopK = Annotated[int, Field(ge=-1, le=2**31 - 1)]
MinP = Annotated[Number, Field(ge=0, le=1)]
Penalty = Annotated[Number, Field(ge=-2, le=2)]
Repetition = Annotated[Number, Field(gt=0, le=1e6)]
TokenId = Annotated[str, Field(pattern=r"^[0-9]{1,9}$")]
Bias = Annotated[Number, Field(ge=-100, le=100)]
Seed = Annotated[int, Field(ge=-(2**63), lt=2**63)]
Count = Annotated[int, Field(ge=1, le=2**31 - 1)]
Name = Annotated[str, Field(min_length=1, max_length=256)]
JsonSchema = dict[str, Any]
#: Validation stops at the first wrong item: collecting a million errors would block the event loop.
_FIRST = Field(fail_fast=True)


# -- tools ----------------------------------------------------------------------------------------


class FunctionDefinition(RequestObject):
    """A function: its name, its description, the JSON Schema of its arguments."""

    name: Name
    description: str | None = None
    parameters: JsonSchema | None = None
    #: Ignored: arguments always satisfy the schema.
    strict: bool | None = None


class ChatTool(RequestObject):
    """A tool of the chat interface."""

    type: Literal["function"]
    function: FunctionDefinition


class ResponsesTool(FunctionDefinition):
    """A tool of the responses interface."""

    type: Literal["function"]


class FunctionName(RequestObject):
    """The name of a function."""

    name: Name


class ChatFunctionChoice(RequestObject):
    """A function by its name, in the chat interface."""

    type: Literal["function"]
    function: FunctionName


class ResponsesFunctionChoice(FunctionName):
    """A function by its name, in the responses interface."""

    type: Literal["function"]


class AllowedFunctions(RequestObject):
    """Some functions, and whether one of them must be called."""

    mode: Literal["auto", "required"]
    tools: Annotated[list[ChatFunctionChoice], _FIRST, Field(min_length=1)]


class ChatAllowedTools(RequestObject):
    """The functions that may be called, in the chat interface."""

    type: Literal["allowed_tools"]
    allowed_tools: AllowedFunctions


class ResponsesAllowedTools(RequestObject):
    """The functions that may be called, in the responses interface."""

    type: Literal["allowed_tools"]
    mode: Literal["auto", "required"]
    tools: Annotated[list[ResponsesFunctionChoice], _FIRST, Field(min_length=1)]


ChoiceWord = Literal["auto", "none", "required"]


# -- formats of answers ---------------------------------------------------------------------------


class TextFormat(RequestObject):
    """Any text."""

    type: Literal["text"]


class JsonObjectFormat(RequestObject):
    """A JSON object."""

    type: Literal["json_object"]


class NamedSchema(RequestObject):
    """A JSON Schema with a name."""

    name: Name
    description: str | None = None
    schema_: Annotated[JsonSchema | None, Field(alias="schema")] = None
    strict: bool | None = None


class ChatSchemaFormat(RequestObject):
    """JSON by a schema, in the chat interface."""

    type: Literal["json_schema"]
    json_schema: NamedSchema


class ResponsesSchemaFormat(NamedSchema):
    """JSON by a schema, in the responses interface."""

    type: Literal["json_schema"]


class RegexFormat(RequestObject):
    """Extension: text that a regular expression matches, as a whole (ECMA-262)."""

    type: Literal["regex"]
    regex: Annotated[str, Field(min_length=1)]


class GrammarFormat(RequestObject):
    """Extension: text of a grammar, in the syntax of Lark or GBNF."""

    type: Literal["grammar"]
    grammar: Annotated[str, Field(min_length=1)]


ChatFormat = Annotated[
    TextFormat | JsonObjectFormat | ChatSchemaFormat | RegexFormat | GrammarFormat,
    Field(discriminator="type"),
]
ResponsesFormat = Annotated[
    TextFormat | JsonObjectFormat | ResponsesSchemaFormat | RegexFormat | GrammarFormat,
    Field(discriminator="type"),
]


Text = Annotated[str, Field(min_length=1)]
Choices = Annotated[list[Text], _FIRST, Field(min_length=1)]


class StructuredOutputs(RequestObject):
    """vLLM's form of a constraint: one of these says what the text is; the last three change nothing."""

    json_: Annotated[JsonSchema | Text | None, Field(alias="json")] = None
    regex: Text | None = None
    choice: Choices | None = None
    grammar: Text | None = None
    json_object: bool | None = None
    structural_tag: None = None
    whitespace_pattern: None = None
    disable_any_whitespace: Literal[False] | None = None
    disable_fallback: bool | None = None
    disable_additional_properties: Literal[False] | None = None


class ConstraintFields(RequestObject):
    """What a text is to be: one of OpenAI's, vLLM's and llama.cpp's parameters; see ``constraints``."""

    response_format: ChatFormat | None = None
    structured_outputs: StructuredOutputs | None = None
    guided_json: JsonSchema | Text | None = None
    guided_regex: Text | None = None
    guided_choice: Choices | None = None
    guided_grammar: Text | None = None
    grammar: Text | None = None
    json_schema: JsonSchema | None = None


# -- messages of the chat interface ---------------------------------------------------------------


class TextPart(RequestObject):
    """A part of a message: text."""

    type: Literal["text"]
    text: str


Detail = Literal["auto", "low", "high", "original"]


class ImageAddress(RequestObject):
    """Where a picture is: in the address itself (``data:``), or on the web."""

    url: str
    detail: Detail | None = None


class ChatImagePart(RequestObject):
    """A part of a message: a picture, for models that read pictures."""

    type: Literal["image_url"]
    image_url: ImageAddress


Content = str | Annotated[list[TextPart], _FIRST, Field(min_length=1)]
UserContent = str | Annotated[list[TextPart | ChatImagePart], _FIRST, Field(min_length=1)]


class ChatSystemMessage(RequestObject):
    """Instructions for the whole conversation."""

    role: Literal["system", "developer"]
    content: Content
    name: str | None = None


class ChatUserMessage(RequestObject):
    """A message of the user."""

    role: Literal["user"]
    content: UserContent
    name: str | None = None


class EchoedFunctionCall(EchoedObject):
    """The function and the arguments of an earlier call; the arguments are JSON text."""

    name: Name
    arguments: str
    parsed_arguments: Parsed = None


class EchoedToolCall(EchoedObject):
    """A call that the model made earlier."""

    id: Annotated[str, Field(min_length=1)]
    type: Literal["function"]
    function: EchoedFunctionCall
    #: Its number in a stream; ignored, since the order is the same.
    index: Annotated[int | None, Field(exclude=True)] = None


class ChatAssistantMessage(EchoedObject):
    """An earlier message of the model. The last fields are sent back by clients, and empty."""

    role: Literal["assistant"]
    content: Content | None = None
    tool_calls: Annotated[list[EchoedToolCall], _FIRST] | None = None
    name: str | None = None
    refusal: None = None
    audio: None = None
    function_call: None = None
    annotations: Annotated[list[Any], Field(max_length=0)] | None = None
    reasoning_content: EarlierThoughts = None
    reasoning: EarlierThoughts = None
    parsed: Parsed = None
    provider_specific_fields: Nulls = None


class ChatToolMessage(RequestObject):
    """The result of a call."""

    role: Literal["tool"]
    content: Content
    tool_call_id: Annotated[str, Field(min_length=1)]
    name: str | None = None


ChatMessage = Annotated[
    ChatSystemMessage | ChatUserMessage | ChatAssistantMessage | ChatToolMessage,
    Field(discriminator="role"),
]


# -- requests -------------------------------------------------------------------------------------


class StreamOptions(RequestObject):
    """What a stream contains in addition."""

    include_usage: bool | None = None
    include_obfuscation: Literal[False] | None = None


#: How much a reasoning model may think; see ``common.THINKING_BUDGETS``.
Effort = Literal["none", "minimal", "low", "medium", "high", "xhigh"]


class ReasoningOptions(RequestObject):
    """How much a model may think; thoughts are neither returned nor summarized."""

    effort: Effort | None = None
    summary: Literal["auto", "concise", "detailed"] | None = None


class Extensions(RequestObject):
    """Extensions: with ``steps`` a stream contains each decoding step, with ``early_calls`` unfinished calls."""

    steps: bool | None = None
    early_calls: bool | None = None


class ChatRequest(ConstraintFields):
    """A request for a chat completion."""

    model: str
    messages: Annotated[list[ChatMessage], _FIRST, Field(min_length=1)]
    tools: Annotated[list[ChatTool], _FIRST] | None = None
    tool_choice: ChoiceWord | ChatFunctionChoice | ChatAllowedTools | None = None
    parallel_tool_calls: bool | None = None
    max_tokens: Count | None = None
    max_completion_tokens: Count | None = None
    temperature: Temperature | None = None
    top_p: Probability | None = None
    top_k: TopK | None = None
    min_p: MinP | None = None
    frequency_penalty: Penalty | None = None
    presence_penalty: Penalty | None = None
    repetition_penalty: Repetition | None = None
    logit_bias: dict[TokenId, Bias] | None = None
    reasoning_effort: Effort | None = None
    n: Count | None = None
    seed: Seed | None = None
    stop: str | Annotated[list[str], Field(min_length=1, max_length=MAX_STOPS)] | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    logprobs: bool | None = None
    top_logprobs: Annotated[int, Field(ge=0, le=MAX_TOP_LOGPROBS)] | None = None
    metadata: dict[str, str] | None = None
    user: str | None = None
    safety_identifier: str | None = None
    prompt_cache_key: str | None = None
    callmemaybe: Extensions | None = None


class InputTextPart(RequestObject):
    """A part of a message: text."""

    type: Literal["input_text"]
    text: str


class InputImagePart(RequestObject):
    """A part of a message: a picture, for models that read pictures."""

    type: Literal["input_image"]
    image_url: str
    detail: Detail | None = None
    file_id: None = None


class OutputTextPart(EchoedObject):
    """A part of an earlier message of the model."""

    type: Literal["output_text"]
    text: str
    annotations: Annotated[list[Any], Field(max_length=0)] | None = None
    logprobs: list[Any] | None = None
    parsed: Parsed = None


class InputMessage(EchoedObject):
    """A message of the user, of the system, or of the model."""

    type: Literal["message"] = "message"
    role: Literal["user", "assistant", "system", "developer"]
    content: (
        str
        | Annotated[
            list[InputTextPart | OutputTextPart | InputImagePart], _FIRST, Field(min_length=1)
        ]
    )
    id: str | None = None
    status: Literal["in_progress", "completed", "incomplete"] | None = None
    phase: None = None


class InputFunctionCall(EchoedObject):
    """A call that the model made earlier."""

    type: Literal["function_call"]
    call_id: Annotated[str, Field(min_length=1)]
    name: Name
    arguments: str
    id: str | None = None
    status: Literal["in_progress", "completed", "incomplete"] | None = None
    namespace: None = None
    parsed_arguments: Parsed = None


class InputFunctionResult(EchoedObject):
    """The result of a call."""

    type: Literal["function_call_output"]
    call_id: Annotated[str, Field(min_length=1)]
    output: str | Annotated[list[InputTextPart | InputImagePart], _FIRST, Field(min_length=1)]
    id: str | None = None
    status: Literal["in_progress", "completed", "incomplete"] | None = None


class InputReasoning(EchoedObject):
    """What a model thought before an earlier answer; it is no part of the prompt."""

    type: Literal["reasoning"]
    id: str | None = None
    summary: list[Any] | None = None
    content: list[Any] | None = None
    encrypted_content: str | None = None
    status: Literal["in_progress", "completed", "incomplete"] | None = None


class TextOptions(RequestObject):
    """The format of an answer in text."""

    format: ResponsesFormat | None = None
    verbosity: None = None


#: What a response may have besides; thoughts are not returned, so none is there in encrypted form.
Included = Literal["message.output_text.logprobs", "reasoning.encrypted_content"]


class ResponsesRequest(RequestObject):
    """A request for a response."""

    model: str
    input: (
        str
        | Annotated[
            list[InputMessage | InputFunctionCall | InputFunctionResult | InputReasoning],
            _FIRST,
            Field(min_length=1),
        ]
    )
    instructions: str | None = None
    tools: Annotated[list[ResponsesTool], _FIRST] | None = None
    tool_choice: ChoiceWord | ResponsesFunctionChoice | ResponsesAllowedTools | None = None
    parallel_tool_calls: bool | None = None
    max_tool_calls: Count | None = None
    max_output_tokens: Count | None = None
    text: TextOptions | None = None
    temperature: Temperature | None = None
    top_p: Probability | None = None
    top_k: TopK | None = None
    min_p: MinP | None = None
    frequency_penalty: Penalty | None = None
    presence_penalty: Penalty | None = None
    repetition_penalty: Repetition | None = None
    logit_bias: dict[TokenId, Bias] | None = None
    reasoning: ReasoningOptions | None = None
    top_logprobs: Annotated[int, Field(ge=0, le=MAX_TOP_LOGPROBS)] | None = None
    include: Annotated[list[Included], _FIRST] | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    metadata: dict[str, str] | None = None
    user: str | None = None
    safety_identifier: str | None = None
    prompt_cache_key: str | None = None


#: What holds texts to a constraint elsewhere; which one does changes no text that may come.
BACKENDS = (None, "auto", "guidance", "lm-format-enforcer", "outlines", "xgrammar")
#: Known parameters that are not supported, with the values that ask for nothing.
CHAT_NEUTRAL: Mapping[str, Sequence[Any]] = {
    "audio": (None,),
    "function_call": (None,),
    "functions": (None,),
    "guided_decoding_backend": BACKENDS,
    "guided_whitespace_pattern": (None,),
    "modalities": (None, ["text"]),
    "moderation": (None,),
    "prediction": (None,),
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

R = TypeVar("R", bound=RequestObject)


def parse_request(kind: type[R], neutral: Mapping[str, Sequence[Any]], data: Any) -> R:
    """Return a request of this kind; raise ApiError with the parameter at fault."""
    if not isinstance(data, dict):
        raise ApiError(400, "The body must be a JSON object.", code="invalid_type")
    supported = {}
    for name, value in data.items():
        if name not in neutral:
            supported[name] = value
        elif not any((value == one and type(value) is type(one)) or _is_zero(value, one)
                     for one in neutral[name]):  # fmt: skip
            raise unsupported_parameter(name)
    try:
        return kind.model_validate(supported)
    except ValidationError as error:
        raise validation_error(error, supported) from None


def _is_zero(value: Any, neutral: Any) -> bool:
    return neutral == 0 and neutral is not False and isinstance(value, Decimal) and value == 0
