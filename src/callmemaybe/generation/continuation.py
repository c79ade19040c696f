"""Continues texts with a model in this process: the prompt is all that the model reads.

What it writes is text, or text of a grammar, which the budget closes as it does everywhere. A prompt is given
as text, in which control tokens may be spelled out since its author writes the whole of it, or as ids.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

from callmemaybe.decoding.decoder import likeliest
from callmemaybe.decoding.sampler import logsumexp
from callmemaybe.errors import InputError, ModelError
from callmemaybe.generation.config import DecodingConfig, vocabulary_of
from callmemaybe.generation.local import LocalGenerator
from callmemaybe.generation.result import TokenLogprob, TurnResult
from callmemaybe.generation.turn import TurnSteps, TurnStream
from callmemaybe.models.base import Model
from callmemaybe.tools import TextDelta, ToolSpec
from callmemaybe.vocabulary import Vocabulary
from callmemaybe.wire.format import Message
from callmemaybe.wire.output_grammar import OutputSpec
from callmemaybe.wire.plain_text import TEXT_FORMAT
from callmemaybe.wire.prompt import split_controls

#: How many places of a prompt are scored at a time, each with logits of the width of the vocabulary.
_SCORED = 32


def text_prompt(
    prompt: str | Sequence[int],
    *,
    has_begin: bool = True,
    is_echoed: bool = False,
    is_continued: bool = True,
) -> Message:
    """Return the one message of a turn of :class:`TextGenerator`.

    ``has_begin`` puts what the model's tokenizer begins texts with in front of a text; ids are read as they are.
    ``is_echoed`` makes the prompt the first text of the answer, with log-probabilities where those are asked for.
    Unless it ``is_continued``, nothing is written behind it.
    """
    found: dict[str, Any] = {
        "role": "user", "content": "", "begin": has_begin, "echo": is_echoed, "continue": is_continued
    }  # fmt: skip
    return found | ({"content": prompt} if isinstance(prompt, str) else {"ids": list(prompt)})


class TextGenerator(LocalGenerator):
    """Continues texts; its turns have one message, by :func:`text_prompt`, and call nothing.

    Arguments and errors are those of :class:`LocalGenerator`.
    """

    def __init__(
        self, model: Model, *, vocabulary: Vocabulary | None = None, **options: Any
    ) -> None:
        # A text may stop where its tokens are spent; nothing has to say that it does.
        free = (vocabulary or vocabulary_of(model)).with_free_ends()
        super().__init__(model, format=TEXT_FORMAT, vocabulary=free, **options)
        self.reads_images = False

    def stream(
        self,
        messages: Sequence[Message],
        tools: Sequence[ToolSpec] = (),
        spec: OutputSpec | None = None,
        decoding: DecodingConfig | None = None,
    ) -> TurnStream:
        """Return the continuation of a prompt; see :meth:`TurnGenerator.stream`."""
        (message,) = messages
        if "ids" in message:
            message = {**message, "content": self.text_of(message["ids"])}
        spec = spec or OutputSpec(calls=False, no_call=True)
        config = decoding.over(self.decoding) if decoding else self.decoding
        if message.get("continue", True):
            turn = super().stream([message], tools, spec, decoding)
        else:
            turn = self._read(message, spec, config)
        if not message.get("echo"):
            return turn
        tokens: list[TokenLogprob] = []
        return TurnStream(
            self._echoed(message, turn, config, tokens), turn.steps, tokens,
            prompt_tokens=turn.prompt_tokens, cached_tokens=turn.cached_tokens,
        )  # fmt: skip

    # -- ids and texts ----------------------------------------------------------------------------

    def ids_of(self, text: str, *, has_begin: bool = True, has_controls: bool = True) -> list[int]:
        """Return the ids of a text; without ``has_controls``, what spells a control token is text.

        Raises VocabularyError for a text that the vocabulary cannot express.
        """
        parts = split_controls(text, frozenset(self.vocabulary.controls) if has_controls else frozenset())  # fmt: skip
        ids = self._encode(parts)
        begin = self.begin if has_begin else []
        return ids if ids[: len(begin)] == begin else begin + ids

    def text_of(self, ids: Iterable[int]) -> str:
        """Return the text of ids, control tokens spelled out. Raises InputError for an id that is none."""
        return b"".join(self.pieces_of(ids)).decode(errors="replace")

    def pieces_of(self, ids: Iterable[int]) -> list[bytes]:
        """Return the bytes of each id; of a control token its name. Raises InputError, with the place."""
        size = self.model.size
        return [self._piece(index, at, size) for at, index in enumerate(ids)]

    def _piece(self, index: int, at: int, size: int) -> bytes:
        if not 0 <= index < size:
            raise InputError(
                f"the model has no token {index}; its ids are below {size}", where=f"[{at}]"
            )
        name = self.vocabulary.names.get(index)
        return self.vocabulary.token(index) if name is None else name.encode()

    @cached_property
    def begin(self) -> list[int]:
        """The ids that the model's tokenizer begins every text with."""
        controls = self.vocabulary.controls
        config = self.model.files.tokenizer_config
        token = config.get("bos_token")
        if config.get("add_bos_token"):
            names = [str(token.get("content") if isinstance(token, Mapping) else token)]
        else:
            names = list(_names_in_front(self.model))
        return [controls[name] for name in names if name in controls]

    def _prompt_ids(
        self, messages: Sequence[Message], tools: Sequence[ToolSpec], spec: OutputSpec
    ) -> list[int]:
        del tools, spec
        (message,) = messages
        ids = message.get("ids")
        if ids is None:
            ids = self.ids_of(message["content"], has_begin=message.get("begin", True))
        if not ids:
            raise InputError("it has no token, and a model continues at least one", where="prompt")
        return list(ids)

    def _read(self, message: Message, spec: OutputSpec, config: DecodingConfig) -> TurnStream:
        """Return the turn that writes nothing; raise what is wrong with what it would write, all the same."""
        self._constraint((), spec, [message], config)
        count = len(self._prompt_ids([message], (), spec))
        if self.model.context is not None and count > self.model.context:
            raise self._too_long(count)
        return TurnStream(_nothing(count), prompt_tokens=count)

    # -- the prompt as a part of the answer -------------------------------------------------------

    def _echoed(
        self, message: Message, turn: TurnStream, config: DecodingConfig, tokens: list[TokenLogprob]
    ) -> TurnSteps:
        """Yield the prompt, then the turn; ``tokens`` gets those of both."""
        try:
            if config.logprobs:
                ids = self._prompt_ids([message], (), OutputSpec())
                begin = self.begin if "ids" not in message and message.get("begin", True) else []
                tokens += self._scored(ids, config.top_logprobs or 0)[len(begin) :]
            count = 0
            yield (TextDelta(message["content"].encode()),)
            for events in turn:
                tokens += turn.logprobs[count:]
                count = len(turn.logprobs)
                yield events
            return turn.result
        finally:
            turn.close()

    def _scored(self, ids: Sequence[int], top: int) -> list[TokenLogprob]:
        """Return the tokens of a prompt; nothing stands before the first, so its log-probability is NaN."""
        session = self.model.open()
        pieces = self.pieces_of(ids)
        found = [TokenLogprob(pieces[0], math.nan)]
        for at in range(0, len(ids) - 1, _SCORED):
            some = ids[at : min(at + _SCORED, len(ids) - 1)]
            for place, row in enumerate(session.feed(some, keep=len(some)), at + 1):
                total = logsumexp(row)
                best = likeliest(row, None, top, lambda index: self.pieces_of([index])[0])
                found.append(TokenLogprob(pieces[place], float(row[ids[place]]) - total, best))
        return found


def _nothing(prompt_tokens: int) -> TurnSteps:
    """Yield no step; return the turn that ends where its prompt does."""
    yield from ()
    return TurnResult(ended="length", prompt_tokens=prompt_tokens)


def _names_in_front(model: Model) -> Iterator[str]:
    """Yield the control tokens that a ``tokenizer.json`` puts in front of a text."""
    path = model.files.tokenizer
    if path is None:
        return
    try:
        stated = json.loads(path.read_text(encoding="utf-8")).get("post_processor") or {}
    except (OSError, RecursionError, ValueError, AttributeError) as error:
        raise ModelError(f"{path} cannot be read: {error}") from error
    for processor in stated.get("processors") or [stated]:
        for part in processor.get("single") or ():
            if "SpecialToken" not in part:
                break
            yield part["SpecialToken"]["id"]
