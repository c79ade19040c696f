"""Reads what the gateway's commands are given: a file of tools, a file of calls, a ledger's address."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import sys
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING

from callmemaybe.cli.files import NotWritten, read_text, source
from callmemaybe.errors import CallMeMaybeError, InputError
from callmemaybe.jsonio.declared import write
from callmemaybe.jsonio.reader import Document, Number, plain_number, read

if TYPE_CHECKING:
    from collections.abc import Mapping

    from callmemaybe.gateway import Verdict
    from callmemaybe.gateway.chain import Head
    from callmemaybe.gateway.ledger import Ledger
    from callmemaybe.tools import Effect, Tool, ToolCall

DEFAULT_LEDGER = "callmemaybe.db"


def load_tools(path: Path) -> list[Tool]:
    """Import a Python file and return its tools, or read an OpenAPI document (.json).

    Raises InputError if it cannot be read or imported, or offers no tools.
    """
    from callmemaybe.tools import tools_from

    if not _is_file(path):
        raise InputError("there is no such file", where=str(path))
    if path.suffix == ".json":
        from callmemaybe.gateway.http import HttpTransport

        return tools_from(_json(path, _usual).value, transport=HttpTransport())
    name = path.stem
    spec = importlib.util.spec_from_file_location(name, path.resolve())
    if spec is None or spec.loader is None:
        raise InputError("it is no Python file", where=str(path))
    module = importlib.util.module_from_spec(spec)
    sys.modules.setdefault(name, module)
    sys.path.insert(0, str(path.resolve().parent))
    try:
        spec.loader.exec_module(module)
    except InputError:
        raise
    except Exception as error:
        raise InputError(
            f"it cannot be imported ({type(error).__name__}: {error})", where=str(path)
        ) from error
    return tools_from(module)


def read_calls(path: Path) -> list[ToolCall]:
    """Read a list of calls: ``{"name", "arguments", "id"}`` or OpenAI's ``tool_calls``.

    The digits of arguments stay as they are written. Raises InputError, among others for a key that is
    there twice: which of the two is meant cannot be told, and the call would run.
    """
    from callmemaybe.tools import ToolCall

    document = _json(path, Number)
    if not isinstance(document.value, list):
        raise InputError("a list of calls is expected", where=document.place())
    calls = []
    for place, value in enumerate(document.value):
        where = document.place(f"/{place}")
        if not isinstance(value, dict):
            raise InputError("a call must be an object", where=where)
        inner = value.get("function", value)
        name = inner.get("name") if isinstance(inner, dict) else None
        if not isinstance(name, str) or isinstance(name, Number):
            raise InputError("the call has no name", where=where, hint='add a "name"')
        arguments = inner.get("arguments", inner.get("parameters", {}))
        if not isinstance(arguments, str) or isinstance(arguments, Number):
            arguments = write(arguments)
        identity = value.get("id")
        calls.append(ToolCall(name, arguments, str(place if identity is None else identity)))
    return calls


class LedgerFailed(CallMeMaybeError):
    """A ledger that was opened cannot be read or written any more."""


class Anchor:
    """Notes the heads of the audit chain in a file.

    One that cannot be noted stops nothing that runs: the last failure is told once the ledger is closed.
    Raises InputError if the file cannot be written from the start.
    """

    def __init__(self, path: Path) -> None:
        from callmemaybe.gateway.verify import file_anchor

        try:
            os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600))
        except OSError as error:
            raise InputError(
                f"{path} cannot be written: {error.strerror}",
                where="--anchors",
                hint="choose another path",
            ) from None
        self._path = path
        self._note = file_anchor(path)
        self._failure: OSError | None = None

    def __call__(self, head: Head) -> None:
        """Note one head."""
        self._failure = None
        try:
            self._note(head)
        except OSError as error:
            self._failure = error

    def check(self) -> None:
        """Raise NotWritten if the last head is not noted."""
        if self._failure is not None:
            reason = self._failure.strerror or str(self._failure)
            raise NotWritten(f"{self._path}: the anchor cannot be written: {reason}")


@contextlib.contextmanager
def named_ledger(
    store: str, anchors: Path | None = None, *, create: bool = False
) -> Iterator[Ledger]:
    """Open a ledger by its address, an existing one unless ``create``, and close it at the end.

    Raises InputError if it cannot be opened, LedgerFailed if that comes later, and NotWritten at the
    end if its last head is not noted.
    """
    from callmemaybe.gateway import StoreError
    from callmemaybe.gateway.audit import open_ledger

    if not create and "://" not in store and not _is_file(Path(store)):
        raise InputError("there is no ledger", where=store, hint="name it with --db")
    anchor = Anchor(anchors) if anchors else None
    try:
        ledger = open_ledger(store, anchor=anchor)
    except StoreError as error:
        raise InputError(str(error), where="--db", hint="check the address") from error
    try:
        with contextlib.closing(ledger):
            yield ledger
    except StoreError as error:
        raise LedgerFailed(f"--db: {error}") from error
    if anchor is not None:
        anchor.check()


def verdicts(yes: list[str]) -> Mapping[Effect, Verdict]:
    """Return what happens to each effect class: pure runs, `--yes` classes run, the rest asks."""
    from callmemaybe.gateway import Verdict
    from callmemaybe.tools import Effect

    wanted = {part.strip() for text in yes for part in text.split(",") if part.strip()}
    known = {effect.value for effect in Effect}
    if "all" in wanted:
        wanted = known
    unknown = wanted - known
    if unknown:
        raise InputError(
            f"there is no effect class {min(unknown)!r}",
            where="--yes",
            hint=f"use all, or some of {', '.join(sorted(known))}",
        )
    allowed = wanted | {"pure"}
    return {effect: Verdict.ALLOW if effect.value in allowed else Verdict.ASK for effect in Effect}


def read_secrets(path: Path | None) -> dict[str, str]:
    """Read a JSON object of secrets by name."""
    if path is None:
        return {}
    document = _json(path, plain_number)
    value = document.value
    if not isinstance(value, dict) or not all(isinstance(one, str) for one in value.values()):
        raise InputError("an object of strings is expected", where=document.place())
    return value


def _json(path: Path, number: Callable[[str], object]) -> Document:
    return read(read_text(path), source=source(path), number=number)


def _usual(digits: str) -> int | float:
    """Return a number as a tool's definition has it: it is hashed, which takes no decimals."""
    value = plain_number(digits)
    return float(value) if isinstance(value, Decimal) else value


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", where=str(path)) from None
