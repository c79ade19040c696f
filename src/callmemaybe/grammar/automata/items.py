"""Items: the positions at which a reader of a grammar can be, as in the LR construction.

An item is (leaf node, position in the leaf, continuation). The position is an offset in a Literal, a range
(low, high, depth) of a WordTrie, a state of the automaton of a lexeme, and 0 elsewhere. A continuation is a
linked list of the nodes that must follow.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from callmemaybe.grammar.automaton import DEAD, Automaton, Branch, Captured, Edges
from callmemaybe.grammar.nodes import Bytes, Control, Literal, Node, WordTrie


class Continuation:
    """A node that must follow, then the rest of the continuation. Interned per automaton.

    ``state`` is the state in which exactly this is left, once it is known.
    """

    __slots__ = ("min_length", "node", "rest", "state")

    def __init__(self, node: Node, rest: Continuation | None, min_length: int) -> None:
        self.node = node
        self.rest = rest
        self.min_length = min_length
        self.state: int | None = None


# (leaf node, position in it, continuation), see above.
Item = tuple[Node, Any, Continuation | None]
#: Up to this many words are compared one by one.
MAX_SCANNED_WORDS = 64
#: Placeholder for "not exactly one item".
NO_ITEM: tuple[None, Any, Continuation | None] = (None, None, None)
# The capture marks read, newest first: (name, opens, offset, older).
CaptureHistory = tuple[Any, ...] | None


class ItemSet:
    """A state of the automaton: its items, and what was computed for it so far."""

    __slots__ = (
        "accepting",
        "after_lexeme",
        "all_items",
        "byte_targets",
        "controls",
        "edges",
        "first",
        "forced",
        "items",
        "min_remaining",
    )  # fmt: skip

    def __init__(self, items: tuple[Item, ...], accepting: bool) -> None:
        self.items = items
        self.accepting = accepting
        #: The items, and those behind every lexeme that may end here.
        self.all_items: tuple[Item, ...] | None = None
        #: The bytes that may come next.
        self.first: int | None = None
        #: Successors by single bytes, filled on demand.
        self.byte_targets: dict[int, int] | None = None
        self.edges: Edges | None = None
        self.controls: Mapping[str, int] | None = None
        self.min_remaining: int | None = None
        self.after_lexeme: int | None = None
        self.forced: tuple[bytes, int] | None = None


# The target of a move: a node to open (position None), an item, or (None, None, continuation).
KernelItem = tuple[Node | None, Any, Continuation | None]


class Unreached:
    """Marks that the end was not reached (None is a history without captures)."""


UNREACHED = Unreached()


def after_literal(leaf: Node, offset: int, rest: Continuation | None) -> KernelItem:
    """Return the target behind the first `offset` bytes of a literal."""
    return (leaf, offset, rest) if offset < len(leaf.data) else (None, None, rest)  # type: ignore[attr-defined]


def moves(
    item: Item, machine_of: Callable[[Node], Automaton]
) -> Iterator[tuple[int | str, KernelItem]]:
    """Yield (byte set or control text, target) for one item; the sets are disjoint."""
    leaf, position, rest = item
    if isinstance(leaf, Literal):
        yield 1 << leaf.data[position], after_literal(leaf, position + 1, rest)
    elif isinstance(leaf, Bytes):
        yield leaf.mask, (None, None, rest)
    elif isinstance(leaf, Control):
        yield leaf.text, (None, None, rest)
    elif isinstance(leaf, WordTrie):
        low, high, depth = position
        words = leaf.words
        while low < high:
            byte = words[low][depth]
            end = bisect_right(words, byte, low, high, key=lambda word: word[depth])
            yield 1 << byte, (leaf, (low, end, depth + 1), rest)
            low = end
    else:
        for mask, target in machine_of(leaf).edges(position):
            yield mask, (leaf, target, rest)


def move_on_byte(
    item: Item, byte: int, machine_of: Callable[[Node], Automaton]
) -> KernelItem | None:
    """Return the target of one byte from an item, or None: the same move as in :func:`moves`."""
    leaf, position, rest = item
    if isinstance(leaf, Literal):
        data = leaf.data
        return after_literal(leaf, position + 1, rest) if data[position] == byte else None
    if isinstance(leaf, Bytes):
        return (None, None, rest) if leaf.mask >> byte & 1 else None
    if isinstance(leaf, Control):
        return None
    if isinstance(leaf, WordTrie):
        low, high, depth = position
        words = leaf.words
        low = bisect_left(words, byte, low, high, key=lambda word: word[depth])
        high = bisect_right(words, byte, low, high, key=lambda word: word[depth])
        return (leaf, (low, high, depth + 1), rest) if low < high else None
    target = machine_of(leaf).step(position, byte)
    return None if target == DEAD else (leaf, target, rest)


def move_in_trie(leaf: WordTrie, position: Any, data: bytes) -> tuple[int, int, int] | None:
    """Return the trie position after a text that ends inside or at the end of a word.

    None if the text goes beyond a word, so that it must be read byte by byte.
    """
    low, high, depth = position
    if high - low > MAX_SCANNED_WORDS:
        return None
    words = leaf.words
    text = words[low][:depth] + data
    first = bisect_left(words, text, low, high)
    # A word that ends inside the text is followed by its tail.
    if first == high or any(text.startswith(word) for word in words[low:first]):
        return None
    last = first
    while last < high and words[last].startswith(text):
        last += 1
    return (first, last, depth + len(data)) if first < last else None


def first_bytes_of(items: Sequence[Item], machine_of: Callable[[Node], Automaton]) -> int:
    """Return the bytes that may come next in any of the items, as a 256-bit set."""
    union = 0
    for leaf, position, _ in items:
        if type(leaf) is Literal:
            union |= 1 << leaf._fields[0][position]
        elif leaf.is_machine:
            union |= (leaf.machine or machine_of(leaf)).first_bytes(position)
        elif isinstance(leaf, WordTrie):
            union |= first_bytes_of_trie(leaf.words, *position)
        elif isinstance(leaf, Bytes):
            union |= leaf.mask
    return union


def branches_of(items: Sequence[Item], most: int) -> Sequence[Branch] | None:
    """Return the possible texts, and the lexemes that the items are inside, each with its target.

    None if there are other items, or more than ``most``.
    """
    found: list[Branch] = []
    for item in items:
        leaf, position, rest = item
        if type(leaf) is Literal:
            data: bytes = leaf._fields[0]
            found.append((data[position:] if position else data, (None, None, rest)))
        elif leaf.is_machine:
            found.append((b"", item))
        elif isinstance(leaf, WordTrie):
            low, high, depth = position
            if high - low > most:
                return None
            words = leaf.words
            for index in range(low, high):
                word = words[index]
                found.append((word[depth:], (leaf, (index, index + 1, len(word)), rest)))
        elif type(leaf) is not Control:
            return None
    return found if len(found) <= most else None


def matches_symbol(mask: int | str, symbol: int | str) -> bool:
    """Whether a move (byte set or control text) matches this symbol."""
    if isinstance(symbol, str) or isinstance(mask, str):
        return mask == symbol
    return bool(mask >> symbol & 1)


def disjoint_moves(
    moves: Iterable[tuple[int | str, KernelItem]],
) -> tuple[list[tuple[int, list[KernelItem]]], dict[str, list[KernelItem]]]:
    """Return disjoint byte sets with the targets of each, and the targets of each control token."""
    controls: dict[str, list[KernelItem]] = {}
    regions: list[tuple[int, list[KernelItem]]] = []
    # Items of the same leaf have the same sets: hundreds of them, in a pattern with a counted repetition.
    by_mask: dict[int, list[KernelItem]] = {}
    taken = 0
    for mask, kernel_item in moves:
        if isinstance(mask, str):
            controls.setdefault(mask, []).append(kernel_item)
        elif mask in by_mask:
            by_mask[mask].append(kernel_item)
        elif not mask & taken:
            by_mask[mask] = [kernel_item]
            regions.append((mask, by_mask[mask]))
            taken |= mask
        else:
            regions = refine_partition(regions, mask, mask & ~taken, kernel_item)
            by_mask = dict(regions)
            taken |= mask
    return regions, controls


def refine_partition(
    regions: list[tuple[int, list[KernelItem]]], mask: int, fresh: int, kernel_item: KernelItem
) -> list[tuple[int, list[KernelItem]]]:
    """Split the regions so that ``mask`` is a union of some of them, and add ``kernel_item`` to those."""
    disjoint_moves: list[tuple[int, list[KernelItem]]] = []
    for region, kernel in regions:
        common = region & mask
        if not common:
            disjoint_moves.append((region, kernel))
        elif common == region:
            kernel.append(kernel_item)
            disjoint_moves.append((region, kernel))
        else:
            disjoint_moves.append((common, [*kernel, kernel_item]))
            disjoint_moves.append((region & ~mask, kernel))
    if fresh:
        disjoint_moves.append((fresh, [kernel_item]))
    return disjoint_moves


def captures_of(history: CaptureHistory | Unreached) -> list[Captured]:
    """Pair the opening and closing marks of a history."""
    events: list[tuple[str, bool, int]] = []
    while isinstance(history, tuple):
        name, opens, offset, history = history
        events.append((name, opens, offset))
    found: list[Captured] = []
    open_at: dict[str, list[int]] = {}
    for name, opens, offset in reversed(events):
        if opens:
            open_at.setdefault(name, []).append(len(found))
            found.append(Captured(name, offset, None))
        elif open_at.get(name):
            index = open_at[name].pop()
            found[index] = found[index]._replace(end=offset)
    return found


def first_bytes_of_trie(words: Sequence[bytes], low: int, high: int, depth: int) -> int:
    """Return the bytes at ``depth`` of a range of words that are all longer."""
    union = 0
    while low < high:
        byte = words[low][depth]
        union |= 1 << byte
        low = bisect_right(words, byte, low, high, key=lambda word: word[depth])
    return union


def common_prefix(first: bytes, last: bytes, depth: int) -> bytes:
    """Return the common prefix, from ``depth`` on, of a sorted range given by its first and last word."""
    most = min(len(first), len(last))
    end = depth
    while end < most and first[end] == last[end]:
        end += 1
    return first[depth:end]


def forced_in_trie(item: Item) -> tuple[bytes, KernelItem] | None:
    """Return the forced text inside a trie, and its target; None for other items."""
    leaf, position, rest = item
    if not isinstance(leaf, WordTrie):
        return None
    low, high, depth = position
    piece = common_prefix(leaf.words[low], leaf.words[high - 1], depth)
    return piece, (leaf, (low, high, depth + len(piece)), rest)


def forced_in_literals(items: Sequence[Item]) -> tuple[bytes, list[KernelItem]]:
    """Return the common prefix of items that are all in literals, and its targets."""
    texts = [leaf._fields[0][position:] for leaf, position, _ in items]
    piece = common_prefix(min(texts), max(texts), 0)
    return piece, [
        after_literal(leaf, position + len(piece), rest) for leaf, position, rest in items
    ]
