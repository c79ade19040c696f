"""A tiny random model with the embedded model's tokenizer, and the program as a process."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import callmemaybe
from callmemaybe.cli.main import main
from tests.training.qwen3_reference import random_tensors, tiny_config
from training.export.qwen3_onnx import export

NANO = Path(callmemaybe.__file__).parent / "data" / "nano"
FUNCTIONS: list[dict[str, Any]] = [
    {
        "name": "add",
        "description": "Add two numbers.",
        "parameters": {"a": {"type": "number"}, "b": {"type": "number"}},
    },
    {
        "type": "function",
        "function": {
            "name": "count",
            "parameters": {
                "type": "object",
                "properties": {
                    "n": {"type": "integer"},
                    "on": {"type": "boolean"},
                    "unit": {"enum": ["cm", "inch"]},
                },
                "required": ["n", "unit"],
                "additionalProperties": False,
            },
        },
    },
    {"name": "stop", "description": "Stop everything.", "parameters": {}},
]


@pytest.fixture(scope="session")
def random_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a model that knows nothing: what it writes is up to the grammar."""
    folder = tmp_path_factory.mktemp("random")
    config = tiny_config(
        vocab_size=json.loads((NANO / "config.json").read_text())["vocab_size"],
        max_position_embeddings=32768,
        eos_token_id=json.loads((NANO / "config.json").read_text())["eos_token_id"],
    )
    export(config, random_tensors(config), folder)
    for name in ("tokenizer.json", "tokenizer_config.json", "generation_config.json"):
        if (NANO / name).exists():
            shutil.copy(NANO / name, folder / name)
    return folder


@dataclass(frozen=True)
class Done:
    """How a run ended."""

    returncode: int
    stdout: str
    stderr: str


class Program:
    """``callmemaybe run`` in a folder of its own, here or as a process."""

    def __init__(self, folder: Path, model: str, capture: pytest.CaptureFixture[str]) -> None:
        self.folder = folder
        self.output = folder / "out" / "results.json"
        self._model = model
        self._capture = capture
        self.write("functions.json", FUNCTIONS)
        self.write("prompts.json", [{"prompt": "add 2 and 3"}, {"prompt": "stop"}])

    def write(self, name: str, value: object) -> Path:
        path = self.folder / name
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        path.write_text(text, encoding="utf-8")
        return path

    def options(self, *options: str, model: str | None = None) -> list[str]:
        return [
            "run", "--functions_definition", "functions.json", "--input", "prompts.json",
            "--output", str(self.output), "--model", model or self._model,
            "--max-tokens", "60", *options,
        ]  # fmt: skip

    def run(self, *options: str, model: str | None = None) -> Done:
        """Run in this process, which spares the start-up."""
        self._capture.readouterr()
        with contextlib.chdir(self.folder), pytest.raises(SystemExit) as ended:
            main(self.options(*options, model=model))
        out, err = self._capture.readouterr()
        assert isinstance(ended.value.code, int)
        return Done(ended.value.code, out, err)

    def spawn(
        self,
        *options: str,
        preexec: Callable[[], None] | None = None,
        env: dict[str, str] | None = None,
    ) -> Done:
        """Run as a process and wait for it."""
        done = subprocess.run(
            [sys.executable, "-m", "callmemaybe", *self.options(*options)],
            cwd=self.folder, capture_output=True, text=True, check=False, timeout=100,
            preexec_fn=preexec, env={**os.environ, **(env or {})},
        )  # fmt: skip
        return Done(done.returncode, done.stdout, done.stderr)

    def start(self, *options: str) -> subprocess.Popen[str]:
        """Start a process and do not wait for it."""
        return subprocess.Popen(
            [sys.executable, "-m", "callmemaybe", *self.options(*options)],
            cwd=self.folder, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip

    def results(self) -> list[dict[str, Any]]:
        value = json.loads(self.output.read_text(encoding="utf-8"))
        assert isinstance(value, list)
        return value


@pytest.fixture
def program(tmp_path: Path, random_model: Path, capsys: pytest.CaptureFixture[str]) -> Program:
    return Program(tmp_path, str(random_model), capsys)


@pytest.fixture
def nano_program(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Program:
    return Program(tmp_path, "nano", capsys)


def check_records(records: Sequence[dict[str, Any]], prompts: Sequence[str]) -> None:
    """Every record has exactly the three keys, in the order of the prompts."""
    assert [list(record) for record in records] == [["prompt", "name", "parameters"]] * len(records)
    assert [record["prompt"] for record in records] == list(prompts)[: len(records)]
