"""What the ONNX engine does beyond the laws: copies, chunks, threads, odd graphs, refusals."""

from __future__ import annotations

import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

from callmemaybe import models
from callmemaybe.errors import ModelError
from callmemaybe.models.onnx import OnnxModel
from callmemaybe.models.onnx.by_position import ByPositionSession
from callmemaybe.models.onnx.kv_buffer import BufferReader, KVBuffer
from callmemaybe.models.onnx.shared_kv import SharedKVSession
from callmemaybe.testing.sessions import LAWS, ModelUnderTest
from tests.models.conftest import Maker


def edited(folder: Path, target: Path, change: Any) -> Path:
    """Copy a model's folder with its graph changed."""
    shutil.copytree(folder, target, dirs_exist_ok=True)
    path = next(target.rglob("*.onnx"))
    model = onnx.load(str(path))
    change(model)
    onnx.save(model, str(path))
    return target


@pytest.mark.parametrize("name", ["model.onnx", "model[q4].onnx"])
def test_weights_are_told_apart(tiny: Maker, tmp_path: Path, name: str) -> None:
    """Other weights have another fingerprint, whatever signs are in the name of their file."""
    prints = []
    for at, layout in enumerate(["genai", "optimum"]):
        folder = tmp_path / str(at)
        folder.mkdir()
        path = next(tiny(layout).rglob("*.onnx"))
        model = OnnxModel(shutil.copy(path, folder / name), tiny(layout))
        assert model.fingerprint == OnnxModel(folder / name, tiny(layout)).fingerprint
        prints.append(model.fingerprint)
    assert prints[0] != prints[1]


@pytest.mark.parametrize("layout", ["genai", "optimum"])
def test_logits_are_the_reference(tiny: Maker, layout: str) -> None:
    """Sharing the cache, growing it and the two layouts all give the same logits."""
    ids = list(range(40))
    reference = models.load(tiny("genai")).open().feed(ids, keep=40)
    folder = tiny(layout)
    model = OnnxModel(next(folder.rglob("*.onnx")), folder, share=False)
    found = model.open().feed(ids, keep=40)
    np.testing.assert_allclose(found, reference, atol=2e-5 * float(np.abs(reference).max()))


def test_buffers_grow_seldom() -> None:
    """Appending one by one copies a number of rows proportional to the length."""
    cache = KVBuffer([np.zeros((1, 1, 0, 1))], [2], wrap=lambda array: array)
    reader = BufferReader()
    cache.join(reader)
    copied = 0
    for row in range(10_000):
        grown = cache.claim(reader, row, row + 1, 10_000)
        copied += row if grown is not cache else 0
        cache = grown
        cache.arrays[0][0, 0, row, 0] = row
    assert copied < 80_000
    assert cache.capacity == 10_000
    np.testing.assert_array_equal(cache.arrays[0][0, 0, :, 0], np.arange(10_000))


def test_sessions_run_in_parallel(tiny: Maker) -> None:
    """Threads that fork one prefix at the same time do not see each other's ids."""
    model = models.load(tiny("genai"))
    base = model.open()
    base.feed(range(20))
    paths = [[(7 * thread + step) % 97 for step in range(30)] for thread in range(12)]
    expected = [model.open().feed([*range(20), *path]) for path in paths]

    def run(path: list[int]) -> np.ndarray:
        session = base.fork()
        for token in path:
            logits = session.feed([token])
        return logits

    with ThreadPoolExecutor(6) as pool:
        for found, wanted in zip(pool.map(run, paths), expected, strict=True):
            np.testing.assert_allclose(found, wanted, atol=1e-4)


@given(
    count=st.integers(1, 2000),
    share=st.floats(0, 1),
    chunk=st.integers(1, 600),
    all_logits=st.booleans(),
)
def test_plans_cover_the_ids(count: int, share: float, chunk: int, all_logits: bool) -> None:
    """Chunks add up to the ids, kept rows to ``keep``, and kept rows are the last ones."""
    from callmemaybe.models.onnx.engine import OnnxEngine

    engine = object.__new__(OnnxEngine)
    engine.chunk, engine.all_logits = chunk, all_logits
    keep = round(share * count)
    plan = engine.plan(count, keep)
    assert sum(size for size, _ in plan) == count
    assert sum(rows for _, rows in plan) == keep
    shown = [position >= size - rows for size, rows in plan for position in range(size)]
    assert shown == [position >= count - keep for position in range(count)]
    assert all(size <= chunk for size, _ in plan)
    assert all_logits or all(rows <= 1 for _, rows in plan)


@pytest.mark.parametrize("layout", ["genai", "optimum"])
def test_graphs_that_show_only_the_last_position(tiny: Maker, layout: str, tmp_path: Path) -> None:
    """A pruned head (one row of logits a pass) obeys the laws, at one pass per row asked for."""

    def prune(model: onnx.ModelProto) -> None:
        kept = [node for node in model.graph.input if node.name != "num_logits_to_keep"]
        del model.graph.input[:]
        model.graph.input.extend(kept)
        one = numpy_helper.from_array(np.array(1, np.int64), "num_logits_to_keep")
        model.graph.initializer.append(one)

    model = models.load(edited(tiny(layout, keep=True), tmp_path, prune))
    for law in LAWS.values():
        law(ModelUnderTest(model, tolerance=1e-5, longest=24))


