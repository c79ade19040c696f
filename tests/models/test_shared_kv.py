"""Sessions in one buffer: nothing is copied, nobody is burdened, and rewritten graphs are the same."""

from __future__ import annotations

import gc
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from weakref import ref

import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from callmemaybe import models
from callmemaybe.models.base import Feed
from callmemaybe.models.onnx import OnnxModel, shared_kv
from callmemaybe.models.onnx import onnxruntime as runtime
from callmemaybe.models.onnx.engine import OnnxEngine
from callmemaybe.models.onnx.graph_rewrite import BIAS, KEEP, POSITIONS, rewrite
from callmemaybe.models.onnx.shared_kv import SharedKVSession
from callmemaybe.testing.sessions import LAWS, ModelUnderTest
from tests.models.conftest import Maker


@pytest.fixture
def moved(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return a list to which each copy of a session's cells adds how many they are."""
    copies: list[int] = []
    settle = SharedKVSession._move_out

    def counted(self: SharedKVSession, arrays: object, length: int, count: int) -> None:
        copies.append(length)
        settle(self, arrays, length, count)  # type: ignore[arg-type]

    monkeypatch.setattr(SharedKVSession, "_move_out", counted)
    return copies


def test_a_batch_over_one_prefix_copies_nothing(tiny: Maker, moved: list[int]) -> None:
    """Requests that fork a prefix, one after another or at the same time, write into one buffer."""
    session = models.load(tiny("genai")).open()
    session.feed(range(30))
    for start in range(5):
        request = session.fork()
        request.feed(range(start, start + 20))
        request.branches([[1], [2, 3], [2, 4]])
        del request
    session.feed([1, 2])
    session.rewind(2)
    rivals = [session.fork() for _ in range(6)]
    session.feed_batch([Feed(rival, [3] * at, 1) for at, rival in enumerate(rivals, 1)])
    assert not moved


def test_the_prefix_is_in_the_pass_once(tiny: Maker, monkeypatch: pytest.MonkeyPatch) -> None:
    """Forks that are fed together take one pass, as wide as their ids, behind the cells in use."""
    session = models.load(tiny("genai", max_position_embeddings=200)).open()
    session.feed(range(50))
    forks = [session.fork() for _ in range(8)]
    seen: list[tuple[tuple[int, ...], list[int]]] = []
    append = OnnxEngine.append

    def noted(self: OnnxEngine, ids: np.ndarray, past: list[int], *others: object, **more: object):
        seen.append((ids.shape, past))
        return append(self, ids, past, *others, **more)  # type: ignore[arg-type]

    session.feed_batch([Feed(fork, [7]) for fork in forks])
    monkeypatch.setattr(OnnxEngine, "append", noted)
    session.feed_batch([Feed(fork, [1] * at) for at, fork in enumerate(forks, 1)])
    assert seen == [((1, 36), [58])]


def test_a_fork_moves_out_where_graphs_cannot_be_rewritten(
    tiny: Maker, moved: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the inputs that are rewritten, sessions that disagree part, and all laws hold."""
    monkeypatch.setattr(runtime, "_rewritten", lambda _: None)
    model = models.load(tiny("genai"))
    assert isinstance(model, OnnxModel)
    assert model.shares
    assert not model.batches
    session = model.open()
    session.feed(range(30))
    rival = session.fork()
    session.feed([1])
    assert not moved
    rival.feed([2])
    assert moved == [30]
    for law in LAWS.values():
        law(ModelUnderTest(model, tolerance=1e-5))


@pytest.mark.parametrize("seed", range(3))
def test_moving_and_closing_up_change_nothing(
    tiny: Maker, moved: list[int], monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """Where next to no strangers and holes are put up with, sessions get the same logits."""
    monkeypatch.setattr(shared_kv, "_FOREIGN_CELLS", 6)
    monkeypatch.setattr(shared_kv, "_UNUSED_CELLS", 3)
    for law in ("batched_feeds_equal_single_feeds", "only_the_current_ids_matter"):
        LAWS[law](ModelUnderTest(models.load(tiny("genai")), tolerance=1e-5, seed=seed))
    assert moved


def test_cells_that_nobody_uses_are_closed_up(tiny: Maker) -> None:
    """Tasks that come and go for ever behind one prefix take no more cells than a few of them need."""
    model = models.load(tiny("genai", max_position_embeddings=4000))
    prefix = model.open()
    prefix.feed([1] * 300)
    tasks: list[SharedKVSession] = []
    for turn in range(60):
        fork = prefix.fork()
        assert isinstance(fork, SharedKVSession)
        tasks = [*tasks[-3:], fork]
        prefix.feed_batch([Feed(task, [turn, 2, 3, 4, 5]) for task in tasks])
        assert fork.shared is prefix.shared  # type: ignore[attr-defined]
        assert fork.shared is not None
        # Four tasks hold 50 ids at most, and 128 cells may lie idle.
        assert fork.shared.top <= 300 + 50 + 128 + 20
    expected = model.open().feed([1] * 300 + [59, 2, 3, 4, 5])
    tasks[-1].rewind(1)
    np.testing.assert_allclose(tasks[-1].feed([5]), expected, atol=1e-5)


def test_who_has_much_to_say_goes_elsewhere(tiny: Maker, moved: list[int]) -> None:
    """A long text behind part of a kept prefix leaves that prefix's buffer, and those in it, alone."""
    model = models.load(tiny("genai", max_position_embeddings=2000))
    kept = model.open()
    kept.feed([1] * 100)
    other = kept.fork()
    other.rewind(50)
    other.feed([2] * 400)
    assert moved == [50]
    assert isinstance(kept, SharedKVSession)
    assert kept.shared is not None
    assert kept.shared.top == 100
    expected = model.open().feed([1] * 50 + [2] * 400 + [3])
    np.testing.assert_allclose(other.feed([3]), expected, atol=1e-4)


def test_sessions_of_many_threads_share_a_buffer(tiny: Maker) -> None:
    """Threads that open, fork, feed and go back at the same time do not see each other's ids."""
    model = models.load(tiny("genai"))
    paths = [[(7 * thread + step) % 97 for step in range(14)] for thread in range(8)]
    expected = [model.open().feed(path) for path in paths]

    def work(path: list[int]) -> np.ndarray:
        session = model.open()
        session.feed(path[:5])
        fork = session.fork()
        for token in path[5:]:
            session.feed([token, 3])
            session.rewind(1)
            logits = fork.feed([token])
        np.testing.assert_allclose(session.feed([1]), fork.fork().feed([1]), atol=1e-4)
        return logits

    with ThreadPoolExecutor(4) as pool:
        for found, wanted in zip(pool.map(work, paths), expected, strict=True):
            np.testing.assert_allclose(found, wanted, atol=1e-4)


def test_what_nobody_holds_is_given_back(tiny: Maker) -> None:
    """A buffer goes when the last session in it does, also the one that new sessions would join."""
    model = models.load(tiny("genai"))
    session = model.open()
    session.feed([1, 2, 3])
    assert isinstance(session, SharedKVSession)
    assert session.shared is not None
    held = ref(session.shared)
    del session
    gc.collect()
    assert held() is None
    model.open().feed([1])


# -- grafts -------------------------------------------------------------------------------------


def rewritten(path: Path) -> onnx.ModelProto | None:
    pieces = rewrite(path.read_bytes())
    return None if pieces is None else onnx.load_model_from_string(b"".join(pieces))


def test_the_rewriting_adds_inputs_and_changes_nothing_else(tiny: Maker) -> None:
    """Weights, outputs and other inputs stay; the new inputs are wired to each attention."""
    path = tiny("genai") / "model.onnx"
    before, after = onnx.load(str(path)), rewritten(path)
    assert after is not None
    names = [node.name for node in after.graph.input]
    assert names[: len(before.graph.input)] == [node.name for node in before.graph.input]
    assert set(names[len(before.graph.input) :]) == {BIAS, POSITIONS, KEEP}
    assert list(after.graph.output) == list(before.graph.output)
    assert list(after.graph.initializer) == list(before.graph.initializer)
    wired = [node for node in after.graph.node if node.op_type == "GroupQueryAttention"]
    assert wired
    assert all(list(node.input[9:]) == [POSITIONS, BIAS] for node in wired)
    assert rewrite(after.SerializeToString()) is None


def test_what_cannot_be_rewritten_is_left_as_it_is(tiny: Maker) -> None:
    """Windows that slide over cells, and positions that nobody says, keep a graph from being rewritten."""
    model = onnx.load(str(tiny("genai", keep=True) / "model.onnx"))
    attention = next(node for node in model.graph.node if node.op_type == "GroupQueryAttention")
    window = next((one for one in attention.attribute if one.name == "local_window_size"), None)
    if window is None:
        attention.attribute.append(onnx.helper.make_attribute("local_window_size", 32))
    else:
        window.i = 32
    assert rewrite(model.SerializeToString()) is None
    plain = onnx.load(str(next(tiny("optimum", keep=True).rglob("*.onnx"))))
    assert rewrite(plain.SerializeToString()) is None


def turn_outside(model: onnx.ModelProto) -> None:
    """Turn queries and keys by position_ids in front of the attention, as some exporters do."""
    nodes = []
    for node in model.graph.node:
        if node.op_type == "GroupQueryAttention":
            sizes = {one.name: one.i for one in node.attribute}
            for at, heads in enumerate(("num_heads", "kv_num_heads")):
                rotates = f"{node.input[at]}_turned"
                nodes.append(
                    onnx.helper.make_node(
                        "RotaryEmbedding",
                        [node.input[at], "position_ids", *node.input[7:9]],
                        [rotates],
                        domain="com.microsoft",
                        num_heads=sizes[heads],
                    )
                )
                node.input[at] = rotates
            del node.input[7:]
            kept = [one for one in node.attribute if one.name != "do_rotary"]
            del node.attribute[:]
            node.attribute.extend(kept)
        nodes.append(node)
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    dims = ["batch_size", "sequence_length"]
    model.graph.input.append(onnx.helper.make_tensor_value_info("position_ids", 7, dims))


@pytest.mark.parametrize("law", LAWS)
def test_graphs_that_turn_by_position_ids(tiny: Maker, tmp_path: Path, law: str) -> None:
    """Where positions are an input already, only the bias is added, and the laws hold."""
    shutil.copytree(tiny("genai"), tmp_path, dirs_exist_ok=True)
    graph = onnx.load(str(tmp_path / "model.onnx"))
    turn_outside(graph)
    onnx.save(graph, str(tmp_path / "model.onnx"))
    model = models.load(tmp_path)
    assert isinstance(model, OnnxModel)
    assert model.batches
    assert not model._engine.graph.rotates
    LAWS[law](ModelUnderTest(model, tolerance=1e-5))
    ids = [3, 1, 4, 1, 5]
    expected = models.load(tiny("genai")).open().feed(ids)
    np.testing.assert_allclose(model.open().feed(ids), expected, atol=1e-5)


def test_only_wanted_logits_are_computed(tiny: Maker, monkeypatch: pytest.MonkeyPatch) -> None:
    """A graph that gives logits for all positions gives those that are kept, and the same ones."""
    ids = list(range(40))
    model = models.load(tiny("genai"))
    plain = OnnxModel(tiny("genai") / "model.onnx", tiny("genai"), share=False)
    expected = plain.open().feed(ids, keep=3)
    shapes: list[tuple[int, ...]] = []
    append = OnnxEngine.append

    def noted(self: OnnxEngine, *others: object, **more: object) -> np.ndarray:
        found = append(self, *others, **more)  # type: ignore[arg-type]
        shapes.append(found.shape)
        return found

    monkeypatch.setattr(OnnxEngine, "append", noted)
    np.testing.assert_allclose(model.open().feed(ids, keep=3), expected, atol=1e-5)
    assert shapes == [(1, 3, model.size)]


def test_weights_beside_the_graph_are_found(tiny: Maker, tmp_path: Path) -> None:
    """A rewritten graph reads its external data from the folder it came from."""
    source = tiny("genai")
    for name in ("config.json", "genai_config.json"):
        (tmp_path / name).write_bytes((source / name).read_bytes())
    graph = onnx.load(str(source / "model.onnx"))
    onnx.save(graph, str(tmp_path / "model.onnx"), save_as_external_data=True,
              location="model.onnx.data", size_threshold=1024)  # fmt: skip
    model = models.load(tmp_path)
    assert isinstance(model, OnnxModel)
    assert model.batches
    expected = models.load(source).open().feed([1, 2, 3])
    np.testing.assert_array_equal(model.open().feed([1, 2, 3]), expected)


@pytest.mark.parametrize("can_be_rewritten", [True, False])
def test_weights_that_links_lead_to_are_found(
    tiny: Maker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, can_be_rewritten: bool
) -> None:
    """In a folder of links, as the hub's cache is, a graph has its external data, rewritten or not."""
    source = tiny("genai")
    blobs, folder = tmp_path / "blobs", tmp_path / "snapshots" / "1"
    blobs.mkdir()
    folder.mkdir(parents=True)
    graph = onnx.load(str(source / "model.onnx"))
    large = [tensor for tensor in graph.graph.initializer if len(tensor.raw_data) > 1024]
    for at, tensor in enumerate(large):
        name = "model.onnx_data_1" if at % 2 else "model.onnx_data"
        onnx.external_data_helper.set_external_data(tensor, name)
    onnx.save(graph, str(folder / "model.onnx"))
    for name in ("config.json", "genai_config.json"):
        (folder / name).write_bytes((source / name).read_bytes())
    for at, path in enumerate(sorted(folder.iterdir())):
        path.rename(blobs / str(at))
        path.symlink_to(Path("..", "..", "blobs", str(at)))
    assert len(list(blobs.iterdir())) == 5
    if not can_be_rewritten:
        monkeypatch.setattr(runtime, "_rewritten", lambda _: b"what this runtime does not take")
    model = models.load(folder)
    assert isinstance(model, OnnxModel)
    assert model.batches == can_be_rewritten
    gc.collect()
    expected = models.load(source).open().feed([1, 2, 3])
    np.testing.assert_allclose(model.open().feed([1, 2, 3]), expected, atol=1e-5)


@given(cut=st.integers(0, 400), noise=st.binary(max_size=40))
def test_damaged_files_are_no_surprise(cut: int, noise: bytes) -> None:
    """Bytes that are no graph raise ValueError or are left alone, and nothing else happens."""
    node = onnx.helper.make_node("GroupQueryAttention", ["q", "k", "v", "pk", "pv"], ["o"])
    info = onnx.helper.make_tensor_value_info("pk", 1, [1, 2, "n", 4])
    graph = onnx.helper.make_graph([node], "g", [info], [])
    data = onnx.helper.make_model(graph).SerializeToString()
    try:
        rewrite(data[:cut] + noise + data[cut:])
        rewrite(data[:cut])
    except ValueError:
        pass
