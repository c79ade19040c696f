"""A model in this process behind the chat interface of a foreign library: messages in, text and calls out.

Frameworks for agents expect a conversation. A model that reads one request (nano) gets it, as in the server, through
:mod:`callmemaybe.agent.single_request`; what it does not read is logged once and named in the reply. Calls are handed out when their turn
has ended well, never from a fragment. One generator serves all adapters of a model; threads take its steps in turn.
"""

from __future__ import annotations

import codecs
import json
import logging
import secrets
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from threading import Lock
from typing import Any, Literal

from callmemaybe.agent.single_request import read_conversation, run_turn, unwritable
from callmemaybe.caller import load_model
from callmemaybe.conversation.history import content_text, unpaired_call
from callmemaybe.errors import BudgetError, InputError
from callmemaybe.generation.config import DecodingConfig
from callmemaybe.generation.local import LocalGenerator
from callmemaybe.generation.remote import RemoteGenerator
from callmemaybe.generation.result import TurnResult
from callmemaybe.generation.turn import TurnGenerator, TurnStream
from callmemaybe.models.base import Model
from callmemaybe.models.remote import RemoteModel
from callmemaybe.tools import TextDelta, ToolCall, ToolSpec
from callmemaybe.tools.spec import check_distinct
from callmemaybe.wire.output_grammar import OutputSpec
from callmemaybe.wire.tool_choice import output_spec

_LOG = logging.getLogger("callmemaybe")
#: Models that stay loaded because an adapter named them.
KEPT_MODELS = 4
Message = Mapping[str, Any]
#: A model's name, folder or address, a loaded one, or a generator (``Caller.generator``) to share.
ModelLike = str | Path | Model | RemoteModel | TurnGenerator


@dataclass(frozen=True)
class ChatReply:
    """What a model answered: text, or calls with ids of their own.

    ``finish`` is why it ended, in OpenAI's words; of a reply that was cut off ("length") no call counts. ``unread`` names the
    parts of the conversation that the model did not read.
    """

    text: str
    calls: tuple[ToolCall, ...]
    finish: Literal["stop", "length", "tool_calls"]
    result: TurnResult
    unread: tuple[str, ...] = ()

    @property
    def notes(self) -> dict[str, Any]:
        """What a caller may want to know besides, as JSON: how sure the model was of the function, remarks, what it did not read."""
        chances = {name or "": chance for name, chance in self.result.distribution.items()}
        found = {
            "functions": chances,
            "remarks": [*self.result.remarks],
            "unread": [*self.unread],
        }
        return {name: value for name, value in found.items() if value}


class ChatStream:
    """A reply as it is written: iterate over the pieces of its text, then read :attr:`reply`."""

    def __init__(self, run: Generator[str, None, ChatReply]) -> None:
        self._run = run
        self._reply: ChatReply | None = None

    def __iter__(self) -> Iterator[str]:
        self._reply = yield from self._run

    def close(self) -> None:
        """End the turn, if it is not over, and discard it."""
        self._run.close()

    @property
    def reply(self) -> ChatReply:
        """The whole reply; reads what is left of it."""
        for _ in self if self._reply is None else ():
            pass
        if self._reply is None:
            raise RuntimeError("the turn was closed before its end")
        return self._reply


