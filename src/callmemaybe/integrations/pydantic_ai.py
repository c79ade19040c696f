"""A model of pydantic-ai over a model in this process: tools, outputs by a function or a JSON Schema, streams.

::

    from pydantic_ai import Agent
    from callmemaybe.integrations.pydantic_ai import CallMeMaybeModel
    Agent(CallMeMaybeModel("nano"), tools=[get_weather]).run_sync("What's the weather in Paris?").output
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Literal

from pydantic_ai import messages as parts
from pydantic_ai.models import Model, ModelRequestParameters, StreamedResponse
from pydantic_ai.profiles import ModelProfile
from pydantic_ai.settings import ModelSettings
from pydantic_ai.usage import RequestUsage

from callmemaybe.errors import InputError
from callmemaybe.generation.turn import in_thread
from callmemaybe.integrations._chat import (
    ChatReply,
    ChatStream,
    LocalChat,
    Message,
    ModelLike,
    decoding_of,
)

_FINISH: dict[str, Literal["stop", "length", "tool_call"]] = {
    "stop": "stop", "length": "length", "tool_calls": "tool_call",
}  # fmt: skip


class CallMeMaybeModel(Model):
    """A model of pydantic-ai. ``model`` is what ``load_model`` takes, or a loaded one.

    ``format`` is the wire format (None: told from the model's files). ``ModelResponse.provider_details`` has what the model did not
    read and how probable each function was. Errors are this package's own.
    """

    def __init__(
        self,
        model: ModelLike = "nano",
        *,
        format: str | None = None,  # noqa: A002 - the word users know
        settings: ModelSettings | None = None,
    ) -> None:
        self._chat = LocalChat(model, format)
        profile = ModelProfile(supports_tools=True, supports_json_schema_output=True)
        super().__init__(settings=settings, profile=profile)

    @property
    def model_name(self) -> str:
        """The model's name."""
        return self._chat.name

    @property
    def system(self) -> str:
        """The provider's name."""
        return "callmemaybe"

    @property
    def provider(self) -> None:
        """No provider: the model runs in this process."""
        return

    async def request(
        self,
        messages: list[parts.ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
    ) -> parts.ModelResponse:
        """Return the model's answer; it is written in a thread."""
        stream, _ = self._ask(messages, model_settings, model_request_parameters)
        reply: ChatReply = await in_thread(lambda: stream.reply)
        found: list[Any] = [parts.TextPart(reply.text)] if reply.text else []
        found += [parts.ToolCallPart(one.name, one.arguments, one.id) for one in reply.calls]
        return parts.ModelResponse(
            parts=found, model_name=self.model_name, provider_name=self.system,
            usage=_usage(reply), finish_reason=_FINISH[reply.finish],
            provider_details=reply.notes or None,
        )  # fmt: skip

    @asynccontextmanager
    async def request_stream(
        self,
        messages: list[parts.ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
        run_context: Any = None,  # noqa: ARG002
    ) -> AsyncGenerator[StreamedResponse]:
        """Yield the model's answer as it is written; calls come whole."""
        stream, parameters = self._ask(messages, model_settings, model_request_parameters)
        try:
            yield CallMeMaybeStream(parameters, stream, self.model_name)
        finally:
            stream.close()

    def _ask(
        self,
        messages: list[parts.ModelMessage],
        model_settings: ModelSettings | None,
        asked: ModelRequestParameters,
    ) -> tuple[ChatStream, ModelRequestParameters]:
        settings, asked = self.prepare_request(model_settings, asked)
        chat = [made for one in messages for made in _chat_messages(one)]
        instructions = self._get_instruction_parts(messages, asked) or ()
        chat[:0] = [{"role": "system", "content": one.content} for one in instructions]
        given: dict[str, Any] = dict(settings or {})
        is_native = asked.output_mode == "native" and asked.output_object is not None
        tools = [
            {"name": one.name, "description": one.description or "", "parameters": one.parameters_json_schema}
            for one in [*asked.function_tools, *asked.output_tools]
        ]  # fmt: skip
        answer = asked.output_object.json_schema if is_native and asked.output_object else None
        stream = self._chat.ask(
            chat,
            tools,
            choice=_choice(given.get("tool_choice"), asked, has_tools=bool(tools)),
            parallel=given.get("parallel_tool_calls") is not False,
            answer=answer,
            decoding=decoding_of({**given, "stop": given.get("stop_sequences")}),
        )
        return stream, asked


@dataclass
class CallMeMaybeStream(StreamedResponse):
    """A model's answer as it is written."""

    _stream: ChatStream
    _name: str
    _created: datetime = field(default_factory=lambda: datetime.now(UTC))

    async def _get_event_iterator(self) -> AsyncIterator[parts.ModelResponseStreamEvent]:
        pieces, over = iter(self._stream), object()
        while (piece := await in_thread(lambda: next(pieces, over))) is not over:
            for event in self._parts_manager.handle_text_delta(
                vendor_part_id="text", content=piece
            ):
                yield event
        reply = self._stream.reply
        self._usage = _usage(reply)
        self.finish_reason = _FINISH[reply.finish]
        self.provider_details = reply.notes or None
        for at, one in enumerate(reply.calls):
            yield self._parts_manager.handle_tool_call_part(
                vendor_part_id=at, tool_name=one.name, args=one.arguments, tool_call_id=one.id
            )

    async def close_stream(self) -> None:
        """End the turn."""
        self._stream.close()

    @property
    def model_name(self) -> str:
        """The model's name."""
        return self._name

    @property
    def provider_name(self) -> str:
        """The provider's name."""
        return "callmemaybe"

    @property
    def provider_url(self) -> None:
        """No address: the model runs in this process."""
        return

    @property
    def timestamp(self) -> datetime:
        """When the answer was begun."""
        return self._created


def _choice(wanted: Any, asked: ModelRequestParameters, *, has_tools: bool) -> Any:
    """Return OpenAI's ``tool_choice`` of what pydantic-ai asks for."""
    if not has_tools:
        return None
    names = wanted if isinstance(wanted, list) else getattr(wanted, "function_tools", None)
    if names is not None:
        allowed = [*names, *(one.name for one in asked.output_tools)]
        mode = "auto" if asked.allow_text_output and not isinstance(wanted, list) else "required"
        return {
            "type": "allowed_tools", "mode": mode,
            "tools": [{"type": "function", "name": name} for name in allowed],
        }  # fmt: skip
    if wanted in ("none", "required"):
        return wanted
    return "auto" if asked.allow_text_output or asked.output_mode == "native" else "required"


def _chat_messages(message: parts.ModelMessage) -> Iterator[Message]:
    """Yield a message of pydantic-ai in OpenAI's shape."""
    if isinstance(message, parts.ModelResponse):
        texts = [one.content for one in message.parts if isinstance(one, parts.TextPart)]
        calls = [
            {"id": one.tool_call_id, "type": "function",
             "function": {"name": one.tool_name, "arguments": one.args_as_json_str()}}
            for one in message.parts if isinstance(one, parts.ToolCallPart)
        ]  # fmt: skip
        yield {"role": "assistant", "content": "".join(texts), "tool_calls": calls}
        return
    for part in message.parts:
        match part:
            case parts.SystemPromptPart():
                yield {"role": "system", "content": part.content}
            case parts.UserPromptPart():
                yield {"role": "user", "content": _text(part.content)}
            case parts.ToolReturnPart():
                yield {
                    "role": "tool", "tool_call_id": part.tool_call_id,
                    "content": part.model_response_str(),
                }  # fmt: skip
            case parts.RetryPromptPart() if part.tool_name is not None:
                yield {
                    "role": "tool", "tool_call_id": part.tool_call_id,
                    "content": part.model_response(),
                }  # fmt: skip
            case _ if hasattr(part, "model_response"):
                yield {"role": "system", "content": part.model_response()}


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    texts = [one if isinstance(one, str) else getattr(one, "content", None) for one in content]
    if not all(isinstance(one, str) for one in texts):
        raise InputError("only text can be read", where="messages")
    return "\n".join(map(str, texts))


def _usage(reply: ChatReply) -> RequestUsage:
    result = reply.result
    return RequestUsage(
        input_tokens=result.prompt_tokens, output_tokens=result.tokens,
        cache_read_tokens=result.cached_tokens,
    )  # fmt: skip
