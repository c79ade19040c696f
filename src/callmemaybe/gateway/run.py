"""A run: the turns of one conversation under the policy that was frozen when it began.

The set of tools that a run may use only shrinks: by narrowing, or while a tool is blocked by a call of
unknown outcome. No tool result changes it. A run owns no clock and no store.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field

from callmemaybe.errors import InputError
from callmemaybe.gateway.listed import UserWords
from callmemaybe.gateway.policy import Policy, Verdict
from callmemaybe.gateway.store import ARCHIVED, RunRow
from callmemaybe.tools import ToolSpec

#: The largest number of a turn that every store can hold.
MAX_TURN = 2**63 - 1
#: Characters of a name.
_MAX_NAME = 1000


@dataclass
class Run:
    """The state of a run in this process."""

    id: str
    tenant: str
    policy: Policy
    resumed: bool = False
    user: list[str] = field(default_factory=list)
    """The user's messages; a value that they list is the user's."""
    has_untrusted: bool = False
    """It has had the result of an untrusted tool; from then on each value of a write must be listed."""
    blocked: set[str] = field(default_factory=set)
    """Tools that are refused until a call of unknown outcome is reconciled."""
    turn: int = 0
    """The number of the next turn."""
    in_ledger: bool = False
    """The ledger has a policy of this run."""
    policy_recorded: bool = False
    """The ledger's policy of this run is ``policy``."""
    _words: UserWords = field(default_factory=UserWords)
    _prepared: int = 0

    def narrow(self, *tools: str) -> None:
        """Take tools away from the rest of the run."""
        self.policy = self.policy.without(*tools)
        self.policy_recorded = False

    def add_user_message(self, text: str) -> None:
        """Add a message of the user: the values that it lists need no approval."""
        self.user.append(text)

    @property
    def words(self) -> UserWords:
        """The user's messages, prepared for looking up values in them."""
        while self._prepared < len(self.user):
            self._words.add(self.user[self._prepared])
            self._prepared += 1
        return self._words

    def offers(self, specs: Sequence[ToolSpec]) -> tuple[ToolSpec, ...]:
        """Return the specs that the next turn may call: not denied, not blocked."""
        return tuple(
            spec
            for spec in specs
            if spec.name not in self.blocked
            and (grant := self.policy.grants.get(spec.name)) is not None
            and grant.verdict is not Verdict.DENY
        )


def approval_id(key: str, mac: str, policy: str, definition: str) -> str:
    """Return the id of the approval for a call's key, its arguments, a policy and the tool's definition."""
    text = f"{key}\n{mac}\n{policy}\n{definition}"
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def check_name(name: object, where: str) -> None:
    """Raise InputError for a name of a run or tenant that a store cannot hold as it is.

    Names are compared code point by code point, without any normalisation.
    """
    if not isinstance(name, str):
        raise InputError(f"it must be a text, not {name!r:.60}", where=where)
    if len(name) > _MAX_NAME or "\0" in name or (not name.isascii() and not _is_unicode(name)):
        raise InputError(
            f"it must have at most {_MAX_NAME} characters, no NUL and no half of a pair",
            where=where,
        )


def check_open(stored: RunRow) -> None:
    """Raise InputError for a run that was archived: its calls are not in the ledger any more."""
    if stored.policy_hash == ARCHIVED:
        raise InputError(
            "this run was archived, and none of its calls is run or answered any more",
            where=f"run {stored.run!r}",
            hint="give new work a new name",
        )


def check_turn(turn: object) -> None:
    """Raise InputError for what is no number of a turn."""
    if not isinstance(turn, int) or isinstance(turn, bool) or not 0 <= turn <= MAX_TURN:
        raise InputError(f"it must be a whole number from 0 to {MAX_TURN}", where="turn")


def _is_unicode(text: str) -> bool:
    return not any("\ud800" <= letter <= "\udfff" for letter in text)
