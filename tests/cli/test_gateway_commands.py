"""The gateway's commands, as they are typed."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import pytest

from callmemaybe.cli.main import main
from callmemaybe.errors import InputError
from callmemaybe.tools import ToolCall

TOOLS = Path(__file__).parents[1] / "gateway" / "my_tools.py"
#: Tools that need no secret.
FEW = Path(__file__).parents[2] / "examples" / "gateway_home.py"


@pytest.fixture
def cli(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> Any:
    """Run a command in an empty folder; return (exit code, standard output)."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "secrets.json").write_text('{"T": "canary"}')

    def run(*arguments: str) -> tuple[int, str]:
        with pytest.raises(SystemExit) as stop:
            main(list(arguments))
        captured = capsys.readouterr()
        return int(stop.value.code or 0), captured.out + captured.err

    return run


def exec_(cli: Any, calls: list[Any], *more: str) -> tuple[int, Any]:
    Path("calls.json").write_text(json.dumps(calls))
    arguments = ["exec", "calls.json", "--tools", str(TOOLS), "--secrets", "secrets.json", *more]
    code, out = cli(*arguments)
    # What is said on standard error comes behind the answers.
    return code, json.JSONDecoder().raw_decode(out)[0] if out.startswith("[") else out


def test_exec_approve_and_redeliver(cli: Any) -> None:
    """A call waits for a person, runs once approved, and is replayed after that."""
    call = {"name": "act", "arguments": {"path": "log", "text": "hello"}, "id": "c"}
    look = {"function": {"name": "look", "arguments": '{"place": "home"}'}}
    arguments = ([call, look], "--run", "r", "--yes", "read")
    code, answers = exec_(cli, *arguments)
    assert (code, [one["ok"] for one in answers]) == (1, [False, True])
    code, listed = cli("approvals", "list")
    approval = listed.split()[0]
    assert (code, "act" in listed) == (0, True)
    assert cli("approvals", "approve", approval[:9], "--by", "ada")[0] == 0
    assert cli("approvals", "approve", approval)[0] == 2
    assert cli("approvals", "deny", "nope")[0] == 2
    assert cli("approvals", "deny", "")[0] == 2
    code, first = exec_(cli, *arguments)
    assert code == 0
    code, again = exec_(cli, *arguments)
    assert again == first
    assert Path("log").read_text() == "hello\n"
    code, listed = cli("audit", "list")
    assert (code, "succeeded" in listed) == (0, True)
    code, shown = cli("audit", "show", first[0]["key"][:12])
    events = [json.loads(line).get("event") for line in shown.splitlines()]
    assert events == [None, "ask", "approved", "admit", "succeed"]


def test_an_approval_lets_the_run_go_on(cli: Any) -> None:
    """What `exec` prints for a waiting call runs it, once, and prints the answers of its turn; also without a run's name."""
    call = {"name": "act", "arguments": {"path": "log", "text": "it's $HOME"}, "id": "c"}
    look = {"function": {"name": "look", "arguments": '{"place": "home"}'}}
    Path("calls.json").write_text(json.dumps([call, look]))
    code, out = cli(
        "exec", "calls.json", "--tools", str(TOOLS), "--secrets", "secrets.json", "--yes", "read"
    )
    assert code == 1
    run, line = out.splitlines()[-2:]
    assert run.endswith("1 of 2 calls wait for approval:")
    _, *command = shlex.split(line)
    code, out = cli(*command, "--secrets", "secrets.json", "--by", "ada")
    answers, end = json.JSONDecoder().raw_decode(out)
    assert (code, [one["ok"] for one in answers]) == (0, [True, True])
    assert out[end:].startswith("\napproved: act ")
    assert Path("log").read_text() == "it's $HOME\n"
    code, again = cli(*command, "--secrets", "secrets.json", "--by", "ada")
    assert (code, json.JSONDecoder().raw_decode(again)[0]) == (0, answers)
    assert Path("log").read_text() == "it's $HOME\n"


