"""The subset construction over items: closure, interned states, edges.

`Closure` opens nodes down to the leaves at which a symbol can be read. `SubsetAutomaton` interns the
resulting sets of items as states and computes their edges (Rabin and Scott, 1959), each when it is first
needed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import count
from typing import Any

from callmemaybe.grammar.automata.items import (
    UNREACHED,
    CaptureHistory,
    Continuation,
    Item,
    ItemSet,
    KernelItem,
    Unreached,
    disjoint_moves,
    moves,
)
from callmemaybe.grammar.automaton import NO_CONTROLS, NO_EDGES, RENEWALS, Automaton
from callmemaybe.grammar.nodes import (
    INFINITE,
    Alternation,
    Bytes,
    CaptureMark,
    Chars,
    Concat,
    Control,
    Literal,
    Node,
    Ref,
    Repeat,
    WordTrie,
    renewed,
)
from callmemaybe.grammar.unordered import MemberKeys, Unordered, unfold

_LEAVES = (Literal, Bytes, Control)


class Closure:
    """Opens nodes down to the leaves at which a symbol can be read; interns continuations."""

    def __init__(
        self,
        rules: Mapping[str, Node],
        machine_of: Callable[[Node], Automaton],
        least_of: Callable[[Node], float],
    ) -> None:
        """Take the rules, the function that returns a lexeme's automaton, and the one for shortest lengths."""
        self.rules = rules
        self._machine_of = machine_of
        self._min_length_of = least_of
        #: The lexemes entered so far.
        self.entered_lexemes: set[Node] = set()
        self._live_tries: dict[WordTrie, WordTrie] = {}
        self._continuations: dict[tuple[Node, Continuation | None], Continuation] = {}
        self._without_limits: dict[tuple[Continuation, int], Continuation] = {}

    def without_limits(self, rest: Continuation | None, depth: int) -> Continuation | None:
        """Return a continuation without the upper limits that ``depth`` symbols cannot reach."""
        if rest is None:
            return None
        known = self._without_limits.get((rest, depth))
        if known is None:
            chain: list[Continuation] = []
            step: Continuation | None = rest
            while step is not None:
                chain.append(step)
                step = step.rest
            for step in reversed(chain):
                known = self._continuation(self._without_limit(step.node, depth), known)
            assert known is not None
            self._without_limits[rest, depth] = known
        return known

    def _without_limit(self, node: Node, depth: int) -> Node:
        if not isinstance(node, Repeat) or node.at_most is None:
            return node
        if node.at_most * self._min_length_of(node.body) <= depth:
            return node
        return Repeat(node.body, node.at_least, None)

    def adopt(self, rest: Continuation | None) -> Continuation | None:
        """Return a continuation of another automaton, interned in this one."""
        nodes: list[Node] = []
        while rest is not None:
            nodes.append(rest.node)
            rest = rest.rest
        return self.chain(nodes)

    def chain(self, nodes: Sequence[Node]) -> Continuation | None:
        """Return the continuation of these nodes in order."""
        own: Continuation | None = None
        for node in reversed(nodes):
            own = self._continuation(node, own)
        return own

    def of(
        self, kernel: Iterable[tuple[KernelItem, CaptureHistory]], offset: int | None
    ) -> tuple[dict[Item, CaptureHistory], CaptureHistory | Unreached]:
        """Return every item that the kernel reaches without a symbol, and the history at the end if reached."""
        items: dict[Item, CaptureHistory] = {}
        end_history = self.expand(kernel, offset, items)
        end_history = self.add_after_lexemes(items, end_history, offset)
        return items, end_history

    def add_after_lexemes(
        self,
        items: dict[Item, CaptureHistory],
        end_history: CaptureHistory | Unreached,
        offset: int | None,
    ) -> CaptureHistory | Unreached:
        """Add the items behind every lexeme that may end here."""
        waiting = [item for item in items.items() if item[0][0].is_machine][::-1]
        while waiting:
            (leaf, position, rest), history = waiting.pop()
            if not leaf.is_machine or not self._machine_of(leaf).is_accepting(position):
                continue
            behind: dict[Item, CaptureHistory] = {}
            reached = self.expand([((None, None, rest), history)], offset, behind)
            end_history = reached if end_history is UNREACHED else end_history
            waiting.extend(item for item in behind.items() if item[0] not in items)
            items.update((item, past) for item, past in behind.items() if item not in items)
        return end_history

    def single_item(self, rest: Continuation | None) -> Item | None:
        """Return the only item of a continuation if no choice leads there, else None."""
        while rest is not None:
            node, rest = rest.node, rest.rest
            while True:
                kind = type(node)
                if kind is Literal:
                    return node, 0, rest
                if kind is Concat:
                    parts: tuple[Node, ...] = node._fields[0]
                    min_length = node.min_length
                    if (
                        not parts
                        or (self._min_length_of(node) if min_length is None else min_length)
                        == INFINITE
                    ):
                        return None
                    for part in parts[:0:-1]:
                        rest = self._continuation(part, rest)
                    node = parts[0]
                    continue
                if kind is CaptureMark:
                    break
                if kind is Control or kind is Bytes:
                    return node, 0, rest
                if kind is WordTrie:
                    live = self._live_trie(node)  # type: ignore[arg-type]
                    # The empty word, and a single word, need more than one item in the trie.
                    if len(live.words) < 2 or not live.words[0]:
                        return None
                    return live, (0, len(live.words), 0), rest
                if node.is_machine and self._min_length_of(node) < INFINITE:
                    node, machine = self._enter_lexeme(node)
                    if not machine.is_accepting(machine.start):
                        return node, machine.start, rest
                return None
        return None

    def _continuation(self, node: Node, rest: Continuation | None) -> Continuation:
        key = (node, rest)
        found = self._continuations.get(key)
        if found is None:
            min_length = node.min_length
            if min_length is None:
                min_length = self._min_length_of(node)
            behind = rest.min_length if rest is not None else 0
            found = self._continuations.setdefault(
                key, Continuation(node, rest, int(min_length) + behind)
            )
        return found

    def expand(
        self,
        kernel: Iterable[tuple[KernelItem, CaptureHistory]],
        offset: int | None,
        items: dict[Item, CaptureHistory],
    ) -> CaptureHistory | Unreached:
        """Add every item that the kernel reaches without a symbol, leftmost first.

        Returns the capture history at the end of the grammar, or UNREACHED. ``offset`` is recorded for
        capture marks; None records none.
        """
        end_history: CaptureHistory | Unreached = UNREACHED
        seen: set[tuple[Node, Continuation | None]] = set()
        stack = list(kernel)[::-1]
        while stack:
            (node, position, rest), history = stack.pop()
            if node is None:
                if rest is None:
                    end_history = history if end_history is UNREACHED else end_history
                    continue
                node, rest = rest.node, rest.rest
            if position is not None:
                self._add_item(node, position, rest, history, items, stack)
                continue
            if isinstance(node, CaptureMark):
                if offset is not None:
                    history = (node.name, node.opens, offset, history)
                stack.append(((None, None, rest), history))
                continue
            if (node, rest) in seen:
                continue
            min_length = node.min_length
            if (self._min_length_of(node) if min_length is None else min_length) == INFINITE:
                continue
            seen.add((node, rest))
            self._open(node, rest, history, items, stack)
        return end_history

    def _open(
        self,
        node: Node,
        rest: Continuation | None,
        history: CaptureHistory,
        items: dict[Item, CaptureHistory],
        stack: list[tuple[KernelItem, CaptureHistory]],
    ) -> None:
        """Open a node; pushes its options in reverse, so that the first is expanded first."""
        if isinstance(node, _LEAVES):
            items.setdefault((node, 0, rest), history)
        elif isinstance(node, Concat):
            for part in reversed(node.parts[1:]):
                rest = self._continuation(part, rest)
            stack.append(((node.parts[0] if node.parts else None, None, rest), history))
        elif isinstance(node, Alternation):
            stack.extend(((option, None, rest), history) for option in reversed(node.options))
        elif isinstance(node, Chars):
            stack.append(((node.encoded, None, rest), history))
        elif isinstance(node, Ref):
            stack.append(((self.rules[node.name], None, rest), history))
        elif isinstance(node, Repeat):
            self._open_repeat(node, rest, history, stack)
        elif isinstance(node, Unordered):
            ways = unfold(node, self._min_length_of)
            stack.extend(((way, None, rest), history) for way in reversed(ways))
        elif isinstance(node, WordTrie):
            live = node if isinstance(node, MemberKeys) else self._live_trie(node)
            self._add_item(live, (0, len(live.words), 0), rest, history, items, stack)
        else:
            node, machine = self._enter_lexeme(node)
            self._add_item(node, machine.start, rest, history, items, stack)

    def _enter_lexeme(self, node: Node) -> tuple[Node, Automaton]:
        """Return the lexeme to enter (renewed if necessary) and its automaton."""
        if RENEWALS.count:
            node = renewed(node)
        self.entered_lexemes.add(node)
        return node, node.machine or self._machine_of(node)

    def _live_trie(self, node: WordTrie) -> WordTrie:
        """Return the trie without the words whose tail has no finite string."""
        found = self._live_tries.get(node)
        if found is None:
            pairs = list(zip(node.words, node.tails, strict=False))
            live = [(w, n) for w, n in pairs if self._min_length_of(n) < INFINITE]
            same = len(live) == len(pairs)
            found = node if same else WordTrie(tuple(w for w, _ in live), tuple(n for _, n in live))
            self._live_tries[node] = found
        return found

    def _open_repeat(
        self,
        node: Repeat,
        rest: Continuation | None,
        history: CaptureHistory,
        stack: list[tuple[KernelItem, CaptureHistory]],
    ) -> None:
        body, min_length, most = node.body, node.at_least, node.at_most
        if min_length == 0 or self._min_length_of(body) == 0:
            stack.append(((None, None, rest), history))
        if most != 1:
            again = Repeat(body, max(min_length - 1, 0), None if most is None else most - 1)
            rest = self._continuation(again, rest)
        stack.append(((body, None, rest), history))

    def _add_item(
        self,
        node: Node,
        position: Any,
        rest: Continuation | None,
        history: CaptureHistory,
        items: dict[Item, CaptureHistory],
        stack: list[tuple[KernelItem, CaptureHistory]],
    ) -> None:
        """Add the item inside a leaf, or continue behind the leaf if this is its end."""
        if isinstance(node, WordTrie):
            low, high, depth = position
            if high - low == 1:
                rest = self._continuation(node.tails[low], rest) if node.tails else rest
                word = node.words[low]
                if depth == len(word):
                    stack.append(((None, None, rest), history))
                else:
                    items.setdefault((Literal(word), depth, rest), history)
                return
            if len(node.words[low]) == depth:
                after = self._continuation(node.tails[low], rest) if node.tails else rest
                stack.append(((None, None, after), history))
                self._add_item(node, (low + 1, high, depth), rest, history, items, stack)
                return
        elif node.is_machine and self._machine_of(node).is_final(position):
            stack.append(((None, None, rest), history))
            return
        items.setdefault((node, position, rest), history)


