"""The same model without a grammar: generate, parse, validate, retry.

The prompt is the constrained one, token for token. The first answer is greedy; a retry is sampled, since
a greedy one would repeat the first. An answer counts as a call if the format's own reader can read it and
the arguments satisfy the function's schema; thoughts before it (``<think>…</think>``) and white space
around it are ignored.
"""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from functools import cached_property
from hashlib import sha256
from typing import Any

import numpy as np

from callmemaybe.caller import Caller
from callmemaybe.errors import CallMeMaybeError, InputError, ModelError
from callmemaybe.evals.record import UnconstrainedAttempt
from callmemaybe.generation.local import LocalGenerator
from callmemaybe.grammar.nodes import Control
from callmemaybe.models.base import Logits, Session
from callmemaybe.tools import ToolCall, ToolSpec
from callmemaybe.tools.schemas import validator_for

RETRIES = 2
#: Of the retries.
TEMPERATURE = 0.7
_THOUGHT = re.compile(rb"\A\s*(?:<think>.*?</think>)?\s*|\s+\Z", re.DOTALL)
Written = list[bytes | str | Control]


class UnconstrainedGenerator:
    """Lets a model answer without a grammar; everything else is as in ``caller``.

    ``no_call`` says whether calling nothing is an answer. Raises InputError for a model on a
    server, which does not hand out what it is made of.
    """

    def __init__(self, caller: Caller, *, no_call: bool) -> None:
        assert isinstance(caller.generator, LocalGenerator)
        self._generator: LocalGenerator = caller.generator
        self._tools = caller.tools
        self._model = self._generator.model
        self._no_call = no_call
        self._controls = frozenset(self._generator.vocabulary.controls)
        self._texts = {number: text for text, number in self._generator.vocabulary.controls.items()}

    def attempts(self, prompt: str, retries: int = RETRIES) -> tuple[UnconstrainedAttempt, ...]:
        """Answer ``prompt``, again after each invalid answer; the last attempt is the answer."""
        messages = [{"role": "user", "content": prompt}]
        ids = self._encode(self._generator.format.request(messages, self._tools, self._controls))
        try:
            session = self._prefix.fork()
            logits = session.feed(ids)[-1]
        except ModelError:
            # The constrained run cuts such a request; what programs do without us, nobody knows.
            return (UnconstrainedAttempt(None, "the prompt does not fit into the context", 0, 0.0),)
        seed = list(sha256(prompt.encode(errors="surrogatepass")).digest())
        found: list[UnconstrainedAttempt] = []
        while len(found) <= retries and (not found or found[-1].problem is not None):
            dice = np.random.default_rng([len(found), *seed]) if found else None
            started = time.perf_counter()
            written, count = self._write(session.fork(), logits, dice)
            call, problem = self._read(written)
            found.append(UnconstrainedAttempt(call, problem, count, time.perf_counter() - started))
        return tuple(found)

    @cached_property
    def _prefix(self) -> Session:
        session = self._model.open()
        ids = self._encode(
            self._generator.format.prefix(self._generator.as_read(self._tools), self._controls)
        )
        if ids:
            session.feed(ids, keep=0)
        return session

    @cached_property
    def _validators(self) -> dict[str, Any]:
        return {tool.name: _validator(tool) for tool in self._tools}

    def _encode(self, parts: Sequence[str | Control]) -> list[int]:
        vocabulary = self._generator.vocabulary
        ids: list[int] = []
        for part in parts:
            if isinstance(part, Control):
                ids.append(vocabulary.controls[part.text])
            else:
                ids += vocabulary.encode(part.encode(errors="replace"))
        return ids

    def _write(
        self, session: Session, logits: Logits, dice: np.random.Generator | None
    ) -> tuple[list[int], int]:
        """Return the ids written up to an end (included), and how many they are."""
        ids: list[int] = []
        room = self._generator.decoding.budget
        if self._model.context is not None:
            room = min(room, self._model.context - session.length)
        while len(ids) < room:
            ids.append(_draw(logits, dice))
            if ids[-1] in self._generator.vocabulary.ends:
                break
            if len(ids) < room:
                logits = session.feed(ids[-1:])[-1]
        return ids, len(ids)

    def _read(self, ids: Sequence[int]) -> tuple[ToolCall | None, str | None]:
        """Return the call that was written, or what is wrong."""
        ends = self._generator.vocabulary.ends
        if not ids or ids[-1] not in ends:
            return None, "not ended within the budget"
        # Some formats end a call with the token that ends the turn, others know only the call.
        for written in (ids[:-1], ids):
            try:
                calls = self._generator.format.read(self._parts(written), controls=self._controls)
            except (CallMeMaybeError, UnicodeDecodeError):
                continue
            return self._check(calls)
        return None, "not in the format"

    def _check(self, calls: Sequence[ToolCall]) -> tuple[ToolCall | None, str | None]:
        if not calls:
            return None, None if self._no_call else "no call"
        if len(calls) > 1:
            return None, "more than one call"
        call = calls[0]
        if call.name not in self._validators:
            return None, "no such function"
        try:
            arguments = call.parsed
        except InputError:
            return None, "the arguments are not JSON"
        validator = self._validators[call.name]
        try:
            fits = validator is not None and validator.is_valid(arguments)
        except InputError:  # it takes too much work to say
            fits = False
        if not fits:
            return None, "the arguments do not fit the schema"
        return call, None

    def _parts(self, ids: Sequence[int]) -> Written:
        parts: Written = []
        run = b""
        for number in ids:
            text = self._texts.get(number)
            run += self._generator.vocabulary.token(number) if text is None else text.encode()
        run = _THOUGHT.sub(b"", run)
        # A control token that was written as one reads the same as its text from here on.
        pattern = b"|".join(
            re.escape(text.encode()) for text in sorted(self._controls, key=len, reverse=True)
        )
        for piece in re.split(b"(" + pattern + b")", run) if pattern else [run]:
            text = piece.decode(errors="replace")
            parts += [Control(text)] if text in self._controls else [piece]
        return parts


def _draw(logits: Logits, dice: np.random.Generator | None) -> int:
    if dice is None:
        return int(logits.argmax())
    scaled = (logits.astype(np.float64) - logits.max()) / TEMPERATURE
    chances = np.exp(scaled)
    return int(dice.choice(len(chances), p=chances / chances.sum()))


def _validator(tool: ToolSpec) -> Any:
    """Return a validator that, as the constrained run, takes no arguments nobody declared."""
    schema = dict(tool.schema)
    if "properties" in schema:
        schema.setdefault("additionalProperties", False)
    try:
        return validator_for(schema)
    except InputError:
        return None
