"""The command ``chat``: type a request; see each call before it runs; approve, deny or edit it."""

from __future__ import annotations

import contextlib
import json
import signal
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from callmemaybe.cli.files import append_json
from callmemaybe.cli.gateway import (
    DEFAULT_LEDGER,
    AnchorCalls,
    AnchorCommand,
    Anchors,
    Db,
    Secrets,
    Yes,
    opened_ledger,
    verdicts,
)
from callmemaybe.cli.inputs import read_secrets
from callmemaybe.cli.model import loaded_model
from callmemaybe.cli.options import (
    AllowPrivateOption,
    BaseUrlOption,
    GroundMode,
    GroundOption,
    KeyOrder,
    KeyOrderOption,
    ModelOption,
    NowOption,
    OnlyOption,
    SkipOption,
    ToolsOption,
)
from callmemaybe.cli.process import printable
from callmemaybe.cli.prompts import length_problem
from callmemaybe.cli.tools import ToolChoice, shown_to_model
from callmemaybe.errors import CallMeMaybeError

if TYPE_CHECKING:
    import asyncio

    from callmemaybe.caller import Caller
    from callmemaybe.gateway import Approval, CallAnswer, Gateway
    from callmemaybe.gateway.run import Run
    from callmemaybe.generation.result import CallResult
    from callmemaybe.tools import ToolCall, ToolSpec

Collect = Annotated[
    Path | None,
    typer.Option(
        help="Append each request whose call you approve, as you edited it, to this file of examples for `callmemaybe tune`."
    ),
]
_HELP = """\
Type a request. Lines that start with a slash are commands:
  /tools    the tools offered now         /history  the calls so far
  /help     this text                     /quit     leave (so does Ctrl-D)
Before a call runs you are asked: y runs it, n does not, e edits its arguments, a always allows
this tool for the rest of the session. Ctrl-C cancels the turn, not the program."""


def chat(
    tools: ToolsOption = [],  # noqa: B006 - typer copies it
    model: ModelOption = "nano",
    only: OnlyOption = [],  # noqa: B006 - typer copies it
    skip: SkipOption = [],  # noqa: B006 - typer copies it
    allow_private: AllowPrivateOption = False,
    base_url: BaseUrlOption = None,
    yes: Yes = [],  # noqa: B006 - typer copies it
    order: KeyOrderOption = KeyOrder.SCHEMA,
    ground: GroundOption = GroundMode.OFF,
    now: NowOption = None,
    db: Db = DEFAULT_LEDGER,
    secrets: Secrets = None,
    anchors: Anchors = None,
    anchor_command: AnchorCommand = None,
    anchor_calls: AnchorCalls = False,
    collect: Collect = None,
) -> None:
    """Talk to a model that calls your tools; each call is shown before it runs."""
    import asyncio

    from callmemaybe.gateway import Gateway

    policy, secret_values = verdicts(yes), read_secrets(secrets)
    loaded = ToolChoice(tools, only, skip, allow_private, base_url).load_runnable()
    with contextlib.suppress(ImportError):
        import readline  # noqa: F401 - input() edits lines and remembers them once it is there
    # One event loop for the whole session: the gateway's tasks outlive a cancelled turn.
    opened = opened_ledger(db, anchors, command=anchor_command, each=anchor_calls, create=True)
    with loaded, opened as ledger, asyncio.Runner() as runner:
        session = ChatSession(loaded_model(model), order, ground, now, collect=collect)
        gateway = Gateway(
            loaded, store=ledger, verdicts=policy, secrets=secret_values, approver=session.ask
        )
        try:
            runner.run(gateway.recover())
            session.run(runner, gateway)
        finally:
            runner.run(gateway.close())


