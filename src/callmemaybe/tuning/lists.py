"""Lists of functions with requests, as a step of tuning sees them: the user's, and what is rehearsed."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from random import Random
from typing import Any

from callmemaybe.generation.parameter_order import sorted_schema
from callmemaybe.tools import ToolSpec
from callmemaybe.tuning.examples import Example, ExampleCall
from callmemaybe.tuning.packing import Block, EncodedBlock, EncodedPair, Encoder, Pair, encode_pair
from callmemaybe.tuning.rehearsal import TRAIN, read_rehearsal
from callmemaybe.tuning.rendering import tool_text
from callmemaybe.tuning.requests import RequestWriter

#: Requests of a list, and the most functions of a list that is drawn.
PAIRS, MOST_TOOLS = 12, 12
#: The most tokens of a request with its answer, and of all functions of a list.
LONGEST_PAIR, LONGEST_TOOLS = 420, 2600
#: Share of the requests that nothing offered fits, and of those the share that is talk of other things.
NONE, FOREIGN = 0.14, 0.5
#: With ten examples of a function, ten of twelve of its requests are examples, the others made up.
MADE_UP = 2
#: Share of the examples whose values are exchanged for others, and of those that are written in another letter case.
SWAPPED, OTHER_CASE = 0.4, 0.25


class RequestLists:
    """Draws lists of a user's functions with requests; the same number gives the same list."""

    def __init__(
        self, tools: Sequence[ToolSpec], examples: Sequence[Example], encoder: Encoder, seed: int
    ) -> None:
        self._encoder, self._seed = encoder, seed
        self._tools = {tool.name: tool for tool in tools}
        self._shown = {tool.name: _definition(tool) for tool in tools}
        self._ids = {name: encoder.tool(tool_text(one)) for name, one in self._shown.items()}
        self._examples: dict[str, list[Example]] = defaultdict(list)
        self._several = [example for example in examples if len(example.calls) > 1]
        self._strays = [example.prompt for example in examples if not example.calls]
        for example in examples:
            if len(example.calls) == 1:
                self._examples[example.calls[0].name].append(example)
        self._values = _values_of(self._examples)
        #: How many examples are too long to be trained on.
        self.too_long = sum(self._is_too_long(example) for example in examples)
        self._writer = RequestWriter(tools)
        self._foreign = [pair.prompt for each in read_rehearsal() if each.part == TRAIN for pair in each.pairs]  # fmt: skip

    def _is_too_long(self, example: Example) -> bool:
        names = [call.name for call in example.calls]
        block = Block([self._shown[name] for name in names])
        return len(encode(self._encoder, block, names, example).ids) > LONGEST_PAIR

    def draw(self, number: int) -> EncodedBlock:
        """Return a list with `PAIRS` requests."""
        rng = Random(f"{self._seed} list {number}")
        names = self._offered(rng)
        block = Block([self._shown[name] for name in names])
        pairs: list[EncodedPair] = []
        for attempt in range(PAIRS * 20):
            example = (
                self._request(names, rng) if attempt < PAIRS * 10 else self._foreign_request(rng)
            )
            pair = encode(self._encoder, block, names, example)
            if len(pair.ids) <= LONGEST_PAIR:
                pairs.append(pair)
            if len(pairs) == PAIRS:
                break
        return EncodedBlock(block, [self._ids[name] for name in names], pairs)

    def _offered(self, rng: Random) -> list[str]:
        """Draw functions to offer: often all, where they are few."""
        names = list(self._tools)
        rng.shuffle(names)
        if len(names) > MOST_TOOLS or rng.random() < 0.25:
            names = names[: rng.randint(min(2, len(names)), min(MOST_TOOLS, len(names)))]
        kept: list[str] = []
        room = LONGEST_TOOLS
        for name in names:
            if len(self._ids[name]) <= room or not kept:
                kept.append(name)
                room -= len(self._ids[name])
        return kept

    def _request(self, names: Sequence[str], rng: Random) -> Example:
        """Draw a request for a function of a list, or for none of it."""
        if rng.random() < NONE:
            others = [name for name in self._tools if name not in names]
            if not others or rng.random() < FOREIGN:
                return self._foreign_request(rng)
            asked = self._for(rng.choice(others), rng)
            return self._foreign_request(rng) if asked is None else Example(asked.prompt)
        several = [one for one in self._several if all(call.name in names for call in one.calls)]
        if several and rng.random() < 0.05:
            return rng.choice(several)
        return self._for(rng.choice(names), rng) or self._foreign_request(rng)

    def _foreign_request(self, rng: Random) -> Example:
        if self._strays and rng.random() < 0.5:
            return Example(rng.choice(self._strays))
        return Example(rng.choice(self._foreign))

    def _for(self, name: str, rng: Random) -> Example | None:
        """Draw a request for one function: an example, varied, or one that is made up."""
        own = self._examples.get(name, ())
        if own and rng.random() * (len(own) + MADE_UP) < len(own):
            return varied(rng.choice(own), self._tools[name], self._values, rng)
        made = self._writer.request(self._tools[name], rng)
        if made is None and own:
            return varied(rng.choice(own), self._tools[name], self._values, rng)
        return made


