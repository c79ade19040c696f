"""What all nodes of a grammar share: they are hash-consed, and never change.

The same content is the same object, so equality is identity, hashing is O(1), and whatever is derived
from a node can be kept beside it. A node that nobody needs any more goes, as any object does.
"""

from __future__ import annotations

# What the standard library's own weak dictionaries use: removes an entry if, and only if, it is dead.
from _weakref import _remove_dead_weakref  # type: ignore[attr-defined]
from collections.abc import Iterator
from typing import Any, ClassVar, Self
from weakref import ref


class Node:
    """One node of a grammar; compare with ``is``. Construct through the functions of ``nodes.py``."""

    __slots__ = ("__weakref__", "_fields", "least", "machine")
    _interned: ClassVar[dict[tuple[Any, ...], _Held]] = {}

    #: Whether the node has an automaton of its own (see ``tree.machine_of``).
    is_machine: ClassVar[bool] = False
    #: Whether the node is the bytes in its first field.
    is_text: ClassVar[bool] = False
    #: Symbols of every string of a node of this kind, where that is a matter of kind.
    length: ClassVar[int | None] = None
    _fields: tuple[Any, ...]
    #: Fewest symbols of any string of this node, once known; None while it depends on a Ref.
    least: float | None
    #: The automaton derived from this node when it is used as a lexeme; filled by ``automaton.py``.
    machine: Any

    def __new__(cls, *fields: Any) -> Self:
        """Return the one node with this content."""
        key = (cls, *fields)
        held = _held(key)
        if held is not None and (found := held()) is not None:
            return found  # type: ignore[return-value]
        node = _new(cls)
        _set_fields(node, fields)
        _set_machine(node, None)
        set_least(node, len(fields[0]) if cls.is_text else cls.length)
        fresh = _Held(node, _let_go)
        fresh.key = key
        held = Node._interned.setdefault(key, fresh)
        return node if held is fresh else _settled(fresh, node)

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


class _Held(ref[Node]):
    """A weak reference to an interned node, and its content."""

    __slots__ = ("key",)
    key: tuple[Any, ...]


def forget(node: Node) -> None:
    """Let nobody find a node again, so that equal content makes a new one; who holds it keeps it."""
    key = (type(node), *node._fields)
    held = _held(key)
    if held is not None and held() is node:
        Node._interned.pop(key, None)  # noqa: SLF001 - of this module


def _settled(fresh: _Held, node: Any) -> Any:
    """Return the node to use where another one is in the way, which may be about to be let go."""
    while True:
        held = Node._interned.setdefault(fresh.key, fresh)  # noqa: SLF001 - of this module
        if held is fresh:
            return node
        if (found := held()) is not None:
            return found
        _remove_dead_weakref(Node._interned, fresh.key)  # noqa: SLF001


def _let_go(
    held: _Held,
    # Bound here, because modules are emptied before the last nodes go.
    remove: Any = _remove_dead_weakref,
    interned: dict[tuple[Any, ...], _Held] = Node._interned,  # noqa: SLF001
) -> None:
    remove(interned, held.key)


_new = object.__new__
_held = Node._interned.get  # noqa: SLF001
# What writes the slots of a node that nothing else may write to.
_set_fields = Node.__dict__["_fields"].__set__
_set_machine = Node.__dict__["machine"].__set__
set_least = Node.__dict__["least"].__set__


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
