r"""ECMA-262 regular expressions as languages: parser, anchors, look-aheads.

The dialect is the one JSON Schema recommends (Core, section 6.4): ECMA-262 with the ``u`` flag, over
code points, lenient where engines agree on what an unnecessary escape means. What a language over
strings cannot say (back-references) or what is rare and unclear (look-behind, ``\b``) is refused with
a GrammarError, never guessed.

Anchors are compiled away. A part of an expression is known as up to four languages, one for each
combination of "must begin where the text begins" and "must end where the text ends" (`Parts`), and
these combine under concatenation, union and repetition.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from callmemaybe.errors import GrammarError
from callmemaybe.grammar.characters import (
    ALL,
    DIGITS,
    LINE_ENDS,
    SPACE,
    WORD,
    Ranges,
    Spelling,
    chars,
    complement,
    property_set,
    union,
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
from callmemaybe.grammar.tree import least_of

#: Groups nest no deeper, and counted repetitions multiply no higher, than this.
NESTING, UNROLLED = 60, 20_000


@dataclass(frozen=True, slots=True)
class Chars:
    """One character of a set."""

    ranges: Ranges


@dataclass(frozen=True, slots=True)
class Cat:
    """One item after the other."""

    items: tuple[Item, ...]


@dataclass(frozen=True, slots=True)
class Or:
    """Any of the options."""

    options: tuple[Item, ...]


@dataclass(frozen=True, slots=True)
class Loop:
    """The body, repeated."""

    body: Item
    least: int
    most: int | None


@dataclass(frozen=True, slots=True)
class Edge:
    """The start (``^``) or the end (``$``) of the text."""

    start: bool


@dataclass(frozen=True, slots=True)
class Look:
    """What follows must (or must not) begin with the body."""

    body: Item
    negative: bool


Item = Chars | Cat | Or | Loop | Edge | Look


def regex(pattern: str) -> Grammar:
    """Return the language of the texts (UTF-8) that the whole of ``pattern`` matches.

    As Python's ``re.fullmatch``; for "contains a match" write ``.*`` around it. Raises GrammarError
    saying what is wrong or not supported.
    """
    return Grammar(lexeme(matching(pattern, utf8, search=False)))


@lru_cache(maxsize=1024)
def matching(pattern: str, spell: Spelling, *, search: bool) -> Node:
    """Return the texts in which the pattern matches: somewhere (``search``) or as a whole.

    ``spell`` says which bytes spell a character.
    """
    return _Compiler(spell, search).texts(parse(pattern))


# -- languages ------------------------------------------------------------------------------

# (must begin at the start of the text, must end at its end) -> what is matched between.
Parts = dict[tuple[bool, bool], Node]


class _Compiler:
    def __init__(self, spell: Spelling, search: bool) -> None:
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
        before = [
            seq(EMPTY if start else self._around, node)
            for (start, end), node in self._parts(Cat(items[:at])).items()
            if not end or _fail("a look-ahead behind $ is not supported")
        ]
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
        onward = Except(onward, seen) if look.negative else Both(onward, seen)
        parts = self._parts(Cat(items[:at]))
        if any(start or end for start, end in parts):
            _fail("an anchor before a look-ahead is not supported here")
        return seq(parts.get((False, False), NOTHING), onward)

    def _to_the_end(self, tree: Item) -> Node:
        parts = self._parts(tree)
        if any(start for start, _ in parts):
            _fail("^ behind a look-ahead is not supported here")
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
                _fail("a look-ahead inside a group or a repetition is not supported")
        raise TypeError(f"unknown item {item!r}")

    def _loop(self, item: Loop) -> Parts:
        parts = self._parts(item.body)
        inner = parts.get((False, False), NOTHING)
        if parts.keys() <= {(False, False)}:
            return _known({(False, False): repeat(inner, item.least, item.most)})
        # Only the first round can touch the start of the text and only the last one its end, but
        # for rounds that match nothing; those are covered by the joins.
        if item.least > 50:
            _fail("an anchor inside a long repetition is not supported")
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


def _fail(message: str) -> bool:
    raise GrammarError(f"regular expression: {message}")


# -- the parser -----------------------------------------------------------------------------


@lru_cache(maxsize=1024)
def parse(pattern: str) -> Item:
    """Return the tree of a pattern; raises GrammarError with the place of the mistake."""
    return _Parser(pattern).whole()


_CONTROL_ESCAPES = {"t": 9, "n": 10, "v": 11, "f": 12, "r": 13}
_CLASS_ESCAPES = {"d": DIGITS, "w": WORD, "s": SPACE}
_SYNTAX = "^$\\.*+?()[]{}|/"


class _Parser:
    def __init__(self, pattern: str) -> None:
        self._text = pattern
        self._at = 0
        self._depth = 0

    def whole(self) -> Item:
        """Parse everything."""
        tree, _ = self._union()
        if self._at < len(self._text):
            self._stop("unmatched )")
        return tree

    def _stop(self, what: str) -> None:
        shown = self._text if len(self._text) <= 100 else self._text[:97] + "..."
        _fail(f"{what} at character {self._at} of {shown!r}")

    def _peek(self, text: str) -> bool:
        return self._text.startswith(text, self._at)

    def _take(self, text: str) -> bool:
        if self._peek(text):
            self._at += len(text)
            return True
        return False

    def _next(self) -> str:
        if self._at >= len(self._text):
            self._stop("unexpected end")
        self._at += 1
        return self._text[self._at - 1]

    def _union(self) -> tuple[Item, int]:
        """Parse alternatives; also returns how many copies of characters they unroll to."""
        options, size = [], 0
        while True:
            items: list[Item] = []
            while self._at < len(self._text) and self._text[self._at] not in "|)":
                item, copies = self._quantified()
                items.append(item)
                size += copies
            options.append(items[0] if len(items) == 1 else Cat(tuple(items)))
            if not self._take("|"):
                break
        return options[0] if len(options) == 1 else Or(tuple(options)), size

    def _quantified(self) -> tuple[Item, int]:
        item, size = self._atom()
        least, most = self._quantifier()
        if (least, most) == (1, 1):
            return item, size
        if isinstance(item, Edge | Look):
            self._stop("nothing to repeat")
        self._take("?")  # a lazy quantifier matches the same texts
        if self._peek("+") or self._peek("*") or self._peek("?"):
            self._stop("nothing to repeat")
        size *= max(least, 1 if most is None else most)
        if size > UNROLLED:
            self._stop(f"repetitions unroll to more than {UNROLLED:,} characters")
        return Loop(item, least, most), size

    def _quantifier(self) -> tuple[int, int | None]:
        if self._take("*"):
            return 0, None
        if self._take("+"):
            return 1, None
        if self._take("?"):
            return 0, 1
        if not self._peek("{"):
            return 1, 1
        start = self._at
        self._at += 1
        least = self._digits()
        if least is None:
            # Annex B reads "{,5}" as text, Python as a quantifier: refused. Other braces are text.
            if self._take(",") and self._digits() is not None and self._take("}"):
                self._stop("a quantifier without its lower limit is not portable")
            self._at = start
            return 1, 1
        most = self._digits() if (comma := self._take(",")) else least
        if not self._take("}"):
            self._at = start
            return 1, 1
        if comma and most is not None and most < least:
            self._stop("numbers out of order in {}")
        return least, most

    def _digits(self) -> int | None:
        start = self._at
        while self._at < len(self._text) and self._text[self._at] in "0123456789":
            self._at += 1
        if self._at - start > 9:
            self._stop("too large a number")
        return int(self._text[start : self._at]) if self._at > start else None

    def _atom(self) -> tuple[Item, int]:
        char = self._next()
        if char == "(":
            return self._group()
        if char == "[":
            return Chars(self._class()), 1
        if char == "\\":
            return self._escape()
        if char == ".":
            return Chars(complement(LINE_ENDS)), 1
        if char in "^$":
            return Edge(start=char == "^"), 0
        if char in "*+?":
            self._at -= 1
            self._stop("nothing to repeat")
        return Chars(chars(char)), 1

    def _group(self) -> tuple[Item, int]:
        look: bool | None = None
        if self._take("?"):
            if self._take("=") or self._take("!"):
                look = self._text[self._at - 1] == "!"
            elif self._peek("<=") or self._peek("<!"):
                self._stop("look-behind is not supported")
            elif self._take("<") or self._take("P<"):
                while self._next() != ">":
                    pass
            elif not self._take(":"):
                self._stop("this kind of group is not supported")
        self._depth += 1
        if self._depth > NESTING:
            self._stop(f"groups nested deeper than {NESTING}")
        tree, size = self._union()
        self._depth -= 1
        if not self._take(")"):
            self._stop("missing )")
        return (tree if look is None else Look(tree, look)), size

    def _escape(self) -> tuple[Item, int]:
        char = self._next()
        if char in "bB":
            self._stop(f"\\{char} is not supported")
        if char in "123456789" or (char == "k" and self._peek("<")):
            self._stop("back-references are not supported")
        self._at -= 1
        return Chars(self._escaped_set()), 1

    def _escaped_set(self) -> Ranges:
        """Read what follows a backslash, in or outside a class, as a set of characters."""
        char = self._next()
        if (named := _CLASS_ESCAPES.get(char.lower())) is not None and char in "dwsDWS":
            return named if char.islower() else complement(named)
        if char in "pP" and self._peek("{"):
            end = self._text.find("}", self._at)
            name = self._text[self._at + 1 : end]
            found = property_set(name)
            if end < 0 or found is None:
                self._stop(f"the Unicode property {name!r} is not supported")
            self._at = end + 1
            assert found is not None
            return found if char == "p" else complement(found)
        code = self._escaped_code(char)
        return ((code, code),)

    def _escaped_code(self, char: str) -> int:
        if char in _CONTROL_ESCAPES:
            return _CONTROL_ESCAPES[char]
        if char == "c":
            letter = self._next()
            if not (letter.isascii() and letter.isalpha()):
                self._stop("\\c needs a letter")
            return ord(letter) % 32
        if char == "0" and not (self._at < len(self._text) and self._text[self._at].isdigit()):
            return 0
        if char == "x":
            return self._hex(2)
        if char == "u":
            return self._unicode()
        if char.isascii() and char.isalnum():
            self._stop(f"the escape \\{char} means different things to different engines")
        return ord(char)

    def _unicode(self) -> int:
        if self._take("{"):
            end = self._text.find("}", self._at)
            digits = self._text[self._at : end]
            if (
                end < 0
                or not 1 <= len(digits) <= 8
                or not _is_hex(digits)
                or int(digits, 16) > ALL[0][1]
            ):
                self._stop("bad \\u{...}")
            self._at = end + 1
            return int(digits, 16)
        code = self._hex(4)
        if 0xD800 <= code <= 0xDBFF and self._peek("\\u"):
            back = self._at
            self._at += 2
            low = self._hex(4)
            if 0xDC00 <= low <= 0xDFFF:
                return 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00)
            self._at = back
        return code

    def _hex(self, count: int) -> int:
        digits = self._text[self._at : self._at + count]
        if len(digits) != count or not _is_hex(digits):
            self._stop(f"{count} hexadecimal digits expected")
        self._at += count
        return int(digits, 16)

    def _class(self) -> Ranges:
        negative = self._take("^")
        found: list[Ranges] = []
        while not self._take("]"):
            low = self._class_atom()
            if self._peek("-") and not self._peek("-]"):
                self._at += 1
                high = self._class_atom()
                if (
                    len(low) == len(high) == 1
                    and low[0][0] == low[0][1]
                    and high[0][0] == high[0][1]
                ):
                    if low[0][0] > high[0][0]:
                        self._stop("range out of order")
                    found.append(((low[0][0], high[0][0]),))
                else:  # Annex B: "[\w-.]" is \w, - and .
                    found += [low, chars("-"), high]
            else:
                found.append(low)
        whole = union(*found)
        return complement(whole) if negative else whole

    def _class_atom(self) -> Ranges:
        char = self._next()
        if char != "\\":
            return chars(char)
        if self._peek("b"):
            self._at += 1
            return chars("\b")
        return self._escaped_set()


def _is_hex(digits: str) -> bool:
    return all(c in "0123456789abcdefABCDEF" for c in digits)
