"""What a model is told about a call: one table of codes, and the answer built from it.

A tool's failure is a value. This module is pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from callmemaybe.gateway.lifecycle import CallState
from callmemaybe.jsonio import dumps
from callmemaybe.tools import Effect, ToolResult

#: code -> (did anything happen in the world, may the model try again)
CODES: Mapping[str, tuple[str, str]] = {
    "ok": ("done", "never"),
    "invalid_arguments": ("none", "fix"),
    "unknown_tool": ("none", "fix"),
    "denied": ("none", "never"),
    "approval_pending": ("none", "never"),
    "dependency_failed": ("none", "never"),
    "deadline_exceeded": ("none", "never"),
    "refused": ("none", "never"),
    "cancelled": ("none", "never"),
    "key_conflict": ("none", "never"),
    "output_truncated": ("none", "same"),
    "timed_out": ("possible", "same"),
    "unknown_outcome": ("possible", "never"),
    "in_flight": ("possible", "never"),
    "tool_error": ("possible", "never"),
    "result_truncated": ("done", "never"),
    "result_unrepresentable": ("done", "never"),
    "result_expired": ("done", "never"),
}

#: What a failed tool of each class says; `once` is the row of CODES.
_TOOL_ERROR: Mapping[Effect, tuple[str, str]] = {
    Effect.PURE: ("none", "same"),
    Effect.READ: ("none", "same"),
    Effect.TRANSACTIONAL: ("none", "same"),
    Effect.IDEMPOTENT: ("possible", "same"),
    Effect.KEYED: ("possible", "same"),
    Effect.ONCE: ("possible", "never"),
}


@dataclass(frozen=True)
class Answer(ToolResult):
    """What a call came to: the text for the model (``content``) and the facts behind it.

    ``effect`` is none, possible or done; ``retry`` is never, same (the same call may be sent
    again under a new id) or fix (send a corrected one). ``value`` is the tool's result as JSON
    values where it succeeded and is at hand. ``replayed`` says that nothing ran this time.
    """

    code: str = "ok"
    effect: str = "done"
    retry: str = "never"
    state: CallState = CallState.SUCCEEDED
    key: str = ""
    value: Any = None
    path: str | None = None
    expected: str | None = None
    detail: str | None = None
    replayed: bool = False

    @property
    def ok(self) -> bool:
        """Whether the tool did what it was asked."""
        return not self.is_error


def failure(
    call_id: str,
    code: str,
    state: CallState,
    *,
    key: str = "",
    effect_class: Effect | None = None,
    path: str | None = None,
    expected: str | None = None,
    detail: str | None = None,
) -> Answer:
    """Build the answer for a code of the table; ``effect_class`` matters to tool_error only."""
    effect, retry = CODES[code]
    if code == "tool_error" and effect_class is not None:
        effect, retry = _TOOL_ERROR[effect_class]
    told: dict[str, Any] = {"ok": False, "code": code, "effect": effect, "retry": retry}
    told |= {
        name: text
        for name, text in (("path", path), ("expected", expected), ("detail", detail))
        if text is not None
    }
    return Answer(
        call_id,
        dumps(told),
        is_error=True,
        code=code,
        effect=effect,
        retry=retry,
        state=state,
        key=key,
        path=path,
        expected=expected,
        detail=detail,
    )


def success(
    call_id: str, text: str, *, key: str, value: Any, told_limit: int, cut: bool = False
) -> Answer:
    """Build the answer of a tool that returned ``value``, written as the JSON ``text``.

    More than ``told_limit`` bytes of text are cut, and the code says so, as it does of a text that was ``cut`` before.
    """
    if not cut and (len(text) * 4 <= told_limit or len(text.encode()) <= told_limit):
        content = '{"ok": true, "result": ' + text + "}"
        return Answer(call_id, content, key=key, value=value)
    start = text.encode()[:told_limit].decode(errors="ignore")
    told = {"ok": True, "code": "result_truncated", "effect": "done", "retry": "never"}
    content = dumps({**told, "result_start": start})
    return Answer(call_id, content, code="result_truncated", key=key, value=value)


def done_without_result(call_id: str, code: str, *, key: str, detail: str) -> Answer:
    """Build the answer of a call whose effect happened and whose result cannot be shown."""
    effect, retry = CODES[code]
    told = {"ok": True, "code": code, "effect": effect, "retry": retry, "detail": detail}
    content = dumps(told)
    return Answer(call_id, content, code=code, effect=effect, key=key, detail=detail)


def codes_as_markdown() -> str:
    """Draw the codes; the page in the docs is compared with it."""
    lines = ["| code | effect | retry |", "|---|---|---|"]
    lines += [f"| {code} | {effect} | {retry} |" for code, (effect, retry) in CODES.items()]
    return "\n".join(lines) + "\n"
