"""What is left to decide in a branch, said as plainly as it can be: most choices need no decision.

Alternatives that say what they are by one member (a discriminator), and `oneOf` above all, which denies
all others, leave many choices among the same few facts. Once each fact is said in its plainest way,
most choices are seen to be met whenever another one is, and there is little left to split.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from typing import Any

from callmemaybe.grammar.schema.judge import Judge
from callmemaybe.grammar.schema.members import is_closed, resolve_member
from callmemaybe.grammar.schema.references import NOTHING_MEETS, Spot
from callmemaybe.grammar.schema.shapes import (
    ANYTHING,
    NEVER,
    OBJECT,
    Fact,
    Formula,
    Kinds,
    Need,
    Object,
    Shape,
    both,
    is_about_one_name,
    is_bare,
)
from callmemaybe.grammar.schema.strings import matches

# The spots within which a formula stands, innermost first, and the collectors (`unevaluated.py`) that
# want to know what it evaluates: (spot, outer, collectors).
Trail = tuple[Spot, Any, tuple[Spot, ...]] | None
Step = tuple[Formula, bool, Trail]
Options = list[Step]


class Choices:
    """Simplifies the choices of a branch by what is certain in it."""

    def __init__(self, is_empty: Callable[[Need, int], bool], judge: Judge) -> None:
        """Take what tells whether a need is certainly empty, looking so deep; and a validator."""
        self._is_empty = is_empty
        self._judge = judge

    def simplified(
        self, shape: Shape, choices: list[Options]
    ) -> tuple[list[Options], list[Options]]:
        """Return the choices that are open, and those that are none any more (one option, or none)."""
        kept: list[Options] = []
        settled: list[Options] = []
        for options in choices:
            left = self._open_options(shape, options)
            if left is not None:
                (kept if len(left) > 1 else settled).append(left)
        return (_without_implied(kept) if len(kept) > 1 else kept), settled

    def _open_options(self, shape: Shape, options: Options) -> Options | None:
        """Return the options that are not yet decided; None if one of them holds anyway."""
        left: Options = []
        for step in self._plainer(shape, options):
            verdict, plainer = self._verdict(shape, step)
            if verdict is True:
                return None
            if verdict is None:
                left.append(plainer)
        return left

    def _plainer(self, shape: Shape, options: Options) -> Iterator[Step]:
        """Say of an object what a negated fact comes down to, and where a member must be.

        One by one, because most choices are met by one of the first.
        """
        if shape.kinds != OBJECT:
            yield from options
            return
        known = shape.facets.get(OBJECT)
        for step in options:
            formula, holds, trail = step
            if not isinstance(formula, Fact) or formula.kinds != OBJECT:
                yield step
                continue
            for facet in (formula.facet,) if holds else formula.facet.complement():
                if known is not None and _is_about_a_member(facet) and is_closed(known):
                    for one in resolve_member(known, facet.members[0], self._judge):
                        yield Fact(OBJECT, one), True, trail
                else:
                    yield Fact(OBJECT, facet), True, trail

    def _verdict(self, shape: Shape, step: Step) -> tuple[bool | None, Step]:
        """Whether an option holds (True) or cannot hold (False) whatever is chosen elsewhere.

        Where that is open (None), also the plainest option that says the same here.
        """
        formula, holds, trail = step
        if isinstance(formula, Kinds):
            kinds = formula.kinds if holds else ~formula.kinds
            verdict = True if not shape.kinds & ~kinds else None if shape.kinds & kinds else False
            return verdict, step
        if not isinstance(formula, Fact) or not holds:
            return None, step
        if not shape.kinds & formula.kinds:
            return True, step
        if shape.kinds != OBJECT or not is_about_one_name(formula.facet):
            return None, step
        known = shape.facets.get(OBJECT) or Object()
        verdict, plainer = self._verdict_on_member(known, formula.facet)
        return verdict, step if plainer is formula.facet else (Fact(OBJECT, plainer), True, trail)

    def _verdict_on_member(self, known: Object, wanted: Object) -> tuple[bool | None, Object]:
        """Judge a fact about one member: it is there and meets a need, or meets it if it is there.

        "It is not there" is the latter, with a need that nothing meets.
        """
        (name, extra), *_ = wanted.properties.items()
        is_there = name in known.required
        need = known.need_of(name, matches)
        if is_never(need) or not self._may_be(known, name):
            return not wanted.required, wanted
        if is_never(extra) or self._is_empty(both(need, extra), 1):
            if wanted.required or is_there:
                return False, wanted
            return None, Object({name: NEVER})
        if len(extra) > 1:
            return None, wanted
        if not extra or self._is_empty(both(need, ((extra[0][0], not extra[0][1]),)), 1):
            fits = is_there or not wanted.required
            return True if fits else None, Object({name: ANYTHING}, (name,))
        return None, wanted

    def _may_be(self, known: Object, name: str) -> bool:
        """Whether there may be a member of this name beside those that must be there."""
        if name in known.required:
            return True
        if known.most is not None and len(known.required) >= known.most:
            return False
        return self._judge.meets(name, known.names)


def _without_implied(choices: list[Options]) -> list[Options]:
    """Leave out the choices that have all options of another one: they are met whenever it is."""
    sets = [frozenset(map(_identity, options)) for options in choices]
    order = sorted(range(len(sets)), key=lambda index: len(sets[index]))
    kept: list[int] = []
    for index in order:
        if not any(sets[other] <= sets[index] for other in kept):
            kept.append(index)
    return [choices[index] for index in sorted(kept)]


def _identity(step: Step) -> Hashable:
    """Return what two steps have in common that say the same in one branch."""
    formula, holds, trail = step
    if isinstance(formula, Fact) and is_about_one_name(formula.facet):
        (name, need), *_ = formula.facet.properties.items()
        return name, need, bool(formula.facet.required), holds
    return id(formula), holds, trail and trail[2]


def _is_about_a_member(facet: Any) -> bool:
    """Whether a facet only says that there is a member of some kind."""
    if not isinstance(facet, Object) or len(facet.members) != 1:
        return False
    return not facet.properties and not facet.required and is_bare(facet)


def is_never(need: Need) -> bool:
    """Whether a need says that nothing meets it."""
    return (NOTHING_MEETS, True) in need
