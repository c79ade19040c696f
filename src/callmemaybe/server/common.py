"""What both interfaces do alike: ids, tools, limits, usage, and how a step is told."""

from __future__ import annotations

import math
import secrets
import string
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cache, cached_property, partial
from hashlib import sha256
from typing import Any
from urllib.parse import unquote

from callmemaybe import __version__
from callmemaybe.errors import CallMeMaybeError
from callmemaybe.generation.config import DecodingConfig
from callmemaybe.generation.result import TokenLogprob
from callmemaybe.grammar import regex
from callmemaybe.grammar.ebnf import ebnf
from callmemaybe.server.http_errors import Problem, invalid, unsupported
from callmemaybe.server.settings import Settings
from callmemaybe.server.shapes import AnyObject, ByGrammar, ByRegex, FreeText, Shape
from callmemaybe.tools import ToolSpec
from callmemaybe.wire.format import Format
from callmemaybe.wire.output_grammar import OutputSpec
from callmemaybe.wire.tool_choice import output_spec

#: What a schema may ask of a value at least, all in all.
MOST_LEAST = 20_000
#: Most tokens of thought for each effort.
THOUGHTS = {"none": 0, "minimal": 256, "low": 1024, "medium": 4096, "high": 16384, "xhigh": 65536}
_LEAST = ("minLength", "minItems", "minProperties")
_LETTERS = string.ascii_letters + string.digits
#: What stands for a probability of nought, which JSON cannot write as a logarithm.
LEAST_LOGPROB = -9999.0


def new_id(prefix: str, length: int = 24) -> str:
    """Return a fresh id."""
    return prefix + "".join(secrets.choice(_LETTERS) for _ in range(length))


@dataclass(frozen=True)
class Served:
    """The model that is served, by the name that requests call it, and since when (in seconds)."""

    name: str
    format: Format
    created: int
    settings: Settings

    @property
    def fingerprint(self) -> str:
        """Say what answers depend on besides the request."""
        text = f"{__version__} {self.name} {self.format.name}"
        return f"fp_{sha256(text.encode()).hexdigest()[:12]}"

    @cached_property
    def reads_one_request(self) -> bool:
        """Whether the model is told nothing but the last request, as its prompts show."""
        try:
            one, other = (
                self.format.prompt(
                    [
                        {"role": "user", "content": text},
                        {"role": "assistant", "content": "said"},
                        {"role": "user", "content": "asked"},
                    ],
                    [],
                )
                for text in ("first", "second")
            )
        except CallMeMaybeError:
            return False  # a template that is particular about its conversations reads them
        return one == other

    @property
    def as_json(self) -> dict[str, Any]:
        """The model as ``/v1/models`` lists it."""
        return {
            "id": self.name, "object": "model", "created": self.created,
            "owned_by": "callmemaybe",
        }  # fmt: skip

    def check_name(self, name: str) -> None:
        """Raise Problem (404) unless this is the model that is served."""
        if name != self.name:
            raise Problem(
                404,
                f"The model {name!r} does not exist here; this server has {self.name!r}.",
                param="model",
                code="model_not_found",
            )

    def new_call_id(self) -> str:
        """Return an id for a call; as the family's own, where its calls carry ids."""
        length = self.format.id_length
        return new_id("call_") if length is None else new_id("", length)


def tools_of(tools: Sequence[Mapping[str, Any]], most: int) -> list[ToolSpec]:
    """Read the tools of a request, each in a shape that ``ToolSpec`` knows."""
    if len(tools) > most:
        raise Problem(
            400,
            f"Too many tools: {len(tools)}, of at most {most}.",
            param="tools",
            code="array_above_max_length",
        )
    found = [ToolSpec.from_json(tool, f"tools/{index}") for index, tool in enumerate(tools)]
    for tool in found:
        check_least(tool.parameters, "tools")
    return found


def check_least(schema: Any, param: str) -> None:
    """Raise Problem for a schema whose smallest value is far beyond what an answer can hold.

    Finding out how many tokens a billion items take at least would keep the model from everybody.
    """
    known: dict[int, int] = {}
    stack = [(schema, False)]
    while stack:
        value, is_below_done = stack.pop()
        if is_below_done:
            known[id(value)] = least = _least(schema, value, known)
            if least > MOST_LEAST:
                raise invalid(param, f"A value has to be larger than {MOST_LEAST} items or "
                                     "characters; no answer is that long.")  # fmt: skip
        elif isinstance(value, Mapping | list | tuple) and id(value) not in known:
            # What refers to something that it is part of finds this, and adds nothing.
            known[id(value)] = 1
            stack += [(value, True), *((one, False) for _, one in _below(schema, value))]


def _least(root: Any, value: Any, known: Mapping[int, int]) -> int:
    """Return how large a value is at least, as far as minima multiply; what is below is known."""
    counts = [_count(value.get(name)) for name in _LEAST] if isinstance(value, Mapping) else []
    times = max(1, _count(value.get("minItems"))) if counts else 1
    inner = [
        known.get(id(one), 1) * (times if name == "items" else 1)
        for name, one in _below(root, value)
    ]
    return max((1, *counts, *inner))