class LocalChat:
    """A model that is asked in the shapes of OpenAI's chat interface.

    ``model`` is what ``load_model`` takes, or a loaded model. Raises what ``load_model`` and ``Caller`` raise for models and formats.
    """

    def __init__(self, model: ModelLike = "nano", format: str | None = None) -> None:  # noqa: A002
        kept = isinstance(model, str | Path)
        make = _kept_generator if kept else _generator_of
        self._generator, self._lock = make(str(model) if kept else model, format)  # type: ignore[arg-type]
        self.name = str(model) if kept else getattr(getattr(model, "model", model), "name", "model")
        self._logged: set[str] = set()

    @property
    def writes_text(self) -> bool:
        """Whether the model can answer in words of its own."""
        return self._generator.format.has_free_text

    def ask(
        self,
        messages: Sequence[Message],
        tools: Sequence[Mapping[str, Any]] = (),
        *,
        choice: str | Mapping[str, Any] | None = None,
        parallel: bool = True,
        answer: Any = None,
        decoding: DecodingConfig | None = None,
    ) -> ChatStream:
        """Return the reply to a conversation, to be taken piece by piece.

        ``tools``, ``choice`` (``tool_choice``) and ``parallel`` are OpenAI's; ``answer`` is the JSON Schema, or the grammar, of an
        answer in text. Raises InputError for what is none of these, or what the model cannot write, at once.
        """
        offered = [ToolSpec.from_json(tool, f"tools/{at}") for at, tool in enumerate(tools)]
        check_distinct(offered, "tools")
        found = [self._message(one, f"messages/{at}") for at, one in enumerate(messages)]
        form = self._generator.format
        if wrong := unpaired_call(found):
            raise InputError(f"{wrong[0].lower()}{wrong[1:]}", where="messages")
        if form.is_single_request and all(one["role"] != "user" for one in found):
            raise InputError(
                f"the model {self.name!r} reads the request of a user; there is none",
                where="messages",
            )
        refused = unwritable(form, self.name, choice=choice, has_tools=bool(offered), answer=answer)
        if refused:
            raise InputError(refused[1], where=refused[0])
        spec = output_spec(
            choice, has_tools=bool(offered), parallel=parallel and form.is_parallel, answer=answer
        )
        return ChatStream(self._replies(found, offered, spec, decoding or DecodingConfig()))

    def _message(self, message: Message, where: str) -> dict[str, Any]:
        """Return a message as prompts need it: text in one part, "developer" as "system"."""
        found = {name: value for name, value in message.items() if value is not None}
        if not self._generator.reads_images:
            found["content"] = content_text(message.get("content"), where)
        if found.get("role") == "developer":
            found["role"] = "system"
        if found.get("role") not in ("system", "user", "assistant", "tool"):
            raise InputError(f"there is no role {found.get('role')!r}", where=f"{where}/role")
        if not found.get("tool_calls"):
            found.pop("tool_calls", None)
        return found

    def _replies(
        self,
        messages: Sequence[Message],
        tools: Sequence[ToolSpec],
        spec: OutputSpec,
        decoding: DecodingConfig,
    ) -> Generator[str, None, ChatReply]:
        unread = self._unread(messages)
        text = codecs.getincrementaldecoder("utf-8")("replace")
        opened: list[TurnStream] = []
        is_single = self._generator.format.is_single_request
        turn = run_turn(
            self._generator, messages, tools, spec, decoding, opened.append, is_single=is_single
        )
        try:
            while True:
                try:
                    with self._lock:
                        events = next(turn)
                except StopIteration as ended:
                    result: TurnResult = ended.value
                    break
                except BudgetError:
                    if opened:
                        raise
                    return ChatReply("", (), "length", TurnResult(ended="length"), unread)
                data = b"".join(one.data for one in events if isinstance(one, TextDelta))
                if piece := text.decode(data):
                    yield piece
            # What a model says that reads one request was put together, and is no event of the model's.
            rest = result.text if is_single else text.decode(b"", True)
            if rest:
                yield rest
            return self._reply(result, unread)
        finally:
            with self._lock:
                turn.close()
                for stream in opened:
                    stream.close()

    def _reply(self, result: TurnResult, unread: tuple[str, ...]) -> ChatReply:
        finish: Literal["stop", "length", "tool_calls"] = "tool_calls" if result.calls else "stop"
        if result.ended == "length":
            finish = "length"
        calls = tuple(replace(one, id=self._new_id()) for one in result.calls)
        return ChatReply(result.text, calls if finish != "length" else (), finish, result, unread)

    def _new_id(self) -> str:
        """Return an id for a call, of the length that the format needs."""
        length = self._generator.format.id_length
        return (
            f"call_{secrets.token_hex(12)}"
            if length is None
            else secrets.token_hex(length)[:length]
        )

    def _unread(self, messages: Sequence[Message]) -> tuple[str, ...]:
        """Return what of a conversation the model does not read; log each kind once."""
        if not self._generator.format.is_single_request:
            return ()
        unread = read_conversation(messages).unread
        for what in unread:
            if what not in self._logged:
                self._logged.add(what)
                _LOG.warning("the model %s does not read %s", self.name, what)
        return unread


def _generator_of(
    model: ModelLike,
    format: str | None,  # noqa: A002 - the word users know
) -> tuple[TurnGenerator, AbstractContextManager[Any]]:
    """Return the generator of a model, and what a thread holds while it takes a step."""
    if isinstance(model, str | Path):
        model = load_model(model)
    if isinstance(model, TurnGenerator):
        return model, Lock()
    if isinstance(model, RemoteModel):
        return RemoteGenerator(model, format=format), nullcontext()
    return LocalGenerator(model, format=format), Lock()


_kept_generator: Callable[[str, str | None], tuple[TurnGenerator, AbstractContextManager[Any]]] = (
    lru_cache(KEPT_MODELS)(_generator_of)
)


def arguments_object(call: ToolCall) -> dict[str, Any]:
    """Return the arguments of a call as Python's JSON reader has them: numbers as int and float."""
    found: dict[str, Any] = json.loads(call.arguments)
    return found


def decoding_of(settings: Mapping[str, Any]) -> DecodingConfig:
    """Return the settings of a request that are known here, by OpenAI's names; others are left to the caller."""
    stop = settings.get("stop")
    return DecodingConfig(
        max_tokens=settings.get("max_completion_tokens") or settings.get("max_tokens"),
        temperature=settings.get("temperature"),
        top_p=settings.get("top_p"),
        top_k=settings.get("top_k"),
        seed=settings.get("seed"),
        frequency_penalty=settings.get("frequency_penalty"),
        presence_penalty=settings.get("presence_penalty"),
        stop=(stop,) if isinstance(stop, str) else tuple(stop) if stop else None,
    )


def stated_schema(response_format: Any) -> Any:
    """Return the JSON Schema that OpenAI's ``response_format`` states; None for any text."""
    if response_format is None:
        return None
    kind = response_format.get("type") if isinstance(response_format, Mapping) else None
    if kind == "text":
        return None
    if kind == "json_object":
        return {"type": "object"}
    inner = response_format.get("json_schema") if kind == "json_schema" else None
    if not isinstance(inner, Mapping) or not isinstance(inner.get("schema"), Mapping):
        raise InputError(
            "it must have the type json_schema, with a JSON Schema under json_schema.schema, json_object or text",
            where="response_format",
        )
    return inner["schema"]
