"""From answers to metrics: one JSON value, from which the tables and the page are made."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from callmemaybe.evals.case import Case
from callmemaybe.evals.record import EvalRecord, UnconstrainedAttempt
from callmemaybe.evals.score import Score, score, score_record
from callmemaybe.evals.statistics import Proportion, calibration, percentile

Judged = tuple[Case, EvalRecord, Score]

#: Every metric of a group of cases: its key and its meaning, in the order of the tables.
FIGURES: Mapping[str, str] = {
    "right": "of all cases: answered rightly (the exact call, or rightly none)",
    "name": "of the cases that want a call: the right function",
    "exact": "of the cases that want a call: function and all arguments right",
    "arguments": "of the calls of a right function: all arguments right",
    "values": "of the single arguments of these calls: right",
    "no_call_precision": "of the answers without a call: rightly none",
    "no_call_recall": "of the cases that no function fits: no call",
    "false_refusals": "of the cases that want a call: none made",
}


def judge(cases: Iterable[Case], records: Mapping[str, EvalRecord]) -> list[Judged]:
    """Score every case that has a record; ``records`` go by the ids of the cases."""
    return [
        (case, records[case.id], score_record(case, records[case.id]))
        for case in cases
        if case.id in records
    ]


def figures(judged: Sequence[Judged]) -> dict[str, dict[str, Any]]:
    """Return the shares named in FIGURES. A case that failed is wrong in each that counts it."""
    answered = [(case, found, record.failure is None) for case, record, found in judged]
    wants = [(case, found, ok) for case, found, ok in answered if case.wants_call]
    named = [found for _, found, ok in answered if ok and found.called and found.name]
    refused = [(case, found) for case, found, ok in answered if ok and not found.called]
    unfit = [(found, ok) for case, found, ok in answered if case.wants_none]
    shares = {
        "right": Proportion.count(ok and found.exact for _, found, ok in answered),
        "name": Proportion.count(ok and found.called and found.name for _, found, ok in wants),
        "exact": Proportion.count(ok and found.called and found.exact for _, found, ok in wants),
        "arguments": Proportion.count(found.exact for found in named),
        "values": Proportion.count(one for found in named for one in found.arguments.values()),
        "no_call_precision": Proportion.count(found.exact for _, found in refused),
        "no_call_recall": Proportion.count(ok and not found.called for found, ok in unfit),
        "false_refusals": Proportion.count(ok and not found.called for _, found, ok in wants),
    }
    return {key: shares[key].as_json() for key in FIGURES}


def report(judged: Sequence[Judged], about: Mapping[str, Any]) -> dict[str, Any]:
    """Return all metrics; ``about`` describes what was measured, and comes first."""
    by_tag: dict[str, list[Judged]] = defaultdict(list)
    by_type: dict[str, list[bool]] = defaultdict(list)
    for one in judged:
        for tag in one[0].tags:
            by_tag[tag].append(one)
        for name, is_right in one[2].arguments.items():
            by_type[one[2].types[name]].append(is_right)
    stated = [
        (record.probability, found.name)
        for _, record, found in judged
        if record.probability is not None
    ]
    whole = [
        (record.confidence, found.exact)
        for _, record, found in judged
        if record.confidence is not None
    ]
    failures: dict[str, list[str]] = defaultdict(list)
    for case, record, _ in judged:
        if record.failure is not None:
            failures[record.failure].append(case.id)
    found: dict[str, Any] = {
        **about,
        "cases": len(judged),
        "figures": figures(judged),
        "by_tag": {tag: figures(inside) for tag, inside in sorted(by_tag.items())},
        "by_type": {kind: Proportion.count(by_type[kind]).as_json() for kind in sorted(by_type)},
        "calibration": calibration(stated),
        **({"confidence": calibration(whole)} if whole else {}),
        "cost": cost([record for _, record, _ in judged]),
        "failures": dict(failures),
    }
    if any(record.attempts for _, record, _ in judged):
        found["comparison"] = comparison(judged)
    return found


def cost(records: Sequence[EvalRecord]) -> dict[str, Any]:
    """Return time and tokens per answer; milliseconds by percentile."""
    done = [record for record in records if record.failure is None]
    seconds = [record.seconds for record in done]
    tokens = sum(record.forced + record.chosen for record in done)
    forced = sum(record.forced for record in done)
    return {
        "answers": len(done),
        "ms_p50": _milliseconds(percentile(seconds, 0.5)),
        "ms_p99": _milliseconds(percentile(seconds, 0.99)),
        "per_second": round(len(done) / sum(seconds), 2) if sum(seconds) else None,
        "tokens": tokens,
        "forced_share": round(forced / tokens, 4) if tokens else None,
        "passes": sum(record.passes for record in done),
        "cut_prompts": sum(record.omitted > 0 for record in done),
    }


def comparison(judged: Sequence[Judged]) -> dict[str, Any]:
    """Compare the constrained run with the unconstrained one, on the cases that want a call.

    "constrained", "first" (one unconstrained answer) and "retried" (the last of its attempts) each
    have "valid" (a call that its schema accepts), "name" and "exact" of all these cases, "tokens",
    and "tokens_per_valid"; "recovered" is how many of the invalid first answers a retry made valid.
    """
    runs = [(case, record) for case, record, _ in judged if case.wants_call and record.attempts]
    own = [
        (case, record.call if record.failure is None else None, record.forced + record.chosen)
        for case, record in runs
    ]
    first = [(case, _valid(record.attempts[0]), record.attempts[0].tokens) for case, record in runs]
    last = [
        (case, _valid(record.attempts[-1]), sum(one.tokens for one in record.attempts))
        for case, record in runs
    ]
    retried = [record.attempts for _, record in runs if record.attempts[0].problem is not None]
    problems: dict[str, int] = defaultdict(int)
    for _, record in runs:
        if record.attempts[0].problem is not None:
            problems[record.attempts[0].problem] += 1
    return {
        "constrained": _run(own),
        "first": _run(first),
        "retried": _run(last),
        "recovered": Proportion.count(
            attempts[-1].problem is None for attempts in retried
        ).as_json(),
        "problems": dict(sorted(problems.items(), key=lambda item: -item[1])),
    }


def _valid(attempt: UnconstrainedAttempt) -> Any:
    return attempt.call if attempt.problem is None else None


def _run(answers: Sequence[tuple[Case, Any, int]]) -> dict[str, Any]:
    scores = [score(case, call) for case, call, _ in answers]
    valid = Proportion.count(call is not None for _, call, _ in answers)
    tokens = sum(count for _, _, count in answers)
    return {
        "valid": valid.as_json(),
        "name": Proportion.count(one.called and one.name for one in scores).as_json(),
        "exact": Proportion.count(one.called and one.exact for one in scores).as_json(),
        "tokens": tokens,
        "tokens_per_valid": round(tokens / valid.right, 1) if valid.right else None,
    }


def _milliseconds(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds * 1000, 2)
