"""Defaults of options: what is typed goes before a variable, that before the file, that before the program's own."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from callmemaybe.cli import defaults
from callmemaybe.cli.main import main
from callmemaybe.gateway.ledger_key import user_key_path

Cli = Callable[..., tuple[int, str, str]]
ADD = [{"name": "add", "description": "Add numbers.", "parameters": {"a": {"type": "number"}}}]


@pytest.fixture
def cli(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Cli:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "f.json").write_text(json.dumps(ADD))
    monkeypatch.setenv(defaults.CONFIG_VARIABLE, str(tmp_path / "config.toml"))

    def run(*arguments: str, config: str | None = None) -> tuple[int, str, str]:
        if config is not None:
            (tmp_path / "config.toml").write_text(config, encoding="utf-8")
        with pytest.raises(SystemExit) as ended:
            main(list(arguments))
        out, err = capsys.readouterr()
        return int(ended.value.code or 0), out, err

    return run


def test_each_source_goes_before_the_next(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    """The option, the variable, the file's table, the file's key, and then the program's default."""
    ask = ("call", "Add 2", "--tools", "f.json")
    text = 'model = "from-key"\n[call]\nmodel = "from-table"\n'
    assert cli(*ask, config="")[:2] == (0, 'add({"a":2})\n')
    assert "'from-key'" in cli(*ask, config='model = "from-key"')[2]
    assert "'from-table'" in cli(*ask, config=text)[2]
    monkeypatch.setenv("CALLMEMAYBE_MODEL", "from-variable")
    assert "'from-variable'" in cli(*ask, config=text)[2]
    assert cli(*ask, "--model", "nano", config=text)[0] == 0


def test_lists_flags_and_numbers(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    """Several values are a list or one text, in a variable one on each line; numbers and flags are typed."""
    text = 'tools = "f.json"\nmax-tokens = 4\nallow-private = true\n[audit.list]\nlimit = 3\n'
    assert "max_tokens is 4" in cli("call", "Add 2", config=text)[2]
    shown = cli("config", config=text)[1]
    assert "call --allow-private = True" in shown
    assert "audit list --limit = 3" in shown
    assert "check --tools" not in shown
    monkeypatch.setenv("CALLMEMAYBE_TOOLS", "g.json\nf.json")
    assert "g.json" in cli("call", "Add 2", config="")[2]
    monkeypatch.setenv("CALLMEMAYBE_TOOLS", "f.json\nf.json")
    code, _, err = cli("call", "Add 2", config="")
    assert (code, "add" in err) == (2, True)  # two functions of one name


def test_functions_that_are_typed_replace_tools_of_a_default(cli: Cli, tmp_path: Path) -> None:
    """The old name of --tools goes before a default, too."""
    (tmp_path / "p.json").write_text('["Add 2"]')
    words = ("run", "-f", "f.json", "-i", "p.json", "--format", "jsonl", "--quiet", "-o", "o.jsonl")
    assert cli(*words, config='tools = "missing.json"')[0] == 0


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a ==", "this is no TOML"),
        ("a = " + "[" * 5000, "nest too deeply"),
        ("\udc80", "UTF-8"),
        ("max-token = 3", "no command has an option --max-token"),
        ("[cal]\nx = 1", "there is no command 'cal'"),
        ("[call]\nslots = 1", "callmemaybe call has no option --slots"),
        ('max-tokens = "O\'Neil \\"quoted\\" 🎈"', "(set by"),
        ("max-tokens = 0", "(set by"),
    ],
)
def test_a_mistake_names_the_file(cli: Cli, tmp_path: Path, text: str, expected: str) -> None:
    """One line, exit code 2; the help is there all the same."""
    (tmp_path / "config.toml").write_bytes(text.encode("utf-8", "surrogateescape"))
    code, out, err = cli("call", "Add 2", "--tools", "f.json")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert expected in err
    assert "config.toml" in err


def test_a_variable_is_named(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    """A wrong value in the environment is told as such; an empty one counts for nothing."""
    monkeypatch.setenv("CALLMEMAYBE_MAX_TOKENS", "many")
    assert "(set by CALLMEMAYBE_MAX_TOKENS)" in cli("call", "x", "--tools", "f.json", config="")[2]
    monkeypatch.setenv("CALLMEMAYBE_MAX_TOKENS", "")
    assert cli("call", "Add 2", "--tools", "f.json", config="")[0] == 0


def test_the_file_is_the_users_own(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It lies beside the ledger's key; one in the folder of work is not read, and a named one must exist."""
    assert cli("config")[2].count("no such file") == 1
    monkeypatch.delenv(defaults.CONFIG_VARIABLE)
    assert defaults.config_path() == user_key_path().with_name("config.toml")
    for name in ("config.toml", "callmemaybe.toml", ".callmemaybe.toml"):
        (tmp_path / name).write_text('model = "stranger"')
    assert cli("call", "Add 2", "--tools", "f.json")[0] == 0
    monkeypatch.setenv(defaults.CONFIG_VARIABLE, "")
    assert cli("config")[1] == "no file of defaults is read\n"


def test_config_shows_no_secret(cli: Cli) -> None:
    """Keys, and addresses with a password, are told to be set, and by what."""
    text = 'db = "postgresql://ada:geheim@host/x"\n[serve]\napi-key = ["geheim"]\n'
    shown = cli("config", config=text)[1]
    assert "geheim" not in shown
    assert "serve --api-key = (set)" in shown
