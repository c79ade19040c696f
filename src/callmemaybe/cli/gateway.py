"""The gateway's commands: run calls, inspect the audit log, decide on approvals, reconcile."""

from __future__ import annotations

import contextlib
import getpass
import json
import os
import shlex
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from callmemaybe.cli.inputs import read_calls, read_secrets
from callmemaybe.cli.options import (
    AllowPrivateOption,
    BaseUrlOption,
    OnlyOption,
    SkipOption,
    ToolsOption,
)
from callmemaybe.cli.process import ExitCode, printable
from callmemaybe.cli.tools import ToolChoice
from callmemaybe.errors import CallMeMaybeError, InputError, LedgerError, WriteError
from callmemaybe.sources.texts import is_file

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from callmemaybe.gateway import CallAnswer, Gateway, Verdict
    from callmemaybe.gateway.audit.chain import ChainHead
    from callmemaybe.gateway.ledger import Ledger
    from callmemaybe.gateway.store import LedgerSnapshot
    from callmemaybe.sources import LoadedTools
    from callmemaybe.tools import Effect
    from callmemaybe.tools.declare import Tool

DEFAULT_LEDGER = "callmemaybe.db"

Db = Annotated[str, typer.Option("--db", help="The ledger: a file, or postgresql://...")]
Anchors = Annotated[
    Path | None, typer.Option(help="Append the head of the audit chain to this file, every 10 s.")
]
AnchorCommand = Annotated[
    str | None,
    typer.Option(help="Give the head to this program's input instead, as a line of JSON."),
]
AnchorCalls = Annotated[
    bool,
    typer.Option(
        "--anchor-calls",
        help="Write an anchor before and after each call that writes, too; if that fails, it does not run.",
    ),
]
Yes = Annotated[
    list[str],
    typer.Option(
        "--yes", help="Effect classes that run without asking: read,idempotent,... or all."
    ),
]
Secrets = Annotated[Path | None, typer.Option(help="A JSON object of secrets by name.")]
By = Annotated[str, typer.Option(help="Who decides; recorded in the audit log.")]
#: The largest number of rows and of a turn: what an integer column of a database holds.
_MAX_INT = 2**31 - 1


def _help(context: typer.Context) -> None:
    """Print the help of a group that is called without a command, as the program itself does."""
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


def _group(about: str) -> typer.Typer:
    return typer.Typer(help=about, callback=_help, invoke_without_command=True)


audit = _group("Inspect the ledger: every intent and every effect of calls.")
approvals = _group("Decide on calls that wait for a person's approval.")


def register(app: typer.Typer) -> None:
    """Add the gateway's commands to the program."""
    app.command(name="exec")(execute)
    app.command()(reconcile)
    app.add_typer(audit, name="audit")
    app.add_typer(approvals, name="approvals")


class AnchorWriter:
    """Appends the heads of the audit chain to a file, or gives them to a program.

    ``check`` reports a failure once the ledger is closed. Raises InputError if the file cannot be opened for
    writing at the start.
    """

    def __init__(self, path: Path | None, command: str | None) -> None:
        from callmemaybe.gateway.audit.verify import command_anchor, file_anchor

        self._failure: OSError | None = None
        if command is not None:
            if path is not None:
                raise InputError(
                    "a file and a program are given", where="--anchor-command", hint="give one"
                )
            try:
                words = shlex.split(command)
            except ValueError as error:
                raise InputError(f"{error}", where="--anchor-command") from None
            if not words:
                raise InputError("no program is named", where="--anchor-command")
            self._where, self._append = command, command_anchor(words)
            return
        assert path is not None
        try:
            os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600))
        except OSError as error:
            raise InputError(
                f"{path} cannot be written: {error.strerror}",
                where="--anchors",
                hint="choose another path",
            ) from None
        self._where, self._append = str(path), file_anchor(path)

    def __call__(self, head: ChainHead) -> None:
        """Append one head; raises OSError."""
        self._failure = None
        try:
            self._append(head)
        except OSError as error:
            self._failure = error
            raise

    @property
    def has_failed(self) -> bool:
        """Whether the last head could not be written."""
        return self._failure is not None

    def check(self) -> None:
        """Raise WriteError if the last head could not be appended."""
        if self._failure is not None:
            reason = self._failure.strerror or str(self._failure)
            raise WriteError(f"{self._where}: the anchor cannot be written: {reason}")


