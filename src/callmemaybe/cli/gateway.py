"""The gateway's commands: run calls, look at the audit, decide, reconcile."""

from __future__ import annotations

import getpass
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from callmemaybe.cli.exits import Exit
from callmemaybe.cli.toolfiles import (
    DEFAULT_LEDGER,
    load_tools,
    named_ledger,
    read_calls,
    read_secrets,
    verdicts,
)
from callmemaybe.errors import CallMeMaybeError, InputError

if TYPE_CHECKING:
    from callmemaybe.gateway.ledger import Ledger

Db = Annotated[str, typer.Option("--db", help="The ledger: a file, or postgresql://...")]
Anchors = Annotated[
    Path | None, typer.Option(help="Note the audit chain's head in this file, every 10 s.")
]
Tools = Annotated[Path, typer.Option("--tools", "-t", help="A Python file, or an OpenAPI .json.")]
Yes = Annotated[
    list[str],
    typer.Option(
        "--yes", help="Effect classes that run without asking: read,idempotent,... or all."
    ),
]
Secrets = Annotated[Path | None, typer.Option(help="A JSON object of secrets by name.")]
By = Annotated[str, typer.Option(help="Who decides; goes into the audit.")]
#: More rows than a ledger has, and the largest number of a turn that a database has room for.
_MOST = 2**31 - 1


def _help(context: typer.Context) -> None:
    """Show the help to whoever names no command of a group, as the program itself does."""
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


def _group(about: str) -> typer.Typer:
    return typer.Typer(help=about, callback=_help, invoke_without_command=True)


audit = _group("Look at the ledger: every intent, every effect.")
approvals = _group("Decide on calls that wait for a person.")


def register(app: typer.Typer) -> None:
    """Add the gateway's commands to the program."""
    from callmemaybe.cli.chat import chat

    app.command()(chat)
    app.command(name="exec")(execute)
    app.command()(reconcile)
    app.add_typer(audit, name="audit")
    app.add_typer(approvals, name="approvals")


def execute(
    calls: Annotated[Path, typer.Argument(help='JSON list of calls; "-": standard input.')],
    tools: Tools,
    db: Db = DEFAULT_LEDGER,
    run: Annotated[
        str | None, typer.Option(help="Name of the run: the same name again redelivers.")
    ] = None,
    turn: Annotated[int, typer.Option(min=0, max=_MOST, help="Which turn of the run this is.")] = 0,
    yes: Yes = [],  # noqa: B006 - typer copies it
    secrets: Secrets = None,
    anchors: Anchors = None,
) -> None:
    """Run a file of calls as one turn through the gateway; print the answers as JSON.

    Calls that need a person stay pending: approve them, and run the same file and run name again.
    Exit code 1 if any call did not succeed.
    """
    import asyncio

    from callmemaybe.gateway import Gateway

    if turn and run is None:
        raise InputError("a turn belongs to a run", where="--turn", hint="name it with --run")
    made, listed, asked = load_tools(tools), read_calls(calls), verdicts(yes)
    found = read_secrets(secrets)

    async def go(ledger: Ledger) -> list[Any]:
        async with Gateway(made, store=ledger, verdicts=asked, secrets=found) as gateway:
            await gateway.recover()
            return await gateway.run(listed, run=run, turn=turn if run else None)

    with named_ledger(db, anchors, create=True) as ledger:
        answers = asyncio.run(go(ledger))
        shown = [
            {"id": one.call_id, "key": one.key, "state": one.state.value, **json.loads(one.content)}
            for one in answers
        ]
        # Told before the last anchor is noted: what has happened must not be lost with that.
        typer.echo(json.dumps(shown, ensure_ascii=False, indent=1))
    raise typer.Exit(Exit.DONE if all(one.ok for one in answers) else Exit.SOME_FAILED)


def reconcile(
    key: Annotated[str, typer.Argument(help="The key of a call of unknown outcome, or its start.")],
    outcome: Annotated[
        str | None, typer.Option(help="done or not-done; without it the tool is asked.")
    ] = None,
    result: Annotated[str | None, typer.Option(help="What it returned, as JSON.")] = None,
    tools: Annotated[
        Path | None, typer.Option("--tools", "-t", help="Where the tool that can tell is.")
    ] = None,
    by: By = "",
    db: Db = DEFAULT_LEDGER,
) -> None:
    """Say, or let the tool find out, what became of a call of unknown outcome."""
    import asyncio

    from callmemaybe.gateway import Gateway

    if outcome is None and tools is None:
        raise InputError("nobody is there to tell", where="--outcome", hint="or give --tools")

    made = load_tools(tools) if tools else []
    returned = None if result is None else _returned(result, outcome)

    async def go(ledger: Ledger) -> str:
        whole, who = _whole_key(ledger, key), by or _who()
        said = outcome.replace("-", "_") if outcome else None
        async with Gateway(made, store=ledger) as gateway:
            try:
                answer = await gateway.reconcile(whole, said, by=who, result=returned)
            except CallMeMaybeError:
                raise
            except Exception as error:
                if said:
                    raise
                raise InputError(
                    f"the tool fails to tell what became of it ({type(error).__name__}: {error})",
                    where=str(tools),
                    hint="say --outcome done or not-done",
                ) from error
            return answer.content

    with named_ledger(db) as ledger:
        typer.echo(asyncio.run(go(ledger)))


