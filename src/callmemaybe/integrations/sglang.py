"""Grammars in SGLang's own process: a back end for its structured output, registered by an entry point.

::

    sglang serve --model-path MODEL --grammar-backend callmemaybe

Where both packages are installed, SGLang calls :func:`register` in each of its processes. Requests are as with any of its
back ends: ``json_schema``, ``regex`` or ``ebnf`` (in GBNF or Lark's notation, where ``<name>`` is a control token). So the
whole turn of some tools, which SGLang's own notations cannot say, is one request::

    constraint = ToolCallConstraint(tools, folder)
    engine.generate(input_ids=constraint.prompt(request), sampling_params={"ebnf": constraint.gbnf})

and ``constraint.read`` reads its ids. What no grammar can promise is refused with its reason, and so are structural tags.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Self

import torch
from sglang.srt.arg_groups.choices import GRAMMAR_BACKEND_CHOICES, add_grammar_backend_choices
from sglang.srt.constrained.base_grammar_backend import (
    BaseGrammarBackend,
    BaseGrammarObject,
    InvalidGrammarObject,
    register_grammar_backend,
)
from sglang.srt.runtime_context import get_serving

from callmemaybe.errors import CallMeMaybeError, VocabularyError
from callmemaybe.grammar import Grammar, json_schema, regex
from callmemaybe.grammar import compile as compile_grammar
from callmemaybe.grammar.ebnf import ebnf
from callmemaybe.integrations._constraint import ToolCallConstraint
from callmemaybe.jsonio import read
from callmemaybe.matching import Matcher
from callmemaybe.vocabulary import Vocabulary

__all__ = ["SglangGrammarBackend", "ToolCallConstraint", "register"]

#: The name for ``--grammar-backend``.
NAME = "callmemaybe"
_WORD = 32


def register() -> None:
    """Make ``--grammar-backend callmemaybe`` known to SGLang in this process; SGLang calls it by itself."""
    if NAME not in GRAMMAR_BACKEND_CHOICES:
        add_grammar_backend_choices([NAME])
    register_grammar_backend(NAME, _backend)


def _backend(
    server_args: Any,  # noqa: ARG001 - SGLang's signature
    tokenizer: Any,
    vocab_size: int,
    eos_token_ids: Collection[int] | None,
) -> BaseGrammarBackend:
    """Return the back end of a server, behind SGLang's own for reasoning where the server has a reasoning parser."""
    serving = get_serving()
    if serving.constrained_json_whitespace_pattern:
        raise ValueError(
            f"--grammar-backend {NAME} takes no --constrained-json-whitespace-pattern; leave it out"
        )
    style = "spaced" if serving.constrained_json_disable_any_whitespace else "flexible"
    found = SglangGrammarBackend(tokenizer, vocab_size, eos_token_ids, style=style)
    if not serving.reasoning_parser:
        return found
    from sglang.srt.constrained.reasoner_grammar_backend import ReasonerGrammarBackend
    from sglang.srt.parser.reasoning_parser import ReasoningParser

    parser = ReasoningParser(
        model_type=serving.reasoning_parser, stream_reasoning=False, tokenizer=tokenizer
    )
    return ReasonerGrammarBackend(
        found, parser, tokenizer, enable_strict_thinking=serving.enable_strict_thinking
    )


class SglangGrammarBackend(BaseGrammarBackend):  # type: ignore[misc]
    """Compiles the grammars of requests; ``style`` is the spacing of JSON, as in ``json_schema``."""

    def __init__(
        self,
        tokenizer: Any,
        vocab_size: int,
        eos_token_ids: Collection[int] | None = None,
        *,
        style: str = "flexible",
    ) -> None:
        """Read the vocabulary of a tokenizer. Raises ValueError if it is none of ``tokenizers``."""
        super().__init__()
        self._vocabulary = _vocabulary_of(tokenizer, vocab_size, eos_token_ids or ())
        self._style = style

    def dispatch_json(self, key_string: str) -> BaseGrammarObject:
        """Return the JSON texts of a schema."""
        return self._compiled(lambda: _schema(key_string, self._style))

    def dispatch_regex(self, key_string: str) -> BaseGrammarObject:
        """Return the texts that a regular expression matches as a whole."""
        return self._compiled(lambda: regex(key_string))

    def dispatch_ebnf(self, key_string: str) -> BaseGrammarObject:
        """Return the texts of a grammar in GBNF or Lark's notation."""
        return self._compiled(lambda: ebnf(key_string))

    def dispatch_structural_tag(self, key_string: str) -> BaseGrammarObject:  # noqa: ARG002
        """Refuse a structural tag."""
        return InvalidGrammarObject(
            f"--grammar-backend {NAME} takes no structural tags; send the turn's grammar as ebnf"
        )

    def _compiled(self, read: Callable[[], Grammar]) -> BaseGrammarObject:
        try:
            return _SglangGrammar(Matcher(compile_grammar(read()), self._vocabulary))
        except CallMeMaybeError as error:
            return InvalidGrammarObject(str(error))


