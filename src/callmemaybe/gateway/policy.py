"""What a run may call. A policy is frozen when the run begins and can only be narrowed afterwards.

Its hash is part of every audit record. A policy never reads the text of a tool's result: it knows tool
names, hashes of definitions, effect classes and which argument values nobody listed. Pure.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
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

#: Places that a reason names.
_MOST_PLACES = 10
#: Values that need no approval, by tool and argument.
AllowedValues = Mapping[str, Mapping[str, Sequence[Any]]]
_ALLOWED = PolicyDecision(Verdict.ALLOW)


@dataclass(frozen=True)
class Policy:
    """The tools of one run with their verdicts, and whether unlisted values and repeats need approval.

    ``allowed``: values that need no approval, by tool and argument.
    """

    grants: Mapping[str, ToolGrant] = field(default_factory=dict)
    guard_values: bool = True
    guard_repeats: bool = True
    allowed: AllowedValues = field(default_factory=dict)

    @cached_property
    def hash(self) -> str:
        """The SHA-256 that approvals and audit records carry."""
        return fingerprint(self.as_json())

    @cached_property
    def text(self) -> str:
        """The policy as the ledger stores it: JSON on one line."""
        return dumps(self.as_json())

    def decide(
        self, tool: str, definition: str, effect: Effect, *, unlisted: Collection[str] = ()
    ) -> PolicyDecision:
        """Decide on a call of ``tool``.

        ``definition`` is the hash of the registered definition; ``unlisted`` holds the JSON pointers of
        argument values that nobody listed, after an untrusted result ("": the call as a whole).
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
        if unlisted and self.guard_values:
            return PolicyDecision(Verdict.ASK, _reason(sorted(unlisted)))
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
            self.guard_values or other.guard_values,
            self.guard_repeats or other.guard_repeats,
            _meet_allowed(self, other),
        )

    def without(self, *tools: str) -> Policy:
        """Return the policy without these tools."""
        kept = {name: grant for name, grant in self.grants.items() if name not in tools}
        return replace(self, grants=kept)

    def as_json(self) -> dict[str, Any]:
        """Return the policy as JSON values."""
        return {
            "grants": {
                name: [grant.definition, grant.verdict.name.lower()]
                for name, grant in sorted(self.grants.items())
            },
            "guard_values": self.guard_values,
            "guard_repeats": self.guard_repeats,
            "allowed": {
                tool: {name: list(options) for name, options in sorted(arguments.items())}
                for tool, arguments in sorted(self.allowed.items())
            },
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Policy:
        """Read what :meth:`as_json` wrote; raises InputError for anything else."""
        try:
            grants = {
                name: ToolGrant(definition, Verdict[verdict.upper()])
                for name, (definition, verdict) in value["grants"].items()
            }
            allowed = {
                tool: {name: tuple(options) for name, options in arguments.items()}
                for tool, arguments in value["allowed"].items()
            }
            return cls(grants, bool(value["guard_values"]), bool(value["guard_repeats"]), allowed)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise InputError(f"this is not a stored policy ({error!r})", where="policy") from None


def policy_for(
    tools: Iterable[tuple[str, str, Effect, str | None]],
    verdicts: Mapping[Effect, Verdict] = OPEN,
    *,
    guard_values: bool = True,
    guard_repeats: bool = True,
    allowed: AllowedValues | None = None,
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
    return Policy(grants, guard_values, guard_repeats, (guard_values and allowed) or {})


def _reason(unlisted: Sequence[str]) -> str:
    if unlisted[0] == "":
        return "after an untrusted result, and no message of the user lists anything in it"
    places = ", ".join(unlisted[:_MOST_PLACES])
    more = f" and {len(unlisted) - _MOST_PLACES} more" if len(unlisted) > _MOST_PLACES else ""
    return f"after an untrusted result, values that nobody listed at {places}{more}"


def _meet_allowed(first: Policy, second: Policy) -> AllowedValues:
    """Return what both allow; a policy that does not guard values allows every one."""
    one, other = first.allowed, second.allowed
    if not first.guard_values:
        return other
    if not second.guard_values:
        return one
    return {
        tool: {
            name: tuple(
                option
                for option in options
                if any(_same(option, another) for another in other[tool][name])
            )
            for name, options in arguments.items()
            if name in other[tool]
        }
        for tool, arguments in one.items()
        if tool in other
    }


def _same(one: Any, other: Any) -> bool:
    return dumps(one, canonical=True) == dumps(other, canonical=True)
