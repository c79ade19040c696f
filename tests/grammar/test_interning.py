"""Nodes of equal content are one object, as long as anybody needs it."""

from __future__ import annotations

import gc
import pickle
import threading

from callmemaybe.grammar.nodes import Literal, Node, lit, opt, seq, unintern, words


def test_equal_content_is_one_object() -> None:
    """However a node is made, also by another process, the same content is the same object."""
    node = seq(lit("a"), opt(words(["b", "c"])), lit("d"))
    assert node is seq(lit("a"), opt(words(["c", "b", "b"])), lit("d"))
    assert pickle.loads(pickle.dumps(node)) is node


def test_nodes_go_when_nobody_needs_them() -> None:
    """What nobody holds is not kept, and making it again gives a whole node."""
    gc.collect()
    before = len(Node._interned)
    node = Literal(b"nobody else has this text")
    assert len(Node._interned) == before + 1
    del node
    assert len(Node._interned) == before
    assert lit("nobody else has this text").min_length == 25


def test_what_is_forgotten_is_made_anew() -> None:
    """Equal content is a new object once the old one is forgotten, which stays what it was, and stays out."""
    old = lit("forgotten")
    unintern(old)
    new = lit("forgotten")
    assert new is not old
    assert (type(new), new.min_length) == (type(old), old.min_length)
    unintern(old)
    del old
    assert lit("forgotten") is new


def test_threads_make_one_object() -> None:
    """Threads that make the same nodes at once, again and again, always get the same one."""
    rounds, threads = 300, 4
    barrier = threading.Barrier(threads)
    found: list[list[Node]] = [[] for _ in range(threads)]

    def make(mine: list[Node]) -> None:
        barrier.wait()
        for number in range(rounds):
            mine.append(lit(f"text {number}"))
            lit(f"passing {number}")

    workers = [threading.Thread(target=make, args=(mine,)) for mine in found]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    for same in zip(*found, strict=True):
        assert len(set(map(id, same))) == 1
