"""A grown network says what the smaller one said, and can still move."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch", reason="training needs PyTorch (make train installs it)")

from torch import nn  # noqa: E402

from callmemaybe.tuning.network.model import Layer, NanoConfig  # noqa: E402
from training.nn.growth import grow_momenta, grow_weights, pad_to_size  # noqa: E402
from training.optim.muon import Muon  # noqa: E402


def layer(inner: int) -> Layer:
    """A layer as a run begins it: what writes starts at zero."""
    made = Layer(NanoConfig(bases=1, width=16, heads=2, kv_heads=1, head=8, inner=inner))
    nn.init.zeros_(made.down.weight)
    return made


def test_a_wider_layer_says_the_same() -> None:
    """New units read at random and write nothing, so only training can tell the two apart."""
    torch.manual_seed(0)
    small, wide = layer(24), layer(40)
    nn.init.normal_(small.down.weight)
    fresh = wide.gate.weight[24:].clone()
    wide.load_state_dict(grow_weights(small.state_dict(), wide.state_dict()))
    x, attended = torch.randn(5, 16), torch.randn(5, 16)
    torch.testing.assert_close(wide.rest(x, attended), small.rest(x, attended))
    assert (wide.gate.weight[24:] == fresh).all()
    assert fresh.std() > 0  # new units read at random
    wide.rest(x, attended).square().sum().backward()
    assert wide.down.weight.grad is not None
    assert wide.down.weight.grad[:, 24:].abs().max() > 0  # and can learn to write


def test_a_deeper_network_says_the_same() -> None:
    """A layer behind the last looks as that one does, writes nothing, and can learn to."""
    torch.manual_seed(0)
    few, many = nn.ModuleDict(), nn.ModuleDict()
    few["layers"] = nn.ModuleList([layer(24), layer(24)])
    many["layers"] = nn.ModuleList([layer(24) for _ in range(3)])
    nn.init.normal_(few["layers"][1].down.weight)
    many.load_state_dict(grow_weights(few.state_dict(), many.state_dict()))
    x, attended = torch.randn(5, 16), torch.randn(5, 16)
    for old, new in zip(few["layers"], many["layers"], strict=False):
        torch.testing.assert_close(new.rest(x, attended), old.rest(x, attended))
    more, last = many["layers"][2], few["layers"][1]
    assert (more.rest(x, attended) == x).all()
    assert (more.q.weight == last.q.weight).all()
    more.rest(x, attended).square().sum().backward()
    assert more.down.weight.grad.abs().max() > 0


def test_what_is_newly_known_of_words_is_read_as_what_it_predicts() -> None:
    """Were the new numbers the old ones turned round, they would be read as those, half as strongly; tables of
    words come from the run's files, not the checkpoint."""
    torch.manual_seed(1)
    old, turned = torch.randn(40, 3), torch.linalg.qr(torch.randn(3, 3))[0]
    saved = {"meaning.weight": torch.randn(4, 3), "lexicon": old, "wholes.rows": torch.ones(9)}
    fresh = {
        "meaning.weight": torch.randn(4, 6),
        "lexicon": torch.cat((old, old @ turned), 1),
        "wholes.rows": torch.randn(5),
    }
    found = grow_weights(saved, fresh)
    assert (found["meaning.weight"][:, :3] == saved["meaning.weight"]).all()
    said = fresh["lexicon"][:, 3:] @ found["meaning.weight"][:, 3:].T
    torch.testing.assert_close(said, 0.5 * old @ saved["meaning.weight"].T, rtol=1e-4, atol=1e-5)
    assert found["lexicon"] is fresh["lexicon"]
    assert found["wholes.rows"] is fresh["wholes.rows"]


def test_momenta_grow_with_their_weights() -> None:
    """What was kept of the old part stays, the new part begins at rest, and a step moves both."""
    small, wide = nn.Parameter(torch.ones(2, 3)), nn.Parameter(torch.ones(2, 5))
    before, after = Muon([small], 0.1), Muon([wide], 0.1)
    small.grad = torch.ones_like(small)
    before.step()
    after.load_state_dict(before.state_dict())
    grow_momenta(after)
    kept = after.state[wide]["momentum"]
    assert kept.shape == wide.shape
    assert (kept[:, 3:] == 0).all()
    assert (kept[:, :3] == before.state[small]["momentum"]).all()
    wide.grad = torch.ones_like(wide)
    after.step()
    assert (wide != 1).all()


@pytest.mark.parametrize(("had", "has"), [((3, 4), (3, 3)), ((3,), (3, 3))])
def test_nothing_shrinks(had: tuple[int, ...], has: tuple[int, ...]) -> None:
    """A checkpoint larger than the recipe, or of another kind, is refused."""
    with pytest.raises(ValueError, match="grow, not shrink"):
        pad_to_size(torch.ones(had), torch.ones(has))
    with pytest.raises(ValueError, match="no b: a run can grow, not shrink"):
        grow_weights({"a": torch.ones(had), "b": torch.ones(had)}, {"a": torch.ones(had)})
