"""What the interfaces share: the served model, and the translation of requests into turns."""

from __future__ import annotations

import math
import secrets
import string
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property
from hashlib import sha256
from importlib.metadata import version
from typing import Any, Protocol
from urllib.parse import unquote

from callmemaybe.agent.single_request import read_conversation, unwritable
from callmemaybe.conversation.history import unpaired_call
from callmemaybe.generation.config import DecodingConfig
from callmemaybe.generation.continuation import TextGenerator
from callmemaybe.generation.local import LocalGenerator
from callmemaybe.generation.result import TokenLogprob, TurnResult
from callmemaybe.jsonio import resolve_pointer
from callmemaybe.server.config import ServerConfig
from callmemaybe.server.http import COMMENT
from callmemaybe.server.http_errors import ApiError, invalid_value, unsupported
from callmemaybe.server.request_models import (
    RequestObject,
)
from callmemaybe.server.turns import TurnRequest, TurnUpdate
from callmemaybe.tools import ToolSpec
from callmemaybe.wire.format import Format
from callmemaybe.wire.output_grammar import OutputSpec
from callmemaybe.wire.tool_choice import output_spec

#: The largest minimum size of a value that a schema may require.
MAX_MIN_SIZE = 20_000
#: The most objects and arrays of all the schemas of a request.
MAX_SCHEMA_PARTS = 50_000
#: The most tokens of thought for each effort.
THINKING_BUDGETS = {
    "none": 0,
    "minimal": 256,
    "low": 1024,
    "medium": 4096,
    "high": 16384,
    "xhigh": 65536,
}
_CONTAINERS = (dict, list, tuple, Mapping)
_SCALARS = frozenset((str, int, float, bool, type(None)))
_MIN_KEYWORDS = ("minLength", "minItems", "minProperties")
_LETTERS = string.ascii_letters + string.digits
#: The logarithm of probability 0, which JSON has no number for.
MIN_LOGPROB = -9999.0


def new_id(prefix: str, length: int = 24) -> str:
    """Return a fresh id."""
    return prefix + "".join(secrets.choice(_LETTERS) for _ in range(length))


class SamplingFields(Protocol):
    """The parameters of a request that say how tokens are drawn, besides temperature and ``top_p``."""

    top_k: int | None
    min_p: float | None
    frequency_penalty: float | None
    presence_penalty: float | None
    repetition_penalty: float | None
    logit_bias: dict[str, float] | None


class AnswerBuilder(Protocol):
    """Writes the updates of a request's turns in the form of an interface, as a stream or as a whole."""

    @property
    def results(self) -> Sequence[TurnResult]:
        """The results of the turns that have ended."""
        ...

    @property
    def closing(self) -> bytes:
        """The bytes that end a stream."""
        ...

    def begin(self) -> list[dict[str, Any]]:
        """Return the events before all updates."""
        ...

    def take(self, index: int, update: TurnUpdate, /) -> list[dict[str, Any]]:
        """Record an update of choice number ``index``, and return its events."""
        ...

    def last(self) -> list[dict[str, Any]]:
        """Return the events after all updates."""
        ...

    def failed(self, error: ApiError) -> list[dict[str, Any]]:
        """Return the events of a turn that failed after the stream had begun."""
        ...

    def whole(self) -> dict[str, Any] | bytes:
        """Return the whole answer, or its JSON."""
        ...


def _body(problem: ApiError, _request_id: str) -> dict[str, Any]:
    return problem.body


@dataclass(frozen=True)
class Interface:
    """One interface: from a JSON body to turns, and from their updates to an answer.

    ``error_body`` writes an error of the request with an id; ``idle`` is what a stream sends while it waits.
    """

    route: str
    parse: Callable[[Any], Any]
    turn_requests: Callable[[Any, ServedModel], list[TurnRequest]]
    builder: Callable[[Any, ServedModel, int], AnswerBuilder]
    error_body: Callable[[ApiError, str], dict[str, Any]] = _body
    idle: bytes = COMMENT


