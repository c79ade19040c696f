"""The command ``eval``: measure a model on cases whose right answers are known."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from callmemaybe import __version__
from callmemaybe.cli.evalfiles import Report, hash_of, read_cases
from callmemaybe.cli.exits import Exit
from callmemaybe.cli.run import Choose, NoCall
from callmemaybe.cli.stopping import Stopped, stopped_by_signals
from callmemaybe.errors import InputError

if TYPE_CHECKING:
    from callmemaybe.cli.evalshow import EvalShow
    from callmemaybe.evals.case import Case
    from callmemaybe.evals.record import Record
    from callmemaybe.evals.run import Bench


class Source(StrEnum):
    """Sets of cases that are read as they are published."""

    BFCL = "bfcl"
    EXERCISE = "exercise"
    SGD = "sgd"


@dataclass(frozen=True, slots=True)
class EvalOptions:
    """The options of ``callmemaybe eval``, already of the right types."""

    data: Path
    model: str
    report: Path
    source: Source | None
    tags: Sequence[str]
    limit: int | None
    no_call: NoCall
    choose: Choose
    max_tokens: int
    unconstrained: bool
    resume: bool
    quiet: bool

    def settings(self) -> dict[str, Any]:
        """Return what decides the answers, apart from the cases."""
        return {
            "model": self.model,
            "no_call": self.no_call.value,
            "choose": self.choose.value,
            "max_tokens": self.max_tokens,
            "unconstrained": self.unconstrained,
        }


def register(app: typer.Typer) -> None:
    """Add the command to the program."""
    app.command(name="eval")(evaluate)


def evaluate(
    data: Annotated[Path, typer.Argument(help="Cases, one JSON object per line.")],
    model: Annotated[
        str,
        typer.Option("--model", "-m", help='"nano", a model folder, or "org/name" on the hub.'),
    ] = "nano",
    report: Annotated[
        Path, typer.Option("--report", "-r", help="Folder for answers, figures and a page.")
    ] = Path("data/output/evaluation"),
    source: Annotated[
        Source | None,
        typer.Option("--from", help="DATA is the folder of a published set, not JSON lines."),
    ] = None,
    tag: Annotated[list[str], typer.Option(help="Only cases with this tag; may be repeated.")] = [],  # noqa: B006 - typer copies it
    limit: Annotated[
        int | None, typer.Option(min=1, help="So many cases, evenly from all of them.")
    ] = None,
    no_call: Annotated[
        NoCall, typer.Option(help="Whether the model may decide that no function fits.")
    ] = NoCall.ALLOW,
    choose: Annotated[
        Choose,
        typer.Option(help="Choose the function by the probability of its whole name, or by token."),
    ] = Choose.EXACT,
    max_tokens: Annotated[int, typer.Option(min=1, help="Budget of one answer.")] = 512,
    unconstrained: Annotated[
        bool,
        typer.Option(
            "--unconstrained",
            help="Also run the model without a grammar, with up to two retries, and compare.",
        ),
    ] = False,
    resume: Annotated[
        bool, typer.Option("--resume", help="Keep the answers of an earlier run.")
    ] = False,
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="Print nothing but failures.")
    ] = False,
) -> None:
    """Measure how well a model calls functions, on cases whose right answers are known."""
    options = EvalOptions(
        data, model, report, source, tag, limit, no_call, choose, max_tokens, unconstrained,
        resume, quiet,
    )  # fmt: skip
    raise typer.Exit(run_evaluation(options))


def run_evaluation(options: EvalOptions) -> Exit:
    """Ask all cases, write the report, and return the exit code.

    Raises InputError before any model is loaded, ModelError, NotWritten, and Stopped after the
    report of what is done has been written.
    """
    with stopped_by_signals():
        cases = _cases(options)
        file = Report(options.report, options.settings())
        kept, remark = file.resume(cases) if options.resume else ({}, "")
        # From here on it pays to import what is heavy.
        from callmemaybe.cli.evalshow import EvalShow

        show = EvalShow(len(cases), quiet=options.quiet)
        if remark:
            show.say(remark)
        bench = _bench(options)
        records = _ask(bench, cases, kept, file, show, options)
        found = _finish(cases, records, file, options)
        show.report(found, str(options.report))
        return Exit.SOME_FAILED if found["failures"] else Exit.DONE


def _cases(options: EvalOptions) -> list[Case]:
    if options.source is not None:
        from callmemaybe.evals import sources

        cases = sources.read(options.source.value, options.data)
    else:
        cases = read_cases(options.data)
    if not cases:
        raise InputError("the set has no cases", where=str(options.data))
    wanted = set(options.tags)
    cases = [case for case in cases if not wanted or wanted.intersection(case.tags)]
    if not cases:
        raise InputError("no case has such a tag", where="--tag")
    if options.limit is not None and options.limit < len(cases):
        step = len(cases) / options.limit
        cases = [cases[int(place * step)] for place in range(options.limit)]
    return cases


def _bench(options: EvalOptions) -> Bench:
    from callmemaybe.caller import load_model
    from callmemaybe.evals.run import Bench, Options

    asked: dict[str, Any] = {
        "choose": "exact" if options.choose is Choose.EXACT else "greedy",
        "max_tokens": options.max_tokens,
    }
    may_decline = options.no_call is NoCall.ALLOW
    return Bench(load_model(options.model), Options(may_decline, options.unconstrained, asked))


def _ask(
    bench: Bench,
    cases: Sequence[Case],
    kept: dict[str, Record],
    file: Report,
    show: EvalShow,
    options: EvalOptions,
) -> dict[str, Record]:
    """Return these cases' records by id; when stopped, write the report of what is done first."""
    from callmemaybe.evals.score import score

    records = {case.id: kept[case.id] for case in cases if case.id in kept}
    try:
        with file.writer(list(kept.values())) as writer, show.running():
            for case, record in zip(cases, bench.records(cases, kept), strict=True):
                if case.id not in kept:
                    writer.add(record)
                    records[case.id] = record
                show.case(record.failure is None and score(case, record.call).exact)
    except Stopped:
        if records:
            _finish(cases, records, file, options)
        said = f"Stopped; what was done is in {options.report}, --resume goes on."
        show.say(said)
        raise
    return records


def _finish(
    cases: Sequence[Case],
    records: dict[str, Record],
    file: Report,
    options: EvalOptions,
) -> dict[str, Any]:
    from callmemaybe.evals.report import judge, report

    about = {
        "data": str(options.data),
        **options.settings(),
        "cases_hash": hash_of(cases),
        "version": __version__,
        "finished": time.strftime("%Y-%m-%d %H:%M:%S %z"),
    }
    found = report(judge(cases, records), about)
    file.write(found)
    return found
