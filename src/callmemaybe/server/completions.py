"""The completions interface: ``/v1/completions``, which continues a text, under a grammar where one is given."""

from __future__ import annotations

import codecs
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any

from pydantic import Discriminator, Field, Tag

from callmemaybe.generation.continuation import text_prompt
from callmemaybe.generation.result import TokenLogprob, TurnResult
from callmemaybe.server.chat import SEEDS
from callmemaybe.server.common import (
    MIN_LOGPROB,
    Interface,
    ServedModel,
    decoding_config,
    new_id,
    sampling_settings,
)
from callmemaybe.server.constraints import stated_answer
from callmemaybe.server.http_errors import ApiError, invalid_value, unsupported
from callmemaybe.server.request_models import (
    BACKENDS,
    MAX_STOPS,
    MAX_TOP_LOGPROBS,
    Bias,
    ConstraintFields,
    Count,
    MinP,
    Penalty,
    Probability,
    Repetition,
    Seed,
    StreamOptions,
    Temperature,
    TokenId,
    TopK,
    parse_request,
)
from callmemaybe.server.turns import TurnRequest, TurnUpdate, finish_reason
from callmemaybe.tools import TextDelta
from callmemaybe.wire.output_grammar import OutputSpec

ROUTE = "/v1/completions"
_FIRST = Field(fail_fast=True, min_length=1)
Id = Annotated[int, Field(ge=0, le=2**31 - 1)]
Ids = Annotated[list[Id], _FIRST]


def _kind_of_prompt(value: Any) -> str | None:
    """Return which form of a prompt is meant, by its first item."""
    if isinstance(value, str):
        return "text"
    first = value[0] if isinstance(value, list) and value else None
    kinds = {str: "texts", int: "ids", list: "lists"}
    return kinds.get(type(first))


Prompt = Annotated[
    Annotated[str, Tag("text")]
    | Annotated[list[str], _FIRST, Tag("texts")]
    | Annotated[Ids, Tag("ids")]
    | Annotated[list[Ids], _FIRST, Tag("lists")],
    Discriminator(
        _kind_of_prompt,
        custom_error_type="prompt_type",
        custom_error_message="a prompt is a text, a list of texts, a list of token ids, or a list of "
        "such lists",
    ),
]


class CompletionRequest(ConstraintFields):
    """A request for completions of texts."""

    model: str
    prompt: Prompt
    max_tokens: Annotated[int, Field(ge=0, le=2**31 - 1)] | None = None
    temperature: Temperature | None = None
    top_p: Probability | None = None
    top_k: TopK | None = None
    min_p: MinP | None = None
    frequency_penalty: Penalty | None = None
    presence_penalty: Penalty | None = None
    repetition_penalty: Repetition | None = None
    logit_bias: dict[TokenId, Bias] | None = None
    seed: Seed | None = None
    stop: str | Annotated[list[str], Field(min_length=1, max_length=MAX_STOPS)] | None = None
    n: Count | None = None
    best_of: Count | None = None
    echo: bool | None = None
    logprobs: Annotated[int, Field(ge=0, le=MAX_TOP_LOGPROBS)] | None = None
    add_special_tokens: bool | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    user: str | None = None

    @property
    def prompts(self) -> list[str | list[int]]:
        """The prompts, each a text or a list of ids."""
        prompt: Any = self.prompt
        is_one = isinstance(prompt, str) or isinstance(prompt[0], int)
        return [prompt] if is_one else prompt

    def where_is(self, ids: list[int]) -> str:
        """Return the place of a list of ids among the prompts."""
        places = [at for at, one in enumerate(self.prompt) if one is ids]
        return f"prompt[{places[0]}]" if places else "prompt"


#: Known parameters that are not supported, with the values that ask for nothing.
COMPLETION_NEUTRAL: Mapping[str, Sequence[Any]] = {
    "allowed_token_ids": (None,),
    "bad_words": (None, []),
    "guided_decoding_backend": BACKENDS,
    "guided_whitespace_pattern": (None,),
    "ignore_eos": (None, False),
    "include_stop_str_in_output": (None, False),
    "min_tokens": (None, 0),
    "prompt_logprobs": (None,),
    "stop_token_ids": (None, []),
    "suffix": (None, ""),
    "truncate_prompt_tokens": (None,),
    "use_beam_search": (None, False),
}


def error_body(problem: ApiError, _request_id: str) -> dict[str, Any]:
    """Return an error with the name that its parameter has in this interface."""
    if problem.param == "messages":
        problem.param = "prompt"
    return problem.body


