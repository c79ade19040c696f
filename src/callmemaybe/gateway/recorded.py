"""What the ledger keeps of a model's turn: its calls, so that the same turn with others is not a new one.

A model that is asked again after a crash may call something else, or the same at another position. Without
the record each such call would be a new effect. Pure.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import NamedTuple

#: Characters of a recorded turn that the detail of an answer shows.
_SHOWN = 300
#: json.dumps() with other separators makes an encoder for each call.
_compact = json.JSONEncoder(separators=(",", ":")).encode


class RecordedCall(NamedTuple):
    """One position of a recorded turn.

    ``mac`` is the HMAC of the arguments as delivered. ``is_open``: the call was rejected as it was
    written, so a corrected one may take its place. ``arguments`` is None where they are not kept: they
    are sensitive, unreadable, or older than the retention.
    """

    tool: str
    mac: str
    call_id: str
    is_open: bool
    arguments: str | None = None


class TurnRow(NamedTuple):
    """A turn of a run as the ledger stores it; the fields are the columns.

    ``delivery`` names the delivery that recorded it; ``request`` is the HMAC of the user's messages that it
    answers, empty if the gateway was told none. ``calls`` and ``arguments`` are JSON lists, one
    entry per call. ``is_new`` is no column: the turn must not be in the ledger yet.
    """

    tenant: str
    run: str
    turn: int
    delivery: str
    request: str
    calls: str
    arguments: str
    created: float
    is_new: bool = False

    @property
    def place(self) -> tuple[str, str, int]:
        """The key of the row."""
        return (self.tenant, self.run, self.turn)


class OpenedTurn(NamedTuple):
    """What the ledger knows of a turn that was to be recorded.

    ``policy`` is the hash of the run's policy in the ledger. ``existed``: an earlier delivery recorded the
    turn. ``is_taken``: the turn had to be new, and was not. ``conflicts``: position -> what is recorded
    instead of the call delivered there.
    """

    policy: str = ""
    existed: bool = False
    is_taken: bool = False
    conflicts: dict[int, str] = {}  # noqa: RUF012 - never changed


def write_calls(calls: Sequence[RecordedCall]) -> tuple[str, str]:
    """Return the columns ``calls`` and ``arguments``; ASCII, so that every store can hold them."""
    return _compact([call[:4] for call in calls]), _compact([call.arguments for call in calls])


def read_calls(row: TurnRow) -> list[RecordedCall]:
    """Return the calls of a row; without arguments if they are no longer kept."""
    calls, arguments = json.loads(row.calls), json.loads(row.arguments)
    arguments += [None] * (len(calls) - len(arguments))
    return [
        RecordedCall(tool, mac, call_id, is_open, text)
        for (tool, mac, call_id, is_open), text in zip(calls, arguments, strict=True)
    ]


def compare(stored: TurnRow, delivered: TurnRow) -> tuple[dict[int, str], TurnRow | None]:
    """Return what a delivery of a recorded turn may not run, and the row with what it corrected.

    The first is position -> words on what is recorded there; the second is None if nothing changes.
    """
    known, conflicts, changed = read_calls(stored), {}, False
    for place, call in enumerate(read_calls(delivered)):
        if place >= len(known):
            conflicts[place] = _told(stored, known)
        elif known[place][:2] == call[:2] and known[place].is_open == call.is_open:
            continue
        elif known[place].is_open and not call.is_open:
            known[place], changed = call, True
        elif not call.is_open and known[place][:2] != call[:2]:
            conflicts[place] = _told(stored, known)
    if not changed:
        return conflicts, None
    calls, arguments = write_calls(known)
    return conflicts, stored._replace(calls=calls, arguments=arguments)


def _told(row: TurnRow, known: Sequence[RecordedCall]) -> str:
    """Say what a turn was recorded with; sensitive arguments are not in it."""
    listed = "; ".join(f"{call.tool} {call.arguments or '(not kept)'}" for call in known)
    if len(listed) > _SHOWN:
        listed = f"{listed[:_SHOWN]}..."
    return f"turn {row.turn} of this run was delivered before with other calls: {listed}"
