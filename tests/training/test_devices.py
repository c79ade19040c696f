"""A step of training runs on whatever device the network is put."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch", reason="training needs PyTorch (make train installs it)")
pytest.importorskip("scipy", reason="training needs scipy")

from callmemaybe.tuning import token_forms  # noqa: E402
from callmemaybe.tuning.network.batch_tensors import moved, to_tensors  # noqa: E402
from callmemaybe.tuning.network.model import Nano, NanoConfig  # noqa: E402
from callmemaybe.tuning.packing import Encoder  # noqa: E402
from training.data import tokenizer as tokenizers  # noqa: E402
from training.data.packing import BatchLimits, draw_batch  # noqa: E402
from training.recipe import ROOT, load  # noqa: E402

ELSEWHERE = torch.device("meta")  # computes shapes, and refuses what lies on another device


def test_a_step_of_training_stays_on_one_device(monkeypatch: pytest.MonkeyPatch) -> None:
    """Away from the processor's memory, nothing of forward and backward pass meets a tensor in it."""
    monkeypatch.setattr("torch.fx.experimental._config.meta_nonzero_assume_all_nonzero", True)
    recipe = load(ROOT / "training/runs/nano-2.toml")
    tokenizer = tokenizers.load(ROOT / "src/callmemaybe/data/nano/tokenizer.json")
    batch = draw_batch(
        recipe.maker("function"), Encoder(tokenizer), "gpu", BatchLimits(1, 4, 150, 280)
    )
    bases, *tables = token_forms.forms(tokenizer)
    shape = NanoConfig(
        len(bases), deep=2, width=64, heads=4, kv_heads=2, head=16, inner=96, lexicon=8
    )
    model = Nano(shape, torch.randn(len(bases), 8), *map(torch.from_numpy, tables), torch.float32)
    p = to_tensors(batch, ELSEWHERE)
    model.to(ELSEWHERE)
    x, own, odds, last = model.read(p)
    meant = model.meant_log_odds(last, p)
    likely = model.token_logprobs(x, own, p, p.ids[p.graded + 1])
    found = model.found_logprobs(last, x, own, p)
    assert {each.device for each in (x, odds, meant, likely, found)} == {ELSEWHERE}
    (likely.sum() + odds.sum() + meant.sum() + found.sum()).backward()
    assert all(weight.grad is not None for weight in model.parameters())


def test_moving_keeps_everything_else() -> None:
    """Numbers stay, lists and tuples are moved through, and shapes with them."""
    here = (torch.ones(2, 3), 7, [torch.ones(1), None])
    there = moved(here, ELSEWHERE)
    assert there[0].shape == (2, 3)
    assert there[0].device == there[2][0].device == ELSEWHERE
    assert (there[1], there[2][1]) == (7, None)
