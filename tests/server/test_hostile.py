"""Whatever schema comes, the server answers or refuses it in one sentence, soon, and lives on."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

import pytest

pytest.importorskip("starlette", reason="the server's extra is not installed")
sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

from hostile import MOST_MEMORY, STATUSES, Cost, Server, page, resident_memory
from hostile_cases import SCHEMAS, TOOL_LISTS, bodies

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
#: Timings are for the benchmark; here a machine may be many times slower.
PATIENCE = 30.0
#: Those that take a second or more, together half of the time.
LONG = frozenset((
    "a chain of 20,000 references", "one value of 100,000", "one number of 100,000", "one object of 20,000",
    "20,000 properties", "20,000 required properties", "anyOf of 5,000 objects", "500 functions", "oneOf of 300 overlapping",
    "60 functions of 1,000 references", "60 functions, oneOf of 60 overlapping", "9,000 references side by side",
    "hard propertyNames", "30 times if and then", "50 to 60 items that contain",
))  # fmt: skip


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with Server() as running:
        yield running


def _is_fine(server: Server, case: str) -> None:
    for interface, body in bodies(case, "nano"):
        cost = server.cost(case, interface, body)
        assert cost.status in STATUSES, cost
        assert (cost.status == 200) == (not cost.message), cost
        assert "\n" not in cost.message
        assert cost.seconds < PATIENCE, cost
        assert cost.memory < MOST_MEMORY, cost


@pytest.mark.parametrize("case", sorted({*SCHEMAS, *TOOL_LISTS} - LONG))
def test_a_hostile_schema_is_answered_or_refused(server: Server, case: str) -> None:
    """Never an error of the server, never much memory; /healthz answers meanwhile."""
    _is_fine(server, case)


@pytest.mark.slow
@pytest.mark.parametrize("case", sorted(LONG))
def test_a_long_hostile_schema_is_answered_or_refused(server: Server, case: str) -> None:
    """The same for those that take a second."""
    _is_fine(server, case)


def test_what_stays_after_all_of_them_is_as_good_as_new(server: Server) -> None:
    """An ordinary request is answered as before."""
    body = next(text for _, text in bodies("200 items that all differ", "nano"))
    assert server.ask(body).status_code == 200
    assert server.process.poll() is None


def test_the_page_lists_the_costliest_form_of_a_case() -> None:
    """A case that comes in two forms hides neither: the table holds the maximum that the text tells."""
    costs = [
        Cost("one", "/v1/messages", 400, seconds, 0.1, 1.0, 0.0, 0.0, "No.")
        for seconds in (2.75, 0.5)
    ]
    machine = {"cpu": "a", "cores": 1, "commit": "b"}
    written = page(
        {"costs": [asdict(cost) for cost in costs], "first": 1, "last": 2, "machine": machine}
    )
    assert "most 2.75 s" in written
    assert "| 2.75 s |" in written
    assert "| 0.50 s |" in written


def test_what_refused_schemas_leave_is_collected(server: Server) -> None:
    """The same costly schema, refused again and again, takes no more memory each time."""
    body = next(text for _, text in bodies("sixteen patterns at once", "nano"))
    held = []
    for number in range(5):
        assert server.ask(body.replace("do it", f"do it {number}")).status_code == 400
        held.append(resident_memory(server.process.pid))
    assert held[-1] - held[1] < 60
