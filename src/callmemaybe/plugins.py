"""Plug-ins: a folder is the registry of what it contains.

A module of the folder that defines the constant of that folder (``FORMAT``, ``MODEL``, ...) is an entry,
named after its file. Third parties add entries through the entry-point group named after the folder, for
example ``callmemaybe.wire.formats``. An entry is imported only when it is loaded.
"""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache
from importlib.metadata import EntryPoint, entry_points

from callmemaybe.errors import InputError


def names(package: str) -> tuple[str, ...]:
    """Return the sorted names of the entries of the folder ``package`` (a dotted name); imports none."""
    return tuple(sorted({*_modules(package), *_entry_points(package)}))


def load(package: str, name: str, constant: str) -> object:
    """Import entry ``name`` of the folder ``package`` and return its ``constant``.

    A file of the folder takes precedence over an entry point of the same name. An entry point may refer
    to the object itself or to a module that defines the constant. Raises InputError if there is no such
    entry.
    """
    if name in _modules(package):
        return getattr(importlib.import_module(f"{package}.{name}"), constant)
    found = _entry_points(package).get(name)
    if found is None:
        raise InputError(
            f"there is no {name!r}",
            where=package.removeprefix("callmemaybe."),
            hint=f"use one of {', '.join(names(package)) or 'none (the folder is empty)'}",
        )
    entry = found.load()
    return getattr(entry, constant, entry)


def refresh() -> None:
    """Forget the cached names, for programs that install entries while they run."""
    _modules.cache_clear()
    _entry_points.cache_clear()


# What is installed seldom changes while a process runs, and listing it takes milliseconds.
@cache
def _modules(package: str) -> frozenset[str]:
    folder = importlib.import_module(package)
    return frozenset(
        module.name for module in pkgutil.iter_modules(folder.__path__) if module.name[0] != "_"
    )


@cache
def _entry_points(package: str) -> dict[str, EntryPoint]:
    return {entry.name: entry for entry in entry_points(group=package)}
