"""The socket that a server listens on, and its address as a URL."""

from __future__ import annotations

import errno
import socket

from callmemaybe.errors import InputError
from callmemaybe.server.config import ServerConfig

_BACKLOG = 512


def bind(config: ServerConfig) -> socket.socket:
    """Return a socket that listens on the configured address; raise InputError if that fails."""
    where = f"{config.host}:{config.port}"
    try:
        family, kind, number, _, address = socket.getaddrinfo(
            config.host, config.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
    except OSError as error:
        raise InputError(
            f"{config.host!r} is not an address: {error.strerror}", where="--host"
        ) from None
    except UnicodeError:
        raise InputError(
            f"{config.host!r} is not an address: a part of the name is empty or too long",
            where="--host", hint="write it as 127.0.0.1, ::1 or host.example.org",
        ) from None  # fmt: skip
    opened = socket.socket(family, kind, number)
    opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        opened.bind(address)
        opened.listen(_BACKLOG)
    except OSError as error:
        opened.close()
        if error.errno == errno.EADDRINUSE:
            raise InputError(
                f"{where} is in use by another program", where="--port", hint="choose another"
            ) from None
        raise InputError(f"cannot listen on {where}: {error.strerror}", where="--host") from None
    opened.setblocking(False)
    return opened


def url_of(opened: socket.socket) -> str:
    """Return the URL of a listening socket."""
    host, port = opened.getsockname()[:2]
    name = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(host, host)  # noqa: S104 - not bound here
    return f"http://{f'[{name}]' if ':' in name and name[0] != '[' else name}:{port}"
