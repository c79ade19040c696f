"""Reads texts: of a file, of standard input, of an address; every error names which."""

from __future__ import annotations

import sys
from pathlib import Path

from callmemaybe.errors import InputError

#: The largest document that is fetched, in bytes, and the most seconds that it may take.
MAX_FETCHED, FETCH_SECONDS = 64 << 20, 60.0


def is_standard(path: Path) -> bool:
    """Whether ``path`` is "-": standard input where it is read, standard output where it is written."""
    return str(path) == "-"


def source_name(path: Path) -> str:
    """Return the name of ``path`` in messages about reading it."""
    return "standard input" if is_standard(path) else str(path)


def is_file(path: Path) -> bool:
    """Whether there is such a file; raise InputError for a path that cannot be looked at."""
    try:
        return path.is_file()
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise InputError(f"cannot be read: {reason}", where=str(path)) from None


def read_text(path: Path) -> str:
    """Return the text of a UTF-8 file (a byte order mark is dropped); "-" is standard input.

    Raises InputError: missing, a folder, unreadable, empty, or not UTF-8 (naming the line).
    """
    where = source_name(path)
    try:
        data = sys.stdin.buffer.read() if is_standard(path) else path.read_bytes()
    except FileNotFoundError:
        raise InputError("no such file", where=where, hint="check the path") from None
    except IsADirectoryError:
        raise InputError("is a folder", where=where, hint="name a file in it") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise InputError(f"cannot be read: {reason}", where=where) from error
    return decoded(data, where)


def decoded(data: bytes, where: str) -> str:
    """Return bytes as text (a byte order mark is dropped); raise InputError if they are none in UTF-8."""
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise InputError("is UTF-16, not UTF-8", where=where, hint="save it as UTF-8")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise InputError(
            f"byte 0x{data[error.start]:02x} is not UTF-8",
            where=f"{where}:{line}",
            hint="save the file as UTF-8",
        ) from None
    if not text.strip():
        problem = "nothing was read" if where == "standard input" else "the file is empty"
        raise InputError(problem, where=where)
    return text


def fetch_text(address: str, *, allow_private: bool) -> str:
    """Return the text at an address; raise InputError for one that may not be fetched or does not answer."""
    from callmemaybe.gateway.http import HttpTransport
    from callmemaybe.sources.background import BackgroundLoop
    from callmemaybe.tools.openapi import HttpRequest

    schemes = frozenset({"https", "http"} if allow_private else {"https"})
    transport = HttpTransport(
        schemes=schemes, private=allow_private, most=MAX_FETCHED, timeout=FETCH_SECONDS
    )
    accept = "application/json, application/yaml, text/yaml, */*;q=0.5"

    async def fetch() -> bytes:
        reply = await transport(HttpRequest("GET", address, {"accept": accept}))
        if not 200 <= reply.status < 300:
            raise InputError(f"the server answers with HTTP {reply.status}", where=address)
        return reply.body

    background = BackgroundLoop()
    try:
        data = background.run(fetch())
    except InputError:
        raise
    except Exception as error:
        relaxes = not allow_private and ("private" in str(error) or "not allowed" in str(error))
        raise InputError(
            f"cannot be fetched: {str(error) or type(error).__name__}",
            where=address,
            hint="for a service of your own network: --allow-private (allow_private=True)"
            if relaxes
            else None,
        ) from error
    finally:
        background.close()
    return decoded(data, address)
