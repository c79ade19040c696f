"""Renders a model's chat template where it can do no harm: in a child process with limits.

A template is a program that came with the weights. Jinja's sandbox keeps it from files and from Python's
insides, but not from ``{% for %}`` over a billion numbers, ``'a' * 10**12`` or a filter that pads to a
gigabyte, and some of that happens while it is compiled. So it is compiled and rendered in one child of
this process, which has an empty environment, so much memory and so much time; a child that passes a
limit is killed, and the next template gets a new one. This file is also the child's program.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import json
import os
import subprocess
import sys
import threading
from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any, BinaryIO

#: Seconds for one template, compiling included; bytes of address space; characters of a prompt.
SECONDS, MEMORY, CHARACTERS = 10.0, 1 << 30, 1 << 24


class RenderingError(Exception):
    """The template failed, or passed a limit; the message says which."""


class Renderer:
    """The parent's side: starts a child when one is needed, and asks it. For any number of threads."""

    def __init__(self, seconds: float = SECONDS, memory: int = MEMORY) -> None:
        self._limits = {"seconds": seconds, "memory": memory, "characters": CHARACTERS}
        self._lock = threading.Lock()
        self._child: subprocess.Popen[bytes] | None = None
        self._owner = 0
        self._mark = ""

    def check(self, source: str, names: Mapping[str, str]) -> None:
        """Compile a template. Raises RenderingError if it is not valid Jinja or passes a limit."""
        self._ask({"source": source, "names": dict(names)})

    def render(self, source: str, names: Mapping[str, str], given: Mapping[str, Any]) -> str:
        """Return what the template writes for the variables ``given`` (JSON values, and Decimal).

        ``names`` are texts it may call by name everywhere. Raises RenderingError.
        """
        answer = self._ask({"source": source, "names": dict(names), "given": given})
        return str(answer["text"])

    def close(self) -> None:
        """End the child."""
        with self._lock:
            self._end()

    def _ask(self, request: Mapping[str, Any]) -> dict[str, Any]:
        with self._lock:
            try:
                answer = self._exchange(request)
            except RenderingError:
                raise
            except BaseException:
                # A signal's handler may raise anywhere: what the child still has to say to this request
                # would be taken for its answer to the next one.
                self._end()
                raise
            if answer.get("spent"):
                self._end()
        if "error" in answer:
            raise RenderingError(str(answer["error"]))
        return answer

    def _exchange(self, request: Mapping[str, Any]) -> dict[str, Any]:
        child = self._living()
        try:
            body = json.dumps(request, default=self._tagged).encode()
        except (TypeError, ValueError, RecursionError) as error:
            raise RenderingError(f"it cannot be given these values: {error}") from None
        late = threading.Event()
        timer = threading.Timer(self._limits["seconds"], _kill, (child, late))
        timer.start()
        try:
            assert child.stdin is not None
            assert child.stdout is not None
            _write(child.stdin, body)
            answer: dict[str, Any] | None = _read(child.stdout)
        except OSError:
            answer = None
        finally:
            timer.cancel()
        if answer is None:
            self._end()
            raise RenderingError(
                f"it took longer than {self._limits['seconds']:g} s"
                if late.is_set()
                else "the process that renders it was ended; it may need too much memory"
            )
        return answer

    def _living(self) -> subprocess.Popen[bytes]:
        """Return the child; a fork of this process gets one of its own."""
        if self._child is not None and self._owner == os.getpid() and self._child.poll() is None:
            return self._child
        if self._owner == os.getpid():
            self._end()
        try:
            self._child = subprocess.Popen(
                [sys.executable, "-I", "-X", "utf8", str(Path(__file__).resolve())],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env={},
                cwd=os.path.abspath(os.sep),
                process_group=0,  # Ctrl-C at a terminal is for this process alone
            )
        except OSError as error:
            raise RenderingError(f"no process could be started to render it: {error}") from error
        self._owner, self._mark = os.getpid(), os.urandom(8).hex()
        setup = {"path": sys.path, "mark": self._mark, **self._limits}
        assert self._child.stdin is not None
        with contextlib.suppress(OSError):
            _write(self._child.stdin, json.dumps(setup).encode())
        return self._child

    def _tagged(self, value: Any) -> Any:
        """Send a decimal number digit by digit; its mark is of this child alone."""
        if isinstance(value, Decimal):
            return {self._mark: str(value)}
        if isinstance(value, Mapping):
            return dict(value)
        raise TypeError(f"{type(value).__name__} is no JSON value")

    def _end(self) -> None:
        child, self._child = self._child, None
        if child is None or self._owner != os.getpid():
            return
        child.kill()
        for pipe in (child.stdin, child.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()
        child.wait()


@functools.cache
def shared() -> Renderer:
    """Return the one renderer of this process; its child ends with it."""
    made = Renderer()
    atexit.register(made.close)
    return made


def _kill(child: subprocess.Popen[bytes], late: threading.Event) -> None:
    late.set()
    child.kill()


def _write(stream: Any, body: bytes) -> None:
    stream.write(len(body).to_bytes(8, "big") + body)
    stream.flush()


def _read(stream: Any) -> Any:
    """Return the next frame, or None at the end of the stream."""
    head = stream.read(8)
    if len(head) < 8:
        return None
    size = int.from_bytes(head, "big")
    body = stream.read(size)
    return json.loads(body) if len(body) == size else None


# --- the child --------------------------------------------------------------------------------


def _serve() -> None:
    requests: BinaryIO = os.fdopen(os.dup(0), "rb")
    replies: BinaryIO = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    setup = _read(requests)
    if setup is None:
        return
    sys.path[:] = setup["path"]
    import jinja2.sandbox  # noqa: F401 - before the memory is limited

    _limit(setup["memory"])
    mark = setup["mark"]

    def untagged(value: dict[str, Any]) -> Any:
        return Decimal(value[mark]) if len(value) == 1 and mark in value else value

    while True:
        head = requests.read(8)
        if len(head) < 8:
            return
        body = requests.read(int.from_bytes(head, "big"))
        _more_cpu(setup["seconds"])
        _write(replies, json.dumps(_answer(body, untagged, setup["characters"])).encode())


def _answer(body: bytes, untagged: Any, characters: int) -> dict[str, Any]:
    try:
        request = json.loads(body, object_hook=untagged)
        template = _compiled(request["source"], tuple(sorted(request["names"].items())))
        if "given" not in request:
            return {}
        text = template.render(request["given"])
    except MemoryError:
        return {"error": "it needs more memory than it may have", "spent": True}
    except Exception as error:
        return {"error": str(error)[:2000] or type(error).__name__}
    if len(text) > characters:
        return {"error": f"it writes more than {characters} characters", "spent": True}
    return {"text": text}


@functools.lru_cache(maxsize=32)
def _compiled(source: str, names: tuple[tuple[str, str], ...]) -> Any:
    """Compile a template for Jinja's sandbox, with what chat templates expect to find."""
    import jinja2
    from jinja2.ext import Extension
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    class GenerationTag(Extension):
        """``{% generation %}`` marks what a model was trained to write; it is no more than what is inside."""

        tags = {"generation"}  # noqa: RUF012 - as its base class declares it

        def parse(self, parser: Any) -> Any:
            next(parser.stream)
            return parser.parse_statements(("name:endgeneration",), drop_needle=True)

    def refuse(message: str) -> Any:
        raise jinja2.TemplateError(message)

    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols", GenerationTag]
    )
    environment.filters["tojson"] = _tojson
    environment.globals.update({"bos_token": "", "eos_token": "", **dict(names)})
    # A template that asks for today gets a fixed day, so that prompts can be kept.
    environment.globals["strftime_now"] = lambda _layout: "26 Jul 2024"
    environment.globals["raise_exception"] = refuse
    return environment.from_string(source)


