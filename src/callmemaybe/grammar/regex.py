r"""ECMA-262 regular expressions as languages: parser, anchors, look-aheads.

The dialect is the one JSON Schema recommends (Core, section 6.4): ECMA-262 with the ``u`` flag, over
code points, lenient where engines agree on what an unnecessary escape means. What a language over
strings cannot say (back-references) or what is rare and unclear (look-behind, ``\b`` where it is not
known what stands beside it) is refused with a GrammarError, never guessed.

Anchors are compiled away. A part of an expression is known as up to four languages, one for each
combination of "must begin where the text begins" and "must end where the text ends" (`Parts`), and
these combine under concatenation, union and repetition.
"""

from __future__ import annotations

from functools import lru_cache

from callmemaybe.grammar.boundaries import without_boundaries
from callmemaybe.grammar.characters import (
    ALL,
    Spelling,
    utf8,
)
from callmemaybe.grammar.grammar import Grammar
from callmemaybe.grammar.nodes import (
    EMPTY,
    NOTHING,
    Both,
    Except,
    Node,
    alt,
    lexeme,
    many,
    repeat,
    seq,
)
from callmemaybe.grammar.patterns import (
    KEPT,
    Cat,
    Chars,
    Edge,
    Item,
    Look,
    Loop,
    Or,
    fail,
    parse,
)
from callmemaybe.grammar.sources import made_of
from callmemaybe.grammar.tree import least_of


def regex(pattern: str) -> Grammar:
    """Return the language of the texts (UTF-8) that the whole of ``pattern`` matches.

    As Python's ``re.fullmatch``; for "contains a match" write ``.*`` around it. Raises GrammarError
    saying what is wrong or not supported.
    """
    return Grammar(made_of(pattern, lexeme(matching(pattern, utf8, search=False))))


def matching(pattern: str, spell: Spelling, *, search: bool) -> Node:
    """Return the texts in which the pattern matches: somewhere (``search``) or as a whole.

    ``spell`` says which bytes spell a character.
    """
    return (_kept if len(pattern) <= KEPT else _matching)(pattern, spell, search)


def _matching(pattern: str, spell: Spelling, search: bool) -> Node:
    tree = without_boundaries(parse(pattern), search=search)
    return _Compiler(pattern, spell, search).texts(tree)


_kept = lru_cache(maxsize=1024)(_matching)


# -- languages ------------------------------------------------------------------------------

# (must begin at the start of the text, must end at its end) -> what is matched between.
Parts = dict[tuple[bool, bool], Node]


