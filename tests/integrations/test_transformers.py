"""Calls in transformers' own ``generate``: greedy, drawn, with beams, in batches."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.integrations.test_language import NANO, TOOLS
from tests.training.qwen3_reference import random_tensors, tiny_config

torch = pytest.importorskip("torch", reason="the extra 'torch' is not installed")
transformers = pytest.importorskip("transformers", reason="the extra 'torch' is not installed")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a random model with the embedded model's tokenizer."""
    from safetensors.numpy import save_file

    folder = tmp_path_factory.mktemp("torch")
    about = json.loads((NANO / "config.json").read_text())
    config = tiny_config(vocab_size=about["vocab_size"], eos_token_id=about["eos_token_id"])
    config["max_position_embeddings"] = 2000
    save_file(random_tensors(config), folder / "model.safetensors", metadata={"format": "pt"})
    (folder / "config.json").write_text(json.dumps(config))
    for name in ("tokenizer.json", "generation_config.json"):
        shutil.copy(NANO / name, folder / name)
    return folder


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"do_sample": True, "temperature": 1.5},
        {"num_beams": 3},
        {"num_beams": 2, "num_return_sequences": 2, "do_sample": True},
    ],
    ids=["greedy", "drawn", "beams", "drawn beams"],
)
def test_everything_that_is_generated_is_a_call(folder: Path, options: dict[str, Any]) -> None:
    """Whatever the way of generating, every row that has ended is one valid call."""
    from callmemaybe.integrations.transformers import (
        ToolCallConstraint,
        TransformersLogitsProcessor,
    )

    torch.manual_seed(0)
    language = ToolCallConstraint(TOOLS, folder)
    model = transformers.AutoModelForCausalLM.from_pretrained(folder).eval()
    prompts = [language.prompt("add 2 and 3"), language.prompt("say hello")]
    width = max(map(len, prompts))
    ids = torch.tensor([[0] * (width - len(one)) + one for one in prompts])
    mask = torch.tensor([[0] * (width - len(one)) + [1] * len(one) for one in prompts])
    found = model.generate(
        ids, attention_mask=mask, logits_processor=[TransformersLogitsProcessor(language)], max_new_tokens=200,
        pad_token_id=0, **options,
    )  # fmt: skip
    ended = 0
    for row in found[:, width:].tolist():
        end = next((at for at, one in enumerate(row) if one in language.vocabulary.ends), None)
        if end is None:
            # Cut off by max_new_tokens, yet in the language as far as it goes.
            assert language.matcher.fork().try_accept(row) == len(row)
            continue
        ended += 1
        assert language.read(row[: end + 1])
    assert ended


def test_greedy_is_what_our_own_decoder_writes(folder: Path) -> None:
    """With one tokenisation and names chosen by token, generate writes what Caller does."""
    from callmemaybe import Caller, DecodingConfig, load_model
    from callmemaybe.integrations.transformers import (
        ToolCallConstraint,
        TransformersLogitsProcessor,
    )

    language = ToolCallConstraint(TOOLS, folder)
    model = transformers.AutoModelForCausalLM.from_pretrained(folder).eval()
    ids = torch.tensor([language.prompt("ping")])
    found = model.generate(
        ids,
        logits_processor=[TransformersLogitsProcessor(language)],
        max_new_tokens=400,
        pad_token_id=0,
    )
    caller = Caller(
        load_model(str(folder)), TOOLS, decoding=DecodingConfig(choose="greedy", forcing=False)
    )
    outcome = caller.call("ping")
    assert outcome.call in language.read(found[0, ids.shape[1] :].tolist())
