"""``tune``: what is wrong is said before anything is trained, and a minute of it is worth something."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from callmemaybe.cli.main import _run
from callmemaybe.tuning.tuned_folder import MANIFEST

TOOLS = [
    {
        "name": "book_table", "description": "Book a table in a restaurant",
        "parameters": {
            "type": "object",
            "properties": {"people": {"type": "integer", "minimum": 1}, "place": {"type": "string"}},
            "required": ["place"],
        },
    },
    {"name": "call_taxi", "description": "Call a taxi", "parameters": {"type": "object", "properties": {"to": {"type": "string"}}}},
]  # fmt: skip
SAID = ("grub at {}", "we are {} for {}", "reserve {}", "squeeze {} of us in at {}", "nosh: {}")
PLACES = ("Luigi's", "the Blue Door", "Zum Löwen", "Chez Anne", "Hot Wok", "Pho 24")


def examples() -> list[dict[str, object]]:
    """Requests in words of their own, thirty for each function."""
    found: list[dict[str, object]] = []
    for number in range(30):
        place, people = PLACES[number % 6], 2 + number % 5
        form = SAID[number % 5]
        arguments: dict[str, object] = {"place": place}
        if form.count("{}") == 2:
            arguments = {"people": people, "place": place}
        said = form.format(*([people, place] if len(arguments) == 2 else [place]))
        found.append({"prompt": said, "expected": {"name": "book_table", "arguments": arguments}})
        ride = ("wheels to {}", "I must be off to {}", "beam me to {}")[number % 3].format(place)
        found.append(
            {"prompt": ride, "expected": {"name": "call_taxi", "arguments": {"to": place}}}
        )
    return found


@pytest.fixture
def tools(tmp_path: Path) -> str:
    """A file of two functions."""
    file = tmp_path / "tools.json"
    file.write_text(json.dumps(TOOLS), "utf-8")
    return str(file)


@pytest.mark.parametrize(
    ("lines", "options", "says"),
    [
        ('{"prompt": "x", "expected": {"name": "fly"}}', [], "e.jsonl:1:"),
        ('{"prompt": "x"', [], "e.jsonl:1:"),
        ("", ["--minutes", "0"], "--minutes"),
        ("", ["--steps", "0"], "--steps"),
        ("", ["--model", "nowhere"], "nowhere"),
        ("", ["--prompts", "p.jsonl"], "--prompts"),
        ("", ["--resume"], "no tuning to go on with"),
        ("", [], "--examples: there are no examples"),
    ],
)
def test_bad_input_is_said_in_a_sentence(
    tools: str, tmp_path: Path, lines: str, options: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:  # fmt: skip
    """Exit code 2, one line that names the place, and no folder."""
    (tmp_path / "e.jsonl").write_text(lines, "utf-8")
    given = ["-e", str(tmp_path / "e.jsonl")] if lines else []
    output = tmp_path / "model"
    code = _run(["tune", "--tools", tools, *given, "-o", str(output), *options])
    assert code == 2
    assert says in capsys.readouterr().err.splitlines()[-1]
    assert not output.exists()


def test_a_folder_of_something_else_is_not_replaced(
    tools: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What --output names is refused unless it is a tuned model."""
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "thesis.txt").write_text("mine", "utf-8")
    assert _run(["tune", "--tools", tools, "-o", str(tmp_path / "model")]) == 2
    assert "no model that was tuned" in capsys.readouterr().err
    assert (tmp_path / "model" / "thesis.txt").read_text("utf-8") == "mine"


@pytest.mark.parametrize("manifest", ["{", "[]", '{"files": {}}'])
def test_a_damaged_model_is_refused_before_it_trains(
    tools: str, tmp_path: Path, manifest: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit code 2 and a sentence, not a traceback after ten minutes."""
    (tmp_path / "base").mkdir()
    (tmp_path / "base" / MANIFEST).write_text(manifest, "utf-8")
    assert _run(["tune", "--tools", tools, "-o", str(tmp_path / "m"), "--model", str(tmp_path / "base")]) == 2  # fmt: skip
    assert "no folder of the embedded model" in capsys.readouterr().err


def test_without_its_packages_it_says_what_to_install(
    tools: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit code 3 and the extra's name."""
    for name in [name for name in sys.modules if name.startswith("callmemaybe.tuning.")]:
        if "network" in name or "graph_weights" in name:
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "torch", None)
    monkeypatch.setitem(sys.modules, "onnx", None)
    (tmp_path / "e.jsonl").write_text('{"prompt": "hi", "expected": null}', "utf-8")
    given = ["-e", str(tmp_path / "e.jsonl")]
    assert _run(["tune", "--tools", tools, *given, "-o", str(tmp_path / "model")]) == 3
    assert "callmemaybe[tune]" in capsys.readouterr().err