class _Compiler:
    def __init__(self, pattern: str, spell: Spelling, search: bool) -> None:
        self._pattern = pattern
        self._spell = spell
        self._around = many(spell(ALL)) if search else EMPTY

    def texts(self, tree: Item) -> Node:
        """Return the texts in which the tree matches."""
        options = tree.options if isinstance(tree, Or) else (tree,)
        return alt(*(self._option(_flat(option)) for option in options))

    def _option(self, items: tuple[Item, ...]) -> Node:
        at = next((i for i, item in enumerate(items) if isinstance(item, Look)), None)
        if at is None:
            return alt(
                *(
                    seq(EMPTY if start else self._around, node, EMPTY if end else self._around)
                    for (start, end), node in self._parts(Cat(items)).items()
                )
            )
        # "(?=x)^y" and "^(?=x)y" say the same.
        onward = at
        while onward < len(items) and isinstance(items[onward], Look):
            onward += 1
        if onward < len(items) and items[onward] == Edge(start=True) and at == 0:
            items = (items[onward], *items[:onward], *items[onward + 1 :])
            at = 1
        parts = self._parts(Cat(items[:at]))
        if any(end for _, end in parts):
            fail("a look-ahead behind $ is not supported")
        before = [seq(EMPTY if start else self._around, node) for (start, _), node in parts.items()]
        return seq(alt(*before), self._rest(items[at:]))

    def _rest(self, items: tuple[Item, ...]) -> Node:
        """Return what may follow up to the end of the text; items may have look-aheads anywhere."""
        at = next((i for i, item in enumerate(items) if isinstance(item, Look)), None)
        if at is None:
            return self._to_the_end(Cat(items))
        look = items[at]
        assert isinstance(look, Look)
        seen = self._rest((*_flat(look.body), Loop(Chars(ALL), 0, None)))
        onward = self._rest(items[at + 1 :])
        for node in (seen, onward):
            made_of(self._pattern, node)
        onward = Except(onward, seen) if look.negative else Both(onward, seen)
        parts = self._parts(Cat(items[:at]))
        if any(start or end for start, end in parts):
            fail("an anchor before a look-ahead is not supported here")
        return seq(parts.get((False, False), NOTHING), onward)

    def _to_the_end(self, tree: Item) -> Node:
        parts = self._parts(tree)
        if any(start for start, _ in parts):
            fail("^ behind a look-ahead is not supported here")
        return alt(*(seq(n, EMPTY if end else self._around) for (_, end), n in parts.items()))

    def _parts(self, item: Item) -> Parts:
        match item:
            case Chars():
                return _known({(False, False): self._spell(item.ranges)})
            case Edge():
                return {(item.start, not item.start): EMPTY}
            case Cat():
                parts: Parts = {(False, False): EMPTY}
                plain: list[Node] = []
                for inner in item.items:
                    found = self._parts(inner)
                    if found.keys() == {(False, False)}:
                        plain.append(found[False, False])
                        continue
                    parts = _joined(_joined(parts, {(False, False): seq(*plain)}), found)
                    plain = []
                return _joined(parts, {(False, False): seq(*plain)}) if plain else parts
            case Or():
                return _united(*(self._parts(option) for option in item.options))
            case Loop():
                return self._loop(item)
            case Look():
                fail("a look-ahead inside a group or a repetition is not supported")
        raise TypeError(f"unknown item {item!r}")

    def _loop(self, item: Loop) -> Parts:
        parts = self._parts(item.body)
        inner = parts.get((False, False), NOTHING)
        if parts.keys() <= {(False, False)}:
            return _known({(False, False): repeat(inner, item.least, item.most)})
        # Only the first round can touch the start of the text and only the last one its end, but
        # for rounds that match nothing; those are covered by the joins.
        if item.least > 50:
            fail("an anchor inside a long repetition is not supported")
        most = None if item.most is None else item.most - item.least
        free: Parts = {(False, False): repeat(inner, 0, most)}
        if most is None or most > 0:
            one_less = {(False, False): repeat(inner, 0, None if most is None else most - 1)}
            free = _united(free, _joined(parts, one_less), _joined(one_less, parts))
            if most is None or most > 1:
                two_less = {(False, False): repeat(inner, 0, None if most is None else most - 2)}
                free = _united(free, _joined(_joined(parts, two_less), parts))
        for _ in range(item.least):
            free = _joined(parts, free)
        return free


def _flat(item: Item) -> tuple[Item, ...]:
    """Return the items of a sequence, groups around single sequences opened."""
    if not isinstance(item, Cat):
        return (item,)
    return tuple(inner for one in item.items for inner in _flat(one))


def _known(parts: Parts) -> Parts:
    return {key: node for key, node in parts.items() if node is not NOTHING}


def _united(*several: Parts) -> Parts:
    found: dict[tuple[bool, bool], list[Node]] = {}
    for parts in several:
        for key, node in parts.items():
            found.setdefault(key, []).append(node)
    return _known({key: alt(*nodes) for key, nodes in found.items()})


def _joined(first: Parts, second: Parts) -> Parts:
    """Concatenate; an anchor between the two makes what lies beyond it empty."""
    found: list[Parts] = []
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
    return least_of(node, {}) == 0
