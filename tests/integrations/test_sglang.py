"""Our back end behind SGLang's own interface for grammars: its registry, its cache, its masks and its order of steps."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from callmemaybe.integrations._constraint import ToolCallConstraint
from tests.integrations.test_language import NANO, TOOLS
from tests.training.qwen3_reference import tiny_config

REASON = "sglang, with what its grammars import, is not installed"
torch = pytest.importorskip("torch", reason=REASON)
base = pytest.importorskip("sglang.srt.constrained.base_grammar_backend", reason=REASON)
choices = pytest.importorskip("sglang.srt.arg_groups.choices", reason=REASON)
transformers = pytest.importorskip("transformers", reason=REASON)

CONSTRAINT = ToolCallConstraint(TOOLS, NANO)
SIZE = CONSTRAINT.vocabulary.size
END = min(CONSTRAINT.vocabulary.ends)
SCHEMA = {
    "type": "object",
    "properties": {"city": {"enum": ["Oslo", "Zürich"]}, "days": {"type": "integer", "multipleOf": 7}},
    "required": ["city", "days"],
    "additionalProperties": False,
}  # fmt: skip


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    """Return the embedded model's tokenizer as SGLang has it."""
    return transformers.PreTrainedTokenizerFast(
        tokenizer_file=str(NANO / "tokenizer.json"), eos_token="<|end|>"
    )


@pytest.fixture(scope="module")
def backend(tokenizer: Any) -> Iterator[Any]:
    """Return a back end over it."""
    from callmemaybe.integrations.sglang import SglangGrammarBackend

    found = SglangGrammarBackend(tokenizer, SIZE, {END}, style="spaced")
    yield found
    found.executor.shutdown()


def grammar_of(backend: Any, kind: str, text: str) -> Any:
    """Return a request's grammar as SGLang's GrammarManager asks for it, through the cache."""
    value, is_hit = backend.get_cached_or_future_value((kind, text), False)
    if not is_hit:
        assert isinstance(value, Future)
        found = value.result(60)
        backend.set_cache((kind, text), found.copy())
        return found
    return value


def generated(grammars: list[Any], seed: int, most: int = 300) -> list[list[int]]:
    """Draw answers from random logits, in the order of steps of SGLang's sampler; None is a free row."""
    random = torch.Generator().manual_seed(seed)
    written: list[list[int]] = [[] for _ in grammars]
    first = next(grammar for grammar in grammars if grammar)
    for _ in range(most):
        mask = first.allocate_vocab_mask(vocab_size=SIZE, batch_size=len(grammars), device="cpu")
        rows = [
            base.GrammarRow(row=row, grammar=grammar)
            for row, grammar in enumerate(grammars)
            if grammar and not grammar.finished and not grammar.is_terminated()
        ]
        if not rows:
            break
        first.fill_vocab_mask_batched(rows, mask)
        moved = first.move_vocab_mask(mask, torch.device("cpu"))
        logits = torch.randn((len(grammars), SIZE), generator=random) * 3
        base.GrammarMask(first, moved).apply(logits)
        drawn = torch.multinomial(logits.softmax(-1), 1, generator=random)[:, 0].tolist()
        for row, token in enumerate(drawn):
            grammar = grammars[row]
            if grammar is None:
                written[row].append(token)
            elif not grammar.finished:
                written[row].append(token)
                grammar.accept_token(token)
                grammar.finished = token == END
    return written


def text_of(ids: list[int]) -> str:
    """Return the text of an answer that has ended."""
    assert ids[-1] == END
    return CONSTRAINT.vocabulary.decode(ids[:-1]).decode()


def test_sglang_takes_the_name_and_makes_the_back_end() -> None:
    """After what the entry point names has run, however often, the name is a choice, and the registry makes ours."""
    from importlib.metadata import entry_points

    from callmemaybe.integrations import sglang

    found = [
        point for point in entry_points(group="sglang.srt.plugins") if point.name == "callmemaybe"
    ]
    assert [point.load() for point in found] == [sglang.register]
    sglang.register()
    sglang.register()
    assert choices.GRAMMAR_BACKEND_CHOICES.count("callmemaybe") == 1
    assert base.GRAMMAR_BACKEND_REGISTRY["callmemaybe"]


def test_a_server_with_that_name_gets_ours(tokenizer: Any, tmp_path: Path) -> None:
    """From the arguments of a server to its back end, by SGLang's own code for both, it is ours that is made."""
    from callmemaybe.integrations.sglang import SglangGrammarBackend, register

    register()
    _write_model(tmp_path)
    asked = ["--model-path", str(tmp_path), "--device", "cpu", "--grammar-backend", "callmemaybe"]
    try:
        from sglang.srt.runtime_context import publish
        from sglang.srt.server_args import prepare_server_args

        arguments = prepare_server_args(asked)
        publish(arguments, role="scheduler")
    except ImportError as error:
        pytest.skip(f"SGLang reads its configuration where its kernels are installed: {error}")
    found = base.create_grammar_backend(arguments, tokenizer, SIZE, {END})
    assert isinstance(found, SglangGrammarBackend)
    assert text_of(generated([grammar_of(found, "regex", "abc")], seed=4)[0]) == "abc"


def test_the_turn_of_some_tools_is_one_grammar(backend: Any) -> None:
    """Whatever random logits say, each answer under the language of the tools, control tokens and all, is one call."""
    grammars = [grammar_of(backend, "ebnf", CONSTRAINT.gbnf) for _ in range(8)]
    names = set()
    for ids in generated(grammars, seed=1):
        [call] = CONSTRAINT.read(ids)
        names.add(call.name)
    assert len(names) > 1


