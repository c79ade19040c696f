"""Weights come out of a graph and go back into it."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import callmemaybe
from callmemaybe.errors import InputError

onnx = pytest.importorskip("onnx", reason="changing a graph needs onnx (the extra tune)")

from callmemaybe.tuning.graph_weights import (  # noqa: E402
    PLACES,
    GraphWeights,
    RoundedWeight,
    join_fused,
    split_fused,
)

NANO = Path(callmemaybe.__file__).parent / "data" / "nano"


@pytest.fixture(scope="module")
def graph() -> GraphWeights:
    """The shipped graph."""
    return GraphWeights.load(NANO)


def test_weights_that_do_not_change_leave_the_graph_as_it_is(
    graph: GraphWeights, tmp_path: Path
) -> None:
    """Reading and writing back gives the file, byte for byte."""
    graph.write(graph.read(), tmp_path / "model.onnx")
    assert (tmp_path / "model.onnx").read_bytes() == (NANO / "model.onnx").read_bytes()


def test_a_changed_weight_is_read_back_within_half_a_step(
    graph: GraphWeights, tmp_path: Path
) -> None:
    """One matrix of each kind (put together, by rows, by columns, the table, a float) changes, and nothing else."""
    before = graph.read()
    names = ("layers.5.v.weight", "layers.1.o.weight", "votes.v.weight", "table", "votes.mix.bias", "pointer.scale")  # fmt: skip
    rng = np.random.default_rng(0)
    changed = {
        **before,
        **{n: before[n] * 1.25 + rng.normal(size=before[n].shape).astype(np.float32) * 1e-3 for n in names},
    }  # fmt: skip
    graph.write(changed, tmp_path / "model.onnx")
    (tmp_path / PLACES).write_bytes((NANO / PLACES).read_bytes())
    after = GraphWeights.load(tmp_path).read()
    for name, value in before.items():
        if name in names:
            tolerance = np.abs(changed[name]).max() / 80 + 1e-6
            assert np.abs(after[name] - changed[name]).max() < tolerance, name
            assert not np.allclose(after[name], value, rtol=1e-3), name
        elif name.startswith("layers.5.") and name.split(".")[2] in "qk":
            assert np.abs(after[name] - value).max() <= np.abs(value).max() / 200, name
        else:
            assert np.array_equal(after[name], value), name


def test_what_is_put_together_comes_apart(graph: GraphWeights) -> None:
    """Taking apart is the inverse of putting together."""
    weights = graph.read()
    joined = join_fused(graph.sizes, weights)
    for name, value in split_fused(graph.sizes, joined).items():
        assert np.allclose(value, weights[name], rtol=1e-6), name


def test_rounding_keeps_half_a_step() -> None:
    """A weight is held within half of its column's step, also a column of zeros."""
    value = np.random.default_rng(1).normal(size=(16, 5)).astype(np.float32)
    value[:, 3] = 0
    gains = np.linspace(0.5, 2, 16, dtype=np.float32)
    for how in (RoundedWeight("c", "s"), RoundedWeight("c", "s", 127.0), RoundedWeight("c", "s", 1.0, gains)):  # fmt: skip
        step = np.abs(value if how.gains is None else value / gains[:, None]).max(0) / 127
        error = np.abs(how.decode(how.encode(value)) - value)
        assert (error <= (0.501 * step) * (1 if how.gains is None else gains[:, None])).all()


def test_a_folder_without_places_cannot_be_tuned(tmp_path: Path) -> None:
    """The error says what is missing."""
    with pytest.raises(InputError, match=PLACES):
        GraphWeights.load(tmp_path)
    (tmp_path / PLACES).write_bytes((NANO / PLACES).read_bytes())
    (tmp_path / "model.onnx").write_bytes(b"\xff damaged")
    with pytest.raises(InputError, match="cannot be read"):
        GraphWeights.load(tmp_path)


def test_the_shipped_places_are_of_the_shipped_files() -> None:
    """The manifest describes the file, and all constants that it names are in the graph."""
    manifest = json.loads((NANO / "manifest.json").read_text("utf-8"))
    assert PLACES in manifest["files"]
    held = {each.name for each in onnx.load(str(NANO / "model.onnx")).graph.initializer}
    places = json.loads((NANO / PLACES).read_text("utf-8"))["places"]
    for place, _ in places.values():
        assert place in held or f"{place}.codes" in held
