"""The prompts of a batch, one after the other: read from JSON lines as they are needed, or from a list.

A row is a line that is not blank, or an item of a list. What is wrong with a row becomes the row's problem:
one bad line among ten million is a failure of its own, and no reason to stop. Memory does not grow with the
file; a line or a prompt that is too long is not read to its end.
"""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Protocol

from callmemaybe.errors import InputError
from callmemaybe.jsonio import dumps, loads, read
from callmemaybe.sources.texts import is_standard, source_name

#: The most characters of a prompt, and the most bytes of a line of prompts. A model reads some thousand tokens.
MAX_PROMPT = 1_000_000
MAX_LINE = 16 << 20
#: Bytes at the beginning and before a place that identify a file.
_SAMPLE = 64 << 10
_SKIPPED_AT_ONCE = 1 << 20


@dataclass(frozen=True, slots=True)
class PromptPlace:
    """A place between two rows: the rows, bytes (or items) and lines before it."""

    rows: int = 0
    offset: int = 0
    line: int = 0


@dataclass(frozen=True, slots=True)
class PromptRow:
    """A prompt, or the ``problem`` why there is none; ``id`` is the row's own, as JSON text."""

    index: int
    prompt: str
    problem: str | None = None
    id: str | None = None
    end: PromptPlace = field(default_factory=PromptPlace)


class PromptSource(Protocol):
    """Where the prompts of a batch come from."""

    @property
    def size(self) -> int | None:
        """The offset of the end; None if it is unknown."""
        ...

    def rows(self, start: PromptPlace) -> Iterator[PromptRow]:
        """Yield the rows from a place on."""
        ...

    def fingerprint(self, place: PromptPlace) -> str | None:
        """Return what identifies the prompts before a place; None if they cannot be read again."""
        ...


class _TooLong(InputError):
    """A row has more characters than a prompt may have."""


def length_problem(prompt: str) -> str | None:
    """Return what is wrong with the length of a prompt."""
    if len(prompt) <= MAX_PROMPT:
        return None
    return f"the prompt has {len(prompt):,} characters; the most are {MAX_PROMPT:,}"


class PromptList:
    """Prompts that are in memory already."""

    def __init__(self, prompts: Sequence[str]) -> None:
        self._prompts = prompts

    @property
    def size(self) -> int:
        """How many prompts there are."""
        return len(self._prompts)

    def rows(self, start: PromptPlace) -> Iterator[PromptRow]:
        """Yield the rows from a place on."""
        for index in range(start.rows, len(self._prompts)):
            prompt = self._prompts[index]
            end = PromptPlace(index + 1, index + 1, index + 1)
            yield PromptRow(index, prompt, length_problem(prompt), end=end)

    def fingerprint(self, place: PromptPlace) -> str:
        """Return a hash of the prompts before a place."""
        digest = hashlib.sha256()
        for prompt in self._prompts[: place.rows]:
            digest.update(dumps(prompt).encode() + b"\n")
        return digest.hexdigest()


