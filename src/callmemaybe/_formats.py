"""Finds a wire format by name, or by the path of a Python or TOML file of a user's own."""

from __future__ import annotations

import runpy
import tomllib
from pathlib import Path

from callmemaybe.errors import InputError
from callmemaybe.wire import Format, formats
from callmemaybe.wire.declared import from_mapping


def find(name: str) -> Format:
    """Return the format ``name``: one of the registry, or a file that ends in .py or .toml.

    A Python file is run and carries the constant ``FORMAT``; a TOML file is declared as
    :mod:`callmemaybe.wire.declared` says. Raises InputError for what is no format.
    """
    path = Path(name)
    if path.suffix == ".toml":
        try:
            data = tomllib.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise InputError(f"this format cannot be read: {error}", where=name) from None
        return from_mapping(data, name)
    if path.suffix != ".py":
        return formats.get(name)
    if not path.is_file():
        raise InputError("there is no such file", where=name)
    try:
        found = runpy.run_path(name).get("FORMAT")
    except Exception as error:
        raise InputError(f"it fails when it is run: {error!r}", where=name) from error
    if not isinstance(found, Format):
        raise InputError("it has no constant FORMAT that is a Format", where=name)
    return found