def encode(encoder: Encoder, block: Block, names: Sequence[str], example: Example) -> EncodedPair:
    """Write an example as a request to a list of functions."""
    calls = [
        (names.index(call.name), _ordered(call.arguments, block.tools[names.index(call.name)]))
        for call in example.calls
    ]
    return encode_pair(encoder, block, Pair(example.prompt, calls))


def own_lists(
    tools: Sequence[ToolSpec], examples: Sequence[Example], encoder: Encoder
) -> Iterator[EncodedBlock]:
    """Yield all functions with the examples, as they are; the last list may be shorter. For measuring."""
    names = [tool.name for tool in tools]
    block = Block([_definition(tool) for tool in tools])
    ids = [encoder.tool(tool_text(tool)) for tool in block.tools]
    pairs = [encode(encoder, block, names, example) for example in examples]
    for start in range(0, len(pairs), PAIRS):
        yield EncodedBlock(block, ids, pairs[start : start + PAIRS])


def rehearsal_lists(part: str, encoder: Encoder) -> Iterator[EncodedBlock]:
    """Yield what is rehearsed ("train"), or what training held out ("function", "domain")."""
    for each in read_rehearsal():
        if each.part == part:
            ids = [encoder.tool(tool_text(tool)) for tool in each.block.tools]
            pairs = [encode_pair(encoder, each.block, pair) for pair in each.pairs]
            yield EncodedBlock(each.block, ids, pairs)


def _definition(tool: ToolSpec) -> dict[str, Any]:
    """A function as the model reads it: its parameters by name."""
    parameters = sorted_schema(tool.schema)
    return {"name": tool.name, "description": tool.description, "parameters": dict(parameters)}


def _ordered(arguments: Mapping[str, Any], tool: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments in the order in which the grammar writes them."""
    properties = tool["parameters"].get("properties", {})
    known = {name: arguments[name] for name in properties if name in arguments}
    return known | {name: value for name, value in arguments.items() if name not in known}


def _values_of(examples: Mapping[str, Sequence[Example]]) -> dict[tuple[str, str], list[str]]:
    """The texts that examples say, by function and parameter."""
    found: dict[tuple[str, str], list[str]] = defaultdict(list)
    for name, own in examples.items():
        for example in own:
            for key, value in example.calls[0].arguments.items():
                if isinstance(value, str) and value and value in example.prompt:
                    found[name, key].append(value)
    return found


def varied(
    example: Example, tool: ToolSpec, values: Mapping[tuple[str, str], Sequence[str]], rng: Random
) -> Example:
    """An example with other values where it says its own literally, and perhaps in another letter case."""
    prompt, call = example.prompt, example.calls[0]
    arguments = dict(call.arguments)
    if rng.random() < SWAPPED:
        properties = tool.schema.get("properties", {})
        for key, value in call.arguments.items():
            known = values.get((tool.name, key), ())
            pattern = (
                rf"(?<!\w){re.escape(value)}(?!\w)" if isinstance(value, str) and value else None
            )
            if pattern is None or "enum" in properties.get(key, {}) or rng.random() < 0.4:
                continue
            if len(re.findall(pattern, prompt)) == 1 and len(known) > 1:
                other = rng.choice(known)
                prompt = re.sub(pattern, lambda _, other=other: other, prompt)  # type: ignore[misc]
                arguments[key] = other
        if any(isinstance(v, str) and call.arguments[k] in example.prompt and v not in prompt for k, v in arguments.items() if isinstance(call.arguments[k], str)):  # fmt: skip
            prompt, arguments = (
                example.prompt,
                dict(call.arguments),
            )  # one value stood within another
    return _in_other_case(
        replace(example, prompt=prompt, calls=(ExampleCall(call.name, arguments),)), rng
    )


def _in_other_case(example: Example, rng: Random) -> Example:
    """The first letter small or a capital, where no value begins there; the end without its mark."""
    prompt, texts = (
        example.prompt,
        [v for v in example.calls[0].arguments.values() if isinstance(v, str)],
    )
    if rng.random() < OTHER_CASE and not any(prompt.startswith(text) for text in texts if text):
        first = prompt[:1]
        prompt = (first.lower() if first.isupper() else first.upper()) + prompt[1:]
    if (
        rng.random() < 0.1
        and prompt[-1:] in ".?!"
        and not any(prompt.endswith(t) for t in texts if t)
    ):
        prompt = prompt[:-1]
    return replace(example, prompt=prompt)
