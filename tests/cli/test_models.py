"""The command ``models``: what is here, what is cached, what to fetch."""

from __future__ import annotations

import json
import shlex
from fnmatch import fnmatch
from pathlib import Path

import pytest

from callmemaybe.cli.listings import ENGINES, KNOWN
from callmemaybe.cli.main import main
from callmemaybe.models import variants_in
from tests.models.test_model_files import COMMUNITY, GGUF, SIDE, TORCH

COMMIT = "0123456789abcdef0123456789abcdef01234567"


def said(capsys: pytest.CaptureFixture[str], *options: str) -> str:
    with pytest.raises(SystemExit) as ended:
        main(["models", *options])
    assert ended.value.code == 0
    return capsys.readouterr().out


def cached(cache: Path, repository: str, names: list[str]) -> None:
    folder = cache / f"models--{repository.replace('/', '--')}"
    (folder / "refs").mkdir(parents=True)
    (folder / "refs" / "main").write_text(COMMIT)
    (folder / "blobs").mkdir()
    for at, name in enumerate(names):
        blob = folder / "blobs" / str(at)
        blob.write_bytes(b"x" * 1000)
        path = folder / "snapshots" / COMMIT / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.symlink_to(blob)


def test_what_is_cached_is_listed_as_it_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each variant that is whole in the cache stands there under the name that --model takes."""
    cached(tmp_path, "org/onnx", [*SIDE, "onnx/model_q4.onnx", "onnx/model_fp16.onnx"])
    cached(tmp_path, "org/gguf", ["a-Q8_0-00001-of-00002.gguf", "b-Q4_0.gguf"])
    cached(tmp_path, "org/torch", TORCH)
    cached(tmp_path, "org/none", ["README.md"])
    found = json.loads(said(capsys, "--cache", str(tmp_path), "--json"))
    names = {one["name"]: one["bytes"] for one in found["cached"]}
    assert set(names) == {
        "org/onnx:q4",
        "org/onnx:fp16",
        "org/gguf:q4_0",
        "org/torch:fp32",
        "org/torch:fp16",
        "org/torch:bf16",
    }
    assert names["org/onnx:q4"] == 1000 * (len(SIDE) + 1)
    text = said(capsys, "--cache", str(tmp_path))
    assert "nano" in text
    assert "org/gguf:q4_0" in text
    assert "hf download" in text


def test_no_cache_is_no_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Where nothing was ever fetched, the list says what can be."""
    found = json.loads(said(capsys, "--cache", str(tmp_path / "none"), "--json"))
    assert found["cached"] == []
    assert [one["name"] for one in found["installed"]] == ["nano"]
    assert len(found["engines"]) == len(ENGINES)


def test_commands_fetch_one_variant() -> None:
    """A command fetches what its name loads, and no other variant beside it."""
    listings = {".onnx": COMMUNITY, ".gguf": GGUF, ".safetensors": TORCH}
    for one in KNOWN:
        words = shlex.split(one.command)
        assert words[:3] == ["hf", "download", one.name.partition(":")[0]]
        patterns = [words[at + 1] for at, word in enumerate(words) if word == "--include"]
        present = listings[one.runs]
        fetched = [name for name in present if any(fnmatch(name, p) for p in patterns)]
        needed = dict(variants_in(fetched))[one.name.partition(":")[2].lower()]
        assert set(needed) <= set(fetched)
        others = {".onnx": 1, ".gguf": 1, ".safetensors": 3}[one.runs]
        assert len(variants_in(fetched)) == others
