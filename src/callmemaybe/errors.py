"""Every exception of the package, typed by who is to blame.

::

    CallMeMaybeError            the root: `except CallMeMaybeError` catches everything of ours
    |- InputError               the caller: the data is wrong; str() is "where: what; what to do"
    |  |- UnsupportedSchema     a JSON Schema demands something that cannot be guaranteed (.pointer)
    |  |  `- NoValue            no value meets a schema
    |  |- GrammarError          a regex or a grammar text is wrong (.line)
    |  |- GroundingError        no function can be called with the values in the request (.functions)
    |  |- LongNumber            a number has more digits than the reader accepts
    |  |- BudgetError           the token budget is smaller than the shortest valid answer
    |  `- ConversationError     an event that may not happen now, or names a wrong call id
    |- ModelOutputError         the model: it wrote what no grammar can prevent
    |  |- DuplicateKeyError     a key of an object twice (.key)
    |  `- SchemaViolationError  a value that its schema forbids (.pointer)
    |- ModelError               the model behind us: it cannot be found, loaded, run or reached
    |  |- UpstreamError         the server that runs the model: away, busy, refusing, or wrong (.kind)
    |  `- VocabularyError       a vocabulary cannot be read, or lacks what a grammar needs
    |- StoreError               the store behind us: the ledger cannot be read or written
    |  |- StoreFull             there is no room for a new intent
    |  |- StoreTransient        it is away or busy; the operation may be sent again
    |  `- LedgerError           it was opened, and can no longer be used
    |- WriteError               the disk behind us: a file could not be written
    `- DecodingError            us: a promise of the engine was broken; please report it

    NotExecuted, TransientError   raised by tools, never by us: certainly nothing happened; it may pass

Foreign exceptions are translated into these once, at the edge where they appear.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

#: Characters of a place that a message shows; a JSON pointer into a schema may have thousands.
SHOWN = 400


class CallMeMaybeError(Exception):
    """The root of every exception that this package raises on purpose."""


class InputError(CallMeMaybeError):
    """The data handed in is wrong; says where, what, and what to do about it.

    ``where`` is a file with line and column, a JSON pointer, or an argument's name. The text of the error shows
    the beginning and the end of a long one.
    """

    def __init__(self, message: str, *, where: str | None = None, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.where = where
        self.hint = hint

    def __str__(self) -> str:
        where = self.where or ""
        if len(where) > SHOWN:
            where = f"{where[: SHOWN - 100]} ... {where[-100:]}"
        place = f"{where}: " if where else ""
        advice = f"; {self.hint}" if self.hint else ""
        return f"{place}{self.message}{advice}"


class GroundingError(InputError):
    """No function can be called: each needs an argument whose value the request does not contain.

    ``functions`` are their names.
    """

    def __init__(self, functions: Sequence[str]) -> None:
        self.functions = tuple(functions)
        names = ", ".join(self.functions[:3]) + (", ..." if len(self.functions) > 3 else "")
        super().__init__(
            f"the request contains no value that the arguments of {names} may have",
            where="ground",
            hint="ask for what is missing, or ground with prompt-or-free",
        )


class UnsupportedSchema(InputError):
    """A JSON Schema has a keyword that the engine can neither mask nor check; it is never ignored.

    ``pointer`` is the JSON pointer of the offending keyword, from the root of the schema.
    """

    def __init__(
        self,
        message: str,
        *,
        pointer: str,
        where: str | None = None,
        hint: str | None = None,
    ) -> None:
        super().__init__(message, where=pointer if where is None else where, hint=hint)
        self.pointer = pointer


class GrammarError(InputError):
    """A regular expression or a grammar is wrong; ``line`` counts from 1 where there is a text."""

    def __init__(
        self,
        message: str,
        *,
        line: int | None = None,
        where: str | None = None,
        hint: str | None = None,
    ) -> None:
        if where is None and line is not None:
            where = f"line {line}"
        super().__init__(message, where=where, hint=hint)
        self.line = line


class NoValue(UnsupportedSchema):
    """No value meets a schema, or none that the request contains."""


class LongNumber(InputError):
    """A JSON text holds a number of more digits than the reader was told to accept."""


class ConversationError(InputError):
    """An event may not happen in this state of a conversation, or names the wrong call id."""


class BudgetError(InputError):
    """The token budget is smaller than the shortest valid answer; raised before generation."""


class ModelError(CallMeMaybeError):
    """A model cannot be found, fetched, loaded or run; the message says what to do next."""


#: What failed at a server that runs a model; see :class:`UpstreamError`.
UpstreamFailure = Literal["away", "late", "busy", "key", "request", "broken", "answer"]


class UpstreamError(ModelError):
    """A server that runs the model did not give an answer that can be used.

    ``kind``: it cannot be reached ("away"), took too long ("late"), has no room ("busy"), does not accept our
    "key", refuses the "request", is "broken", or its "answer" is not what was asked for. ``problem`` is a
    sentence without the server's address, a key, or anything that a model wrote; ``quoted`` what may be put
    behind it for whoever owns the answer. ``retry_after`` is in seconds, where the server said it.
    """

    def __init__(
        self,
        kind: UpstreamFailure,
        problem: str,
        *,
        address: str,
        quoted: str = "",
        retry_after: float | None = None,
    ) -> None:
        super().__init__(f"{address} {problem}{quoted}")
        self.kind = kind
        self.address = address
        self.problem = problem
        self.quoted = quoted
        self.retry_after = retry_after

    @property
    def may_pass(self) -> bool:
        """Whether the same request may succeed when it is sent again."""
        return self.kind in ("away", "late", "busy", "broken")


class VocabularyError(ModelError):
    """A vocabulary cannot be read, or does not have what a grammar asks of it."""


class StoreError(CallMeMaybeError):
    """The ledger cannot be read or written. Answers that were given before stay valid."""


class StoreFull(StoreError):
    """There is no disk space for a new intent; the reserve for results of running calls remains."""


class StoreTransient(StoreError):
    """The store is unavailable or busy; the same operation may be sent again."""


class LedgerError(StoreError):
    """A ledger that was opened can no longer be read or written."""


class WriteError(CallMeMaybeError):
    """A file could not be written (a full disk, say); its previous content is untouched."""


class DecodingError(CallMeMaybeError):
    """The engine broke one of its own promises; a bug in this package, never the caller's fault."""