def _below(root: Any, value: Any) -> Iterator[tuple[str, Any]]:
    """Yield what is in a part of a schema, and what it refers to in the same schema, by keyword."""
    if not isinstance(value, Mapping):
        yield from (("", one) for one in value)
        return
    yield from value.items()
    reference = value.get("$ref")
    if isinstance(reference, str) and (reference == "#" or reference.startswith("#/")):
        found = root
        for step in reference.split("/")[1:]:
            step = unquote(step).replace("~1", "/").replace("~0", "~")
            if isinstance(found, Mapping):
                found = found.get(step)
            elif isinstance(found, list) and step.isdecimal() and len(step) < 9:
                found = found[int(step)] if int(step) < len(found) else None
            else:
                found = None
        yield "$ref", found


def _count(value: object) -> int:
    return int(value) if isinstance(value, int | Decimal) else 0


def form_of(form: Shape | None, schema: Any) -> Any:
    """Return the form of an answer as a turn takes it: a JSON Schema, or what reads a Grammar.

    ``schema`` is the JSON Schema of a form that has one. A long pattern or grammar takes seconds to
    read, and all that while the event loop would answer nobody; so the turn reads it in its task.
    """
    if form is None or isinstance(form, FreeText):
        return None
    if isinstance(form, AnyObject):
        return {"type": "object"}
    if isinstance(form, ByRegex):
        return cache(partial(regex, form.regex))  # once for all choices
    if isinstance(form, ByGrammar):
        return cache(partial(ebnf, form.grammar))
    check_least(schema, "response_format")
    return {} if schema is None else schema


def wish_of(
    choice: str | Shape | None,
    *,
    served: Served,
    has_tools: bool,
    parallel: bool | None,
    most: int | None,
    answer: Any,
    thinking: int,
) -> OutputSpec:
    """Return what an answer may be; raise Problem for what this model cannot write."""
    talks = served.format.has_free_text
    told = choice.model_dump() if isinstance(choice, Shape) else choice
    if told is not None and not has_tools and told != "none":
        raise invalid("tool_choice", "'tool_choice' is only allowed when 'tools' are given.")
    if not talks and answer is not None:
        raise invalid(
            "response_format",
            f"The model {served.name!r} only calls functions; its answers have no other form. Ask "
            "for the arguments of a function of that form, or serve a bigger model.",
        )
    if not talks and (not has_tools or told == "none"):
        raise invalid(
            "tools" if not has_tools else "tool_choice",
            f"The model {served.name!r} only calls functions; it cannot answer in text. "
            + ("Give it 'tools'" if not has_tools else "Let it call one")
            + ", or serve a bigger model.",
        )
    is_parallel = served.format.is_parallel and parallel is not False
    return output_spec(told, has_tools=has_tools, parallel=is_parallel, most=most, answer=answer,
                  thinking=thinking)  # fmt: skip


def thinking_of(effort: str | None, param: str, served: Served) -> int:
    """Return how many tokens a thought may take; raise Problem where the model does not think."""
    most = THOUGHTS[effort or "none"]
    if most and not served.format.has_thinking:
        raise unsupported(param, f"The model {served.name!r} does not think aloud: leave {param!r} "
                                 "out, or say 'none'.")  # fmt: skip
    # An answer of the usual length is to fit behind the longest thought.
    limits = served.settings
    room = max(limits.most_tokens - limits.default_tokens, limits.most_tokens // 2)
    return min(most, room)


def options_of(
    settings: Settings,
    *,
    most: int | None,
    param: str,
    thinking: int,
    **others: Any,
) -> DecodingConfig:
    """Return the options of a turn whose tokens are limited by the parameter ``param``.

    Tokens of thought count; where nothing was said of a limit, they are added to the usual one.
    """
    if most is not None and most > settings.most_tokens:
        raise invalid(param, f"{param!r} is {most}; this server gives at most "
                             f"{settings.most_tokens} tokens.")  # fmt: skip
    return DecodingConfig(
        max_tokens=most or min(settings.default_tokens + thinking, settings.most_tokens), **others
    )


def check_history(messages: Sequence[Mapping[str, Any]], param: str, served: Served) -> None:
    """Raise Problem for a conversation that cannot be, or that the model would not be told of.

    Every call has its one result, directly behind it, and no result is foreign.
    """
    if served.reads_one_request and [message["role"] for message in messages] != ["user"]:
        raise invalid(
            param,
            f"The model {served.name!r} reads one request and nothing else: no instructions, no "
            "earlier turns, no results of calls. Leave them out, or serve a bigger model.",
        )
    seen: set[str] = set()
    waiting: dict[str, None] = {}
    for message in messages:
        if message["role"] == "tool":
            call = message["tool_call_id"]
            if call not in waiting:
                why = "has its result already" if call in seen else "was never made"
                raise invalid(param, f"There is a result of the call {call!r}, which {why}.")
            del waiting[call]
            continue
        if waiting:
            break
        for made in message.get("tool_calls") or ():
            if made["id"] in seen:
                raise invalid(param, f"The id {made['id']!r} stands for two calls.")
            seen.add(made["id"])
            waiting[made["id"]] = None
    if waiting:
        raise invalid(param, f"The call {next(iter(waiting))!r} has no result behind it.")
    if messages[-1]["role"] == "assistant":
        raise invalid(param, "The conversation must not end with what the model said.")


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
    known = logprob if math.isfinite(logprob) else LEAST_LOGPROB
    known = min(known, 0.0)  # a sum of rounded parts may come out above nought
    return {"token": data.decode(errors="replace"), "logprob": known, "bytes": list(data)}