@audit.command("list")
def list_calls(
    run: Annotated[str | None, typer.Option(help="Only this run.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=_MOST, help="How many, newest first.")] = 50,
    db: Db = DEFAULT_LEDGER,
) -> None:
    """List calls, newest first."""
    with named_ledger(db) as ledger:
        for row in ledger.backend.calls(run=run, limit=limit):
            state = row.state
            if state == "unknown" and ledger.backend.look_reconciled(row.key):
                state = "reconciled"
            typer.echo(
                f"{row.key[:16]}  {_time(row.created)}  {state:<10} {row.effect:<13} "
                f"{_plain(row.run)}/{row.turn}/{row.ordinal}  {_plain(row.tool)} "
                f"{_plain(row.arguments)[:60]}"
            )


@audit.command()
def show(
    key: Annotated[str, typer.Argument(help="A call's key, or its start.")],
    db: Db = DEFAULT_LEDGER,
) -> None:
    """Show everything recorded about one call, as JSON lines."""
    with named_ledger(db) as ledger:
        whole = _whole_key(ledger, key)
        row = ledger.backend.look(whole)
        if row is not None:
            typer.echo(json.dumps({name: getattr(row, name) for name in row.__slots__}))
        events = [
            {"chain": chain, "number": number, **json.loads(record), "hash": digest.hex()}
            for chain, number, _, record, digest in ledger.backend.audit(key=whole)
        ]
        if row is None and not events:
            raise _no_call(whole)
        for facts in sorted(events, key=lambda facts: (facts["t"], facts["number"])):
            typer.echo(json.dumps(facts))


@audit.command()
def verify(
    anchors: Annotated[Path | None, typer.Option(help="A file of heads noted elsewhere.")] = None,
    db: Db = DEFAULT_LEDGER,
) -> None:
    """Recompute the audit chains; exit code 1 and a line for each record that does not hold.

    A chain cut off after the last anchor cannot be noticed.
    """
    from callmemaybe.gateway.verify import examine, read_anchors

    with named_ledger(db) as ledger:
        report = examine(ledger.backend, read_anchors(anchors) if anchors else ())
    for problem in report.breaks:
        typer.echo(problem)
    typer.echo(
        f"{report.records} records in {len(report.heads)} chains, {report.calls} calls: "
        + (f"{len(report.breaks)} problems" if report.breaks else "they hold")
    )
    raise typer.Exit(Exit.SOME_FAILED if report.breaks else Exit.DONE)


@audit.command()
def export(db: Db = DEFAULT_LEDGER) -> None:
    """Print the whole audit as JSON lines, chain by chain."""
    with named_ledger(db) as ledger:
        for chain, number, key, record, digest in ledger.backend.audit():
            facts = {"chain": chain, "number": number, "key": key, "hash": digest.hex()}
            typer.echo(json.dumps({**facts, "record": json.loads(record)}))


@approvals.command("list")
def list_approvals(
    everything: Annotated[bool, typer.Option("--all", help="Decided ones, too.")] = False,
    db: Db = DEFAULT_LEDGER,
) -> None:
    """List the calls that wait for a person."""
    with named_ledger(db) as ledger:
        now = ledger.backend.now()
        for one in ledger.backend.approvals(pending_only=not everything):
            state = one.decision or ("expired" if one.expires <= now else "pending")
            typer.echo(
                f"{one.id}  {_time(one.created)}  {state:<8}  {_plain(one.run)}  "
                f"{_plain(one.tool)} {_plain(one.arguments)[:200]}  ({_plain(one.reason)})"
            )


@approvals.command()
def approve(
    approval: Annotated[str, typer.Argument(help="Its id.")], by: By = "", db: Db = DEFAULT_LEDGER
) -> None:
    """Let a call run: exactly this one, with these arguments, until the approval expires."""
    _decide(db, approval, "approved", by)


@approvals.command()
def deny(
    approval: Annotated[str, typer.Argument(help="Its id.")], by: By = "", db: Db = DEFAULT_LEDGER
) -> None:
    """Never let this call run."""
    _decide(db, approval, "denied", by)


def _decide(db: str, approval: str, decision: str, by: str) -> None:
    from callmemaybe.gateway.store import Decide

    with named_ledger(db) as ledger:
        now = ledger.backend.now()
        who = by or _who()
        decided, stands = ledger.send_and_wait(Decide(approval, decision, who, now))
    if stands is None:
        raise InputError("there is no such approval", where=approval)
    if not decided:
        what = f"{stands.decision} by {stands.by}" if stands.decision else "expired"
        raise InputError(f"it is {what} already", where=approval)
    typer.echo(f"{decision}: {_plain(stands.tool)} {_plain(stands.arguments)}")


def _returned(text: str, outcome: str | None) -> Any:
    """Read what a call returned, as strictly as a file of calls, and without losing a digit.

    Of a number that no float is, a tool returns a Decimal: its digits are recorded as a text.
    """
    from callmemaybe.jsonio.reader import read

    if outcome in {"not-done", "not_done"}:
        raise InputError(
            "a call that was not done has returned nothing", where="--result", hint="leave it out"
        )
    return read(text, source="--result").value


def _whole_key(ledger: Ledger, start: str) -> str:
    """Return the key that begins with ``start``; raise InputError if there is not exactly one."""
    if len(start) == 64:
        return start
    rows = ledger.backend.calls(run=None, limit=_MOST)
    found = [row.key for row in rows if row.key.startswith(start)]
    if not found:
        raise _no_call(start)
    if len(found) > 1:
        raise InputError(f"{len(found)} calls with a key that starts so", where=start)
    return found[0]


def _no_call(start: str) -> InputError:
    return InputError("no call with a key that starts so", where=start)


def _who() -> str:
    """Return who sits at the terminal; raises InputError where the system knows no name."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        raise InputError(
            "nobody is known under this user id", where="--by", hint="say who decides"
        ) from None


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S")


def _plain(text: str) -> str:
    """Return text that cannot command the terminal."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
