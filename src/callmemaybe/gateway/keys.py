"""The key of a call, and the fingerprint of its arguments.

Both are computed over canonical JSON (RFC 8785), so that a redelivery by any process gives the same
bytes. Pure.
"""

from __future__ import annotations

import functools
import hashlib
import json
from typing import Any

import rfc8785

#: RFC 8785 writes numbers as IEEE doubles; larger integers would lose digits.
_SAFE = 2**53 - 1
_PLAIN = json.JSONEncoder(ensure_ascii=False, sort_keys=True, separators=(",", ":")).encode
_quoted = functools.lru_cache(maxsize=1024)(json.encoder.encode_basestring)


def canonical(value: Any) -> bytes:
    """Return the canonical JSON of ``value``: RFC 8785, extended so that no integer loses a digit.

    A value with an integer beyond 2**53 - 1, which RFC 8785 cannot carry, is written in a form
    of its own that no RFC 8785 text equals (it starts with ``!``). Raises ValueError for what is
    not a JSON value.
    """
    kind = _survey(value)
    if kind == "plain":
        return _PLAIN(value).encode()
    if kind == "large":
        return b"!" + rfc8785.dumps(_spelt(value))
    return rfc8785.dumps(value)


def call_key(tenant: str, run: str, turn: int, ordinal: int, tool: str) -> str:
    """Return the key of a call: 64 hexadecimal digits. Its arguments are deliberately outside."""
    text = f"[{_quoted(tenant)},{_quoted(run)},{turn},{ordinal},{_quoted(tool)}]"
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()


class Mac:
    """HMAC-SHA-256 (RFC 2104) over canonical JSON, with the two keyed states computed once.

    ``hmac.digest`` lets go of the interpreter lock for every message however short, which under load
    costs far more than the hash.
    """

    def __init__(self, secret: bytes) -> None:
        block = (hashlib.sha256(secret).digest() if len(secret) > 64 else secret).ljust(64, b"\0")
        self._inner = hashlib.sha256(bytes(byte ^ 0x36 for byte in block))
        self._outer = hashlib.sha256(bytes(byte ^ 0x5C for byte in block))

    def of(self, arguments: Any) -> str:
        """Return the HMAC of the canonical arguments, 64 hexadecimal digits."""
        inner, outer = self._inner.copy(), self._outer.copy()
        inner.update(canonical(arguments))
        outer.update(inner.digest())
        return outer.hexdigest()


def fingerprint(value: Any) -> str:
    """Return the SHA-256 of the canonical JSON of a value: of a definition, a policy, a result."""
    return hashlib.sha256(canonical(value)).hexdigest()


def _survey(value: Any) -> str:
    """Say which writer is exact: "plain" (json.dumps), "general" (rfc8785) or "large"."""
    result = "plain"
    stack: list[Any] = [value]
    while stack:
        item = stack.pop()
        kind = type(item)
        if kind is dict:
            if not all(map(str.isascii, item)):
                result = "general"
            stack += item.values()
        elif kind is list or kind is tuple:
            stack += item
        elif kind is int:
            if not -_SAFE <= item <= _SAFE:
                return "large"
        elif not (kind is str or item is None or kind is bool):
            result = "general"
    return result


def _spelt(value: Any) -> Any:
    """Tag every scalar, so that a spelt integer can never be taken for a string."""
    if isinstance(value, dict):
        return {key: _spelt(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [[_spelt(inner) for inner in value]]
    if isinstance(value, int) and not isinstance(value, bool):
        return ["i", format(value, "x")]
    return ["v", value]
