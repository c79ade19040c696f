"""Requests made up from a definition: where a user gives a function and no sentences.

A request is a leading phrase ("could you", "I'd like to"), what the function does in words of its name or description, and
its parameters with values: choices as they are written, numbers within their limits, texts that requests of training say
for parameters of that name. Parameters are led in by words that fit their names ("from Paris", "for two hours", "with the
colour red"). It is plain English by rule: how people speak, examples must say.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

from callmemaybe.tools import ToolSpec
from callmemaybe.tools.schemas import validator_for
from callmemaybe.tuning.examples import Example, ExampleCall
from callmemaybe.tuning.rehearsal import said_texts

LEADS = (
    "", "", "", "", "please ", "can you ", "could you ", "could you please ", "I want to ", "I'd like to ", "I need to ",
    "I would like you to ", "would you ", "hey, ", "ok, ", "help me ", "let's ", "go ahead and ",
)  # fmt: skip
TAILS = ("", "", "", "", "", "", " please", ", please", ", thanks", " for me", " now", "!")
ASKS = (
    "what is the {}",
    "what's the {}",
    "tell me the {}",
    "show me the {}",
    "I want to know the {}",
    "give me the {}",
    "{}",
)
#: Verbs of names that only say that something is asked for.
_ASKING = frozenset(
    (
        "get",
        "fetch",
        "query",
        "show",
        "find",
        "read",
        "check",
        "lookup",
        "retrieve",
        "list",
        "search",
    )
)
_ARTICLES = ("the ", "a ", "an ", "my ", "this ", "all ")
#: What leads in a parameter, by a part of its name; the first that matches.
_LED_IN = (
    (r"^(to|dest|recipient|target|arriv)", ("to {}",)),
    (r"^(from|origin|source|depart)", ("from {}",)),
    (r"date|day|when", ("on {}", "for {}", "{}")),
    (r"time|hour", ("at {}", "for {}", "{}")),
    (r"duration|length|minutes|seconds|period", ("for {}", "for {} ")),
    (r"city|town|location|place|country|region|area|room|address", ("in {}", "in {}", "for {}", "{}")),
    (r"person|name|contact|user|friend|artist|author", ("for {}", "of {}", "{}", "called {}", "by {}")),
    (r"percent|level|volume|brightness|temperature|amount|value", ("to {}", "at {}", "by {}", "{}")),
    (r"title|song|track|movie|film|book|game|item|product|query|topic|text|message", ("{}", "'{}'", '"{}"', "about {}", "{}")),
)  # fmt: skip
_LABELLED = ("{label} {value}", "with {label} {value}", "the {label} is {value}", "{label}: {value}", "{value} {label}", "{value}")  # fmt: skip
_NUMBERS = (
    1,
    2,
    3,
    4,
    5,
    6,
    7,
    8,
    10,
    12,
    15,
    20,
    25,
    30,
    45,
    50,
    60,
    90,
    100,
    150,
    250,
    500,
    1000,
)
_WORDS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+")
_EXAMPLES = re.compile(
    r"(?:e\.g\.|for example|such as|like|i\.e\.)[,:]?\s+([^.;()]{2,80})", re.IGNORECASE
)
#: How often an optional parameter is said.
_SAID = 0.45
#: Formats whose values a request says in words of its own; they are read, and not made up here.
_READ = frozenset(
    ("date", "time", "date-time", "duration", "email", "uri", "uuid", "ipv4", "ipv6", "idn-email")
)
_TRIES = 20


def words_of(name: str) -> list[str]:
    """Return the words of a name, in small letters: ``getWeather_2`` is get, weather, 2."""
    return [word.lower() for word in _WORDS.findall(name.rpartition(".")[2])]


class RequestWriter:
    """Makes up requests for some functions, always the same from the same generator of random numbers."""

    def __init__(self, tools: Sequence[ToolSpec]) -> None:
        self._pools: dict[str, list[str]] = defaultdict(list)
        for name, text in said_texts():
            if len(text) <= 40:
                for word in words_of(name):
                    self._pools[word].append(text)
                self._pools[""].append(text)
        self._validators = {tool.name: validator_for(tool.schema) for tool in tools}
        self._phrases = {tool.name: phrases_of(tool) for tool in tools}

    def request(self, tool: ToolSpec, rng: Random) -> Example | None:
        """Return a request for a function; None if its parameters take nothing that can be made up."""
        for _ in range(_TRIES):
            drawn = self._arguments(tool, rng)
            if drawn is None:
                continue
            arguments, said = drawn
            if self._validators[tool.name].is_valid(arguments):
                return Example(
                    self._sentence(tool, said, rng), (ExampleCall(tool.name, arguments),)
                )
        return None

    def _arguments(self, tool: ToolSpec, rng: Random) -> tuple[dict[str, Any], list[str]] | None:
        """Return arguments, and each as a request says it."""
        arguments: dict[str, Any] = {}
        said: list[str] = []
        required = tool.schema.get("required", ())
        for name, schema in tool.schema.get("properties", {}).items():
            if name not in required and rng.random() > _SAID:
                continue
            drawn = self._value(name, schema, rng) if isinstance(schema, Mapping) else None
            if drawn is None:
                if name in required:
                    return None
                continue
            arguments[name], text = drawn
            said.append(text)
        return arguments, said

    def _value(self, name: str, schema: Mapping[str, Any], rng: Random) -> tuple[Any, str] | None:
        """Return a value and the words that say it; None where none can be made up."""
        label = " ".join(words_of(name))
        values = schema.get("enum")
        if isinstance(values, list) and values:
            value = rng.choice(values)
            text = re.sub(r"[_-]+", " ", str(value)) if isinstance(value, str) else str(value)
            return value, rng.choice((text, text, f"{label} {text}", f"{text} {label}"))
        kind = schema.get("type", "string")
        if kind == "boolean":
            yes = rng.random() < 0.6
            return yes, rng.choice(
                (f"with {label}", label) if yes else (f"without {label}", f"no {label}")
            )
        if kind in ("integer", "number"):
            return self._number(name, schema, rng)
        if kind == "array":
            items = schema.get("items")
            one = (
                [self._value(name, items, rng) for _ in range(rng.choice((1, 2, 2, 3)))]
                if isinstance(items, Mapping)
                else []
            )
            some = [value for value, _ in filter(None, one)]
            if not some or not all(isinstance(value, str | int | float) for value in some):
                return None
            texts = list(map(str, some))
            joined = " and ".join(filter(None, (", ".join(texts[:-1]), texts[-1])))
            return some, _led_in(name, joined, rng)
        if kind != "string" or schema.get("format") in _READ or "pattern" in schema:
            return None
        text = self._text(name, schema, rng)
        return text, _led_in(name, text, rng)

    @staticmethod
    def _number(name: str, schema: Mapping[str, Any], rng: Random) -> tuple[Any, str]:
        low, high = schema.get("minimum", -1e9), schema.get("maximum", 1e9)
        fitting = [n for n in _NUMBERS if low <= n <= high] or [
            int(low) if low > -1e9 else int(high)
        ]
        value: Any = rng.choice(fitting)
        if schema.get("type") == "number" and rng.random() < 0.3:
            value = value + 0.5 if value + 0.5 <= high else value
        return value, _led_in(name, str(value), rng)

    def _text(self, name: str, schema: Mapping[str, Any], rng: Random) -> str:
        """Return an example of the description, or what requests of training say for such a parameter."""
        about = str(schema.get("description", ""))
        listed = [str(one) for one in schema.get("examples", ()) if isinstance(one, str)]
        if found := _EXAMPLES.search(about):
            listed += [part.strip(" '\"`") for part in re.split(r",| or | and ", found[1])]
        listed = [text for text in listed if text]
        pools = [self._pools[word] for word in words_of(name) if word in self._pools]
        if listed and rng.random() < 0.3:
            return rng.choice(listed)
        if pools and rng.random() < 0.8:
            return rng.choice(rng.choice(pools))
        return rng.choice(self._pools[""])

    def _sentence(self, tool: ToolSpec, said: Sequence[str], rng: Random) -> str:
        phrase, asks = rng.choice(self._phrases[tool.name])
        order = list(said)
        if rng.random() < 0.4:
            rng.shuffle(order)
        text = " ".join(
            [rng.choice(ASKS).format(phrase) if asks else rng.choice(LEADS) + phrase, *order]
        )
        text += rng.choice(TAILS)
        text = re.sub(r" {2,}", " ", text).strip()
        return text[:1].upper() + text[1:] if rng.random() < 0.4 else text


def phrases_of(tool: ToolSpec) -> list[tuple[str, bool]]:
    """Return what a function does, in words of its name and of its description; and whether it is a thing asked for."""
    words = words_of(tool.name)
    found: list[tuple[str, bool]] = []
    if words:
        rest = " ".join(words[1:])
        if words[0] in _ASKING and rest:
            found.append((rest, True))
        found += [(" ".join(words), False)]
        if rest and not rest.startswith(_ARTICLES):
            found += [(f"{words[0]} {article}{rest}", False) for article in ("the ", "a ", "my ")]
    sentence = re.split(r"(?<=[a-z0-9)])[.;:\n]|\(", tool.description.strip(), maxsplit=1)[
        0
    ].strip()
    if 2 < len(sentence) <= 80:
        first, _, rest = sentence.partition(" ")
        for name in tool.schema.get("properties", {}):  # "of a city", where the city is a parameter
            rest = re.sub(
                rf" (?:of|to|in|for|from|at|on|with|by|about) (?:(?:a|an|the|some|given|specific) )*(?:{'|'.join(words_of(name)) or re.escape(name)})\b.*$",
                "", rest,
            )  # fmt: skip
        verb = _imperative(first.lower())
        if verb in _ASKING and rest:
            found.append((re.sub(r"^(the|a|an) ", "", rest), True))
        found += [(f"{verb} {rest}".strip(), False)] * 2
    return found or [("do it", False)]


def _imperative(verb: str) -> str:
    """Return ``books`` as ``book``, ``returns`` as ``get``."""
    if verb in ("returns", "return", "gets", "retrieves", "fetches"):
        return "get"
    if re.search(r"(?:ss|x|ch|sh|z)es$", verb):
        return verb[:-2]
    if verb.endswith("ies") and len(verb) > 4:
        return verb[:-3] + "y"
    return verb[:-1] if verb.endswith("s") and not verb.endswith("ss") else verb


def _led_in(name: str, text: str, rng: Random) -> str:
    label = " ".join(words_of(name))
    for pattern, frames in _LED_IN:
        if re.search(pattern, label) and rng.random() < 0.8:
            return rng.choice(frames).format(text)
    return rng.choice(_LABELLED).format(label=label, value=text)