def test_a_denied_call_is_not_approved_later(cli: Any) -> None:
    """The first decision stands, and nothing runs."""
    call = {"name": "act", "arguments": {"path": "log", "text": "hello"}, "id": "c"}
    exec_(cli, [call], "--run", "r")
    approval = cli("approvals", "list")[1].split()[0]
    assert cli("approvals", "deny", approval, "--by", "ada")[0] == 0
    code, out = cli(
        "approvals", "approve", approval, "--tools", str(TOOLS), "--secrets", "secrets.json"
    )
    assert (code, "it is denied by ada already" in out) == (2, True)
    assert not Path("log").exists()


def test_a_turn_without_its_run_is_refused(cli: Any) -> None:
    """Nothing would say that its calls were delivered before: each time they would run again."""
    call = {"name": "act", "arguments": {"path": "log", "text": "hello"}}
    for _ in range(2):
        code, out = exec_(cli, [call], "--turn", "3", "--yes", "all")
        assert code == 2
        assert out == "callmemaybe: --turn: a turn belongs to a run; name it with --run\n"
    assert not Path("log").exists()
    assert exec_(cli, [call], "--turn", "3", "--run", "r", "--yes", "all")[0] == 0
    assert exec_(cli, [call], "--turn", "3", "--run", "r", "--yes", "all")[0] == 0
    assert Path("log").read_text() == "hello\n"


def test_audit_verify_finds_what_was_changed(cli: Any) -> None:
    """An untouched ledger holds; a changed record, a changed answer and a cut chain are named."""
    import apsw

    call = {"name": "look", "arguments": {"place": "home"}}
    assert exec_(cli, [call], "--yes", "all", "--anchors", "heads.jsonl")[0] == 0
    assert cli("audit", "verify", "--anchors", "heads.jsonl")[0] == 0
    assert len(cli("audit", "export")[1].splitlines()) == 2
    file = apsw.Connection("callmemaybe.db")
    file.execute("update calls set content = replace(content, 'nothing', 'gold')")
    code, out = cli("audit", "verify")
    assert (code, "its answer is not the one in the audit" in out) == (1, True)
    file.execute("update calls set content = replace(content, 'gold', 'nothing')")
    file.execute("update audit set record = replace(record, 'look', 'take') where number = 1")
    assert "record 1: the record was changed" in cli("audit", "verify")[1]
    file.execute("update audit set record = replace(record, 'take', 'look') where number = 1")
    assert cli("audit", "verify")[0] == 0
    file.execute("delete from audit where number = 2")
    code, out = cli("audit", "verify", "--anchors", "heads.jsonl")
    assert (code, "cut off" in out) == (1, True)


def test_reconcile(cli: Any) -> None:
    """A call of unknown outcome is settled by a person, once."""
    code, answers = exec_(cli, [{"name": "hang", "arguments": {"path": "left"}}], "--yes", "all")
    assert (code, answers[0]["code"]) == (1, "unknown_outcome")
    key = answers[0]["key"][:10]
    assert cli("reconcile", key)[0] == 2
    assert cli("reconcile", "ffff", "--outcome", "done")[0] == 2
    code, out = cli("reconcile", key, "--outcome", "not-done", "--by", "ada")
    assert (code, json.loads(out)["code"]) == (0, "refused")
    assert "reconciled" in cli("audit", "list")[1]


@pytest.mark.parametrize(
    ("result", "words"),
    [
        ('{"a": 1, "a": 2}', '--result:1:10 (/a): the key "a" occurs twice'),
        ("[" * 5000 + "]" * 5000, "--result:1:501: nested more than 500 levels deep"),
        ("NaN", "JSON has no NaN"),
        ("{paid", "--result:1:2"),
    ],
)
def test_a_result_that_can_be_read_in_two_ways_is_not_recorded(
    cli: Any, result: str, words: str
) -> None:
    """What a person says a call returned is read as strictly as a call, and before anything is settled."""
    _, answers = exec_(cli, [{"name": "hang", "arguments": {"path": "left"}}], "--yes", "all")
    key = answers[0]["key"][:10]
    code, out = cli("reconcile", key, "--outcome", "done", "--result", result)
    assert (code, len(out.splitlines()), words in out) == (2, 1, True), out
    code, out = cli("reconcile", key, "--outcome", "done", "--result", '{"paid": [1, 0.5]}')
    assert (code, json.loads(out)["result"]) == (0, {"paid": [1, 0.5]})


