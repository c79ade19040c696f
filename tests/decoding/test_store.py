"""Prefixes on disk: found again for the same model and ids only, whole or not at all, in bounds."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from callmemaybe import models
from callmemaybe.decoding.batch import DecodeBatch
from callmemaybe.decoding.disk_prefix_cache import DiskPrefixCache, _packed, _unpacked
from callmemaybe.decoding.prefix_cache import MIN_STORED_IDS, PrefixCache
from callmemaybe.models.onnx.engine import OnnxEngine
from callmemaybe.models.scripted import ScriptedModel
from tests.models.conftest import Maker, tiny  # noqa: F401 - a fixture

IDS = [at % 50 for at in range(60)]


def fed(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return a list that grows by the number of ids of every pass."""
    counts: list[int] = []
    append = OnnxEngine.append

    def counted(self: OnnxEngine, ids: np.ndarray, *others: object, **more: object) -> np.ndarray:
        counts.append(ids.shape[1])
        return append(self, ids, *others, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(OnnxEngine, "append", counted)
    return counts


@pytest.mark.parametrize("layout", ["genai", "placed"])
def test_a_prefix_is_fed_once_over_all_processes(
    tiny: Maker,  # noqa: F811
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    layout: str,
) -> None:
    """A second process reads what the first one computed, and goes on with the same logits."""
    first = models.load(tiny(layout))
    expected = PrefixCache(first, store=DiskPrefixCache(tmp_path)).fork(IDS).feed([7, 8], keep=2)
    second = models.load(tiny(layout))
    counts = fed(monkeypatch)
    prefixes = PrefixCache(second, store=DiskPrefixCache(tmp_path))
    session = prefixes.fork(IDS)
    assert not counts
    assert session.length == len(IDS)
    np.testing.assert_array_equal(session.feed([7, 8], keep=2), expected)
    # Beside what another session has fed, sums are taken in another order.
    again = prefixes.fork(IDS).feed([7, 8], keep=2)
    np.testing.assert_allclose(again, expected, atol=1e-4)
    with DecodeBatch(second, 2) as batch:
        prefixes = PrefixCache(batch, store=DiskPrefixCache(tmp_path))
        counts.clear()
        task = batch.submit(lambda: prefixes.fork(IDS).feed([7, 8], keep=2))
        np.testing.assert_array_equal(task.result(20), expected)
        assert counts == [2]


def test_another_model_or_other_ids_find_nothing(tiny: Maker, tmp_path: Path) -> None:  # noqa: F811
    """What is found is of these weights and these ids; a touched weight file is another model."""
    model = models.load(tiny("genai"))
    store = DiskPrefixCache(tmp_path)
    PrefixCache(model, store=store).fork(IDS)
    assert store.load(model, IDS) is not None
    assert store.load(model, [*IDS, 1]) is None
    assert store.load(models.load(tiny("placed")), IDS) is None
    weights = tiny("genai") / "model.onnx"
    about = weights.stat()
    os.utime(weights, ns=(about.st_atime_ns, about.st_mtime_ns + 1))
    assert store.load(models.load(tiny("genai")), IDS) is None
    os.utime(weights, ns=(about.st_atime_ns, about.st_mtime_ns))
    assert store.load(models.load(tiny("genai")), IDS) is not None


def test_short_prefixes_and_models_without_arrays_are_not_stored(
    tiny: Maker,  # noqa: F811
    tmp_path: Path,
) -> None:
    """What is fed in no time takes no place; a model that cannot be told from others stores nothing."""
    PrefixCache(models.load(tiny("genai")), store=DiskPrefixCache(tmp_path)).fork(
        IDS[: MIN_STORED_IDS - 1]
    )
    PrefixCache(ScriptedModel(60), store=DiskPrefixCache(tmp_path)).fork(IDS)
    PrefixCache(models.load(tiny("optimum")), store=DiskPrefixCache(tmp_path)).fork(IDS)
    assert not list(tmp_path.iterdir())


@settings(max_examples=60)
@given(data=st.data())
def test_a_file_is_what_was_written_or_nothing(data: st.DataObject) -> None:
    """Arrays come back as they were; a file that is cut or changed anywhere is no file."""
    random = np.random.default_rng(data.draw(st.integers(0, 99)))
    kinds = data.draw(st.lists(st.sampled_from(["f4", "f2", "i8"]), min_size=1, max_size=4))
    shapes = [random.integers(0, 4, size=random.integers(1, 5)) for _ in kinds]
    arrays = tuple(
        (random.standard_normal(tuple(shape)) * 9).astype(kind)
        for kind, shape in zip(kinds, shapes, strict=True)
    )
    content = b"".join(_packed(arrays))
    found = _unpacked(content)
    assert found is not None
    for one, other in zip(found, arrays, strict=True):
        assert one.dtype == other.dtype
        np.testing.assert_array_equal(one, other)
    at = data.draw(st.integers(0, len(content) - 1))
    assert _unpacked(content[:at]) is None
    wrong = bytes([content[at] ^ 1])
    assert _unpacked(content[:at] + wrong + content[at + 1 :]) is None


def test_broken_files_are_ignored_and_removed(tiny: Maker, tmp_path: Path) -> None:  # noqa: F811
    """A damaged file is fed anew, and replaced by a whole one."""
    model = models.load(tiny("genai"))
    PrefixCache(model, store=DiskPrefixCache(tmp_path)).fork(IDS)
    (path,) = tmp_path.iterdir()
    whole = path.read_bytes()
    path.write_bytes(whole[:-100])
    assert DiskPrefixCache(tmp_path).load(model, IDS) is None
    assert not path.exists()
    path.write_bytes(b"")
    session = PrefixCache(model, store=DiskPrefixCache(tmp_path)).fork(IDS)
    np.testing.assert_allclose(session.feed([1]), model.open().feed([*IDS, 1]), atol=1e-4)
    assert path.read_bytes() == whole


def test_the_folder_stays_within_its_bounds(tiny: Maker, tmp_path: Path) -> None:  # noqa: F811
    """The least recently used files go first; what is larger than the whole is not kept."""
    model = models.load(tiny("genai"))
    store = DiskPrefixCache(tmp_path, max_bytes=1 << 40)
    session = PrefixCache(model, store=store).fork(IDS)
    (path,) = tmp_path.iterdir()
    size = path.stat().st_size
    frozen = session.snapshot()
    assert frozen is not None
    store = DiskPrefixCache(tmp_path, max_bytes=3 * size)
    for at in range(5):
        store.save(model, [at, *IDS], frozen)
        for age, held in enumerate([IDS, *([one, *IDS] for one in range(at + 1))]):
            known = store._path(model, held)
            assert known is not None
            if known.exists():
                os.utime(known, (age, age))
        assert sum(one.stat().st_size for one in tmp_path.iterdir()) <= 3 * size
    assert store.load(model, [4, *IDS]) is not None
    assert store.load(model, IDS) is None
    DiskPrefixCache(tmp_path / "small", max_bytes=10).save(model, IDS, frozen)
    assert not (tmp_path / "small").exists()


def test_a_disk_that_refuses_is_done_without(tiny: Maker, tmp_path: Path) -> None:  # noqa: F811
    """Where nothing can be written, prefixes are fed as ever."""
    blocked = tmp_path / "a file"
    blocked.write_text("")
    model = models.load(tiny("genai"))
    session = PrefixCache(model, store=DiskPrefixCache(blocked / "inside")).fork(IDS)
    np.testing.assert_allclose(session.feed([1]), model.open().feed([*IDS, 1]), atol=1e-4)
    assert blocked.read_text() == ""


def test_a_stored_cache_of_another_shape_is_refused(tiny: Maker) -> None:  # noqa: F811
    """Thawing what does not fit the graph changes nothing."""
    model = models.load(tiny("genai"))
    session = model.open()
    session.feed(IDS)
    frozen = session.snapshot()
    assert frozen is not None
    fresh = model.open()
    assert not fresh.restore(len(IDS) + 1, frozen)
    assert not fresh.restore(len(IDS), frozen[:-1])
    assert not ScriptedModel(9).open().restore(1, ())
    assert fresh.length == 0
    assert fresh.restore(len(IDS), frozen)
    np.testing.assert_allclose(fresh.feed([3]), model.open().feed([*IDS, 3]), atol=1e-4)
