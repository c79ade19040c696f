"""PyTorch models: the laws of sessions, and agreement with the published definition of a model."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from callmemaybe import models
from callmemaybe.errors import ModelError
from callmemaybe.models.base import Feed
from callmemaybe.models.transformers import TransformersModel
from callmemaybe.testing.sessions import LAWS, ModelUnderTest
from tests.training.qwen3_reference import forward, random_tensors, tiny_config

pytest.importorskip("torch", reason="the extra 'torch' is not installed")
pytest.importorskip("transformers", reason="the extra 'torch' is not installed")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return written(tmp_path_factory.mktemp("torch"), tiny_config())


def written(folder: Path, config: dict[str, Any]) -> Path:
    from safetensors.numpy import save_file

    tensors = random_tensors(config)
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    (folder / "config.json").write_text(json.dumps(config))
    return folder


@pytest.mark.parametrize("law", LAWS)
def test_laws(folder: Path, law: str) -> None:
    """A PyTorch model obeys the laws of sessions."""
    LAWS[law](ModelUnderTest(models.load(folder), tolerance=1e-4))


@pytest.mark.parametrize("law", LAWS)
def test_laws_with_a_cache_that_cannot_be_cut(folder: Path, law: str, monkeypatch: Any) -> None:
    """The laws hold where a rewind means feeding again and a fork means copying."""
    monkeypatch.setattr("callmemaybe.models.transformers._is_plain", lambda _: False)
    LAWS[law](ModelUnderTest(models.load(folder), tolerance=1e-4, longest=24))


def test_many_sessions_go_through_in_one_pass(folder: Path, monkeypatch: Any) -> None:
    """Sessions of unlike lengths take one pass together, padded, and so do the branches of one."""
    model = models.load(folder)
    sessions = [model.open() for _ in range(4)]
    for at, session in enumerate(sessions):
        session.feed([1] * (3 + 2 * at))
    shapes: list[tuple[int, ...]] = []
    run = TransformersModel.run

    def noted(self: TransformersModel, ids: Any, *others: Any) -> Any:
        shapes.append(np.shape(ids))
        return run(self, ids, *others)

    monkeypatch.setattr(TransformersModel, "run", noted)
    sessions[0].feed_batch([Feed(session, [2, 3]) for session in sessions])
    sessions[3].branches([[1], [2, 3], [4, 5, 6]])
    assert shapes == [(4, 2), (3, 3)]


def test_a_full_context_beside_others(tmp_path: Path) -> None:
    """A sequence at the end of its context goes on beside one that is fed more."""
    model = models.load(written(tmp_path, tiny_config(max_position_embeddings=40)))
    full, short = model.open(), model.open()
    full.feed([1] * 39)
    short.feed([1] * 5)
    found = full.feed_batch([Feed(full, [2]), Feed(short, [2] * 3)])
    for logits, ids in zip(found, ([1] * 39 + [2], [1] * 5 + [2] * 3), strict=True):
        np.testing.assert_allclose(logits, model.open().feed(ids), atol=1e-3)


def test_logits_are_those_of_the_published_definition(folder: Path) -> None:
    """The logits agree with the slow definition of the architecture in numpy."""
    config = tiny_config()
    ids = list(range(30))
    expected = forward(config, random_tensors(config), ids)
    found = models.load(folder).open().feed(ids, keep=30)
    assert np.abs(found - expected).max() < 1e-3


def test_precision_is_named_behind_a_colon(folder: Path) -> None:
    """``folder:bf16`` loads the same weights in another precision, near the first."""
    exact = models.load(folder).open().feed([1, 2, 3])
    rough = models.load(f"{folder}:bf16").open().feed([1, 2, 3])
    assert 0 < np.abs(exact - rough).max() < 0.2


def test_what_is_no_model_is_refused(tmp_path: Path) -> None:
    """A folder that transformers cannot load gives one ModelError with its reason."""
    (tmp_path / "model.safetensors").write_bytes(b"\0" * 8)
    (tmp_path / "config.json").write_text('{"model_type": "qwen3", "architectures": []}')
    with pytest.raises(ModelError, match="cannot be loaded"):
        TransformersModel(tmp_path)
