"""The result file is always whole, and only what still holds is resumed."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from callmemaybe.cli.files import check_writable, is_stream, write_atomically
from callmemaybe.cli.results import ResultFile, ResultRecord, ResultSettings
from callmemaybe.errors import InputError, WriteError
from callmemaybe.tools import ToolSpec

ADD = ToolSpec.from_json(
    {"name": "add", "parameters": {"a": {"type": "number"}, "b": {"type": "number"}}}
)
OTHER = ToolSpec.from_json({"name": "other", "parameters": {}})
PROMPTS = ["one", "two", "three"]


def result_file(
    tmp_path: Path, *tools: ToolSpec, model: str = "m", **options: object
) -> ResultFile:
    return ResultFile(tmp_path / "out.json", ResultSettings.of(tools or (ADD,), model, **options))


def call(prompt: str, a: str = "1", b: str = "2") -> ResultRecord:
    return ResultRecord.of_call(prompt, ADD, f'{{"a":{a},"b":{b}}}')


def test_the_file_holds_exactly_three_keys(tmp_path: Path) -> None:
    """A record is prompt, name and parameters, in this order, digits as generated."""
    file = result_file(tmp_path)
    file.write(
        PROMPTS, [call("one", "3", "0.10"), ResultRecord("two", None), call("three", "1e400")]
    )
    text = file.path.read_text(encoding="utf-8")
    assert '"parameters": {"a": 3.0, "b": 0.10}' in text
    assert '"parameters": {"a": 1e400, "b": 2.0}' in text
    records = json.loads(text)
    assert [list(record) for record in records] == [["prompt", "name", "parameters"]] * 3
    assert records[1] == {"prompt": "two", "name": None, "parameters": {}}


def test_no_prompts_give_an_empty_array(tmp_path: Path) -> None:
    """Nothing asked, nothing answered, still JSON."""
    file = result_file(tmp_path)
    file.write([], [])
    assert file.path.read_text() == "[]\n"


def test_resume_keeps_what_is_finished(tmp_path: Path) -> None:
    """Finished records survive with their digits; failed and missing ones are done again."""
    file = result_file(tmp_path, options=1)
    file.write(
        [*PROMPTS, "four"],
        [call("one", "0.10"), ResultRecord("two", None, failure="x"), None, call("four")],
    )
    before = file.path.read_text()
    kept = result_file(tmp_path, options=1).resume([*PROMPTS, "four"], [ADD])
    assert kept.records == {0: call("one", "0.10"), 3: call("four")}
    assert kept.message == "2 of 4 results are kept"
    assert file.path.read_text() == before


def test_resume_matches_by_position_and_prompt(tmp_path: Path) -> None:
    """A prompt that moved or changed is done again."""
    file = result_file(tmp_path)
    file.write(PROMPTS, [call(prompt) for prompt in PROMPTS])
    assert set(file.resume(["one", "three", "two"], [ADD]).records) == {0}
    assert set(file.resume(["one"], [ADD]).records) == {0}
    assert set(file.resume([*PROMPTS, "four"], [ADD]).records) == {0, 1, 2}


def test_a_finished_no_call_is_kept(tmp_path: Path) -> None:
    """A null name that the notes do not call a failure is a result."""
    file = result_file(tmp_path)
    file.write(["one"], [ResultRecord("one", None)])
    assert file.resume(["one"], [ADD]).records == {0: ResultRecord("one", None)}


@pytest.mark.parametrize(
    ("changed", "remark"),
    [
        ({"tools": (OTHER,)}, "the functions have changed since"),
        ({"model": "n"}, "the model was m since"),
        ({"temperature": 2}, "temperature changed since"),
    ],
)
def test_changed_settings_start_over(
    tmp_path: Path, changed: dict[str, object], remark: str
) -> None:
    """Results of other functions, models or settings are not mixed with new ones."""
    result_file(tmp_path, temperature=1).write(["one"], [call("one")])
    settings = {"tools": (ADD,), "model": "m", "temperature": 1} | changed
    tools, model = settings.pop("tools"), settings.pop("model")
    file = ResultFile(tmp_path / "out.json", ResultSettings.of(tools, model, **settings))  # type: ignore[arg-type]
    kept = file.resume(["one"], tools)  # type: ignore[arg-type]
    assert not kept.records
    assert kept.message.startswith(remark)


def test_without_notes_the_schema_vouches(tmp_path: Path) -> None:
    """Results from elsewhere, or edited by hand, are kept where they fit the functions."""
    path = tmp_path / "out.json"
    good = {"prompt": "one", "name": "add", "parameters": {"a": 1.0, "b": 2.0}}
    bad = {"prompt": "two", "name": "add", "parameters": {"a": "x", "b": 2.0}}
    none = {"prompt": "three", "name": None, "parameters": {}}
    path.write_text(json.dumps([good, bad, none]))
    kept = result_file(tmp_path).resume(PROMPTS, [ADD])
    assert set(kept.records) == {0}
    result_file(tmp_path).write(PROMPTS, [call(prompt) for prompt in PROMPTS])
    path.write_text(json.dumps([good, bad]))
    assert set(result_file(tmp_path).resume(PROMPTS, [ADD]).records) == {0}


def test_the_schema_vouches_in_the_words_of_its_grammar(tmp_path: Path) -> None:
    """Law: what a grammar of other words lets through (nullable, float) is kept, and nothing else."""
    parameters = {"a": {"type": "integer", "nullable": True}, "b": {"type": "float"}}
    tool = ToolSpec.from_json({"name": "add", "parameters": parameters})
    values = [{"a": None, "b": 1.5}, {"a": 1, "b": None}, {"a": 1, "b": 2.0}]
    records = [
        {"prompt": prompt, "name": "add", "parameters": value}
        for prompt, value in zip(PROMPTS, values, strict=True)
    ]
    (tmp_path / "out.json").write_text(json.dumps(records))
    assert set(result_file(tmp_path, tool).resume(PROMPTS, [tool]).records) == {0, 2}


def test_a_file_that_holds_no_results_is_not_replaced(tmp_path: Path) -> None:
    """Resuming onto something else is refused rather than overwritten."""
    (tmp_path / "out.json").write_text('{"my": "notes"}')
    with pytest.raises(InputError, match="not a result file"):
        result_file(tmp_path).resume(PROMPTS, [ADD])
    (tmp_path / "out.json").unlink()
    assert "nothing to resume" in result_file(tmp_path).resume(PROMPTS, [ADD]).message


def test_a_failed_write_leaves_the_old_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When the disk refuses, the previous content stays and no scrap is left behind."""
    path = tmp_path / "x.json"
    write_atomically(path, "old")

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(WriteError, match=r"x\.json: cannot be written: No space left on device"):
        write_atomically(path, "new")
    assert path.read_text() == "old"
    assert [file.name for file in tmp_path.iterdir()] == ["x.json"]


