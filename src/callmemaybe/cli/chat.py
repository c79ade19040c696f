"""The command ``chat``: say what you want; see the call before it runs; approve, deny or edit it."""

from __future__ import annotations

import contextlib
import json
import signal
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from callmemaybe.cli.limits import Ground, GroundOption, Order, OrderOption
from callmemaybe.cli.toolfiles import (
    DEFAULT_LEDGER,
    load_tools,
    named_ledger,
    read_secrets,
    verdicts,
)
from callmemaybe.errors import CallMeMaybeError

if TYPE_CHECKING:
    import asyncio

    from callmemaybe.caller import Caller
    from callmemaybe.gateway import Answer, Approval, Gateway
    from callmemaybe.gateway.run import Run
    from callmemaybe.tools import ToolCall, ToolSpec

_HELP = """\
Say what you want. Lines that start with a slash are commands:
  /tools    what may be called now        /history  what was called
  /help     this                          /quit     leave (so does Ctrl-D)
Before a call runs you are asked: y runs it, n does not, e edits its arguments, a always allows
this tool for the rest of the session. Ctrl-C cancels the turn, not the program."""


def chat(
    tools: Annotated[
        Path, typer.Option("--tools", "-t", help="A Python file, or an OpenAPI .json.")
    ],
    model: Annotated[
        str, typer.Option("--model", "-m", help='"nano", a model folder, or "org/name".')
    ] = "nano",
    yes: Annotated[
        list[str],
        typer.Option("--yes", help="Effect classes that run without asking, or all."),
    ] = [],  # noqa: B006 - typer copies it
    order: OrderOption = Order.SCHEMA,
    ground: GroundOption = Ground.OFF,
    db: Annotated[
        str, typer.Option("--db", help="The ledger: a file, or postgresql://...")
    ] = DEFAULT_LEDGER,
    secrets: Annotated[Path | None, typer.Option(help="A JSON object of secrets by name.")] = None,
    anchors: Annotated[
        Path | None, typer.Option(help="Note the audit chain's head in this file, every 10 s.")
    ] = None,
) -> None:
    """Talk to a model that calls your tools, each call shown before it runs."""
    import asyncio

    from callmemaybe.caller import load_model
    from callmemaybe.gateway import Gateway

    made, allowed, found = load_tools(tools), verdicts(yes), read_secrets(secrets)
    with contextlib.suppress(ImportError):
        import readline  # noqa: F401 - input() edits lines and remembers them once it is there
    # One loop for the whole session: the gateway's tasks outlive a cancelled turn.
    with named_ledger(db, anchors, create=True) as ledger, asyncio.Runner() as runner:
        session = Session(load_model(model), order, ground)
        gateway = Gateway(made, store=ledger, verdicts=allowed, secrets=found, approver=session.ask)
        try:
            runner.run(gateway.recover())
            session.talk(runner, gateway)
        finally:
            runner.run(gateway.close())