class PromptLines:
    """Prompts in JSON lines: strings, or objects that hold one under ``key``.

    The first row is read at once: a file that holds something else is refused. Raises InputError.
    """

    def __init__(self, path: Path, key: str = "prompt") -> None:
        self._path, self._key = path, key
        self._name = source_name(path)
        self._can_seek = not is_standard(path) and path.is_file()
        self._stream = sys.stdin.buffer if is_standard(path) else _opened(path)
        self._read = self._rows(self._stream, PromptPlace())
        try:
            self._last = self._checked_first()
        finally:
            if self._can_seek:
                self._stream.close()

    @property
    def size(self) -> int | None:
        """The bytes of the file now; None for a pipe."""
        return self._path.stat().st_size if self._can_seek else None

    def rows(self, start: PromptPlace) -> Iterator[PromptRow]:
        """Yield the rows from a place on; of a pipe, those before it are read and skipped."""
        if not self._can_seek:
            yield from self._from_pipe(start)
            return
        with _opened(self._path) as stream:
            stream.seek(start.offset)
            for row, _ in self._rows(stream, start):
                yield row

    def fingerprint(self, place: PromptPlace) -> str | None:
        """Return a hash of the beginning of the file and of what stands before a place."""
        return file_fingerprint(self._path, place.offset) if self._can_seek else None

    def _from_pipe(self, start: PromptPlace) -> Iterator[PromptRow]:
        # The row that was read last may be asked for once more.
        if self._last.index >= start.rows:
            yield self._last
        for row, _ in self._read:
            self._last = row
            if row.index >= start.rows:
                yield row

    def _checked_first(self) -> PromptRow:
        row, error = next(self._read, (None, None))
        if row is None:
            problem = "nothing was read" if is_standard(self._path) else "the file is empty"
            raise InputError(problem, where=self._name)
        if error is not None and not isinstance(error, _TooLong):
            raise error
        return row

    def _rows(
        self, stream: IO[bytes], start: PromptPlace
    ) -> Iterator[tuple[PromptRow, InputError | None]]:
        index, offset, number = start.rows, start.offset, start.line
        while True:
            try:
                data = stream.readline(MAX_LINE + 1)
                length = (
                    len(data) if len(data) <= MAX_LINE else len(data) + _skip_line(stream, data)
                )
            except OSError as error:
                raise InputError(f"cannot be read: {error.strerror}", where=self._name) from error
            if not data:
                return
            number, offset, begins = number + 1, offset + length, offset == 0
            if length <= MAX_LINE and not data.strip(b" \t\r\n"):
                continue
            end = PromptPlace(index + 1, offset, number)
            where = f"{self._name}:{number}"
            try:
                if length > MAX_LINE:
                    raise _TooLong(f"the line has more than {MAX_LINE >> 20} MiB", where=where)
                prompt, identity = self._parsed(data, where, number, begins=begins)
                yield PromptRow(index, prompt, id=identity, end=end), None
            except _BadRow as bad:
                yield PromptRow(index, "", str(bad.error), bad.identity, end), bad.error
            except InputError as error:
                yield PromptRow(index, "", str(error), end=end), error
            index += 1

    def _parsed(
        self, data: bytes, where: str, number: int, *, begins: bool
    ) -> tuple[str, str | None]:
        """Return the prompt of a line and the id beside it; raises InputError or _BadRow."""
        if begins and data.startswith((b"\xff\xfe", b"\xfe\xff")):
            raise InputError("is UTF-16, not UTF-8", where=self._name, hint="save it as UTF-8")
        try:
            text = data.decode("utf-8-sig" if begins else "utf-8").rstrip("\r\n")
        except UnicodeDecodeError as error:
            raise InputError(
                f"byte 0x{data[error.start]:02x} is not UTF-8", where=where, hint="save it as UTF-8"
            ) from None
        try:
            value = loads(text, strict=True)
        except InputError:
            # The reader with places says better what is wrong.
            value = read(text, source=self._name, first_line=number).value
        identity = None
        if isinstance(value, dict):
            if "id" in value:
                identity = dumps(value["id"])
            if self._key not in value:
                raise _BadRow(_missing_key(value, self._key, where), identity)
            value = value[self._key]
        if not isinstance(value, str):
            problem = "the prompt is not a string"
            raise _BadRow(InputError(problem, where=where, hint="write it in quotes"), identity)
        if (problem := length_problem(value)) is not None:  # type: ignore[assignment]
            raise _BadRow(_TooLong(problem, where=where), identity)
        return value, identity


class _BadRow(Exception):
    """A row with an id has no prompt."""

    def __init__(self, error: InputError, identity: str | None) -> None:
        super().__init__(str(error))
        self.error, self.identity = error, identity


def _missing_key(value: dict[str, object], key: str, where: str) -> InputError:
    keys = ", ".join(f'"{name}"' for name in list(value)[:5]) or "nothing"
    return InputError(
        f'the object has no "{key}", but {keys}', where=where, hint="name the key with --prompt-key"
    )


def _skip_line(stream: IO[bytes], data: bytes) -> int:
    """Read to the end of a line without keeping it; return how many bytes that were."""
    skipped = 0
    while data and not data.endswith(b"\n"):
        data = stream.readline(_SKIPPED_AT_ONCE)
        skipped += len(data)
    return skipped


def _opened(path: Path) -> IO[bytes]:
    try:
        return path.open("rb", buffering=1 << 20)
    except FileNotFoundError:
        raise InputError("no such file", where=str(path), hint="check the path") from None
    except IsADirectoryError:
        raise InputError("is a folder", where=str(path), hint="name a file in it") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise InputError(f"cannot be read: {reason}", where=str(path)) from error


def file_fingerprint(path: Path, end: int) -> str | None:
    """Return a hash of the beginning of a file and of what stands before ``end``; None if it is shorter."""
    digest = hashlib.sha256(str(end).encode())
    try:
        with path.open("rb") as file:
            if os.fstat(file.fileno()).st_size < end:
                return None
            digest.update(file.read(min(_SAMPLE, end)))
            file.seek(max(0, end - _SAMPLE))
            digest.update(file.read(min(_SAMPLE, end)))
    except OSError:
        return None
    return digest.hexdigest()


def open_prompts(path: Path, key: str, read_whole: Callable[[Path], list[str]]) -> PromptSource:
    """Return the prompts of a file: line by line, unless it is a list or small and not named as lines.

    ``read_whole`` reads such a file. Raises InputError.
    """
    if is_standard(path):
        peek = getattr(sys.stdin.buffer, "peek", None)
        is_list = peek is None or peek(1).lstrip()[:1] == b"["
        return PromptList(read_whole(path)) if is_list else PromptLines(path, key)
    if path.suffix.lower() in {".jsonl", ".ndjson"} or not path.is_file():
        return PromptLines(path, key)
    with _opened(path) as file:
        head = file.read(1 << 20)
    is_list = head.removeprefix(b"\xef\xbb\xbf").lstrip()[:1] == b"["
    if is_list or len(head) < 1 << 20:
        return PromptList(read_whole(path))
    return PromptLines(path, key)
