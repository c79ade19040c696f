"""A plug-in of the program ``llm``: ``llm -m callmemaybe/nano --tool get_weather "What's the weather in Paris?"``.

It is found by its entry point. ``callmemaybe/nano`` is the embedded model; ``-m callmemaybe -o path NAME`` takes what ``load_model`` takes.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import llm
from llm.parts import TextPart, ToolCallPart, ToolResultPart
from pydantic import Field

if TYPE_CHECKING:
    from callmemaybe.integrations._chat import ChatStream


class LlmOptions(llm.Options):  # type: ignore[misc]
    """Options of a prompt, ``-o NAME VALUE``."""

    path: str | None = Field(default=None, description="Name, folder or address of the model.")
    max_tokens: int | None = Field(default=None, ge=1, description="Most tokens of an answer.")
    temperature: float | None = Field(default=None, ge=0, description="0: the likeliest token.")
    top_p: float | None = Field(default=None, gt=0, le=1, description="Share of tokens drawn from.")
    seed: int | None = Field(default=None, ge=0, description="Makes drawn answers repeatable.")


class LlmModel(llm.Model):  # type: ignore[misc]
    """A model of ``llm``; ``name`` is what ``load_model`` takes, None where the option "path" says it."""

    can_stream = True
    supports_schema = True
    supports_tools = True
    Options = LlmOptions

    def __init__(self, model_id: str, name: str | None) -> None:
        self.model_id, self._name = model_id, name

    def execute(
        self,
        prompt: llm.Prompt,
        stream: bool,  # noqa: ARG002 - llm passes it by place
        response: llm.Response,
        conversation: llm.Conversation | None = None,  # noqa: ARG002 - the prompt has its messages
    ) -> Iterator[str]:
        """Yield the pieces of the text; add the calls to ``response`` at its end."""
        from callmemaybe.errors import CallMeMaybeError
        from callmemaybe.integrations._chat import arguments_object

        try:
            written = self._ask(prompt)
            yield from written
            reply = written.reply
        except CallMeMaybeError as error:
            raise llm.ModelError(str(error)) from error
        for call in reply.calls:
            response.add_tool_call(llm.ToolCall(call.name, arguments_object(call), call.id))
        response.set_usage(input=reply.result.prompt_tokens, output=reply.result.tokens)
        response.response_json = {"finish_reason": reply.finish, **reply.notes}

    def _ask(self, prompt: llm.Prompt) -> ChatStream:
        from callmemaybe.errors import ModelError
        from callmemaybe.integrations._chat import LocalChat, decoding_of

        options = prompt.options.model_dump()
        name = options.pop("path") or self._name
        if name is None:
            raise ModelError(
                f"{self.model_id} needs -o path with the name, folder or address of a model"
            )
        tools = [
            {"name": one.name, "description": one.description or "", "parameters": one.input_schema}
            for one in prompt.tools
        ]
        return LocalChat(name).ask(
            [made for one in prompt.messages for made in _chat_messages(one)],
            tools,
            answer=prompt.schema,
            decoding=decoding_of(options),
        )


def _chat_messages(message: Any) -> Iterator[dict[str, Any]]:
    """Yield a message of ``llm`` in OpenAI's shape: each result is one of its own."""
    texts = [part.text for part in message.parts if isinstance(part, TextPart)]
    calls = [
        {"id": part.tool_call_id, "type": "function",
         "function": {"name": part.name, "arguments": json.dumps(part.arguments)}}
        for part in message.parts if isinstance(part, ToolCallPart)
    ]  # fmt: skip
    if texts or calls:
        yield {"role": message.role, "content": "".join(texts), "tool_calls": calls}
    for part in message.parts:
        if isinstance(part, ToolResultPart):
            content = part.output
            if part.exception:
                content = json.dumps({"ok": False, "detail": part.output}, ensure_ascii=False)
            yield {"role": "tool", "tool_call_id": part.tool_call_id, "content": content}


@llm.hookimpl  # type: ignore[untyped-decorator]
def register_models(register: Callable[[llm.Model], None]) -> None:
    """Register the embedded model, and one whose path is an option."""
    register(LlmModel("callmemaybe/nano", "nano"))
    register(LlmModel("callmemaybe", None))