@contextlib.contextmanager
def opened_ledger(
    store: str,
    anchors: Path | None = None,
    *,
    command: str | None = None,
    each: bool = False,
    create: bool = False,
) -> Iterator[Ledger]:
    """Open a ledger by its address (an existing one unless ``create``) and close it at the end.

    Raises InputError if it cannot be opened, LedgerError if it fails later, and WriteError at the end
    if its last head could not be appended to ``anchors`` or given to ``command``; ``each``: anchors are written
    for every call that writes, too.
    """
    from callmemaybe.gateway import StoreError, StoreTransient
    from callmemaybe.gateway.ledger import open_ledger

    if (
        not create
        and "://" not in store
        and not (is_file(Path(store)) and Path(store).stat().st_size)
    ):
        raise InputError("there is no ledger", where=store, hint="name it with --db")
    if each and not (anchors or command):
        raise InputError(
            "there are no anchors to write", where="--anchor-calls", hint="give --anchors"
        )
    anchor = AnchorWriter(anchors, command) if anchors or command else None
    effects = _writing_effects() if each else []
    try:
        ledger = open_ledger(store, anchor=anchor, anchor_effects=effects)
    except StoreError as error:
        hint = "check the address" if isinstance(error, StoreTransient) else None
        raise InputError(str(error), where="--db", hint=hint) from error
    try:
        with contextlib.closing(ledger):
            yield ledger
    except StoreError as error:
        raise LedgerError(f"--db: {error}") from error
    except OSError:
        if anchor is None or not anchor.has_failed:
            raise
    if anchor is not None:
        anchor.check()


def _writing_effects() -> list[Effect]:
    from callmemaybe.tools import Effect

    return [effect for effect in Effect if effect.writes]


@contextlib.contextmanager
def opened_snapshot(store: str) -> Iterator[LedgerSnapshot]:
    """Open a ledger to read it only. Raises InputError if it cannot be opened, LedgerError if it fails later."""
    from callmemaybe.gateway import StoreError
    from callmemaybe.gateway.store import open_snapshot

    if "://" not in store and not is_file(Path(store)):
        raise InputError("there is no ledger", where=store, hint="name it with --db")
    opened = False
    try:
        with open_snapshot(store) as snapshot:
            opened = True
            yield snapshot
    except StoreError as error:
        if not opened:
            raise InputError(str(error), where="--db", hint="check the address") from error
        raise LedgerError(f"--db: {error}") from error


def verdicts(yes: list[str]) -> Mapping[Effect, Verdict]:
    """Return the policy for each effect class: pure and `--yes` classes run, others ask first."""
    from callmemaybe.gateway import Verdict
    from callmemaybe.tools import Effect

    given = {part.strip() for text in yes for part in text.split(",") if part.strip()}
    known = {effect.value for effect in Effect}
    if "all" in given:
        given = known
    unknown = given - known
    if unknown:
        raise InputError(
            f"there is no effect class {min(unknown)!r}",
            where="--yes",
            hint=f"use all, or some of {', '.join(sorted(known))}",
        )
    allowed = given | {"pure"}
    return {effect: Verdict.ALLOW if effect.value in allowed else Verdict.ASK for effect in Effect}


