"""Names of hosts over all tokens at once, character by character (see `mask_bulk.py` for everything else).

Nearly every character of Unicode may come next in such a name, and each leads on with counts of its own:
thousands of states for one mask, byte by byte, most of them halves of characters. Here a character is
one step, and what tokens do to a label is found once for each label, however long it is (`Below`). How
long it gets is a matter of what the characters of a token count, which stands in the tree
(`Characters`); tokens that count the same and end alike are one case, of which there are few thousand.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from callmemaybe.grammar.automaton import Automaton
from callmemaybe.grammar.interning import bytes_of
from callmemaybe.grammar.labels import ASCII, BEYOND, LONGEST, MANY, Kind
from callmemaybe.grammar.names import (
    LONGEST_NAME,
    Name,
    NameAutomaton,
    alphabet,
    beginnings,
    joined,
    packed,
)
from callmemaybe.matching.mask_bulk import BulkMasks, Tables
from callmemaybe.vocabulary.trie import Int32, Trie

Indices = npt.NDArray[np.intp]
Ints = npt.NDArray[np.int64]

#: What a node of the tree is that completes no character of a name: none begins so; only begun; a quote.
_NONE, _BEGUN, _QUOTE = -1, -2, -3
#: What a label and a kind lead to: not asked yet; nothing. Behind the quote there is no label.
_UNKNOWN, _NOTHING, _CLOSED = -2, -1, -1
#: More characters, of ASCII or beyond, than any label has with what it needs to end; a length for more.
_MOST = 200
_TOO_LONG = 1000
#: For how many labels of an automaton it is kept what tokens do to them, 2 MB each with 150,000 tokens;
#: and how many automata.
KEPT_LABELS = 8
KEPT_HOSTS = 3


class Counts(NamedTuple):
    """What the characters of a token count: up to its first dot, between dots, behind the last one.

    The first and the last are (of ASCII, beyond, row of these), and the same where there is no dot.
    """

    first: tuple[int, int, int] = (0, 0, ASCII)
    inner: tuple[tuple[int, int, int], ...] = ()
    last: tuple[int, int, int] = (0, 0, ASCII)
    has_dot: bool = False

    def then(self, kind: Kind) -> Counts:
        """Return the counts with one more character."""
        if kind.is_dot:
            inner = (*self.inner, self.last) if self.has_dot else ()
            return Counts(self.first, inner, has_dot=True)
        plain, far, row = self.last
        last = plain + kind.is_ascii, far + (not kind.is_ascii), joined(row, kind.row)
        return self._replace(last=last) if self.has_dot else Counts(last, (), last)


class Characters:
    """What the nodes of a tree of tokens are as characters, where tokens begin with whole ones.

    By node: ``kind``, the number of its kind or one of the above; ``begun``, the number of a beginning;
    ``counts``, the number of what its whole characters count.
    """

    def __init__(self, trie: Trie) -> None:
        """Decode every prefix, level by level."""
        size = len(trie.byte)
        left, code = np.zeros(size, np.int8), np.zeros(size, np.int32)
        byte = trie.byte.astype(np.int32)
        levels = list(zip(trie.starts[1:], trie.starts[2:], strict=False))
        for start, end in levels:
            above = trie.parent[start:end]
            left[start:end], code[start:end] = _decoded(byte[start:end], left[above], code[above])
        starts, which, self.kinds = alphabet()
        self.kind = np.array(which, np.int64)[np.searchsorted(starts, code, side="right") - 1]
        self.kind[left < 0] = _NONE
        self.kind[(left == 0) & (code == 0x22)] = _QUOTE
        self.is_whole = left == 0
        begun = np.flatnonzero(left > 0)
        texts, numbers = np.unique(
            code[begun].astype(np.int64) << 2 | left[begun], return_inverse=True
        )
        known = beginnings()
        found = np.array([known.get((text & 3, text >> 2), 0) for text in texts.tolist()], np.int64)
        self.begun = np.zeros(size, np.int64)
        self.begun[begun] = found[numbers]
        self.kind[begun] = np.where(self.begun[begun] > 0, _BEGUN, _NONE)
        self.counts, self.counted = self._counted(trie, levels)

    def _counted(self, trie: Trie, levels: list[tuple[int, int]]) -> tuple[Ints, list[Counts]]:
        # Kinds that count the same are one.
        alike: dict[tuple[bool, int], int] = {}
        of = np.array([alike.setdefault((k.is_dot, k.row), n) for n, k in enumerate(self.kinds)])
        found, numbers = [Counts()], {Counts(): 0}
        steps: dict[int, int] = {}
        counts = np.zeros(len(trie.byte), np.int64)
        for start, end in levels:
            here = counts[trie.parent[start:end]]
            whole = np.flatnonzero(self.kind[start:end] >= 0)
            keys, inverse = np.unique(
                here[whole] * len(of) + of[self.kind[start:end][whole]], return_inverse=True
            )
            for key in keys.tolist():
                if key not in steps:
                    before, kind = divmod(key, len(of))
                    after = found[before].then(self.kinds[kind])
                    steps[key] = numbers.setdefault(after, len(found))
                    if steps[key] == len(found):
                        found.append(after)
            here[whole] = np.array([steps[key] for key in keys.tolist()], np.int64)[inverse]
            counts[start:end] = here
        return counts, found


def _decoded(
    byte: npt.NDArray[np.int32], left: npt.NDArray[np.int8], code: npt.NDArray[np.int32]
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]]:
    """Return how many bytes characters lack behind one more byte (-1: this is no UTF-8), and their bits."""
    bits = byte & 0x3F
    lead = np.select(
        [byte < 0x80, byte < 0xC2, byte < 0xE0, byte < 0xF0, byte < 0xF5], [0, -1, 1, 2, 3], -1
    )
    begins = np.select(
        [lead == 1, lead == 2, lead == 3], [byte & 0x1F, byte & 0x0F, byte & 0x07], byte
    )
    is_long = (code == 0) & (((left == 2) & (bits < 0x20)) | ((left == 3) & (bits < 0x10)))
    after = np.where((byte & 0xC0 != 0x80) | is_long, -1, left - 1)
    return (
        np.where(left == 0, lead, np.where(left < 0, -1, after)).astype(np.int32),
        np.where(left > 0, code << 6 | bits, begins).astype(np.int32),
    )


class Sweeps(Tables):
    """Sweeps over one tree of tokens: names of hosts character by character, all else byte by byte."""

    def __init__(self) -> None:
        """Know no tree yet."""
        super().__init__()
        self._characters: tuple[Trie, Characters] | None = None
        self._hosts: OrderedDict[int, Hostnames] = OrderedDict()

    def mask_bulk(
        self, trie: Trie, automaton: Automaton, nodes: list[int], states: list[int]
    ) -> BulkMasks:
        """Do as `mask_bulk.sweep` does."""
        if isinstance(automaton, NameAutomaton) and len(nodes) == 1:
            name = automaton.name_at(states[0])
            found = None if name is None else self._follow(trie, automaton, nodes[0], name)
            if found is not None:
                return self._with_others(trie, automaton, nodes[0], states[0], found)
        return super().mask_bulk(trie, automaton, nodes, states)

    def _with_others(
        self, trie: Trie, machine: NameAutomaton, node: int, state: int, found: BulkMasks
    ) -> BulkMasks:
        """Add what begins as no name does."""
        pairs = [
            (trie.child(node, byte), target)
            for mask, target in machine.aside(state)
            for byte in bytes_of(mask)
        ]
        pairs = [pair for pair in pairs if pair[0] >= 0]
        if not pairs:
            return found
        first, states = map(list, zip(*pairs, strict=True))
        more = super().mask_bulk(trie, machine, first, states)
        nodes = np.concatenate([found.nodes, np.array(first, np.intp), more.nodes])
        known = len(found.states)
        firsts = np.arange(known, known + len(states))
        rows = np.concatenate([found.rows, firsts, more.rows + known + len(states)])
        order = np.argsort(nodes, kind="stable")
        return BulkMasks(nodes[order], rows[order], [*found.states, *states, *more.states])

    def _follow(
        self, trie: Trie, machine: NameAutomaton, node: int, name: Name
    ) -> BulkMasks | None:
        if self._characters is None or self._characters[0] is not trie:
            self._characters = trie, Characters(trie)
        # Taken out while it is in use, as tables are.
        hosts = self._hosts.pop(machine.serial, None) or Hostnames(
            machine, trie, self._characters[1]
        )
        found = hosts.mask_bulk(node, name)
        self._hosts[machine.serial] = hosts
        if len(self._hosts) > KEPT_HOSTS:
            self._hosts.popitem(last=False)
        return found


class _Below(NamedTuple):
    """The nodes at which tokens leave a label (or one behind it) alive, however long it is.

    ``above``: the place of the node above each; ``case``: the number of what tells them apart: the label,
    the counts, what the label needs to end (of ASCII, beyond), the beginning of a character.
    """

    nodes: Int32
    above: Int32
    case: Int32
    cases: Ints


class Hostnames:
    """All that is kept for one automaton of names, over one tree of tokens."""

    def __init__(self, machine: NameAutomaton, trie: Trie, characters: Characters) -> None:
        """Know nothing of labels yet."""
        self._machine, self._trie, self._characters = machine, trie, characters
        self._width = len(characters.kinds)
        # By label and kind: the label after it, and what that needs to end.
        self._leads = np.full((64 * self._width, 3), _UNKNOWN, np.int64)
        self._below: OrderedDict[tuple[int, int], _Below] = OrderedDict()
        self._octets = np.full((3, _MOST, _MOST), _TOO_LONG, np.int64)
        for which, row in enumerate((0, MANY, BEYOND)):
            for plain in range(LONGEST + 1):
                for far in range(LONGEST + 1):
                    length = machine.octets(plain, far, row)
                    if length > LONGEST:
                        break
                    self._octets[which, plain, far] = length
        counted = characters.counted
        self._first = np.array([one.first for one in counted], np.int64).T
        self._last = np.array([one.last for one in counted], np.int64).T
        self._has_dot = np.array([one.has_dot for one in counted])
        self._inner = np.array(
            [sum(self._length(*part) + 1 for part in one.inner) for one in counted]
        )

    def _length(self, plain: int, far: int, row: int) -> int:
        return int(self._octets[_which(np.array(row)), min(plain, _MOST - 1), min(far, _MOST - 1)])

    def mask_bulk(self, node: int, name: Name) -> BulkMasks | None:
        """Follow every token below a node; None where it takes a look at every byte.

        That a name fits tells that all its beginnings do: whatever comes makes a label longer, by `weight`
        as well, but for labels so short that they always fit.
        """
        if not self._characters.is_whole[node] or self._characters.counts[node]:
            return None
        below = self._below_of(node, name.label)
        label, counts, plain, far, begun = below.cases.T
        of = self._first[:, counts]
        row = np.full(len(counts), name.row)
        first = name.plain + of[0], name.far + of[1], _joined(row, of[2])
        length = self._octets[_which(first[2]), first[0], first[1]]
        dot = self._has_dot[counts]
        before = np.where(dot, name.before + length + 1 + self._inner[counts], name.before)
        last = [
            np.where(dot, one, other)
            for one, other in zip(self._last[:, counts], first, strict=True)
        ]
        needed = self._octets[_which(last[2]), last[0] + plain, last[1] + far]
        fits = (length <= LONGEST) & (self._inner[counts] < _TOO_LONG)
        if int(before[fits].max(initial=0)) + LONGEST > LONGEST_NAME:
            return None  # where the end of the name is near, labels have less room
        fits &= needed <= LONGEST
        states = packed(label, before, last[0], last[1], last[2], begun)
        if self._machine.closed is not None:
            states[label == _CLOSED] = self._machine.closed
        return self._alive(below, fits, states, begun)

    def _alive(
        self, below: _Below, fits: npt.NDArray[np.bool_], states: Ints, begun: Ints
    ) -> BulkMasks:
        alive = fits[below.case]
        leads_on = np.zeros(len(alive) + 1, np.bool_)
        waiting = np.flatnonzero((begun > 0)[below.case])
        asked: dict[int, bool] = {}
        while len(waiting):  # as often as a character has bytes
            leads_on[:] = False
            leads_on[below.above[alive]] = True
            waiting = waiting[alive[waiting] & ~leads_on[waiting]]
            cases = below.case[waiting].tolist()
            for case in set(cases) - asked.keys():
                asked[case] = self._machine.may_complete(int(states[case]))
            dead = waiting[[not asked[case] for case in cases]] if cases else waiting
            if not len(dead):
                break
            alive[dead] = False
            waiting = np.flatnonzero((begun > 0)[below.case])
        kept = np.flatnonzero(alive)
        nodes, rows = below.nodes[kept].astype(np.intp), below.case[kept].astype(np.intp)
        return BulkMasks(nodes, rows, states.tolist())

    def _below_of(self, node: int, label: int) -> _Below:
        key = node, label
        found = self._below.pop(key, None) or self._find(node, label)
        self._below[key] = found
        if len(self._below) > KEPT_LABELS:
            self._below.popitem(last=False)
        return found

    def _find(self, node: int, label: int) -> _Below:
        characters = self._characters
        least = _BEGUN if self._machine.closed is None else _QUOTE
        here, labels = np.array([node], np.intp), np.array([label], np.int64)
        above = np.full(1, -1, np.intp)
        none = np.zeros(0, np.intp)
        levels: list[tuple[Indices, Indices, Ints]] = [(none, none, np.zeros((0, 3), np.int64))]
        total = 0
        while len(here):
            nodes, counts = self._trie.children_of(here)
            if not len(nodes):
                break
            kinds = characters.kind[nodes]
            parents = np.repeat(np.arange(len(here)), counts)
            known = np.flatnonzero((kinds >= least) & (kinds != _NONE))
            nodes, kinds, parents = nodes[known], kinds[known], parents[known]
            read = np.zeros((len(nodes), 3), np.int64)
            read[:, 0] = labels[parents]
            whole = np.flatnonzero(kinds >= 0)
            read[whole] = self._led(read[whole, 0], kinds[whole])
            alive = read[:, 0] != _NOTHING
            quotes = np.flatnonzero(kinds == _QUOTE)
            if len(quotes):
                alive[quotes] = [self._machine.may_end(one) for one in read[quotes, 0].tolist()]
                read[quotes, 0] = _CLOSED
            kept = np.flatnonzero(alive)
            nodes, read = nodes[kept], read[kept]
            levels.append((nodes, above[parents[kept]], read))
            above = total + np.arange(len(kept))
            total += len(kept)
            onward = np.flatnonzero(read[:, 0] != _CLOSED)  # behind the quote there is nothing
            here, labels, above = nodes[onward], read[onward, 0], above[onward]
        nodes, above, read = (np.concatenate(parts) for parts in zip(*levels, strict=True))
        return self._by_case(nodes, above, read)

    def _led(self, labels: Ints, kinds: Ints) -> Ints:
        """Return (label after, of ASCII, beyond) for labels and kinds in parallel."""
        places = labels * self._width + kinds
        need = int(places.max(initial=0)) + 1
        if need > len(self._leads):
            more = np.full((2 * need - len(self._leads), 3), _UNKNOWN, np.int64)
            self._leads = np.concatenate([self._leads, more])
        unknown = self._leads[places, 0] == _UNKNOWN
        if unknown.any():
            for place in np.unique(places[unknown]).tolist():
                label, kind = divmod(place, self._width)
                led = self._machine.leads(label, self._characters.kinds[kind])
                self._leads[place] = (_NOTHING, 0, 0) if led is None else led
        found: Ints = self._leads[places]
        return found

    def _by_case(self, nodes: Indices, above: Indices, read: Ints) -> _Below:
        begun, counts = self._characters.begun[nodes], self._characters.counts[nodes]
        key = (read[:, 0] + 1) * len(self._characters.counted) + counts
        key = (key * 16 + read[:, 1] * 4 + read[:, 2]) * (int(begun.max(initial=0)) + 1) + begun
        _, which, case = np.unique(key, return_index=True, return_inverse=True)
        cases = np.stack(
            [read[which, 0], counts[which], read[which, 1], read[which, 2], begun[which]], axis=1
        )
        return _Below(nodes.astype(np.int32), above.astype(np.int32), case.astype(np.int32), cases)


def _joined(row: Ints, other: Ints) -> Ints:
    """Return the rows of what is of one row and what is of another, as `names.joined` does."""
    mixed = np.where(row == ASCII, other, np.minimum(np.minimum(row, other), MANY))
    return np.where((other == ASCII) | (other == row), row, mixed)


def _which(row: Ints) -> Ints:
    return np.where((row >= 0) | (row == ASCII), 0, np.where(row == MANY, 1, 2))
