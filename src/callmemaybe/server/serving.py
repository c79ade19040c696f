"""From a model's name to a running server: bind first, then load, then serve."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence

from callmemaybe.caller import load_model
from callmemaybe.decoding.batch import DecodeBatch
from callmemaybe.decoding.prefix_cache import PrefixCache
from callmemaybe.errors import ModelError
from callmemaybe.generation.config import DecodingConfig
from callmemaybe.generation.local import LocalGenerator
from callmemaybe.models.base import Model
from callmemaybe.models.remote import RemoteModel
from callmemaybe.server.app import App
from callmemaybe.server.common import Served
from callmemaybe.server.engine import Engine
from callmemaybe.server.gc_tuning import settle
from callmemaybe.server.listen import address_of, bind, server_of
from callmemaybe.server.logs import Log, taking
from callmemaybe.server.observe import Facts, Observer
from callmemaybe.server.settings import Settings
from callmemaybe.wire.grounding import GroundingConfig


def application(
    model: Model,
    settings: Settings,
    *,
    name: str | None = None,
    format: str | None = None,  # noqa: A002 - the word users know
    observers: Sequence[Observer] = (),
    **options: object,
) -> App:
    """Return the application that serves a loaded model.

    ``name`` is what requests call it; ``options`` are those of ``LocalGenerator``. Raises ModelError for a
    model that cannot be used here.
    """
    batch = DecodeBatch(model, max_tasks=settings.slots)
    prefixes = PrefixCache(batch, settings.cache_bytes)
    generator = LocalGenerator(batch, format=format, prefix_cache=prefixes, **options)  # type: ignore[arg-type]
    served = Served(name or model.name, generator.format, int(time.time()), settings)

    def make_engine() -> Engine:
        return Engine(generator, batch, settings, new_id=served.new_call_id)

    return App(served, make_engine, observers)


def serve(
    model: str,
    settings: Settings,
    *,
    name: str | None = None,
    format: str | None = None,  # noqa: A002 - the word users know
    observers: Sequence[Observer] = (),
    quiet: bool = False,
    decoding: DecodingConfig | None = None,
    grounding: GroundingConfig | None = None,
    say: Callable[[str], None] = print,
) -> None:
    """Serve a model until a signal says to stop.

    ``decoding`` and ``grounding`` hold for all turns; ``say`` is told where the server listens. Raises InputError for an address that cannot be had,
    ModelError for a model that cannot be served.
    """
    opened = bind(settings)
    try:
        loaded = load_model(model)
        if isinstance(loaded, RemoteModel):
            raise ModelError(f"{model} is served already; serve takes a model on this machine")
        log = Log()
        watching: Observer = Failures(log) if quiet else log
        app = application(
            loaded,
            settings,
            name=name,
            format=format,
            observers=[watching, *observers],
            decoding=decoding,
            grounding=grounding,
        )
        settle()
        say(f"{app.served.name} is served at {address_of(opened)} (Ctrl-C stops)")
        with taking(log, logging.ERROR if quiet else logging.WARNING):
            server_of(app.asgi(), settings, app.begin_to_stop).run(sockets=[opened])
    finally:
        opened.close()


class Failures:
    """An observer that tells another one of failures only."""

    def __init__(self, inner: Observer) -> None:
        self._inner = inner

    def started(self, facts: Facts) -> None:
        """See a request that was read."""

    def finished(self, facts: Facts) -> None:
        """Hand on a request that failed through no fault of the client."""
        if facts.is_failure:
            self._inner.finished(facts)
