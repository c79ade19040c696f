"""The nodes of a grammar: immutable, hash-consed trees, and the functions that build them.

A node is pure data, in bytes: it knows no automaton, no token and no tool. Nodes are *hash-consed*:
the same content is the same object, so equality is identity, hashing is O(1), and whatever is derived
from a node (an automaton, a length) can be kept beside it and shared between grammars.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable, Mapping
from itertools import pairwise

from callmemaybe.grammar.interning import Node as Node  # noqa: PLC0414 - of this module's face
from callmemaybe.grammar.interning import bytes_of as bytes_of  # noqa: PLC0414 - as above
from callmemaybe.grammar.interning import set_least

ALL_BYTES = (1 << 256) - 1
INFINITE = math.inf


class Literal(Node):
    """Exactly these bytes (at least one)."""

    __slots__ = ()
    is_text = True

    @property
    def data(self) -> bytes:
        """The bytes."""
        return self._fields[0]  # type: ignore[no-any-return]


class Bytes(Node):
    """Any one byte of a set, given as a 256-bit integer (bit b = byte b)."""

    __slots__ = ()
    length = 1

    @property
    def mask(self) -> int:
        """The set."""
        return self._fields[0]  # type: ignore[no-any-return]


class Chars(Node):
    """One character of a set, spelled in UTF-8; knows the set, so that exporters can name it."""

    __slots__ = ()

    @property
    def ranges(self) -> tuple[tuple[int, int], ...]:
        """The code points, as sorted inclusive ranges; surrogates in them are never spelled."""
        return self._fields[0]  # type: ignore[no-any-return]

    @property
    def spelled(self) -> Node:
        """The bytes that spell them."""
        return self._fields[1]  # type: ignore[no-any-return]

    @property
    def children(self) -> tuple[Node, ...]:
        """The spelling."""
        return (self.spelled,)


class Control(Node):
    """One control token, named by its text; no sequence of bytes ever matches it."""

    __slots__ = ()
    length = 1

    @property
    def text(self) -> str:
        """The name of the token."""
        return self._fields[0]  # type: ignore[no-any-return]


class Ref(Node):
    """The rule of that name in the grammar at hand."""

    __slots__ = ()

    @property
    def name(self) -> str:
        """The rule's name."""
        return self._fields[0]  # type: ignore[no-any-return]


class Mark(Node):
    """Matches nothing; opens or closes the capture of that name at this point."""

    __slots__ = ()
    length = 0

    @property
    def name(self) -> str:
        """The capture's name."""
        return self._fields[0]  # type: ignore[no-any-return]

    @property
    def opens(self) -> bool:
        """Whether the capture begins here (else it ends)."""
        return self._fields[1]  # type: ignore[no-any-return]


class Sequence(Node):
    """One part after the other."""

    __slots__ = ()

    @property
    def parts(self) -> tuple[Node, ...]:
        """The parts in order."""
        return self._fields[0]  # type: ignore[no-any-return]

    @property
    def children(self) -> tuple[Node, ...]:
        """The parts in order."""
        return self.parts


class Choice(Node):
    """Any of the options; for captures, the first one that fits wins."""

    __slots__ = ()

    @property
    def options(self) -> tuple[Node, ...]:
        """The options in order."""
        return self._fields[0]  # type: ignore[no-any-return]

    @property
    def children(self) -> tuple[Node, ...]:
        """The options in order."""
        return self.options


class Repeat(Node):
    """The body, ``at_least`` to ``at_most`` times (``at_most`` None: without end)."""

    __slots__ = ()

    @property
    def body(self) -> Node:
        """What is repeated."""
        return self._fields[0]  # type: ignore[no-any-return]

    @property
    def at_least(self) -> int:
        """Fewest repetitions."""
        return self._fields[1]  # type: ignore[no-any-return]

    @property
    def at_most(self) -> int | None:
        """Most repetitions."""
        return self._fields[2]  # type: ignore[no-any-return]

    @property
    def children(self) -> tuple[Node, ...]:
        """The body."""
        return (self.body,)


class Words(Node):
    """One of many words (sorted, distinct), each followed by its own continuation, as one trie.

    ``then`` is either empty (nothing follows any word) or as long as ``words``. A hundred thousand
    words are one node; choosing among them is a binary search, not a hundred thousand options.
    """

    __slots__ = ()

    @property
    def words(self) -> tuple[bytes, ...]:
        """The words, sorted."""
        return self._fields[0]  # type: ignore[no-any-return]

    @property
    def then(self) -> tuple[Node, ...]:
        """What follows each word, or nothing."""
        return self._fields[1]  # type: ignore[no-any-return]

    @property
    def children(self) -> tuple[Node, ...]:
        """The continuations."""
        return self.then


