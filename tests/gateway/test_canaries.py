"""Canaries: secrets occur nowhere in what is stored, logged, traced, printed or answered."""

from __future__ import annotations

import asyncio
import json
import logging
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from callmemaybe.errors import InputError
from callmemaybe.gateway import Gateway, GatewayLimits, StoreError
from callmemaybe.gateway.ledger import open_ledger
from callmemaybe.tools import NotExecuted, ToolCall, TransientError, tool

#: With letters that JSON, SQL, a shell and a URL would each spell in another way.
CANARY = "kanárek-\"7'\\3f&e"
NUMBER = 480093157735


def spellings() -> list[bytes]:
    """Every way in which a text or a program may write the canaries."""
    forms = {CANARY, json.dumps(CANARY)[1:-1], json.dumps(CANARY, ensure_ascii=False)[1:-1]}
    forms |= {repr(CANARY)[1:-1], CANARY.replace("'", "''"), ascii(CANARY)[1:-1], "3f&e"}
    return [form.encode() for form in forms] + [str(NUMBER).encode()]


def found_in(*texts: str | bytes) -> list[bytes]:
    whole = b"\0".join(text if isinstance(text, bytes) else text.encode() for text in texts)
    return [form for form in spellings() if form in whole]


def made(ways: dict[str, Callable[[str], Any]]) -> Any:
    """A tool with a sensitive text, a sensitive number and a secret, which fails in many ways."""

    @tool(
        effect="idempotent",
        writes="card",
        sensitive=["card", "pin"],
        secrets={"token": "API"},
        trusted=False,
        timeout=0.2,
    )
    async def charge(how: str, token: str, card: str = "", pin: int = 0) -> Any:
        assert token == CANARY + "!"
        if how == "hang":
            await asyncio.sleep(5)
        return ways[how](f"{card} {pin} {token}")

    return charge


def fails(kind: type[BaseException]) -> Callable[[str], Any]:
    def raising(said: str) -> Any:
        raise kind(said)

    return raising


WAYS: dict[str, Callable[[str], Any]] = {
    "text": lambda said: said,
    "tree": lambda said: {said: [said, {"n": NUMBER, "t": CANARY}], "n": NUMBER},
    "long": lambda said: [said] * 4000,
    "odd": lambda said: (said, object()),
    "wrong": fails(ValueError),
    "transient": fails(TransientError),
    "refused": fails(NotExecuted),
    "key": fails(KeyError),
}


def calls() -> list[ToolCall]:
    given = [{"how": how, "card": CANARY, "pin": NUMBER} for how in [*WAYS, "hang"]]
    given += [
        {"how": "text", "card": NUMBER, "pin": CANARY},
        {"how": "text", "card": [CANARY], "pin": NUMBER},
        {"how": 1, "card": CANARY},
    ]
    listed = [
        ToolCall("charge", json.dumps(one, ensure_ascii=False), f"c{place}")
        for place, one in enumerate(given)
    ]
    broken = json.dumps({"how": "text", "card": CANARY})[:-1]
    return [*listed, ToolCall("charge", broken, "broken"), ToolCall("charge", f"{NUMBER}", "n")]


def dump(store: str) -> bytes:
    """All that the store holds: the database's files, or its tables and the server's log."""
    if "://" not in store:
        folder = Path(store).parent
        return b"".join(file.read_bytes() for file in folder.rglob("*") if file.is_file())
    import psycopg

    with psycopg.connect(store) as connection:
        names = ("calls", "audit", "runs", "approvals", "owners", "reconciliations")
        return b"".join(
            repr(row).encode()
            for name in names
            for row in connection.execute(f"select t::text from {name} as t").fetchall()
        )


@pytest.mark.parametrize("arguments", [False, True], ids=["quiet", "traced arguments"])
def test_nothing_secret_is_written_anywhere(
    store: str, caplog: pytest.LogCaptureFixture, capfd: Any, arguments: bool
) -> None:
    """Answers, tables, WAL, audit export, debug logs, spans, metrics and the terminal: no canary."""
    pytest.importorskip("opentelemetry.sdk")
    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.sdk.metrics.export import InMemoryMetricReader
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    from callmemaybe.integrations.opentelemetry import GatewayTelemetry

    caplog.set_level(logging.DEBUG)
    spans, reader = InMemorySpanExporter(), InMemoryMetricReader()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(spans))
    meter = MeterProvider(metric_readers=[reader]).get_meter("test")
    watch = GatewayTelemetry(tracer=provider.get_tracer("test"), meter=meter, arguments=arguments)
    limits = GatewayLimits(answer=2000)

    async def go() -> list[Any]:
        asyncio.get_running_loop().set_debug(True)
        ledger = open_ledger(store)
        more: dict[str, Any] = {
            "secrets": {"API": CANARY + "!"},
            "observer": watch,
            "limits": limits,
            "rng": lambda: 0.0,
        }
        async with Gateway([made(WAYS)], store=ledger, **more) as gateway:
            answers = await gateway.run(calls(), run="r", turn=0)
            answers += await gateway.run(calls(), run="r", turn=0)
        async with Gateway([made(WAYS)], store=ledger, **more) as gateway:
            answers += await gateway.run(calls(), run="r", turn=0)
            run = gateway.begin("asks", tools=["charge"])
            answers += await gateway.run(calls()[:1], run=run)
        ledger.close()
        return answers

    answers = asyncio.run(go())
    codes = {answer.code for answer in answers}
    assert {"ok", "tool_error", "refused", "timed_out", "invalid_arguments", "result_truncated",
            "result_unrepresentable"} <= codes  # fmt: skip
    told = [repr(answer) + answer.content for answer in answers]
    assert found_in(*told) == []
    assert found_in(dump(store)) == []
    ledger = open_ledger(store)
    export = [record for _, _, _, record, _ in ledger.backend.read_audit()]
    ledger.close()
    assert len(export) > 20
    assert found_in(*export) == []
    traced = [span.to_json() for span in spans.get_finished_spans()]
    assert traced
    assert found_in(*traced, reader.get_metrics_data().to_json()) == []
    assert found_in(caplog.text) == []
    out = capfd.readouterr()
    assert found_in(out.out, out.err) == []


