"""What a model says about itself beyond its weights."""

from __future__ import annotations

import errno
import json
from pathlib import Path
from typing import Any

import pytest

from callmemaybe import models
from callmemaybe.errors import ModelError
from callmemaybe.models.base import Files


def folder_of(folder: Path, **contents: Any) -> Files:
    """Write JSON files by stem; text as it is."""
    for stem, content in contents.items():
        if isinstance(content, str):
            (folder / "chat_template.jinja").write_text(content)
        else:
            (folder / f"{stem}.json").write_text(json.dumps(content))
    return Files(folder)


def test_nothing_is_required(tmp_path: Path) -> None:
    """An empty folder says nothing, without an error."""
    files = Files(tmp_path)
    assert files.tokenizer is None
    assert files.chat_template is None
    assert files.context is None
    assert files.ends == frozenset()


def test_ends_come_from_the_most_specific_file(tmp_path: Path) -> None:
    """generation_config goes before genai_config and config; one id and many are the same."""
    files = folder_of(tmp_path, config={"eos_token_id": 1}, genai_config={"model": {}})
    assert files.ends == {1}
    files = folder_of(tmp_path, generation_config={"eos_token_id": [2, 3]})
    assert files.ends == {2, 3}


def test_context_of_genai_config(tmp_path: Path) -> None:
    """What onnxruntime-genai was told goes before the original model's figure."""
    files = folder_of(
        tmp_path,
        config={"max_position_embeddings": 40960},
        genai_config={"model": {"context_length": 4096}},
    )
    assert files.context == 4096


def test_chat_template_has_two_homes(tmp_path: Path) -> None:
    """A template of its own goes before those in tokenizer_config, tool_use before default."""
    named = [{"name": "default", "template": "d"}, {"name": "tool_use", "template": "t"}]
    assert folder_of(tmp_path, tokenizer_config={"chat_template": named}).chat_template == "t"
    assert folder_of(tmp_path, tokenizer_config={"chat_template": "s"}).chat_template == "s"
    assert folder_of(tmp_path, template="own").chat_template == "own"


def test_configurations_of_another_shape_say_nothing(tmp_path: Path) -> None:
    """What should be an object and is none is as good as missing."""
    for name in ("config", "genai_config", "tokenizer_config", "generation_config"):
        content = {
            "text_config": "abc",
            "model": "x",
            "chat_template": ["y"],
            "eos_token_id": [None],
        }
        (tmp_path / f"{name}.json").write_text(json.dumps(content))
    files = Files(tmp_path)
    assert files.context is None
    assert files.ends == frozenset()
    assert files.chat_template is None


def test_a_template_that_is_no_utf8_is_named(tmp_path: Path) -> None:
    """A chat template in another encoding is an error that names the file."""
    (tmp_path / "chat_template.jinja").write_bytes("{# café #}".encode("latin-1"))
    with pytest.raises(ModelError, match=r"chat_template\.jinja cannot be read"):
        _ = Files(tmp_path).chat_template


@pytest.mark.parametrize(
    "name", ["~nobody-of-that-name/model", "~nobody-of-that-name/m:q4", "x" * 300]
)
def test_names_that_no_folder_can_have(name: str) -> None:
    """A name that the file system does not even look for is an error, as any that is not there."""
    # Which of the two it is differs between systems, and between versions of Python.
    with pytest.raises(ModelError, match=r"cannot be looked for|no model"):
        models.load(name)
    with pytest.raises(ModelError, match=r"cannot be looked for|not in the local cache"):
        models.load("org/model", cache=f"~nobody-of-that-name/{name}", offline=True)


@pytest.mark.parametrize("name", ["", " "])
def test_an_empty_name_is_no_folder(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not the current one either, whatever it holds."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "model.onnx").write_bytes(b"")
    with pytest.raises(ModelError, match="a model's name is empty"):
        models.load(name)


def test_folders_that_may_not_be_entered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder whose permissions keep it closed is an error that says so."""

    def closed(path: Path) -> bool:
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    monkeypatch.setattr(Path, "is_dir", closed)
    with pytest.raises(ModelError, match="Permission denied; correct the name, or the permissions"):
        models.load(tmp_path / "model")


@pytest.mark.parametrize("text", ["{", "[]", "[" * 200_000])
def test_broken_files_are_named(tmp_path: Path, text: str) -> None:
    """A file that cannot be read is an error when it is asked for, naming the file."""
    (tmp_path / "config.json").write_text(text)
    with pytest.raises(ModelError, match=r"config\.json"):
        _ = Files(tmp_path).config
