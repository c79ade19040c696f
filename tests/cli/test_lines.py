"""Batches as JSON lines: constant memory, nothing lost, nothing twice, whatever happens to the program."""

from __future__ import annotations

import io
import json
import os
import resource
import subprocess
import sys
import tracemalloc
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from callmemaybe.cli import prompts as prompts_module
from callmemaybe.cli.batch import BatchRow, problem_row
from callmemaybe.cli.lines import LineFile, ResumedLines, result_line
from callmemaybe.cli.lines_run import run_lines
from callmemaybe.cli.lock import locked
from callmemaybe.cli.process import ExitCode, StopRequested
from callmemaybe.cli.progress import BatchProgress
from callmemaybe.cli.prompts import PromptLines, PromptList, PromptPlace, PromptRow, PromptSource
from callmemaybe.cli.results import ResultRecord, ResultSettings
from callmemaybe.errors import InputError, WriteError
from callmemaybe.tools import ToolSpec

SAY = ToolSpec.from_json({"name": "say", "parameters": {"text": {"type": "string"}}})
PROMPTS = ["one", '2 " \\', "🙂\u2028", "fail", ""]


class Echo:
    """Answers each prompt with a call that repeats it; "fail" fails, and a stop comes after ``most``."""

    def __init__(self, *, most: int | None = None, fails: bool = True) -> None:
        self.asked: list[str] = []
        self._most, self._fails = most, fails

    def rows(self, prompts: Iterable[PromptRow]) -> Iterator[BatchRow]:
        for row in prompts:
            if row.problem is not None:
                yield problem_row(row)
                continue
            if len(self.asked) == self._most:
                raise StopRequested(ExitCode.INTERRUPTED)
            self.asked.append(row.prompt)
            if row.prompt == "fail" and self._fails:
                yield BatchRow(row.index, ResultRecord(row.prompt, None, failure="no luck"))
            else:
                call = json.dumps({"text": row.prompt}, ensure_ascii=False)
                yield BatchRow(row.index, ResultRecord.of_call(row.prompt, SAY, call))


class Batch:
    """Runs over one input and one output."""

    def __init__(self, folder: Path, prompts: Iterable[object] = PROMPTS) -> None:
        self.input, self.output = folder / "p.jsonl", folder / "c.jsonl"
        self.input.write_text("".join(json.dumps(one) + "\n" for one in prompts), encoding="utf-8")

    def file(self, model: str = "m", source: PromptSource | None = None) -> LineFile:
        settings = ResultSettings.of([SAY], model)
        return LineFile(self.output, settings, source or PromptLines(self.input))

    def run(self, echo: Echo, *, resume: bool = True, model: str = "m") -> ResumedLines:
        source = PromptLines(self.input)
        file = self.file(model, source)
        start = file.resume([SAY]) if resume else ResumedLines(message=file.begin())
        progress = BatchProgress(
            source.size, start.place.rows, quiet=True, verbose=False, results_on_stdout=False
        )
        run_lines(file, source, start, echo, progress, lambda _: None)
        return start

    def text(self) -> bytes:
        return self.output.read_bytes()


def rows_of(path: Path, data: bytes, key: str = "prompt") -> list[PromptRow]:
    path.write_bytes(data)
    return list(PromptLines(path, key).rows(PromptPlace()))


def test_each_line_is_a_prompt_or_says_what_is_wrong(tmp_path: Path) -> None:
    """Law: a bad line is the problem of its row, with its number; blank lines, a BOM and CRLF are none."""
    lines = [
        b'\xef\xbb\xbf{"prompt": "a", "id": 7}\r\n', b"\n", b" \t\r\n", b'"b\\u2028"\n', b'"\xff"\n',
        b'{"prompt": "c', b'\n', b'{"text": "d", "id": [1.50]}\n', b"3\n", b'{"prompt": null}\n',
        b'"\x00"\n', b"\x00\x00\n", b'{"prompt": "a", "prompt": "b"}\n', b'"\\ud800"\n', b'"last"',
    ]  # fmt: skip
    rows = rows_of(tmp_path / "p.jsonl", b"".join(lines))
    assert [row.index for row in rows] == list(range(12))
    good = {row.index: (row.prompt, row.id) for row in rows if row.problem is None}
    assert good == {0: ("a", "7"), 1: ("b\u2028", None), 11: ("last", None)}
    wanted = {
        2: ":5: byte 0xff is not UTF-8", 3: ":6:12 (/prompt): a string is never closed",
        4: ':7: the object has no "prompt", but "text", "id"', 5: ":8: the prompt is not a string",
        6: ":9: the prompt is not a string", 7: ":10:2: a string holds the control character U+0000",
        8: ":11:1: ", 9: ":12:", 10: ":13:",
    }  # fmt: skip
    for index, problem in wanted.items():
        assert str(rows[index].problem).startswith(f"{tmp_path}/p.jsonl{problem}"), rows[index]
    assert rows[4].id == "[1.50]"
    assert [row.end.offset for row in rows][-1] == len(b"".join(lines))


