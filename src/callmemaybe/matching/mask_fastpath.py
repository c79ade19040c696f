"""What is allowed in a state, found in strides: whole texts and whole lexemes at a time.

Most states stand in front of a text that must come, inside a lexeme, or before a few of these. A text
is followed through the tree of tokens in one go; of a lexeme it is known who stays and what those who
leave have behind it (`lexemes.py`), which is followed on. No state in between is built. Whatever is
not of this kind is left to the walk (`VocabularyTables.walked`), with which the tests compare.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from callmemaybe.grammar.automaton import Automaton
from callmemaybe.matching.lexemes import Part, Slice, Without
from callmemaybe.matching.token_set import TokenSet
from callmemaybe.vocabulary.trie import Trie

if TYPE_CHECKING:
    from callmemaybe.matching.cache import VocabularyTables

#: More alternatives than this in one state, or strides for one set, and it is walked.
MOST_BRANCHES = 1024
MOST_STRIDES = 4000
#: So many ways into lexemes are kept.
KEPT_INNER = 1024
#: So many texts behind each of them, and the longest text that leads into one.
KEPT_TEXTS = 256
LONGEST_LEAD = 8
#: The most texts that may follow a lexeme where what is allowed is kept by them.
FEW_TEXTS = 8
#: A text, and whether no bytes come behind it.
Text = tuple[bytes, bool]
#: What an entry is made of, see ``cache.Entry``.
Found = tuple[
    TokenSet,
    tuple[int, ...],
    tuple[tuple[Part | Slice | Without, Automaton, int], ...],
    tuple[int, ...],
]


def stride(tables: VocabularyTables, automaton: Automaton, state: int) -> Found | None:
    """Return what is allowed in a state (see ``Entry``), or None where only a walk can tell."""
    found = _around_a_lexeme(tables, automaton, state)
    if found is not None:
        return found
    walk = _Strides(tables, automaton)
    # Where no bytes may come, only control tokens, there is nothing to be searched.
    if automaton.first_bytes(state) and not walk.search(state):
        return None
    ids, states = walk.ids, walk.states
    controls = automaton.controls(state)
    if controls:
        for name, target in controls.items():
            ids.append(tables.control(name))
            states.add(target)
    if automaton.is_accepting(state):
        ids += tables.ends_at(automaton, state)
    allowed = tables.sets.of(ids, walk.sets)
    if not allowed:
        return None
    return allowed, tuple(states), tuple(walk.places), tuple(walk.forks)


def _around_a_lexeme(tables: VocabularyTables, automaton: Automaton, state: int) -> Found | None:
    """Return the same where a short text leads into a lexeme (or this is one), and texts out of it.

    What is allowed there depends on the lexeme, the text in front of it, and the first few bytes of the
    texts of which one comes behind it alone, and is kept by these.
    """
    lead, start = automaton.forced(state)
    place = automaton.inside(start)
    if place is None or len(lead) > LONGEST_LEAD or automaton.is_accepting(start):
        return None
    machine, position, after = place
    key = lead, machine.serial, position
    led = tables.led.get(key)
    if led is None:
        if len(tables.led) >= KEPT_INNER:
            tables.led.clear()
        led = tables.led[key] = _led(tables, machine, position, lead)
    inner = led.inner
    if inner is None:
        return None
    behind = _behind(automaton, after, can_be_here=inner.may_end)
    if behind is None:
        return None
    texts, forks = behind
    for depth in led.depths:
        allowed = led.known.get(_told(texts, depth))
        if allowed is not None:
            break
    else:
        allowed = _known_by(tables, led, inner, texts)
        if allowed is None:
            return None
    parts = () if inner.part is None else ((inner.part, inner.machine, after),)
    return allowed, (state, start, after), parts, forks


def _behind(
    automaton: Automaton, state: int, *, can_be_here: bool
) -> tuple[tuple[Text, ...], tuple[int, ...]] | None:
    """Return the few texts that may come in a state, and the state if they are more than one.

    None where there is anything else. ``can_be_here``: whether this may be what comes next of all, so
    that no text may be empty.
    """
    text, target = automaton.forced(state)
    if text:
        return ((text, not automaton.first_bytes(target)),), ()
    branches = automaton.branches(state, FEW_TEXTS)
    if not branches or automaton.controls(state):
        return None if can_be_here or automaton.first_bytes(state) else (((b"", True),), ())
    found: list[Text] = []
    for text, onward in branches:
        if not text:
            return None
        is_all = False
        if len(text) < LONGEST_LEAD:
            more, target = automaton.forced(automaton.after(onward))
            text, is_all = text + more, not automaton.first_bytes(target)
        found.append((text, is_all))
    return tuple(found), (state,)


def _told(texts: tuple[Text, ...], depth: int) -> tuple[bytes | tuple[bytes], ...]:
    """Return the first bytes of each text, and where that is all there is, that."""
    if len(texts) == 1:
        text, is_all = texts[0]
        return ((text,) if is_all and len(text) < depth else text[:depth],)
    return tuple(
        [(text,) if is_all and len(text) < depth else text[:depth] for text, is_all in texts]
    )


class Led(NamedTuple):
    """What is met where a text leads into a lexeme: the tokens in the text, and the lexeme behind it.

    None for the lexeme where no token reaches it, or too many leave it. What is allowed in front of texts
    is ``known`` by as many of their first bytes as ``depths`` lists, see :func:`_told`.
    """

    ids: list[int]
    inner: Inner | None
    known: dict[tuple[bytes | tuple[bytes], ...], TokenSet]
    depths: list[int]


def _led(tables: VocabularyTables, machine: Automaton, position: int, lead: bytes) -> Led:
    ids: list[int] = []
    node = _follow(tables.trie, 0, lead, ids) if lead else 0
    inner = None
    if node >= 0:
        inner = _met(tables, machine, position, node)
        if inner.part is not None and inner.tails is None:
            inner = None
    return Led(ids, inner, {}, [])


def _known_by(
    tables: VocabularyTables, led: Led, inner: Inner, texts: tuple[Text, ...]
) -> TokenSet | None:
    """Return what is allowed in front of texts; None where more than that must be seen."""
    ids = led.ids + inner.ids
    depth = 0
    for text, is_all in texts:
        ways: list[tuple[Trie, int, list[int]]] = []
        left: list[int] = []
        if inner.tails is not None:
            ways.append((inner.tails, 0, left))
        if inner.may_end:
            ways.append((tables.trie, inner.node, ids))
        for trie, node, found in ways:
            met = _depth(trie, node, text, found)
            if met < 0 and not is_all:
                return None
            depth = max(depth, met if met >= 0 else len(text) + 1)
        ids += left if inner.limits is None else inner.limits.may_leave(left)
    allowed = tables.sets.of(ids, [] if inner.stays is None else [inner.stays])
    if not allowed:
        return None
    if len(led.known) >= KEPT_TEXTS:
        led.known.clear()
        led.depths.clear()
    led.known[_told(texts, depth)] = allowed
    if depth not in led.depths:
        led.depths.append(depth)
    return allowed


class _Strides:
    """One search: the tokens found, and where they may lead."""

    __slots__ = ("_automaton", "_stack", "_tables", "forks", "ids", "places", "sets", "states")

    def __init__(self, tables: VocabularyTables, automaton: Automaton) -> None:
        self.ids: list[int] = []
        self.states: set[int] = set()
        self.sets: list[TokenSet] = []
        self.places: list[tuple[Part | Slice | Without, Automaton, int]] = []
        self.forks: list[int] = []
        self._tables, self._automaton = tables, automaton
        self._stack: list[tuple[Trie, int, int, Slice | Without | None]] = []

    def search(self, state: int) -> bool:
        """Look at everything from a state on; False where only a walk can tell."""
        automaton, ids, stack, states = self._automaton, self.ids, self._stack, self.states
        root = self._tables.trie
        states.add(state)
        stack.append((root, 0, state, None))
        left = MOST_STRIDES
        while stack:
            trie, node, here, limits = stack.pop()
            branches = automaton.branches(here, MOST_BRANCHES)
            if branches is None or (left := left - len(branches)) < 0:
                return False
            if len(branches) > 1 or automaton.is_fork(here):
                self.forks.append(here)
            for text, onward in branches:
                if text:
                    found = ids if limits is None else []
                    end = _follow(trie, node, text, found)
                    if limits is not None:
                        ids += limits.may_leave(found)
                    if end >= 0:
                        target = automaton.after(onward)
                        states.add(target)
                        stack.append((trie, end, target, limits))
                elif trie is not root or not self._enter(node, onward):
                    return False
        return True

    def _enter(self, node: int, onward: Any) -> bool:
        """Take the tokens that stay in a lexeme as one set; those that leave it are to be followed."""
        tables, stack = self._tables, self._stack
        machine, position, after = self._automaton.into(onward)
        inner = _met(tables, machine, position, node)
        text, ids, end, machine, part, limits, tails, stays, may_end = inner
        self.states.add(after)
        if text:
            self.states.add(self._automaton.after(onward))
            self.ids += ids
        if part is not None:
            self.places.append((part, machine, after))
            if stays is not None:
                self.sets.append(stays)
            if tails is None:
                return False
            if tails.order_:
                stack.append((tails, 0, after, limits))
        if may_end:
            stack.append((tables.trie, end, after, None))
        return True


class Inner(NamedTuple):
    """What is met on entering a lexeme in a state, at a node of the tree of tokens.

    First a ``text`` that must come, with the tokens ``ids`` on the way, which ends at ``node``. There a
    ``part`` stays in the lexeme, seen through ``limits``, or leaves it with the ``tails`` (None: too
    many); no part where the text is more than the tokens have, or all there is. ``stays`` are the
    tokens that stay, None for none; ``may_end``: whether the lexeme may be over at the node.
    """

    text: bytes
    ids: list[int]
    node: int
    machine: Automaton
    part: Part | Slice | Without | None
    limits: Slice | Without | None
    tails: Trie | None
    stays: TokenSet | None
    may_end: bool


def _met(tables: VocabularyTables, machine: Automaton, state: int, node: int) -> Inner:
    """Return what is met in a state of a machine; remembers some."""
    key = machine.serial, state, node
    inner = tables.inner.get(key)
    if inner is None:
        inner = _inner(tables, machine, state, node)
        if len(tables.inner) >= KEPT_INNER:
            tables.inner.clear()
        tables.inner[key] = inner
    return inner


def _inner(tables: VocabularyTables, machine: Automaton, state: int, node: int) -> Inner:
    """Work out what is met in a state of a machine."""
    ids: list[int] = []
    text = b""
    if not machine.is_accepting(state):
        text, state = machine.forced(state)
        if text:
            node = _follow(tables.trie, node, text, ids)
            if node < 0 or machine.is_final(state):
                return Inner(text, ids, node, machine, None, None, None, None, node >= 0)
    part: Part | Slice | Without
    limits: Slice | Without | None = None
    may_end = machine.is_accepting(state)
    counted = machine.counted(state)
    if counted is not None:
        part = limits = tables.parts.counted(counted, node)
    elif (without := tables.parts.without(machine, state, node)) is not None:
        part = limits = without
    else:
        machine, state = machine.near(state, tables.deepest)
        part = tables.parts.of(machine, state, node)
    stays = part.stays or None
    return Inner(text, ids, node, machine, part, limits, part.tails(), stays, may_end)


def _follow(trie: Trie, node: int, text: bytes, ids: list[int]) -> int:
    """Follow a text from a node, collecting the tokens passed.

    Returns the node at its end; -1 if no token goes on from where it leaves the tree, or its end.
    """
    first, label, own = trie.first_, trie.bytes_, trie.own_
    for byte in text:
        node = label.find(byte, first[node], first[node + 1])
        if node < 0:
            return -1
        if count := own[node]:
            start = trie.low_[node]
            if count == 1:
                ids.append(trie.order_[start])
            else:
                ids += trie.order_[start : start + count]
    return node if first[node] < first[node + 1] else -1


def _depth(trie: Trie, node: int, text: bytes, ids: list[int]) -> int:
    """Follow a text from a node, collecting the tokens passed, to where no token goes on.

    Returns how many bytes of the text tell that; -1 if it takes more than there are.
    """
    first, label, own = trie.first_, trie.bytes_, trie.own_
    for place, byte in enumerate(text, 1):
        node = label.find(byte, first[node], first[node + 1])
        if node < 0:
            return place
        if own[node]:
            start = trie.low_[node]
            ids += trie.order_[start : start + own[node]]
    return -1