def test_each_row_is_held_to_its_own_grammar(backend: Any) -> None:
    """In one batch a schema, a regular expression and a free request do not disturb each other."""
    schema, pattern, free = generated(
        [grammar_of(backend, "json", json.dumps(SCHEMA)), grammar_of(backend, "regex", "a{3}|[0-9]{2}"), None],
        seed=2,
    )  # fmt: skip
    value = json.loads(text_of(schema))
    assert value["city"] in ("Oslo", "Zürich")
    assert value["days"] % 7 == 0
    assert text_of(pattern) == "aaa" or text_of(pattern).isdigit()
    allowed = grammar_of(backend, "ebnf", CONSTRAINT.gbnf)
    assert not _open(allowed)[free[0]]
    with pytest.raises(ValueError, match="not allowed"):
        allowed.accept_token(free[0])


def test_a_cached_grammar_begins_anew(backend: Any) -> None:
    """What one request accepts is not seen by the next one of the same grammar."""
    first = grammar_of(backend, "regex", "abc")
    first.accept_token(int(np.flatnonzero(_open(first))[0]))
    second = grammar_of(backend, "regex", "abc")
    assert (_open(second) == _open(grammar_of(backend, "regex", "abc"))).all()
    assert not (_open(first) == _open(second)).all()


def test_accepting_and_rolling_back_change_nothing(backend: Any) -> None:
    """Speculative decoding's walk (accept, fill, roll back), also over an end, leaves the mask as it was."""
    grammar = grammar_of(backend, "ebnf", CONSTRAINT.gbnf)
    ids = generated([grammar.copy()], seed=3)[0]
    masks = []
    for token in ids:
        masks.append(_open(grammar))
        assert masks[-1][token]
        grammar.accept_token(token)
    for mask in reversed(masks):
        grammar.rollback(1)
        assert (_open(grammar) == mask).all()


def test_a_finished_language_only_ends(backend: Any) -> None:
    """Where nothing more may come, the end is all that is open; after it the grammar is terminated."""
    grammar = grammar_of(backend, "regex", "a")
    grammar.accept_token(int(np.flatnonzero(_open(grammar))[0]))
    assert not grammar.is_terminated()
    assert np.flatnonzero(_open(grammar)).tolist() == [END]
    grammar.accept_token(END)
    assert grammar.is_terminated()
    grammar.rollback(1)
    assert not grammar.is_terminated()


def test_a_padded_vocabulary_stays_closed(tokenizer: Any) -> None:
    """Ids behind the tokenizer's last, with which embeddings are padded, are never open."""
    from callmemaybe.integrations.sglang import SglangGrammarBackend

    padded = SglangGrammarBackend(tokenizer, SIZE + 70, {END}).dispatch_regex("[a-z]+")
    mask = padded.allocate_vocab_mask(vocab_size=SIZE + 70, batch_size=2, device="cpu")
    padded.fill_vocab_mask(mask, 1)
    logits = torch.zeros((2, SIZE + 70))
    padded.apply_vocab_mask(logits, mask)
    assert not logits[0].isinf().any()
    assert logits[1, SIZE:].isinf().all()
    assert not logits[1].isinf().all()


@pytest.mark.parametrize(
    ("kind", "text", "reason"),
    [
        ("json", '{"type": "array", "items": {"type": "string"}, "uniqueItems": true}', "uniqueItems"),
        ("json", '{"type": "strin"}', "strin"),
        ("json", "{", ""),
        ("json", '{"type": "integer", "type": "string"}', "type"),
        ("json", '{"not": ' * 900 + "true" + "}" * 900, "deep"),
        ("regex", "(?<=a)b", ""),
        ("regex", "[", ""),
        ("ebnf", "root ::= nowhere", "nowhere"),
        ("ebnf", "", "no rule"),
        ("structural_tag", '{"structures": [], "triggers": []}', "structural tags"),
    ],
)  # fmt: skip
def test_what_cannot_be_promised_is_refused_with_its_reason(
    backend: Any, kind: str, text: str, reason: str
) -> None:
    """A grammar that is wrong, or cannot be kept to, is SGLang's invalid grammar with our sentence, never a wider one."""
    found = grammar_of(backend, kind, text)
    assert isinstance(found, base.InvalidGrammarObject)
    assert reason in found.error_message
    assert found.error_message != "Unknown grammar error"


def test_a_tokenizer_without_a_file_is_refused() -> None:
    """A tokenizer that `tokenizers` does not have is named at the start of the server."""
    from callmemaybe.integrations.sglang import SglangGrammarBackend

    with pytest.raises(ValueError, match="object has none"):
        SglangGrammarBackend(object(), SIZE)


def _write_model(folder: Path) -> None:
    """Write the files of a small Qwen3, without weights."""
    about = json.loads((NANO / "config.json").read_text())
    ends = {"vocab_size": about["vocab_size"], "eos_token_id": about["eos_token_id"]}
    (folder / "config.json").write_text(json.dumps(tiny_config(**ends)))
    shutil.copy(NANO / "tokenizer.json", folder / "tokenizer.json")


def _open(grammar: Any) -> Any:
    mask = grammar.allocate_vocab_mask(vocab_size=SIZE, batch_size=1, device="cpu")
    grammar.fill_vocab_mask(mask, 0)
    logits = torch.zeros((1, SIZE))
    grammar.apply_vocab_mask(logits, mask)
    return ~logits[0].isinf().numpy()