def execute(
    calls: Annotated[Path, typer.Argument(help='JSON list of calls; "-": standard input.')],
    tools: ToolsOption = [],  # noqa: B006 - typer copies it
    only: OnlyOption = [],  # noqa: B006 - typer copies it
    skip: SkipOption = [],  # noqa: B006 - typer copies it
    allow_private: AllowPrivateOption = False,
    base_url: BaseUrlOption = None,
    db: Db = DEFAULT_LEDGER,
    run: Annotated[
        str | None, typer.Option(help="Name of the run: the same name again redelivers its calls.")
    ] = None,
    turn: Annotated[
        int,
        typer.Option(
            min=0,
            max=_MAX_INT,
            help="Which turn of the run this is; other calls need another turn.",
        ),
    ] = 0,
    yes: Yes = [],  # noqa: B006 - typer copies it
    secrets: Secrets = None,
    anchors: Anchors = None,
    anchor_command: AnchorCommand = None,
    anchor_calls: AnchorCalls = False,
) -> None:
    """Run a file of calls as one turn through the gateway; print the answers as JSON.

    Calls that need approval stay pending: `approvals approve` with the same tools runs them, and so does
    executing the same file under the same run name again. Exit code 1 if any call did not succeed.
    """
    import asyncio

    from callmemaybe.gateway import Gateway

    if turn and run is None:
        raise InputError("a turn belongs to a run", where="--turn", hint="name it with --run")
    choice = ToolChoice(tools, only, skip, allow_private, base_url)
    loaded = choice.load_runnable()
    listed, policy, secret_values = read_calls(calls), verdicts(yes), read_secrets(secrets)

    async def go(ledger: Ledger) -> tuple[str, list[CallAnswer]]:
        async with Gateway(loaded, store=ledger, verdicts=policy, secrets=secret_values) as gateway:
            await gateway.recover()
            begun = await ledger.read(lambda: gateway.begin(run))
            return begun.id, await gateway.run(listed, run=begun, turn=turn if run else None)

    with (
        loaded,
        opened_ledger(
            db, anchors, command=anchor_command, each=anchor_calls, create=True
        ) as ledger,
    ):
        name, answers = asyncio.run(go(ledger))
        # Printed before the last anchor is appended: a failure there must not lose the results.
        _print_answers(answers)
        say_what_waits(answers, name, choice, db)
    raise typer.Exit(ExitCode.DONE if all(one.ok for one in answers) else ExitCode.SOME_FAILED)


def _print_answers(answers: Sequence[CallAnswer]) -> None:
    shown = [
        {"id": one.call_id, "key": one.key, "state": one.state.value, **json.loads(one.content)}
        for one in answers
    ]
    typer.echo(json.dumps(shown, ensure_ascii=False, indent=1))


def say_what_waits(answers: Sequence[CallAnswer], run: str, tools: ToolChoice, db: str) -> None:
    """Print to stderr how to go on with the calls that wait for approval."""
    waiting = [one.approval for one in answers if one.approval]
    if not waiting:
        return
    typer.echo(
        f"run {printable(run)}: {len(waiting)} of {len(answers)} calls wait for approval:", err=True
    )
    where = "" if db == DEFAULT_LEDGER else f" --db {shlex.quote(db)}"
    for approval in waiting:
        command = f"callmemaybe approvals approve {approval} {tools.as_options()}{where}"
        typer.echo(f"  {command}", err=True)


