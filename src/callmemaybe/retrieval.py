"""Chooses which tools to show where there are more than a prompt can hold.

Okapi BM25 (Robertson & Zaragoza, 2009) over the words of each tool's name, description and parameters,
and over the runs of four characters in them: those find "factorials" for "factorial" without a rule
for any language's endings (McNamee & Mayfield, 2004). No model, no chance: equal requests get equal
tools.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from callmemaybe.conversation import Conversation, ModelTurn, UserMessage
from callmemaybe.errors import InputError
from callmemaybe.tools import ToolLike, ToolSpec, tool_specs

Doubles = NDArray[np.float64]
#: Texts to vectors, float[len(texts), any width].
Embed = Callable[[Sequence[str]], NDArray[np.floating[Any]]]

#: The usual saturation and length normalisation of BM25.
K1, B = 1.2, 0.75
#: How much less a message counts than the one behind it.
FADING = 0.3
#: Rank fusion's constant (Cormack, Clarke & Büttcher, 2009).
FUSION = 60
#: How deep parameters are read, and how many characters of each text of a tool.
DEPTH, LENGTH = 4, 4_000
#: How many characters are read at either end of a request, which mostly says there what it wants.
END = 32_000

# Letters of one case, or an upper-case run in front of a word (HTTPServer), or digits.
_WORDS = re.compile(r"[^\W\d_]+|\d+")
_HUMPS = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
# Scripts that put no spaces between words: they are indexed by pairs of characters.
_UNSPACED = re.compile(r"([\u0e00-\u0eff\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]+)")
#: How many characters a run in a word has.
GRAM = 4


def terms(text: str) -> Iterator[str]:
    """Yield the words of a text or an identifier, without case, and the runs of characters in them."""
    text = unicodedata.normalize("NFKC", text)
    for run in _WORDS.findall(_HUMPS.sub(" ", text)):
        cased = run.casefold()
        # Words of other scripts stand among them without a space: every second part is unspaced.
        for place, word in enumerate([cased] if cased.isascii() else _UNSPACED.split(cased)):
            if place % 2:
                yield from (word[at : at + 2] for at in range(max(len(word) - 1, 1)))
                continue
            if word:
                yield word
            if len(word) > 2:
                edged = f"<{word}>"
                yield from (f"#{edged[at : at + GRAM]}" for at in range(len(edged) - GRAM + 1))


class ToolIndex:
    """All tools there are; says which of them a request, or a conversation, may need.

    ``k`` is how many to choose. ``embed`` turns texts into vectors, if meanings are to count as well as
    words: the two orders are then merged by their ranks. Raises InputError for a name that occurs
    twice.
    """

    def __init__(
        self,
        tools: Iterable[ToolLike],
        *,
        k: int = 8,
        embed: Embed | None = None,
    ) -> None:
        self.tools = tool_specs(tools)
        self.k = k
        self._by_name = {tool.name: index for index, tool in enumerate(self.tools)}
        if len(self._by_name) < len(self.tools):
            twice = Counter(tool.name for tool in self.tools).most_common(1)[0][0]
            raise InputError(f"the name {twice!r} is used twice", where="tools")
        self._postings = _index(self.tools)
        self._embed = embed
        self._vectors = None if embed is None else _unit(embed([*map(_told, self.tools)]))

    def __len__(self) -> int:
        return len(self.tools)

    def scores(self, query: str) -> Doubles:
        """Return ``float64[len(tools)]``: how well each tool's words fit those of the query."""
        if len(query) > 2 * END:
            query = f"{query[:END]} {query[-END:]}"
        found = np.zeros(len(self.tools))
        for term in sorted(set(terms(query))):
            if term in self._postings:
                ids, weights = self._postings[term]
                found[ids] += weights
        return found

    def search(self, query: str, k: int | None = None) -> list[ToolSpec]:
        """Return the ``k`` tools that fit best, best first; fewer where nothing else fits at all."""
        return self._best(self._ranked(query, self.scores(query)), k or self.k)

    def choose(self, conversation: Conversation) -> list[ToolSpec]:
        """Return the tools to offer now: those called before, and those that fit what was said.

        Later messages count more; so the choice moves with the conversation.
        """
        called = {
            call.name
            for entry in conversation.entries
            if isinstance(entry, ModelTurn)
            for call in entry.calls
        }
        said = [
            e.text for e in conversation.entries if isinstance(e, UserMessage) and e.role == "user"
        ]
        found = np.zeros(len(self.tools))
        for age, text in enumerate(reversed(said[-8:])):
            found += FADING**age * self.scores(text)
        ranked = self._ranked(said[-1] if said else "", found)
        kept = [tool for tool in self.tools if tool.name in called]
        best = self._best(ranked, self.k + len(kept))
        fresh = [tool for tool in best if tool.name not in called]
        return [*kept, *fresh][: max(self.k, len(kept))]

    def _ranked(self, query: str, scores: Doubles) -> Doubles:
        """Return the scores; where meanings count too, merged with theirs by rank."""
        if self._embed is None or self._vectors is None:
            return scores
        near = self._vectors @ _unit(self._embed([query]))[0]
        return _fused(scores) + _fused(near)

    def _best(self, scores: Doubles, k: int) -> list[ToolSpec]:
        order = np.argsort(-scores, kind="stable")[:k]
        return [self.tools[index] for index in order if scores[index] > 0]


