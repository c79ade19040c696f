"""How likely a whole answer is right: one probability, fitted to a model's files by ``training.confidence``.

The probability that a model states is of what it chose, and of that alone: a name may be certain and a value wrong.
Here what is known of an answer (the odds of its name, those of the tokens of its arguments, where its values come from,
what of the request is left unexplained) is put into numbers, and a logistic regression that was fitted on requests with known
answers makes one probability of them. A file ``confidence.json`` beside the weights holds it; a model without the file
states none. Answers with a call and without one have a regression each.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Protocol

from callmemaybe.errors import ModelError
from callmemaybe.tools import ToolCall, ToolSpec
from callmemaybe.values.language import guess_language
from callmemaybe.wire.said_values import SAID

#: The file beside a model's weights.
FILE = "confidence.json"
#: Log-odds beyond this are no more certain.
_MOST_ODDS = 12.0
_LEAST_CHANCE = 1e-9
#: Letters that tell a word: inflections count as the same.
_STEM = 5
#: What is read of a request and of a function's descriptions.
_MOST_TEXT = 4000
_WORD = re.compile(r"[^\W\d_]+")
_NUMBER = re.compile(r"\d+(?:[.,]\d+)*")
_CAPITAL = re.compile(r"(?<=[^\s.!?:] )[A-Z]\w+")
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_SMALL_WORDS = """
    the a an of to and or in is it its for on with at from by as be are was were do does did has have had can could will would
    should may might must i me my we our us you your he she they them their this that these those there here what which who
    whom whose how when where why please just some any all each every if then than so but not no into about up out off over
    also very much many more most need want like get give let make find show tell using use given between
    le la les de des du un une et ou au aux en dans sur pour par avec ce cette mon ma mes que qui quel quelle est je tu il
    der die das den dem des ein eine einen einem einer und oder im ist für auf mit von zu zum zur bei ich du wir mein meine
    el los las del una y o al por con mi mis tu qué cuál es en
    """
_SMALL = frozenset(_SMALL_WORDS.split())
#: What an answer with a call is judged by, and one without.
CALL_FEATURES = (
    "name_odds", "over_none", "over_next", "chance", "least_chance", "logprob", "least_logprob", "doubt", "least_doubt", "unsure",
    "any_unsure", "log_unsure", "doubtful", "log_doubtful", "choices", "optional_given", "left_out", "left_out_doubt",
    "left_out_unexplained", "left_out_numbers", "copied", "read", "named", "chosen", "flags", "invented", "hinted", "computed",
    "lists", "repeated", "any_repeated", "empty", "odd_ends", "unexplained", "unexplained_share", "numbers_left", "names_left",
    "shared", "foreign",
)  # fmt: skip
NO_CALL_FEATURES = (
    "none_odds", "over_first", "over_second", "tools", "words", "shared", "unexplained", "unexplained_share", "numbers", "foreign",
)  # fmt: skip


@dataclass(frozen=True)
class LogisticRegression:
    """A probability from features: each is shifted by its mean, divided by its scale and weighted."""

    names: tuple[str, ...]
    means: tuple[float, ...]
    scales: tuple[float, ...]
    weights: tuple[float, ...]
    bias: float

    def probability(self, features: Mapping[str, float]) -> float:
        """Return the probability for features by name."""
        total = self.bias
        for name, mean, scale, weight in zip(
            self.names, self.means, self.scales, self.weights, strict=True
        ):
            total += weight * (features[name] - mean) / scale
        return 1 / (1 + math.exp(-max(-30.0, min(30.0, total))))

    @classmethod
    def from_json(cls, value: Mapping[str, Any], known: Sequence[str]) -> LogisticRegression:
        """Read a regression; KeyError, TypeError or ValueError if it is none over the features ``known``."""
        weights: Mapping[str, Sequence[float]] = value["features"]
        if not set(weights) <= set(known):
            raise ValueError(f"features are unknown: {sorted(set(weights) - set(known))}")
        rows = [tuple(map(float, weights[name])) for name in weights]
        means, scales, factors = zip(*rows, strict=True)
        return cls(tuple(weights), means, scales, factors, float(value["bias"]))


class ConfidenceModel(Protocol):
    """What states how likely an answer is right."""

    def of(
        self,
        request: str,
        tools: Sequence[ToolSpec],
        call: ToolCall | None,
        distribution: Mapping[str | None, float],
        logprobs: Sequence[float],
    ) -> float | None:
        """Return the probability that an answer is right; None where names have no probabilities.

        ``logprobs`` are those of the tokens that the model chose for the arguments.
        """
        ...


@dataclass(frozen=True)
class CallConfidence:
    """The two regressions of a model: a :class:`ConfidenceModel`."""

    call: LogisticRegression
    no_call: LogisticRegression

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> CallConfidence | None:
        """Return what a model's file holds; None of an empty one. Raises ModelError for another content."""
        if not value:
            return None
        try:
            return cls(
                LogisticRegression.from_json(value["call"], CALL_FEATURES),
                LogisticRegression.from_json(value["no_call"], NO_CALL_FEATURES),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise ModelError(
                f"{FILE} beside the model holds no regressions ({error}); write it anew with training.confidence"
            ) from error

    def of(
        self,
        request: str,
        tools: Sequence[ToolSpec],
        call: ToolCall | None,
        distribution: Mapping[str | None, float],
        logprobs: Sequence[float],
    ) -> float | None:
        """Return what :meth:`ConfidenceModel.of` does."""
        if not distribution:
            return None
        if call is None:
            return self.no_call.probability(no_call_features(request, tools, distribution))
        return self.call.probability(call_features(request, tools, call, distribution, logprobs))


def call_features(
    request: str,
    tools: Sequence[ToolSpec],
    call: ToolCall,
    distribution: Mapping[str | None, float],
    logprobs: Sequence[float],
) -> dict[str, float]:
    """Return what is known of an answer with a call, by the names in ``CALL_FEATURES``."""
    tool = next(one for one in tools if one.name == call.name)
    request = request[:_MOST_TEXT]
    chance = distribution.get(call.name, 1.0)
    others = [one for name, one in distribution.items() if name not in (call.name, None)]
    none = distribution.get(None, 0.0)
    logprob = max(-_MOST_ODDS, sum(max(-_MOST_ODDS, one) for one in logprobs))
    least = max(-_MOST_ODDS, min(logprobs, default=0.0))
    unsure = sum(one < math.log(0.9) for one in logprobs)
    doubtful = sum(one < math.log(0.5) for one in logprobs)
    found = _argument_features(request, tool, call.parsed)
    return found | {
        "name_odds": _odds(chance),
        "over_none": _ratio(chance, none),
        "over_next": _ratio(chance, max(others, default=0.0)),
        "chance": math.exp(logprob),
        "least_chance": math.exp(least),
        "logprob": logprob,
        "least_logprob": least,
        "doubt": math.sqrt(-min(0.0, logprob)),
        "least_doubt": math.sqrt(-min(0.0, least)),
        "unsure": float(unsure),
        "any_unsure": float(unsure > 0),
        "log_unsure": math.log1p(unsure),
        "doubtful": float(doubtful),
        "log_doubtful": math.log1p(doubtful),
        "choices": math.log1p(len(logprobs)),
        "left_out_doubt": found["left_out"] * logprob,
        "left_out_unexplained": found["left_out"] * found["unexplained"],
        "left_out_numbers": found["left_out"] * found["numbers_left"],
    }


def no_call_features(
    request: str, tools: Sequence[ToolSpec], distribution: Mapping[str | None, float]
) -> dict[str, float]:
    """Return what is known of an answer without a call, by the names in ``NO_CALL_FEATURES``."""
    request = request[:_MOST_TEXT]
    none = distribution.get(None, 1.0)
    ranked = sorted(
        ((one, name) for name, one in distribution.items() if name is not None),
        key=lambda pair: -pair[0],
    )
    chances = [one for one, _ in ranked]
    by_name = {tool.name: tool for tool in tools}
    nearest = by_name.get(str(ranked[0][1])) if ranked else None
    words = _content_words(request)
    about = frozenset[str]().union(*(_tool_words(tool) for tool in tools[:_MOST_TOOLS]))
    unexplained = [word for word in words if word not in about]
    return {
        "none_odds": _odds(none),
        "over_first": _ratio(none, chances[0] if chances else 0.0),
        "over_second": _ratio(none, chances[1] if len(chances) > 1 else 0.0),
        "tools": math.log(len(tools) or 1),
        "words": math.log1p(len(words)),
        "shared": math.log1p(len(words & _tool_words(nearest))) if nearest else 0.0,
        "unexplained": math.log1p(len(unexplained)),
        "unexplained_share": len(unexplained) / max(1, len(words)),
        "numbers": math.log1p(len(_NUMBER.findall(request))),
        "foreign": float(guess_language(request) not in (None, "en")),
    }


#: Functions whose words are looked at.
_MOST_TOOLS = 64


@dataclass
class _ValueCounts:
    """Where the values of a call come from."""

    request: str
    copied: int = 0
    read: int = 0
    named: int = 0
    chosen: int = 0
    flags: int = 0
    invented: int = 0
    hinted: int = 0
    computed: int = 0
    empty: int = 0
    odd_ends: int = 0

    def take(self, value: Any, schema: Mapping[str, Any]) -> None:
        """Count a value that is neither a list nor an object."""
        text = "" if value is None else str(value).casefold()
        is_in_request = bool(text) and text in self.request
        if isinstance(value, bool) or value is None:
            self.flags += 1
        elif SAID in schema:
            self.read += 1
        elif "enum" in schema or "const" in schema:
            words = _content_words(text)
            if is_in_request or (words and words <= _content_words(self.request)):
                self.named += 1
            else:
                self.chosen += 1
        elif not isinstance(value, str):
            self.copied += is_in_request
            self.computed += not is_in_request
        elif not text:
            self.empty += 1
        elif is_in_request:
            self.copied += 1
            self.odd_ends += _has_odd_ends(text, self.request)
        elif text in str(schema.get("description", "")).casefold():
            self.hinted += 1
        else:
            self.invented += 1


def _has_odd_ends(text: str, request: str) -> bool:
    """Whether a copied value begins or ends inside a word, or with a small word or a stop."""
    at = request.find(text)
    before, after = request[at - 1 : at], request[at + len(text) : at + len(text) + 1]
    cuts = (before.isalnum() and text[0].isalnum()) or (after.isalnum() and text[-1].isalnum())
    words = text.split()
    return bool(
        cuts
        or (len(words) > 1 and (words[0] in _SMALL or words[-1] in _SMALL))
        or text[-1] in ",;:"
        or text[0] in ",;:."
    )


def _leaves(value: Any, schema: Any) -> Iterator[tuple[Any, Mapping[str, Any]]]:
    schema = schema if isinstance(schema, Mapping) else {}
    if isinstance(value, Mapping):
        properties = schema.get("properties")
        for name, inner in value.items():
            yield from _leaves(
                inner, properties.get(name) if isinstance(properties, Mapping) else None
            )
    elif isinstance(value, list):
        for inner in value:
            yield from _leaves(inner, schema.get("items"))
    else:
        yield value, schema


def _argument_features(
    request: str, tool: ToolSpec, arguments: Mapping[str, Any]
) -> dict[str, float]:
    properties = tool.parameters.get("properties")
    properties = properties if isinstance(properties, Mapping) else {}
    required = set(tool.parameters.get("required") or ())
    counts = _ValueCounts(request.casefold())
    leaves = list(_leaves(arguments, tool.parameters))
    for value, schema in leaves:
        counts.take(value, schema)
    texts = [str(value).casefold() for value, _ in leaves if not isinstance(value, bool | None)]
    words = _content_words(request)
    told = _tool_words(tool).union(*map(_content_words, texts))
    unexplained = [word for word in words if word not in told]
    given = " ".join(texts)
    optional = [name for name in properties if name not in required]
    return {
        "optional_given": float(sum(name in arguments for name in optional)),
        "left_out": math.log1p(sum(name not in arguments for name in optional)),
        **{
            name: float(min(4, getattr(counts, name)))
            for name in ("copied", "read", "named", "chosen", "flags", "invented", "hinted", "computed", "empty", "odd_ends")
        },
        "lists": float(sum(isinstance(value, list) for value in arguments.values())),
        "repeated": float(len(texts) - len(set(texts))),
        "any_repeated": float(len(texts) > len(set(texts))),
        "unexplained": math.log1p(len(unexplained)),
        "unexplained_share": len(unexplained) / max(1, len(words)),
        "numbers_left": math.log1p(sum(one not in given for one in _NUMBER.findall(request))),
        "names_left": math.log1p(
            sum(one.casefold() not in given for one in _CAPITAL.findall(request))
        ),
        "shared": math.log1p(len(words & _tool_words(tool))),
        "foreign": float(guess_language(request) not in (None, "en")),
    }  # fmt: skip


def _content_words(text: str) -> frozenset[str]:
    words = (word.casefold() for word in _WORD.findall(_HUMP.sub(" ", text)))
    return frozenset(word[:_STEM] for word in words if len(word) > 1 and word not in _SMALL)


@lru_cache(maxsize=4096)
def _tool_words(tool: ToolSpec) -> frozenset[str]:
    properties = tool.parameters.get("properties")
    parts = [tool.name.replace("_", " "), tool.description]
    for name, schema in properties.items() if isinstance(properties, Mapping) else ():
        parts.append(name.replace("_", " "))
        if isinstance(schema, Mapping):
            parts.append(str(schema.get("description", "")))
    return _content_words(" ".join(parts)[:_MOST_TEXT])


def _odds(chance: float) -> float:
    return _ratio(chance, 1.0 - chance)


def _ratio(one: float, other: float) -> float:
    """Return the logarithm of a ratio of probabilities, within limits."""
    ratio = math.log(max(one, _LEAST_CHANCE)) - math.log(max(other, _LEAST_CHANCE))
    return max(-_MOST_ODDS, min(_MOST_ODDS, ratio))
