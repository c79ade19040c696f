r"""ECMA-262 regular expressions as grammars: word boundaries, anchors, look-aheads.

The dialect is the one JSON Schema recommends (Core, section 6.4): ECMA-262 with the ``u`` flag, over code
points, lenient where engines agree on an unnecessary escape. Back-references, look-behind, and ``\b`` next to
unknown characters are refused with a GrammarError.

Word boundaries are rewritten first (`without_boundaries`): whether a neighbour is a word character mostly
follows from the pattern, so that ``\bfoo`` is ``(?:^|\W)foo``. Then anchors are compiled away: each part has
up to four languages, one for each combination of "must begin at the start of the text" and "must end at its
end" (`AnchoredParts`), and these combine under concatenation, union and repetition.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from itertools import product

from callmemaybe.errors import GrammarError
from callmemaybe.grammar.automata.tree import min_length_of
from callmemaybe.grammar.characters import (
    ALL,
    WORD,
    CharacterEncoding,
    Ranges,
    complement,
    intersection,
    utf8,
)
from callmemaybe.grammar.grammar import Grammar
from callmemaybe.grammar.nodes import (
    EMPTY,
    NOTHING,
    Difference,
    Intersection,
    Node,
    alt,
    lexeme,
    many,
    repeat,
    seq,
    set_source,
)
from callmemaybe.grammar.regex_syntax import (
    MAX_CACHED_LENGTH,
    Anchor,
    CharSet,
    Disjunction,
    LookAhead,
    Quantified,
    Series,
    Term,
    WordBoundary,
    fail,
    parse,
)

#: What a neighbour can be: a word character, another one or none, nothing of this term, or unknown.
_WORD, _OTHER, _EMPTY, _UNKNOWN = "word", "other", "empty", "open"
_SETS: dict[str, Ranges] = {_WORD: WORD, _OTHER: complement(WORD)}
_REFUSED = r"\b is only supported where the pattern says which characters stand beside it"
Terms = tuple[Term, ...]


def without_boundaries(item: Term, *, search: bool) -> Term:
    r"""Return a term that matches the same texts without ``\b`` and ``\B``; GrammarError if there is none.

    With ``search`` more text may surround it. ECMA-262, section 22.2.2.4: a word boundary is where exactly
    one of the two neighbours is a word character; there is none beyond the ends of the text. A character
    stands in for a boundary only where the pattern reads nothing beside it: not behind a look-ahead or an
    anchor, nor in a look-ahead whose first character it would become. There the surroundings are
    distinguished first: ``(?!\b-)-`` is ``(?:^|\W)(?!\b-)-`` or ``\w(?!\b-)-``.
    """
    if not _has_boundary(item):
        return item
    if not search:
        return _resolved(item, _OTHER, _OTHER)
    options = item.options if isinstance(item, Disjunction) else (item,)
    return Disjunction(tuple(found for option in options for found in _searched(option)))


def _searched(option: Term) -> Terms:
    """Resolve one option of a searched pattern, for each kind of surroundings if necessary."""
    try:
        return (_resolved(option, _UNKNOWN, _UNKNOWN),)
    except GrammarError:
        return tuple(
            Series((_edge(before, start=True), _resolved(option, before, behind), _edge(behind, start=False)))
            for before, behind in product(_SETS, repeat=2)
        )  # fmt: skip


def _has_boundary(item: Term) -> bool:
    match item:
        case WordBoundary():
            return True
        case Series():
            return any(map(_has_boundary, item.items))
        case Disjunction():
            return any(map(_has_boundary, item.options))
        case Quantified() | LookAhead():
            return _has_boundary(item.body)
    return False


def _resolved(item: Term, before: str, behind: str) -> Term:
    """Resolve the boundaries of a term with these neighbours."""
    match item:
        case Disjunction():
            return Disjunction(tuple(_resolved(option, before, behind) for option in item.options))
        case Series():
            return _sequence(item.items, before, behind)
        case WordBoundary():
            return _sequence((item,), before, behind)
        case LookAhead() if _has_boundary(item):
            # What stands before the look-ahead is no part of what it reads.
            known = before if before in _SETS else _EMPTY
            return LookAhead(_resolved(item.body, known, _UNKNOWN), item.negative)
        case Quantified() if _has_boundary(item):
            fail(_REFUSED)
    return item


def _sequence(items: Terms, before: str, behind: str) -> Term:
    found: list[Term] = []
    items = _merged(items)
    for index, item in enumerate(items):
        left, right = tuple(found), items[index + 1 :]
        if not isinstance(item, WordBoundary):
            if _has_boundary(item):
                item = _resolved(item, _beside(left, before, -1), _beside(right, behind, 0))
            found.append(item)
            continue
        found = _placed(item, left, right, before, behind)
    return Series(tuple(found))


def _merged(items: Terms) -> Terms:
    """Flatten a series, and merge several boundaries at one place."""
    found: list[Term] = []
    for item in items:
        for one in _merged(item.items) if isinstance(item, Series) else (item,):
            if not (
                isinstance(one, WordBoundary) and found and isinstance(found[-1], WordBoundary)
            ):
                found.append(one)
            elif one != found[-1]:
                found[-1] = Disjunction(())  # a place cannot be a boundary and none
    return tuple(found)


def _placed(item: WordBoundary, left: Terms, right: Terms, before: str, behind: str) -> list[Term]:
    """Return the terms up to a boundary and its replacement, given what follows."""
    prior, next_ = _beside(left, before, -1), _beside(right, behind, 0)
    if {prior, next_} <= {_WORD, _OTHER}:
        holds = (prior != next_) is not item.negative
        return [*left] if holds else [*left, Disjunction(())]
    if next_ in _SETS:
        wanted = _neighbour(next_, negative=item.negative)
        if prior == _UNKNOWN:
            return [*left, _edge(wanted, start=True)]
        if left and (ends := _ending(left[-1], wanted)) is not None:
            outer = _beside(left[:-1], before, -1)
            if not _may_be_empty(left[-1]) or (outer in _SETS and outer != wanted):
                return [*left[:-1], ends]
            if outer == wanted:
                return [*left[:-1], Disjunction((Series(()), ends))]
            if outer == _UNKNOWN and len(left) == 1:
                return [Disjunction((_edge(wanted, start=True), ends))]
    if prior in _SETS and next_ == _UNKNOWN:
        return [*left, _edge(_neighbour(prior, negative=item.negative), start=False)]
    return fail(_REFUSED)


def _neighbour(other: str, *, negative: bool) -> str:
    """Return what a neighbour must be, given the other one."""
    return other if negative else _OTHER if other == _WORD else _WORD


def _edge(wanted: str, *, start: bool) -> Term:
    """Return a character of the wanted kind, or the end of the text where that counts as one."""
    char = CharSet(_SETS[wanted])
    return Disjunction((Anchor(start), char)) if wanted == _OTHER else char


def _ending(item: Term, wanted: str) -> Term | None:
    """Return a repeated character, at least once, whose last occurrence is of the wanted kind."""
    if (
        not isinstance(item, Quantified)
        or not isinstance(item.body, CharSet)
        or item.at_most is not None
    ):
        return None
    last = CharSet(intersection(item.body.ranges, _SETS[wanted]))
    return Series((Quantified(item.body, max(item.at_least - 1, 0), None), last))


def _may_be_empty(item: Term) -> bool:
    return _EMPTY in _kinds(item, -1)


def _beside(items: Terms, outside: str, end: int) -> str:
    """Return the kind of the neighbour at one end of the terms; "empty" if it varies.

    Unknown if nothing is known of it and nothing at all stands between.
    """
    kinds: set[str] = set()
    for item in items[::-1] if end else items:
        found = _kinds(item, end)
        kinds |= found - {_EMPTY}
        if _EMPTY not in found:
            return _one(kinds)
        if outside == _UNKNOWN and _looks(item):
            outside = _EMPTY
    return _one({*kinds, outside})


def _looks(item: Term) -> bool:
    """Whether a term looks at its surroundings."""
    match item:
        case Anchor() | LookAhead() | WordBoundary():
            return True
        case Series():
            return any(map(_looks, item.items))
        case Disjunction():
            return any(map(_looks, item.options))
        case Quantified():
            return _looks(item.body)
    return False


def _one(kinds: Iterable[str]) -> str:
    known = set(kinds)
    return known.pop() if len(known) == 1 else _EMPTY


def _kinds(item: Term, end: int) -> set[str]:
    """Return the kinds that the first (0) or last (-1) character of a term may have."""
    match item:
        case Anchor():
            # Beyond the start (or the end) of the text there is no word character.
            return {_OTHER} if item.start is bool(end) else {_EMPTY}
        case CharSet():
            return {kind for kind, one in _SETS.items() if intersection(item.ranges, one)}
        case Disjunction():
            return set().union(*(_kinds(option, end) for option in item.options))
        case Quantified():
            if item.at_most == 0:
                return {_EMPTY}
            return _kinds(item.body, end) | ({_EMPTY} if item.at_least == 0 else set())
        case Series():
            found: set[str] = {_EMPTY}
            for inner in item.items[::-1] if end else item.items:
                found = (found - {_EMPTY}) | _kinds(inner, end)
                if _EMPTY not in found:
                    break
            return found
    return {_EMPTY}


def regex(pattern: str) -> Grammar:
    """Return the grammar of the texts (UTF-8) that the whole of ``pattern`` matches.

    As Python's ``re.fullmatch``; for "contains a match" write ``.*`` around it. Raises GrammarError with what
    is wrong or not supported.
    """
    return Grammar(set_source(pattern, lexeme(matching(pattern, utf8, search=False))))


def matching(pattern: str, encode: CharacterEncoding, *, search: bool) -> Node:
    """Return the texts in which the pattern matches: somewhere (``search``) or as a whole.

    ``encode`` returns the node of one character of a set.
    """
    return (_cached if len(pattern) <= MAX_CACHED_LENGTH else _matching)(pattern, encode, search)


def _matching(pattern: str, encode: CharacterEncoding, search: bool) -> Node:
    tree = without_boundaries(parse(pattern), search=search)
    return _Compiler(pattern, encode, search).texts(tree)


_cached = lru_cache(maxsize=1024)(_matching)


# -- languages ------------------------------------------------------------------------------

# (must begin at the start of the text, must end at its end) -> what is matched between.
AnchoredParts = dict[tuple[bool, bool], Node]


class _Compiler:
    def __init__(self, pattern: str, encode: CharacterEncoding, search: bool) -> None:
        self._pattern = pattern
        self._encode = encode
        self._around = many(encode(ALL)) if search else EMPTY

    def texts(self, tree: Term) -> Node:
        """Return the texts in which the tree matches."""
        options = tree.options if isinstance(tree, Disjunction) else (tree,)
        return alt(*(self._option(_flat(option)) for option in options))

    def _option(self, items: tuple[Term, ...]) -> Node:
        at = next((i for i, item in enumerate(items) if isinstance(item, LookAhead)), None)
        if at is None:
            return alt(
                *(
                    seq(EMPTY if start else self._around, node, EMPTY if end else self._around)
                    for (start, end), node in self._parts(Series(items)).items()
                )
            )
        # "(?=x)^y" and "^(?=x)y" are equal.
        onward = at
        while onward < len(items) and isinstance(items[onward], LookAhead):
            onward += 1
        if onward < len(items) and items[onward] == Anchor(start=True) and at == 0:
            items = (items[onward], *items[:onward], *items[onward + 1 :])
            at = 1
        parts = self._parts(Series(items[:at]))
        if any(end for _, end in parts):
            fail("a look-ahead behind $ is not supported")
        before = [seq(EMPTY if start else self._around, node) for (start, _), node in parts.items()]
        return seq(alt(*before), self._rest(items[at:]))

    def _rest(self, items: tuple[Term, ...]) -> Node:
        """Return what may follow up to the end of the text; there may be look-aheads anywhere."""
        at = next((i for i, item in enumerate(items) if isinstance(item, LookAhead)), None)
        if at is None:
            return self._to_the_end(Series(items))
        look = items[at]
        assert isinstance(look, LookAhead)
        seen = self._rest((*_flat(look.body), Quantified(CharSet(ALL), 0, None)))
        onward = self._rest(items[at + 1 :])
        for node in (seen, onward):
            set_source(self._pattern, node)
        onward = Difference(onward, seen) if look.negative else Intersection(onward, seen)
        parts = self._parts(Series(items[:at]))
        if any(start or end for start, end in parts):
            fail("an anchor before a look-ahead is not supported here")
        return seq(parts.get((False, False), NOTHING), onward)

    def _to_the_end(self, tree: Term) -> Node:
        parts = self._parts(tree)
        if any(start for start, _ in parts):
            fail("^ behind a look-ahead is not supported here")
        return alt(*(seq(n, EMPTY if end else self._around) for (_, end), n in parts.items()))

    def _parts(self, item: Term) -> AnchoredParts:
        match item:
            case CharSet():
                return _known({(False, False): self._encode(item.ranges)})
            case Anchor():
                return {(item.start, not item.start): EMPTY}
            case Series():
                parts: AnchoredParts = {(False, False): EMPTY}
                plain: list[Node] = []
                for inner in item.items:
                    found = self._parts(inner)
                    if found.keys() == {(False, False)}:
                        plain.append(found[False, False])
                        continue
                    parts = _joined(_joined(parts, {(False, False): seq(*plain)}), found)
                    plain = []
                return _joined(parts, {(False, False): seq(*plain)}) if plain else parts
            case Disjunction():
                return _united(*(self._parts(option) for option in item.options))
            case Quantified():
                return self._loop(item)
            case LookAhead():
                fail("a look-ahead inside a group or a repetition is not supported")
        raise TypeError(f"unknown item {item!r}")

    def _loop(self, item: Quantified) -> AnchoredParts:
        parts = self._parts(item.body)
        inner = parts.get((False, False), NOTHING)
        if parts.keys() <= {(False, False)}:
            return _known({(False, False): repeat(inner, item.at_least, item.at_most)})
        # Only the first round can touch the start of the text and only the last one its end, except for
        # rounds that match nothing; the joins cover those.
        if item.at_least > 50:
            fail("an anchor inside a long repetition is not supported")
        at_most = None if item.at_most is None else item.at_most - item.at_least
        free: AnchoredParts = {(False, False): repeat(inner, 0, at_most)}
        if at_most is None or at_most > 0:
            one_less = {(False, False): repeat(inner, 0, None if at_most is None else at_most - 1)}
            free = _united(free, _joined(parts, one_less), _joined(one_less, parts))
            if at_most is None or at_most > 1:
                two_less = {
                    (False, False): repeat(inner, 0, None if at_most is None else at_most - 2)
                }
                free = _united(free, _joined(_joined(parts, two_less), parts))
        for _ in range(item.at_least):
            free = _joined(parts, free)
        return free


def _flat(item: Term) -> tuple[Term, ...]:
    """Return the terms of a series, with nested series flattened."""
    if not isinstance(item, Series):
        return (item,)
    return tuple(inner for one in item.items for inner in _flat(one))


def _known(parts: AnchoredParts) -> AnchoredParts:
    return {key: node for key, node in parts.items() if node is not NOTHING}


def _united(*several: AnchoredParts) -> AnchoredParts:
    found: dict[tuple[bool, bool], list[Node]] = {}
    for parts in several:
        for key, node in parts.items():
            found.setdefault(key, []).append(node)
    return _known({key: alt(*nodes) for key, nodes in found.items()})


def _joined(first: AnchoredParts, second: AnchoredParts) -> AnchoredParts:
    """Concatenate; an anchor between the two makes what lies beyond it empty."""
    found: list[AnchoredParts] = []
    for (start, end), node in first.items():
        for (starts, ends), onward in second.items():
            if not end and not starts:
                found.append({(start, ends): seq(node, onward)})
                continue
            if starts and not _nullable(node):
                continue
            if end and not _nullable(onward):
                continue
            kept = EMPTY if end and starts else onward if starts else node
            found.append({(start or starts, end or ends): kept})
    return _united(*found)


def _nullable(node: Node) -> bool:
    return min_length_of(node, {}) == 0
