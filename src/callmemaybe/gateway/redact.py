"""What must not be written down: declared arguments, and the values of secrets. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

REDACTED = "[redacted]"


def arguments(values: Mapping[str, Any], sensitive: Collection[str]) -> dict[str, Any]:
    """Return the arguments with the declared sensitive ones blanked."""
    return {name: REDACTED if name in sensitive else value for name, value in values.items()}


def text(written: str, secrets: Mapping[str, str]) -> str:
    """Return ``written`` with every occurrence of a secret's value replaced by its name.

    A secret also counts in the spelling that JSON gives it inside a string.
    """
    for name, value in secrets.items():
        if not value:
            continue
        for spelling in {value, _in_json(value)}:
            if spelling in written:
                written = written.replace(spelling, f"[secret {name}]")
    return written


def _in_json(value: str) -> str:
    import json

    return json.dumps(value, ensure_ascii=False)[1:-1]
