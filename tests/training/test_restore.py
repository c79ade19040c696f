"""A run goes on from the files that are shipped."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="training needs PyTorch (make train installs it)")
pytest.importorskip("scipy", reason="training needs scipy")

import numpy as np  # noqa: E402
import onnx  # noqa: E402

from callmemaybe.tuning import token_forms  # noqa: E402
from callmemaybe.tuning.network import whole_words  # noqa: E402
from callmemaybe.tuning.network.model import Nano, NanoConfig  # noqa: E402
from callmemaybe.tuning.packing import Encoder  # noqa: E402
from callmemaybe.tuning.rendering import CONTROL_TOKENS  # noqa: E402
from training import recipe, restore  # noqa: E402
from training.data import tokenizer as tokenizers  # noqa: E402
from training.export import onnx_graph  # noqa: E402
from training.export.cached_network import CachedNano  # noqa: E402

TOKENIZER = recipe.ROOT / "src/callmemaybe/data/nano/tokenizer.json"
WORDS = ["lessons", "pupil", "umbrella", "quarterly"]


def network(seed: int, deep: int = 2) -> tuple[Nano, Encoder]:
    """A small network of random weights."""
    tokenizer = tokenizers.load(TOKENIZER)
    bases, *tables = token_forms.forms(tokenizer)
    torch.manual_seed(seed)
    shape = NanoConfig(
        len(bases), deep=deep, width=64, heads=4, kv_heads=2, head=16, inner=96, lexicon=64
    )
    pieces = whole_words.split_words(tokenizer, WORDS)
    more = np.random.default_rng(0).normal(size=(len(pieces), 64)).astype(np.float32)
    whole = whole_words.WholeWords(bases, [whole_words.key(each) for each in pieces.values()], more)
    known = torch.randn(len(bases), 64, generator=torch.Generator().manual_seed(0))
    model = Nano(shape, known, *map(torch.from_numpy, tables), torch.float32, whole)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.05)
    return model.eval(), Encoder(tokenizer)


def stepped(model: Nano, encoder: Encoder) -> CachedNano:
    """The step of a network."""
    controls = {text: encoder.control(text) for text in CONTROL_TOKENS}
    return CachedNano(model, controls, encoder.text("\n")[0])


def written(model: Nano, encoder: Encoder, file: Path) -> tuple[CachedNano, dict[str, np.ndarray]]:
    """The step of a network, and what its graph of integers holds."""
    step = stepped(model, encoder)
    said = [
        step.controls["<|tools|>"],
        *encoder.text("umbrella lessons"),
        step.controls["<|call|>"],
        *encoder.text("umbrella lessons quarterly pupil"),  # layers for answers see these alone
    ]
    onnx_graph.write(model, step.controls, encoder.text("\n")[0], file, samples=[said])
    return step, restore.floats(onnx.load(file).graph)


def test_weights_come_back_from_a_graph_of_integers(tmp_path: Path) -> None:
    """All that a step computes with is within a hundredth of what it was, whatever the network held before."""
    model, encoder = network(1)
    step, held = written(model, encoder, tmp_path / "model.onnx")
    other, _ = network(2)
    state = {name: value.clone() for name, value in other.state_dict().items()}
    other.load_state_dict(state | restore.weights(other, encoder, held))
    again = dict(stepped(other, encoder).named_parameters())
    asked = ("meant", "find.", "lexicon", "embedding", "layers.", "pointer.", "final", "back.")
    for name, weight in step.named_parameters():
        if name.removeprefix("model.").startswith(asked) and name.startswith("model."):
            continue  # training's own, or folded into what the step holds
        away = (again[name] - weight).norm() / weight.norm().clamp(min=1e-9)
        assert away < 0.01, name


def test_a_graph_of_another_network_is_refused(tmp_path: Path) -> None:
    """Weights are known by number, so those of a deeper network would come to lie in wrong places."""
    model, encoder = network(1)
    _, held = written(model, encoder, tmp_path / "model.onnx")
    other, _ = network(2, deep=3)
    with pytest.raises(ValueError, match="of another network"):
        restore.weights(other, encoder, held)


@pytest.mark.timeout(600)
def test_the_shipped_files_make_a_run(tmp_path: Path) -> None:
    """The folder of a run, as the recipe's network loads it; never over a run that is there."""
    plan = recipe.load(recipe.ROOT / "training/runs/nano-2.toml")
    plan = replace(plan, table=plan.table | {"out": str(tmp_path), "sgd": str(tmp_path / "none")})
    restore.restore(plan, recipe.RELEASE)
    state = torch.load(tmp_path / "checkpoint.pt", weights_only=True)
    about = json.loads((recipe.RELEASE / "manifest.json").read_text("utf-8"))
    assert state["counters"][2] == about["requests"]
    model, _ = restore.new_model(plan)
    model.load_state_dict(state["average"])
    held = restore.floats(onnx.load(recipe.RELEASE / "model.onnx").graph)
    np.testing.assert_allclose(model.table().detach().numpy(), held["table"], atol=1e-4)
    with pytest.raises(ValueError, match="exists: move the run away first"):
        restore.restore(plan, recipe.RELEASE)
