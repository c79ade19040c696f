"""The nodes of a grammar: immutable, hash-consed trees over bytes, and the functions that build them.

Hash-consed: equal content is one object. Equality is therefore identity and hashing is O(1), and what is
derived from a node (its automaton, its shortest length) is stored on the node and shared between grammars. A
node is garbage-collected like any object once nothing refers to it. Nodes do not know automata or tokens.
"""

from __future__ import annotations

import math
import operator

# The standard library's weak dictionaries use this function: it removes an entry only if its reference is
# dead.
from _weakref import _remove_dead_weakref  # type: ignore[attr-defined]
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import pairwise
from typing import Any, ClassVar, Self
from weakref import WeakKeyDictionary, ref


class Node:
    """One node of a grammar; compare with ``is``. Build nodes with the functions of this module."""

    __slots__ = ("__weakref__", "_fields", "machine", "min_length")
    _interned: ClassVar[dict[tuple[Any, ...], _NodeRef]] = {}

    #: Whether the node has an automaton of its own (see ``machine_of``).
    is_machine: ClassVar[bool] = False
    #: Whether the first field is the bytes of the node.
    is_text: ClassVar[bool] = False
    #: Symbols of every string of this kind of node, if the kind decides it.
    fixed_length: ClassVar[int | None] = None
    _fields: tuple[Any, ...]
    #: Symbols of the shortest string; None while it is unknown because it depends on a Ref.
    min_length: float | None
    #: The automaton of this node, set by ``machine_of``.
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
        """The direct children, in order."""
        return ()


class _NodeRef(ref[Node]):
    """A weak reference to an interned node, with the node's key."""

    __slots__ = ("key",)
    key: tuple[Any, ...]


def unintern(node: Node) -> None:
    """Remove a node from the intern table: equal content makes a new node from now on."""
    key = (type(node), *node._fields)
    held = _find(key)
    if held is not None and held() is node:
        Node._interned.pop(key, None)  # noqa: SLF001 - of this module


def _intern_again(renewed: _NodeRef, node: Any) -> Any:
    """Return the node to use if another thread interned an equal one first."""
    while True:
        held = Node._interned.setdefault(renewed.key, renewed)  # noqa: SLF001 - of this module
        if held is renewed:
            return node
        if (found := held()) is not None:
            return found
        _remove_dead_weakref(Node._interned, renewed.key)  # noqa: SLF001


def _drop(
    held: _NodeRef,
    # Bound as defaults, because module globals are cleared before the last nodes are collected.
    remove: Any = _remove_dead_weakref,
    interned: dict[tuple[Any, ...], _NodeRef] = Node._interned,  # noqa: SLF001
) -> None:
    remove(interned, held.key)


_new = object.__new__
_find = Node._interned.get  # noqa: SLF001
# Setters that bypass ``__setattr__``.
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


#: One property for each field index; plain functions without closures are inlined by the interpreter.
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

    data: bytes = FIELD[0]


class Bytes(Node):
    """Any one byte of a set, given as a 256-bit integer (bit b = byte b)."""

    __slots__ = ()
    fixed_length = 1

    mask: int = FIELD[0]


class Chars(Node):
    """One character of a set, encoded as UTF-8. It keeps the set itself for the exporters."""

    __slots__ = ()

    #: The code points as sorted inclusive ranges; surrogates in them have no encoding.
    ranges: tuple[tuple[int, int], ...] = FIELD[0]
    #: The node of their UTF-8 encodings.
    encoded: Node = FIELD[1]

    @property
    def children(self) -> tuple[Node, ...]:
        """The encodings."""
        return (self.encoded,)


class Control(Node):
    """One control token, named by its text; no sequence of bytes matches it."""

    __slots__ = ()
    fixed_length = 1

    text: str = FIELD[0]


class Ref(Node):
    """A reference to the rule of this name."""

    __slots__ = ()

    name: str = FIELD[0]


class CaptureMark(Node):
    """Opens or closes the capture ``name``; matches the empty string."""

    __slots__ = ()
    fixed_length = 0

    name: str = FIELD[0]
    #: True where the capture begins, False where it ends.
    opens: bool = FIELD[1]


class Concat(Node):
    """One part after the other."""

    __slots__ = ()

    parts: tuple[Node, ...] = FIELD[0]

    @property
    def children(self) -> tuple[Node, ...]:
        """The parts in order."""
        return self.parts


class Alternation(Node):
    """Any of the options; for captures, the first option that matches wins."""

    __slots__ = ()

    options: tuple[Node, ...] = FIELD[0]

    @property
    def children(self) -> tuple[Node, ...]:
        """The options in order."""
        return self.options


class Repeat(Node):
    """The body, ``at_least`` to ``at_most`` times (None: unbounded)."""

    __slots__ = ()

    body: Node = FIELD[0]
    at_least: int = FIELD[1]
    at_most: int | None = FIELD[2]

    @property
    def children(self) -> tuple[Node, ...]:
        """The body."""
        return (self.body,)


class WordTrie(Node):
    """One of many words (sorted, distinct), each followed by its own continuation, stored as one trie.

    ``tails`` is empty (nothing follows any word) or as long as ``words``. A hundred thousand words are one
    node; choosing among them is a binary search.
    """

    __slots__ = ()

    words: tuple[bytes, ...] = FIELD[0]
    #: What follows each word.
    tails: tuple[Node, ...] = FIELD[1]

    @property
    def children(self) -> tuple[Node, ...]:
        """The tails."""
        return self.tails


