"""What a model says about itself beyond its weights."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

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


@pytest.mark.parametrize("text", ["{", "[]"])
def test_broken_files_are_named(tmp_path: Path, text: str) -> None:
    """A file that cannot be read is an error when it is asked for, naming the file."""
    (tmp_path / "config.json").write_text(text)
    with pytest.raises(ModelError, match=r"config\.json"):
        _ = Files(tmp_path).config
