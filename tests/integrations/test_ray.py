"""Batches on a Ray cluster: calls and failures as rows, a process that dies, a restart that does nothing twice."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from callmemaybe.cli.batch import BatchRow, lost_row, problem_row
from callmemaybe.cli.lines import LineFile, ResumedLines
from callmemaybe.cli.lines_run import run_lines
from callmemaybe.cli.progress import BatchProgress
from callmemaybe.cli.prompts import PromptLines, PromptRow
from callmemaybe.cli.results import ResultRecord, ResultSettings
from callmemaybe.errors import InputError, ModelError
from callmemaybe.integrations.ray import RayWorkers, with_calls
from callmemaybe.tools import ToolSpec

ray: Any = pytest.importorskip("ray", reason="the extra ray is not installed")
pytestmark = pytest.mark.timeout(600)
SAY = ToolSpec.from_json({"name": "say", "parameters": {"text": {"type": "string"}}})
NUMBERS = [{"name": "add", "parameters": {"a": {"type": "integer"}, "b": {"type": "integer"}}}]


@dataclass(frozen=True)
class MakeEcho:
    """Makes, in an actor, what answers each prompt with itself; it writes down what it was asked."""

    folder: str
    problem: str = ""

    def __call__(self, threads: int) -> MakeEcho:
        assert threads == 1
        if self.problem:
            raise ModelError(self.problem)
        return self

    def rows(self, prompts: Iterable[PromptRow]) -> Iterator[BatchRow]:
        for row in prompts:
            if row.problem is not None:
                yield problem_row(row)
                continue
            (Path(self.folder) / f"{row.index}-{os.getpid()}").touch()
            if row.prompt == "die":
                os._exit(7)
            if row.prompt == "fail":
                yield BatchRow(row.index, ResultRecord(row.prompt, None, failure="no luck"))
                continue
            yield BatchRow(row.index, ResultRecord(row.prompt, "say", '{"text": "x"}'))


def run(folder: Path, most: int | None = None) -> ResumedLines:
    """Run the prompts of a folder on a cluster of this machine; stop hard after ``most`` results."""
    source = PromptLines(folder / "p.jsonl")
    file = LineFile(folder / "c.jsonl", ResultSettings.of([SAY], "m"), source)
    start = file.resume([SAY])
    workers = RayWorkers(MakeEcho(str(folder / "asked")), lost_row, count=2, chunk=2)
    progress = BatchProgress(None, 0, quiet=True, verbose=False, results_on_stdout=False)
    seen: list[int] = []

    def stop(row: BatchRow) -> None:
        seen.append(row.index)
        if len(seen) == most:
            raise KeyboardInterrupt

    run_lines(file, source, start, workers, progress, stop)
    return start


def test_a_batch_on_a_cluster_goes_on_where_it_was(tmp_path: Path) -> None:
    """Law: failures are rows, in order; a run that was stopped and begun again has what one run has."""
    (tmp_path / "asked").mkdir()
    lines = ['"one"', '"fail"', "no JSON", '"die"', *(f'"prompt {n} 🙂"' for n in range(12))]
    (tmp_path / "p.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path, most=3)
    kept = (tmp_path / "c.jsonl").read_bytes()
    assert kept.count(b"\n") == 2
    assert run(tmp_path).place.rows == 2
    whole = (tmp_path / "c.jsonl").read_bytes()
    assert whole.startswith(kept)
    found = whole.decode().splitlines()
    assert len(found) == len(lines)
    assert found[0] == '{"prompt": "one", "name": "say", "parameters": {"text": "x"}}'
    assert [n for n, line in enumerate(found) if '"error"' in line] == [1, 2, 3]
    assert "no luck" in found[1]
    assert "p.jsonl:3" in found[2]
    assert "the worker ended" in found[3]
    done = {path.name.partition("-")[0] for path in (tmp_path / "asked").iterdir()}
    assert done == {str(n) for n in range(len(lines)) if n != 2}
    # Once more: only what failed is asked again, and nothing changes.
    for path in (tmp_path / "asked").iterdir():
        path.unlink()
    assert run(tmp_path).place.rows == len(lines)
    assert (tmp_path / "c.jsonl").read_text(encoding="utf-8").splitlines() == found
    asked = {path.name.partition("-")[0] for path in (tmp_path / "asked").iterdir()}
    assert asked == {"1", "3"}


def test_what_no_cluster_can_do_is_one_sentence() -> None:
    """Law: a model that cannot be loaded ends the run; so does an address where no cluster is."""
    prompts = [PromptRow(0, "a")]
    with pytest.raises(ModelError, match="there is no such model"):
        list(RayWorkers(MakeEcho("", "there is no such model"), lost_row, count=1).rows(prompts))
    with pytest.raises(InputError, match=r"no Ray cluster at 127\.0\.0\.1:9"):
        list(RayWorkers(MakeEcho(""), lost_row, address="127.0.0.1:9", count=1).rows(prompts))


def test_a_data_set_gets_columns() -> None:
    """Law: each row of a Ray data set has its call or its error, and no row costs another one its own."""
    pytest.importorskip("pyarrow", reason="the extra ray is not installed whole")
    ray.init(include_dashboard=False, num_cpus=2, log_to_driver=False)
    try:
        rows = [{"prompt": "Add 2 and 3"}, {"prompt": None}, {"prompt": "Add 7 and 8"}]
        found = with_calls(ray.data.from_items(rows), NUMBERS).take_all()
    finally:
        ray.shutdown()
    by_prompt = {row["prompt"]: row for row in found}
    assert json.loads(by_prompt["Add 2 and 3"]["arguments"]) == {"a": 2, "b": 3}
    assert by_prompt["Add 7 and 8"]["name"] == "add"
    assert by_prompt[None]["error"] == "the prompt is no text"
    assert by_prompt[None]["name"] is None