@dataclass
class ChatSession:
    """One conversation at the terminal."""

    model: Any
    order: KeyOrder = KeyOrder.SCHEMA
    ground: GroundMode = GroundMode.OFF
    now: datetime | None = None
    always: set[str] = field(default_factory=set)
    history: list[str] = field(default_factory=list)
    edited: str | None = None
    cancelled: bool = False
    #: Where calls that the user approves are kept as examples; None: nowhere.
    collect: Path | None = None
    approved: bool = False
    _caller: Caller | None = None

    def run(self, runner: asyncio.Runner, gateway: Gateway) -> None:
        """Read lines until the end of the input."""
        run = gateway.begin()
        typer.echo(f"{len(gateway.offers(run))} tools. Type /help for help.")
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
                typer.echo("\ncancelled; calls that already ran are recorded")
            except CallMeMaybeError as error:
                typer.echo(printable(str(error)))

    def _command(self, line: str, gateway: Gateway, run: Run) -> None:
        if line == "/tools":
            for spec in gateway.offers(run):
                effect = gateway.tools[spec.name].tool.effect.value
                typer.echo(f"  {printable(spec.name)} ({effect}): {printable(spec.description)}")
        elif line == "/history":
            for text in self.history:
                typer.echo(f"  {text}")
        else:
            typer.echo(_HELP)

    def _turn(self, line: str, runner: asyncio.Runner, gateway: Gateway, run: Run) -> None:
        if problem := length_problem(line):
            typer.echo(problem)
            return
        self.approved = False
        run.add_user_message(line)
        offers = gateway.offers(run)
        if not offers:
            typer.echo("no tool may be called any more in this session")
            return
        outcome = self._caller_for(offers).call(line)
        if outcome.call is None:
            typer.echo(next(iter(outcome.remarks), "no function fits"))
            return
        call = outcome.call
        sure: CallResult | None = outcome
        while True:
            typer.echo(call_line(call, sure))
            answer = runner.run(gateway.run([call], run=run))[0]
            self.history.append(f"{call_line(call)}  ->  {render(answer)}")
            edited = self._take_edited()
            if edited is None:
                typer.echo("cancelled" if self.cancelled else render(answer))
                if self.approved and self.collect is not None:
                    append_json(self.collect, _example(line, call))
                self.cancelled = self.approved = False
                return
            # An edited call is a new one, whose values come from the user.
            run.add_user_message("\n".join([edited, *_leaves(json.loads(edited))]))
            call, sure = replace(call, arguments=edited), None

    def _take_edited(self) -> str | None:
        edited, self.edited = self.edited, None
        return edited

    def _caller_for(self, offers: tuple[ToolSpec, ...]) -> Caller:
        from callmemaybe.caller import Caller
        from callmemaybe.generation.config import DecodingConfig
        from callmemaybe.wire.grounding import GroundingConfig

        if self._caller is None or self._caller.tools != offers:
            self._caller = Caller(
                self.model,
                shown_to_model(offers),
                no_call=True,
                decoding=DecodingConfig(order=self.order.value),
                grounding=GroundingConfig(self.ground.value, now=self.now),
            )
        return self._caller

    async def ask(self, approval: Approval, call: ToolCall) -> str | None:
        """Ask the user to approve a call."""
        if call.name in self.always:
            return "approved"
        typer.echo(f"  approval needed: {printable(approval.reason)}")
        while True:
            try:
                reply = self._read("  run it? [y]es [n]o [e]dit [a]lways: ").strip().lower()
            except EOFError:
                return "denied"
            except KeyboardInterrupt:
                self.cancelled = True
                return None
            if reply in {"y", "yes"}:
                self.approved = True
                return "approved"
            if reply in {"a", "always"}:
                self.approved = True
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
        """Read a line inside the event loop, so that Ctrl-C interrupts the question, not the loop's task."""
        before = signal.signal(signal.SIGINT, signal.default_int_handler)
        try:
            return input(question)
        finally:
            signal.signal(signal.SIGINT, before)

    def _edit(self, call: ToolCall) -> str:
        while True:
            with prefilled(call.arguments):
                text = self._read(f"  arguments (now {printable(call.arguments)}): ").strip()
            text = text or call.arguments
            try:
                value = json.loads(text)
                if isinstance(value, dict):
                    return text
                typer.echo("  an object is expected")
            except ValueError as error:
                typer.echo(f"  not valid JSON: {error}")


def _example(prompt: str, call: ToolCall) -> dict[str, Any]:
    """Return a request with the call that the user approved, as ``callmemaybe tune --examples`` reads it."""
    return {"prompt": prompt, "expected": {"name": call.name, "arguments": call.parsed}}


@contextlib.contextmanager
def prefilled(text: str) -> Iterator[None]:
    """Prefill the next line with ``text``, where the terminal can edit lines."""
    editor = sys.modules.get("readline")
    if editor is None or printable(text) != text:
        yield
        return
    editor.set_startup_hook(lambda: editor.insert_text(text))
    try:
        yield
    finally:
        editor.set_startup_hook(None)


def call_line(call: ToolCall, outcome: CallResult | None = None) -> str:
    """Return a call as one line, with how likely it is right if it is that of ``outcome``.

    That is of the whole call; of models that do not tell, only of the function.
    """
    sure = ""
    if outcome is not None and outcome.confidence is not None:
        sure = f"   ({outcome.confidence:.0%} sure)"
    elif outcome is not None and outcome.name_probability is not None:
        sure = f"   ({outcome.name_probability:.0%} sure of the function)"
    return f"{printable(call.name)}({printable(call.arguments)}){sure}"


def _leaves(value: Any) -> Iterator[str]:
    """Yield what the user wrote, value by value: in JSON they need not stand between white space."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield key
            yield from _leaves(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _leaves(inner)
    else:
        yield str(value)


def render(answer: CallAnswer) -> str:
    """Return the result of a call as text for the user."""
    if answer.ok:
        text = json.dumps(answer.value, ensure_ascii=False, indent=1)
        suffix = "" if answer.code == "ok" else f"   ({answer.code})"
        lines = text if len(text) <= 2000 else text[:2000] + " ..."
        return "\n".join(printable(line) for line in lines.splitlines()) + suffix
    where = f" at {answer.path}" if answer.path else ""
    what = {
        "none": "nothing happened",
        "possible": "it may have happened",
        "done": "it happened",
    }[answer.effect]
    return printable(f"{answer.code}{where}: {answer.detail or ''} ({what})")


def register(app: typer.Typer) -> None:
    """Add the command to the program."""
    app.command()(chat)
