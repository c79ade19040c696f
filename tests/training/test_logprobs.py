"""The chances of the tokens that are graded are those of the whole distribution."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch", reason="training needs PyTorch (make train installs it)")
pytest.importorskip("scipy", reason="training needs scipy")

from callmemaybe.tuning import token_forms  # noqa: E402
from callmemaybe.tuning.network.batch_tensors import to_tensors  # noqa: E402
from callmemaybe.tuning.network.logprobs import ChosenLogprob, match_length  # noqa: E402
from callmemaybe.tuning.network.model import Nano, NanoConfig  # noqa: E402
from callmemaybe.tuning.packing import Encoder  # noqa: E402
from training.data import tokenizer as tokenizers  # noqa: E402
from training.data.packing import BatchLimits, draw_batch  # noqa: E402
from training.recipe import ROOT, load  # noqa: E402


def test_one_chance_is_one_of_the_softmax() -> None:
    """Values and gradients are those of a softmax of scaled and shifted scores, taken at one place."""
    torch.manual_seed(0)
    sources = [torch.randn(size).requires_grad_() for size in ((5, 9), (), (9,))]
    picked = torch.tensor([0, 8, 3, 3, 1])
    scores = sources[0] * sources[1] + sources[2]
    wanted = scores.log_softmax(-1)[torch.arange(5), picked]
    made = ChosenLogprob.apply(*sources, picked)
    by = torch.randn(5)
    grads = [torch.autograd.grad(each, sources, by) for each in (made, wanted)]
    for one, other in zip([made, *grads[0]], [wanted, *grads[1]], strict=True):
        torch.testing.assert_close(one, other, atol=1e-5, rtol=1e-4)


def test_reach_counts_back_to_the_first_difference() -> None:
    """Equal tokens behind an unequal one, and beginnings of segments (-1), do not count."""
    shown = torch.tensor([[[4, 4, -1, 5]], [[5, 5, -1, 5]], [[6, 9, -1, 7]]])
    written = torch.tensor([[4, -1, 4], [5, -1, 6], [6, -1, 6]])
    rows = torch.zeros(3, dtype=torch.int64)
    assert match_length(written, shown, rows).tolist() == [[3, 2, 0, 0], [0, 0, 0, 0], [1, 1, 0, 0]]


def test_graded_tokens_have_the_chances_of_the_whole_distribution() -> None:
    """What the loss looks at is the sum over all the ways to write or copy the token; values and gradients."""
    recipe = load(ROOT / "training/runs/nano-2.toml")
    tokenizer = tokenizers.load(ROOT / "src/callmemaybe/data/nano/tokenizer.json")
    batch = draw_batch(
        recipe.maker("function"), Encoder(tokenizer), "loss", BatchLimits(1, 6, 150, 280)
    )
    bases, *tables = token_forms.forms(tokenizer)
    torch.manual_seed(0)
    shape = NanoConfig(len(bases), width=32, heads=2, kv_heads=1, head=16, inner=32, lexicon=8)
    model = Nano(shape, torch.randn(len(bases), 8), *map(torch.from_numpy, tables), torch.float32)
    p = to_tensors(batch)
    x, own = (torch.randn(len(p.ids), 32).requires_grad_() for _ in range(2))
    targets = p.ids[p.graded + 1]

    base, form, copy, ids = model.mixture_parts(x, own, p)
    at = torch.arange(len(targets))
    ways = (base[at, model.base[targets]] + form[at, model.form[targets]]).exp()
    for way, known in enumerate((ids, model.bare[ids])):
        ways = ways + (copy[:, way] * (known == targets[:, None])[:, None]).sum((1, 2))
    made, wanted = model.token_logprobs(x, own, p, targets), (ways + 1e-9).log()
    sources = [x, own, *model.pointer.parameters(), model.embedding]
    by = torch.randn(len(targets))
    grads = [torch.autograd.grad(each, sources, by) for each in (made, wanted)]
    for one, other in zip([made, *grads[0]], [wanted, *grads[1]], strict=True):
        torch.testing.assert_close(one, other, atol=2e-4, rtol=1e-3)
    follow = [name for name, _ in model.pointer.named_parameters()].index("follow")
    assert grads[0][2 + follow].any()  # some copies went on for a while


def test_a_copy_goes_on_where_it_began() -> None:
    """A place gains by how its copy's beginning was looked at: by hand, place by place."""
    recipe = load(ROOT / "training/runs/nano-2.toml")
    tokenizer = tokenizers.load(ROOT / "src/callmemaybe/data/nano/tokenizer.json")
    batch = draw_batch(
        recipe.maker("function"), Encoder(tokenizer), "begun", BatchLimits(1, 6, 150, 280)
    )
    bases, *tables = token_forms.forms(tokenizer)
    torch.manual_seed(0)
    shape = NanoConfig(len(bases), width=32, heads=2, kv_heads=1, head=16, inner=32, lexicon=8)
    model = Nano(shape, torch.randn(len(bases), 8), *map(torch.from_numpy, tables), torch.float32)
    p = to_tensors(batch)
    x, own = (torch.randn(len(p.ids), 32) for _ in range(2))
    with torch.no_grad():
        model.pointer.begun.copy_(torch.tensor([0.7, -0.4]))
        shares, _ = model.copy_shares(x, own, p)
        keys = model.pointer.keys(x, own)
        queries = model.pointer.queries(model.final(x))
    token = model.base[p.ids].tolist()
    segment = batch.segments.tolist()
    shown = torch.cat((p.pair_pad, p.seen_pad), 1)
    follow = model.pointer.follow.cumsum(1)
    went_on = 0
    for number in range(0, len(p.graded), 5):
        place = int(p.graded[number])
        columns = shown[p.graded_pair[number]].tolist()
        scores = torch.full((2, len(columns)), -torch.inf)
        for at, column in enumerate(columns):
            if not p.sight[number, at]:
                continue
            scores[:, at] = (queries[place] * keys[column]).sum(-1)
            count = 0
            while (
                count < 12
                and segment[column - count - 1] == segment[column]
                and column - count > 0
                and token[column - count - 1] == token[place - count]
            ):
                count += 1
            if count:
                began = (queries[place - count] * keys[column - count]).sum(-1)
                scores[:, at] += follow[:, count - 1] + began * model.pointer.begun
                went_on += 1
        torch.testing.assert_close(shares[number], scores.softmax(-1), atol=1e-5, rtol=1e-4)
    assert went_on > 20
