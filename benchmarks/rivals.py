"""Engines that mask tokens, each behind the same few methods, for `masks.py` to compare.

Every engine is set up with the same tokenizer, masks 151,936 wide, JSON spaced as json.dumps does and
no other whitespace, one thread, and used as its own documentation says. What an engine cannot do it
raises; the benchmark counts that.
"""

# ruff: noqa: D102 - the methods are explained once, in Engine

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

WIDTH = 151_936
FRAME = "<tool_call>", "</tool_call>"
END = "<|im_end|>"


class Engine:
    """What the benchmark asks of an engine.

    ``load()`` imports (not timed); the constructor sets up the vocabulary of a tokenizer's folder.
    ``tools(...)`` and ``schema(...)`` make what ``start`` can be called with often: the language of
    one call of any of the tools, and of one JSON value. ``forced``, ``mask``, ``accept`` (how many
    of the ids were taken), ``is_done`` (is the output complete): one step of an output.
    ``select`` returns the allowed token with the largest of the logits; ``masks`` writes the masks of
    many sequences into one array. ``framed``: calls stand between the model family's control tokens.
    """

    name = ""
    framed = False

    @staticmethod
    def load() -> None:
        raise NotImplementedError

    def __init__(self, folder: Path) -> None:
        raise NotImplementedError

    def tools(self, tools: list[dict[str, Any]]) -> Any:
        return self.schema(any_call(tools))

    def schema(self, schema: Any) -> Any:
        raise NotImplementedError

    def start(self, compiled: Any) -> Any:
        raise NotImplementedError

    def forced(self, matcher: Any) -> list[int]:  # noqa: ARG002 - for those that force nothing
        return []

    def mask(self, matcher: Any) -> Any:
        raise NotImplementedError

    def accept(self, matcher: Any, ids: list[int]) -> int:
        raise NotImplementedError

    def is_done(self, matcher: Any) -> bool:
        raise NotImplementedError

    def select(self, matcher: Any, logits: Any) -> int:
        raise NotImplementedError

    def masks(self, matchers: list[Any], rows: Any) -> None:
        raise NotImplementedError

    def by_reference(self, matchers: list[Any]) -> bool:  # noqa: ARG002
        """Get the masks of many sequences without copying any; False where there is no such thing."""
        return False


class Ours(Engine):
    """This package, with the wire format that Qwen uses."""

    name = "callmemaybe"
    framed = True

    @staticmethod
    def load() -> None:
        import callmemaybe.matching
        import callmemaybe.vocabulary.readers.tokenizer_json
        import callmemaybe.wire.formats.hermes  # noqa: F401

    def __init__(self, folder: Path) -> None:
        from callmemaybe.grammar import compile as compiled
        from callmemaybe.grammar import json_schema
        from callmemaybe.matching import Matcher
        from callmemaybe.matching.cache import tables_of
        from callmemaybe.tools import ToolSpec
        from callmemaybe.vocabulary import Vocabulary
        from callmemaybe.wire.formats.hermes import FORMAT

        self._spec, self._format, self._matcher = ToolSpec, FORMAT, Matcher
        self._compiled, self._json_schema = compiled, json_schema
        self.vocabulary = Vocabulary.from_file(folder, size=WIDTH)
        tables_of(self.vocabulary)

    def tools(self, tools: list[dict[str, Any]]) -> Any:
        specs = [self._spec(t["name"], t["description"], t["parameters"]) for t in tools]
        return self._compiled(self._format.grammar(specs))

    def schema(self, schema: Any) -> Any:
        return self._compiled(self._json_schema(schema, checks=[]))

    def start(self, compiled: Any) -> Any:
        return self._matcher(compiled, self.vocabulary)

    def forced(self, matcher: Any) -> list[int]:
        return matcher.forced()

    def mask(self, matcher: Any) -> Any:
        return matcher.mask()

    def accept(self, matcher: Any, ids: list[int]) -> int:
        return matcher.try_accept(ids)

    def is_done(self, matcher: Any) -> bool:
        return matcher.is_accepting

    def select(self, matcher: Any, logits: Any) -> int:
        return matcher.argmax_allowed(logits)

    def masks(self, matchers: list[Any], rows: Any) -> None:
        for row, matcher in zip(rows, matchers, strict=True):
            row[:] = matcher.mask()

    def by_reference(self, matchers: list[Any]) -> bool:
        for matcher in matchers:
            matcher.mask()
        return True