def test_a_result_is_recorded_as_a_call_would_have_recorded_it(cli: Any) -> None:
    """A number that no float is keeps its digits, as that of a tool does; a result that cannot be is refused."""
    Path("exact.py").write_text(
        "import os\n"
        "from decimal import Decimal\n\n"
        "from callmemaybe.tools import tool\n\n\n"
        "@tool(effect='once', writes='x', timeout=5, mode='fresh')\n"
        "def lose() -> None:\n"
        '    """Die."""\n'
        "    os._exit(1)\n\n\n"
        "@tool(effect='read')\n"
        "def look() -> list:\n"
        '    """Look."""\n'
        "    return [Decimal('0.1000000000000000000001'), Decimal('1E+400'), 2.5, 12345678901234567890]\n"
    )
    Path("calls.json").write_text('[{"name": "look"}, {"name": "lose"}]')
    _, out = cli("exec", "calls.json", "--tools", "exact.py", "--yes", "all")
    looked, lost = json.loads(out)
    assert lost["code"] == "unknown_outcome", lost
    for outcome, result, words in (
        ("done", "", "--result:1:1"),
        ("not-done", "1", "--result: a call that was not done has returned nothing"),
        ("not_done", "1", "--result: a call that was not done has returned nothing"),
    ):
        code, out = cli("reconcile", lost["key"], "--outcome", outcome, "--result", result)
        assert (code, words in out) == (2, True), out
    said = "[0.1000000000000000000001, 1E400, 2.50, 12345678901234567890]"
    code, out = cli("reconcile", lost["key"], "--outcome", "done", "--result", said)
    assert (code, json.loads(out)["result"]) == (0, looked["result"])
    assert looked["result"][0] == "0.1000000000000000000001"


def test_a_tool_that_fails_to_tell_is_named(cli: Any) -> None:
    """Its error is not ours, nor one of a --result that nobody gave."""
    Path("lost.py").write_text(
        "import os\n\n"
        "from callmemaybe.tools import tool\n\n\n"
        "def find(key):\n"
        "    raise ValueError('the service is away')\n\n\n"
        "@tool(effect='once', writes='x', timeout=0.05, mode='fresh', reconcile=find)\n"
        "def lose() -> None:\n"
        '    """Die."""\n'
        "    os._exit(1)\n"
    )
    Path("calls.json").write_text('[{"name": "lose", "arguments": {}}]')
    _, out = cli("exec", "calls.json", "--tools", "lost.py", "--yes", "all")
    (answer,) = json.loads(out)
    assert answer["code"] == "unknown_outcome", answer
    code, out = cli("reconcile", answer["key"], "--tools", "lost.py")
    told = "lost.py: the tool cannot determine the outcome (ValueError: the service is away); "
    assert (code, out) == (2, f"callmemaybe: {told}give --outcome done or not-done\n")


def test_a_key_that_nobody_has_is_told(cli: Any) -> None:
    """As the start of a key is; nothing on standard output would say that nothing was recorded."""
    exec_(cli, [{"name": "look", "arguments": {"place": "home"}}], "--yes", "all")
    for key in ("f" * 64, "f" * 12):
        assert cli("audit", "show", key) == (
            2, f"callmemaybe: {key}: no call with a key that starts so\n"
        )  # fmt: skip


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["audit", "list"], "there is no ledger"),
        (["exec", "nope.json", "--tools", str(TOOLS)], "nope.json: no such file"),
        (["exec", "secrets.json", "--tools", "nope.py"], "nope.py: no such file"),
        (["exec", "secrets.json", "--tools", str(TOOLS)], "expected a list of calls"),
        (["exec", "x.json", "--tools", str(TOOLS), "--yes", "maybe"], "no effect class 'maybe'"),
        (["chat", "--tools", "broken.py"], "broken.py: cannot be imported"),
        (["exec", "x.json", "--tools", f"{'n' * 300}.py"], "cannot be read: File name too long"),
        (
            ["exec", "x.json", "--tools", str(FEW), "--db", "none/x"],
            "--db: none/x: the ledger cannot",
        ),
        (
            ["audit", "list", "--db", "broken.py"],
            "--db: broken.py: no ledger, and no SQLite database",
        ),
        (["audit", "list", "--limit", "9" * 20], "--limit"),
        (["exec", "x.json", "--tools", str(FEW), "--turn", "9" * 20], "--turn"),
    ],
)
def test_wrong_input_is_one_line(cli: Any, arguments: list[str], words: str) -> None:
    """What cannot work ends with exit code 2 and one line that says where."""
    Path("broken.py").write_text("1 / 0")
    Path("x.json").write_text("[]")
    code, out = cli(*arguments)
    assert (code, len(out.splitlines()), words in out) == (2, 1, True), out


