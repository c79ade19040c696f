"""The command ``serve``: check everything that can be wrong, bind, load the model, serve."""

from __future__ import annotations

import re
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from callmemaybe.cli.exits import Exit
from callmemaybe.cli.limits import (
    Ground,
    GroundIn,
    GroundInOption,
    GroundOption,
    Order,
    OrderOption,
)
from callmemaybe.errors import InputError, ModelError
from callmemaybe.server.settings import Settings

if TYPE_CHECKING:
    from callmemaybe.server.observe import Observer

_NEEDED = ("starlette", "uvicorn", "prometheus_client")


Model = Annotated[
    str, typer.Option("--model", "-m", help='"nano", a model folder, or "org/name" on the hub.')
]
Host = Annotated[
    str, typer.Option(help="Address to listen on; others than this machine's need a key.")
]
Port = Annotated[int, typer.Option(min=0, max=65535, help="Port to listen on; 0 takes a free one.")]
Keys = Annotated[
    list[str],
    typer.Option(
        envvar="CALLMEMAYBE_API_KEY",
        help="Let in only who has this key; may be given several times.",
    ),
]
Name = Annotated[
    str | None, typer.Option(help="What requests call the model, if not as --model does.")
]
Format = Annotated[
    str | None,
    typer.Option("--format", help="Wire format, by name or file; None: told by the model."),
]
Slots = Annotated[int, typer.Option(min=1, help="Turns decoded at once, in one batch.")]
Queue = Annotated[int, typer.Option(min=1, help="Turns that may wait for a slot.")]
DefaultTokens = Annotated[
    int, typer.Option(min=1, help="Tokens of an answer where a request names no limit.")
]
MostTokens = Annotated[int, typer.Option(min=1, help="The most tokens that a request may ask for.")]
Cache = Annotated[
    int,
    typer.Option(min=1, help="MiB of prompts to keep: what requests have in common is fed once."),
]
Timeout = Annotated[float, typer.Option(min=0.1, help="Seconds that one answer may take.")]
Origins = Annotated[
    list[str], typer.Option(help="Let pages of this origin use the server from a browser.")
]
Otel = Annotated[
    bool,
    typer.Option("--otel", help="Make a span per request; opentelemetry-instrument sends them."),
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Log no requests, only failures.")]


def serve(
    model: Model = "nano",
    host: Host = "127.0.0.1",
    port: Port = 8080,
    api_key: Keys = [],  # noqa: B006 - typer copies it
    name: Name = None,
    format_: Format = None,
    order: OrderOption = Order.SCHEMA,
    ground: GroundOption = Ground.OFF,
    ground_in: GroundInOption = GroundIn.REQUEST,
    slots: Slots = 8,
    queue: Queue = 128,
    default_tokens: DefaultTokens = 1024,
    most_tokens: MostTokens = 8192,
    prompt_cache: Cache = 256,
    timeout: Timeout = 300.0,
    cors_origin: Origins = [],  # noqa: B006 - typer copies it
    otel: Otel = False,
    quiet: Quiet = False,
) -> None:
    """Serve a model in the interfaces of OpenAI's API, with a playground at /."""
    _check_installed()
    for origin in cors_origin:
        if not re.fullmatch(r"https?://[^/\s]+", origin):
            raise InputError(f"{origin!r} is no origin", where="--cors-origin",
                             hint="write https://example.org")  # fmt: skip
    settings = Settings(
        host=host, port=port, keys=tuple(api_key), origins=tuple(cors_origin), slots=slots,
        queue=queue, queue_per_client=queue, default_tokens=min(default_tokens, most_tokens),
        most_tokens=most_tokens, run_seconds=timeout, cache_bytes=prompt_cache << 20,
    )  # fmt: skip
    from callmemaybe.server.serving import serve as serve_model
    from callmemaybe.wire.grounding import GroundingConfig

    serve_model(
        model, settings, name=name, format=format_, observers=_observers(otel), quiet=quiet,
        limits=GroundingConfig(order.value, ground.setting, ground_in.value),
        say=lambda line: print(f"callmemaybe: {line}", file=sys.stderr, flush=True),
    )  # fmt: skip
    raise typer.Exit(Exit.DONE)


def _check_installed() -> None:
    missing = [name for name in _NEEDED if find_spec(name) is None]
    if missing:
        raise ModelError(
            f"serving needs a package that is not installed ({missing[0]}); install it with "
            "`pip install 'callmemaybe[server]'`"
        )


def _observers(otel: bool) -> list[Observer]:
    if not otel:
        return []
    if find_spec("opentelemetry") is None:
        raise ModelError(
            "spans need a package that is not installed (opentelemetry); install it with "
            "`pip install 'callmemaybe[otel]'`"
        )
    from callmemaybe.integrations.opentelemetry import Requests

    return [Requests()]


def show(
    trace: Annotated[Path, typer.Argument(help="A trace file, as run --trace writes it.")],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="The page; default: beside the trace.")
    ] = None,
) -> None:
    """Turn a trace into one HTML file that shows every step; it needs no server and no network."""
    from callmemaybe.cli.files import (
        check_writable,
        is_standard,
        named_output,
        same_file,
        write_atomically,
    )
    from callmemaybe.cli.traceread import read_trace
    from callmemaybe.server.page import viewer

    target = named_output(output or (trace if is_standard(trace) else trace.with_suffix(".html")))
    runs = read_trace(trace)
    if not is_standard(target) and same_file(trace, target):
        raise InputError("is the trace itself", where="--output", hint="name another file")
    check_writable(target, "the page")
    write_atomically(target, viewer(runs, title=trace.name))
    said = f"{target}: {len(runs)} {'prompt' if len(runs) == 1 else 'prompts'}"
    typer.echo(said, err=is_standard(target))


def register(app: typer.Typer) -> None:
    """Add the commands to the program."""
    app.command()(serve)
    app.command()(show)
