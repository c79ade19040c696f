"""The chat interface: ``/v1/chat/completions``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from callmemaybe.generation.local import TokenLogprob
from callmemaybe.server import shapes
from callmemaybe.server.common import (
    Served,
    check_history,
    form_of,
    logprob_json,
    new_id,
    options_of,
    thinking_of,
    tools_of,
    wish_of,
)
from callmemaybe.server.http_errors import Problem, invalid, unsupported
from callmemaybe.server.shapes import BySchema, ChatRequest
from callmemaybe.server.turns import Ask, Begun, Done, More, Piece, Said, Walked

ROUTE = "/v1/chat/completions"
#: OpenAI's seeds may be negative, the engine's may not.
SEEDS = 2**63


def read(data: Any) -> ChatRequest:
    """Return the request that a body holds; raise Problem for what is wrong with it."""
    request = shapes.read(ChatRequest, shapes.CHAT_NEUTRAL, data)
    if request.max_tokens and request.max_completion_tokens:
        raise invalid("max_tokens", "Give 'max_completion_tokens' or 'max_tokens', not both.")
    if request.top_logprobs is not None and not request.logprobs:
        raise invalid("top_logprobs", "'top_logprobs' takes 'logprobs': true.")
    if request.stream_options is not None and not request.stream:
        raise invalid("stream_options", "'stream_options' is only allowed when streaming.")
    if request.callmemaybe and request.callmemaybe.steps and not request.stream:
        raise invalid("callmemaybe.steps", "Steps are told in streams only.")
    return request


def asks(request: ChatRequest, served: Served) -> list[Ask]:
    """Return what is asked of the model, once for each choice."""
    settings = served.settings
    served.check_name(request.model)
    count = request.n or 1
    if count > settings.choices:
        raise unsupported("n", f"'n' is {count}; this server gives at most {settings.choices}.")
    messages = [_message(one) for one in request.messages]
    check_history(messages, "messages", served)
    tools = tools_of(
        [tool.model_dump(exclude_none=True) for tool in request.tools or ()], settings.most_tools
    )
    form = request.response_format
    thinking = thinking_of(request.reasoning_effort, "reasoning_effort", served)
    wish = wish_of(
        request.tool_choice,
        served=served,
        has_tools=bool(tools),
        parallel=request.parallel_tool_calls,
        most=None,
        answer=form_of(form, form.json_schema.schema_ if isinstance(form, BySchema) else None),
        thinking=thinking,
    )
    stop = request.stop
    found = []
    for index in range(count):
        options = options_of(
            settings,
            most=request.max_completion_tokens or request.max_tokens,
            param="max_tokens" if request.max_tokens else "max_completion_tokens",
            thinking=thinking,
            temperature=request.temperature,
            top_p=request.top_p,
            seed=None if request.seed is None else (request.seed + index) % SEEDS,
            stop=(stop,) if isinstance(stop, str) else tuple(stop or ()),
            logprobs=bool(request.logprobs),
            top_logprobs=request.top_logprobs or 0,
            watch=bool(request.callmemaybe and request.callmemaybe.steps),
        )
        found.append(Ask(messages, tools, wish, options))
    return found


def _message(message: Any) -> dict[str, Any]:
    """Return a message as prompts are made of it: text in one piece, no developers."""
    told: dict[str, Any] = message.model_dump(exclude_none=True)
    if isinstance(message.content, list):
        told["content"] = "".join(part.text for part in message.content)
    if message.role == "developer":
        told["role"] = "system"
    told.setdefault("content", "")
    if not told.get("tool_calls"):
        told.pop("tool_calls", None)
    return told


@dataclass
class _Choice:
    """What one choice has come to."""

    is_begun: bool = False
    text: str = ""
    tokens: list[TokenLogprob] = field(default_factory=list)
    calls: list[dict[str, Any]] = field(default_factory=list)
    done: Done | None = None


class Answer:
    """Tells pieces in the chat interface: chunk by chunk, and as a whole."""

    def __init__(self, request: ChatRequest, served: Served, now: int) -> None:
        self._request = request
        self._choices = [_Choice() for _ in range(request.n or 1)]
        self._wants_usage = bool(request.stream_options and request.stream_options.include_usage)
        self._head = {
            "id": new_id("chatcmpl-", 29), "created": now, "model": served.name,
            "system_fingerprint": served.fingerprint, "service_tier": "default",
        }  # fmt: skip

    @property
    def dones(self) -> Sequence[Done]:
        """The ends of the choices that have ended."""
        return [choice.done for choice in self._choices if choice.done is not None]

    #: What ends a stream.
    closing = b"data: [DONE]\n\n"

    def begin(self) -> list[dict[str, Any]]:
        """Return the chunks in front of all pieces: none."""
        return []

    def failed(self, problem: Problem) -> list[dict[str, Any]]:
        """Return what a stream tells of a turn that failed after it had begun."""
        return [problem.body]

    def take(self, index: int, piece: Piece) -> list[dict[str, Any]]:
        """Note a piece of choice number ``index``, and return the chunks that tell it."""
        choice = self._choices[index]
        chunks = []
        if not choice.is_begun and not isinstance(piece, Walked):
            choice.is_begun = True
            content = None if isinstance(piece, Begun) else ""
            chunks.append(self._chunk(index, {"role": "assistant", "content": content,
                                              "refusal": None}))  # fmt: skip
        match piece:
            case Said():
                choice.text += piece.text
                choice.tokens += piece.tokens
                chunks.append(self._chunk(index, {"content": piece.text}, piece.tokens))
            case Begun():
                head = {"id": piece.id, "type": "function"}
                function = {"name": piece.name, "arguments": ""}
                choice.calls.append({**head, "function": function})
                delta = {"index": piece.index, **head, "function": dict(function)}
                chunks.append(self._chunk(index, {"tool_calls": [delta]}))
            case More():
                choice.calls[piece.index]["function"]["arguments"] += piece.text
                delta = {"index": piece.index, "function": {"arguments": piece.text}}
                chunks.append(self._chunk(index, {"tool_calls": [delta]}))
            case Walked():
                steps = [step.as_json() for step in piece.steps]
                chunks.append(self._extension({"index": index, "steps": steps}))
            case Done():
                choice.done = piece
                if self._request.callmemaybe and self._request.callmemaybe.steps:
                    chunks.append(self._extension({"index": index, "end": _end(piece)}))
                chunks.append(self._chunk(index, {}, finish=piece.finish))
        return chunks

    def last(self) -> list[dict[str, Any]]:
        """Return the chunks behind those of the choices."""
        if not self._wants_usage:
            return []
        return [{**self._base(), "choices": [], "usage": self._usage()}]

    def whole(self) -> dict[str, Any]:
        """Return everything as one completion."""
        return {
            "id": self._head["id"],
            "object": "chat.completion",
            **{key: value for key, value in self._head.items() if key != "id"},
            "choices": [self._whole(index) for index in range(len(self._choices))],
            "usage": self._usage(),
        }

    def _whole(self, index: int) -> dict[str, Any]:
        choice = self._choices[index]
        assert choice.done is not None
        # What was cut off is no call.
        calls = choice.calls if choice.done.finish == "tool_calls" else []
        message: dict[str, Any] = {
            "role": "assistant", "content": choice.text if choice.text or not calls else None,
            "refusal": None, "annotations": [],
        }  # fmt: skip
        if calls:
            message["tool_calls"] = calls
        return {
            "index": index,
            "message": message,
            "logprobs": self._logprobs(choice.tokens),
            "finish_reason": choice.done.finish,
        }

    def _base(self) -> dict[str, Any]:
        head = dict(self._head)
        base = {"id": head.pop("id"), "object": "chat.completion.chunk", **head}
        return {**base, "usage": None} if self._wants_usage else base

    def _chunk(
        self,
        index: int,
        delta: dict[str, Any],
        tokens: Sequence[TokenLogprob] = (),
        finish: str | None = None,
    ) -> dict[str, Any]:
        choice = {"index": index, "delta": delta,
                  "logprobs": self._logprobs(tokens) if "content" in delta else None,
                  "finish_reason": finish}  # fmt: skip
        return {**self._base(), "choices": [choice]}

    def _extension(self, told: dict[str, Any]) -> dict[str, Any]:
        return {**self._base(), "choices": [], "callmemaybe": told}

    def _logprobs(self, tokens: Sequence[TokenLogprob]) -> dict[str, Any] | None:
        if not self._request.logprobs:
            return None
        return {"content": [logprob_json(token) for token in tokens], "refusal": None}

    def _usage(self) -> dict[str, Any]:
        dones = self.dones
        read = max((done.prompt_tokens for done in dones), default=0)
        # The prompt counts once, so of it counts as kept what was before any of the choices.
        cached = min((done.cached_tokens for done in dones), default=0)
        written = sum(done.tokens for done in dones)
        thought = sum(done.thought_tokens for done in dones)
        return {
            "prompt_tokens": read,
            "completion_tokens": written,
            "total_tokens": read + written,
            "prompt_tokens_details": {
                "cached_tokens": cached, "cache_write_tokens": 0, "audio_tokens": 0,
            },
            "completion_tokens_details": {
                "reasoning_tokens": thought, "audio_tokens": 0,
                "accepted_prediction_tokens": 0, "rejected_prediction_tokens": 0,
            },
        }  # fmt: skip


def _end(done: Done) -> dict[str, Any]:
    """Return what is told of a turn's end to those who watch its steps."""
    return {
        "finish_reason": done.finish, "prompt_tokens": done.prompt_tokens, "tokens": done.tokens,
        "passes": done.passes, "seconds": done.seconds,
        "distribution": [[name, chance] for name, chance in done.distribution.items()],
    }  # fmt: skip
