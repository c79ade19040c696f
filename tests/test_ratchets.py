"""Outside suites may only get better (ratchets/run.py measures all of them)."""

from __future__ import annotations

import importlib.util
import json
from itertools import islice
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
#: Every how many schemas of a suite are measured here.
SAMPLED = {"json-schema-test-suite": 1, "maskbench": 8}


def _run() -> ModuleType:
    spec = importlib.util.spec_from_file_location("ratchets_run", ROOT / "ratchets" / "run.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


run = _run()


@pytest.mark.parametrize("name", SAMPLED)
def test_no_case_gets_worse(name: str) -> None:
    """Law: no case of an outside suite has a worse result than the committed one."""
    if not (run.DATA / "maskbench").exists():
        pytest.skip("the suites are not here: python ratchets/fetch.py fetches them")
    known = run.committed(ROOT / "ratchets" / f"{name}.json")
    cases = islice(run.sources(run.DATA)[name], None, None, SAMPLED[name])
    assert run.worse(run.measure(cases), known) == []


@pytest.mark.parametrize("name", SAMPLED)
def test_nothing_wrong_is_accepted(name: str) -> None:
    """Law: in the committed results no instance is wrongly accepted."""
    assert "wrong accept" not in run.committed(ROOT / "ratchets" / f"{name}.json").values()


def test_worse_knows_the_order() -> None:
    """Law: wrong accept is worse than wrong reject, that than refused, that than exact."""
    assert run.worse({"a": "wrong accept"}, {"a": "wrong reject"})
    assert run.worse({"a": "wrong reject"}, {"a": "refused"})
    assert run.worse({"a": "refused"}, {})
    assert not run.worse({"a": "exact", "b": "refused"}, {"a": "refused", "b": "wrong reject"})


#: Peers whose tests take more than a minute.
SLOW = {name: [pytest.mark.slow, pytest.mark.timeout(900)] for name in ("vllm", "xgrammar", "mcp")}


@pytest.mark.parametrize(
    ("name", "module"),
    [pytest.param(*one, marks=SLOW.get(one[0], [])) for one in run.PEERS.items()],
)
def test_tests_of_peers_fare_as_they_did(name: str, module: str) -> None:
    """No case of a peer's tests fares worse than it did, and none that differs lacks a reason."""
    root = run.peer_place(name, run.DATA)
    if root is None:
        pytest.skip(
            f"the tests of {name} are not here: python ratchets/fetch.py --peers fetches them"
        )
    peer = run.peer_module(module)
    file = ROOT / "ratchets" / "peers" / f"{module}.json"
    committed = json.loads(file.read_text("utf-8"))
    known = committed["not passed"]
    found = peer.results(root)
    assert len(found) == sum(committed["counts"].values()) > 150
    assert {name: how for name, how in found.items() if how != "passed"} == known


RUST = """
lazy_static! { static ref LIST: Value = json!({"type": "array", "maxItems": -(-2)}); }
const WORD: &str = r#"a"b"#;

fn helper(text: &str) -> String { format!("<{text}|{{}}|{0}>", WORD) }

#[rstest]
#[case::one(&json!([1, 1.5e3]), true)] // a comment with "quotes"
#[case(&json!([]), false)]
fn cases(#[case] value: &Value, #[case] good: bool) {
    check(&LIST, value, good && WORD.len() == 3);
}

#[rstest]
fn values(#[values("x", "y\\u{e9}\\n")] text: &str, #[values(Kind::A, Kind::B)] kind: Kind) {
    let key = match kind { Kind::A => "min", Kind::B => { "max" } };
    for i in -1..=1 {
        check(&json!({key: i, "s": helper(text)}), &json!(null), i % 2 == 0 || i > 5);
    }
}

#[test]
fn beyond() { let mut n = 0; n += 1; }
"""


def test_tests_in_rust_are_read() -> None:
    """Cases, values, constants, loops, matches and formatted texts are those that Rust has; what is beyond leaves a test out."""
    rust = run.peer_module("rust")
    reader = rust.Reader(RUST)
    found: list[tuple[Any, ...]] = []
    env = reader.environment({"check": lambda _, *given: found.append(given)})
    names = []
    for function in reader.functions.values():
        if function.is_test and function.body is not None:
            for name, arguments in function.calls(env):
                names.append(name)
                function.body(env | arguments)
    assert names[:2] == ["cases[one]", "cases[1]"]
    assert len(names) == 2 + 4
    assert found[:2] == [
        ({"type": "array", "maxItems": 2}, [1, 1500.0], True),
        ({"type": "array", "maxItems": 2}, [], False),
    ]
    assert found[2:5] == [({"min": i, "s": '<x|{}|a"b>'}, None, i == 0) for i in (-1, 0, 1)]
    assert found[-1][0] == {"max": 1, "s": '<y\u00e9\n|{}|a"b>'}
    assert reader.functions["beyond"].body is None


def test_values_are_written_as_serde_writes_them() -> None:
    """Numbers keep their point and their exponent, and nothing stands between tokens."""
    compact = run.peer_module("rust").compact
    assert (
        compact({"a": [1, 1.0, -1.61e28, 8.4e-8, None, True], "é": '"'})
        == '{"a":[1,1.0,-1.61e28,8.4e-8,null,true],"é":"\\""}'
    )


TOOL_PARSER_TESTS = """
import json
from unittest.mock import MagicMock

import pytest

from vllm.entrypoints.openai.chat_completion.protocol import ChatCompletionRequest
from vllm.tokenizers import get_tokenizer
from vllm.tool_parsers import ToolParserManager
from vllm.tool_parsers.hermes_tool_parser import SOME_CONSTANT, Hermes2ProToolParser

TEXT = 'So.<tool_call>\\n{"name": "go", "arguments": {"to": "Rome"}}\\n</tool_call>'
REQUEST = ChatCompletionRequest(model="none", messages=[])


def test_whole():
    found = Hermes2ProToolParser(MagicMock()).extract_tool_calls(TEXT, REQUEST)
    assert found.tools_called and found.content == "So."
    assert json.loads(found.tool_calls[0].function.arguments) == {"to": "Rome"}


@pytest.mark.parametrize("size", [1, 2, 7, 100])
def test_streamed(size):
    parser = ToolParserManager.get_tool_parser("hermes")(get_tokenizer("none"))
    seen, content, arguments, names = "", "", "", []
    for at in range(0, len(TEXT), size):
        chunk = TEXT[at : at + size]
        delta = parser.extract_tool_calls_streaming(seen, seen + chunk, chunk, request=REQUEST)
        seen += chunk
        content += (delta and delta.content) or ""
        for call in delta.tool_calls if delta else ():
            names += [call.function.name] if call.function.name else []
            arguments += call.function.arguments or ""
    assert (content, names, json.loads(arguments)) == ("So.", ["go"], {"to": "Rome"})


def test_tokens():
    tokenizer = get_tokenizer("none")
    assert tokenizer.tokenize("a <tool_call>") == ["a", " ", "<tool_call>"]
    assert tokenizer.decode(tokenizer.encode("a <tool_call>")) == "a <tool_call>"


def test_wrong():
    assert not Hermes2ProToolParser(MagicMock()).extract_tool_calls(TEXT, REQUEST).tools_called


@pytest.mark.xfail(strict=True)
def test_marked():
    assert Hermes2ProToolParser(MagicMock()).extract_tool_calls(TEXT, REQUEST).tools_called


def test_unknown_name():
    assert f"{SOME_CONSTANT}"


def test_unknown_method():
    Hermes2ProToolParser(MagicMock()).some_method()


def test_unknown_family():
    ToolParserManager.get_tool_parser("no such family")
"""


def test_vllms_tests_are_judged_by_what_comes_of_them(tmp_path: Path) -> None:
    """Law: a test passes where our reader does what it asks, fails where not, and is left out for what is not here."""
    folder = tmp_path / "tests" / "tool_parsers"
    folder.mkdir(parents=True)
    (folder / "test_mini.py").write_text(TOOL_PARSER_TESTS, "utf-8")
    (folder / "test_broken.py").write_text("import nothing_by_this_name\n", "utf-8")
    found = run.peer_module("vllm_tool_parsers").results(tmp_path)
    broken = found.pop("test_broken.py")
    assert broken.startswith("fails: ")
    assert "nothing_by_this_name" in broken
    found = {name.removeprefix("test_mini.py::test_"): how for name, how in found.items()}
    assert found.pop("wrong").startswith("fails: ")
    assert found == {
        "whole": "passed",
        **{f"streamed[{size}]": "passed" for size in (1, 2, 7, 100)},
        "tokens": "passed",
        "marked": "passed",
        "unknown_name": "left out: asks for SOME_CONSTANT",
        "unknown_method": "left out: asks for Hermes2ProToolParser.some_method",
        "unknown_family": "fails: no format for no such family",
    }


def test_a_reason_is_the_first_that_fits() -> None:
    """Law: what passed or is left out needs no reason; of the others the first that fits counts, and none is a failure."""
    peer_tests = run.peer_module("peer_tests")
    reasons = [("a", "x", "differs: one"), ("", "x", "differs: two")]
    assert peer_tests.judged("a", "passed", reasons) == "passed"
    assert peer_tests.judged("a", "left out: x", reasons) == "left out: x"
    assert peer_tests.judged("a", "failed: x", reasons) == "differs: one"
    assert peer_tests.judged("b", "failed: x", reasons) == "differs: two"
    assert peer_tests.judged("b", "failed: y", reasons) == "fails: y"