class Lexeme(Node):
    """The language of a regular node, determinised on its own and shared between grammars."""

    __slots__ = ()
    is_machine = True

    @property
    def body(self) -> Node:
        """The regular node."""
        return self._fields[0]  # type: ignore[no-any-return]

    @property
    def children(self) -> tuple[Node, ...]:
        """The body."""
        return (self.body,)


class _Pair(Node):
    __slots__ = ()
    is_machine = True

    @property
    def left(self) -> Node:
        """The first operand."""
        return self._fields[0]  # type: ignore[no-any-return]

    @property
    def right(self) -> Node:
        """The second operand."""
        return self._fields[1]  # type: ignore[no-any-return]

    @property
    def children(self) -> tuple[Node, ...]:
        """Both operands."""
        return (self.left, self.right)


class Both(_Pair):
    """Intersection of two regular nodes."""

    __slots__ = ()


class Except(_Pair):
    """The strings of a regular node that another regular node does not have."""

    __slots__ = ()


class Substrings(Node):
    """Any run of neighbouring units of a text (see :func:`substring_of`)."""

    __slots__ = ()
    is_machine = True

    @property
    def units(self) -> tuple[bytes, ...]:
        """The text in the pieces that a substring never splits."""
        return self._fields[0]  # type: ignore[no-any-return]

    @property
    def starts(self) -> tuple[bool, ...]:
        """Whether a substring may start with that unit."""
        return self._fields[1]  # type: ignore[no-any-return]

    @property
    def ends(self) -> tuple[bool, ...]:
        """Whether a substring may end with that unit."""
        return self._fields[2]  # type: ignore[no-any-return]


class Table(Node):
    """An explicit deterministic automaton, for languages that no tree says briefly (remainders).

    State 0 is the start; every state must be able to reach an accepting one.
    """

    __slots__ = ()
    is_machine = True

    @property
    def rows(self) -> tuple[tuple[tuple[int, int], ...], ...]:
        """For each state its (set of bytes as a 256-bit int, target) pairs; the sets disjoint."""
        return self._fields[0]  # type: ignore[no-any-return]

    @property
    def accepting(self) -> frozenset[int]:
        """The accepting states."""
        return self._fields[1]  # type: ignore[no-any-return]


class Names(Node):
    """An opening, a name of a host in Unicode, and (if it is ``quoted``) a quote.

    Names are those of IDNA 2008 (RFC 5891 to 5893), but for labels in punycode ("xn--").
    Without ``wide``, lengths in punycode are kept by a bound (see ``labels.weight``), so that some
    names are left out. With it every name is there, labels in punycode too, and what punycode says is
    not looked into. ``mail``: domains of addresses, separated by "." only, not necessarily in form C.
    """

    __slots__ = ()
    is_machine = True

    @property
    def opening(self) -> Node:
        """What comes before the name, a regular node of which no text begins another one."""
        return self._fields[0]  # type: ignore[no-any-return]

    @property
    def other(self) -> Node:
        """What may come instead of a name: a regular node that begins as no name does, or NOTHING."""
        return self._fields[1]  # type: ignore[no-any-return]

    @property
    def quoted(self) -> bool:
        """Whether a quote follows."""
        return self._fields[2]  # type: ignore[no-any-return]

    @property
    def wide(self) -> bool:
        """Whether lengths and labels in punycode are left to be checked."""
        return self._fields[3]  # type: ignore[no-any-return]

    @property
    def mail(self) -> bool:
        """Whether these are domains of addresses."""
        return self._fields[4]  # type: ignore[no-any-return]


EMPTY: Node = Sequence(())
NOTHING: Node = Choice(())


def lit(data: str | bytes) -> Node:
    """Exactly this text (UTF-8) or these bytes."""
    raw = data.encode() if isinstance(data, str) else bytes(data)
    return Literal(raw) if raw else EMPTY


def byte_set(data: Iterable[int]) -> Node:
    """Any one of these bytes."""
    mask = 0
    for byte in data:
        mask |= 1 << byte
    return from_mask(mask)


def byte_range(low: int, high: int) -> Node:
    """Any one byte from ``low`` to ``high`` inclusive."""
    return from_mask(((1 << (high + 1)) - 1) & ~((1 << low) - 1))


def from_mask(mask: int) -> Node:
    """Any one byte of a 256-bit set; one byte is a literal, no byte is NOTHING."""
    if mask == 0:
        return NOTHING
    if mask & (mask - 1) == 0:
        return Literal(bytes([mask.bit_length() - 1]))
    return Bytes(mask)


