"""Plug-ins: a folder is the registry of what it contains.

A module of the folder that defines the constant of that folder (``FORMAT``, ``MODEL``, ...) is an entry,
named after its file. Third parties add entries through the entry-point group named after the folder, for
example ``callmemaybe.wire.formats``. An entry is imported only when it is loaded.
"""

from __future__ import annotations

import importlib
import inspect
import logging
import pkgutil
import time
from collections.abc import Callable
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from callmemaybe.errors import InputError

_LOG = logging.getLogger("callmemaybe")
#: Seconds that an observer may hold its caller before that is logged.
_SLOW_OBSERVER = 0.5
#: What was logged of observers already: (observer, what is wrong with it).
_reported: set[tuple[str, str]] = set()


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


def notify(observer: Callable[..., object], *facts: Any, **more: Any) -> None:
    """Call an observer; whatever it does, its caller goes on.

    An exception, a coroutine in place of a plain function, and more than half a second are logged, once for each
    observer and kind.
    """
    began = time.monotonic()
    try:
        found = observer(*facts, **more)
    except Exception as error:
        _report(observer, f"raised {type(error).__name__}", error)
        return
    if inspect.iscoroutine(found):
        found.close()
        _report(observer, "is a coroutine function, and an observer is called, not awaited")
    elif (seconds := time.monotonic() - began) > _SLOW_OBSERVER:
        _report(
            observer, "blocks its caller", f"{seconds:.1f} s; let it hand over what it has to do"
        )


def _report(observer: Callable[..., object], what: str, detail: object = None) -> None:
    name = getattr(observer, "__qualname__", None) or type(observer).__qualname__
    if (name, what) in _reported:
        return
    _reported.add((name, what))
    cause = detail if isinstance(detail, Exception) else None
    said = f" ({detail})" if detail is not None else ""
    _LOG.error("the observer %s %s%s; what it observed went on", name, what, said, exc_info=cause)