def check_ids(ids: Sequence[int], size: int, where: str) -> None:
    """Raise ApiError for an id that is none of a model's ``size`` tokens."""
    for at, index in enumerate(ids):
        if index >= size:
            raise invalid_value(
                f"{where}[{at}]",
                f"Invalid value for '{where}[{at}]': the model has no token {index}; its ids are below {size}.",
            )


def parse(data: Any) -> CompletionRequest:
    """Return the request of a JSON body; raise ApiError if it is not valid."""
    request = parse_request(CompletionRequest, COMPLETION_NEUTRAL, data)
    if request.stream_options is not None and not request.stream:
        raise invalid_value("stream_options", "'stream_options' is only allowed when streaming.")
    if request.best_of not in (None, request.n or 1):
        raise unsupported(
            "best_of", "This server writes as many texts as it returns: leave 'best_of' out, or give it "
            "the value of 'n'.",
        )  # fmt: skip
    return request


def turn_requests(request: CompletionRequest, served: ServedModel) -> list[TurnRequest]:
    """Return a turn for each choice: ``n`` of the first prompt, then of the second, and so on."""
    config = served.config
    served.check_name(request.model)
    texts = served.texts
    if texts is None:
        raise unsupported(
            "prompt", "The model is on another server, which this one asks for chats only: use "
            "/v1/chat/completions, or ask that server.",
        )  # fmt: skip
    if not served.format.has_free_text:
        raise invalid_value(
            "prompt", f"The model {served.name!r} only calls functions; it cannot continue a text. "
            "Ask for a call with 'tools', or for JSON with 'response_format', by POST "
            "/v1/chat/completions, or serve a bigger model.",
        )  # fmt: skip
    count, prompts = request.n or 1, request.prompts
    if count > config.max_choices:
        raise unsupported("n", f"'n' is {count}; this server gives at most {config.max_choices}.")
    if count * len(prompts) > config.max_turns:
        raise unsupported(
            "prompt", f"{len(prompts)} prompts with 'n' {count} make {count * len(prompts)} "
            f"completions; this server takes at most {config.max_turns} at once.",
        )  # fmt: skip
    answer = stated_answer(request)
    spec = OutputSpec(calls=False, no_call=True, answer=answer.value)
    stop = request.stop
    found = []
    for prompt in prompts:
        if not isinstance(prompt, str):
            check_ids(prompt, texts.model.size, request.where_is(prompt))
        message = text_prompt(
            prompt, has_begin=request.add_special_tokens is not False,
            is_echoed=bool(request.echo), is_continued=request.max_tokens != 0,
        )  # fmt: skip
        for index in range(count):
            options = decoding_config(
                config,
                most=request.max_tokens,
                thinking=0,
                temperature=request.temperature,
                top_p=request.top_p,
                **sampling_settings(request),
                seed=None if request.seed is None else (request.seed + index) % SEEDS,
                stop=(stop,) if isinstance(stop, str) else tuple(stop or ()),
                logprobs=request.logprobs is not None,
                top_logprobs=request.logprobs or 0,
            )
            found.append(TurnRequest([message], [], spec, options, generator=texts,
                                     answer_param=answer.param))  # fmt: skip
    return found


@dataclass
class _Completion:
    """One choice so far."""

    text: str = ""
    tokens: list[TokenLogprob] = field(default_factory=list)
    result: TurnResult | None = None
    #: Counts the characters in front of each token.
    decoder: codecs.IncrementalDecoder = field(
        default_factory=lambda: codecs.getincrementaldecoder("utf-8")("replace")
    )
    offset: int = 0


