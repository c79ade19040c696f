"""What is exported computes what was trained."""

from __future__ import annotations

from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="training needs PyTorch (make train installs it)")
pytest.importorskip("scipy", reason="training needs scipy")

import numpy as np  # noqa: E402

from callmemaybe.tuning import token_forms  # noqa: E402
from callmemaybe.tuning.network import whole_words  # noqa: E402
from callmemaybe.tuning.network.batch_tensors import to_tensors  # noqa: E402
from callmemaybe.tuning.network.model import Nano, NanoConfig  # noqa: E402
from callmemaybe.tuning.packing import Encoder  # noqa: E402
from callmemaybe.tuning.rendering import ARGS, CONTROL_TOKENS, NONE, TOOLS  # noqa: E402
from training.data import tokenizer as tokenizers  # noqa: E402
from training.data.packing import BatchLimits, draw_batch  # noqa: E402
from training.export import onnx_graph  # noqa: E402
from training.export.cached_network import CachedNano, caches  # noqa: E402
from training.nn.word_vectors import documents  # noqa: E402
from training.recipe import ROOT, load  # noqa: E402

TOKENIZER = ROOT / "src/callmemaybe/data/nano/tokenizer.json"
RECIPE = load(ROOT / "training/runs/nano-2.toml")


@pytest.fixture(scope="module")
def scene():
    """A random network in float32, a tool list with requests, and the network's own answers."""
    tokenizer = tokenizers.load(TOKENIZER)
    bases, *tables = token_forms.forms(tokenizer)
    torch.manual_seed(0)
    shape = NanoConfig(
        len(bases), deep=2, width=64, heads=4, kv_heads=2, head=16, inner=96, lexicon=8
    )
    tables = [torch.from_numpy(table) for table in tables]
    said = {word for text in documents(RECIPE) for word in text}
    pieces = whole_words.split_words(tokenizer, sorted(said))
    more = np.random.default_rng(0).normal(size=(len(pieces), 8)).astype(np.float32)
    whole = whole_words.WholeWords(bases, [whole_words.key(each) for each in pieces.values()], more)
    model = Nano(shape, torch.randn(len(bases), 8), *tables, torch.float32, whole)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.05)
    encoder = Encoder(tokenizer)
    batch = draw_batch(RECIPE.maker("function"), encoder, "step", BatchLimits(1, 6, 150, 280))
    p = to_tensors(batch)
    with torch.no_grad():
        x, own, odds = model(p)
        likely = model.token_logprobs(x, own, p, p.ids[p.graded + 1])
    controls = {text: encoder.control(text) for text in CONTROL_TOKENS}
    step = CachedNano(model, controls, encoder.text("\n")[0]).eval()
    return batch, step, controls, odds.softmax(-1), likely


def empty(step: CachedNano, length: int) -> list[torch.Tensor]:
    return [state.empty(1, length) for state in caches(step.model).values()]


def run(step: CachedNano, ids: list[int], cuts: list[int]) -> np.ndarray:
    """Feed ids in pieces of the given lengths, the rest at once; return all rows of logits."""
    cache, at, rows = empty(step, len(ids) + 9), 0, []
    for count in [*cuts, len(ids)]:
        piece = torch.tensor([ids[at : at + count]])
        size = piece.shape[1]
        if not size:
            break
        with torch.no_grad():
            logits, *cache = step(
                piece, torch.arange(at, at + size)[None], torch.tensor(size), *cache
            )
        rows.append(logits[0].numpy())
        at += size
    return np.concatenate(rows)


def test_a_pass_over_the_cache_is_the_network_of_training(scene) -> None:
    """Chances of tools and of graded tokens are those of the batched network."""
    batch, step, controls, odds, likely = scene
    tools = [controls[TOOLS], *(i for tool in batch.rows[0].tools for i in tool)]
    for number, placed in enumerate(batch.rows[0].pairs):
        found = run(step, tools + placed.ids, [])
        at = np.nonzero(batch.graded_pair == number)[0]
        shift = len(tools) - batch.pair_pad[number, 0]
        mine = [found[batch.graded[i] + shift, batch.ids[batch.graded[i] + 1]] for i in at]
        mine = np.logaddexp(mine, np.log(1e-9))  # what training grants every token
        np.testing.assert_allclose(mine, likely[at].numpy(), atol=1e-4)
        call = len(tools) + placed.calls[0]
        none = np.exp(found[call, controls[NONE]])
        assert none == pytest.approx(
            float(odds[np.nonzero(batch.call_pair == number)[0][0], -1]), abs=1e-4
        )
        if placed.pair.calls:
            name = placed.ids[placed.calls[0] + 1 : placed.ids.index(controls[ARGS]) + 1]
            said = sum(found[call + n, token] for n, token in enumerate(name))
            right = odds[np.nonzero(batch.call_pair == number)[0][0], placed.pair.calls[0][0]]
            assert np.exp(said) == pytest.approx(float(right), abs=1e-4)