class LlGuidance(Engine):
    """llguidance; a call is a grammar in its dialect of Lark with the schema inside."""

    name = "llguidance"
    framed = True

    @staticmethod
    def load() -> None:
        import llguidance.hf
        import llguidance.torch
        import tokenizers
        import transformers

        LlGuidance.modules = llguidance, tokenizers, transformers

    modules: Any = None

    def __init__(self, folder: Path) -> None:
        library, _, _ = self.modules
        fast = _fast(folder, self.modules[1:])
        controls = json.loads((folder / "tokenizer.json").read_text("utf-8"))["added_tokens"]
        self._ids = {token["content"]: token["id"] for token in controls}
        self._tokenizer = library.hf.from_tokenizer(fast, n_vocab=WIDTH)
        self._mask = np.zeros((1, WIDTH // 32), np.int32)
        self._executor = library.LLExecutor(num_threads=1)

    def tools(self, tools: list[dict[str, Any]]) -> Any:
        open_, close = (f"<[{self._ids[text]}]>" for text in FRAME)
        schema = json.dumps(self._spaced(any_call(tools)))
        lark = f'start: {open_} "\\n" call "\\n" {close}\ncall: %json {schema}\n'
        return self.modules[0].LLMatcher.grammar_from_lark(lark)

    def schema(self, schema: Any) -> Any:
        return self.modules[0].LLMatcher.grammar_from_json_schema(self._spaced(schema))

    @staticmethod
    def _spaced(schema: Any) -> Any:
        style = {"whitespace_flexible": False, "item_separator": ", ", "key_separator": ": "}
        return {"x-guidance": style, **schema} if isinstance(schema, dict) else schema

    def start(self, compiled: Any) -> Any:
        matcher = self.modules[0].LLMatcher(self._tokenizer, compiled)
        if matcher.is_error():
            raise ValueError(matcher.get_error())
        return matcher

    def forced(self, matcher: Any) -> list[int]:
        return matcher.compute_ff_tokens()

    def mask(self, matcher: Any) -> Any:
        matcher.unsafe_compute_mask_ptr(self._mask.ctypes.data, self._mask.nbytes)
        return self._mask

    def accept(self, matcher: Any, ids: list[int]) -> int:
        return matcher.try_consume_tokens(ids)

    def is_done(self, matcher: Any) -> bool:
        return matcher.is_accepting()

    def select(self, matcher: Any, logits: Any) -> int:  # noqa: ARG002 - the last mask counts
        # Of its helpers the one for torch is much faster than the one for numpy.
        import torch

        tensor = torch.from_numpy(logits)[None]
        self.modules[0].torch.apply_token_bitmask_inplace(tensor, torch.from_numpy(self._mask))
        return int(tensor.argmax())

    def masks(self, matchers: list[Any], rows: Any) -> None:
        pairs = [(matcher, index) for index, matcher in enumerate(matchers)]
        self._executor.unsafe_compute_mask_ptr(
            pairs, rows.ctypes.data, rows.shape[1] * 4, len(rows)
        )


class XGrammar(Engine):
    """xgrammar; its jump-forward gives text and no tokens, so every token takes a mask."""

    name = "xgrammar"
    cache = True
    modules: Any = None

    @staticmethod
    def load() -> None:
        import tokenizers
        import transformers
        import xgrammar

        XGrammar.modules = xgrammar, tokenizers, transformers

    def __init__(self, folder: Path) -> None:
        library = self.modules[0]
        fast = _fast(folder, self.modules[1:])
        info = library.TokenizerInfo.from_huggingface(
            fast, vocab_size=WIDTH, stop_token_ids=[fast.eos_token_id]
        )
        self._compiler = library.GrammarCompiler(info, max_threads=1, cache_enabled=self.cache)
        self._mask = library.allocate_token_bitmask(1, WIDTH)
        self._batch = library.BatchGrammarMatcher(max_threads=1)

    def schema(self, schema: Any) -> Any:
        return self._compiler.compile_json_schema(
            json.dumps(schema), any_whitespace=False, separators=(", ", ": "), strict_mode=False
        )

    def start(self, compiled: Any) -> Any:
        return self.modules[0].GrammarMatcher(compiled)

    def mask(self, matcher: Any) -> Any:
        matcher.fill_next_token_bitmask(self._mask)
        return self._mask

    def accept(self, matcher: Any, ids: list[int]) -> int:
        taken = 0
        while taken < len(ids) and matcher.accept_token(ids[taken]):
            taken += 1
        return taken

    def is_done(self, matcher: Any) -> bool:
        return matcher.is_completed()

    def select(self, matcher: Any, logits: Any) -> int:  # noqa: ARG002 - the last mask counts
        import torch

        tensor = torch.from_numpy(logits)[None]
        self.modules[0].apply_token_bitmask_inplace(tensor, self._mask)
        return int(tensor.argmax())

    def masks(self, matchers: list[Any], rows: Any) -> None:
        import torch

        self._batch.batch_fill_next_token_bitmask(matchers, torch.from_numpy(rows))


class XGrammarUncached(XGrammar):
    """xgrammar without its cache of rules: what tools cost that share nothing with earlier ones."""

    name = "xgrammar, cache off"
    cache = False


class OutlinesCore(Engine):
    """outlines-core; a schema becomes a regular expression, that an index over the vocabulary."""

    name = "outlines-core"
    modules: Any = None

    @staticmethod
    def load() -> None:
        import outlines_core
        import tokenizers
        import transformers

        OutlinesCore.modules = outlines_core, tokenizers, transformers

    def __init__(self, folder: Path) -> None:
        library = self.modules[0]
        fast = _fast(folder, self.modules[1:])
        table: dict[bytes, list[int]] = {}
        for piece, index in fast.backend_tokenizer.get_vocab(with_added_tokens=False).items():
            table.setdefault(_raw(piece), []).append(index)
        self._vocabulary = library.Vocabulary(fast.eos_token_id, table)
        self._end = fast.eos_token_id
        self._mask = np.zeros(WIDTH // 32, np.uint32)

    def schema(self, schema: Any) -> Any:
        library = self.modules[0]
        # Its only setting for whitespace is a pattern for all places where it may stand.
        regex = library.json_schema.build_regex_from_schema(json.dumps(schema), "[ ]?")
        return library.Index(regex, self._vocabulary)

    def start(self, compiled: Any) -> Any:
        return self.modules[0].Guide(compiled)

    def mask(self, matcher: Any) -> Any:
        matcher.write_mask_into(self._mask.ctypes.data, self._mask.size, 4)
        return self._mask

    def accept(self, matcher: Any, ids: list[int]) -> int:
        for taken, index in enumerate(ids):
            try:
                matcher.advance(index, return_tokens=False)
            except ValueError:
                return taken
        return len(ids)

    def is_done(self, matcher: Any) -> bool:
        return matcher.accepts_tokens([self._end]) or matcher.is_finished()


class LmFormatEnforcer(Engine):
    """lm-format-enforcer; plain Python, a walk over the characters of the vocabulary per state."""

    name = "lm-format-enforcer"
    modules: Any = None

    @staticmethod
    def load() -> None:
        import lmformatenforcer.tokenenforcer
        import tokenizers
        import transformers

        LmFormatEnforcer.modules = lmformatenforcer, tokenizers, transformers

    def __init__(self, folder: Path) -> None:
        fast = _fast(folder, self.modules[1:])
        self._end = fast.eos_token_id
        # What its integration for transformers does, which does not import with version 5 of that.
        texts = fast.backend_tokenizer
        zero = texts.encode("0").ids[-1]
        regular = [
            (
                index,
                (after := texts.decode([zero, index])[1:]),
                len(after) > len(texts.decode([index])),
            )
            for index in range(len(fast))
            if index not in fast.all_special_ids
        ]
        self._data = self.modules[0].TokenEnforcerTokenizerData(
            regular, lambda ids: texts.decode(ids).rstrip("\ufffd"), self._end, False, len(fast)
        )

    def schema(self, schema: Any) -> Any:
        if not isinstance(schema, dict):
            raise TypeError("only objects are schemas here")
        return schema

    def start(self, compiled: Any) -> Any:
        library = self.modules[0]
        settings = library.CharacterLevelParserConfig(
            max_consecutive_whitespaces=1, force_json_field_order=True
        )
        parser = library.JsonSchemaParser(compiled, settings)
        return [library.TokenEnforcer(self._data, parser), []]

    def mask(self, matcher: Any) -> Any:
        enforcer, ids = matcher
        return enforcer.get_allowed_tokens(ids)

    def accept(self, matcher: Any, ids: list[int]) -> int:
        for taken, index in enumerate(ids):
            if not self.mask(matcher).is_token_allowed(index):
                return taken
            matcher[1].append(index)
        return len(ids)

    def is_done(self, matcher: Any) -> bool:
        return self.mask(matcher).is_token_allowed(self._end)


ENGINES: dict[str, type[Engine]] = {
    engine.name: engine
    for engine in (Ours, LlGuidance, XGrammar, XGrammarUncached, OutlinesCore, LmFormatEnforcer)
}


def any_call(tools: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the schema of one call of any of the tools; no further arguments, as for ours."""
    calls = [
        {
            "type": "object",
            "properties": {
                "name": {"const": tool["name"]},
                "arguments": {"additionalProperties": False, **tool["parameters"]},
            },
            "required": ["name", "arguments"],
            "additionalProperties": False,
        }
        for tool in tools
    ]
    return calls[0] if len(calls) == 1 else {"anyOf": calls}


def _fast(folder: Path, modules: Any) -> Any:
    """Read a tokenizer.json as the engines that build on transformers want it."""
    tokenizers, transformers = modules
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json")),
        eos_token=END,
    )


def _raw(piece: str) -> bytes:
    """Return the bytes of a token written in GPT-2's alphabet."""
    return bytes(map(_ALPHABET.__getitem__, piece))


_KEPT = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
_MOVED = [byte for byte in range(256) if byte not in _KEPT]
_ALPHABET = {chr(b): b for b in _KEPT} | {chr(0x100 + n): b for n, b in enumerate(_MOVED)}
