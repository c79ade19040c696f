"""The chat interface: ``/v1/chat/completions``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from callmemaybe.generation.result import TokenLogprob, TurnResult
from callmemaybe.server import request_models
from callmemaybe.server.common import (
    Interface,
    ServedModel,
    allowed_output,
    check_history,
    decoding_config,
    logprob_json,
    new_id,
    read_tools,
    sampling_settings,
    thinking_budget,
)
from callmemaybe.server.constraints import stated_answer
from callmemaybe.server.earlier_calls import written_arguments
from callmemaybe.server.http_errors import ApiError, invalid_value, unsupported
from callmemaybe.server.images import message_content
from callmemaybe.server.request_models import ChatMessage, ChatRequest
from callmemaybe.server.turns import TurnRequest, TurnUpdate, finish_reason
from callmemaybe.tools import ArgumentsDelta, CallStarted, StreamEvent, TextDelta

ROUTE = "/v1/chat/completions"
#: OpenAI's seeds may be negative, the sampler's may not.
SEEDS = 2**63


def parse(data: Any) -> ChatRequest:
    """Return the request of a JSON body; raise ApiError if it is not valid."""
    request = request_models.parse_request(ChatRequest, request_models.CHAT_NEUTRAL, data)
    if request.max_tokens and request.max_completion_tokens:
        raise invalid_value("max_tokens", "Give 'max_completion_tokens' or 'max_tokens', not both.")
    if request.top_logprobs is not None and not request.logprobs:
        raise invalid_value("top_logprobs", "'top_logprobs' takes 'logprobs': true.")
    if request.stream_options is not None and not request.stream:
        raise invalid_value("stream_options", "'stream_options' is only allowed when streaming.")
    if request.callmemaybe and request.callmemaybe.steps and not request.stream:
        raise invalid_value("callmemaybe.steps", "Steps are sent in streams only.")
    if request.callmemaybe and request.callmemaybe.early_calls and not request.stream:
        raise invalid_value("callmemaybe.early_calls", "Only a stream can send a call early.")
    return request


def turn_requests(request: ChatRequest, served: ServedModel) -> list[TurnRequest]:
    """Return a turn for each choice."""
    config = served.config
    served.check_name(request.model)
    if request.callmemaybe and request.callmemaybe.steps and not served.has_steps:
        raise unsupported(
            "callmemaybe.steps", "The model is on another server, which tells no steps."
        )
    count = request.n or 1
    if count > config.max_choices:
        raise unsupported("n", f"'n' is {count}; this server gives at most {config.max_choices}.")
    messages = read_messages(request.messages, served)
    tools = read_tools(
        [tool.model_dump(exclude_none=True) for tool in request.tools or ()], config.most_tools
    )
    thinking = thinking_budget(request.reasoning_effort, "reasoning_effort", served)
    answer = stated_answer(request, messages if served.is_single_request else ())
    wanted = allowed_output(
        request.tool_choice,
        served=served,
        has_tools=bool(tools),
        parallel=request.parallel_tool_calls,
        most=None,
        answer=answer.value,
        thinking=thinking,
    )
    stop = request.stop
    found = []
    for index in range(count):
        options = decoding_config(
            config,
            most=request.max_completion_tokens or request.max_tokens,
            thinking=thinking,
            temperature=request.temperature,
            top_p=request.top_p,
            **sampling_settings(request),
            seed=None if request.seed is None else (request.seed + index) % SEEDS,
            stop=(stop,) if isinstance(stop, str) else tuple(stop or ()),
            logprobs=bool(request.logprobs),
            top_logprobs=request.top_logprobs or 0,
            trace=bool(request.callmemaybe and request.callmemaybe.steps),
        )
        early = bool(request.callmemaybe and request.callmemaybe.early_calls)
        found.append(
            TurnRequest(
                messages, tools, wanted, options, early, served.is_single_request,
                answer_param=answer.param,
            )
        )  # fmt: skip
    return found


def read_messages(given: Sequence[ChatMessage], served: ServedModel) -> list[dict[str, Any]]:
    """Return messages as prompts need them; raise ApiError for an impossible conversation."""
    messages = [
        _message(one, served, f"messages[{place}].content") for place, one in enumerate(given)
    ]
    check_history(messages, "messages", served)
    return messages


def _message(message: Any, served: ServedModel, where: str) -> dict[str, Any]:
    """Return a message as prompts need it: text in one part, "developer" as "system"."""
    as_prompt: dict[str, Any] = message.model_dump(exclude_none=True)
    if isinstance(message.content, list):
        as_prompt["content"] = message_content(
            message.content, where, served.name, reads_images=served.reads_images
        )
    if message.role == "developer":
        as_prompt["role"] = "system"
    as_prompt.setdefault("content", "")
    if not as_prompt.get("tool_calls"):
        as_prompt.pop("tool_calls", None)
    for made in as_prompt.get("tool_calls", ()):
        made["function"]["arguments"] = written_arguments(made["function"]["arguments"])
    return as_prompt


@dataclass
class _ChoiceState:
    """The answer of one choice so far."""

    is_begun: bool = False
    text: str = ""
    tokens: list[TokenLogprob] = field(default_factory=list)
    calls: list[dict[str, Any]] = field(default_factory=list)
    result: TurnResult | None = None


class ChatCompletionBuilder:
    """Writes updates of turns in the form of the chat interface: chunk by chunk, and as a whole."""

    def __init__(self, request: ChatRequest, served: ServedModel, now: int) -> None:
        self._request = request
        self._choices = [_ChoiceState() for _ in range(request.n or 1)]
        self._wants_usage = bool(request.stream_options and request.stream_options.include_usage)
        self._head = {
            "id": new_id("chatcmpl-", 29), "created": now, "model": served.name,
            "system_fingerprint": served.fingerprint, "service_tier": "default",
        }  # fmt: skip

    @property
    def results(self) -> Sequence[TurnResult]:
        """The results of the choices that have ended."""
        return [choice.result for choice in self._choices if choice.result is not None]

    #: The bytes that end a stream.
    closing = b"data: [DONE]\n\n"

    def begin(self) -> list[dict[str, Any]]:
        """Return the chunks in front of all updates: none."""
        return []

    def failed(self, problem: ApiError) -> list[dict[str, Any]]:
        """Return what a stream tells of a turn that failed after it had begun."""
        return [problem.body]

    def take(self, index: int, update: TurnUpdate) -> list[dict[str, Any]]:
        """Record an update of choice number ``index``, and return its chunks."""
        choice, result = self._choices[index], update.result
        chunks = []
        if update.steps:
            steps = [step.as_json() for step in update.steps]
            chunks.append(self._extension({"index": index, "steps": steps}))
        if not choice.is_begun and (update.events or result is not None):
            choice.is_begun = True
            content = None if update.events and isinstance(update.events[0], CallStarted) else ""
            delta = {"role": "assistant", "content": content, "refusal": None}
            chunks.append(self._chunk(index, delta))
        tokens = update.tokens
        for event in update.events:
            chunks.append(self._event_chunk(index, event, tokens))
            if isinstance(event, TextDelta):
                tokens = ()
        if result is not None:
            choice.result = result
            if self._request.callmemaybe and self._request.callmemaybe.steps:
                chunks.append(self._extension({"index": index, "end": _end(result)}))
            finish = finish_reason(result)
            chunks.append(self._chunk(index, {}, result.call_tokens, finish))
        return chunks

    def _event_chunk(
        self, index: int, event: StreamEvent, tokens: Sequence[TokenLogprob]
    ) -> dict[str, Any]:
        choice = self._choices[index]
        match event:
            case TextDelta():
                text = event.data.decode()
                choice.text += text
                choice.tokens += tokens
                return self._chunk(index, {"content": text}, tokens)
            case CallStarted():
                head = {"id": event.id, "type": "function"}
                function = {"name": event.name, "arguments": ""}
                choice.calls.append({**head, "function": function})
                delta = {"index": event.index, **head, "function": dict(function)}
            case ArgumentsDelta():
                text = event.data.decode()
                choice.calls[event.index]["function"]["arguments"] += text
                delta = {"index": event.index, "function": {"arguments": text}}
            case _:
                raise AssertionError(f"no update has {event!r}")
        return self._chunk(index, {"tool_calls": [delta]})

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
        assert choice.result is not None
        finish = finish_reason(choice.result)
        # A call that was cut off is not a call.
        calls = choice.calls if finish == "tool_calls" else []
        message: dict[str, Any] = {
            "role": "assistant", "content": choice.text if choice.text or not calls else None,
            "refusal": None, "annotations": [],
        }  # fmt: skip
        if calls:
            message["tool_calls"] = calls
        return {
            "index": index,
            "message": message,
            "logprobs": self._logprobs(
                [*choice.tokens, *(choice.result.call_tokens if calls else ())]
            ),
            "finish_reason": finish,
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
                  "logprobs": self._logprobs(tokens) if tokens or "content" in delta else None,
                  "finish_reason": finish}  # fmt: skip
        return {**self._base(), "choices": [choice]}

    def _extension(self, extension: dict[str, Any]) -> dict[str, Any]:
        return {**self._base(), "choices": [], "callmemaybe": extension}

    def _logprobs(self, tokens: Sequence[TokenLogprob]) -> dict[str, Any] | None:
        if not self._request.logprobs:
            return None
        return {"content": [logprob_json(token) for token in tokens], "refusal": None}

    def _usage(self) -> dict[str, Any]:
        results = self.results
        parse = max((result.prompt_tokens for result in results), default=0)
        # The prompt counts once, so only what was cached for all choices counts as cached.
        cached = min((result.cached_tokens for result in results), default=0)
        written = sum(result.tokens for result in results)
        thought = sum(result.thought_tokens for result in results)
        return {
            "prompt_tokens": parse,
            "completion_tokens": written,
            "total_tokens": parse + written,
            "prompt_tokens_details": {
                "cached_tokens": cached, "cache_write_tokens": 0, "audio_tokens": 0,
            },
            "completion_tokens_details": {
                "reasoning_tokens": thought, "audio_tokens": 0,
                "accepted_prediction_tokens": 0, "rejected_prediction_tokens": 0,
            },
        }  # fmt: skip


def _end(result: TurnResult) -> dict[str, Any]:
    """Return what is sent of a turn's end to those who asked for its steps."""
    return {
        "finish_reason": finish_reason(result), "prompt_tokens": result.prompt_tokens,
        "tokens": result.tokens, "passes": result.passes, "seconds": result.seconds.get("total", 0.0),
        "distribution": [[name, chance] for name, chance in result.distribution.items()],
        "confidence": result.confidence,
    }  # fmt: skip


INTERFACE = Interface(ROUTE, parse, turn_requests, ChatCompletionBuilder)
