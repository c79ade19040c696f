"""What a grammar promises, in figures: the fate of every keyword, sizes, how much is forced."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from callmemaybe.grammar.measure import Forced, Size, forced_of, longest_of, size_of
from callmemaybe.grammar.nodes import INFINITE, Node
from callmemaybe.grammar.tree import TreeAutomaton, least_of


@dataclass(frozen=True, slots=True)
class Report:
    """What :meth:`Grammar.report` says. Lengths are in symbols: bytes, and control tokens as one each.

    ``keywords``: a row (pointer, keyword, how, why) for each keyword of the schema, none for other
    grammars. ``size``: the states of the automaton. ``fewest`` and ``most``: symbols of the shortest
    and the longest text; ``most`` is infinite without a limit, None where it takes too long to find.
    ``forced``: how many symbols of a shortest text are the only ones possible at their place.
    """

    keywords: Sequence[tuple[str, str, str, str]]
    size: Size
    fewest: int
    most: float | None
    forced: Forced

    def to_json(self) -> dict[str, Any]:
        """Return the report as JSON data; ``most`` is None without a limit, and "unknown" if unknown."""
        most: int | str | None = "unknown" if self.most is None else None
        if self.most is not None and self.most < INFINITE:
            most = int(self.most)
        return {
            "keywords": [
                dict(zip(("pointer", "keyword", "how", "why"), row, strict=True))
                for row in self.keywords
            ],
            "automaton": {
                "states": self.size.states,
                "edges": self.size.edges,
                "complete": self.size.is_whole,
            },
            "bytes": {"fewest": self.fewest, "most": most},
            "forced": {
                "bytes": self.forced.forced,
                "of": self.forced.symbols,
                "share": round(self.forced.share, 4),
            },
        }


def report(
    root: Node,
    rules: Mapping[str, Node],
    lengths: Mapping[str, float],
    keywords: Sequence[tuple[str, str, str, str]],
) -> Report:
    """Measure the language of a node; ``lengths`` are the rules' fewest symbols."""
    automaton = TreeAutomaton(root, rules, lengths)
    return Report(
        keywords,
        size_of(automaton),
        int(least_of(root, lengths)),
        longest_of(root, rules, lengths),
        forced_of(automaton),
    )