@pytest.mark.parametrize(
    ("calls", "words"),
    [
        (
            '[{"name": "look", "arguments": {"place": "a", "place": "b"}}]',
            'calls.json:1:47 (/0/arguments/place): the key "place" occurs twice',
        ),
        ("[" * 100_000, "calls.json:1:501: nested more than 500 levels deep"),
        ('[{"name": 5}]', "calls.json:1:2 (/0): the call has no name"),
        ('[{"name": "look", "arguments": NaN}]', "JSON has no NaN"),
    ],
)
def test_calls_that_can_be_read_in_two_ways_do_not_run(cli: Any, calls: str, words: str) -> None:
    """A file of calls is as strict as a call itself: nothing runs, and one line says where."""
    Path("calls.json").write_text(calls)
    code, out = cli(
        "exec", "calls.json", "--tools", str(TOOLS), "--secrets", "secrets.json", "--yes", "all"
    )
    assert (code, len(out.splitlines()), words in out) == (2, 1, True), out
    assert not Path("callmemaybe.db").exists()


def test_the_digits_of_a_file_of_calls_stay(tmp_path: Path) -> None:
    """Arguments are told as they were written, of any size; no id and an id of null are the place."""
    from callmemaybe.cli.inputs import read_calls, read_secrets

    path = tmp_path / "calls.json"
    arguments = (
        f'{{"a": 0.12345678901234567890123, "b": 1e400, "c": {"1" * 5000}, "d": [1.50, null]}}'
    )
    path.write_text(
        f'\ufeff[{{"name": "f", "arguments": {arguments}}}, {{"id": null, "name": "g"}},'
        '{"id": 7, "function": {"name": "h", "arguments": "{\\"a\\": 1.50}"}}]',
        encoding="utf-8",
    )
    assert read_calls(path) == [
        ToolCall("f", arguments, "0"), ToolCall("g", "{}", "1"), ToolCall("h", '{"a": 1.50}', "7"),
    ]  # fmt: skip
    path.write_text('{"T": "a", "T": "b"}', encoding="utf-8")
    with pytest.raises(InputError, match=r'calls\.json:1:12 \(/T\): the key "T" occurs twice'):
        read_secrets(path)


def test_an_anchor_that_cannot_be_noted_loses_no_answer(cli: Any) -> None:
    """A wrong path is known before anything runs; a full disk is told beside the answers."""
    act = [{"name": "act", "arguments": {"path": "log", "text": "hello"}}]
    code, out = exec_(cli, act, "--yes", "all", "--anchors", "none/heads.jsonl")
    assert (code, len(out.splitlines())) == (2, 1), out
    assert "--anchors: none/heads.jsonl cannot be written: No such file or directory" in out
    assert not Path("log").exists()
    Path("calls.json").write_text(json.dumps(act))
    code, out = cli(
        "exec", "calls.json", "--tools", str(TOOLS), "--secrets", "secrets.json", "--yes", "all",
        "--anchors", "/dev/full",
    )  # fmt: skip
    assert (code, Path("log").read_text()) == (4, "hello\n")
    answers, _, told = out.partition("\ncallmemaybe: ")
    assert json.loads(answers)[0]["ok"]
    assert told == "/dev/full: the anchor cannot be written: No space left on device\n"