def reconcile(
    key: Annotated[
        str,
        typer.Argument(help="The key of a call whose outcome is unknown, or the beginning of it."),
    ],
    outcome: Annotated[
        str | None,
        typer.Option(
            help="done or not-done; without it, the tool's own reconcile function decides."
        ),
    ] = None,
    result: Annotated[str | None, typer.Option(help="The result of the call, as JSON.")] = None,
    tools: ToolsOption = [],  # noqa: B006 - typer copies it
    only: OnlyOption = [],  # noqa: B006 - typer copies it
    skip: SkipOption = [],  # noqa: B006 - typer copies it
    allow_private: AllowPrivateOption = False,
    base_url: BaseUrlOption = None,
    by: By = "",
    db: Db = DEFAULT_LEDGER,
) -> None:
    """Settle a call of unknown outcome: state what happened, or let the tool find out."""
    import asyncio

    from callmemaybe.gateway import Gateway

    if outcome is None and not tools:
        raise InputError(
            "neither an outcome nor a tool to ask is given",
            where="--outcome",
            hint="give it, or --tools",
        )

    loaded = _loaded(ToolChoice(tools, only, skip, allow_private, base_url))
    returned = None if result is None else _read_result(result, outcome)

    async def go(ledger: Ledger) -> str:
        full_key, decider = _full_key(ledger, key), by or _user_name()
        stated = outcome.replace("-", "_") if outcome else None
        async with Gateway(loaded or [], store=ledger) as gateway:
            try:
                answer = await gateway.reconcile(full_key, stated, by=decider, result=returned)
            except CallMeMaybeError:
                raise
            except Exception as error:
                if stated:
                    raise
                raise InputError(
                    f"the tool cannot determine the outcome ({type(error).__name__}: {error})",
                    where=", ".join(tools),
                    hint="give --outcome done or not-done",
                ) from error
            return answer.content

    with loaded or contextlib.nullcontext(), opened_ledger(db) as ledger:
        typer.echo(asyncio.run(go(ledger)))


