"""The nodes of a grammar: immutable, hash-consed trees, and the functions that build them.

A node is pure data, in bytes: it knows no automaton, no token and no tool. Nodes are *hash-consed*:
the same content is the same object, so equality is identity, hashing is O(1), and whatever is derived
from a node (an automaton, a length) can be kept beside it and shared between grammars.
"""

from __future__ import annotations

import math
import operator

# What the standard library's own weak dictionaries use: removes an entry if, and only if, it is dead.
from _weakref import _remove_dead_weakref  # type: ignore[attr-defined]
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import pairwise
from typing import Any, ClassVar, Self
from weakref import WeakKeyDictionary, ref


class Node:
    """One node of a grammar; compare with ``is``. Construct through the functions of ``nodes.py``."""

    __slots__ = ("__weakref__", "_fields", "machine", "min_length")
    _interned: ClassVar[dict[tuple[Any, ...], _NodeRef]] = {}

    #: Whether the node has an automaton of its own (see ``tree.machine_of``).
    is_machine: ClassVar[bool] = False
    #: Whether the node is the bytes in its first field.
    is_text: ClassVar[bool] = False
    #: Symbols of every string of a node of this kind, where that is a matter of kind.
    fixed_length: ClassVar[int | None] = None
    _fields: tuple[Any, ...]
    #: Fewest symbols of any string of this node, once known; None while it depends on a Ref.
    min_length: float | None
    #: The automaton derived from this node when it is used as a lexeme; filled by ``automaton.py``.
    machine: Any

    def __new__(cls, *fields: Any) -> Self:
        """Return the one node with this content."""
        key = (cls, *fields)
        held = _find(key)
        if held is not None and (found := held()) is not None:
            return found  # type: ignore[return-value]
        node = _new(cls)
        _set_fields(node, fields)
        _set_machine(node, None)
        set_min_length(node, len(fields[0]) if cls.is_text else cls.fixed_length)
        renewed = _NodeRef(node, _drop)
        renewed.key = key
        held = Node._interned.setdefault(key, renewed)
        return node if held is renewed else _intern_again(renewed, node)

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError("grammar nodes are immutable")

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), self._fields

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(map(_short, self._fields))})"

    @property
    def children(self) -> tuple[Node, ...]:
        """The nodes directly below this one, in order."""
        return ()


class _NodeRef(ref[Node]):
    """A weak reference to an interned node, and its content."""

    __slots__ = ("key",)
    key: tuple[Any, ...]


def unintern(node: Node) -> None:
    """Let nobody find a node again, so that equal content makes a new one; who holds it keeps it."""
    key = (type(node), *node._fields)
    held = _find(key)
    if held is not None and held() is node:
        Node._interned.pop(key, None)  # noqa: SLF001 - of this module


def _intern_again(renewed: _NodeRef, node: Any) -> Any:
    """Return the node to use where another one is in the way, which may be about to be let go."""
    while True:
        held = Node._interned.setdefault(renewed.key, renewed)  # noqa: SLF001 - of this module
        if held is renewed:
            return node
        if (found := held()) is not None:
            return found
        _remove_dead_weakref(Node._interned, renewed.key)  # noqa: SLF001


def _drop(
    held: _NodeRef,
    # Bound here, because modules are emptied before the last nodes go.
    remove: Any = _remove_dead_weakref,
    interned: dict[tuple[Any, ...], _NodeRef] = Node._interned,  # noqa: SLF001
) -> None:
    remove(interned, held.key)


_new = object.__new__
_find = Node._interned.get  # noqa: SLF001
# What writes the slots of a node that nothing else may write to.
_set_fields = Node.__dict__["_fields"].__set__
_set_machine = Node.__dict__["machine"].__set__
set_min_length = Node.__dict__["min_length"].__set__


def _short(field: object) -> str:
    if isinstance(field, int) and field > 1 << 64:
        return _byte_class(field)
    text = repr(field)
    return text if len(text) <= 200 else text[:197] + "..."


def _byte_class(mask: int) -> str:
    return "[" + "".join(repr(bytes([b]))[2:-1] for b in bytes_of(mask)) + "]"


def bytes_of(mask: int) -> Iterator[int]:
    """Yield the bytes of a 256-bit set, ascending."""
    while mask:
        low = mask & -mask
        yield low.bit_length() - 1
        mask ^= low