class _SglangGrammar(BaseGrammarObject):  # type: ignore[misc]
    """The position of one request in its language."""

    def __init__(self, matcher: Matcher) -> None:
        super().__init__()
        self._matcher = matcher

    def accept_token(self, token: int) -> None:
        """Accept a token. Raises ValueError if it is not allowed; after an end token nothing is accepted."""
        if self.is_terminated():
            return
        self.current_token = token
        try:
            self._matcher.accept(token)
        except CallMeMaybeError as error:
            raise ValueError(str(error)) from error

    def rollback(self, k: int) -> None:
        """Undo the last ``k`` accepted tokens."""
        self._matcher.rollback(k)

    def is_terminated(self) -> bool:
        """Whether an end token was accepted; a language that allows nothing more still has to end."""
        return self._matcher.state < 0

    def copy(self) -> Self:
        """Return an independent one in the same position."""
        return type(self)(self._matcher.fork())

    def allocate_vocab_mask(self, vocab_size: int, batch_size: int, device: Any) -> torch.Tensor:  # noqa: ARG002
        """Return int32[batch, ceil(vocab_size / 32)] on the CPU, with all allowed."""
        return torch.full((batch_size, -(-vocab_size // _WORD)), -1, dtype=torch.int32)

    def fill_vocab_mask(self, vocab_mask: torch.Tensor, idx: int) -> None:
        """Write what may come next into a row, by the bits of its words, the lowest first."""
        words = torch.from_numpy(self._matcher.mask().view("int32").copy())
        vocab_mask[idx] = 0
        vocab_mask[idx, : len(words)] = words

    @staticmethod
    def reset_vocab_mask(vocab_mask: torch.Tensor) -> None:
        """Allow everything again."""
        vocab_mask.fill_(-1)

    @staticmethod
    def move_vocab_mask(vocab_mask: torch.Tensor, device: Any) -> torch.Tensor:
        """Return the mask on a device."""
        return vocab_mask.to(device, non_blocking=True)

    @staticmethod
    def apply_vocab_mask(logits: torch.Tensor, vocab_mask: torch.Tensor) -> None:
        """Set what is not allowed to minus infinity, on the logits' own device."""
        bits = torch.arange(_WORD, dtype=torch.int32, device=vocab_mask.device)
        open_ones = (vocab_mask.unsqueeze(-1) >> bits) & 1
        width = logits.shape[-1]
        closed = open_ones.reshape(vocab_mask.shape[0], -1)[:, :width] == 0
        logits[:, : closed.shape[1]].masked_fill_(closed, -torch.inf)


def _schema(text: str, style: str) -> Grammar:
    return json_schema(read(text, source="json_schema").value, style=style)


def _vocabulary_of(tokenizer: Any, size: int, ends: Collection[int]) -> Vocabulary:
    """Return the vocabulary of a tokenizer of transformers, by the file that it would be saved as."""
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is None:
        raise ValueError(
            f"--grammar-backend {NAME} reads tokenizers that have a tokenizer.json; "
            f"{type(tokenizer).__name__} has none"
        )
    if tokenizer.eos_token_id is not None:
        ends = {*ends, tokenizer.eos_token_id}
    with TemporaryDirectory() as folder:
        file = Path(folder, "tokenizer.json")
        file.write_text(backend.to_str(), encoding="utf-8")
        try:
            return Vocabulary.from_file(file, size=size, ends=ends or None)
        except VocabularyError as error:
            raise ValueError(str(error)) from error
