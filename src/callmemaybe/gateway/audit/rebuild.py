"""What the audit says the tables must hold: rebuilt from its records, compared with the rows.

A row that was changed, inserted or deleted without the audit is named with its column. Texts (arguments, answers,
results) are in the audit as SHA-256, everything else as it is.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from callmemaybe.errors import InputError
from callmemaybe.gateway.audit.chain import text_digest
from callmemaybe.gateway.lifecycle import TERMINAL, CallState
from callmemaybe.gateway.policy import Policy
from callmemaybe.gateway.recorded import TurnRow, read_calls
from callmemaybe.gateway.store import ARCHIVED, Approval, CallRow

_TERMINAL = frozenset(state.value for state in TERMINAL)
#: Records that change no row of a call.
_NO_CHANGE = frozenset({"ask", "approved", "denied", "deny", "attempt", "reconcile"})
#: Columns of a call that its admission writes for good, with their names in the record.
_FIXED: Mapping[str, str] = {
    "tenant": "tenant", "run": "run", "turn": "turn", "ordinal": "ordinal", "call_id": "call",
    "tool": "tool", "effect": "effect", "mac": "mac", "policy": "policy",
    "definition": "definition", "created": "created",
}  # fmt: skip
#: Columns of an approval, with their names in the record of the question.
_ASKED: Mapping[str, str] = {
    "tenant": "tenant", "run": "run", "tool": "tool", "mac": "mac", "policy": "policy",
    "reason": "reason", "created": "created", "expires": "expires",
}  # fmt: skip


class _ExpectedCall:
    """A call as its records tell it."""

    __slots__ = (
        "admitted",
        "answer",
        "arguments",
        "code",
        "ended",
        "fixed",
        "locks",
        "owner",
        "rank",
        "result",
        "state",
    )

    def __init__(self) -> None:
        self.admitted = False
        self.fixed: dict[str, Any] = {}
        self.rank = (-1, False, False)
        self.state = self.owner = self.code = self.answer = self.result = self.ended = None
        self.arguments: tuple[int, str] = (-1, "")
        self.locks: tuple[int, str] = (-1, "")

    def take(self, chain: str, event: str, facts: Mapping[str, Any]) -> None:
        """Apply one record; those of several chains come in any order."""
        fence, state = facts["fence"], facts["state"]
        if event == "admit":
            self.admitted = True
            self.fixed = {column: facts.get(name) for column, name in _FIXED.items()}
        for column in ("arguments", "locks"):
            if column in facts and getattr(self, column)[0] < fence + (event != "admit"):
                setattr(self, column, (fence + (event != "admit"), facts[column]))
        rank = (fence, state in _TERMINAL, state == CallState.RUNNING.value)
        if rank < self.rank:
            return
        self.rank, self.state = rank, state
        if "owner" in facts or event in {"admit", "start"}:
            self.owner = facts.get("owner", chain)
        self.code, self.answer = facts.get("code"), facts.get("answer")
        self.result = facts.get("result")
        self.ended = facts["t"] if state in _TERMINAL else None

    def differences(self, row: CallRow, *, expired: bool) -> Iterator[str]:
        """Yield the columns in which a row is not as told; of an ``expired`` one the texts are gone."""
        for column, value in self.fixed.items():
            if getattr(row, column) != value:
                yield column
        expected = {"state": self.state, "fence": self.rank[0], "owner": self.owner,
                    "code": self.code, "ended": self.ended}  # fmt: skip
        yield from (name for name, value in expected.items() if getattr(row, name) != value)
        if expired and row.content is None and row.result is None and row.arguments == "{}":
            return
        if self.locks[1] and row.locks != self.locks[1]:
            yield "locks"
        if text_digest(row.arguments) != self.arguments[1]:
            yield "arguments"
        if (None if row.content is None else text_digest(row.content)) != self.answer:
            yield "content"
        if (None if row.result is None else text_digest(row.result)) != self.result:
            yield "result"


class LedgerRebuild:
    """Takes every record of the audit, and then names the rows that are not as the records tell.

    ``archived`` are the runs (tenant, run) whose rows left for an archive that is not given.
    """

    def __init__(self) -> None:
        self._calls: dict[str, _ExpectedCall] = {}
        self._approvals: dict[str, dict[str, Any]] = {}
        self._decisions: dict[str, dict[str, Any]] = {}
        self._reconciled: dict[str, dict[str, Any]] = {}
        self._policies: dict[tuple[str, str], set[str]] = {}
        self._narrowed: dict[tuple[str, str], set[str]] = {}
        self._expired = float("-inf")

    def take(self, chain: str, key: str, record: str) -> None:
        """Take one record; one that cannot be read breaks its chain, and is passed over here."""
        try:
            facts = json.loads(record)
            event = facts["event"]
            self._take(chain, key, event, facts)
        except (ValueError, KeyError, TypeError):
            return

    def _take(self, chain: str, key: str, event: str, facts: dict[str, Any]) -> None:
        place = (facts.get("tenant", ""), facts.get("run", ""))
        if event == "ask":
            asked = {column: facts.get(name) for column, name in _ASKED.items()}
            self._approvals.setdefault(
                facts["approval"], {"key": key, **asked, "arguments": facts["arguments"]}
            )
        elif event in {"approved", "denied"}:
            decided = {"decision": event, "by": facts["by"], "decided": facts["t"]}
            self._decisions.setdefault(facts["approval"], decided)
        elif event == "reconcile":
            self._reconciled.setdefault(key, facts)
        elif event == "narrow":
            self._policies.setdefault(place, set()).add(facts["policy"])
            self._narrowed.setdefault(place, set()).add(facts["was"])
        elif event == "expire":
            self._expired = max(self._expired, facts["before"])
        elif key and event not in _NO_CHANGE and "fence" in facts:
            self._calls.setdefault(key, _ExpectedCall()).take(chain, event, facts)
            if event == "admit":
                self._policies.setdefault(place, set()).add(facts["policy"])

    def wrong_calls(self, rows: Iterable[CallRow], gone: set[tuple[str, str]]) -> Iterator[str]:
        """Yield what is wrong with calls; ``gone`` are runs whose rows may be missing or empty."""
        seen = set()
        for row in rows:
            seen.add(row.key)
            expected = self._calls.get(row.key)
            is_gone = (row.tenant, row.run) in gone
            if expected is None or not expected.admitted:
                if not is_gone:
                    yield f"call {row.key}: the audit does not know it"
                continue
            expired = is_gone or (row.ended is not None and row.ended < self._expired)
            for column in expected.differences(row, expired=expired):
                yield f"call {row.key}: its {_NAMES.get(column, column)} is not the one in the audit"
        for key, expected in self._calls.items():
            place = (expected.fixed.get("tenant"), expected.fixed.get("run"))
            if expected.admitted and key not in seen and place not in gone:
                yield f"call {key}: the audit has it and the ledger does not"

    def wrong_approvals(
        self, rows: Iterable[Approval], gone: set[tuple[str, str]]
    ) -> Iterator[str]:
        """Yield what is wrong with approvals."""
        seen = set()
        for row in rows:
            seen.add(row.id)
            expected = self._approvals.get(row.id)
            if expected is None:
                yield f"approval {row.id}: the audit does not know it"
                continue
            none = {"decision": None, "by": None, "decided": None}
            for column, value in (expected | self._decisions.get(row.id, none)).items():
                found = getattr(row, column)
                if (text_digest(found) if column == "arguments" else found) != value:
                    yield f"approval {row.id}: its {column} is not the one in the audit"
        for id_, expected in self._approvals.items():
            if id_ not in seen and (expected["tenant"], expected["run"]) not in gone:
                yield f"approval {id_}: the audit has it and the ledger does not"

    def wrong_reconciliations(
        self, rows: Mapping[str, Mapping[str, Any]], gone: set[tuple[str, str]]
    ) -> Iterator[str]:
        """Yield what is wrong with what people found out about calls."""
        for key in sorted(rows.keys() | self._reconciled.keys()):
            row, facts, call = rows.get(key), self._reconciled.get(key), self._calls.get(key)
            if row is None and call and (call.fixed.get("tenant"), call.fixed.get("run")) in gone:
                continue
            if row is None or facts is None or (
                row["outcome"], row["by"], row["at"], text_digest(row["content"])
            ) != (facts["outcome"], facts["by"], facts["t"], facts["answer"]):  # fmt: skip
                yield f"call {key}: what was found out about it is not what the audit says"

    def wrong_runs(self, rows: Iterable[Mapping[str, Any]], *, complete: bool) -> Iterator[str]:
        """Yield what is wrong with policies; ``complete``: no record is in an archive that is not given."""
        seen = set()
        for row in rows:
            place = (row["tenant"], row["run"])
            seen.add(place)
            if row["policy_hash"] == ARCHIVED:
                continue
            told = self._policies.get(place, set())
            last = told - self._narrowed.get(place, set())
            if _policy_hash(row["policy"]) != row["policy_hash"] or (
                last and complete and row["policy_hash"] not in last
            ):
                yield f"run {row['run']!r}: its policy is not the one in the audit"
        for place in self._policies.keys() - seen:
            yield f"run {place[1]!r}: the audit has it and the ledger does not"

    def wrong_turns(
        self, rows: Iterable[Mapping[str, Any]], gone: set[tuple[str, str]]
    ) -> Iterator[str]:
        """Yield what is wrong with the records of turns: each admitted call stands in its place."""
        known: dict[tuple[str, str, int], list[tuple[str, str]]] = {}
        for row in rows:
            turn = TurnRow(**row)
            try:
                calls = [(call.tool, call.mac.partition(" ")[0]) for call in read_calls(turn)]
            except (ValueError, TypeError, IndexError):
                calls = []
            known[turn.place] = calls
        for key, expected in self._calls.items():
            fixed = expected.fixed
            if not expected.admitted or (fixed["tenant"], fixed["run"]) in gone:
                continue
            calls = known.get((fixed["tenant"], fixed["run"], fixed["turn"]), [])
            at = fixed["ordinal"]
            if at >= len(calls) or calls[at] != (fixed["tool"], fixed["mac"]):
                yield (
                    f"turn {fixed['turn']} of run {fixed['run']!r}: its call {at} is not the one in the audit"
                    f" ({key})"
                )


_NAMES = {"content": "answer", "call_id": "id"}


def _policy_hash(text: str) -> str | None:
    try:
        return Policy.from_json(json.loads(text)).hash
    except (ValueError, KeyError, TypeError, InputError):
        return None
