"""GGUF models: the laws of sessions, the files' own words, and a context that grows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from callmemaybe import models
from callmemaybe.errors import ModelError
from callmemaybe.models.base import Feed
from callmemaybe.models.gguf import GgufModel
from callmemaybe.testing.sessions import LAWS, ModelUnderTest
from callmemaybe.vocabulary import Vocabulary
from tests.training.qwen3_reference import forward, random_tensors, tiny_config
from tests.vocabulary.samples import train
from training.export.qwen3_gguf import Kind, export

pytest.importorskip("llama_cpp", reason="the extra 'gguf' is not installed")

CONFIG = tiny_config(vocab_size=420, intermediate_size=128)
# llama.cpp keeps keys and values in half precision; quantised weights round activations to 8 bits, and
# it takes other kernels for other numbers of rows.
TOLERANCE: dict[Kind, float] = {"f32": 2e-3, "f16": 5e-3, "q8_0": 3e-2, "q4_0": 3e-2}


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[Kind, Path]:
    folder, tensors = tmp_path_factory.mktemp("gguf"), random_tensors(CONFIG)
    return {
        kind: export(
            CONFIG,
            tensors,
            folder / f"tiny-{kind.upper()}.gguf",
            kind=kind,
            tokenizer=train(400),
            ends={"eos_token_id": 0},
            chat_template="{{ messages }}",
        )
        for kind in TOLERANCE
    }


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("kind", TOLERANCE)
def test_laws(files: dict[Kind, Path], kind: Kind, law: str) -> None:
    """A GGUF model of each precision obeys the laws of sessions."""
    LAWS[law](ModelUnderTest(models.load(files[kind]), tolerance=TOLERANCE[kind]))


@pytest.mark.parametrize("law", LAWS)
def test_laws_where_nothing_can_be_cut(
    files: dict[Kind, Path], law: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The laws hold for a model whose state cannot go back, as recurrent ones."""
    model = GgufModel(files["f32"])
    engine = model._engine
    whole = engine.cut
    monkeypatch.setattr(engine, "cut", lambda one, start: start < 0 and whole(one, start))
    LAWS[law](ModelUnderTest(model, tolerance=TOLERANCE["f32"], longest=24))


def test_logits_are_those_of_the_published_definition(files: dict[Kind, Path]) -> None:
    """The logits agree with the slow definition of the architecture in numpy."""
    ids = list(range(30))
    expected = forward(CONFIG, random_tensors(CONFIG), ids)
    found = models.load(files["f32"]).open().feed(ids, keep=30)
    assert np.abs(found - expected).max() < 5e-3 * np.abs(expected).max()


def test_the_context_grows(files: dict[Kind, Path]) -> None:
    """When the cells are used up, sessions go on in a larger context as if nothing had happened."""
    small, large = (GgufModel(files["f32"], cells=cells) for cells in (256, 4096))
    ids = [int(one) for one in np.random.default_rng(1).integers(0, 420, 120)]
    kept = [small.open() for _ in range(6)]
    for at, session in enumerate(kept):
        session.feed([at, *ids])
    for at, session in enumerate(kept):
        expected = large.open().feed([at, *ids, 7])
        found = session.feed([7])
        assert np.abs(found - expected).max() <= TOLERANCE["f32"] * np.abs(expected).max()


def test_many_sessions_go_through_in_one_pass(
    files: dict[Kind, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sessions fed together, and the branches of one, take one call of llama.cpp."""
    model = GgufModel(files["f32"])
    stem = model.open()
    stem.feed([5, 6, 7, 8])
    rows: list[int] = []
    run = type(model._engine)._pass

    def noted(self: Any, batch: list[Any]) -> Any:
        rows.append(len(batch))
        return run(self, batch)

    monkeypatch.setattr(type(model._engine), "_pass", noted)
    sessions = [stem.fork() for _ in range(4)]
    feeds = [
        Feed(one, ids) for one, ids in zip(sessions, ([1], [2, 3], [4, 5, 6], [9]), strict=True)
    ]
    stem.feed_batch(feeds)
    stem.branches([[1], [2, 3], [4, 5, 6]])
    assert rows == [7, 6]


def test_sessions_are_given_back(files: dict[Kind, Path]) -> None:
    """Sessions that are dropped make room for others; too many at once are refused."""
    model = GgufModel(files["f32"])
    for _ in range(300):
        model.open().fork().feed([1])
    held: list[Any] = []
    with pytest.raises(ModelError, match="sessions of one GGUF model are open"):
        held = [model.open() for _ in range(100)]
    del held
    model.open().feed([1])


def test_everything_is_in_the_file(files: dict[Kind, Path]) -> None:
    """Vocabulary, ends, context and template come from the GGUF file itself."""
    model = models.load(f"{files['q4_0'].parent}:Q8_0")
    assert model.files.vocabulary is not None
    vocabulary = Vocabulary.from_file(
        model.files.vocabulary, size=model.size, ends=model.files.ends
    )
    assert vocabulary.ends == {0}
    assert model.context == CONFIG["max_position_embeddings"]
    assert model.files.chat_template == "{{ messages }}"
    assert model.files.tokenizer_config["eos_token"] == "<|end|>"


def test_damage_is_a_model_error(files: dict[Kind, Path], tmp_path: Path) -> None:
    """A file that is cut off behind its metadata is refused with llama.cpp's own words."""
    path = tmp_path / "cut.gguf"
    path.write_bytes(files["f32"].read_bytes()[:60_000])
    with pytest.raises(ModelError, match="cannot be loaded"):
        models.load(path)