def test_other_names_and_integer_types(tiny: Maker, tmp_path: Path) -> None:
    """Names and element types are read from the graph: past_key_0, int32 ids."""

    def rename(model: onnx.ModelProto) -> None:
        names = {}
        for layer in range(2):
            for kind in ("key", "value"):
                names[f"past_key_values.{layer}.{kind}"] = f"past_{kind}_{layer}"
                names[f"present.{layer}.{kind}"] = f"present_{kind}_{layer}"
        for value in [*model.graph.input, *model.graph.output]:
            value.name = names.get(value.name, value.name)
            if value.name in {"input_ids", "attention_mask"}:
                value.type.tensor_type.elem_type = TensorProto.INT32
        for node in model.graph.node:
            node.input[:] = [names.get(name, name) for name in node.input]
            node.output[:] = [names.get(name, name) for name in node.output]

        for node in model.graph.node:
            if node.op_type == "ReduceSum":
                node.input[0] = "wide_mask"
        cast = helper.make_node("Cast", ["attention_mask"], ["wide_mask"], to=TensorProto.INT64)
        model.graph.node.insert(0, cast)

    ids = [5, 6, 7]
    model = models.load(edited(tiny("genai"), tmp_path, rename))
    expected = models.load(tiny("genai")).open().feed(ids)
    np.testing.assert_allclose(model.open().feed(ids), expected, atol=1e-5)


def test_context_is_the_configurations(tiny: Maker) -> None:
    """A session holds as many ids as the configuration says, and says so at the next."""
    session = models.load(tiny("genai", max_position_embeddings=50)).open()
    session.feed([1] * 50)
    with pytest.raises(ModelError, match="context is full: 1 more ids do not fit into the 0 left"):
        session.feed([1])


def remove_cache(model: onnx.ModelProto) -> None:
    """Make the cache constant and empty."""
    kept = [node for node in model.graph.input if not node.name.startswith("past")]
    for node in model.graph.input:
        if node.name.startswith("past"):
            empty = numpy_helper.from_array(np.zeros((1, 2, 0, 32), np.float32), node.name)
            model.graph.initializer.append(empty)
    del model.graph.input[:]
    model.graph.input.extend(kept)


def ask_for_more(model: onnx.ModelProto) -> None:
    """Add an input that no text can fill."""
    extra = helper.make_tensor_value_info("pixel_values", TensorProto.FLOAT, [1, 3, "h", "w"])
    model.graph.input.append(extra)


def fix_length(model: onnx.ModelProto) -> None:
    """Fix the sequence length, as exports for phones have it."""
    model.graph.input[0].type.tensor_type.shape.dim[1].dim_value = 1


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (remove_cache, "no key-value cache"),
        (ask_for_more, "asks for pixel_values"),
        (fix_length, "fixed to 1"),
    ],
)
def test_graphs_that_cannot_be_driven(tiny: Maker, tmp_path: Path, change: Any, said: str) -> None:
    """A graph that is no text decoder with a cache is refused with the reason."""
    with pytest.raises(ModelError, match=said):
        models.load(edited(tiny("optimum"), tmp_path, change))


def test_files_that_are_no_model(tiny: Maker, tmp_path: Path) -> None:
    """Broken, missing and foreign files each give one clear ModelError."""
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "model.onnx").write_bytes(b"not a graph")
    (tmp_path / "empty").mkdir()
    (tmp_path / "weights.gguf").write_bytes(b"GGUF")
    (tmp_path / "weights.tflite").write_bytes(b"")
    for name, said in {
        "broken": "cannot be loaded",
        "empty": "holds no model",
        "weights.gguf": "cut off or damaged",
        "weights.tflite": "no engine for .tflite files",
        "absent": "no folder or file",
    }.items():
        with pytest.raises(ModelError, match=said):
            models.load(tmp_path / name)
    with pytest.raises(ModelError, match="not shaped like a hub name"):
        models.load("Nano")
    with pytest.raises(ModelError, match="has no CUDAExecutionProvider"):
        models.load(tiny("genai"), providers=["CUDAExecutionProvider"])


def test_folders_and_variants(tiny: Maker, tmp_path: Path) -> None:
    """A folder, a folder with a variant, and a weight file all load; files are beside them."""
    shutil.copytree(tiny("optimum", "fp32"), tmp_path, dirs_exist_ok=True)
    shutil.copytree(tiny("optimum", "fp16"), tmp_path, dirs_exist_ok=True)
    for name, precision in {
        str(tmp_path): "fp32",
        f"{tmp_path}:fp16": "fp16",
        f"{tmp_path}/onnx/model_fp16.onnx": "fp16",
    }.items():
        model = models.load(name)
        assert model.files.folder == tmp_path
        assert model.context == 128
        expected = models.load(tiny("optimum", precision)).open().feed([1, 2])
        np.testing.assert_array_equal(model.open().feed([1, 2]), expected)


def test_threads_change_no_logits(tiny: Maker) -> None:
    """The number of threads is a matter of speed."""
    ids = list(range(60))
    one, two = (
        models.load(tiny("genai", "int8"), threads=threads).open().feed(ids, keep=60)
        for threads in (1, 2)
    )
    np.testing.assert_allclose(one, two, atol=1e-4)


def test_sharing_is_only_believed_when_it_is_right(tiny: Maker) -> None:
    """The engine tries the shared cache before it uses it: plain operators do not qualify."""
    folder = tiny("optimum")
    model = OnnxModel(folder / "onnx" / "model.onnx", folder)
    assert not model._engine.agrees(np.zeros((1, 2, model.size)))
    assert isinstance(models.load(tiny("genai")).open(), SharedKVSession)
    assert isinstance(models.load(tiny("placed")).open(), ByPositionSession)
