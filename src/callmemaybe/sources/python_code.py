"""Tools in Python: a file or a module, which is imported."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import TypeVar

from callmemaybe.errors import InputError
from callmemaybe.sources.source import LoadedSource, NameFilter
from callmemaybe.sources.texts import is_file

T = TypeVar("T")


def read_python_file(path: Path, names: NameFilter) -> LoadedSource:
    """Return the tools of a Python file. Raises InputError if it cannot be imported, or defines none."""
    if not is_file(path):
        reason = "is a folder" if path.is_dir() else "no such file"
        raise InputError(reason, where=str(path), hint="check the path")
    name = path.stem
    spec = importlib.util.spec_from_file_location(name, path.resolve())
    if spec is None or spec.loader is None:
        raise InputError("not a Python file", where=str(path))
    module = importlib.util.module_from_spec(spec)
    loader = spec.loader
    sys.modules.setdefault(name, module)
    sys.path.insert(0, str(path.resolve().parent))
    _import(lambda: loader.exec_module(module), str(path))
    return _tools(module, names, str(path))


def read_python_module(name: str, names: NameFilter) -> LoadedSource:
    """Return the tools of a module, which may lie in the current folder."""
    here = str(Path.cwd())
    if here not in sys.path and "" not in sys.path:
        sys.path.insert(0, here)
    try:
        if importlib.util.find_spec(name) is None:
            raise ModuleNotFoundError(name=name)
    except (ModuleNotFoundError, ValueError) as error:
        if isinstance(error, ModuleNotFoundError) and error.name not in _parents(name):
            raise InputError(f"cannot be imported ({error})", where=name) from error
        raise InputError(
            "there is neither such a file nor such a Python module", where=name,
            hint="check the name",
        ) from None  # fmt: skip
    except Exception as error:
        raise _failure(error, name) from error
    return _tools(_import(lambda: importlib.import_module(name), name), names, name)


def _parents(name: str) -> set[str | None]:
    parts = name.split(".")
    return {".".join(parts[:end]) for end in range(1, len(parts) + 1)}


def _import(work: Callable[[], T], where: str) -> T:
    try:
        return work()
    except InputError:
        raise
    except SystemExit as error:
        raise InputError(
            f"it ends the program while it is imported (sys.exit({error.code!r}))", where=where,
            hint='put that under `if __name__ == "__main__":`',
        ) from error  # fmt: skip
    except Exception as error:
        raise _failure(error, where) from error


def _failure(error: Exception, where: str) -> InputError:
    line = f" in line {error.lineno}" if isinstance(error, SyntaxError) and error.lineno else ""
    return InputError(f"cannot be imported{line} ({type(error).__name__}: {error})", where=where)


def _tools(module: ModuleType, names: NameFilter, where: str) -> LoadedSource:
    from callmemaybe.tools import tools_from

    try:
        found = tools_from(module)
    except InputError as error:
        place = where if error.where == f"module {module.__name__}" else f"{where}: {error.where}"
        raise InputError(error.message, where=place, hint=error.hint) from None
    return LoadedSource([tool for tool in found if names.wants(tool.name)])