def test_another_key_holds_the_prompt(tmp_path: Path) -> None:
    """Law: --prompt-key names it; a file without it is refused at once, with the keys that it has."""
    data = b'{"question": "a"}\n{"prompt": "b"}\n'
    rows = rows_of(tmp_path / "p.jsonl", data, "question")
    assert (rows[0].prompt, rows[1].problem is None) == ("a", False)
    with pytest.raises(InputError, match=r':1: the object has no "prompt", but "question"; name'):
        PromptLines(tmp_path / "p.jsonl")


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "the file is empty"), (b"\n \r\n", "the file is empty"), (b"\xff\xfea\x00", "UTF-16"),
        (b"[1, 2]\n", "the prompt is not a string"), (b"a,b\n", "p.jsonl:1:1: "),
    ],
)  # fmt: skip
def test_a_file_of_something_else_is_refused(tmp_path: Path, data: bytes, message: str) -> None:
    """Law: what is wrong from the first line on is known before a model is loaded."""
    with pytest.raises(InputError, match=message):
        rows_of(tmp_path / "p.jsonl", data)


def test_what_is_too_long_is_a_failure_and_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Law: neither a line nor a prompt without end costs more memory than the most that is allowed."""
    monkeypatch.setattr(prompts_module, "MAX_PROMPT", 1000)
    monkeypatch.setattr(prompts_module, "MAX_LINE", 1 << 20)
    path = tmp_path / "p.jsonl"
    with path.open("wb") as file:
        file.write(b'"' + b"a" * 1001 + b'"\n' + b'"b"\n"')
        for _ in range(64):
            file.write(b"c" * (1 << 20))
        file.write(b'"\n"d"\n')
    tracemalloc.start()
    rows = list(PromptLines(path).rows(PromptPlace()))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 12 << 20
    assert [row.prompt for row in rows] == ["", "b", "", "d"]
    assert "the prompt has 1,001 characters; the most are 1,000" in str(rows[0].problem)
    assert "p.jsonl:3: the line has more than 1 MiB" in str(rows[2].problem)
    assert rows[3].end.offset == path.stat().st_size


def test_rows_are_read_from_any_place(tmp_path: Path) -> None:
    """Law: from the end of each row the rest is read as it is read from the beginning; of a pipe, too."""
    path = tmp_path / "p.jsonl"
    rows = rows_of(path, b'\xef\xbb\xbf"a"\r\n\n{"prompt":"b"}\n"\xff"\n\n"c"')
    for row in rows:
        rest = rows[row.index + 1 :]
        assert list(PromptLines(path).rows(row.end)) == rest
        listed = PromptList([one.prompt for one in rows])
        assert [one.index for one in listed.rows(row.end)] == [one.index for one in rest]


def test_a_pipe_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Law: rows before the place are skipped, and the one that was read last may be asked for again."""
    data = b"".join(b'"%d"\n' % number for number in range(5))
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
    source = PromptLines(Path("-"))
    assert (source.size, source.fingerprint(PromptPlace())) == (None, None)
    rows = source.rows(PromptPlace(2, 0, 0))
    assert [next(rows).prompt, next(rows).prompt] == ["2", "3"]
    assert [row.prompt for row in source.rows(PromptPlace(3, 0, 0))] == ["3", "4"]


