"""The command ``models``: what is here, what is cached, what to fetch."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from callmemaybe.cli.listings import ENGINES, KNOWN
from callmemaybe.cli.main import main
from callmemaybe.models import variants_in
from tests.models import hub
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
    assert "callmemaybe models pull" in text


def test_no_cache_is_no_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Where nothing was ever fetched, the list says what can be."""
    found = json.loads(said(capsys, "--cache", str(tmp_path / "none"), "--json"))
    assert found["cached"] == []
    assert [one["name"] for one in found["installed"]] == ["nano"]
    assert len(found["engines"]) == len(ENGINES)


def test_known_models_are_named_as_they_are_pulled() -> None:
    """Each command names a variant that a repository of its kind has."""
    listings = {".onnx": COMMUNITY, ".gguf": GGUF, ".safetensors": TORCH}
    for one in KNOWN:
        assert one.command == f"callmemaybe models pull {one.name}"
        assert one.name.partition(":")[2].lower() in dict(variants_in(listings[one.runs]))


@pytest.mark.timeout(300)  # it starts the program twice
def test_pull_fetches_one_variant_and_needs_no_hub_afterwards(tmp_path: Path) -> None:
    """The files that --model reads are there, and no other variant's; a later pull without the hub finds them."""
    repository, cache = tmp_path / "repository", tmp_path / "cache"
    for name in ("config.json", "tokenizer.json", "onnx/model_q4.onnx", "onnx/model_fp16.onnx"):
        path = repository / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{{}}{' ' * len(name)}")  # no two of one content
    server = hub.Hub(repository)

    def pulled(name: str) -> subprocess.CompletedProcess[str]:
        words = [sys.executable, "-m", "callmemaybe", "models", "pull", name, "--cache", str(cache)]
        place = os.environ | {"HF_ENDPOINT": server.url, "HF_HUB_OFFLINE": "0"}
        return subprocess.run(words, env=place, capture_output=True, text=True, check=False)

    done = pulled("org/tiny:q4")
    assert done.returncode == 0, done.stderr
    folder = Path(done.stdout.rpartition(" is in ")[2].strip())
    assert sorted(server.downloaded) == ["config.json", "onnx/model_q4.onnx", "tokenizer.json"]
    assert (folder / "onnx" / "model_q4.onnx").exists()
    server.server.shutdown()
    server.server.server_close()
    assert pulled("org/tiny:q4").stdout == done.stdout


def test_pull_of_what_no_hub_has(capsys: pytest.CaptureFixture[str]) -> None:
    """The embedded model is told to be here; what is no name of a hub is one sentence, and exit code 3."""
    assert said(capsys, "pull", "nano") == "nano is part of the package\n"
    with pytest.raises(SystemExit) as ended:
        main(["models", "pull", "../x"])
    assert ended.value.code == 3
    assert "is no name of the hub" in capsys.readouterr().err
