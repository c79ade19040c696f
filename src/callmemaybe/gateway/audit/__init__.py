"""The stores: this folder is the registry; a module here offers ``AUDIT_LOG``.

Each holds the statements of one kind of database behind the interface
:class:`callmemaybe.gateway.store.Backend`, and nothing that decides.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from callmemaybe import plugins
from callmemaybe.gateway.chain import Head
from callmemaybe.gateway.ledger import Ledger
from callmemaybe.gateway.limits import DEFAULTS, Limits
from callmemaybe.gateway.store import Backend


def open_backend(store: str, **options: Any) -> Backend:
    """Open ``store``: ``scheme://...`` names the module of this folder, anything else is a file."""
    scheme, separator, _ = store.partition("://")
    name = scheme if separator else "sqlite"
    made: Any = plugins.load(__name__, {"postgres": "postgresql"}.get(name, name), "AUDIT_LOG")
    backend: Backend = made(store, **options)
    return backend


def open_ledger(
    store: str,
    limits: Limits = DEFAULTS,
    *,
    anchor: Callable[[Head], None] | None = None,
    probe: Callable[[str], None] | None = None,
    **options: Any,
) -> Ledger:
    """Open a store with its writer. ``anchor`` is given the chain's head every 10 s and at the end."""
    more: dict[str, Any] = {} if probe is None else {"probe": probe}
    return Ledger(
        open_backend(store, **options),
        lease=limits.lease,
        heartbeat=limits.heartbeat,
        anchor=anchor,
        anchor_every=limits.anchor,
        **more,
    )
