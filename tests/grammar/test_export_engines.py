"""Exported grammars in the hands of the engines they are written for: the same language, as samples show.

Each engine is asked where it is installed: llguidance reads Lark, xgrammar EBNF, llama.cpp GBNF.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from callmemaybe.grammar.export import to_ebnf, to_gbnf, to_lark
from callmemaybe.grammar.grammar import Control, Grammar, lit, seq
from tests.grammar.exports import EVERY, check_language

ROUNDS = 25


@pytest.mark.parametrize("name", [name for name in EVERY if name != "grounded"])
def test_llguidance_reads_our_lark_as_the_same_language(name: str) -> None:
    """to_lark(g) compiles in llguidance and accepts the same samples."""
    llguidance = pytest.importorskip("llguidance", reason="llguidance is not installed")
    tokenizer = llguidance.LLTokenizer("byte")
    compiled = llguidance.LLMatcher.grammar_from_lark(to_lark(EVERY[name]))

    def accepts(text: str) -> bool:
        matcher = llguidance.LLMatcher(tokenizer, compiled)
        assert not matcher.get_error(), matcher.get_error()
        data = list(text.encode())
        return matcher.validate_tokens(data) == len(data) and bool(
            (not data or matcher.consume_tokens(data)) and matcher.is_accepting()
        )

    check_language(EVERY[name], accepts, rounds=ROUNDS)


@pytest.mark.parametrize("name", EVERY)
def test_xgrammar_reads_our_ebnf_as_the_same_language(name: str) -> None:
    """to_ebnf(g) compiles in xgrammar and accepts the same samples."""
    xgrammar = pytest.importorskip("xgrammar", reason="xgrammar is not installed")
    end = 256
    tokens = [bytes([byte]) for byte in range(256)] + [b"</s>"]
    info = xgrammar.TokenizerInfo(
        tokens, xgrammar.VocabType.RAW, vocab_size=len(tokens), stop_token_ids=[end]
    )
    compiler = xgrammar.GrammarCompiler(info, max_threads=1, cache_enabled=False)
    compiled = compiler.compile_grammar(xgrammar.Grammar.from_ebnf(to_ebnf(EVERY[name])))

    def accepts(text: str) -> bool:
        matcher = xgrammar.GrammarMatcher(compiled)
        return bool(matcher.accept_string(text.encode()) and matcher.accept_token(end))

    check_language(EVERY[name], accepts, rounds=ROUNDS)


class Llama:
    """llama.cpp's own reader of grammars, over a vocabulary without weights that matter."""

    def __init__(self, path: Path) -> None:
        self.c = pytest.importorskip("llama_cpp", reason="llama-cpp-python is not installed")
        options = self.c.llama_model_default_params()
        options.vocab_only = True
        self.model = self.c.llama_model_load_from_file(str(path).encode(), options)
        self.vocab = self.c.llama_model_get_vocab(self.model)
        self.end = self.c.llama_vocab_eos(self.vocab)

    def tokens(self, text: str) -> list[int]:
        """Return the tokens of a text; control tokens are read as such."""
        data = text.encode()
        room = (self.c.llama_token * (len(data) + 8))()
        count = self.c.llama_tokenize(self.vocab, data, len(data), room, len(room), False, True)
        return list(room[:count])

    def reader(self, text: str) -> Callable[[str], bool]:
        """Return what says whether a text is in the language of a grammar."""
        c = self.c
        first = c.llama_sampler_init_grammar(self.vocab, text.encode(), b"root")
        assert first, f"llama.cpp does not read\n{text}"

        def allows(sampler: Any, token: int) -> bool:
            data = (c.llama_token_data * 1)(c.llama_token_data(token, 1.0, 0.0))
            array = c.llama_token_data_array(data, 1, -1, False)
            c.llama_sampler_apply(sampler, c.byref(array))
            return bool(data[0].logit > -1e30)

        def accepts(said: str) -> bool:
            sampler = c.llama_sampler_clone(first)
            try:
                for token in self.tokens(said):
                    if not allows(sampler, token):
                        return False
                    c.llama_sampler_accept(sampler, token)
                return allows(sampler, self.end)
            finally:
                c.llama_sampler_free(sampler)

        return accepts


@pytest.fixture(scope="module")
def llama(tmp_path_factory: pytest.TempPathFactory) -> Llama:
    pytest.importorskip("llama_cpp", reason="llama-cpp-python is not installed")
    from tests.training.qwen3_reference import random_tensors, tiny_config
    from tests.vocabulary.samples import train
    from training.export.qwen3_gguf import export

    config = tiny_config(vocab_size=420, intermediate_size=128)
    path = tmp_path_factory.mktemp("llama") / "tiny.gguf"
    export(
        config, random_tensors(config), path, kind="f16", tokenizer=train(400),
        ends={"eos_token_id": 0}, chat_template="{{ messages }}",
    )  # fmt: skip
    return Llama(path)


@pytest.mark.parametrize("name", EVERY)
def test_llama_cpp_reads_our_gbnf_as_the_same_language(name: str, llama: Llama) -> None:
    """to_gbnf(g) is read by llama.cpp and accepts the same samples."""
    check_language(EVERY[name], llama.reader(to_gbnf(EVERY[name])), rounds=ROUNDS)


def test_llama_cpp_knows_our_control_tokens(llama: Llama) -> None:
    """A control token that a grammar names is that token to llama.cpp, and nothing else is."""
    accepts = llama.reader(to_gbnf(Grammar(seq(Control("<a>"), lit("x"), Control("<b>")))))
    assert accepts("<a>x<b>")
    assert not accepts("<b>x<b>")
    assert not accepts("x")