@dataclass(frozen=True)
class ServedModel:
    """The model that is served: its name in requests, its format, and its start (seconds since 1970)."""

    name: str
    format: Format
    created: int
    config: ServerConfig
    #: Whether it reads pictures.
    reads_images: bool = False
    #: Whether its tokens can be watched: it runs in this process.
    has_steps: bool = True
    #: Generates conversations, and continues texts, where it runs in this process.
    conversations: LocalGenerator | None = None
    texts: TextGenerator | None = None

    @cached_property
    def fingerprint(self) -> str:
        """A hash of what answers depend on besides the request."""
        text = f"{version('callmemaybe')} {self.name} {self.format.name}"
        return f"fp_{sha256(text.encode()).hexdigest()[:12]}"

    @property
    def is_single_request(self) -> bool:
        """Whether prompts contain the last user message only."""
        return self.format.is_single_request

    @property
    def as_json(self) -> dict[str, Any]:
        """The model as ``/v1/models`` lists it."""
        return {
            "id": self.name, "object": "model", "created": self.created,
            "owned_by": "callmemaybe",
        }  # fmt: skip

    def check_name(self, name: str) -> None:
        """Raise ApiError (404) unless this is the model that is served."""
        if name != self.name:
            raise ApiError(
                404,
                f"The model {name!r} does not exist here; this server has {self.name!r}.",
                param="model",
                code="model_not_found",
            )

    def new_call_id(self) -> str:
        """Return an id for a call, of the length that the format needs."""
        length = self.format.id_length
        return new_id("call_") if length is None else new_id("", length)


def read_tools(tools: Sequence[Mapping[str, Any]], most: int) -> list[ToolSpec]:
    """Return the tools of a request, each in a form that ``ToolSpec`` reads. Raises ApiError, InputError."""
    if len(tools) > most:
        raise ApiError(
            400,
            f"Too many tools: {len(tools)}, of at most {most}.",
            param="tools",
            code="array_above_max_length",
        )
    found = [ToolSpec.from_json(tool, f"tools/{index}") for index, tool in enumerate(tools)]
    check_sizes([tool.parameters for tool in found], "tools")
    return found


def check_sizes(schemas: Sequence[Any], param: str) -> None:
    """Raise ApiError for schemas with too many parts, or whose smallest value is larger than any answer."""
    parts, stack = 0, [*schemas]
    while stack:
        value = stack.pop()
        if isinstance(value, _CONTAINERS):
            parts += 1
            within = value.values() if isinstance(value, Mapping) else value
            stack.extend([one for one in within if type(one) not in _SCALARS])
        if parts > MAX_SCHEMA_PARTS:
            raise invalid_value(
                param,
                f"The schemas have more than {MAX_SCHEMA_PARTS:,} parts; send "
                "fewer functions, or smaller schemas.",
            )
    for schema in schemas:
        _check_min_size(schema, param)


def _check_min_size(schema: Any, param: str) -> None:
    """Raise ApiError for a schema whose smallest value is larger than any answer.

    Computing how many tokens a billion items need would block the model for everybody.
    """
    known: dict[int, int] = {}
    stack: list[tuple[Any, list[tuple[str, Any]] | None]] = [(schema, None)]
    while stack:
        value, parts = stack.pop()
        if parts is not None:
            known[id(value)] = least = _min_size(value, parts, known)
            if least > MAX_MIN_SIZE:
                raise invalid_value(param, f"A value must be larger than {MAX_MIN_SIZE} items or "
                                     "characters; no answer is that long.")  # fmt: skip
        elif isinstance(value, _CONTAINERS) and id(value) not in known:
            # A reference to an enclosing schema finds this value.
            known[id(value)] = 1
            parts = [one for one in _subschemas(schema, value) if isinstance(one[1], _CONTAINERS)]
            stack.append((value, parts))
            stack += [(one, None) for _, one in parts]


def _min_size(value: Any, parts: Sequence[tuple[str, Any]], known: Mapping[int, int]) -> int:
    """Return the minimum size of a value, given those of the parts of its schema."""
    counts = (
        [_count(value.get(name)) for name in _MIN_KEYWORDS] if isinstance(value, Mapping) else []
    )
    times = max(1, _count(value.get("minItems"))) if counts else 1
    inner = [known.get(id(one), 1) * (times if name == "items" else 1) for name, one in parts]
    return max((1, *counts, *inner))


def _subschemas(root: Any, value: Any) -> Iterator[tuple[str, Any]]:
    """Yield the parts of a schema and the local target of its reference, by keyword."""
    if not isinstance(value, Mapping):
        yield from (("", one) for one in value)
        return
    # An enumeration is data, and perhaps much.
    yield from (
        item for item in value.items() if item[0] != "enum" or not isinstance(item[1], list)
    )
    reference = value.get("$ref")
    if isinstance(reference, str) and (reference == "#" or reference.startswith("#/")):
        with suppress(LookupError):
            yield "$ref", resolve_pointer(root, unquote(reference[1:]))


