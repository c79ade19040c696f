"""A run: one conversation's worth of turns, with the policy frozen when it began.

The set of tools a run may use can only shrink: by narrowing, by a tool blocked until its lost call is
reconciled, by nothing a tool says. It owns no clock and no store.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from callmemaybe.gateway.policy import Policy, Verdict
from callmemaybe.gateway.provenance import readings
from callmemaybe.tools import ToolSpec

#: Beyond this much text from untrusted results, every value that nothing else explains is suspect.
_MOST_REMEMBERED = 4 * 1024 * 1024


@dataclass
class Run:
    """What the gateway remembers of a run, in this process."""

    id: str
    tenant: str
    policy: Policy
    resumed: bool = False
    user: list[str] = field(default_factory=list)
    """What the person said: the values in it are theirs."""
    untrusted: list[str] = field(default_factory=list)
    """Texts of results of tools that are not trusted, as they stand and without JSON's escapes.

    Once saturated, a single empty text: there is something, and nothing can be found in it.
    """
    blocked: set[str] = field(default_factory=set)
    turn: int = 0
    ours: int = 0
    """The turn behind the last that the ledger has of this very process."""
    known: bool = False
    """The ledger holds a policy of this run."""
    recorded: bool = False
    """The ledger holds this policy of it."""
    _remembered: int = 0
    _heard: set[str] = field(default_factory=set)

    def narrow(self, *tools: str) -> None:
        """Take tools away from the rest of the run."""
        self.policy = self.policy.without(*tools)
        self.recorded = False

    def say(self, text: str) -> None:
        """Note what the person said."""
        self.user.append(text)

    def saw(self, text: str, key: str = "") -> None:
        """Note an untrusted result; that of a call whose ``key`` is named, once.

        Once there is too much to search, none of it is kept: whatever stands in it is then as
        suspect as all else that nothing explains.
        """
        if key in self._heard:
            return
        if key:
            self._heard.add(key)
        if not self.saturated:
            found = readings(text)
            self._remembered += sum(map(len, found))
            self.untrusted += found
        if self.saturated:
            self.saturate()

    def saturate(self) -> None:
        """Search no untrusted text from here on: every value that nothing else explains is suspect."""
        self._remembered, self.untrusted = _MOST_REMEMBERED + 1, [""]

    @property
    def saturated(self) -> bool:
        """Whether more untrusted text came in than is searched exactly."""
        return self._remembered > _MOST_REMEMBERED

    def offers(
        self, specs: Sequence[ToolSpec], usable: Callable[[str], bool]
    ) -> tuple[ToolSpec, ...]:
        """Return the tools of the next grammar: not denied, not blocked, breaker not open."""
        return tuple(
            spec
            for spec in specs
            if spec.name not in self.blocked
            and (grant := self.policy.grants.get(spec.name)) is not None
            and grant.verdict is not Verdict.DENY
            and usable(spec.name)
        )


def approval_id(key: str, mac: str, policy: str) -> str:
    """Return the id of the approval that binds these three: asking again finds the same row."""
    import hashlib

    return hashlib.sha256(f"{key}\n{mac}\n{policy}".encode()).hexdigest()[:16]


def facts(**values: Any) -> dict[str, Any]:
    """Return the values that are not None."""
    return {name: value for name, value in values.items() if value is not None}