@audit.command("list")
def list_calls(
    run: Annotated[str | None, typer.Option(help="Only this run.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=_MAX_INT, help="How many, newest first.")] = 50,
    db: Db = DEFAULT_LEDGER,
) -> None:
    """List calls, newest first."""
    with opened_ledger(db) as ledger:
        for row in ledger.backend.read_calls(run=run, limit=limit):
            state = row.state
            if state == "unknown" and ledger.backend.read_reconciliation(row.key):
                state = "reconciled"
            typer.echo(
                f"{row.key[:16]}  {_time(row.created)}  {state:<10} {row.effect:<13} "
                f"{printable(row.run)}/{row.turn}/{row.ordinal}  {printable(row.tool)} "
                f"{printable(row.arguments)[:60]}"
            )


@audit.command()
def show(
    key: Annotated[str, typer.Argument(help="The key of a call, or the beginning of it.")],
    db: Db = DEFAULT_LEDGER,
) -> None:
    """Show everything recorded about one call, as JSON lines."""
    with opened_ledger(db) as ledger:
        full_key = _full_key(ledger, key)
        row = ledger.backend.read_call(full_key)
        if row is not None:
            typer.echo(json.dumps({name: getattr(row, name) for name in row.__slots__}))
        events = [
            {"chain": chain, "number": number, **_facts(record), "hash": digest.hex()}
            for chain, number, _, record, digest in ledger.backend.read_audit(key=full_key)
        ]
        if row is None and not events:
            raise _no_call(full_key)
        for facts in sorted(events, key=lambda facts: (facts.get("t", 0), facts["number"])):
            typer.echo(json.dumps(facts))


@audit.command()
def verify(
    anchors: Annotated[
        Path | None, typer.Option(help="A file that --anchors wrote, stored elsewhere.")
    ] = None,
    archives: Annotated[
        list[Path], typer.Option("--archive", help="A file of `audit archive`; may be repeated.")
    ] = [],  # noqa: B006 - typer copies it
    db: Db = DEFAULT_LEDGER,
) -> None:
    """Recompute the audit chains and compare every row with them; print what does not hold, and exit with 1.

    Only reads: a read-only disk, and a role that may only select, are enough. Records removed after the last
    anchor cannot be detected.
    """
    from callmemaybe.gateway.audit.verify import read_anchors, verify_ledger

    with opened_snapshot(db) as ledger:
        heads = read_anchors(anchors) if anchors else ()
        report = verify_ledger(ledger, heads, archives)
    if report.archived:
        typer.echo(f"{report.archived} records are in archives that were not given (--archive)")
    for problem in report.breaks:
        typer.echo(problem)
    typer.echo(
        f"{report.records} records in {len(report.heads)} chains, {report.calls} calls: "
        + (f"{len(report.breaks)} problems" if report.breaks else "they hold")
    )
    raise typer.Exit(ExitCode.SOME_FAILED if report.breaks else ExitCode.DONE)


@audit.command()
def rekey(db: Db = DEFAULT_LEDGER) -> None:
    """Go on with this machine's key where the ledger's own key is lost; end the ledger's other programs first.

    Calls recorded under the lost key are not recognised if they are delivered again: they are refused as a
    key_conflict, and do not run.
    """
    with opened_ledger(db) as ledger:
        check = ledger.replace_key()
    typer.echo(f"the ledger's key has the check value {check} now")


@audit.command()
def export(db: Db = DEFAULT_LEDGER) -> None:
    """Print the whole audit log as JSON lines, chain by chain."""
    with opened_snapshot(db) as ledger:
        for chain, number, key, record, digest in ledger.read_audit():
            facts = {"chain": chain, "number": number, "key": key, "hash": digest.hex()}
            typer.echo(json.dumps({**facts, "record": _facts(record)}))


@audit.command()
def archive(
    folder: Annotated[Path, typer.Argument(help="Where the files go; keep them with the ledger.")],
    older_than: Annotated[
        float, typer.Option(min=0, help="Days since a run ended; younger ones stay.")
    ] = 90.0,
    compress: Annotated[bool, typer.Option("--gzip", help="Compress the files.")] = False,
    db: Db = DEFAULT_LEDGER,
) -> None:
    """Move finished runs, and the audit records that only they need, to files of JSON lines.

    An archived run is closed: whoever delivers calls of it again is told so, and nothing runs. Runs with a call
    of unknown outcome, or that wait for a person, stay. `audit verify` works with the files (--archive) and without.
    """
    from callmemaybe.gateway.archive import archive_runs

    with opened_ledger(db) as ledger:
        try:
            made = archive_runs(ledger, folder, older_than * 86_400, compress=compress)
        except OSError as error:
            reason = error.strerror or str(error)
            raise WriteError(f"{folder}: the archive cannot be written: {reason}") from error
    for one in made:
        typer.echo(f"{one.path}: {one.runs} runs, {one.calls} calls, {one.records} audit records")
    if not made:
        typer.echo("nothing to archive")


PersonsFile = Annotated[
    Path, typer.Option("--persons", help="The file with the persons who may sign in.")
]


@audit.command("serve")
def serve_pages(
    persons: PersonsFile,
    host: Annotated[str, typer.Option(help="Address of this machine to listen on.")] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="Port to listen on; 0 takes a free one.")
    ] = 8081,
    origin: Annotated[
        list[str],
        typer.Option(help="Origin of a proxy before it: https://audit.example; may be repeated."),
    ] = [],  # noqa: B006 - typer copies it
    anchors: Annotated[
        Path | None, typer.Option(help="A file that --anchors wrote, stored elsewhere.")
    ] = None,
    archives: Annotated[
        list[Path], typer.Option("--archive", help="A file of `audit archive`; may be repeated.")
    ] = [],  # noqa: B006 - typer copies it
    tools: ToolsOption = [],  # noqa: B006 - typer copies it
    only: OnlyOption = [],  # noqa: B006 - typer copies it
    skip: SkipOption = [],  # noqa: B006 - typer copies it
    allow_private: AllowPrivateOption = False,
    base_url: BaseUrlOption = None,
    secrets: Secrets = None,
    db: Db = DEFAULT_LEDGER,
) -> None:
    """Show runs, waiting approvals, unknown calls and the audit chain as web pages, and decide there.

    Persons sign in with a password (`audit person`); the ledger records who decided.
    """
    from callmemaybe.cli.serve import check_installed, check_origins

    check_installed()
    check_origins(origin, "--origin")
    from callmemaybe.gateway.audit.verify import LedgerReport, read_anchors, verify_ledger
    from callmemaybe.server.audit_app import serve_audit
    from callmemaybe.server.config import ServerConfig
    from callmemaybe.server.persons import Persons

    config = ServerConfig(host=host, port=port, origins=tuple(origin), body_bytes=1 << 16)
    known, values = Persons(persons), read_secrets(secrets)
    loaded = _loaded(ToolChoice(tools, only, skip, allow_private, base_url))

    with loaded or contextlib.nullcontext(), opened_ledger(db) as ledger:

        def check() -> LedgerReport:
            heads = read_anchors(anchors) if anchors else ()
            return verify_ledger(ledger.backend, heads, archives)

        def go_on() -> Gateway:
            return _resuming(ledger, loaded or [], values)

        serve_audit(
            ledger, known, config, check, lambda line: typer.echo(line, err=True),
            go_on=go_on if tools else None,
        )  # fmt: skip