def test_what_is_said_in_a_review_becomes_examples(
    tools: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Right, no function, an edited call (a wrong one is asked for again) and skipping do what they say, and the file is read again."""
    prompts = tmp_path / "prompts.txt"
    prompts.write_text("\n".join(json.dumps(f"call a taxi to {place}") for place in PLACES[:4]), "utf-8")  # fmt: skip
    replies = iter(
        ["y", "n", "e", "call_taxi {", "e", "fly {}", "e", 'call_taxi {"to": "home"}', "s"]
    )
    monkeypatch.setattr("builtins.input", lambda _: next(replies))
    monkeypatch.setitem(sys.modules, "torch", None)
    monkeypatch.setitem(sys.modules, "onnx", None)
    for name in [
        n
        for n in sys.modules
        if n.startswith("callmemaybe.tuning.") and ("network" in n or "graph" in n)
    ]:
        monkeypatch.delitem(sys.modules, name)
    kept = tmp_path / "kept.jsonl"
    code = _run(["tune", "--tools", tools, "-e", str(kept), "-o", str(tmp_path / "m"), "--review", "4", "--prompts", str(prompts)])  # fmt: skip
    assert code == 3  # it would train now, and has no PyTorch
    shown = capsys.readouterr().out
    assert "4 of 4" in shown
    assert "not valid JSON" in shown
    assert "no function 'fly'" in shown
    expected = [json.loads(line)["expected"] for line in kept.read_text("utf-8").splitlines()]
    assert expected[0]["name"] == "call_taxi"
    assert expected[1:] == [None, {"name": "call_taxi", "arguments": {"to": "home"}}]
    assert _run(["tune", "--tools", tools, "-o", str(tmp_path / "m"), "--review", "4"]) == 2


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_minute_of_tuning_gains_and_can_be_broken_off(
    tools: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Held-out requests are answered better than before, others no worse than by four points; a tuning that was stopped goes on to
    the same weights as one that was not."""
    pytest.importorskip("torch", reason="tuning needs PyTorch (the extra tune)")
    pytest.importorskip("onnx")
    from callmemaybe.tuning.network.fitting import Fitting

    lines = "\n".join(json.dumps(one, ensure_ascii=False) for one in examples())
    (tmp_path / "e.jsonl").write_text(lines, "utf-8")
    command = [
        "tune",
        "--tools",
        tools,
        "-e",
        str(tmp_path / "e.jsonl"),
        "--steps",
        "40",
        "--threads",
        "1",
    ]
    assert _run([*command, "-o", str(tmp_path / "model")]) == 0
    report = json.loads((tmp_path / "model" / "tuning.json").read_text("utf-8"))
    own, general = report["own"], report["general"]
    assert own["after"]["right"]["right"] >= own["before"]["right"]["right"] + 2
    assert general["after"]["right"]["share"] >= general["before"]["right"]["share"] - 0.04
    assert "book_table" in (tmp_path / "model" / "MODEL_CARD.md").read_text("utf-8")
    assert (
        _run(["call", "wheels to Hot Wok", "--tools", tools, "--model", str(tmp_path / "model")])
        == 0
    )
    assert "call_taxi" in capsys.readouterr().out

    advance = Fitting.advance

    def stopping(self: Fitting, *arguments: object) -> float:
        if self.step == 25:
            raise KeyboardInterrupt
        return advance(self, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(Fitting, "advance", stopping)
    assert _run([*command, "-o", str(tmp_path / "again")]) == 130
    assert not (tmp_path / "again").exists()
    monkeypatch.setattr(Fitting, "advance", advance)
    assert _run([*command, "-o", str(tmp_path / "again")]) == 2  # it asks for --resume
    assert _run([*command, "-o", str(tmp_path / "again"), "--resume"]) == 0
    hashes = [json.loads((tmp_path / name / MANIFEST).read_text())["files"]["model.onnx"]["sha256"] for name in ("model", "again")]  # fmt: skip
    assert hashes[0] == hashes[1]