class ModelOutputError(CallMeMaybeError):
    """The model wrote what no grammar can prevent; the call or answer is discarded. Trying again may help."""


class DuplicateKeyError(ModelOutputError):
    """An object of a finished call or answer has the key ``key`` twice, which no grammar can prevent.

    Which of the two is meant is unknown, so the call is discarded. ``function`` is the function called
    (None: an answer), and ``text`` its arguments as they were written (or the answer).
    """

    def __init__(self, function: str | None, text: str, key: str) -> None:
        self.function = function
        self.text = text
        self.key = key
        what = "the answer has" if function is None else f"the arguments of {function!r} have"
        super().__init__(
            f"{what} the key {key!r} twice, and which is meant is unknown; list the properties "
            "in the schema, or try again"
        )


class SchemaViolationError(ModelOutputError):
    """A finished call or answer violates its schema, which no grammar could prevent; it is discarded.

    ``function`` is the function called (None: an answer), ``text`` its arguments as they were written (or
    the answer), ``pointer`` the JSON pointer of the wrong value in them, ``problem`` what is wrong with it, and
    ``keyword`` the JSON pointer of what forbids it in the schema (empty where the value nests too deep
    to be checked).
    """

    def __init__(
        self, function: str | None, text: str, *, pointer: str, problem: str, keyword: str = ""
    ) -> None:
        self.function = function
        self.text = text
        self.pointer = pointer
        self.problem = problem
        self.keyword = keyword
        what = "the answer is" if function is None else f"the arguments of {function!r} are"
        asked = f" ({keyword} of the schema)" if keyword else ""
        super().__init__(
            f"{what} not what the schema wants, at {pointer or '/'}: {problem}{asked}; no grammar can "
            "prevent that: try again with a temperature, draw several (best_of), or simplify the schema"
        )


class NotExecuted(Exception):
    """Raised by a tool if certainly nothing happened: even a `once` call may be retried.

    A reply that says "not now" is no such proof: what answered may be a proxy, after the service acted.
    """


class TransientError(Exception):
    """Raised by a tool whose failure may be temporary and that may have acted, as after a lost connection.

    ConnectionError, TimeoutError and the like of other libraries count as this. A call of a tool that is
    `once` is then of unknown outcome; others are tried again.
    """
