"""A client of instructor over a model in this process: objects of pydantic classes, by functions or by a JSON Schema.

::

    from callmemaybe.integrations.instructor import from_callmemaybe
    client = from_callmemaybe("nano")
    client.create(response_model=Place, messages=[{"role": "user", "content": "I live in Paris."}])
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import instructor
from instructor import Instructor, Mode
from openai.types.chat import ChatCompletion, ChatCompletionChunk

from callmemaybe.errors import InputError
from callmemaybe.integrations._chat import (
    ChatReply,
    ChatStream,
    LocalChat,
    ModelLike,
    decoding_of,
    stated_schema,
)

#: What works without a text that the model words by itself.
MODES = (Mode.TOOLS, Mode.PARALLEL_TOOLS, Mode.JSON_SCHEMA)


def from_callmemaybe(
    model: ModelLike = "nano",
    *,
    mode: Mode = Mode.TOOLS,
    format: str | None = None,  # noqa: A002
) -> Instructor:
    """Return an instructor client of a model; ``model`` is what ``load_model`` takes, or a loaded one.

    ``mode`` is one of :data:`MODES`. Raises InputError for another, and what ``load_model`` raises.
    """
    if mode not in MODES:
        raise InputError(
            f"the mode {mode} is not for models in this process", where="mode",
            hint=f"use one of {', '.join(one.name for one in MODES)}",
        )  # fmt: skip
    completions = InstructorCompletions(LocalChat(model, format))
    made = instructor.patch(create=completions.create, mode=mode)
    return Instructor(client=None, create=made, mode=mode)


class InstructorCompletions:
    """``chat.completions`` of OpenAI's client, as far as instructor uses it."""

    def __init__(self, chat: LocalChat) -> None:
        self._chat = chat

    def create(
        self,
        *,
        messages: Sequence[Mapping[str, Any]],
        tools: Sequence[Mapping[str, Any]] = (),
        tool_choice: Any = None,
        parallel_tool_calls: bool | None = None,
        response_format: Any = None,
        stream: bool = False,
        **settings: Any,
    ) -> Any:
        """Return a completion, or an iterator of its chunks."""
        written = self._chat.ask(
            messages,
            tools,
            choice=tool_choice,
            parallel=parallel_tool_calls is not False,
            answer=stated_schema(response_format),
            decoding=decoding_of(settings),
        )
        return self._chunks(written) if stream else self._whole(written.reply)

    def _head(self, kind: str) -> dict[str, Any]:
        return {
            "id": "local",
            "object": kind,
            "created": int(time.time()),
            "model": self._chat.name,
        }

    def _whole(self, reply: ChatReply) -> ChatCompletion:
        result = reply.result
        message = {
            "role": "assistant", "content": reply.text or None,
            "tool_calls": [_call(one.id, one.name, one.arguments) for one in reply.calls] or None,
        }  # fmt: skip
        choice = {"index": 0, "message": message, "finish_reason": reply.finish, "logprobs": None}
        usage = {
            "prompt_tokens": result.prompt_tokens, "completion_tokens": result.tokens,
            "total_tokens": result.prompt_tokens + result.tokens,
        }  # fmt: skip
        whole = {**self._head("chat.completion"), "choices": [choice], "usage": usage}
        return ChatCompletion.model_validate(whole)

    def _chunks(self, written: ChatStream) -> Iterator[ChatCompletionChunk]:
        for piece in written:
            yield self._chunk({"role": "assistant", "content": piece})
        reply = written.reply
        calls = [
            {"index": at, **_call(one.id, one.name, one.arguments)}
            for at, one in enumerate(reply.calls)
        ]
        if calls:
            yield self._chunk({"role": "assistant", "tool_calls": calls})
        yield self._chunk({}, reply.finish)

    def _chunk(self, delta: dict[str, Any], finish: str | None = None) -> ChatCompletionChunk:
        choice = {"index": 0, "delta": delta, "finish_reason": finish}
        head = self._head("chat.completion.chunk")
        return ChatCompletionChunk.model_validate({**head, "choices": [choice]})


def _call(id_: str, name: str, arguments: str) -> dict[str, Any]:
    return {"id": id_, "type": "function", "function": {"name": name, "arguments": arguments}}
