"""Pydantic models of requests to ``/v1/messages``: Anthropic's interface.

As in ``request_models``, a supported parameter is a field, ``MESSAGES_NEUTRAL`` has the known ones that are not
supported with the values that ask for nothing, and all others are unknown.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from callmemaybe.server.request_models import (
    Count,
    EchoedObject,
    JsonSchema,
    Name,
    Parsed,
    Probability,
    RequestObject,
    Temperature,
    TopK,
)

#: The most texts that end an answer; each is looked for in all of it.
MAX_STOP_SEQUENCES = 16
_FIRST = Field(fail_fast=True)


class CacheMark(RequestObject):
    """Where a prompt is to be cached; ignored, since what prompts have in common always is."""

    type: Literal["ephemeral"]
    ttl: Literal["5m", "1h"] | None = None


CacheControl = Annotated[CacheMark | None, Field(exclude=True)]


# -- blocks of messages ---------------------------------------------------------------------------


class TextBlock(EchoedObject):
    """A text; ``parsed_output`` is what a client read from it."""

    type: Literal["text"]
    text: str
    cache_control: CacheControl = None
    citations: Annotated[list[Any], Field(max_length=0)] | None = None
    parsed_output: Parsed = None


class Base64Source(RequestObject):
    """A picture in the request itself."""

    type: Literal["base64"]
    media_type: Literal["image/jpeg", "image/png", "image/gif", "image/webp"]
    data: str


class UrlSource(RequestObject):
    """A picture on the web."""

    type: Literal["url"]
    url: str


class ImageBlock(EchoedObject):
    """A picture, for models that read pictures."""

    type: Literal["image"]
    source: Base64Source | UrlSource
    cache_control: CacheControl = None


class DirectCaller(RequestObject):
    """Who called: the model itself."""

    type: Literal["direct"]


class ToolUseBlock(EchoedObject):
    """A call that the model made earlier."""

    type: Literal["tool_use"]
    id: Annotated[str, Field(min_length=1)]
    name: Name
    input: dict[str, Any]
    caller: DirectCaller | None = None
    cache_control: CacheControl = None


class ToolResultBlock(EchoedObject):
    """The result of a call, possibly a failure."""

    type: Literal["tool_result"]
    tool_use_id: Annotated[str, Field(min_length=1)]
    content: str | Annotated[list[TextBlock | ImageBlock], _FIRST] | None = None
    is_error: bool | None = None
    cache_control: CacheControl = None


class ThinkingBlock(EchoedObject):
    """What a model thought before an earlier answer; it is no part of the prompt."""

    type: Literal["thinking"]
    thinking: str
    signature: str | None = None


class RedactedThinkingBlock(EchoedObject):
    """What a model thought before an earlier answer, encrypted; it is no part of the prompt."""

    type: Literal["redacted_thinking"]
    data: str


SystemContent = str | Annotated[list[TextBlock], _FIRST]


class MessagesUser(RequestObject):
    """What the user says, and results of calls."""

    role: Literal["user"]
    content: (
        str | Annotated[list[TextBlock | ImageBlock | ToolResultBlock], _FIRST, Field(min_length=1)]
    )


class MessagesAssistant(EchoedObject):
    """An earlier answer of the model; one that was cut off may be empty."""

    role: Literal["assistant"]
    content: (
        str
        | Annotated[list[TextBlock | ToolUseBlock | ThinkingBlock | RedactedThinkingBlock], _FIRST]
    )


class MessagesSystem(RequestObject):
    """Instructions in the course of the conversation."""

    role: Literal["system"]
    content: SystemContent


# -- tools ----------------------------------------------------------------------------------------


class MessagesTool(RequestObject):
    """A function: its name, its description, the JSON Schema of its arguments."""

    name: Name
    input_schema: JsonSchema
    description: str | None = None
    type: Literal["custom"] | None = None
    cache_control: CacheControl = None
    #: Both are ignored: arguments always satisfy the schema, and come once the turn has ended well.
    strict: bool | None = None
    eager_input_streaming: bool | None = None
    allowed_callers: list[Literal["direct"]] | None = None
    defer_loading: Literal[False] | None = None
    input_examples: Annotated[list[Any], Field(max_length=0)] | None = None


class AutoChoice(RequestObject):
    """Calls or a text, as the model likes."""

    type: Literal["auto"]
    disable_parallel_tool_use: bool | None = None


class AnyChoice(RequestObject):
    """Calls of whatever functions."""

    type: Literal["any"]
    disable_parallel_tool_use: bool | None = None


class OneToolChoice(RequestObject):
    """Calls of one function, by its name."""

    type: Literal["tool"]
    name: Name
    disable_parallel_tool_use: bool | None = None


class NoneChoice(RequestObject):
    """A text."""

    type: Literal["none"]


# -- requests -------------------------------------------------------------------------------------


class ThinkingDisabled(RequestObject):
    """No thoughts."""

    type: Literal["disabled"]


class JsonFormat(RequestObject):
    """JSON by a schema."""

    type: Literal["json_schema"]
    schema_: Annotated[JsonSchema, Field(alias="schema")]


class OutputConfig(RequestObject):
    """The form of an answer in text."""

    format: JsonFormat | None = None
    effort: None = None


class RequestMetadata(RequestObject):
    """Who asks; ignored."""

    user_id: str | None = None


MessagesMessage = Annotated[
    MessagesUser | MessagesAssistant | MessagesSystem, Field(discriminator="role")
]


class MessagesConversation(RequestObject):
    """What is asked of a model, without how it is to answer."""

    model: str
    messages: Annotated[list[MessagesMessage], _FIRST, Field(min_length=1)]
    system: SystemContent | None = None
    tools: Annotated[list[MessagesTool], _FIRST] | None = None
    tool_choice: AutoChoice | AnyChoice | OneToolChoice | NoneChoice | None = None
    thinking: ThinkingDisabled | None = None
    output_config: OutputConfig | None = None
    cache_control: CacheControl = None


class MessagesRequest(MessagesConversation):
    """A request for a message."""

    max_tokens: Count
    stop_sequences: (
        Annotated[list[Annotated[str, Field(min_length=1)]], Field(max_length=MAX_STOP_SEQUENCES)]
        | None
    ) = None
    stream: bool | None = None
    temperature: Temperature | None = None
    top_p: Probability | None = None
    top_k: TopK | None = None
    metadata: RequestMetadata | None = None


class CountTokensRequest(MessagesConversation):
    """A conversation of which the tokens are to be counted."""

    stream: ClassVar[None] = None


#: Known parameters that are not supported, with the values that ask for nothing.
MESSAGES_NEUTRAL: Mapping[str, Sequence[Any]] = {
    "container": (None,),
    "context_management": (None,),
    "diagnostics": (None,),
    "inference_geo": (None,),
    "mcp_servers": (None, []),
    "service_tier": (None, "auto", "standard_only"),
    "speed": (None, "standard"),
    "user_profile_id": (None,),
}
COUNT_NEUTRAL: Mapping[str, Sequence[Any]] = {
    name: MESSAGES_NEUTRAL[name] for name in ("context_management", "mcp_servers", "speed", "user_profile_id")
}  # fmt: skip
