"""The answer of a call: the text that the model reads and the facts behind it, from one table of codes.

A tool's failure is a value, not an exception. Answers are built here when a call ends
(:func:`success_answer`, :func:`failure_answer`, :func:`answer_without_result`) and rebuilt from the ledger's
row for a redelivery (:func:`answer_from_row`). Pure.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from callmemaybe.gateway.lifecycle import CallState
from callmemaybe.gateway.store import CallRow
from callmemaybe.jsonio import dumps
from callmemaybe.tools import Effect, ToolResult

#: code -> (effect: did anything happen in the world; retry: may the model try again)
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

#: (effect, retry) of ``tool_error`` by effect class; the row of CODES is that of `once`.
_TOOL_ERROR: Mapping[Effect, tuple[str, str]] = {
    Effect.PURE: ("none", "same"),
    Effect.READ: ("none", "same"),
    Effect.TRANSACTIONAL: ("none", "same"),
    Effect.IDEMPOTENT: ("possible", "same"),
    Effect.KEYED: ("possible", "same"),
    Effect.ONCE: ("possible", "never"),
}


@dataclass(frozen=True)
class CallAnswer(ToolResult):
    """The answer of a call: the text for the model (``content``) and the facts behind it.

    ``effect`` is none, possible or done. ``retry`` is never, same (the same call may be sent again under a
    new id) or fix (send a corrected call). ``value`` is the tool's result as JSON values, if the call
    succeeded and the whole result is known. ``approval`` is the id of the approval that the
    call waits for. ``replayed`` says that nothing ran for this delivery.
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
    approval: str | None = None
    replayed: bool = False

    @property
    def ok(self) -> bool:
        """Whether the tool succeeded."""
        return not self.is_error


def failure_answer(
    call_id: str,
    code: str,
    state: CallState,
    *,
    key: str = "",
    effect_class: Effect | None = None,
    path: str | None = None,
    expected: str | None = None,
    detail: str | None = None,
    approval: str | None = None,
) -> CallAnswer:
    """Return the answer of a call that failed with ``code``; ``effect_class`` matters to tool_error only."""
    effect, retry = CODES[code]
    if code == "tool_error" and effect_class is not None:
        effect, retry = _TOOL_ERROR[effect_class]
    content: dict[str, Any] = {"ok": False, "code": code, "effect": effect, "retry": retry}
    content |= {
        name: text
        for name, text in (("path", path), ("expected", expected), ("detail", detail))
        if text is not None
    }
    return CallAnswer(
        call_id,
        dumps(content),
        is_error=True,
        code=code,
        effect=effect,
        retry=retry,
        state=state,
        key=key,
        path=path,
        expected=expected,
        detail=detail,
        approval=approval,
    )


def success_answer(
    call_id: str, text: str, *, key: str, value: Any, limit: int, cut: bool = False
) -> CallAnswer:
    """Return the answer of a tool that returned ``value``, written as the JSON ``text``.

    A text of more than ``limit`` bytes, or one that was ``cut`` before, gives ``result_truncated`` with the
    first ``limit`` bytes.
    """
    if not cut and (len(text) * 4 <= limit or len(text.encode()) <= limit):
        content = '{"ok": true, "result": ' + text + "}"
        return CallAnswer(call_id, content, key=key, value=value)
    start = text.encode()[:limit].decode(errors="ignore")
    facts = {"ok": True, "code": "result_truncated", "effect": "done", "retry": "never"}
    content = dumps({**facts, "result_start": start})
    return CallAnswer(call_id, content, code="result_truncated", key=key, value=value)


def answer_without_result(call_id: str, code: str, *, key: str, detail: str) -> CallAnswer:
    """Return the answer of a call whose effect happened and whose result cannot be shown."""
    effect, retry = CODES[code]
    facts = {"ok": True, "code": code, "effect": effect, "retry": retry, "detail": detail}
    content = dumps(facts)
    return CallAnswer(call_id, content, code=code, effect=effect, key=key, detail=detail)


def answer_from_row(call_id: str, row: CallRow, reconciled: str | None = None) -> CallAnswer:
    """Return the answer of a terminal row; ``content`` is byte for byte that of the first delivery.

    ``reconciled`` is the content that a reconciliation recorded in place of the row's own.
    """
    state = CallState(row.state)
    content = row.content
    if reconciled is not None:
        state, content = CallState.RECONCILED, reconciled
    code = row.code or "ok"
    if content is None:
        if state is CallState.SUCCEEDED:
            return answer_without_result(
                call_id, "result_expired", key=row.key, detail="the result is no longer kept"
            )
        effect = Effect(row.effect)
        return failure_answer(call_id, code, state, key=row.key, effect_class=effect)
    facts: dict[str, Any] = json.loads(content)
    return CallAnswer(
        call_id,
        content,
        is_error=not facts["ok"],
        code=facts.get("code", "ok"),
        effect=facts.get("effect", "done"),
        retry=facts.get("retry", "never"),
        state=state,
        key=row.key,
        value=_value(row, facts) if reconciled is None else facts.get("result"),
        path=facts.get("path"),
        expected=facts.get("expected"),
        detail=facts.get("detail"),
        replayed=True,
    )


def _value(row: CallRow, facts: dict[str, Any]) -> Any:
    if row.result is None:
        return facts.get("result")
    try:
        return json.loads(row.result)
    except ValueError:  # the result was cut at the limit
        return None