def seq(*parts: Node) -> Node:
    """Concatenation; flattens, joins neighbouring literals, and is NOTHING if a part is."""
    flat: list[Node] = []
    last: Node | None = None
    for part in parts:
        if type(part) is Sequence:
            pieces: tuple[Node, ...] = part._fields[0]
            if not pieces:
                continue
            # Only where two parts meet can there be neighbouring literals.
            if type(last) is Literal and type(pieces[0]) is Literal:
                flat[-1] = Literal(last._fields[0] + pieces[0]._fields[0])
                flat += pieces[1:]
            else:
                flat += pieces
            last = flat[-1]
        elif type(part) is Literal and type(last) is Literal:
            last = flat[-1] = Literal(last._fields[0] + part._fields[0])
        elif part is NOTHING:
            return NOTHING
        else:
            last = part
            flat.append(part)
    if len(flat) == 1:
        return flat[0]
    node = Sequence(tuple(flat))
    if node.least is None:
        lengths = [part.least for part in flat]
        if None not in lengths:
            set_least(node, sum(lengths))  # type: ignore[arg-type]
    return node


def alt(*options: Node) -> Node:
    """Union; flattens, drops repeats and NOTHING, and joins single bytes into one set."""
    flat: dict[Node, None] = {}
    for option in options:
        for piece in option.options if isinstance(option, Choice) else (option,):
            flat[piece] = None
    singles = [
        n for n in flat if isinstance(n, Bytes) or (isinstance(n, Literal) and len(n.data) == 1)
    ]
    if len(singles) > 1:
        mask = 0
        for node in singles:
            mask |= node.mask if isinstance(node, Bytes) else 1 << node.data[0]
            del flat[node]
        flat = {from_mask(mask): None, **flat}
    if len(flat) == 1:
        return next(iter(flat))
    choice = Choice(tuple(flat))
    if choice.least is None:
        lengths = [option.least for option in flat]
        if None not in lengths:
            set_least(choice, min(lengths, default=INFINITE))  # type: ignore[type-var]
    return choice


def repeat(body: Node, least: int = 0, most: int | None = None) -> Node:
    """``body`` from ``least`` to ``most`` times; ``most`` None means without end."""
    if most is not None and most < least:
        return NOTHING
    if body is NOTHING:
        return EMPTY if least == 0 else NOTHING
    if body is EMPTY or most == 0:
        return EMPTY
    if least == most == 1:
        return body
    node = Repeat(body, least, most)
    if node.least is None and (one := body.least) is not None:
        set_least(node, one * least if least else 0)
    return node


def opt(body: Node) -> Node:
    """``body`` or nothing."""
    return repeat(body, 0, 1)


def many(body: Node) -> Node:
    """``body`` any number of times."""
    return repeat(body)


def some(body: Node) -> Node:
    """``body`` at least once."""
    return repeat(body, 1)


def capture(name: str, body: Node) -> Node:
    """``body``, remembered under ``name``."""
    return seq(Mark(name, True), body, Mark(name, False))


def words(texts: Iterable[str | bytes]) -> Node:
    """Exactly one of these words."""
    raw = sorted({t.encode() if isinstance(t, str) else bytes(t) for t in texts})
    return _words(tuple(raw), ())


def words_then(branches: Mapping[str | bytes, Node]) -> Node:
    """One of these words, followed by what belongs to it."""
    pairs = sorted((w.encode() if isinstance(w, str) else bytes(w), n) for w, n in branches.items())
    return _words(tuple(w for w, _ in pairs), tuple(n for _, n in pairs))


def _words(raw: tuple[bytes, ...], then: tuple[Node, ...]) -> Node:
    if not raw:
        return NOTHING
    if len(raw) == 1:
        return seq(lit(raw[0]), *then)
    node = Words(raw, then)
    if node.least is None:
        lengths = [one.least for one in then]
        if None not in lengths:
            ends = map(operator.add, map(len, raw), lengths) if then else map(len, raw)
            set_least(node, min(ends))
    return node


def substring_of(
    text: str, *, escape: Callable[[str], bytes] = str.encode, whole_words: bool = False
) -> Node:
    """Any non-empty substring of ``text``, in whole characters.

    ``escape`` spells one character in the output (say, as inside a JSON string). With
    ``whole_words`` a substring neither starts nor ends in the middle of a run of letters and digits.
    """
    inner = [a.isalnum() and b.isalnum() for a, b in pairwise(text)] if whole_words else []
    inner = inner or [False] * max(len(text) - 1, 0)
    starts = tuple(not cut for cut in [False, *inner][: len(text)])
    ends = tuple(not cut for cut in [*inner, False][: len(text)])
    return Substrings(tuple(map(escape, text)), starts, ends) if text else NOTHING


def lexeme(body: Node) -> Node:
    """Mark a regular node as one lexeme: determinised once, shared by every grammar that has it."""
    if (
        body is NOTHING
        or body is EMPTY
        or isinstance(body, Lexeme | Both | Except | Substrings | Table | Names | Literal)
    ):
        return body
    return Lexeme(body)
