"""ToolIndex: chooses which tools to show a model when a prompt cannot hold all of them.

The data structure is an inverted index: term -> the tools that contain it and their weights. The weights
are Okapi BM25 (Robertson & Zaragoza, 2009). Terms are the words of a tool's name, description and
parameters, and the character 4-grams of these words, which match "factorials" with "factorial" without
rules for the endings of any language (McNamee & Mayfield, 2004). It needs no model and is deterministic.
With ``embed`` the ranking is fused with that of vectors. It knows no grammar and no token.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from callmemaybe.conversation import Conversation, ModelTurn, UserMessage
from callmemaybe.errors import InputError
from callmemaybe.tools import ToolLike, ToolSpec, tool_specs

Scores = NDArray[np.float64]
#: Texts to vectors, float[len(texts), any width].
Embed = Callable[[Sequence[str]], NDArray[np.floating[Any]]]

#: The usual saturation and length normalisation of BM25.
K1, B = 1.2, 0.75
#: The weight of a message relative to the next one.
MESSAGE_DECAY = 0.3
#: The constant of reciprocal rank fusion (Cormack, Clarke & Büttcher, 2009).
FUSION = 60
#: How deep parameters are indexed, and how many characters of each text of a tool.
MAX_DEPTH, MAX_TEXT = 4, 4_000
#: Of a longer query only so many characters at either end are read: that is where requests are made.
QUERY_END = 32_000

#: How many tools a model is shown of more than it tells apart, and of how many such lists the index is kept.
CHOSEN_TOOLS, KEPT_INDEXES = 16, 8

_WORDS = re.compile(r"[^\W\d_]+|\d+")
# Where a word begins inside of an identifier: getWeather, HTTPServer.
_CAMEL_CASE = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
# Scripts without spaces between words are indexed by character bigrams.
_UNSPACED = re.compile(r"([\u0e00-\u0eff\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]+)")
#: The length of the character n-grams.
NGRAM = 4


def terms(text: str) -> Iterator[str]:
    """Yield the case-folded words of a text or identifier, and their character n-grams."""
    text = unicodedata.normalize("NFKC", text)
    for run in _WORDS.findall(_CAMEL_CASE.sub(" ", text)):
        cased = run.casefold()
        # Of the parts of a split every second one is in a script without spaces.
        for part, word in enumerate([cased] if cased.isascii() else _UNSPACED.split(cased)):
            if part % 2:
                yield from (word[at : at + 2] for at in range(max(len(word) - 1, 1)))
                continue
            if word:
                yield word
            if len(word) > 2:
                edged = f"<{word}>"
                yield from (f"#{edged[at : at + NGRAM]}" for at in range(len(edged) - NGRAM + 1))


class ToolIndex:
    """An index of all tools, which chooses those that a request or a conversation may need.

    ``k`` is the number of tools to choose. ``embed`` maps texts to vectors, float[n, width]: similarity of
    vectors is then fused with that of words. Raises InputError for a name that occurs twice.
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
        self._vectors = None if embed is None else _unit(embed([*map(_embedded_text, self.tools)]))

    def __len__(self) -> int:
        return len(self.tools)

    def scores(self, query: str) -> Scores:
        """Return ``float64[len(tools)]``: the BM25 score of each tool for the query."""
        if len(query) > 2 * QUERY_END:
            query = f"{query[:QUERY_END]} {query[-QUERY_END:]}"
        found = np.zeros(len(self.tools))
        for term in sorted(set(terms(query))):
            if term in self._postings:
                ids, weights = self._postings[term]
                found[ids] += weights
        return found

    def search(self, query: str, k: int | None = None) -> list[ToolSpec]:
        """Return the ``k`` best tools, best first; fewer if no other tool matches at all."""
        return self._best(self._ranked(query, self.scores(query)), k or self.k)

    def choose(self, conversation: Conversation) -> list[ToolSpec]:
        """Return the tools to offer now: those called before, and the best for the user's messages.

        Later messages weigh more, so the choice changes with the conversation.
        """
        called = {
            call.name
            for entry in conversation.entries
            if isinstance(entry, ModelTurn)
            for call in entry.calls
        }
        messages = [
            e.text for e in conversation.entries if isinstance(e, UserMessage) and e.role == "user"
        ]
        found = np.zeros(len(self.tools))
        for age, text in enumerate(reversed(messages[-8:])):
            found += MESSAGE_DECAY**age * self.scores(text)
        ranked = self._ranked(messages[-1] if messages else "", found)
        used = [tool for tool in self.tools if tool.name in called]
        best = self._best(ranked, self.k + len(used))
        fresh = [tool for tool in best if tool.name not in called]
        return [*used, *fresh][: max(self.k, len(used))]

    def _ranked(self, query: str, scores: Scores) -> Scores:
        """Return the scores, fused with those of the vectors if there are any."""
        if self._embed is None or self._vectors is None:
            return scores
        near = self._vectors @ _unit(self._embed([query]))[0]
        return _fused(scores) + _fused(near)

    def _best(self, scores: Scores, k: int) -> list[ToolSpec]:
        order = np.argsort(-scores, kind="stable")[:k]
        return [self.tools[index] for index in order if scores[index] > 0]


def shown_tools(tools: Sequence[ToolSpec], request: str, most: int | None) -> Sequence[ToolSpec]:
    """Return the tools to show a model that tells ``most`` apart: all, or of more those that fit the request.

    Where none does, the first ones.
    """
    if most is None or len(tools) <= most:
        return tools
    index, own = _index_of(tuple(tools)), {tool.name: tool for tool in tools}
    # Equal tools may have another order of parameters.
    return [own[tool.name] for tool in index.search(request) or index.tools[: index.k]]


@lru_cache(maxsize=KEPT_INDEXES)
def _index_of(tools: tuple[ToolSpec, ...]) -> ToolIndex:
    return ToolIndex(tools, k=CHOSEN_TOOLS)


def _index(tools: Sequence[ToolSpec]) -> dict[str, tuple[NDArray[np.int64], Scores]]:
    """Return for each term the indices of the tools that contain it, and its weight in each."""
    bags = [
        Counter(term for text in _texts(tool) for term in terms(text[:MAX_TEXT])) for tool in tools
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
    """Yield the texts of a tool: names, descriptions, values of enums."""
    yield tool.name
    yield tool.description
    stack: list[tuple[Any, int]] = [(tool.parameters, 0)]
    while stack:
        schema, depth = stack.pop()
        if not isinstance(schema, Mapping) or depth > MAX_DEPTH:
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


def _embedded_text(tool: ToolSpec) -> str:
    return f"{tool.name}: {tool.description}"


def _unit(vectors: Any) -> Scores:
    found = np.asarray(vectors, np.float64)
    lengths = np.linalg.norm(found, axis=1, keepdims=True)
    return np.asarray(found / np.maximum(lengths, 1e-12))


def _fused(scores: Scores) -> Scores:
    """Return the reciprocal rank of each score, 0 for a score of 0."""
    ranks = np.empty(len(scores))
    ranks[np.argsort(-scores, kind="stable")] = np.arange(len(scores))
    return np.where(scores > 0, 1.0 / (FUSION + 1 + ranks), 0.0)
