"""Training hides which word a word is, now and then; nothing else does."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch", reason="training needs PyTorch (make train installs it)")

from callmemaybe.tuning.network.model import Nano, NanoConfig  # noqa: E402

BASES = 400


def small() -> Nano:
    """A network over words of which the first half mean something."""
    torch.manual_seed(3)
    shape = NanoConfig(BASES, width=64, heads=4, kv_heads=2, head=16, inner=96, lexicon=8)
    meaning = torch.randn(BASES, 8) * (torch.arange(BASES) < BASES / 2)[:, None]
    numbers = torch.arange(BASES)
    return Nano(shape, meaning, numbers, numbers, numbers, torch.float32)


def test_a_word_that_is_forgotten_keeps_its_meaning() -> None:
    """A share of the words that mean something lose what is their own and no more, others at every step."""
    model = small()
    model.word_dropout = 0.3
    whole, meant = model.table(), model.meaning(model.lexicon)
    tables = [model.input_table() for _ in range(20)]
    lost = torch.stack([(each != whole).any(1) for each in tables])
    for each, words in zip(tables, lost, strict=True):
        torch.testing.assert_close(each[words], meant[words])
        assert (each[~words] == whole[~words]).all()
    assert not lost[:, BASES // 2 :].any()
    assert lost[:, : BASES // 2].float().mean().item() == pytest.approx(0.3, abs=0.03)
    assert (lost[0] != lost[1]).any()


def test_nothing_is_forgotten_outside_of_training() -> None:
    """What is measured and shipped knows every word."""
    model = small()
    assert (model.input_table() == model.table()).all()
    model.word_dropout = 0.3
    model.eval()
    assert (model.input_table() == model.table()).all()