def test_an_approval_shows_no_secret(store: str) -> None:
    """The question to a person, and the list of open questions, have the sensitive values blanked."""

    @tool(effect="once", writes="x", approval="always", sensitive=["card"])
    async def pay(card: str, cents: int) -> str:
        return f"{cents} from {card}"

    async def go() -> Any:
        ledger = open_ledger(store)
        async with Gateway([pay], store=ledger) as gateway:
            call = ToolCall("pay", json.dumps({"card": CANARY, "cents": 5}))
            answer = (await gateway.run([call], run="r", turn=0))[0]
            asked = ledger.backend.read_approvals(pending_only=True)
        ledger.close()
        return answer, asked

    answer, asked = asyncio.run(go())
    assert answer.code == "approval_pending"
    assert len(asked) == 1
    assert found_in(repr(answer), repr(asked), dump(store)) == []


def test_a_resource_may_not_be_named_after_a_secret() -> None:
    """Locks are written down, so a sensitive parameter in a resource's name is refused."""
    with pytest.raises(InputError, match="sensitive 'card'"):

        @tool(effect="once", writes="card:{card}", sensitive=["card"])
        async def pay(card: str) -> str:
            return card


#: Runs the program's commands in turn and ends the output of each with a null character.
COMMANDS = """
import json, sys
from callmemaybe.cli.main import main
for arguments in json.loads(sys.argv[1]):
    try:
        main(arguments)
    except SystemExit:
        print(end="\\0", flush=True)
"""


def test_the_command_line_prints_no_secret(tmp_path: Path) -> None:
    """`exec`, `audit list|show|export|verify` and `approvals list` of the real program; also when it fails."""
    (tmp_path / "tools.py").write_text(
        textwrap.dedent('''
        """Tools."""
        from callmemaybe.tools import tool

        @tool(effect="idempotent", writes="x", sensitive=["card"], secrets={"token": "API"}, attempts=1)
        def charge(card: str, token: str, fail: bool = False) -> str:
            """Charge a card."""
            print("a tool may print its own business, but not", len(card))
            if fail:
                raise ValueError(f"{card} {token}")
            return f"{card} {token}"
        ''')
    )
    given = [{"card": CANARY}, {"card": CANARY, "fail": True}, {"card": [CANARY]}]
    listed = [{"name": "charge", "arguments": one} for one in given]
    (tmp_path / "calls.json").write_text(json.dumps(listed))
    (tmp_path / "secrets.json").write_text(json.dumps({"API": CANARY + "!"}))

    def run(*commands: list[str]) -> list[str]:
        """Run commands one after the other in one process, whose start takes most of the time."""
        done = subprocess.run(
            [sys.executable, "-X", "dev", "-c", COMMANDS, json.dumps(commands)],
            cwd=tmp_path, capture_output=True, timeout=120, check=False,
        )  # fmt: skip
        assert found_in(done.stdout, done.stderr) == [], commands
        return done.stdout.decode().split("\0")

    more = ["calls.json", "--tools", "tools.py", "--secrets", "secrets.json"]
    pending, approvals, done, listed_calls = run(
        ["exec", *more, "--run", "asks"],
        ["approvals", "list"],
        ["exec", *more, "--run", "r", "--yes", "all"],
        ["audit", "list"],
    )[:4]
    assert "approval_pending" in pending
    answers = json.loads(done)
    assert [one.get("code", "ok") for one in answers] == ["ok", "tool_error", "invalid_arguments"]
    assert "charge" in approvals
    assert "charge" in listed_calls
    shown, exported, verified = run(
        ["audit", "show", answers[0]["key"]], ["audit", "export"], ["audit", "verify"]
    )[:3]
    assert shown
    assert exported
    assert "they hold" in verified
    files = [file for file in tmp_path.iterdir() if file.name.startswith("callmemaybe")]
    assert found_in(*[file.read_bytes() for file in files if file.is_file()]) == []


def test_an_error_of_the_store_contains_no_values(tmp_path: Path) -> None:
    """An error of the database says what is wrong with it, and not what should have been written."""
    store = str(tmp_path / "x.db")

    @tool(effect="once", writes="x")
    async def act(card: str) -> str:
        return card

    async def go() -> None:
        ledger = open_ledger(store)
        ledger.backend._write.execute("drop table audit")  # type: ignore[attr-defined]
        async with Gateway([act], store=ledger) as gateway:
            await gateway.run([ToolCall("act", json.dumps({"card": CANARY}))])

    with pytest.raises(StoreError) as error:
        asyncio.run(go())
    assert found_in(str(error.value), repr(error.value)) == []


@pytest.mark.parametrize("how", ["panic", "interrupt", "exit"])
def test_a_worker_prints_no_secret(how: str, capfd: pytest.CaptureFixture[str]) -> None:
    """Whatever a tool raises is its answer, redacted; Python does not print it."""

    async def go() -> Any:
        from tests.gateway.panic_tools import panic

        async with Gateway([panic], secrets={"KEY": "canary-77"}) as gateway:
            return (await gateway.run([ToolCall("panic", json.dumps({"how": how}))]))[0]

    answer = asyncio.run(go())
    assert answer.code == "tool_error"
    assert "no way with [secret KEY]" in answer.content
    assert "canary" not in answer.content + "".join(capfd.readouterr())