def test_pieces_are_the_whole(scene) -> None:
    """However the ids are cut into passes, every row of logits is the same."""
    batch, step, controls, *_ = scene
    tools = [controls[TOOLS], *(i for tool in batch.rows[0].tools for i in tool)]
    ids = tools + batch.rows[0].pairs[0].ids
    whole = run(step, ids, [])
    for cuts in ([1] * 12, [7, len(tools) - 7, 5, 1, 3], [len(tools)]):
        np.testing.assert_allclose(run(step, ids, cuts), whole, atol=1e-4)


def test_tools_do_not_know_each_other(scene) -> None:
    """In another order of the list, each tool has the chance it had."""
    batch, step, controls, *_ = scene
    row = batch.rows[0]
    said = row.pairs[0].ids[: row.pairs[0].calls[0] + 1]
    chances = []
    for order in (range(len(row.tools)), reversed(range(len(row.tools)))):
        ids = [controls[TOOLS], *(i for n in order for i in row.tools[n]), *said]
        chances.append(run(step, ids, [])[-1])
    np.testing.assert_allclose(chances[0], chances[1], atol=1e-4)


def exported(step: CachedNano, file: Path, ids: list[int], counts: list[int]) -> np.ndarray:
    """All rows of logits of a graph, fed with pieces of the given lengths."""
    ort = pytest.importorskip("onnxruntime")
    options = ort.SessionOptions()
    options.add_session_config_entry("session.x64quantprecision", "1")  # as the package does
    session = ort.InferenceSession(str(file), options)
    inputs, outputs = onnx_graph.names(step.model)
    cache = {
        name: value.numpy() for name, value in zip(inputs, empty(step, len(ids) + 9), strict=True)
    }
    at, rows = 0, []
    for count in counts:
        found = session.run(
            ["logits", *outputs],
            {
                "input_ids": np.array([ids[at : at + count]]),
                "position_ids": np.arange(at, at + count)[None],
                "num_logits_to_keep": np.array(count),
                **cache,
            },
        )
        cache = dict(zip(inputs, found[1:], strict=True))
        rows.append(found[0][0])
        at += count
    return np.concatenate(rows)


def test_the_graph_is_the_step(scene, tmp_path) -> None:
    """What is exported gives the step's logits, for tools, a request, a call and a row of its own."""
    pytest.importorskip("onnx", reason="exporting needs onnx")
    batch, step, controls, *_ = scene
    newline = Encoder(tokenizers.load(TOKENIZER)).text("\n")[0]
    onnx_graph.write(step.model, controls, newline, tmp_path / "model.onnx", bits=32)
    tools = [controls[TOOLS], *(i for tool in batch.rows[0].tools for i in tool)]
    ids = tools + batch.rows[0].pairs[0].ids
    counts = [len(tools), 7, 1, len(ids) - len(tools) - 8]
    found = exported(step, tmp_path / "model.onnx", ids, counts)
    np.testing.assert_allclose(found, run(step, ids, []), atol=1e-3)


@pytest.mark.parametrize("by_columns", [True, False])
def test_integers_say_nearly_what_numbers_say(scene, tmp_path, *, by_columns: bool) -> None:
    """With weights and activations of 8 bits, chances are nearly those of the step, in any pieces."""
    onnx = pytest.importorskip("onnx", reason="exporting needs onnx")
    batch, step, controls, *_ = scene
    newline = Encoder(tokenizers.load(TOKENIZER)).text("\n")[0]
    tools = [controls[TOOLS], *(i for tool in batch.rows[0].tools for i in tool)]
    said = [tools + pair.ids for pair in batch.rows[0].pairs]
    file, ids = tmp_path / "model.onnx", said[0]
    onnx_graph.write(step.model, controls, newline, file, samples=said[1:] if by_columns else ())
    made = onnx.load(str(file)).graph
    constants = [tensor.name for tensor in made.initializer]
    assert len(constants) == len(set(constants))  # else engines take them for inputs
    kinds = [node.op_type for node in made.node]
    assert (kinds.count("Abs") < kinds.count("QuantizeLinear")) == by_columns
    whole = exported(step, file, ids, [len(ids)])
    spread = np.abs(np.exp(whole) - np.exp(run(step, ids, []))).sum(1) / 2
    assert np.median(spread) < 0.02
    half = [len(tools), 9, 1, len(ids) - len(tools) - 10]
    np.testing.assert_allclose(np.exp(exported(step, file, ids, half)), np.exp(whole), atol=0.01)