def _tojson(value: Any, ensure_ascii: bool = False, **layout: Any) -> str:
    """Write JSON as templates expect it: not escaped for HTML, unlike Jinja's own filter."""
    from callmemaybe.jsonio import dumps

    text = dumps(value)
    if not ensure_ascii and not any(layout.values()):
        return text
    return json.dumps(json.loads(text), ensure_ascii=ensure_ascii, **layout)


def _limit(memory: int) -> None:
    """Limit the address space; no file may be written and no process started."""
    try:
        import resource
    except ImportError:  # pragma: no cover - Windows: the parent's clock remains
        return
    for what, value in ((resource.RLIMIT_AS, memory), (resource.RLIMIT_CORE, 0)):
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(what, (value, value))
    for what in (resource.RLIMIT_FSIZE, resource.RLIMIT_NPROC):
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(what, (0, 0))


def _more_cpu(seconds: float) -> None:
    """Allow so much more processor time: an orphan must not go on for ever."""
    try:
        import resource
    except ImportError:  # pragma: no cover - Windows
        return
    used = resource.getrusage(resource.RUSAGE_SELF)
    allowed = int(used.ru_utime + used.ru_stime + seconds) + 2
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_CPU, (allowed, resource.RLIM_INFINITY))


if __name__ == "__main__":
    _serve()
