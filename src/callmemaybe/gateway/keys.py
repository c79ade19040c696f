"""The key of a call and the HMAC of its arguments, computed over canonical JSON (RFC 8785).

A redelivery by any process therefore has the same key and the same HMAC. Pure.
"""

from __future__ import annotations

import functools
import hashlib
import json
from typing import Any

import rfc8785

#: RFC 8785 writes numbers as IEEE doubles; integers beyond this lose digits.
_SAFE = 2**53 - 1
_PLAIN = json.JSONEncoder(ensure_ascii=False, sort_keys=True, separators=(",", ":")).encode
_quoted = functools.lru_cache(maxsize=1024)(json.encoder.encode_basestring)


def canonical(value: Any) -> bytes:
    """Return the canonical JSON of ``value``: RFC 8785, extended so that no integer loses a digit.

    A value that contains an integer beyond 2**53 - 1, which RFC 8785 cannot represent, is written in a
    separate form that starts with ``!`` and so equals no RFC 8785 text. Raises ValueError for what is
    not a JSON value.
    """
    kind = _exact_writer(value)
    if kind == "plain":
        return _PLAIN(value).encode()
    if kind == "large":
        return b"!" + rfc8785.dumps(_tagged(value))
    return rfc8785.dumps(value)


def call_key(tenant: str, run: str, turn: int, ordinal: int, tool: str) -> str:
    """Return the key of a call: 64 hexadecimal digits. The arguments are deliberately not part of it."""
    text = f"[{_quoted(tenant)},{_quoted(run)},{turn},{ordinal},{_quoted(tool)}]"
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()


def business_key(tenant: str, tool: str, name: str) -> str:
    """Return the key of a call that has a name of its own, the same in every run of the tenant."""
    text = f"[{_quoted(tenant)},{_quoted(tool)},{_quoted(name)}]"
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()


class Mac:
    """HMAC-SHA-256 (RFC 2104) over canonical JSON, with the two keyed hash states computed once.

    ``hmac.digest`` releases the GIL for every message, however short; under load that costs far more than
    the hash.
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
    """Return the SHA-256 of a value's canonical JSON, 64 hexadecimal digits."""
    return hashlib.sha256(canonical(value)).hexdigest()


def _exact_writer(value: Any) -> str:
    """Return which writer is exact: "plain" (json.dumps), "general" (rfc8785) or "large" (tagged)."""
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


def _tagged(value: Any) -> Any:
    """Tag every scalar and write integers in hexadecimal, so that no integer equals a string."""
    if isinstance(value, dict):
        return {key: _tagged(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [[_tagged(inner) for inner in value]]
    if isinstance(value, int) and not isinstance(value, bool):
        return ["i", format(value, "x")]
    return ["v", value]