@dataclass
class Session:
    """One conversation at the terminal."""

    model: Any
    order: Order = Order.SCHEMA
    ground: Ground = Ground.OFF
    always: set[str] = field(default_factory=set)
    history: list[str] = field(default_factory=list)
    edited: str | None = None
    cancelled: bool = False
    _caller: Caller | None = None

    def talk(self, runner: asyncio.Runner, gateway: Gateway) -> None:
        """Read lines until the end of the input."""
        run = gateway.begin()
        typer.echo(f"{len(gateway.offers(run))} tools. /help says more.")
        while True:
            try:
                line = input("> ").strip()
            except EOFError:
                typer.echo("")
                return
            except KeyboardInterrupt:
                typer.echo("")
                continue
            if line in {"/quit", "/exit"}:
                return
            try:
                if line.startswith("/"):
                    self._command(line, gateway, run)
                elif line:
                    self._turn(line, runner, gateway, run)
            except KeyboardInterrupt:
                typer.echo("\ncancelled; what already ran is recorded")
            except CallMeMaybeError as error:
                typer.echo(plain(str(error)))

    def _command(self, line: str, gateway: Gateway, run: Run) -> None:
        if line == "/tools":
            for spec in gateway.offers(run):
                effect = gateway.tools[spec.name].tool.effect.value
                typer.echo(f"  {plain(spec.name)} ({effect}): {plain(spec.description)}")
        elif line == "/history":
            for text in self.history:
                typer.echo(f"  {text}")
        else:
            typer.echo(_HELP)

    def _turn(self, line: str, runner: asyncio.Runner, gateway: Gateway, run: Run) -> None:
        run.say(line)
        offers = gateway.offers(run)
        if not offers:
            typer.echo("no tool is left for this session")
            return
        outcome = self._caller_for(offers).call(line)
        if outcome.call is None:
            typer.echo(next(iter(outcome.remarks), "no function fits"))
            return
        call = outcome.call
        while True:
            typer.echo(show(call, outcome.name_probability))
            answer = runner.run(gateway.run([call], run=run))[0]
            self.history.append(f"{show(call)}  ->  {render(answer)}")
            edited = self._take_edited()
            if edited is None:
                typer.echo("cancelled" if self.cancelled else render(answer))
                self.cancelled = False
                return
            # An edited call is a new one, said by the person: its values are theirs.
            run.say(edited)
            call = replace(call, arguments=edited)

    def _take_edited(self) -> str | None:
        edited, self.edited = self.edited, None
        return edited

    def _caller_for(self, offers: tuple[ToolSpec, ...]) -> Caller:
        from callmemaybe.caller import Caller

        if self._caller is None or self._caller.tools != offers:
            self._caller = Caller(
                self.model, offers, no_call=True, order=self.order.value, ground=self.ground.setting
            )
        return self._caller

    async def ask(self, approval: Approval, call: ToolCall) -> str | None:
        """Ask the person at the terminal."""
        if call.name in self.always:
            return "approved"
        typer.echo(f"  asks because {plain(approval.reason)}")
        while True:
            try:
                reply = self._read("  run it? [y]es [n]o [e]dit [a]lways: ").strip().lower()
            except EOFError:
                return "denied"
            except KeyboardInterrupt:
                self.cancelled = True
                return None
            if reply in {"y", "yes"}:
                return "approved"
            if reply in {"a", "always"}:
                self.always.add(call.name)
                return "approved"
            if reply in {"n", "no", ""}:
                return "denied"
            if reply in {"e", "edit"}:
                try:
                    self.edited = self._edit(call)
                except (EOFError, KeyboardInterrupt):
                    self.cancelled = True
                return "denied"

    def _read(self, question: str) -> str:
        """Read a line inside the event loop: Ctrl-C must reach the question, not the loop's task."""
        before = signal.signal(signal.SIGINT, signal.default_int_handler)
        try:
            return input(question)
        finally:
            signal.signal(signal.SIGINT, before)

    def _edit(self, call: ToolCall) -> str:
        while True:
            with _prefilled(call.arguments):
                text = self._read(f"  arguments (now {plain(call.arguments)}): ").strip()
            text = text or call.arguments
            try:
                value = json.loads(text)
                if isinstance(value, dict):
                    return text
                typer.echo("  an object is expected")
            except ValueError as error:
                typer.echo(f"  not valid JSON: {error}")


@contextlib.contextmanager
def _prefilled(text: str) -> Iterator[None]:
    """Have the next line begin as ``text``, to be edited, where the terminal can do that."""
    editor = sys.modules.get("readline")
    if editor is None or plain(text) != text:
        yield
        return
    editor.set_startup_hook(lambda: editor.insert_text(text))
    try:
        yield
    finally:
        editor.set_startup_hook(None)


def show(call: ToolCall, probability: float | None = None) -> str:
    """Return a call as one line."""
    sure = f"   ({probability:.0%} sure of the function)" if probability is not None else ""
    return f"{plain(call.name)}({plain(call.arguments)}){sure}"


def render(answer: Answer) -> str:
    """Return an answer as a person reads it."""
    if answer.ok:
        text = json.dumps(answer.value, ensure_ascii=False, indent=1)
        cut = "" if answer.code == "ok" else f"   ({answer.code})"
        lines = text if len(text) <= 2000 else text[:2000] + " ..."
        return "\n".join(plain(line) for line in lines.splitlines()) + cut
    where = f" at {answer.path}" if answer.path else ""
    what = {
        "none": "nothing happened",
        "possible": "it may have happened",
        "done": "it happened",
    }[answer.effect]
    return plain(f"{answer.code}{where}: {answer.detail or ''} ({what})")


def plain(text: str) -> str:
    """Return text that cannot command the terminal."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
