"""What is attended to group by group, with gradients by hand, is what attention says."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch", reason="training needs PyTorch (make train installs it)")
pytest.importorskip("scipy", reason="training needs scipy")

import numpy as np  # noqa: E402

from callmemaybe.tuning.network.attention import SegmentAttention, VoteAttention, by_head  # noqa: E402
from callmemaybe.tuning.network.batch_tensors import to_tensors  # noqa: E402
from callmemaybe.tuning.packing import Encoder, TokenBatch  # noqa: E402
from training.data import tokenizer as tokenizers  # noqa: E402
from training.data.packing import BatchLimits, draw_batch  # noqa: E402
from training.recipe import ROOT, load  # noqa: E402

HEADS, KV, HEAD = 4, 2, 8


@pytest.fixture(scope="module")
def batch() -> TokenBatch:
    recipe = load(ROOT / "training/runs/nano-2.toml")
    tokenizer = tokenizers.load(ROOT / "src/callmemaybe/data/nano/tokenizer.json")
    return draw_batch(
        recipe.maker("function"), Encoder(tokenizer), "see", BatchLimits(2, 8, 150, 280)
    )


def sees(batch: TokenBatch) -> torch.Tensor:
    """Who sees whom, place by place: what stands before it in its segment, and the tool its call names."""
    count = len(batch.ids)
    at = np.arange(count)
    seen = (batch.segments[:, None] == batch.segments) & (at[:, None] >= at)
    for pair, mine in enumerate(batch.pair_pad):
        for column, place in enumerate(mine[mine >= 0]):
            owner = batch.pair_owner[pair, column]
            theirs = (batch.seen_owner[pair] == owner) & (batch.seen_pad[pair] >= 0)
            seen[place, batch.seen_pad[pair][theirs]] = True
    return torch.from_numpy(seen)


def agree(made: list[torch.Tensor], wanted: list[torch.Tensor], sources: list[torch.Tensor]):
    """The same values, and the same gradients of a random sum of them."""
    weights = [torch.randn_like(each) for each in wanted]
    grads = []
    for found in (made, wanted):
        total = sum((w * each).sum() for w, each in zip(weights, found, strict=True))
        grads.append(torch.autograd.grad(total, sources))
    for one, other in zip([*made, *grads[0]], [*wanted, *grads[1]], strict=True):
        torch.testing.assert_close(one, other, atol=2e-4, rtol=1e-3)


def drawn(*shape: int) -> torch.Tensor:
    return torch.randn(*shape).requires_grad_()


@pytest.mark.parametrize("answers", [False, True])
def test_attention_in_groups_is_attention(batch: TokenBatch, answers: bool) -> None:
    """Every place, or every place of an answer, attends as one mask over the whole batch has it."""
    torch.manual_seed(0)
    p = to_tensors(batch)
    asks = p.answers if answers else torch.arange(len(p.ids))
    q = drawn(len(asks), HEADS, HEAD)
    k, v = drawn(len(p.ids), KV, HEAD), drawn(len(p.ids), KV, HEAD)
    sight = by_head(p.answer_windows if answers else p.windows, HEADS, KV)
    made = SegmentAttention.apply(q.flatten(0, 1), k.flatten(0, 1), v.flatten(0, 1), sight)
    keys, values = (x.repeat_interleave(HEADS // KV, 1) for x in (k, v))
    scores = torch.einsum("qhd,nhd->hqn", q, keys)
    scores = scores.masked_fill(~sees(batch)[asks], -torch.inf)
    wanted = torch.einsum("hqn,nhd->qhd", scores.softmax(-1), values)
    agree([made.view(wanted.shape)], [wanted], [q, k, v])


def test_votes_are_shared_among_the_tokens_of_a_list(batch: TokenBatch) -> None:
    """A token's votes are a softmax over its own list and "elsewhere", summed by tool."""
    torch.manual_seed(1)
    p = to_tensors(batch)
    tools = p.list_tool
    q, k, v = (
        drawn(len(p.again), 2, HEAD),
        drawn(len(p.listed), 2, HEAD),
        drawn(len(tools), 2, HEAD),
    )
    sink = drawn(2)
    made = VoteAttention.apply(q, k, v, sink, tools, p.list_sizes)
    ours, theirs = zip(*p.list_sizes, strict=True)
    mine = torch.repeat_interleave(torch.tensor(ours))
    other = torch.repeat_interleave(torch.tensor(theirs))
    scores = torch.einsum("ahd,bhd->ahb", q, k)
    scores = scores.masked_fill((mine[:, None] != other)[:, None], -torch.inf)
    shares = torch.cat((scores, sink.expand(len(q), 2)[..., None]), -1).softmax(-1)
    votes = shares[..., :-1] @ tools
    votes = torch.cat((votes[..., :-1], shares[..., -1:]), -1)
    read = torch.einsum("ahb,bhd->ahd", shares[..., :-1], v)
    agree(list(made), [read, votes], [q, k, v, sink])


def test_the_lists_of_votes_hold_the_tools_and_the_second_reading(batch: TokenBatch) -> None:
    """`again` and `listed` are the places of the pads, list by list, and a token's tool is its own."""
    p = to_tensors(batch)
    ours, theirs = zip(*p.list_sizes, strict=True)
    per_row = len(batch.pair_pad) // len(ours)
    for row, (mine, theirs_of) in enumerate(
        zip(p.again.split(ours), p.listed.split(theirs), strict=True)
    ):
        pads = batch.again_pad[row * per_row : (row + 1) * per_row]
        assert mine.tolist() == pads[pads >= 0].tolist()
        tools = [t for t in batch.row_tools[row] if t >= 0]
        assert theirs_of.tolist() == [x for t in tools for x in batch.tool_pad[t] if x >= 0]
        which = p.list_tool.split(theirs)[row].argmax(-1)
        assert [tools[i] for i in which] == batch.segments[theirs_of.numpy()].tolist()
