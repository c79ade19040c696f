"""The constant that trades false refusals against rightly refused requests."""

from __future__ import annotations

import json
from hashlib import sha256
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

onnx = pytest.importorskip("onnx", reason="writing into a graph needs onnx")

from training import calibrate  # noqa: E402

MARGINS = st.lists(st.integers(-99, 99).map(lambda n: n / 8), min_size=1, max_size=40, unique=True)


@given(MARGINS, st.floats(0, 1))
def test_no_more_are_refused_than_allowed(call: list[float], most: float) -> None:
    """The constant keeps to the share, and one that refuses another request would not."""
    margins = np.array(call)
    constant = calibrate.constant_for(margins, most)
    found = calibrate.tradeoff(margins, margins, constant)
    assert found.false_refusals <= most + 1e-12
    assert found.false_refusals + 1 / len(call) > most


def test_the_constant_reaches_graph_and_manifest(tmp_path: Path) -> None:
    """What is written is read again, added to the graph's output, and the manifest knows the file."""
    ort = pytest.importorskip("onnxruntime")
    helper, kind = onnx.helper, onnx.TensorProto.FLOAT
    graph = helper.make_graph(
        [helper.make_node("Add", ["x", calibrate.NAME], ["y"])],
        "g",
        [helper.make_tensor_value_info("x", kind, [1])],
        [helper.make_tensor_value_info("y", kind, [1])],
        [onnx.numpy_helper.from_array(np.zeros(1, np.float32), calibrate.NAME)],
    )
    opset = [helper.make_opsetid("", 18)]
    model = helper.make_model(graph, opset_imports=opset, ir_version=9)
    (tmp_path / "model.onnx").write_bytes(model.SerializeToString())
    (tmp_path / "manifest.json").write_text('{"files": {}}')
    assert calibrate.written(tmp_path) == 0
    calibrate.write(tmp_path, -1.5, {"refused": 0.5})
    assert calibrate.written(tmp_path) == -1.5
    session = ort.InferenceSession(str(tmp_path / "model.onnx"))
    assert session.run(None, {"x": np.ones(1, np.float32)})[0] == [-0.5]
    figures = json.loads((tmp_path / "manifest.json").read_text())
    assert figures["refusals"] == {"none_bias": -1.5, "refused": 0.5}
    digest = sha256((tmp_path / "model.onnx").read_bytes()).hexdigest()
    assert figures["files"]["model.onnx"]["sha256"] == digest
