"""The page of the home agent's results: what the documentation tells of benchmarks/results/home.json."""

from __future__ import annotations

from typing import Any

HEAD = """# The home agent beside Home Assistant's own matchers

This page is written by `docs/generate.py` from `benchmarks/results/home.json`, which `python -m benchmarks.home`
measures; do not edit it by hand. The agent is [a component for Home Assistant](../how-to/home-assistant.md).

Four readers get the same requests in one run: Home Assistant's sentence *templates* (hassil {hassil} with home-assistant-intents {intents}),
its English fallback, the *gazetteer* ({gazetteer}), the *agent* (nano), and the templates with each of the others behind them, as in use.
*Right*: the intent and all of its slots. *Acted rightly*: of what a reader would have done, the part that was meant.
*Refused*: requests that the home cannot do, of which nothing is made. The agent makes nothing of a call that it thinks is probably wrong
(in use it asks back). Milliseconds are CPU time on one core.

## Other wordings

Requests that people may say and no template has ("could you get the coffee machine going"), written for this benchmark and used for nothing else:
`benchmarks/home_requests.py`.

{wordings}
## Open sentences of OHF-Voice/intents

{count} English sentences, made from the templates themselves, for the home of that repository's tests; those whose intent the agent has a function
for. The templates miss some, because the home that is known here lacks devices that the sentences name.

{open}
Where the agent alone is wrong, by intent (right of all): {by_intent}.

## A home with {entities} entities

{ms} ms of CPU for a request in the median, {most} at most (the first time that a kind of device is spoken of, its functions are read); {mib} MiB for the model
and all of its caches.

{machine}, commit {commit}.
"""


def _rows(measured: dict[str, dict[str, Any]], language: str = "") -> str:
    lines = []
    for name, one in measured.items():
        share = f"{100 * one['right'] / one['requests']:.0f}%"
        acted = f"{one['acted_rightly']} of {one['acted']}"
        refused = f"{one['refused']} of {one['foreign']}" if one["foreign"] else ""
        first = f"| {language} " if language else ""
        lines.append(
            f"{first}| {name} | {one['right']} of {one['requests']} ({share}) | {acted} | {refused} | {one['ms_median']} | {one['ms_99']} |"
        )
    return "\n".join(lines) + "\n"


def page(results: dict[str, Any]) -> str:
    """Return the page."""
    titles = "reader | right | acted rightly | refused | ms, median | ms, 99% |\n"
    wordings = f"| language | {titles}|---|---|---|---|---|---|---|\n" + "".join(
        _rows(measured, language) for language, measured in results["wordings"].items()
    )
    versions = results["versions"]
    by_intent = results["open"]["agent"]["by_intent"]
    worst = sorted(by_intent.items(), key=lambda one: one[1][0] - one[1][1])[:8]
    return HEAD.format(
        hassil=versions["hassil"], intents=versions["home-assistant-intents"], gazetteer=versions["gazetteer-matcher"],
        wordings=wordings, open=f"| {titles}|---|---|---|---|---|---|\n{_rows(results['open'])}",
        count=results["open"]["agent"]["requests"],
        by_intent=", ".join(f"{name.removeprefix('Hass')} {right} of {every}" for name, (right, every) in worst),
        entities=results["big"]["entities"], ms=results["big"]["ms_median"], most=results["big"]["ms_most"],
        mib=results["big"]["mib"], machine=results["machine"], commit=results["commit"],
    )  # fmt: skip