def test_a_line_holds_what_the_array_holds(tmp_path: Path) -> None:
    """Law: prompt, name and parameters, the prompt's id before them, an error behind them."""
    batch = Batch(tmp_path, [{"prompt": "fail", "id": 1.50}, {"prompt": "a", "id": "x"}, "b"])
    with batch.input.open("ab") as file:
        file.write(b'{"id": null}\n')
    batch.run(Echo(), resume=False)
    problem = f'{batch.input}:4: the object has no \\"prompt\\", but \\"id\\"; name the key with --prompt-key'
    assert batch.text().decode().splitlines() == [
        '{"id": 1.5, "prompt": "fail", "name": null, "parameters": {}, "error": "no luck"}',
        '{"id": "x", "prompt": "a", "name": "say", "parameters": {"text": "a"}}',
        '{"prompt": "b", "name": "say", "parameters": {"text": "b"}}',
        f'{{"id": null, "prompt": null, "name": null, "parameters": {{}}, "error": "{problem}"}}',
    ]


def test_memory_does_not_grow(tmp_path: Path) -> None:
    """Law: ten times as many prompts take no more memory."""
    peaks = []
    for count in (1_000, 8_000):
        batch = Batch(tmp_path, (f"prompt {index}" for index in range(count)))
        echo = Echo()
        echo.asked = _Counted()
        tracemalloc.start()
        batch.run(echo, resume=False)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        assert batch.text().count(b"\n") == count
    assert peaks[1] < peaks[0] + 300_000


class _Counted(list[str]):
    def append(self, _: str) -> None:
        """Keep nothing."""


def test_whatever_the_moment_of_a_kill_the_rest_is_done(tmp_path: Path) -> None:
    """Law: cut at any byte, with the notes of any earlier moment or none, a resumed file is the whole one."""
    batch = Batch(tmp_path)
    batch.run(Echo(), resume=False)
    whole, notes = batch.text(), batch.output.with_name("c.jsonl.run.json")
    after = {}
    for most in range(len(PROMPTS)):
        batch.output.unlink()
        notes.unlink(missing_ok=True)
        with pytest.raises(StopRequested):
            batch.run(Echo(most=most), resume=False)
        after[len(batch.text())] = notes.read_bytes()
    for end in range(1, len(whole)):
        known = [data for length, data in after.items() if length <= end]
        for data in {known[0], known[-1]} | ({b""} if b"\n" in whole[:end] else set()):
            batch.output.write_bytes(whole[:end])
            notes.write_bytes(data)
            echo = Echo()
            batch.run(echo)
            assert batch.text() == whole, (end, data)
            done = whole[:end].count(b"\n")
            again = ["fail"] if done > PROMPTS.index("fail") else []
            assert echo.asked == [*PROMPTS[done:], *again]
    assert {path.name for path in tmp_path.iterdir()} == {"p.jsonl", "c.jsonl", "c.jsonl.run.json"}


