"""The constraint of some tools, for hosts that run the model themselves: prompt, masks, parsed calls."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from callmemaybe.errors import InputError, VocabularyError
from callmemaybe.generation.config import format_of, parts_of
from callmemaybe.generation.validation import CallValidator
from callmemaybe.grammar import compile as compile_grammar
from callmemaybe.grammar.compile import automaton_of
from callmemaybe.grammar.export import to_gbnf
from callmemaybe.matching import Matcher
from callmemaybe.models.base import Files, Model
from callmemaybe.tools import ToolCall, ToolLike, tool_specs
from callmemaybe.vocabulary import Vocabulary
from callmemaybe.wire import Format
from callmemaybe.wire.grounding import GroundingConfig
from callmemaybe.wire.output_grammar import OutputSpec


class ToolCallConstraint:
    """The answers that call one of ``tools``: their prompt, their matcher, their reader.

    ``folder`` holds the model's ``tokenizer.json`` and configuration; ``size`` is the width of its
    logits, if that is more than its tokens. ``format`` is a wire format (None: told from the files),
    ``no_call`` allows an answer without a call. ``order`` and ``ground`` are those of ``Caller``; what has
    to be grounded needs the request, ``said``, so such a language is of one request.

    Raises what ``Caller`` raises for tools and files that cannot be used.
    """

    def __init__(
        self,
        tools: Iterable[ToolLike],
        folder: str | Path,
        *,
        size: int | None = None,
        format: str | Format | None = None,  # noqa: A002 - the word users know
        no_call: bool = False,
        order: str = "schema",
        ground: str | None = None,
        said: str | None = None,
    ) -> None:
        self.tools = tool_specs(tools)
        files = Files(Path(folder))
        if files.vocabulary is None:
            raise VocabularyError(f"{folder} holds no tokenizer.json")
        self.vocabulary = Vocabulary.from_file(files.vocabulary, size=size, ends=files.ends or None)
        stub = cast("Model", SimpleNamespace(name=str(folder), files=files))
        self.format = format_of(stub, self.vocabulary, format)
        self._controls = frozenset(self.vocabulary.controls)
        grounding = GroundingConfig(ground)
        spec = OutputSpec(no_call=no_call, order=order)
        if said is not None and grounding.depends_on_request(self.tools):
            spec = grounding.for_messages(spec, [{"role": "user", "content": said}])
        elif grounding.ground is not None:
            raise InputError("grounding needs the text of the request", where="said")
        self._grammar = self.format.output_grammar(self.tools, spec, controls=self._controls)
        self._validators = CallValidator(self.tools)
        automaton = automaton_of(self._grammar) if spec.ground else compile_grammar(self._grammar)
        self.matcher = Matcher(automaton, self.vocabulary)

    @property
    def gbnf(self) -> str:
        """The language as text, for a host that takes a grammar in GBNF with control tokens as ``<name>``."""
        return to_gbnf(self._grammar)

    def prompt(self, request: str | Sequence[Mapping[str, Any]]) -> list[int]:
        """Return the ids of a request, or of a conversation, with the tools."""
        messages: Any = request
        if isinstance(request, str):
            messages = [{"role": "user", "content": request}]
        ids: list[int] = []
        for part in self.format.prompt(messages, self.tools, self._controls):
            if isinstance(part, str):
                ids += self.vocabulary.encode(part.encode(errors="replace"))
            else:
                ids.append(self.vocabulary.controls[part.text])
        return ids

    def read(self, ids: Sequence[int]) -> list[ToolCall]:
        """Return the validated calls of ``ids``, the tokens generated after the prompt.

        Raises InputError if they are not a whole answer in the language.
        """
        matcher = self.matcher.fork()
        taken = matcher.try_accept(ids)
        if taken < len(ids) and not matcher.is_terminated:
            raise InputError(f"the answer leaves the language at token {taken}", where="ids")
        if not matcher.is_accepting:
            raise InputError("the answer was cut off", where="ids")
        calls = self.format.read(parts_of(matcher.symbols), self.tools, controls=self._controls)
        for call in calls:
            self._validators.check(call)
        return calls


class SequenceMatchers:
    """Finds the matcher of each sequence by its tokens, in any order.

    A host may reorder its rows (beams), drop some and add others. A sequence that is one token longer
    than at the last step costs one step of the automaton.
    """

    def __init__(self, matcher: Matcher) -> None:
        self._start = matcher
        self._known: dict[tuple[int, ...], Matcher] = {(): matcher}
        self._next: dict[tuple[int, ...], Matcher] = {}

    def matcher(self, ids: Sequence[int]) -> Matcher | None:
        """Return the matcher after ``ids``; None if they are not in the language."""
        key = tuple(ids)
        found = self._next.get(key) or self._known.get(key)
        if found is None:
            before = self._known.get(key[:-1])
            found = (before or self._start).fork()
            rest = key[-1:] if before is not None else key
            if found.try_accept(rest) < len(rest) and not found.is_terminated:
                return None
        self._next[key] = found
        return found

    def end_step(self) -> None:
        """End a step: sequences that were not asked for in it are forgotten."""
        self._known, self._next = self._next, {}


def allowed_tokens(matcher: Matcher, width: int) -> NDArray[np.bool_]:
    """Return ``bool[width]``: which ids may come next; an answer that is over may only end."""
    found = np.zeros(width, np.bool_)
    if matcher.is_terminated:
        found[[index for index in matcher.vocabulary.ends if index < width]] = True
        return found
    words = matcher.mask().view(np.uint8)
    bits = np.unpackbits(words, bitorder="little")[: min(width, matcher.vocabulary.size)]
    found[: len(bits)] = bits.astype(np.bool_)
    return found
