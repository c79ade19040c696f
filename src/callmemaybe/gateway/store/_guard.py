"""What a `transactional` tool gets of the store's connection: statements and their rows, nothing else.

The transaction is the ledger's: a tool that ends it, or changes the session, would break the records of every
call in the batch. So the connection itself is out of reach, and each database refuses such statements.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from callmemaybe.errors import InputError

#: Leading white space, comments and opening brackets of a statement.
_LEADING = re.compile(r"(?:\s|--[^\n]*(?:\n|$)|/\*.*?\*/|\(|;)*", re.DOTALL)
_WORD = re.compile(r"[a-z]*", re.IGNORECASE)
_CONTROL = frozenset(
    [
        "abort",
        "attach",
        "begin",
        "checkpoint",
        "commit",
        "deallocate",
        "detach",
        "discard",
        "end",
        "listen",
        "lock",
        "pragma",
        "prepare",
        "release",
        "reset",
        "rollback",
        "savepoint",
        "set",
        "start",
        "unlisten",
        "vacuum",
    ]
)


class TransactionRows:
    """The rows that a statement returned; as much of a cursor as a tool needs."""

    def __init__(self, cursor: Any, changed: Callable[[], int]) -> None:
        self._cursor = cursor
        self.rowcount: int = changed()

    def __iter__(self) -> Iterator[Any]:
        return iter(self._cursor)

    def fetchone(self) -> Any:
        """Return the next row, or None."""
        return self._cursor.fetchone()

    def fetchall(self) -> list[Any]:
        """Return the rows that are left."""
        found: list[Any] = self._cursor.fetchall()
        return found


class GuardedTransaction:
    """The open transaction as a tool sees it (:class:`~callmemaybe.tools.Transaction`)."""

    def __init__(
        self,
        run: Callable[[str, Sequence[Any]], Any],
        changed: Callable[[Any], int],
        check: Callable[[], None],
    ) -> None:
        """``check`` is called once, when the tool has ended, and raises if it did what it may not."""
        self.__run = run
        self.__changed = changed
        self.__check = check
        self.__open = True

    def execute(self, sql: str, parameters: Sequence[Any] = (), /) -> TransactionRows:
        """Run one statement; raises InputError for one that controls the transaction or the session."""
        if not self.__open:
            raise InputError("this transaction has ended", where="transaction")
        found = _WORD.match(sql, _LEADING.match(sql).end())  # type: ignore[union-attr]
        word = found.group().lower() if found else ""
        if word in _CONTROL:
            raise InputError(
                f"a transactional tool cannot say {word!r}: the transaction is the ledger's",
                where="transaction",
                hint="raise an exception to undo what the tool wrote",
            )
        cursor = self.__run(sql, parameters)
        return TransactionRows(cursor, lambda: self.__changed(cursor))

    def close(self) -> None:
        """Refuse every later statement: the transaction goes on without the tool.

        Raises StoreError if the tool ended it all the same, InputError if it wrote to the ledger's tables.
        """
        if self.__open:
            self.__open = False
            self.__check()


ENDED = "a transactional tool ended the ledger's transaction"


def wrote_to_the_ledger() -> InputError:
    """Return the error of a tool that wrote to the ledger's own tables."""
    return InputError(
        "a transactional tool cannot write to the ledger's own tables",
        where="transaction",
        hint="give it tables of its own",
    )
