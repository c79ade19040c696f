"""`oneOf`: "exactly one" written with "not", and that only where two options can hold at once.

A list of labelled constants is the most frequent `oneOf`, and may be long. Its options are not compared
at all: which values stand in one option only is seen by counting them.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from callmemaybe.grammar.schema.glance import Plain
from callmemaybe.grammar.schema.keywords import EXACT, REFUSED
from callmemaybe.grammar.schema.references import Spot
from callmemaybe.grammar.schema.shapes import (
    ALL_KINDS,
    ARRAY,
    INTEGER,
    NUMBER,
    OBJECT,
    Among,
    Every,
    Formula,
    Kinds,
    Not,
    One,
    Some,
    Sub,
)
from callmemaybe.grammar.schema.values import kind_of

_LISTS = frozenset(["const", "enum"])
_PLAIN = _LISTS | {"type"}


class _Other(NamedTuple):
    """An option that does not only list values: as it is, where its references end, at a glance."""

    part: Sub
    spot: Spot
    plain: Plain


@dataclass(slots=True)
class _Group:
    """Constants that are compared with the other options together.

    ``written`` are the kinds of number as which whole ones may be written.
    """

    written: int
    kinds: int = 0
    values: dict[Any, Any] = field(default_factory=dict)
    #: Those that stand in more than one option.
    repeated: set[Any] = field(default_factory=set)
    spot: Spot = field(init=False)

    @property
    def single(self) -> dict[Any, Any]:
        """The constants that stand in one option, by identity."""
        if not self.repeated:
            return self.values
        return {key: value for key, value in self.values.items() if key not in self.repeated}


class Exclusive:
    """Says what `oneOf` says by other formulas; remembers it."""

    def __init__(
        self,
        end: Callable[[Spot], Spot],
        parts: Callable[[Spot], list[Formula]],
        glance: Callable[[Spot], Plain],
        clash: Callable[[Spot, Spot], bool],
        spend: Callable[[int, str], None],
    ) -> None:
        """Take what tells of a schema where it ends, what it says, and what a glance tells of it.

        ``clash`` tells whether two schemas may hold at once; ``spend`` is told how many pairs are
        to be compared, and for which pointer.
        """
        self._end = end
        self._parts = parts
        self._glance = glance
        self._clash = clash
        self._spend = spend
        self._sorted: dict[One, tuple[list[_Group], list[_Other]]] = {}
        self._said: dict[One, Formula] = {}

    def formula(self, one: One) -> Formula:
        """Write "exactly one" with "not"."""
        found = self._said.get(one)
        if found is None:
            found = self._said[one] = self._say(one)
        return found

    def _say(self, one: One) -> Formula:
        # To compare two options may lead back here: then with the same schemas, so that it ends.
        if one not in self._sorted:
            self._sorted[one] = self._sort(one.parts)
        groups, others = self._sorted[one]
        denied: list[list[Formula]] = [[] for _ in others]
        options: list[Formula] = []
        free: dict[Any, Any] = {}
        kinds = 0
        for group in groups:
            self._spend(len(others), one.pointer)
            against: list[Formula] = []
            for other, its in zip(others, denied, strict=True):
                if group.kinds & other.plain.kinds and self._clash(group.spot, other.spot):
                    against.append(Not(other.part))
                    its.append(Not(Among(group.values, group.kinds)))
            single = group.single
            if single and not against and group.written != INTEGER:
                free |= single
                kinds |= group.kinds
            elif single:
                said = Among(single, group.kinds)
                options.append(Every((Kinds(group.written), said, *against)))
        if free:
            options.append(Among(free, kinds))
        for index, rivals in enumerate(_rivals([other.plain for other in others])):
            self._spend(len(rivals), one.pointer)
            for later in rivals:
                if self._clash(others[index].spot, others[later].spot):
                    denied[index].append(Not(others[later].part))
                    denied[later].append(Not(others[index].part))
        for other, its in zip(others, denied, strict=True):
            options.append(Every((other.part, *its)) if its else other.part)
        return options[0] if len(options) == 1 else Some(tuple(options), one.pointer)

    def _sort(self, parts: tuple[Sub, ...]) -> tuple[list[_Group], list[_Other]]:
        groups: dict[Hashable, _Group] = {}
        group_of: dict[Any, _Group] = {}
        others: list[_Other] = []
        for part in parts:
            spot = self._end(part.spot)
            listed = self._listed(spot)
            if listed is None:
                others.append(_Other(part, spot, self._glance(spot)))
                continue
            values, kinds = listed
            for key, value in values.items():
                if key in group_of:
                    group_of[key].repeated.add(key)
                    continue
                kind = kind_of(value)
                written = kinds & NUMBER if kind & NUMBER else kind
                # An array or object is denied by many cases: only where it must be, so one by one.
                name: Hashable = key if kind & (ARRAY | OBJECT) else ()
                group = groups.setdefault((written, name), _Group(written))
                group.values[key] = value
                group.kinds |= kind
                group_of[key] = group
        for group in groups.values():
            group.spot = Spot({"enum": list(group.values.values())}, "")
        return list(groups.values()), others

    def _listed(self, spot: Spot) -> tuple[dict[Any, Any], int] | None:
        """Return the values, by identity, of a schema that only lists some, and the kinds it allows.

        None if it is no such schema.
        """
        if not isinstance(spot.value, dict) or _LISTS.isdisjoint(spot.value):
            return None
        if not all(key in _PLAIN for key in spot.value if key in EXACT or key in REFUSED):
            return None
        kinds = ALL_KINDS
        values: dict[Any, Any] | None = None
        for part in self._parts(spot):
            if isinstance(part, Kinds):
                kinds &= part.kinds
            elif not isinstance(part, Among):
                return None
            elif values is None:
                values = dict(part.values)
            else:
                values = {key: value for key, value in values.items() if key in part.values}
        if values is None:
            return None
        return {key: value for key, value in values.items() if kind_of(value) & kinds}, kinds


def _rivals(options: list[Plain]) -> Iterator[list[int]]:
    """Yield for each option the later ones that may have a value of it, by kinds and listed values."""
    having: dict[Any, list[int]] = {}
    open_ones: list[int] = []
    for index, plain in enumerate(options):
        if plain.values is None:
            open_ones.append(index)
        for key in plain.values or ():
            having.setdefault(key, []).append(index)
    for index, plain in enumerate(options):
        if plain.values is None:
            near = range(index + 1, len(options))
            yield [later for later in near if options[later].kinds & plain.kinds]
            continue
        met = {later for key in plain.values for later in having[key]}
        met.update(later for later in open_ones if options[later].kinds & plain.kinds)
        yield sorted(later for later in met if later > index)
