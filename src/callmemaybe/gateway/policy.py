"""Who may call what: frozen when a run starts, hashed into every audit row, only ever narrowed.

A policy never reads a tool's text: it knows names, hashes of definitions, effect classes and the
origins of values. Pure.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from functools import cached_property
from typing import Any

from callmemaybe.errors import InputError
from callmemaybe.gateway.keys import fingerprint
from callmemaybe.jsonio import dumps
from callmemaybe.tools import Effect


class Verdict(IntEnum):
    """What happens to a call; the larger is the stricter."""

    ALLOW = 0
    ASK = 1
    DENY = 2


@dataclass(frozen=True)
class Decision:
    """A verdict, and the reason a person reads."""

    verdict: Verdict
    reason: str = ""


@dataclass(frozen=True)
class Grant:
    """What a run may do with one tool whose definition has this hash."""

    definition: str
    verdict: Verdict


#: Nothing that only looks needs a person; everything else is the application's decision to make.
CAREFUL: Mapping[Effect, Verdict] = {
    Effect.PURE: Verdict.ALLOW,
    Effect.READ: Verdict.ALLOW,
    Effect.IDEMPOTENT: Verdict.ASK,
    Effect.KEYED: Verdict.ASK,
    Effect.TRANSACTIONAL: Verdict.ASK,
    Effect.ONCE: Verdict.ASK,
}
#: The program that registers the tools takes the decisions.
OPEN: Mapping[Effect, Verdict] = dict.fromkeys(Effect, Verdict.ALLOW)

_GUARDED = frozenset({Effect.ONCE, Effect.KEYED})


_ALLOWED = Decision(Verdict.ALLOW)


@dataclass(frozen=True)
class Policy:
    """The tools of one run, each with its verdict, and whether origins and repeats matter."""

    grants: Mapping[str, Grant] = field(default_factory=dict)
    guard_origins: bool = True
    guard_repeats: bool = True

    @cached_property
    def hash(self) -> str:
        """The fingerprint that approvals and audit rows carry."""
        return fingerprint(self.as_json())

    @cached_property
    def text(self) -> str:
        """The policy as the ledger keeps it: JSON on one line."""
        return dumps(self.as_json())

    def decide(
        self, tool: str, definition: str, effect: Effect, *, tainted: Collection[str] = ()
    ) -> Decision:
        """Decide on a call of ``tool``; ``tainted`` are pointers of values from untrusted results."""
        grant = self.grants.get(tool)
        if grant is None:
            return Decision(Verdict.DENY, "the tool is not among those this run may use")
        if grant.definition != definition:
            return Decision(Verdict.DENY, "the tool's definition changed since the run began")
        if grant.verdict is Verdict.DENY:
            return Decision(Verdict.DENY, "the policy of this run denies it")
        if grant.verdict is Verdict.ASK:
            return Decision(Verdict.ASK, f"a tool of class {effect.value} needs a person here")
        if tainted and self.guard_origins and effect in _GUARDED:
            places = ", ".join(sorted(tainted))
            return Decision(Verdict.ASK, f"values from an untrusted result at {places}")
        return _ALLOWED

    def meet(self, other: Policy) -> Policy:
        """Return the policy that allows only what both allow: the only way a run's policy changes."""
        grants = {
            name: Grant(grant.definition, max(grant.verdict, other.grants[name].verdict))
            for name, grant in self.grants.items()
            if name in other.grants and other.grants[name].definition == grant.definition
        }
        return Policy(
            grants,
            self.guard_origins or other.guard_origins,
            self.guard_repeats or other.guard_repeats,
        )

    def without(self, *tools: str) -> Policy:
        """Return the policy without these tools."""
        kept = {name: grant for name, grant in self.grants.items() if name not in tools}
        return Policy(kept, self.guard_origins, self.guard_repeats)

    def as_json(self) -> dict[str, Any]:
        """Return the policy as JSON values."""
        return {
            "grants": {
                name: [grant.definition, grant.verdict.name.lower()]
                for name, grant in sorted(self.grants.items())
            },
            "guard_origins": self.guard_origins,
            "guard_repeats": self.guard_repeats,
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Policy:
        """Read what as_json() wrote; raises InputError if it is something else."""
        try:
            grants = {
                name: Grant(definition, Verdict[verdict.upper()])
                for name, (definition, verdict) in value["grants"].items()
            }
            return cls(grants, bool(value["guard_origins"]), bool(value["guard_repeats"]))
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise InputError(f"this is not a stored policy ({error!r})", where="policy") from None


def policy_for(
    tools: Iterable[tuple[str, str, Effect, str | None]],
    verdicts: Mapping[Effect, Verdict] = OPEN,
    *,
    guard_origins: bool = True,
    guard_repeats: bool = True,
) -> Policy:
    """Build a policy from (name, definition hash, effect, declared approval) of each tool.

    A tool's declaration can only make the verdict of its class stricter: "always" asks.
    """
    grants = {}
    for name, definition, effect, approval in tools:
        verdict = verdicts.get(effect, Verdict.ASK)
        if approval == "always":
            verdict = max(verdict, Verdict.ASK)
        grants[name] = Grant(definition, verdict)
    return Policy(grants, guard_origins, guard_repeats)
