"""The queue is fair among clients, whatever they put in."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from callmemaybe.server.scheduler import FairQueue, QueueFull

CLIENTS = st.sampled_from("abcd")
MOVES = st.lists(
    st.one_of(
        st.tuples(st.just("put"), CLIENTS, st.integers(1, 3)),
        st.tuples(st.just("take"), st.just(""), st.just(0)),
        st.tuples(st.just("remove"), CLIENTS, st.integers(0, 5)),
    ),
    max_size=60,
)


@settings(max_examples=150, deadline=None)
@given(MOVES, st.integers(1, 12), st.integers(1, 8))
def test_it_does_what_lists_do(moves, most: int, most_each: int) -> None:
    """It holds what was put in and not taken; a client's own things come out in their order."""
    queue: FairQueue[int] = FairQueue(most, most_each)
    lines: dict[str, list[int]] = {name: [] for name in "abcd"}
    number = 0
    for kind, client, count in moves:
        held = sum(map(len, lines.values()))
        if kind == "put":
            things = list(range(number, number + count))
            number += count
            if held + count > most or len(lines[client]) + count > most_each:
                with pytest.raises(QueueFull):
                    queue.put(client, *things)
            else:
                queue.put(client, *things)
                lines[client] += things
        elif kind == "take":
            thing = queue.take()
            if thing is None:
                assert held == 0
            else:
                (owner,) = [name for name, line in lines.items() if thing in line]
                assert lines[owner].pop(0) == thing
        else:
            line = lines[client]
            wanted = line[count] if count < len(line) else -1
            assert queue.remove(client, wanted) == (wanted in line)
            if wanted in line:
                line.remove(wanted)
        assert len(queue) == sum(map(len, lines.values()))
        assert sorted(queue) == sorted(thing for line in lines.values() for thing in line)


def test_what_is_taken_at_once_needs_no_room() -> None:
    """Only what is left of a lot has to find a place, among all and among the client's own."""
    for most, most_each in ((2, 9), (9, 2)):
        queue: FairQueue[int] = FairQueue(most, most_each)
        with pytest.raises(QueueFull):
            queue.put("a", 1, 2, 3, 4, 5, free=2)
        queue.put("a", 1, 2, 3, 4, free=2)
        assert [queue.take(), queue.take(), len(queue)] == [1, 2, 2]
        with pytest.raises(QueueFull):
            queue.put("a", 5)


@settings(max_examples=60, deadline=None)
@given(st.lists(CLIENTS, min_size=1, max_size=40))
def test_no_client_is_served_twice_while_another_waits(order: list[str]) -> None:
    """Between two turns of one client, everyone who waits all the while has one."""
    queue: FairQueue[tuple[str, int]] = FairQueue(100, 100)
    for number, client in enumerate(order):
        queue.put(client, (client, number))
    taken = []
    while len(queue):
        waiting = {client for client, _ in queue}
        thing = queue.take()
        assert thing is not None
        taken.append((thing[0], waiting))
    last: dict[str, int] = {}
    for at, (client, _) in enumerate(taken):
        if client in last:
            between = {name for name, _ in taken[last[client] + 1 : at]}
            waited = set.intersection(*(waiting for _, waiting in taken[last[client] + 1 : at + 1]))
            assert waited - {client} <= between | {client}
        last[client] = at