@audit.command()
def person(
    name: Annotated[str, typer.Argument(help="The name that decisions are recorded under.")],
    persons: PersonsFile,
) -> None:
    """Let a person sign in at `audit serve`; asks for a password, or reads it as a line of standard input.

    The file holds a salted hash of it (scrypt). Whoever is deleted from the file is out at once.
    """
    from callmemaybe.server.persons import set_password

    if sys.stdin.isatty():
        password = typer.prompt("Password", hide_input=True, confirmation_prompt=True)
    else:
        password = sys.stdin.readline().rstrip("\r\n")
    added = set_password(persons, name, password)
    typer.echo(f"{persons}: {name} {'may sign in' if added else 'has another password'} now")


@approvals.command("list")
def list_approvals(
    everything: Annotated[bool, typer.Option("--all", help="Also those already decided.")] = False,
    db: Db = DEFAULT_LEDGER,
) -> None:
    """List the calls that wait for approval."""
    with opened_ledger(db) as ledger:
        now = ledger.backend.now()
        for one in ledger.backend.read_approvals(pending_only=not everything):
            state = one.decision or ("expired" if one.expires <= now else "pending")
            typer.echo(
                f"{one.id}  {_time(one.created)}  {state:<8}  {printable(one.run)}  "
                f"{printable(one.tool)} {printable(one.arguments)[:200]}  ({printable(one.reason)})"
            )


@approvals.command()
def approve(
    approval: Annotated[
        str, typer.Argument(help="The id of the approval, or the beginning of it.")
    ],
    tools: ToolsOption = [],  # noqa: B006 - typer copies it
    only: OnlyOption = [],  # noqa: B006 - typer copies it
    skip: SkipOption = [],  # noqa: B006 - typer copies it
    allow_private: AllowPrivateOption = False,
    base_url: BaseUrlOption = None,
    secrets: Secrets = None,
    by: By = "",
    db: Db = DEFAULT_LEDGER,
) -> None:
    """Let a call run: exactly this one, with these arguments, until the approval expires.

    With --tools its turn goes on at once, and the answers of the turn are printed as JSON; exit code 1 if
    any call did not succeed. Without, it goes on where the turn is delivered again.
    """
    loaded = _loaded(ToolChoice(tools, only, skip, allow_private, base_url))
    values = read_secrets(secrets)
    with loaded or contextlib.nullcontext():
        decided = _decide(db, approval, "approved", by, again=bool(tools))
        if loaded is None:
            return
        answers = _resume(db, decided, loaded, values)
        raise typer.Exit(ExitCode.DONE if all(one.ok for one in answers) else ExitCode.SOME_FAILED)


def _loaded(choice: ToolChoice) -> LoadedTools | None:
    """Return the tools, or None if none are named."""
    return choice.load_runnable() if choice else None


