"""The folder is the registry: what a room offers is what its plug-in folder contains.

A module of the folder that carries the room's constant (``FORMAT``, ``MODEL``, ...) is an entry under
its own file name. Third parties add entries through the entry-point group named after the folder,
for example ``callmemaybe.wire.formats``. This module imports an entry only when it is asked for.
"""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache
from importlib.metadata import EntryPoint, entry_points

from callmemaybe.errors import InputError


def names(package: str) -> tuple[str, ...]:
    """Names of all entries of the folder ``package`` (a dotted name), sorted; imports none of them."""
    return tuple(sorted({*_own(package), *_foreign(package)}))


def load(package: str, name: str, constant: str) -> object:
    """Import entry ``name`` of the folder ``package`` and return its ``constant``.

    A file of the folder wins over a third party's entry point of the same name. An entry point
    may refer to the object itself or to a module that carries the constant.
    Raises InputError when there is no such entry.
    """
    if name in _own(package):
        return getattr(importlib.import_module(f"{package}.{name}"), constant)
    found = _foreign(package).get(name)
    if found is None:
        raise InputError(
            f"there is no {name!r}",
            where=package.removeprefix("callmemaybe."),
            hint=f"use one of {', '.join(names(package)) or 'none (the folder is empty)'}",
        )
    entry = found.load()
    return getattr(entry, constant, entry)


def forget() -> None:
    """Look again at the next question; for programs that install entries while they run."""
    _own.cache_clear()
    _foreign.cache_clear()


# What is installed does not change while a process lasts, and looking takes milliseconds.
@cache
def _own(package: str) -> frozenset[str]:
    folder = importlib.import_module(package)
    return frozenset(
        module.name for module in pkgutil.iter_modules(folder.__path__) if module.name[0] != "_"
    )


@cache
def _foreign(package: str) -> dict[str, EntryPoint]:
    return {entry.name: entry for entry in entry_points(group=package)}
