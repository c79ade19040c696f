"""The command ``serve``: check the options, bind, load the model, serve."""

from __future__ import annotations

import re
import sys
from functools import partial
from importlib.util import find_spec
from typing import TYPE_CHECKING, Annotated

import typer

from callmemaybe.cli.options import (
    GroundMode,
    GroundOption,
    GroundScope,
    GroundScopeOption,
    KeyOrder,
    KeyOrderOption,
    MinConfidenceOption,
    NowOption,
)
from callmemaybe.cli.process import ExitCode
from callmemaybe.errors import InputError, ModelError
from callmemaybe.server.config import ServeOptions, ServerConfig

if TYPE_CHECKING:
    from collections.abc import Sequence

    from callmemaybe.server.observability import RequestObserver

_NEEDED = ("starlette", "uvicorn", "prometheus_client")


Model = Annotated[
    str,
    typer.Option(
        "--model",
        "-m",
        help='"nano", a model folder, "org/name" on the hub, or "http://host/v1#model" of another server.',
    ),
]
Host = Annotated[
    str, typer.Option(help="Address to listen on; those other machines can reach need --api-key.")
]
Port = Annotated[int, typer.Option(min=0, max=65535, help="Port to listen on; 0 takes a free one.")]
Keys = Annotated[
    list[str],
    typer.Option(
        envvar="CALLMEMAYBE_API_KEY",
        help="Require this key of clients; may be repeated.",
    ),
]
UpstreamKey = Annotated[
    str,
    typer.Option(
        envvar="CALLMEMAYBE_UPSTREAM_KEY",
        help="The key that the server of --model asks for, where that is another server.",
    ),
]
Name = Annotated[
    str | None, typer.Option(help="Name of the model in requests; default: that of --model.")
]
Format = Annotated[
    str | None,
    typer.Option(
        "--wire-format",
        "--format",
        help="Wire format, by name or file; default: detected from the model.",
    ),
]
Slots = Annotated[int, typer.Option(min=1, help="Turns decoded at once, in one batch.")]
Workers = Annotated[
    int,
    typer.Option(
        min=1, max=64,
        help="Processes that share the port; each has the model, slots, queue and caches of its own.",
    ),
]  # fmt: skip
Queue = Annotated[int, typer.Option(min=1, help="Turns that may wait for a slot.")]
DefaultTokens = Annotated[
    int, typer.Option(min=1, help="The most tokens of an answer where a request sets no limit.")
]
MostTokens = Annotated[
    int, typer.Option(min=1, help="The largest limit of tokens that a request may set.")
]
Cache = Annotated[
    int,
    typer.Option(min=1, help="MiB of cached prompt prefixes, which requests share."),
]
Timeout = Annotated[float, typer.Option(min=0.1, help="The most seconds of one answer.")]
Origins = Annotated[
    list[str],
    typer.Option(help="Allow web pages of this origin to use the server; may be repeated."),
]
Otel = Annotated[
    bool,
    typer.Option(
        "--otel",
        help="Create an OpenTelemetry span per request; opentelemetry-instrument exports them.",
    ),
]
RefuseUnread = Annotated[
    bool,
    typer.Option(
        "--refuse-unread",
        help="Refuse conversations of which a model of single requests (nano) reads only a part.",
    ),
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Log failed requests only.")]


def serve(
    model: Model = "nano",
    host: Host = "127.0.0.1",
    port: Port = 8080,
    api_key: Keys = [],  # noqa: B006 - typer copies it
    upstream_key: UpstreamKey = "",
    name: Name = None,
    format_: Format = None,
    order: KeyOrderOption = KeyOrder.SCHEMA,
    min_confidence: MinConfidenceOption = 0.0,
    ground: GroundOption = GroundMode.OFF,
    ground_in: GroundScopeOption = GroundScope.REQUEST,
    now: NowOption = None,
    workers: Workers = 1,
    slots: Slots = 8,
    queue: Queue = 128,
    default_tokens: DefaultTokens = 1024,
    most_tokens: MostTokens = 8192,
    prompt_cache: Cache = 256,
    timeout: Timeout = 300.0,
    cors_origin: Origins = [],  # noqa: B006 - typer copies it
    refuse_unread: RefuseUnread = False,
    otel: Otel = False,
    quiet: Quiet = False,
) -> None:
    """Serve a model in the interfaces of OpenAI's API and Anthropic's, with a playground at /."""
    check_installed()
    check_origins(cors_origin, "--cors-origin")
    settings = ServerConfig(
        host=host, port=port, keys=tuple(api_key), origins=tuple(cors_origin), slots=slots,
        queue=queue, queue_per_client=queue, default_tokens=min(default_tokens, most_tokens),
        most_tokens=most_tokens, run_seconds=timeout, cache_bytes=prompt_cache << 20,
        refuse_unread=refuse_unread,
    )  # fmt: skip
    check_workers(workers)
    from callmemaybe.generation.config import DecodingConfig
    from callmemaybe.wire.grounding import GroundingConfig

    options = ServeOptions(
        model, settings, name=name, format=format_, quiet=quiet, upstream_key=upstream_key,
        decoding=DecodingConfig(order=order.value, min_confidence=min_confidence),
        grounding=GroundingConfig(ground.value, ground_in.value, now=now),
        make_observers=partial(_observers, otel),
    )  # fmt: skip
    if workers > 1:
        from callmemaybe.server.workers import serve_with_workers

        serve_with_workers(options, workers, say=_say)
    else:
        from callmemaybe.server.serving import serve as serve_model

        serve_model(options, say=_say)
    raise typer.Exit(ExitCode.DONE)


def _say(line: str) -> None:
    print(f"callmemaybe: {line}", file=sys.stderr, flush=True)


def check_workers(workers: int) -> None:
    """Raise InputError for several workers where processes cannot share a socket."""
    if workers > 1 and sys.platform == "win32":
        raise InputError(
            "several processes cannot share a port on Windows", where="--workers",
            hint="start several servers, and a proxy in front of them",
        )  # fmt: skip


def check_origins(origins: Sequence[str], where: str) -> None:
    """Raise InputError for what is no origin of web pages; ``where`` is the option."""
    for origin in origins:
        if not re.fullmatch(r"https?://[^/\s]+", origin):
            raise InputError(
                f"{origin!r} is not an origin", where=where, hint="write https://example.org"
            )


def check_installed() -> None:
    """Raise ModelError if a package of the extra ``server`` is missing."""
    missing = [name for name in _NEEDED if find_spec(name) is None]
    if missing:
        raise ModelError(
            f"serving needs a package that is not installed ({missing[0]}); install it with "
            "`pip install 'callmemaybe[server]'`"
        )


def _observers(otel: bool) -> list[RequestObserver]:
    if not otel:
        return []
    if find_spec("opentelemetry") is None:
        raise ModelError(
            "spans need a package that is not installed (opentelemetry); install it with "
            "`pip install 'callmemaybe[otel]'`"
        )
    from callmemaybe.integrations.opentelemetry import ServerTelemetry

    return [ServerTelemetry()]


def register(app: typer.Typer) -> None:
    """Add the command to the program."""
    app.command()(serve)