ALL_BYTES = (1 << 256) - 1
INFINITE = math.inf


#: Properties that read one field each: plain functions without closures, which the interpreter inlines.
FIELD: tuple[Any, ...] = (
    property(lambda node: node._fields[0]),
    property(lambda node: node._fields[1]),
    property(lambda node: node._fields[2]),
    property(lambda node: node._fields[3]),
    property(lambda node: node._fields[4]),
    property(lambda node: node._fields[5]),
)


class Literal(Node):
    """Exactly these bytes (at least one)."""

    __slots__ = ()
    is_text = True

    #: The bytes.
    data: bytes = FIELD[0]


class Bytes(Node):
    """Any one byte of a set, given as a 256-bit integer (bit b = byte b)."""

    __slots__ = ()
    fixed_length = 1

    #: The set.
    mask: int = FIELD[0]


class Chars(Node):
    """One character of a set, spelled in UTF-8; knows the set, so that exporters can name it."""

    __slots__ = ()

    #: The code points, as sorted inclusive ranges; surrogates in them are never spelled.
    ranges: tuple[tuple[int, int], ...] = FIELD[0]
    #: The bytes that spell them.
    encoded: Node = FIELD[1]

    @property
    def children(self) -> tuple[Node, ...]:
        """The spelling."""
        return (self.encoded,)


class Control(Node):
    """One control token, named by its text; no sequence of bytes ever matches it."""

    __slots__ = ()
    fixed_length = 1

    #: The name of the token.
    text: str = FIELD[0]


class Ref(Node):
    """The rule of that name in the grammar at hand."""

    __slots__ = ()

    #: The rule's name.
    name: str = FIELD[0]


class CaptureMark(Node):
    """Matches nothing; opens or closes the capture of that name at this point."""

    __slots__ = ()
    fixed_length = 0

    #: The capture's name.
    name: str = FIELD[0]
    #: Whether the capture begins here (else it ends).
    opens: bool = FIELD[1]


class Concat(Node):
    """One part after the other."""

    __slots__ = ()

    #: The parts in order.
    parts: tuple[Node, ...] = FIELD[0]

    @property
    def children(self) -> tuple[Node, ...]:
        """The parts in order."""
        return self.parts


class Alternation(Node):
    """Any of the options; for captures, the first one that fits wins."""

    __slots__ = ()

    #: The options in order.
    options: tuple[Node, ...] = FIELD[0]

    @property
    def children(self) -> tuple[Node, ...]:
        """The options in order."""
        return self.options


class Repeat(Node):
    """The body, ``at_least`` to ``at_most`` times (``at_most`` None: without end)."""

    __slots__ = ()

    #: What is repeated.
    body: Node = FIELD[0]
    #: Fewest repetitions.
    at_least: int = FIELD[1]
    #: Most repetitions.
    at_most: int | None = FIELD[2]

    @property
    def children(self) -> tuple[Node, ...]:
        """The body."""
        return (self.body,)


class WordTrie(Node):
    """One of many words (sorted, distinct), each followed by its own continuation, as one trie.

    ``then`` is either empty (nothing follows any word) or as long as ``words``. A hundred thousand
    words are one node; choosing among them is a binary search, not a hundred thousand options.
    """

    __slots__ = ()

    #: The words, sorted.
    words: tuple[bytes, ...] = FIELD[0]
    #: What follows each word, or nothing.
    tails: tuple[Node, ...] = FIELD[1]

    @property
    def children(self) -> tuple[Node, ...]:
        """The continuations."""
        return self.tails


class Lexeme(Node):
    """The language of a regular node, determinised on its own and shared between grammars."""

    __slots__ = ()
    is_machine = True

    #: The regular node.
    body: Node = FIELD[0]

    @property
    def children(self) -> tuple[Node, ...]:
        """The body."""
        return (self.body,)


class _Pair(Node):
    __slots__ = ()
    is_machine = True

    #: The first operand.
    left: Node = FIELD[0]
    #: The second operand.
    right: Node = FIELD[1]

    @property
    def children(self) -> tuple[Node, ...]:
        """Both operands."""
        return (self.left, self.right)


class Intersection(_Pair):
    """Intersection of two regular nodes."""

    __slots__ = ()


class Difference(_Pair):
    """The strings of a regular node that another regular node does not have."""

    __slots__ = ()


