"""The worker process: a script that runs one tool at a time for the gateway.

It reads and writes frames: a length (4 bytes, big-endian) and JSON. Output that the tool prints goes to
standard error, because standard output carries the frames. The environment is what the tool declares. A
supervisor stands above it (``supervisor.py``), so that it and what it starts die with the gateway.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import json
import os
import sys
from collections.abc import Mapping
from typing import Any, BinaryIO

#: Whether this process is a worker that is importing a tool's module.
importing = False


def main() -> None:
    """Serve calls until the pipe closes."""
    _load_supervisor().supervise()
    requests = os.fdopen(os.dup(0), "rb")
    replies = os.fdopen(os.dup(1), "wb")
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.dup2(2, 1)
    setup = read_frame(requests)
    if setup is None:
        return
    sys.path[:] = setup["path"]
    _limit(setup["limits"])
    while (request := read_frame(requests)) is not None:
        write_frame(replies, _serve(request))


def read_frame(stream: BinaryIO) -> Any:
    """Return the next frame, or None at the end of the stream."""
    head = stream.read(4)
    if len(head) < 4:
        return None
    return json.loads(stream.read(int.from_bytes(head, "big")))


def write_frame(stream: BinaryIO, value: Any) -> None:
    """Write one frame."""
    stream.write(frame(value))
    stream.flush()


def frame(value: Any) -> bytes:
    """Return ``value`` as a frame."""
    body = json.dumps(value).encode()
    return len(body).to_bytes(4, "big") + body


def _serve(request: Mapping[str, Any]) -> dict[str, Any]:
    from callmemaybe.gateway.execution.completion import complete_result
    from callmemaybe.gateway.execution.outcome import (
        outcome_of_error,
        outcome_of_value,
        unsafe_sends,
    )
    from callmemaybe.tools.declare import Context

    unsafe_sends.set([])
    try:
        tool = _find(request["module"], request["file"], request["name"], request["secrets"])
        arguments = tool.bind(request["arguments"])
    except BaseException as error:
        return {"kind": "not_executed", "text": f"{type(error).__name__}: {error}"}
    arguments |= request["secrets"]
    arguments |= dict.fromkeys(tool.injected, Context(**request["context"]))
    try:
        value = complete_result(tool.call(arguments))
    except BaseException as error:  # Python would print it, with any secret in its text
        outcome = outcome_of_error(error)
        if _misses_variable(error):
            hint = "; the tool runs in a process, which has only the variables that it names"
            return {"kind": outcome.kind, "text": f"{outcome.text}{hint} (environment=[...])"}
    else:
        outcome = outcome_of_value(value, most=request["most"], depth=request["depth"])
    return {"kind": outcome.kind, "text": outcome.text}


def _misses_variable(error: BaseException) -> bool:
    """Whether a variable of the environment was asked for that is not there."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    frame = trace.tb_frame if trace is not None else None
    return (
        isinstance(error, KeyError)
        and frame is not None
        and isinstance(frame.f_locals.get("self"), type(os.environ))
    )


def _find(module: str, file: str, name: str, secrets: Mapping[str, str]) -> Any:
    """Import the tool's module, by its file if it was a script or is not on the path; return the tool."""
    from callmemaybe.tools.declare import Tool, make_tool

    loaded = sys.modules.get(f"__tool__{file}") or _imported(module, file)
    found: Any = loaded
    for part in name.split("."):
        found = found.__dict__[part] if isinstance(found, type) else getattr(found, part)
    if isinstance(found, staticmethod):
        found = found.__func__
    return found if isinstance(found, Tool) else make_tool(found, effect="pure", secrets=secrets)


def _imported(module: str, file: str) -> Any:
    """Import a module with ``importing`` set, so that Gateway.run refuses to run calls in it."""
    # This file is __main__ here; the gateway reads the flag of the imported copy.
    known = importlib.import_module("callmemaybe.gateway.execution.worker")
    known.importing = True  # type: ignore[attr-defined]
    try:
        return _import(module, file)
    finally:
        known.importing = False  # type: ignore[attr-defined]


def _import(module: str, file: str) -> Any:
    if module != "__main__":
        with contextlib.suppress(ImportError):
            loaded = importlib.import_module(module)
            if os.path.realpath(getattr(loaded, "__file__", None) or "") == os.path.realpath(file):
                return loaded
    spec = importlib.util.spec_from_file_location(f"__tool__{file}", file)
    if spec is None or spec.loader is None:
        raise ImportError(f"{file} cannot be imported")
    loaded = importlib.util.module_from_spec(spec)
    sys.modules[f"__tool__{file}"] = loaded
    spec.loader.exec_module(loaded)
    return loaded


def _limit(limits: Mapping[str, int | None]) -> None:
    try:
        import resource
    except ImportError:  # pragma: no cover - Windows
        return
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    for name, what in (
        ("memory", resource.RLIMIT_AS),
        ("cpu", resource.RLIMIT_CPU),
        ("file_size", resource.RLIMIT_FSIZE),
        ("open_files", resource.RLIMIT_NOFILE),
    ):
        value = limits.get(name)
        if value is not None:
            with contextlib.suppress(ValueError, OSError):  # already below it
                resource.setrlimit(what, (value, value))


def _load_supervisor() -> Any:
    """Return the supervisor's module, by its file: the package is not on the path yet."""
    path = os.path.join(os.path.dirname(os.path.realpath(__file__)), "supervisor.py")
    spec = importlib.util.spec_from_file_location("supervisor", path)
    assert spec is not None
    assert spec.loader is not None
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return loaded


if __name__ == "__main__":
    main()
