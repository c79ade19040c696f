"""The page of the clients that drive the server: what the documentation tells of benchmarks/results/clients.json."""

from __future__ import annotations

from typing import Any

HEAD = """# Clients

This page is written by `docs/generate.py` from `benchmarks/results/clients.json`, which
`python -m tests.integrations.client_runs` measures; do not edit it by hand.

The libraries that people use, each in its current release in an environment of its own, drive the server through the same flows:
programs in `tests/integrations/clients` that fail unless the right functions ran with the right arguments, in their order,
and the answer says what they returned. Two servers answer them:

- **nano**: the embedded model. Its {nano_total} flows: {nano_passed} pass ({nano_share}).
- **scripted**: a model that plays out what a capable one would say, token by token, behind the same grammar and server. So
  whatever fails here is the server's or the client's doing, not the model's. Of its {scripted_total} flows {scripted_passed} pass ({scripted_share}).

{clients}
"""
FLOWS = """
## Flow by flow

First nano, then scripted: ✓ passes, ✗ fails, a dot where the client has no such flow.

"""
ABOUT = {
    "one call": "one request, one call in the answer",
    "two calls in one turn": "a compound request, both calls in one answer, both results",
    "tool loop": "call, result, answer in text",
    "two-step loop": "a second call because of the first one's result",
    "streamed call": "a call put together from a stream",
    "streamed loop": "call, result and answer, all streamed",
    "structured output": "an object of a class",
    "forced tool": "the function that `tool_choice` names",
    "no tools": "an answer in text where no function is offered",
    "tool error fed back": "a function that fails, and an answer that says so",
    "follow-up question": "a second request in the same conversation",
    "system message": "with instructions",
    "budget": "streamed with 1 to 60 tokens: no call ever runs with arguments cut off or made up",
}
KINDS = ("nano", "scripted")


def page(results: dict[str, Any]) -> str:
    """Return the page of the documentation that tells these results."""
    clients = results["clients"]
    counts: dict[str, Any] = {}
    for kind in KINDS:
        found = [
            one[kind]["passed"]
            for client in clients.values() for one in client["flows"].values() if kind in one
        ]  # fmt: skip
        counts |= {
            f"{kind}_total": len(found), f"{kind}_passed": sum(found),
            f"{kind}_share": f"{sum(found) / max(len(found), 1):.1%}",
        }  # fmt: skip
    rows = [
        (
            f"**{name}**",
            ", ".join(f"{package} {version}" for package, version in one["versions"].items()),
            *(_passed(one["flows"], kind) for kind in KINDS),
            one["commit"], one["date"],
        )
        for name, one in clients.items()
    ]  # fmt: skip
    head = ("client", "versions", *KINDS, "commit", "date")
    parts = [HEAD.format(**counts, clients=_table(head, rows) + f"\n{results['machine']}.")]
    parts += [FLOWS, _matrix(clients), "\n", *_notes(clients)]
    return "".join(parts).rstrip("\n") + "\n"


def _passed(flows: dict[str, Any], kind: str) -> str:
    found = [one[kind]["passed"] for one in flows.values() if kind in one]
    return f"{sum(found)} of {len(found)}"


def _matrix(clients: dict[str, Any]) -> str:
    names = [*ABOUT, *sorted({f for one in clients.values() for f in one["flows"]} - ABOUT.keys())]
    rows = []
    for name in names:
        about = f"{name}: {ABOUT[name]}" if name in ABOUT else name
        cells = [
            "".join(_mark(one["flows"].get(name, {}), kind) for kind in KINDS)
            for one in clients.values()
        ]
        rows.append((about, *cells))
    return _table(("flow", *clients), rows)


def _mark(flow: dict[str, Any], kind: str) -> str:
    return ("✓" if flow[kind]["passed"] else "✗") if kind in flow else "·"


def _notes(clients: dict[str, Any]) -> list[str]:
    rows = [
        (client, flow, kind, one["flows"][flow][kind]["note"].replace("|", "\\|") or "no reason told")
        for client, one in clients.items() for flow in one["flows"] for kind in KINDS
        if not one["flows"][flow].get(kind, {"passed": True})["passed"]
    ]  # fmt: skip
    if not rows:
        return []
    return ["## What fails, and why\n\n", _table(("client", "flow", "model", "why"), rows)]


def _table(head: tuple[str, ...], rows: list[Any]) -> str:
    lines = [head, tuple("---" for _ in head), *rows]
    return "".join(f"| {' | '.join(map(str, cells))} |\n" for cells in lines)