class Lexeme(Node):
    """A regular node that is compiled to an automaton of its own, which all grammars share."""

    __slots__ = ()
    is_machine = True

    body: Node = FIELD[0]

    @property
    def children(self) -> tuple[Node, ...]:
        """The body."""
        return (self.body,)


class _Pair(Node):
    __slots__ = ()
    is_machine = True

    left: Node = FIELD[0]
    right: Node = FIELD[1]

    @property
    def children(self) -> tuple[Node, ...]:
        """Both operands."""
        return (self.left, self.right)


class Intersection(_Pair):
    """The strings that are in both regular nodes."""

    __slots__ = ()


class Difference(_Pair):
    """The strings of ``left`` that are not in ``right``; both are regular."""

    __slots__ = ()


class Substrings(Node):
    """Any non-empty run of neighbouring units of a text (see :func:`substring_of`)."""

    __slots__ = ()
    is_machine = True

    #: The text as units; a substring never splits one.
    units: tuple[bytes, ...] = FIELD[0]
    #: Whether a substring may start with this unit.
    starts: tuple[bool, ...] = FIELD[1]
    #: Whether a substring may end with this unit.
    ends: tuple[bool, ...] = FIELD[2]


class DfaTable(Node):
    """An explicit deterministic automaton, for regular languages without a short tree (remainders).

    State 0 is the start; every state must be able to reach an accepting one.
    """

    __slots__ = ()
    is_machine = True

    #: For each state its (set of bytes as a 256-bit integer, target) pairs; the sets are disjoint.
    rows: tuple[tuple[tuple[int, int], ...], ...] = FIELD[0]
    #: The accepting states.
    accepting: frozenset[int] = FIELD[1]


#: The most parts of a sequence that are copied into the sequence around it. A definition that is used twice by
#: the next one, which is used twice itself, would have billions after 32 levels.
MAX_FLATTENED = 256

EMPTY: Node = Concat(())
NOTHING: Node = Alternation(())


def lit(data: str | bytes) -> Node:
    """Exactly this text (as UTF-8) or these bytes."""
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
    """Any one byte of a 256-bit set: one byte makes a literal, no byte makes NOTHING."""
    if mask == 0:
        return NOTHING
    if mask & (mask - 1) == 0:
        return Literal(bytes([mask.bit_length() - 1]))
    return Bytes(mask)


def seq(*parts: Node) -> Node:
    """Concatenation: flattens (short parts), joins neighbouring literals, and is NOTHING if a part is."""
    flat: list[Node] = []
    last: Node | None = None
    for part in parts:
        if type(part) is Concat:
            pieces: tuple[Node, ...] = part._fields[0]
            if not pieces:
                continue
            if len(pieces) > MAX_FLATTENED and len(parts) > 1:
                last = part
                flat.append(part)
                continue
            # Neighbouring literals can only arise where two sequences meet.
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
    """Union: flattens, drops duplicates and NOTHING, and joins single bytes into one set."""
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
    """``body`` from ``at_least`` to ``at_most`` times; None means unbounded."""
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
    """``body`` or the empty string."""
    return repeat(body, 0, 1)


def many(body: Node) -> Node:
    """``body`` any number of times."""
    return repeat(body)


def some(body: Node) -> Node:
    """``body`` at least once."""
    return repeat(body, 1)


def capture(name: str, body: Node) -> Node:
    """``body``, captured as ``name``."""
    return seq(CaptureMark(name, True), body, CaptureMark(name, False))


def words(texts: Iterable[str | bytes]) -> Node:
    """Exactly one of these words."""
    raw = sorted({t.encode() if isinstance(t, str) else bytes(t) for t in texts})
    return _word_trie(tuple(raw), ())


def words_then(branches: Mapping[str | bytes, Node]) -> Node:
    """One of these words, followed by the node that belongs to it."""
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

    ``escape`` encodes one character in the output (as inside a JSON string, for example). With
    ``whole_words`` a substring neither starts nor ends inside a run of letters and digits.
    """
    inner = [a.isalnum() and b.isalnum() for a, b in pairwise(text)] if whole_words else []
    inner = inner or [False] * max(len(text) - 1, 0)
    starts = tuple(not cut for cut in [False, *inner][: len(text)])
    ends = tuple(not cut for cut in [*inner, False][: len(text)])
    return Substrings(tuple(map(escape, text)), starts, ends) if text else NOTHING


def lexeme(body: Node) -> Node:
    """Mark a regular node as a lexeme: compiled once, and shared by every grammar that contains it."""
    if (
        body is NOTHING
        or body is EMPTY
        or isinstance(body, Lexeme | Intersection | Difference | Substrings | DfaTable | Literal)
    ):
        return body
    return Lexeme(body)


_SOURCES: WeakKeyDictionary[Node, str] = WeakKeyDictionary()


def set_source(source: str, node: Node) -> Node:
    """Record the pattern that a node was made from, for error messages, and return the node."""
    _SOURCES.setdefault(node, source)
    return node


def source_of(node: Node) -> str:
    """Return the pattern that a node was made from; empty if none was recorded."""
    return _SOURCES.get(node, "")


def renewed(node: Node) -> Node:
    """Return ``node``, or an equal node with a new automaton if its own has used half of its budget.

    Readers that are inside the old automaton continue there: items refer to the node itself.
    """
    while node.machine is not None and node.machine.needs_renewal:
        unintern(node)
        node = type(node)(*map(_renewed_field, node._fields))
    return node


def _renewed_field(field: Any) -> Any:
    return renewed(field) if isinstance(field, Node) and field.is_machine else field