def _index(tools: Sequence[ToolSpec]) -> dict[str, tuple[NDArray[np.int64], Doubles]]:
    """Return, for each term, the tools that have it and what it is worth for each."""
    bags = [
        Counter(term for text in _texts(tool) for term in terms(text[:LENGTH])) for tool in tools
    ]
    lengths = [sum(bag.values()) for bag in bags]
    usual = sum(lengths) / max(len(lengths), 1) or 1.0
    found: dict[str, tuple[list[int], list[float]]] = {}
    for index, (bag, length) in enumerate(zip(bags, lengths, strict=True)):
        for term, count in bag.items():
            ids, weights = found.setdefault(term, ([], []))
            ids.append(index)
            weights.append(count * (K1 + 1) / (count + K1 * (1 - B + B * length / usual)))
    postings = {}
    for term, (ids, weights) in found.items():
        rarity = math.log(1 + (len(tools) - len(ids) + 0.5) / (len(ids) + 0.5))
        postings[term] = np.array(ids), rarity * np.array(weights)
    return postings


def _texts(tool: ToolSpec) -> Iterator[str]:
    """Yield what is said about the tool: names, descriptions, values to choose among."""
    yield tool.name
    yield tool.description
    stack: list[tuple[Any, int]] = [(tool.parameters, 0)]
    while stack:
        schema, depth = stack.pop()
        if not isinstance(schema, Mapping) or depth > DEPTH:
            continue
        properties = schema.get("properties")
        for name, inner in properties.items() if isinstance(properties, Mapping) else ():
            yield str(name)
            stack.append((inner, depth + 1))
        if depth and isinstance(schema.get("description"), str):
            yield schema["description"]
        if isinstance(schema.get("enum"), list):
            yield from (one for one in schema["enum"] if isinstance(one, str))
        stack.append((schema.get("items"), depth + 1))


def _told(tool: ToolSpec) -> str:
    return f"{tool.name}: {tool.description}"


def _unit(vectors: Any) -> Doubles:
    found = np.asarray(vectors, np.float64)
    lengths = np.linalg.norm(found, axis=1, keepdims=True)
    return np.asarray(found / np.maximum(lengths, 1e-12))


def _fused(scores: Doubles) -> Doubles:
    """Return what each rank is worth; nothing for a score of nothing."""
    ranks = np.empty(len(scores))
    ranks[np.argsort(-scores, kind="stable")] = np.arange(len(scores))
    return np.where(scores > 0, 1.0 / (FUSION + 1 + ranks), 0.0)
