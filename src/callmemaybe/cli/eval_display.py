"""The display of an evaluation: progress while it runs, tables of metrics at the end."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Any

from rich.table import Table
from rich.text import Text

from callmemaybe.cli.display import ProgressBar, console
from callmemaybe.cli.process import printable
from callmemaybe.evals.page import interval, percent
from callmemaybe.evals.report import FIGURES

_TAG_FIGURES = ("right", "name", "exact", "no_call_recall", "false_refusals")
_RUNS = {"constrained": "constrained", "first": "not, one try", "retried": "not, with retries"}


class EvalDisplay:
    """The display of one evaluation of ``total`` cases."""

    def __init__(self, total: int, *, quiet: bool) -> None:
        self._total, self._quiet = total, quiet
        self._err, self._out = console(sys.stderr), console(sys.stdout)
        self._done = self._right = 0
        self._bar = ProgressBar(total, self._err, quiet=quiet)

    def message(self, text: str) -> None:
        """Print a message, unless quiet."""
        if not self._quiet:
            self._err.print(Text(printable(text)), soft_wrap=True)

    def running(self) -> AbstractContextManager[object]:
        """Return the context in which cases are run."""
        return self._bar.running()

    def case(self, is_right: bool) -> None:
        """Count one more finished case."""
        self._done += 1
        self._right += is_right
        share = f"{self._right / self._done:.1%} right"
        if self._bar.is_visible:
            self._bar.advance(share)
        elif self._done % 100 == 0 and self._done < self._total:
            self.message(f"[{self._done}/{self._total}] {share}")

    def report(self, found: Mapping[str, Any], folder: str) -> None:
        """Print all tables, the failures, and the path of the report."""
        for reason, ids in found["failures"].items():
            shown = ", ".join(ids[:5]) + (" …" if len(ids) > 5 else "")
            line = f"{len(ids)} failed ({shown}): {reason}"
            self._err.print(Text(printable(line), "red"), soft_wrap=True)
        if self._quiet:
            return
        self._figures(found["figures"])
        for key, table in (("by_type", _by_type), ("by_tag", _tags)):
            if found[key]:
                self._out.print()
                self._out.print(table(found[key]))
        self._calibration(found["calibration"])
        if "comparison" in found:
            self._comparison(found["comparison"])
        self._out.print(Text(_cost(found["cost"])), soft_wrap=True)
        self._out.print(Text(f"Report: {printable(folder)}", "bold"), soft_wrap=True)

    def _figures(self, figures: Mapping[str, Any]) -> None:
        table = _table("figure", "share", "95%", "right", "of", "what it says")
        for key, one in figures.items():
            if one["of"]:
                table.add_row(key.replace("_", " "), *_cells(one), FIGURES[key])
        self._out.print(table)

    def _calibration(self, found: Mapping[str, Any]) -> None:
        if not found["cases"]:
            return
        table = _table("stated", "mean", "came true", "95%", "right", "of")
        for one in found["bins"]:
            stated = f"{one['from']:.1f} to {one['to']:.1f}"
            table.add_row(stated, f"{one['mean']:.3f}", *_cells(one))
        self._out.print()
        self._out.print(table)
        line = f"Calibration error (ECE) {found['ece']:.3f}, Brier score {found['brier']:.3f}"
        self._out.print(Text(line), soft_wrap=True)

    def _comparison(self, found: Mapping[str, Any]) -> None:
        table = _table("run", "valid", "function", "exact", "tokens", "tokens per valid call")
        for key, label in _RUNS.items():
            one = found[key]
            shares = (_cell(one[name]) for name in ("valid", "name", "exact"))
            table.add_row(label, *shares, str(one["tokens"]), str(one["tokens_per_valid"] or "–"))
        self._out.print()
        self._out.print(table)
        line = f"Retries made {_cell(found['recovered'])} of the invalid answers valid"
        self._out.print(Text(line), soft_wrap=True)


def _table(*columns: str) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for place, column in enumerate(columns):
        is_text = place == 0 or column == "what it says"
        table.add_column(column, justify="left" if is_text else "right", no_wrap=not is_text)
    return table


def _by_type(shares: Mapping[str, Any]) -> Table:
    table = _table("argument of type", "share", "95%", "right", "of")
    for name, one in shares.items():
        table.add_row(Text(printable(name)), *_cells(one))
    return table


def _tags(by_tag: Mapping[str, Any]) -> Table:
    table = _table("tag", "cases", *(key.replace("_", " ") for key in _TAG_FIGURES))
    for tag, figures in by_tag.items():
        shares = (_cell(figures[key]) for key in _TAG_FIGURES)
        table.add_row(Text(printable(tag)), str(figures["right"]["of"]), *shares)
    return table


def _cells(share: Mapping[str, Any]) -> tuple[str, str, str, str]:
    return percent(share), interval(share), str(share["right"]), str(share["of"])


def _cell(share: Mapping[str, Any]) -> str:
    return f"{percent(share)} ({interval(share)})" if share["of"] else "–"


def _cost(cost: Mapping[str, Any]) -> str:
    if not cost["answers"]:
        return "No answers"
    parts = [f"{cost['answers']} answers, {cost['ms_p50']} ms each (99%: {cost['ms_p99']} ms)"]
    if cost["forced_share"] is not None:
        parts.append(f"{cost['forced_share']:.0%} of {cost['tokens']} tokens forced")
    if cost["cut_prompts"]:
        parts.append(f"{cost['cut_prompts']} prompts longer than the context were cut")
    return ", ".join(parts)
