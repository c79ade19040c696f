"""Hub names: what is fetched, what the cache is good for, and what each failure says."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import onnx
import pytest

from callmemaybe import models
from callmemaybe.models._hub import HubName
from tests.models import hub
from tests.models.conftest import Maker


def ask(home: Path, endpoint: str, *names: str, **variables: str) -> list[dict[str, Any]]:
    """Load each name in a process of its own; return what it said."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith("HF_")}
    environment |= {
        "HF_HOME": str(home),
        "HF_ENDPOINT": endpoint,
        "HF_HUB_DISABLE_PROGRESS_BARS": "1",
        "HF_HUB_DISABLE_TELEMETRY": "1",
        "NO_PROXY": "127.0.0.1",
        **variables,
    }
    done = subprocess.run(
        [sys.executable, hub.__file__, *names],
        env=environment,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.fixture(scope="module")
def repository(tiny: Maker, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two variants in one repository, with a file nobody needs."""
    folder = tmp_path_factory.mktemp("repository")
    for precision in ("fp32", "int4"):
        shutil.copytree(tiny("optimum", precision), folder, dirs_exist_ok=True)
    (folder / "README.md").write_text("Not needed.")
    (folder / "model.safetensors").write_bytes(b"not needed either")
    (folder / "tokenizer.json").write_text("{}")
    return folder


def test_downloads_caches_and_goes_offline(repository: Path, tmp_path: Path) -> None:
    """The chosen variant is fetched once, and is there without the hub; nothing else is."""
    server = hub.Hub(repository)
    q4, wrong, gated, unknown = ask(
        tmp_path, server.url, "org/tiny:q4", "org/tiny:q3", "org/gated", "org/unknown"
    )
    expected = models.load(repository / "onnx" / "model_q4.onnx").open().feed([1, 2, 3])
    assert q4["size"] == expected.shape[1]
    assert q4["logits"] == pytest.approx(float(expected.sum()), rel=1e-4)
    wanted = ["config.json", "onnx/model_q4.onnx", "tokenizer.json"]
    assert sorted(server.downloaded) == wanted
    assert "has no variant 'q3'; it has q4, fp32" in wrong["error"]
    assert "HF_TOKEN" in gated["error"]
    assert "no model 'org/unknown'" in unknown["error"]

    cached, absent = ask(tmp_path, server.url, "org/tiny:q4", "org/tiny:fp32", HF_HUB_OFFLINE="1")
    assert cached == q4
    assert "offline mode is on" in absent["error"]
    assert "callmemaybe models pull org/tiny:fp32" in absent["error"]
    assert "\n" not in absent["error"]
    assert sorted(server.downloaded) == wanted

    server.server.shutdown()
    server.server.server_close()
    cached, absent = ask(tmp_path, server.url, "org/tiny:q4", "org/other:q4")
    assert cached == q4
    assert "the hub does not answer" in absent["error"]
    assert "callmemaybe models pull org/other:q4" in absent["error"]


@pytest.fixture(scope="module")
def split(tiny: Maker, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository whose weights lie in two files beside a graph with fused attention."""
    folder = tmp_path_factory.mktemp("split")
    (folder / "onnx").mkdir()
    graph = onnx.load(str(tiny("genai") / "model.onnx"))
    large = [tensor for tensor in graph.graph.initializer if len(tensor.raw_data) > 1024]
    for at, tensor in enumerate(large):
        name = "model_q4.onnx_data_1" if at % 2 else "model_q4.onnx_data"
        onnx.external_data_helper.set_external_data(tensor, name)
    onnx.save(graph, str(folder / "onnx" / "model_q4.onnx"))
    shutil.copy(tiny("optimum") / "config.json", folder)
    return folder


@pytest.fixture(scope="module")
def cached(
    split: Path, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, hub.Hub, dict[str, Any]]:
    """That repository's hub, a cache that has all of it, and what the model said."""
    home, server = tmp_path_factory.mktemp("home"), hub.Hub(split)
    (first,) = ask(home, server.url, "org/tiny:q4")
    return home, server, first


def test_weights_in_files_of_their_own(
    tiny: Maker, cached: tuple[Path, hub.Hub, dict[str, Any]]
) -> None:
    """What the hub keeps as links to blobs is loaded, the weights beside a graph as well."""
    expected = models.load(tiny("genai")).open().feed([1, 2, 3])
    assert cached[2]["size"] == expected.shape[1]
    assert cached[2]["logits"] == pytest.approx(float(expected.sum()), rel=1e-4)


def test_what_is_damaged_is_fetched_again(
    cached: tuple[Path, hub.Hub, dict[str, Any]], tmp_path: Path
) -> None:
    """A file that is gone from the cache, or was left empty, is fetched again, and only that."""
    home, server, first = cached
    loads = []
    for name, damage in (
        ("model_q4.onnx", "dangling"),
        ("model_q4.onnx", "empty"),
        ("model_q4.onnx_data_1", "lost"),
        ("model_q4.onnx_data_1", "empty"),
    ):
        copy = tmp_path / f"{name}-{damage}"
        shutil.copytree(home / "hub", copy, symlinks=True)
        (file,) = copy.rglob(name)
        if damage == "lost":
            file.unlink()
        elif damage == "dangling":
            file.resolve().unlink()
        else:
            file.resolve().write_bytes(b"")
        loads.append({"name": "org/tiny:q4", "cache": str(copy)})
    server.downloaded.clear()
    attempts = [
        json.dumps(load | {"offline": offline}) for load in loads for offline in (True, None)
    ]
    found = ask(tmp_path / "home", server.url, *attempts)
    for absent, again in zip(found[::2], found[1::2], strict=True):
        assert "offline mode is on" in absent["error"]
        assert again == first
    # A file to which only the link is lost is still among the blobs.
    fetched = ["onnx/model_q4.onnx", "onnx/model_q4.onnx", "onnx/model_q4.onnx_data_1"]
    assert server.downloaded == fetched


def test_a_disk_that_cannot_be_written_is_not_the_hubs_fault(split: Path, tmp_path: Path) -> None:
    """What the file system refuses is said to be so, with the folder."""
    home = tmp_path / "home"
    home.write_text("no folder")
    (refused,) = ask(home, hub.Hub(split).url, "org/tiny:q4")
    assert f"{home / 'hub'} cannot be written" in refused["error"]
    assert "does not answer" not in refused["error"]


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("org/name", ("org/name", None, None)),
        ("org/name:q4", ("org/name", None, "q4")),
        ("org/Qwen3-0.6B-ONNX@main:q4f16", ("org/Qwen3-0.6B-ONNX", "main", "q4f16")),
        ("org/name:cpu/int4-block", ("org/name", None, "cpu/int4-block")),
        ("nano", None),
        ("a/b/c", None),
        ("http://host/v1", None),
        ("", None),
    ],
)
def test_names_are_taken_apart(name: str, parts: tuple[str | None, ...] | None) -> None:
    """A hub name is org/name with an optional revision and variant."""
    found = HubName.parse(name)
    assert (found and (found.repository, found.revision, found.variant)) == parts