def test_a_decision_needs_a_name(cli: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the system knows no name of the user, --by has to say who decides."""
    call = {"name": "act", "arguments": {"path": "log", "text": "hello"}}
    exec_(cli, [call], "--run", "r")
    approval = cli("approvals", "list")[1].split()[0]

    def unknown() -> str:
        raise KeyError("getpwuid(): uid not found: 54321")

    monkeypatch.setattr("getpass.getuser", unknown)
    code, out = cli("approvals", "approve", approval)
    assert (code, out) == (
        2, "callmemaybe: --by: this user id has no name; give the name of who decides\n"
    )  # fmt: skip
    assert cli("approvals", "approve", approval, "--by", "ada")[0] == 0


def test_a_ledger_that_fails_later_has_a_code_of_its_own(
    cli: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What cannot be read any more is no bug of ours."""
    import apsw

    monkeypatch.setattr("callmemaybe.gateway.store.sqlite.check_tables", lambda *_: None)

    exec_(cli, [{"name": "look", "arguments": {"place": "home"}}], "--yes", "all")
    apsw.Connection("callmemaybe.db").execute("alter table calls rename column tool to t")
    code, out = cli("audit", "list")
    assert (code, len(out.splitlines())) == (5, 1), out
    assert out.startswith("callmemaybe: --db: callmemaybe.db: SQLite: ")


class Fake:
    """A caller that says what the test wrote."""

    def __init__(self, _: Any, tools: Any, **__: Any) -> None:
        self.tools = tools

    def call(self, prompt: str) -> Any:
        from callmemaybe.caller import CallResult

        name, _, arguments = prompt.partition(" ")
        return CallResult(ToolCall(name, arguments, "c") if arguments else None, 0.9)


@pytest.mark.parametrize(("group", "command"), [("audit", "verify"), ("approvals", "approve")])
def test_a_group_without_a_command_shows_its_help(cli: Any, group: str, command: str) -> None:
    """As the program itself does; a command that is not there is one line."""
    code, shown = cli(group)
    assert code == 0
    assert f"\n  {command} " in shown
    code, told = cli(group, "nope")
    assert (code, told) == (
        2,
        f"callmemaybe: No such command 'nope'; see callmemaybe {group} --help\n",
    )


def test_chat(cli: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each call is shown and asked for; deny, edit, always and Ctrl-C do what they say."""
    import callmemaybe.caller

    monkeypatch.setattr(callmemaybe.caller, "Caller", Fake)
    monkeypatch.setattr(callmemaybe.caller, "load_model", lambda name, **_: name)
    act = 'act {"path": "log", "text": "%s"}'
    script = iter(
        [
            "/tools",
            'look {"place": "home"}',
            "gibberish",
            "x" * 1_000_001,
            act % "one",
            "n",
            act % "two",
            "e",
            "not json",
            '{"path": "log", "text": "three"}',
            "y",
            act % "four",
            KeyboardInterrupt,
            act % "five",
            "a",
            act % "six",
            KeyboardInterrupt,
            "/history",
            EOFError,
        ]
    )

    def answer(_: str = "") -> str:
        line = next(script)
        if isinstance(line, type):
            raise line
        return line

    monkeypatch.setattr("builtins.input", answer)
    code, out = cli("chat", "--tools", str(TOOLS), "--secrets", "secrets.json", "--yes", "read")
    assert code == 0, out
    assert Path("log").read_text().split() == ["three", "five", "six"]
    for words in ("look (read): Look somewhere.", '"nothing at home"', "no function fits",
                  "denied: denied by approver (nothing happened)", "cancelled", "90% sure", "the prompt has 1,000,001 characters"):  # fmt: skip
        assert words in out, (words, out)


def test_archives_are_made_and_verified(cli: Any) -> None:
    """`audit archive` says what went where, and `audit verify` holds with the file and without."""
    exec_(cli, [{"name": "look", "arguments": {"place": "home"}}], "--yes", "all", "--run", "r")
    assert cli("audit", "archive", "old") == (0, "nothing to archive\n")
    code, out = cli("audit", "archive", "old", "--older-than", "0", "--gzip")
    (file,) = Path("old").iterdir()
    assert (code, out) == (0, f"{file}: 1 runs, 1 calls, 2 audit records\n")
    code, out = cli("audit", "verify")
    assert (code, "2 records are in archives that were not given" in out) == (0, True), out
    code, out = cli("audit", "verify", "--archive", str(file))
    assert (code, "3 records in 2 chains, 1 calls: they hold" in out) == (0, True), out
    code, out = exec_(cli, [{"name": "look", "arguments": {"place": "home"}}], "--run", "r")
    assert (code, "this run was archived" in out) == (2, True), out
    Path("other").write_text("{}")
    assert cli("audit", "verify", "--archive", "other")[0] == 2
