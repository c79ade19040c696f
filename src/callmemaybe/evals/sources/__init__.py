"""Published sets of cases, one file each: ``SOURCE`` reads a folder into cases.

For measuring only: nothing read here may be trained on or tuned to.
"""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

from callmemaybe import plugins
from callmemaybe.errors import InputError
from callmemaybe.evals.case import Case

CaseReader = Callable[[Path], list[Case]]

#: What reading raises where a file has another form, or ends in the middle of its packed bytes.
_NOT_AS_EXPECTED = (
    ValueError,
    LookupError,
    TypeError,
    AttributeError,
    EOFError,
    RecursionError,
    zlib.error,
)


def names() -> tuple[str, ...]:
    """Return the names of all sources."""
    return plugins.names(__name__)


def read(name: str, path: Path) -> list[Case]:
    """Return the cases of a set that lies at ``path``.

    Raises InputError for a name that is unknown, and for files that are missing or not as expected.
    """
    source = cast("CaseReader", plugins.load(__name__, name, "SOURCE"))
    try:
        return source(path)
    except OSError as error:
        where = str(error.filename or path)
        raise InputError(f"cannot be read: {error.strerror or error}", where=where) from error
    except _NOT_AS_EXPECTED as error:
        message = f"is no set of {name!r} ({type(error).__name__}: {error})"
        raise InputError(message, where=str(path)) from error


def read_json(path: Path) -> Any:
    """Return the value of a JSON file."""
    return json.loads(path.read_text(encoding="utf-8"))


def read_lines(path: Path) -> Iterator[Any]:
    """Yield the values of JSON lines, packed or not."""
    opener: Any = gzip.open if path.suffix == ".gz" else Path.open
    with opener(path, mode="rt", encoding="utf-8") as lines:
        for line in lines:
            if line.strip():
                yield json.loads(line)
