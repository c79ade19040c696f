"""Tiny random models of every layout and precision, made once a session."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import onnx
import pytest

from tests.models.placed import place
from tests.training.qwen3_reference import random_tensors, tiny_config
from training.export.qwen3_onnx import Layout, Precision, export

Maker = Callable[..., Path]


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Maker:
    """Return the folder of a tiny model; made when first asked for."""
    made: dict[tuple[Any, ...], Path] = {}

    def make(
        layout: Layout | Literal["placed"] = "genai",
        precision: Precision = "fp32",
        keep: bool = False,
        **changes: Any,
    ) -> Path:
        key = (layout, precision, keep, *sorted(changes.items()))
        if key not in made:
            made[key] = tmp_path_factory.mktemp("model")
            config = tiny_config(**changes)
            path = export(
                config,
                random_tensors(config),
                made[key],
                layout="optimum" if layout == "placed" else layout,
                precision=precision,
                num_logits_to_keep=keep,
            )
            if layout == "placed":
                graph = onnx.load(str(path))
                place(graph)
                onnx.save(graph, str(path))
        return made[key]

    return make