class Substrings(Node):
    """Any run of neighbouring units of a text (see :func:`substring_of`)."""

    __slots__ = ()
    is_machine = True

    #: The text in the pieces that a substring never splits.
    units: tuple[bytes, ...] = FIELD[0]
    #: Whether a substring may start with that unit.
    starts: tuple[bool, ...] = FIELD[1]
    #: Whether a substring may end with that unit.
    ends: tuple[bool, ...] = FIELD[2]


class DfaTable(Node):
    """An explicit deterministic automaton, for languages that no tree says briefly (remainders).

    State 0 is the start; every state must be able to reach an accepting one.
    """

    __slots__ = ()
    is_machine = True

    #: For each state its (set of bytes as a 256-bit int, target) pairs; the sets disjoint.
    rows: tuple[tuple[tuple[int, int], ...], ...] = FIELD[0]
    #: The accepting states.
    accepting: frozenset[int] = FIELD[1]


EMPTY: Node = Concat(())
NOTHING: Node = Alternation(())


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
        if type(part) is Concat:
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
    node = Concat(tuple(flat))
    if node.min_length is None:
        lengths = [part.min_length for part in flat]
        if None not in lengths:
            set_min_length(node, sum(lengths))  # type: ignore[arg-type]
    return node


def alt(*options: Node) -> Node:
    """Union; flattens, drops repeats and NOTHING, and joins single bytes into one set."""
    flat: dict[Node, None] = {}
    for option in options:
        for piece in option.options if isinstance(option, Alternation) else (option,):
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
    choice = Alternation(tuple(flat))
    if choice.min_length is None:
        lengths = [option.min_length for option in flat]
        if None not in lengths:
            set_min_length(choice, min(lengths, default=INFINITE))  # type: ignore[type-var]
    return choice


def repeat(body: Node, min_length: int = 0, most: int | None = None) -> Node:
    """``body`` from ``min_length`` to ``most`` times; ``most`` None means without end."""
    if most is not None and most < min_length:
        return NOTHING
    if body is NOTHING:
        return EMPTY if min_length == 0 else NOTHING
    if body is EMPTY or most == 0:
        return EMPTY
    if min_length == most == 1:
        return body
    node = Repeat(body, min_length, most)
    if node.min_length is None and (one := body.min_length) is not None:
        set_min_length(node, one * min_length if min_length else 0)
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
    return seq(CaptureMark(name, True), body, CaptureMark(name, False))


def words(texts: Iterable[str | bytes]) -> Node:
    """Exactly one of these words."""
    raw = sorted({t.encode() if isinstance(t, str) else bytes(t) for t in texts})
    return _word_trie(tuple(raw), ())


def words_then(branches: Mapping[str | bytes, Node]) -> Node:
    """One of these words, followed by what belongs to it."""
    pairs = sorted((w.encode() if isinstance(w, str) else bytes(w), n) for w, n in branches.items())
    return _word_trie(tuple(w for w, _ in pairs), tuple(n for _, n in pairs))


def _word_trie(raw: tuple[bytes, ...], then: tuple[Node, ...]) -> Node:
    if not raw:
        return NOTHING
    if len(raw) == 1:
        return seq(lit(raw[0]), *then)
    node = WordTrie(raw, then)
    if node.min_length is None:
        lengths = [one.min_length for one in then]
        if None not in lengths:
            ends = map(operator.add, map(len, raw), lengths) if then else map(len, raw)
            set_min_length(node, min(ends))
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
        or isinstance(body, Lexeme | Intersection | Difference | Substrings | DfaTable | Literal)
    ):
        return body
    return Lexeme(body)


_SOURCES: WeakKeyDictionary[Node, str] = WeakKeyDictionary()


def set_source(source: str, node: Node) -> Node:
    """Note what a node was made of, and return the node."""
    _SOURCES.setdefault(node, source)
    return node


def source_of(node: Node) -> str:
    """Return what a node was made of; empty if that was not noted."""
    return _SOURCES.get(node, "")


def renewed(node: Node) -> Node:
    """Return a lexeme to enter: ``node``, or its equal with a new automaton where its own is worn.

    Whoever is inside the old one goes on there: places name the node they are in.
    """
    while node.machine is not None and node.machine.needs_renewal:
        unintern(node)
        node = type(node)(*map(_renewed_field, node._fields))
    return node


def _renewed_field(field: Any) -> Any:
    return renewed(field) if isinstance(field, Node) and field.is_machine else field