class CompletionBuilder:
    """Writes updates of turns in the form of the completions interface: chunk by chunk, and as a whole."""

    #: The bytes that end a stream.
    closing = b"data: [DONE]\n\n"

    def __init__(self, request: CompletionRequest, served: ServedModel, now: int) -> None:
        self._request = request
        self._count = request.n or 1
        self._choices = [_Completion() for _ in range(self._count * len(request.prompts))]
        self._wants_usage = bool(request.stream_options and request.stream_options.include_usage)
        self._head = {
            "id": new_id("cmpl-", 29), "object": "text_completion", "created": now,
            "model": served.name, "system_fingerprint": served.fingerprint,
        }  # fmt: skip

    @property
    def results(self) -> Sequence[TurnResult]:
        """The results of the choices that have ended."""
        return [choice.result for choice in self._choices if choice.result is not None]

    def begin(self) -> list[dict[str, Any]]:
        """Return the chunks in front of all updates: none."""
        return []

    def failed(self, problem: ApiError) -> list[dict[str, Any]]:
        """Return what a stream tells of a turn that failed after it had begun."""
        return [error_body(problem, "")]

    def take(self, index: int, update: TurnUpdate) -> list[dict[str, Any]]:
        """Record an update of choice number ``index``, and return its chunks."""
        choice, tokens, chunks = self._choices[index], update.tokens, []
        for event in update.events:
            assert isinstance(event, TextDelta), f"no completion has {event!r}"
            text = event.data.decode()
            choice.text += text
            choice.tokens += tokens
            chunks.append(self._chunk(index, text, tokens))
            tokens = ()
        if update.result is not None:
            choice.result = update.result
            chunks.append(self._chunk(index, "", (), finish_reason(update.result)))
        return chunks

    def last(self) -> list[dict[str, Any]]:
        """Return the chunks behind those of the choices."""
        if not self._wants_usage:
            return []
        return [{**self._head, "choices": [], "usage": self._usage()}]

    def whole(self) -> dict[str, Any]:
        """Return everything as one completion."""
        choices = []
        for index, choice in enumerate(self._choices):
            assert choice.result is not None
            choice.decoder.reset()
            choice.offset = 0
            finish = finish_reason(choice.result)
            choices.append(self._choice(index, choice.text, choice.tokens, finish))
        return {**self._head, "choices": choices, "usage": self._usage()}

    def _chunk(
        self, index: int, text: str, tokens: Sequence[TokenLogprob], finish: str | None = None
    ) -> dict[str, Any]:
        chunk = {**self._head, "choices": [self._choice(index, text, tokens, finish)]}
        return {**chunk, "usage": None} if self._wants_usage else chunk

    def _choice(
        self, index: int, text: str, tokens: Sequence[TokenLogprob], finish: str | None
    ) -> dict[str, Any]:
        wants_logprobs = self._request.logprobs is not None and (tokens or text)
        return {
            "index": index, "text": text,
            "logprobs": self._logprobs(self._choices[index], tokens) if wants_logprobs else None,
            "finish_reason": finish,
        }  # fmt: skip

    def _logprobs(self, choice: _Completion, tokens: Sequence[TokenLogprob]) -> dict[str, Any]:
        """Return tokens as OpenAI's older interface writes them: four lists, with offsets in characters."""
        offsets = []
        for token in tokens:
            offsets.append(choice.offset)
            choice.offset += len(choice.decoder.decode(token.data))
        return {
            "tokens": [_spelled(token.data) for token in tokens],
            "token_logprobs": [_number(token.logprob) for token in tokens],
            "top_logprobs": [_top(token) for token in tokens],
            "text_offset": offsets,
        }

    def _usage(self) -> dict[str, Any]:
        read = cached = 0
        for at in range(0, len(self._choices), self._count):
            # A prompt counts once, so only what was cached for all of its choices counts as cached.
            results = [one.result for one in self._choices[at : at + self._count] if one.result]
            read += max((result.prompt_tokens for result in results), default=0)
            cached += min((result.cached_tokens for result in results), default=0)
        written = sum(result.tokens for result in self.results)
        return {
            "prompt_tokens": read, "completion_tokens": written, "total_tokens": read + written,
            "prompt_tokens_details": {"cached_tokens": cached},
        }  # fmt: skip


def _spelled(data: bytes) -> str:
    """Return a token as text; a part of a character as OpenAI spells its bytes."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        return "bytes:" + "".join(f"\\x{byte:02x}" for byte in data)


def _number(logprob: float) -> float | None:
    if math.isnan(logprob):  # nothing stood in front of the token
        return None
    return min(max(logprob, MIN_LOGPROB), 0.0)  # a sum of rounded parts may be above 0


def _top(token: TokenLogprob) -> dict[str, float | None] | None:
    """Return the likeliest tokens and the token itself, which is the last if it is none of those."""
    if math.isnan(token.logprob):
        return None
    likeliest = {
        _spelled(data): _number(math.log(chance) if chance > 0 else -math.inf)
        for data, chance in token.top
    }
    return likeliest | {_spelled(token.data): _number(token.logprob)}


INTERFACE = Interface(ROUTE, parse, turn_requests, CompletionBuilder, error_body)
