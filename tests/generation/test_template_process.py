"""A chat template is a program from elsewhere: what it may cost, and what it may reach."""

from __future__ import annotations

import os
import resource
import signal
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal

import pytest

from callmemaybe.generation.template_process import Renderer, RenderingError


@pytest.fixture(scope="module")
def renderer() -> Iterator[Renderer]:
    """A renderer that soon loses patience, but not before its process has started on a busy machine."""
    made = Renderer(seconds=3.0, memory=1 << 28)
    yield made
    made.close()


@pytest.mark.parametrize(
    "source",
    [
        "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}",
        "{{ 'a' * 10**12 }}",
        "{{ 'a'.center(10**9) }}",
        "{{ '%1000000000d' | format(1) }}",
        "{{ [1] | tojson(indent=10**9) }}",
        "{% set x = namespace(t='a') %}{% for i in [1] * 60 %}{% set x.t = x.t ~ x.t %}{% endfor %}",
        "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
        "{{ range(10**9) | list }}",
        "{% for i in range(99999) %}{{ 'a' * 999 }}{% endfor %}",
        "{{ 9**(9**9) }}",
        "(" * 10_000 + "{{ " + "(" * 10_000 + "1" + ")" * 10_000 + " }}",
    ],
    ids=[
        "nested loops",
        "multiplied at compile time",
        "padded",
        "formatted",
        "indented",
        "doubled",
        "recursive",
        "listed",
        "long",
        "power",
        "parentheses",
    ],
)
def test_a_template_has_limits(renderer: Renderer, source: str) -> None:
    """Time without end, memory without end: an error soon, and this process is as it was."""
    before, began = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.monotonic()
    with pytest.raises(RenderingError):
        renderer.render(source, {}, {})
    assert time.monotonic() - began < 30
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 64 * 1024
    assert renderer.render("{{ x }}", {}, {"x": 1}) == "1"


def test_the_child_knows_nothing_of_its_parent(monkeypatch: pytest.MonkeyPatch) -> None:
    """No environment, no file and no inside of Python is in reach of a template."""
    monkeypatch.setenv("CANARY", "canary-9")
    fresh = Renderer(seconds=5.0)
    for source in (
        "{{ cycler.__init__.__globals__.os.environ }}",
        "{{ ().__class__.__base__.__subclasses__() }}",
        "{% include '/etc/passwd' %}",
        "{{ self._TemplateReference__context.environment.loader.x.y }}",
    ):
        with pytest.raises(RenderingError):
            fresh.render(source, {}, {})
    child = fresh._child
    assert child is not None
    with open(f"/proc/{child.pid}/environ", "rb") as environment:
        assert b"canary-9" not in environment.read()
    fresh.close()


def test_numbers_arrive_digit_by_digit(renderer: Renderer) -> None:
    """A decimal number is not rounded on its way; what looks like its tag is left alone."""
    given = {"x": Decimal("1.50"), "y": 2**70, "z": {"decimal": "1"}}
    assert renderer.render("{{ x }} {{ y }} {{ z.decimal }}", {}, given) == f"1.50 {2**70} 1"
    assert renderer.render("{{ x | tojson }}", {}, given) == "1.50"


def test_threads_and_forks_share_nothing_by_accident(renderer: Renderer) -> None:
    """Each thread gets its own answer; a fork of this process gets a child of its own."""
    with ThreadPoolExecutor(8) as pool:
        texts = pool.map(lambda n: renderer.render("{{ n }}", {}, {"n": n}), range(100))
    assert list(texts) == [str(n) for n in range(100)]
    fork = os.fork()
    if fork == 0:  # pragma: no cover - the child
        code = 1
        try:
            code = int(renderer.render("{{ n }}", {}, {"n": 7}) != "7")
            renderer.close()
        finally:
            os._exit(code)
    assert os.waitpid(fork, 0)[1] == 0
    assert renderer.render("{{ n }}", {}, {"n": 8}) == "8"


def test_a_child_that_is_gone_is_replaced(renderer: Renderer) -> None:
    """Whoever ends the child, the next template is rendered by another."""
    renderer.render("", {}, {})
    assert renderer._child is not None
    renderer._child.kill()
    renderer._child.wait()
    assert renderer.render("{{ n }}", {}, {"n": 1}) == "1"


def test_an_interrupted_request_is_nobody_elses_answer() -> None:
    """Law: a signal that breaks one off changes no later prompt, and Ctrl-C does not reach the child."""

    def interrupt(_number: int, _frame: object) -> None:
        raise KeyboardInterrupt

    fresh = Renderer(seconds=20.0)
    assert fresh.render("{{ x }}", {}, {"x": "warm"}) == "warm"
    slow = "{% for i in range(9999) %}{% for j in range(999) %}{% endfor %}{% endfor %}{{ x }}"
    main = threading.main_thread().ident
    assert main is not None
    before = signal.signal(signal.SIGUSR1, interrupt)
    timer = threading.Timer(0.1, signal.pthread_kill, (main, signal.SIGUSR1))
    try:
        timer.start()
        with pytest.raises(KeyboardInterrupt):
            fresh.render(slow, {}, {"x": "first"})
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert [fresh.render("{{ x }}", {}, {"x": x}) for x in "ab"] == ["a", "b"]
    assert fresh._child is not None
    assert os.getpgid(fresh._child.pid) != os.getpgid(0)
    fresh.close()


def test_without_a_process_nothing_is_rendered(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where no process can be started the error says so; no template runs in this one instead."""
    monkeypatch.setattr("sys.executable", "/nowhere/python")
    with pytest.raises(RenderingError, match="no process could be started"):
        Renderer().render("x", {}, {})


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("a{% generation %}{{ x }}{% endgeneration %}b", "a1b"),
        ("a {%- generation -%} b {%- endgeneration -%} c", "abc"),
        ("{% for i in [1, 2] %}{% generation %}{{ i }}{% endgeneration %}{% endfor %}", "12"),
    ],
)
def test_what_a_model_was_trained_to_write_is_rendered(
    renderer: Renderer, source: str, text: str
) -> None:
    """Templates mark it by a tag (as those of Laguna and LFM 2.5 do), which stands for what is inside of it."""
    assert renderer.render(source, {}, {"x": 1}) == text


def test_a_mark_without_its_end_is_an_error(renderer: Renderer) -> None:
    """The tag has an end, like every other."""
    with pytest.raises(RenderingError, match="endgeneration"):
        renderer.render("{% generation %}a", {}, {})