def test_links_and_permissions_stay(tmp_path: Path) -> None:
    """Replacing a file keeps its mode, and a symbolic link stays a link."""
    target, link = tmp_path / "target", tmp_path / "link"
    target.write_text("old")
    target.chmod(0o640)
    link.symlink_to(target)
    write_atomically(link, "new")
    assert link.is_symlink()
    assert target.read_text() == "new"
    assert target.stat().st_mode & 0o777 == 0o640


def test_a_full_device_is_an_error() -> None:
    """A device is written directly and its refusal is told."""
    with pytest.raises(WriteError, match="No space left"):
        write_atomically(Path("/dev/full"), "x")


def test_what_cannot_be_written_is_known_before(tmp_path: Path) -> None:
    """A folder, a file in the way and an impossible name are refused; a missing folder is made."""
    (tmp_path / "file").touch()
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    for path, message in [
        (tmp_path, "would replace a folder"),
        (tmp_path / "file" / "x", "a file stands where its folder should be"),
        (tmp_path / ("n" * 300), "File name too long"),
        (Path("/proc/x/y"), "cannot be written"),
        (tmp_path / "a\0b", "cannot be written"),
        (tmp_path / "loop", "cannot be written"),
    ]:
        with pytest.raises(InputError, match=message):
            check_writable(path, "it")
    check_writable(tmp_path / "new" / "folder" / "x", "it")
    assert list((tmp_path / "new" / "folder").iterdir()) == []
    # What a killed process of the same number left behind, and a name as long as a name may be.
    (tmp_path / f".x.{os.getpid()}.tmp").touch()
    for name in ("x", "日" * 84):
        check_writable(tmp_path / name, "it")
        write_atomically(tmp_path / name, "new")
        assert (tmp_path / name).read_text() == "new"


def test_what_is_open_already_is_written_on(tmp_path: Path) -> None:
    """A file that a descriptor's name leads to is neither replaced nor cut."""
    path = tmp_path / "x"
    path.write_text("before\n")
    with path.open("a") as file:
        name = Path(f"/dev/fd/{file.fileno()}")
        check_writable(name, "it")
        assert is_stream(name)
        write_atomically(name, "after\n")
    assert path.read_text() == "before\nafter\n"