def _resuming(ledger: Ledger, tools: Sequence[Tool], secrets: Mapping[str, str]) -> Gateway:
    """Return a gateway in which runs go on under the policy that they began with, which the ledger has."""
    from callmemaybe.gateway import Gateway

    return Gateway(tools, store=ledger, secrets=secrets, guard_values=False, guard_repeats=False)


def _resume(
    db: str, approval: str, tools: Sequence[Tool], secrets: Mapping[str, str]
) -> Sequence[CallAnswer]:
    import asyncio

    async def go(ledger: Ledger) -> list[CallAnswer]:
        async with _resuming(ledger, tools, secrets) as gateway:
            await gateway.recover()
            return await gateway.resume(approval)

    with opened_ledger(db) as ledger:
        answers = asyncio.run(go(ledger))
        _print_answers(answers)
    return answers


@approvals.command()
def deny(
    approval: Annotated[
        str, typer.Argument(help="The id of the approval, or the beginning of it.")
    ],
    by: By = "",
    db: Db = DEFAULT_LEDGER,
) -> None:
    """Refuse a call for good."""
    _decide(db, approval, "denied", by)


def _decide(db: str, start: str, decision: str, by: str, *, again: bool = False) -> str:
    """Record a decision and return the approval's id; ``again``: the same one may have been recorded before."""
    from callmemaybe.gateway.store import DecideApproval

    with opened_ledger(db) as ledger:
        approval = _approval_id(ledger, start)
        now = ledger.backend.now()
        decider = by or _user_name()
        decided, stands = ledger.send_and_wait(DecideApproval(approval, decision, decider, now))
    if stands is None:
        raise InputError("there is no such approval", where=approval)
    if not decided and not (again and stands.decision == decision):
        what = f"{stands.decision} by {stands.by}" if stands.decision else "expired"
        raise InputError(f"it is {what} already", where=approval)
    typer.echo(f"{decision}: {printable(stands.tool)} {printable(stands.arguments)}", err=again)
    return approval


def _approval_id(ledger: Ledger, start: str) -> str:
    """Return the id of the approval that begins with ``start``; raise InputError if there is not exactly one."""
    every = [one.id for one in ledger.backend.read_approvals(pending_only=False)]
    found = [one for one in every if one == start] or [
        one for one in every if one.startswith(start)
    ]
    if not found or not start:
        raise InputError("there is no such approval", where=start)
    if len(found) > 1:
        raise InputError(f"{len(found)} approvals have an id that starts so", where=start)
    return found[0]


def _facts(record: str) -> dict[str, Any]:
    """Return what an audit record says; of one that was damaged, its text."""
    try:
        facts = json.loads(record)
    except ValueError:
        facts = None
    return facts if isinstance(facts, dict) else {"damaged": record}


def _read_result(text: str, outcome: str | None) -> Any:
    """Read the result of a call as strictly as a file of calls, without losing digits.

    A number that no float represents becomes a Decimal, as tools return it, and is recorded as text.
    """
    from callmemaybe.jsonio import read

    if outcome in {"not-done", "not_done"}:
        raise InputError(
            "a call that was not done has returned nothing", where="--result", hint="leave it out"
        )
    return read(text, source="--result").value


def _full_key(ledger: Ledger, start: str) -> str:
    """Return the key that begins with ``start``; raise InputError if there is not exactly one."""
    if len(start) == 64:
        return start
    rows = ledger.backend.read_calls(run=None, limit=_MAX_INT)
    found = [row.key for row in rows if row.key.startswith(start)]
    if not found:
        raise _no_call(start)
    if len(found) > 1:
        raise InputError(f"{len(found)} calls with a key that starts so", where=start)
    return found[0]


def _no_call(start: str) -> InputError:
    return InputError("no call with a key that starts so", where=start)


def _user_name() -> str:
    """Return the name of the user; raise InputError where the system knows none."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        raise InputError(
            "this user id has no name", where="--by", hint="give the name of who decides"
        ) from None


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S")
