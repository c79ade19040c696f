"""Reads what the gateway's commands are given: a file of tools, a file of calls, a ledger's address."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from callmemaybe.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from callmemaybe.calls import Effect, Tool, ToolCall
    from callmemaybe.gateway import Verdict
    from callmemaybe.gateway.ledger import Ledger

DEFAULT_LEDGER = "callmemaybe.db"


def load_tools(path: Path) -> list[Tool]:
    """Import a Python file and return its tools, or read an OpenAPI document (.json).

    Raises InputError if it cannot be read or imported, or offers no tools.
    """
    from callmemaybe.calls import tools_from

    if not path.is_file():
        raise InputError("there is no such file", where=str(path))
    if path.suffix == ".json":
        from callmemaybe.gateway.http import HttpTransport

        return tools_from(_json(path), transport=HttpTransport())
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
    """Read a list of calls: ``{"name", "arguments", "id"}`` or OpenAI's ``tool_calls``."""
    from callmemaybe.calls import ToolCall

    listed = _json(path)
    if not isinstance(listed, list):
        raise InputError("a list of calls is expected", where=str(path))
    calls = []
    for place, value in enumerate(listed):
        where = f"{path}: /{place}"
        if not isinstance(value, dict):
            raise InputError("a call must be an object", where=where)
        inner = value.get("function", value)
        name = inner.get("name") if isinstance(inner, dict) else None
        if not isinstance(name, str):
            raise InputError("the call has no name", where=where, hint='add a "name"')
        arguments = inner.get("arguments", inner.get("parameters", {}))
        if not isinstance(arguments, str):
            arguments = json.dumps(arguments, ensure_ascii=False)
        calls.append(ToolCall(name, arguments, str(value.get("id", place))))
    return calls


def open_named(store: str, anchors: Path | None = None, *, create: bool = False) -> Ledger:
    """Open a ledger by its address; an existing one unless ``create``."""
    from callmemaybe.gateway.audit import open_ledger
    from callmemaybe.gateway.verify import file_anchor

    if not create and "://" not in store and not Path(store).is_file():
        raise InputError("there is no ledger", where=store, hint="name it with --db")
    return open_ledger(store, anchor=file_anchor(anchors) if anchors else None)


def verdicts(yes: list[str]) -> Mapping[Effect, Verdict]:
    """Return what happens to each effect class: pure runs, `--yes` classes run, the rest asks."""
    from callmemaybe.calls import Effect
    from callmemaybe.gateway import Verdict

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
    value = _json(path)
    if not isinstance(value, dict) or not all(isinstance(one, str) for one in value.values()):
        raise InputError("an object of strings is expected", where=str(path))
    return value


def _json(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", where=str(path)) from None
    except ValueError as error:
        raise InputError(f"not valid JSON: {error}", where=str(path)) from None
