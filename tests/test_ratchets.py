"""Outside suites may only get better (ratchets/run.py measures all of them)."""

from __future__ import annotations

import importlib.util
import json
from itertools import islice
from pathlib import Path
from types import ModuleType

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
SLOW = {"xgrammar": [pytest.mark.slow, pytest.mark.timeout(900)]}


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
    known = json.loads(file.read_text("utf-8"))["not passed"]
    found = peer.results(root)
    assert len(found) > 400
    assert {name: how for name, how in found.items() if how != "passed"} == known
