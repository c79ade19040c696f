"""Functions that the embedded model has read are copied, and nobody can tell by what it says."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from callmemaybe import load_model
from callmemaybe.decoding.prefix_cache import PrefixCache
from callmemaybe.errors import ModelError
from callmemaybe.models.base import Logits, Session
from callmemaybe.models.onnx import OnnxModel
from callmemaybe.models.onnx.engine import nearly_equal
from callmemaybe.models.onnx.segments import SegmentStates
from tests.models.test_shipped import FOLDER

TOOLS, USER, CALL, END, TOOL, ARGS, AGAIN, FILL = 1, 2, 3, 5, 6, 7, 8, 9


def opened() -> OnnxModel:
    """Return the embedded model without anything kept."""
    model = load_model("nano")
    assert isinstance(model, OnnxModel)
    return model


@pytest.fixture(scope="module")
def nano() -> OnnxModel:
    """Return the embedded model; what it keeps grows from test to test."""
    return opened()


@pytest.fixture(scope="module")
def plain() -> OnnxModel:
    """Return the embedded model as it was before: it keeps nothing."""
    model = opened()
    model._engine.segments = None
    return model


def states(model: OnnxModel) -> SegmentStates:
    found = model._engine.segments
    assert found is not None
    return found


texts = st.lists(st.integers(17, 26_000), min_size=1, max_size=12)
lists = st.lists(texts, min_size=1, max_size=6)


def prompt(tools: Sequence[Sequence[int]]) -> list[int]:
    """Return the ids of a list of functions."""
    return [TOOLS, *(token for text in tools for token in (TOOL, *text)), USER]


def request(text: Sequence[int]) -> list[int]:
    return [*text, AGAIN, *text, CALL]


def read_apart(session: Session, ids: Sequence[int]) -> None:
    """Feed ids up to each that begins a function, or the request, at a time."""
    at = 0
    for end, token in enumerate(ids, 1):
        if token in {TOOL, USER}:
            session.feed(ids[at:end], keep=0)
            at = end


@settings(max_examples=30, deadline=None)
@given(data=st.data())
def test_copied_functions_are_read_ones(
    nano: OnnxModel, plain: OnnxModel, data: st.DataObject
) -> None:
    """Whatever was read before, in whatever order: all that follows has the chances, to the last bit, that it has behind functions read anew."""
    known = data.draw(lists)
    for _ in range(2):
        nano.open().feed(prompt(known), keep=0)
        known = known[::-1]
    tools = data.draw(st.permutations([*known, *data.draw(lists)]))
    session, other = nano.open(), plain.open()
    session.feed(prompt(tools), keep=0)
    read_apart(other, prompt(tools))
    assert session.copied
    assert other.copied is None
    for ids in (request(data.draw(texts)), [*tools[-1][:2], ARGS, *data.draw(texts), FILL, END]):
        found, expected = session.feed(ids, len(ids)), other.feed(ids, len(ids))
        assert np.array_equal(found, expected)


@settings(max_examples=40, deadline=None)
@given(
    ids=st.lists(st.sampled_from([TOOLS, TOOL, TOOL, USER, CALL, ARGS, AGAIN, FILL, END, *range(300, 306)]), min_size=2, max_size=30),
    cuts=st.lists(st.integers(1, 12), max_size=6),
)  # fmt: skip
def test_no_order_of_ids_is_misread(
    nano: OnnxModel, plain: OnnxModel, ids: list[int], cuts: list[int]
) -> None:
    """Ids that no prompt has, in any pieces, lead to the chances that they lead to without copies (nearly: neighbours change last bits)."""

    def rows(model: OnnxModel) -> Logits:
        session, at, found = model.open(), 0, []
        for cut in [*cuts, len(ids)]:
            if piece := ids[at : at + cut]:
                found.append(session.feed(piece, keep=min(1, len(piece))))
                at += cut
        return np.concatenate(found)

    assert nearly_equal(rows(nano), rows(plain))


def test_copies_disturb_no_fork(nano: OnnxModel) -> None:
    """A session goes on as it would have, while its forks are filled with other functions."""
    one, other = [400, 401, 402], [500, 501]
    nano.open().feed(prompt([one, other, one]), keep=0)
    stem = nano.open()
    stem.feed(prompt([one])[:-1], keep=0)
    fork = stem.fork()
    more = [TOOL, *other, TOOL, *one, USER]
    fork.feed(more, keep=0)
    stem.feed([TOOL, *one, USER], keep=0)
    again = nano.open()
    again.feed(prompt([one])[:-1], keep=0)
    again.feed(more, keep=0)
    ids = request(one)
    assert np.array_equal(fork.feed(ids), again.feed(ids))


def test_what_is_kept_is_bounded() -> None:
    """States are dropped, the least recently used first, so that no more bytes are kept than allowed; the answers stay."""
    model = opened()
    kept = states(model)
    tools = [[600 + 3 * n, 601 + 3 * n, 602 + 3 * n] for n in range(12)]
    model.open().feed(prompt(tools[:1]), keep=0)
    one = kept.bytes
    kept.max_bytes = 4 * one
    for tool in tools:
        model.open().feed(prompt([tool]), keep=0)
        model.open().feed(prompt(tools[:1]), keep=0)
        assert 0 < kept.bytes <= kept.max_bytes
    assert tuple(tools[0]) in kept
    assert tuple(tools[-1]) in kept
    assert tuple(tools[1]) not in kept
    expected = opened().open()
    expected.feed(prompt(tools), keep=0)
    session = model.open()
    session.feed(prompt(tools), keep=0)
    assert kept.bytes <= kept.max_bytes
    assert np.array_equal(session.feed(request(tools[3])), expected.feed(request(tools[3])))
    kept.max_bytes = 10
    model.open().feed(prompt([[900, 901]]), keep=0)
    assert (900, 901) not in kept


def test_a_list_that_is_put_together_is_cached_when_it_is_asked_for_again() -> None:
    """A prefix cache stays small where every request has another list of the same functions, and cached ids are counted."""
    model = opened()
    cache = PrefixCache(model)
    tools = [[700 + n, 701 + n] for n in range(5)]
    everything = prompt(tools)
    assert cache.take(everything).cached == 0
    assert len(cache) == 1
    for start in range(1, 5):
        ids = prompt([*tools[start:], *tools[:start]])
        found = cache.take(ids)
        assert found.session.length == len(ids)
        assert len(ids) - found.cached <= 2
    assert len(cache) == 1
    turned = prompt(tools[::-1])
    first, second, third = (cache.take(turned) for _ in range(3))
    assert len(cache) == 2
    assert second.cached >= len(turned) - 2
    assert third.cached == len(turned)
    found = [one.session.feed(request(tools[2])) for one in (first, second, third)]
    assert np.array_equal(found[0], found[1])
    assert np.array_equal(found[0], found[2])


@pytest.mark.parametrize(
    "about",
    [[], {}, {"begin": 6}, {"begin": "six", "ends": [6], "numbers": {}},
     {"begin": 6, "ends": [6], "numbers": {"running": {"places": [99]}}},
     {"begin": 6, "ends": [6], "numbers": {"nothing": {"places": [0]}}}],
)  # fmt: skip
def test_a_configuration_that_does_not_fit_is_refused(tmp_path: Path, about: object) -> None:
    """Segments that the graph cannot have are a sentence that names the file, and no wrong answers."""
    folder = tmp_path / "nano"
    shutil.copytree(FOLDER, folder)
    config = json.loads((folder / "config.json").read_text("utf-8"))
    (folder / "config.json").write_text(json.dumps({**config, "segments": about}), "utf-8")
    with pytest.raises(ModelError, match=r'config\.json: "segments" does not fit the graph'):
        load_model(folder)


def test_a_folder_without_the_entry_works_as_before(tmp_path: Path) -> None:
    """Folders of before are read as a whole."""
    folder = tmp_path / "nano"
    shutil.copytree(FOLDER, folder)
    config = json.loads((folder / "config.json").read_text("utf-8"))
    del config["segments"]
    (folder / "config.json").write_text(json.dumps(config), "utf-8")
    session = load_model(folder).open()  # type: ignore[union-attr]
    session.feed(prompt([[300]] * 3), keep=0)
    assert session.copied is None
