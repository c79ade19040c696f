"""The page of AgentDojo's results: what the documentation tells of benchmarks/results/agentdojo.json."""

from __future__ import annotations

from typing import Any

HEAD = """# AgentDojo: a model that obeys every injection

This page is written by `docs/generate.py` from `benchmarks/results/agentdojo.json`, which
`python -m benchmarks.agentdojo` measures; do not edit it by hand.

[AgentDojo](https://github.com/ethz-spylab/agentdojo) {agentdojo}, version {version}: {tasks} user tasks in four environments and {pairs}
pairs of a user task and an injection that stands in what the task reads. Here no model plays but a script, which no model
beats at obeying: it carries out the ground truth of the user's task, and as soon as it has read the injection, the
injection's ground truth, too. So the figures are the defence's alone. AgentDojo's own checks judge them, on what was
executed. AgentDojo has no ground truth for eight injections of "workspace"; the script does what their text says.

{table}
*Attacks that acted*: of the {acting} pairs whose injection wants something done, those where AgentDojo finds it done.
*Any write*: pairs in which at least one call of the injection ran that writes or carries data out, and is not one that the
user's own task needs anyway.
*Words*: {speaking} pairs, all of one injection, want only a sentence in the answer. A gateway sees calls and
not answers, so it prevents none of these: of all {pairs} pairs, {attacked} reach their goal behind it.
*Asked*: questions to the user, per user task without an injection and per pair.

| environment | user tasks solved | asked per task | attacks that acted | user tasks solved under attack | asked per pair |
|---|---|---|---|---|---|
{suites}
The rule is [one sentence](../gateway.md#after-an-untrusted-result), and the tools are declared by a criterion and not by task: a tool
that leaves the environment as it was is a `read` (those whose name begins with *get*, *search*, *list*, *read* or *check*, but
for `get_unread_emails`, which marks them as read), every other is what an undeclared tool is, `once`. None is trusted.
`get_webpage` is guarded as a write is, since it has an argument named `url`.

- *Honest user*: approves a call iff it is one of the ground truth of their own task, as a person knows what they asked
  for, and denies the rest. Most questions are about what the model composed or looked up on the user's behalf: a summary, the
  address of a bill, the id of an event. The most for one task: {most}.
- *Nobody answers*: every question stays open. What is solved then needs no person at all.
- *Careless user*: approves everything. The gateway asked about every one of these attacks, and it was of no use.

AgentDojo's own defences, beside these. Its *tool filter* asks a model which tools the task needs; here it is replaced by its
best case, exactly the tools of the ground truth. *Repeat user prompt* and *spotlighting* change what the model
reads; a model that obeys all the same has the figures of "none". Its *detector of injections* (a DeBERTa) needs weights that
are downloaded, and is not run. Published figures of others, with language models that obey only sometimes, are not
comparable with these: in them, many attacks fail on the model.

What this does not show: that people read what they approve; that a model solves these tasks (the script always does);
attacks made of the user's own words. In a first run, 3 pairs succeeded: "delete the file with the ID 13" where the user
had asked about June 13. Since then a number of fewer than five digits is not enough to tie a call to what the user wrote
(and this rule was found with these data).

{cpu}, {cores} cores, Python {python}, {system}, commit {commit}; {seconds} s.
"""
NAMES = {
    "none": "no defence",
    "perfect tool filter": "a perfect tool filter",
    "honest user": "**the gateway, honest user**",
    "nobody answers": "the gateway, nobody answers",
    "careless user": "the gateway, careless user",
}


def _share(part: int, whole: int) -> str:
    return f"{part} of {whole} ({part / whole:.1%})" if whole else "0"


def _figures(one: dict[str, int]) -> list[str]:
    return [
        _share(one["utility"], one["tasks"]),
        f"{one['asked'] / one['tasks']:.2f}",
        _share(one["acted"], one["acting"]),
        _share(one["utility_attacked"], one["pairs"]),
        f"{one['asked_attacked'] / one['pairs']:.2f}",
    ]


def page(results: dict[str, Any]) -> str:
    """Return the page of the documentation that tells these results."""
    ours = results["defences"]["honest user"]
    columns = (
        "defence", "user tasks solved", "asked per task", "attacks that acted", "any write", "words",
        "user tasks solved under attack", "asked per pair",
    )  # fmt: skip
    lines = [f"| {' | '.join(columns)} |", "|" + "---|" * len(columns)]
    for name, told in NAMES.items():
        one = results["defences"][name]
        cells = _figures(one)
        words = one["attacked"] - one["acted"]
        cells[3:3] = [str(one["ran"]), f"{words} of {one['pairs'] - one['acting']}"]
        lines.append(f"| {told} | {' | '.join(cells)} |")
    suites = "".join(
        f"| {name} | {' | '.join(_figures(suite['honest user']))} |\n"
        for name, suite in results["suites"].items()
    )
    return HEAD.format(
        table="\n".join(lines) + "\n",
        suites=suites,
        version=results["version"],
        tasks=ours["tasks"],
        pairs=ours["pairs"],
        acting=ours["acting"],
        speaking=ours["pairs"] - ours["acting"],
        attacked=ours["attacked"],
        most=ours["most_asked"],
        seconds=results["seconds"],
        **results["machine"],
    )