def _count(value: object) -> int:
    return int(value) if isinstance(value, int | Decimal) else 0


def allowed_output(
    choice: str | RequestObject | None,
    *,
    served: ServedModel,
    has_tools: bool,
    parallel: bool | None,
    most: int | None,
    answer: Any,
    thinking: int,
) -> OutputSpec:
    """Return the output that a request allows; raise ApiError for what this model cannot write."""
    choice_json = choice.model_dump() if isinstance(choice, RequestObject) else choice
    if choice_json is not None and not has_tools and choice_json != "none":
        raise invalid_value("tool_choice", "'tool_choice' is only allowed when 'tools' are given.")
    wrong = unwritable(
        served.format, served.name, choice=choice_json, has_tools=has_tools, answer=answer
    )
    if wrong is not None:
        raise invalid_value(*wrong)
    is_parallel = served.format.is_parallel and parallel is not False
    return output_spec(choice_json, has_tools=has_tools, parallel=is_parallel, most=most, answer=answer,
                  thinking=thinking)  # fmt: skip


def thinking_budget(effort: str | None, param: str, served: ServedModel) -> int:
    """Return the most tokens of thought; raise ApiError for a model that does not think."""
    most = THINKING_BUDGETS[effort or "none"]
    if most and not served.format.has_thinking:
        raise unsupported(param, f"The model {served.name!r} does not think aloud: leave {param!r} "
                                 "out, or say 'none'.")  # fmt: skip
    # An answer of the default length must fit behind the longest thought.
    config = served.config
    room = max(config.most_tokens - config.default_tokens, config.most_tokens // 2)
    return min(most, room)


def decoding_config(
    config: ServerConfig,
    *,
    most: int | None,
    thinking: int,
    **others: Any,
) -> DecodingConfig:
    """Return the decoding options of a turn of at most so many tokens, and of the server's limit.

    Tokens of thought count; without a limit, their budget is added to the default one.
    """
    wanted = most or config.default_tokens + thinking
    return DecodingConfig(max_tokens=min(wanted, config.most_tokens), **others)


def sampling_settings(request: SamplingFields) -> dict[str, Any]:
    """Return what all interfaces say of sampling besides temperature and ``top_p``."""
    return {
        "top_k": None if request.top_k is None else max(request.top_k, 0),  # -1 keeps all, too
        "min_p": request.min_p,
        "frequency_penalty": request.frequency_penalty,
        "presence_penalty": request.presence_penalty,
        "repetition_penalty": request.repetition_penalty,
        "logit_bias": tuple(
            (int(token), bias) for token, bias in (request.logit_bias or {}).items()
        ),
    }


def check_history(messages: Sequence[Mapping[str, Any]], param: str, served: ServedModel) -> None:
    """Raise ApiError for an impossible conversation, and for one that the model would not see whole.

    Every call must have one result, directly after it, and every result must belong to a call. An id may
    stand for another call once its result is there: some models count their calls from 0 in each turn.
    """
    if served.is_single_request:
        if all(message["role"] != "user" for message in messages):
            raise invalid_value(
                param, f"The model {served.name!r} reads the request of a user; there is none."
            )
        is_bare = [one["role"] for one in messages] == ["user"]
        if served.config.refuse_unread and not (is_bare and not read_conversation(messages).unread):
            raise invalid_value(
                param,
                f"The model {served.name!r} reads one request and nothing else: no instructions, no "
                "earlier turns, no results of calls. Leave them out, or serve a bigger model.",
            )
    wrong = unpaired_call(messages)
    if wrong is not None:
        raise invalid_value(param, wrong)


def logprob_json(token: TokenLogprob) -> dict[str, Any]:
    """Return a token with its log-probability, as OpenAI writes it."""
    return {
        **_token_json(token.data, token.logprob),
        "top_logprobs": [
            _token_json(data, math.log(chance) if chance > 0 else -math.inf)
            for data, chance in token.top
        ],
    }


def _token_json(data: bytes, logprob: float) -> dict[str, Any]:
    known = logprob if math.isfinite(logprob) else MIN_LOGPROB
    known = min(known, 0.0)  # a sum of rounded parts may be above 0
    return {"token": data.decode(errors="replace"), "logprob": known, "bytes": list(data)}
