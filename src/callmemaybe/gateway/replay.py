"""From a stored row back to the answer that was, or would have been, given. Pure."""

from __future__ import annotations

import json
from typing import Any

from callmemaybe.gateway.codes import Answer, done_without_result, failure
from callmemaybe.gateway.lifecycle import CallState
from callmemaybe.gateway.store import Row
from callmemaybe.tools import Effect


def answer_from(call_id: str, row: Row, reconciled: str | None = None) -> Answer:
    """Return the answer of a terminal row; the text is byte for byte what was told before."""
    state = CallState(row.state)
    content = row.content
    if reconciled is not None:
        state, content = CallState.RECONCILED, reconciled
    code = row.code or "ok"
    if content is None:
        if state is CallState.SUCCEEDED:
            return done_without_result(
                call_id, "result_expired", key=row.key, detail="the result is no longer kept"
            )
        effect = Effect(row.effect)
        return failure(call_id, code, state, key=row.key, effect_class=effect)
    told: dict[str, Any] = json.loads(content)
    return Answer(
        call_id,
        content,
        is_error=not told["ok"],
        code=told.get("code", "ok"),
        effect=told.get("effect", "done"),
        retry=told.get("retry", "never"),
        state=state,
        key=row.key,
        value=_value(row, told) if reconciled is None else told.get("result"),
        path=told.get("path"),
        expected=told.get("expected"),
        detail=told.get("detail"),
        replayed=True,
    )


def _value(row: Row, told: dict[str, Any]) -> Any:
    if row.result is None:
        return told.get("result")
    try:
        return json.loads(row.result)
    except ValueError:  # it was cut at the limit
        return None