def test_resuming_reads_the_end_alone(tmp_path: Path) -> None:
    """Law: what the notes vouch for is not read again: neither results nor prompts."""
    count = 10_000
    batch = Batch(tmp_path, (f"prompt {index}" for index in range(count)))
    echo = Echo(most=count - 10)
    with pytest.raises(StopRequested):
        batch.run(echo, resume=False)
    length = len(batch.text())
    for path in (batch.input, batch.output):
        with path.open("r+b") as file:
            file.seek(path.stat().st_size // 2)
            file.write(b"\xff\n\xff")  # it would be noticed
    start = batch.run(Echo())
    assert start.place.rows == count - 10
    assert batch.text().count(b"\n") == count + 1
    assert batch.text()[length:].startswith(b'{"prompt": "prompt 9990"')


def test_prompts_that_failed_are_done_again(tmp_path: Path) -> None:
    """Law: with --resume they are, in their places; a bad line is not; what fails again stays a failure."""
    batch = Batch(tmp_path, ["a", "fail", 3, "b", "fail"])
    batch.run(Echo(), resume=False)
    whole = batch.text()
    echo = Echo()
    assert batch.run(echo).to_retry == 2
    assert (batch.text(), echo.asked) == (whole, ["fail", "fail"])
    with pytest.raises(StopRequested):
        batch.run(Echo(most=1, fails=False))
    names = [json.loads(line)["name"] for line in batch.text().splitlines()]
    assert names == ["say", "say", None, "say", None]
    assert batch.run(Echo(fails=False)).to_retry == 1
    names = [json.loads(line)["name"] for line in batch.text().splitlines()]
    assert names == ["say", "say", None, "say", "say"]
    echo = Echo()
    assert batch.run(echo).to_retry == 0
    assert echo.asked == []


def test_an_error_among_the_arguments_is_no_failure(tmp_path: Path) -> None:
    """Law: only the record's own key says that a prompt failed."""
    batch = Batch(tmp_path, ["a"])
    record = ResultRecord("a", "say", '{"text": "x", "error": "y"}')
    batch.output.write_text(result_line(PromptRow(0, "a"), record))
    with batch.input.open("a") as file:
        file.write('"fail"\n')
    echo = Echo()
    batch.output.write_text(
        '{"prompt": "a", "name": "say", "parameters": {"text": ", \\"error\\": "}}\n'
    )
    assert batch.run(echo).to_retry == 0
    assert echo.asked == ["fail"]


def test_other_settings_and_a_new_run_keep_the_old_results_aside(tmp_path: Path) -> None:
    """Law: no run throws results away, be it that the model changed or that --resume was forgotten."""
    batch = Batch(tmp_path)
    batch.run(Echo(), resume=False)
    whole = batch.text()
    start = batch.run(Echo(), model="other")
    assert start.message == (
        "the model was m since the last run: every prompt is done again, "
        f"and the earlier results are in {tmp_path}/c.old-1.jsonl"
    )
    batch.run(Echo(), resume=False)
    assert (tmp_path / "c.old-1.jsonl").read_bytes() == whole
    assert (tmp_path / "c.old-2.jsonl").read_bytes() == whole
    notes = json.loads((tmp_path / "c.old-2.jsonl.run.json").read_text())
    assert notes["model"] == "other"


def test_results_that_fit_no_prompt_are_kept_aside(tmp_path: Path) -> None:
    """Law: results are kept up to the first that does not fit its prompt, and the whole file beside."""
    batch = Batch(tmp_path)
    batch.run(Echo(), resume=False)
    before = batch.text()
    prompts = [*PROMPTS[:3], "new", *PROMPTS[3:]]
    batch.input.write_text("".join(json.dumps(one) + "\n" for one in prompts), encoding="utf-8")
    start = batch.run(Echo())
    assert start.place.rows == 3
    assert "fits no prompt and is in" in start.message
    assert (tmp_path / "c.old-1.jsonl").read_bytes() == before
    assert [json.loads(line)["prompt"] for line in batch.text().splitlines()] == prompts


def test_without_notes_the_functions_vouch(tmp_path: Path) -> None:
    """Law: results of unknown origin are kept where they are calls of the functions."""
    batch = Batch(tmp_path, ["a", "b"])
    good = '{"prompt": "a", "name": "say", "parameters": {"text": "x"}}\n'
    for bad in (
        '{"prompt": "b", "name": "say", "parameters": {"text": 3}}\n',
        '{"prompt": "b", "name": "other", "parameters": {}}\n',
        '{"prompt": "b", "name": ["say"], "parameters": {}}\n',
    ):
        batch.output.write_text(good + bad)
        batch.output.with_name("c.jsonl.run.json").unlink(missing_ok=True)
        assert batch.run(Echo()).place.rows == 1
        assert batch.text().decode().startswith(good)


@pytest.mark.parametrize("data", [b'{"my": "notes"}', b"a,b\n1,2\n", b"[\n]\n", b"\x00" * 10_000])
def test_a_file_that_holds_no_results_is_left_alone(tmp_path: Path, data: bytes) -> None:
    """Law: resuming onto something else is refused, and not a byte of it is lost."""
    batch = Batch(tmp_path)
    batch.output.write_bytes(data)
    with pytest.raises(InputError, match="not a result file"):
        batch.run(Echo())
    assert batch.text() == data
    batch.run(Echo(), resume=False)
    assert (tmp_path / "c.old-1.jsonl").read_bytes() == data


def test_zeros_at_the_end_as_after_a_power_cut(tmp_path: Path) -> None:
    """Law: what a file system made of lines that never reached the disk is kept aside and done again."""
    batch = Batch(tmp_path)
    with pytest.raises(StopRequested):
        batch.run(Echo(most=3), resume=False)
    with batch.output.open("ab") as file:
        file.write(b"\x00" * 5000 + b"\n")
    start = batch.run(Echo())
    assert start.place.rows == 3
    assert len(batch.text().splitlines()) == len(PROMPTS)


def test_a_full_disk_leaves_whole_lines(tmp_path: Path) -> None:
    """Law: half a line is taken back, the error says how many results are there, and a later run goes on."""
    batch = Batch(tmp_path, [f"prompt {index}" for index in range(200)])
    program = (
        "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (3000, 3000))\n"
        "import sys; from pathlib import Path\n"
        "from tests.cli.test_lines import Batch, Echo\n"
        "batch = Batch.__new__(Batch)\n"
        "batch.input, batch.output = Path(sys.argv[1]), Path(sys.argv[2])\n"
        "batch.run(Echo(), resume=False)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, batch.input, batch.output],
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    lines = batch.text().splitlines(keepends=True)
    assert all(line.endswith(b"\n") for line in lines)
    last = done.stderr.strip().splitlines()[-1]
    assert last.endswith(
        f"cannot be written: File too large; {len(lines)} results are in it, --resume continues"
    )
    start = batch.run(Echo())
    assert start.place.rows == len(lines)
    assert batch.text().count(b"\n") == 200


def test_only_one_run_writes_a_file(tmp_path: Path) -> None:
    """Law: a second one is refused, through a link as well; a lock that a killed run left keeps nobody out."""
    output, link = tmp_path / "c.jsonl", tmp_path / "link.jsonl"
    link.symlink_to(output)
    with locked(output):
        message = rf"another run is writing it \(process {os.getpid()}\); wait for it, or name"
        for path in (output, link):
            with pytest.raises(InputError, match=message), locked(path):
                pass
    assert list(tmp_path.iterdir()) == [link]
    (tmp_path / "c.jsonl.lock").write_text("17\n")
    with locked(output):
        pass
    assert list(tmp_path.iterdir()) == [link]


def test_a_link_is_written_through(tmp_path: Path) -> None:
    """Law: the results are where a link leads, also after failures were done again, and it stays a link."""
    batch = Batch(tmp_path)
    target = tmp_path / "elsewhere.jsonl"
    batch.output.symlink_to(target)
    batch.run(Echo(), resume=False)
    whole = target.read_bytes()
    target.chmod(0o640)
    batch.run(Echo())
    assert batch.output.is_symlink()
    assert target.read_bytes() == whole
    assert target.stat().st_mode & 0o777 == 0o640


def test_a_write_that_fails_while_failures_are_done_again_loses_nothing(tmp_path: Path) -> None:
    """Law: the file stays as it was when there is no room for the new one."""
    batch = Batch(tmp_path)
    batch.run(Echo(), resume=False)
    before = batch.text()
    (tmp_path / "c.jsonl.retry").mkdir()
    with pytest.raises(WriteError, match="cannot be written"):
        batch.run(Echo(fails=False))
    assert batch.text() == before


def test_a_damaged_line_is_named_and_nothing_else_is_lost(tmp_path: Path) -> None:
    """Law: a failure that is no result any more ends the run with its line; all other lines stay."""
    batch = Batch(tmp_path, ["x" * 90_000, "fail", "y" * 90_000, "fail"])
    batch.run(Echo(), resume=False)
    lines = batch.text().splitlines(keepends=True)
    lines[1] = lines[1].replace(b"no luck", b"no \xffuck")
    batch.output.write_bytes(b"".join(lines))
    with pytest.raises(InputError, match=r"c\.jsonl:2: is no result any more"):
        batch.run(Echo(fails=False))
    assert batch.text().splitlines(keepends=True) == lines


def test_the_limit_of_memory_is_the_systems(tmp_path: Path) -> None:
    """Law: the memory of a process does not grow by its input: a gigabyte of one line is one failure."""
    path = tmp_path / "p.jsonl"
    with path.open("wb") as file:
        file.write(b'"a"\n')
        file.seek(1 << 30)
        file.write(b'\n"b"\n')
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    rows = list(PromptLines(path).rows(PromptPlace()))
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert [row.problem is None for row in rows] == [True, False, True]
    assert grown < 100_000
