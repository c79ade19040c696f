"""The graph whose rows know no neighbours: right, and not a bit different however it is fed."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from callmemaybe import models
from callmemaybe.models.base import Feed
from callmemaybe.models.onnx import OnnxModel
from callmemaybe.testing.sessions import LAWS, ModelUnderTest
from tests.models.conftest import Maker, tiny  # noqa: F401 - a fixture
from tests.training.qwen3_reference import random_tensors, tiny_config
from training.export import qwen3_rows as export_rows


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> OnnxModel:
    """Return a tiny model in int8 weights and row-wise activations."""
    config = tiny_config()
    path = export_rows.export(config, random_tensors(config), tmp_path_factory.mktemp("rows"))
    model = models.load(path.parent)
    assert isinstance(model, OnnxModel)
    assert model.shares
    assert model.batches
    return model


@pytest.mark.parametrize("law", LAWS)
def test_laws_hold_to_the_last_bit(rows: OnnxModel, law: str) -> None:
    """Every law of sessions holds with no tolerance at all."""
    LAWS[law](ModelUnderTest(rows, tolerance=0.0))


@settings(max_examples=15, deadline=None)
@given(data=st.data())
def test_neighbours_change_no_bit(rows: OnnxModel, data: st.DataObject) -> None:
    """Whoever goes through in the same pass, with however many ids, a sequence's logits are its own."""
    token = st.integers(0, rows.size - 1)
    stems = data.draw(st.lists(st.lists(token, min_size=1, max_size=20), min_size=2, max_size=5))
    sessions = [rows.open() for _ in stems]
    for session, stem in zip(sessions, stems, strict=True):
        session.feed(stem)
    parts = [data.draw(st.lists(token, min_size=1, max_size=6)) for _ in stems]
    feeds = [Feed(session, part, len(part)) for session, part in zip(sessions, parts, strict=True)]
    for stem, part, found in zip(stems, parts, sessions[0].feed_batch(feeds), strict=True):
        assert np.array_equal(found, rows.open().feed(stem + part, keep=len(part)))


def test_it_is_the_same_network(rows: OnnxModel, tiny: Maker) -> None:  # noqa: F811
    """Its logits are the float network's, but for the rounding of weights and activations."""
    ids = list(range(40))
    expected = models.load(tiny("genai")).open().feed(ids, keep=40)
    found = rows.open().feed(ids, keep=40)
    error = np.sqrt(((found - expected) ** 2).mean() / (expected**2).mean())
    assert error < 0.04


def test_a_published_folder_is_converted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """safetensors in bfloat16, float16 or float32 become a folder that loads, tokenizer included."""
    config = tiny_config()
    tensors = random_tensors(config)
    header: dict[str, object] = {}
    body = b""
    for index, (name, value) in enumerate(tensors.items()):
        kind = ("BF16", "F16", "F32")[index % 3]
        wide = np.ascontiguousarray(value, np.float32)
        data = {
            "BF16": (wide.view(np.uint32) >> 16).astype("<u2").tobytes(),
            "F16": wide.astype("<f2").tobytes(),
            "F32": wide.tobytes(),
        }[kind]
        header[name] = {
            "dtype": kind, "shape": list(value.shape), "data_offsets": [len(body), len(body) + len(data)],
        }  # fmt: skip
        body += data
    text = json.dumps(header).encode()
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "model.safetensors").write_bytes(len(text).to_bytes(8, "little") + text + body)
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "tokenizer.json").write_text("{}")
    monkeypatch.setattr("sys.argv", ["export_rows", str(folder), str(tmp_path / "out")])
    export_rows.main()
    assert (tmp_path / "out" / "tokenizer.json").is_file()
    read = export_rows.read_safetensors(folder)
    for name, value in tensors.items():
        np.testing.assert_allclose(read[name], value, rtol=0.01, atol=1e-3)
    assert models.load(tmp_path / "out").open().feed([1, 2]).shape == (1, config["vocab_size"])
    with pytest.raises(ValueError, match="holds no"):
        export_rows.read_safetensors(tmp_path)