class SubsetAutomaton(Automaton):
    """Interns sets of items as states and computes the edges between them."""

    def __init__(
        self,
        rules: Mapping[str, Node],
        machine_of: Callable[[Node], Automaton],
        least_of: Callable[[Node], float],
    ) -> None:
        """Take the rules, the function that returns a lexeme's automaton, and the one for shortest lengths."""
        #: The ids of accepting states, and of the others.
        self._ends: dict[tuple[Item, ...], int] = {}
        self._ids: dict[tuple[Item, ...], int] = {}
        #: The state in which nothing is left.
        self._end: int | None = None
        self._next_id = count()
        self._states: dict[int, ItemSet] = {}
        self._machine_of = machine_of
        self._closure = Closure(rules, machine_of, least_of)

    def _state(self, kernel: Sequence[KernelItem]) -> int:
        """Intern the state of the closure of a kernel."""
        if len(kernel) == 1:
            leaf, position, rest = kernel[0]
            if leaf is None:
                return self._state_after(rest)
            if position is not None:
                if type(leaf) is Literal:
                    return self._intern(((leaf, position, rest),), False)
                if leaf.is_machine:
                    machine = leaf.machine or self._machine_of(leaf)
                    if not machine.is_accepting(position):
                        return self._intern(((leaf, position, rest),), False)
                    if machine.is_final(position):
                        return self._state_after(rest)
                    if rest is not None and rest.min_length:
                        return self._intern(((leaf, position, rest),), False)
        return self._closure_state(kernel)

    def _state_after(self, rest: Continuation | None) -> int:
        """Return the state in which exactly a continuation is left."""
        known = self._end if rest is None else rest.state
        if known is None:
            item = self._closure.single_item(rest)
            if item is None:
                known = self._closure_state([(None, None, rest)])
            else:
                known = self._intern((item,), False)
            if rest is None:
                self._end = known
            else:
                rest.state = known
        return known

    def _closure_state(self, kernel: Sequence[KernelItem]) -> int:
        items: dict[Item, CaptureHistory] = {}
        accepting = False
        others = kernel
        if len(kernel) > 1:
            # The state behind a finished leaf depends on its continuation only, so it is shared.
            others = [kernel_item for kernel_item in kernel if kernel_item[0] is not None]
            for leaf, _, rest in kernel:
                if leaf is None:
                    known = self._states[self._state_after(rest)]
                    items.update(dict.fromkeys(known.items))
                    accepting = accepting or known.accepting
        if others:
            end_history = self._closure.expand(
                [(kernel_item, None) for kernel_item in others], None, items
            )
            accepting = accepting or end_history is not UNREACHED
        if not accepting:
            # Behind a lexeme that may end now, the end is reachable only if nothing must follow.
            for leaf, _, rest in items:
                if leaf.is_machine and (rest is None or not rest.min_length):
                    reached = self._closure.add_after_lexemes(dict(items), UNREACHED, None)
                    accepting = reached is not UNREACHED
                    break
        return self._intern(tuple(items), accepting)

    def _intern(self, items: tuple[Item, ...], accepting: bool) -> int:
        ids = self._ends if accepting else self._ids
        found = ids.get(items)
        if found is None:
            self.steps += 1 + len(items)
            if self.steps > self.next_check:
                self.check_budget()
            renewed = next(self._next_id)
            self._states[renewed] = ItemSet(items, accepting)
            found = ids.setdefault(items, renewed)
        return found

    def _all_items(self, state: ItemSet) -> tuple[Item, ...]:
        """Return the items of a state, and those behind every lexeme that may end there."""
        if state.all_items is None:
            reached = state.items
            for leaf, position, _ in state.items:
                if leaf.is_machine and self._machine_of(leaf).is_accepting(position):
                    items: dict[Item, CaptureHistory] = dict.fromkeys(state.items)
                    self._closure.add_after_lexemes(items, UNREACHED, None)
                    reached = tuple(items)
                    break
            state.all_items = reached
        return state.all_items

    def _expand(self, state: ItemSet) -> None:
        """Compute the edges: split the byte sets of all items into disjoint ones."""
        items = self._all_items(state)
        self.steps += len(items) >> 3
        if len(items) == 1 and type(items[0][0]) is Control:
            control, _, rest = items[0]
            state.controls = {control._fields[0]: self._state_after(rest)}
            state.edges = NO_EDGES
            return
        regions, controls = disjoint_moves(
            move for item in items for move in moves(item, self._machine_of)
        )
        edges: dict[int, int] = {}
        for mask, kernel in regions:
            target = self._state(kernel)
            edges[target] = edges.get(target, 0) | mask
        state.controls = NO_CONTROLS
        if controls:
            state.controls = {text: self._state(kernel) for text, kernel in controls.items()}
        state.edges = tuple((mask, target) for target, mask in edges.items()) or NO_EDGES
