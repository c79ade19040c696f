"""What a run may call. A policy is frozen when the run begins and can only be narrowed afterwards.

Its hash is part of every audit record. A policy never reads the text of a tool's result: it knows tool
names, hashes of definitions, effect classes and the origins of argument values. Pure.
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
    """What happens to a call; a larger value is stricter."""

    ALLOW = 0
    ASK = 1
    DENY = 2


@dataclass(frozen=True)
class PolicyDecision:
    """A verdict and the reason for it, in words for a person."""

    verdict: Verdict
    reason: str = ""


@dataclass(frozen=True)
class ToolGrant:
    """The verdict for one tool.

    ``definition``: the hash of the only definition that it is for; "" for a tool of the program itself, which
    continues under the same verdict when a deployment changes it.
    """

    definition: str
    verdict: Verdict


#: Tools that only read run at once; everything that writes needs a person's approval.
CAREFUL: Mapping[Effect, Verdict] = {
    Effect.PURE: Verdict.ALLOW,
    Effect.READ: Verdict.ALLOW,
    Effect.IDEMPOTENT: Verdict.ASK,
    Effect.KEYED: Verdict.ASK,
    Effect.TRANSACTIONAL: Verdict.ASK,
    Effect.ONCE: Verdict.ASK,
}
#: Every registered tool may run: the program decides by what it registers.
OPEN: Mapping[Effect, Verdict] = dict.fromkeys(Effect, Verdict.ALLOW)

#: Effect classes whose arguments must not come from untrusted results without approval.
ORIGIN_GUARDED = frozenset({Effect.ONCE, Effect.KEYED})
_ALLOWED = PolicyDecision(Verdict.ALLOW)


@dataclass(frozen=True)
class Policy:
    """The tools of one run with their verdicts, and whether origins and repeats need approval."""

    grants: Mapping[str, ToolGrant] = field(default_factory=dict)
    guard_origins: bool = True
    guard_repeats: bool = True

    @cached_property
    def hash(self) -> str:
        """The SHA-256 that approvals and audit records carry."""
        return fingerprint(self.as_json())

    @cached_property
    def text(self) -> str:
        """The policy as the ledger stores it: JSON on one line."""
        return dumps(self.as_json())

    def decide(
        self, tool: str, definition: str, effect: Effect, *, tainted: Collection[str] = ()
    ) -> PolicyDecision:
        """Decide on a call of ``tool``.

        ``definition`` is the hash of the registered definition; ``tainted`` holds the JSON pointers of
        argument values that came from untrusted results.
        """
        grant = self.grants.get(tool)
        if grant is None:
            return PolicyDecision(Verdict.DENY, "the tool is not among those this run may use")
        if grant.definition and grant.definition != definition:
            return PolicyDecision(Verdict.DENY, "the tool's definition changed since the run began")
        if grant.verdict is Verdict.DENY:
            return PolicyDecision(Verdict.DENY, "the policy of this run denies it")
        if grant.verdict is Verdict.ASK:
            return PolicyDecision(
                Verdict.ASK, f"a tool of class {effect.value} needs a person here"
            )
        if tainted and self.guard_origins and effect in ORIGIN_GUARDED:
            places = ", ".join(sorted(tainted))
            return PolicyDecision(Verdict.ASK, f"values from an untrusted result at {places}")
        return _ALLOWED

    def meet(self, other: Policy) -> Policy:
        """Return the policy that allows only what both allow; a run's policy changes in no other way."""
        grants = {
            name: ToolGrant(
                grant.definition or other.grants[name].definition,
                max(grant.verdict, other.grants[name].verdict),
            )
            for name, grant in self.grants.items()
            if name in other.grants
            and len({grant.definition, other.grants[name].definition} - {""}) < 2
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
        """Read what :meth:`as_json` wrote; raises InputError for anything else."""
        try:
            grants = {
                name: ToolGrant(definition, Verdict[verdict.upper()])
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
    """Build a policy from (name, pinned definition hash or "", effect, declared approval) of each tool.

    ``verdicts`` maps effect classes to verdicts. A tool that declares approval "always" is asked about
    even if its class is allowed; a declaration never makes a verdict less strict.
    """
    grants = {}
    for name, definition, effect, approval in tools:
        verdict = verdicts.get(effect, Verdict.ASK)
        if approval == "always":
            verdict = max(verdict, Verdict.ASK)
        grants[name] = ToolGrant(definition, verdict)
    return Policy(grants, guard_origins, guard_repeats)
