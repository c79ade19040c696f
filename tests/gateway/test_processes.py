"""Tools in processes of their own: isolation, limits, and a kill that reaches grandchildren."""

from __future__ import annotations

import asyncio
import functools
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from callmemaybe import load_tools
from callmemaybe.errors import InputError
from callmemaybe.gateway import Gateway, GatewayLimits
from callmemaybe.gateway.lifecycle import CallState
from callmemaybe.tools import ToolCall, make_tool

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="needs process groups")
TOOLS = Path(__file__).with_name("my_tools.py")


def call(name: str, **arguments: Any) -> ToolCall:
    return ToolCall(name, json.dumps(arguments), name)


def test_a_warm_worker_runs_and_is_used_again(tmp_path: Path) -> None:
    """A synchronous write runs in a process with an empty environment, and may print."""

    async def go() -> None:
        async with Gateway(load_tools(TOOLS), secrets={"T": "x"}) as gateway:
            for n in range(3):
                answer = (await gateway.run([call("act", path=str(tmp_path / "f"), text=str(n))]))[
                    0
                ]
                assert answer.ok, answer
                # The interpreter itself may set LC_CTYPE.
                assert answer.value.split()[1:] in (["None", "0"], ["None", "1"])
            assert sum(len(idle) for idle in gateway.executor._idle.values()) == 1

    asyncio.run(go())
    assert (tmp_path / "f").read_text() == "0\n1\n2\n"


def test_a_timeout_kills_the_whole_group(tmp_path: Path) -> None:
    """At the timeout the worker and what it started die; a `once` call is of unknown outcome."""
    left = tmp_path / "left"

    async def go() -> Any:
        async with Gateway(load_tools(TOOLS), secrets={"T": "x"}) as gateway:
            first = (await gateway.run([call("act", path=str(tmp_path / "f"), text="warm")]))[0]
            assert first.ok
            return (await gateway.run([call("hang", path=str(left))]))[0]

    answer = asyncio.run(go())
    assert (answer.state, answer.code) == (CallState.UNKNOWN, "unknown_outcome")
    time.sleep(1.8)  # the grandchild began to sleep for 2 s at least half a second before
    assert not left.exists()


def test_limits_crashes_and_secrets() -> None:
    """A fresh process has its limits; its death is a failure; secrets go in and do not come out."""

    async def go() -> None:
        async with Gateway(
            load_tools(TOOLS), secrets={"T": "canary"}, guard_values=False
        ) as gateway:
            run = gateway.begin()
            greedy = (await gateway.run([call("greedy")], run=run))[0]
            assert (greedy.code, "MemoryError" in greedy.detail) == ("tool_error", True)
            died = (await gateway.run([call("crash")], run=run))[0]
            assert (died.code, died.effect) == ("tool_error", "possible")
            shown = (await gateway.run([call("fresh")], run=run))[0]
            assert shown.value[0] == "CANARY"
            assert set(shown.value[1:]) <= {"LC_CTYPE"}
            assert "canary" not in shown.content

    asyncio.run(go())
    assert "T" not in os.environ or os.environ["T"] != "canary"


def test_decorated_and_positional_functions_run_as_they_are_defined(tmp_path: Path) -> None:
    """A worker finds the decorated function in the user's file, awaits it, and fills its places."""
    (tmp_path / "decorators_of_others.py").write_text(
        "import functools\n"
        "def doubled(function):\n"
        "    @functools.wraps(function)\n"
        "    def inner(*args, **kwargs):\n"
        "        return function(*args, **kwargs)\n"
        "    return inner\n"
    )
    tools = tmp_path / "tools_of_mine.py"
    tools.write_text(
        "from decorators_of_others import doubled\n"
        "from callmemaybe.tools import tool\n"
        "@tool\n@doubled\ndef plain(n: int) -> int:\n    return n\n"
        "@tool\n@doubled\nasync def later(n: int) -> int:\n    return n\n"
        "@tool\ndef placed(a: int = 1, b: int = 2, /) -> list[int]:\n    return [a, b]\n"
        "def rows(n: int):\n    yield n\n    raise ValueError('half of it')\n"
        "broken = tool(doubled(rows))\n"
    )

    async def go() -> list[Any]:
        async with Gateway(load_tools(tools)) as gateway:
            calls = [call("plain", n=1), call("later", n=2), call("placed", b=7), call("rows", n=1)]
            return [(await gateway.run([one]))[0] for one in calls]

    *good, bad = asyncio.run(go())
    assert [(answer.code, answer.value) for answer in good] == [
        ("ok", 1),
        ("ok", 2),
        ("ok", [1, 7]),
    ]
    assert (bad.code, bad.effect, bad.detail) == (
        "tool_error",
        "possible",
        "ValueError: half of it",
    )


def test_a_function_that_is_not_in_its_module_is_refused() -> None:
    """A worker would run the undecorated function of that name; so nothing runs at all."""
    wrapped = functools.wraps(os.path.basename)(lambda p: p)
    wrapped.__annotations__ = {"p": str}
    with pytest.raises(InputError, match="holds this very function under no name"):
        Gateway([make_tool(wrapped)])


NAPS = "import time\nfrom callmemaybe.tools import tool\n"
NAPS += '@tool(effect="once", writes="{n}")\n'
NAPS += "def nap(n: int, path: str) -> int:\n"
NAPS += "    open(path, 'a').write(f'{n}\\n')\n    time.sleep(0.4)\n    return n\n"


def test_who_waits_for_a_process_waits_no_longer_than_the_turn(tmp_path: Path) -> None:
    """Calls that wait for a free process are refused at the turn's deadline without having run."""
    (tmp_path / "naps.py").write_text(NAPS)
    done = tmp_path / "done"
    calls = [ToolCall("nap", json.dumps({"n": n, "path": str(done)}), str(n)) for n in range(20)]

    async def go() -> Any:
        limits = GatewayLimits(turn=3)
        tools = load_tools(tmp_path / "naps.py")
        async with Gateway(tools, processes=1, limits=limits) as gateway:
            began = time.monotonic()
            answers = await gateway.run(calls)
            assert time.monotonic() - began < 9
            return answers

    answers = asyncio.run(go())
    ran = {int(line) for line in done.read_text().split()}
    assert 0 < len(ran) < 20
    for n, answer in enumerate(answers):
        assert (n in ran) == (answer.effect != "none")
        assert answer.code in ({"ok", "unknown_outcome"} if n in ran else {"refused"})


def test_a_process_that_cannot_be_started_has_done_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No more files or processes to be had: a `once` call is refused, and may be made again later."""
    (tmp_path / "naps.py").write_text(NAPS)
    start = asyncio.create_subprocess_exec

    async def full(*_: Any, **__: Any) -> Any:
        raise OSError(24, "Too many open files")

    async def go() -> None:
        async with Gateway(
            load_tools(tmp_path / "naps.py"), limits=GatewayLimits(attempts=1), guard_values=False
        ) as gateway:
            run = gateway.begin()
            monkeypatch.setattr(asyncio, "create_subprocess_exec", full)
            (answer,) = await gateway.run([call("nap", n=1, path=os.devnull)], run=run)
            assert (answer.code, answer.effect) == ("refused", "none")
            assert "Too many open files" in answer.detail
            monkeypatch.setattr(asyncio, "create_subprocess_exec", start)
            (answer,) = await gateway.run([call("nap", n=2, path=os.devnull)], run=run)
            assert answer.ok

    asyncio.run(go())


def test_a_program_does_not_run_again_in_its_workers(tmp_path: Path) -> None:
    """A script that calls as soon as it is imported calls nothing where it is imported for a tool."""
    log = tmp_path / "log"
    script = tmp_path / "script.py"
    script.write_text(
        "import asyncio, os\n"
        "from callmemaybe.tools import ToolCall, tool\n"
        "from callmemaybe.gateway import Gateway\n"
        f"def note(text):\n    print(text, file=open({str(log)!r}, 'a'))\n"
        "@tool\nasync def mail() -> None:\n    note('mail')\n"
        "@tool(attempts=1)\ndef pay() -> None:\n    note('pay')\n"
        "async def main():\n"
        "    async with Gateway([mail, pay]) as gateway:\n"
        "        for name in ('mail', 'pay'):\n"
        "            print((await gateway.run([ToolCall(name, '{}')]))[0].content)\n"
        f"if not os.path.exists({str(log)!r}) or len(open({str(log)!r}).readlines()) < 5:\n"
        "    asyncio.run(main())\n"
    )
    ran = subprocess.run(
        [sys.executable, script], capture_output=True, text=True, timeout=100, check=True
    )
    assert log.read_text() == "mail\n"
    assert '"code": "refused", "effect": "none"' in ran.stdout
    assert "__main__" in ran.stdout


ENVIRONMENT = """
import os
import shutil
from callmemaybe.tools import tool

def helper(name):
    return os.environ[name]

@tool(environment=["CMM_WANTED", "CMM_ABSENT"])
def wanted() -> list[str]:
    return sorted(set(os.environ) - {"LC_CTYPE"}) + [os.environ["CMM_WANTED"]]

@tool(attempts=1)
def hidden() -> str:
    return helper("CMM_WANTED")

@tool(attempts=1)
def other() -> str:
    return {}["CMM_WANTED"]
"""


def test_a_tool_gets_the_variables_that_it_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And no others; a variable that it misses is said to be missing because it was not named."""
    (tmp_path / "needy.py").write_text(ENVIRONMENT)
    monkeypatch.setenv("CMM_WANTED", "first")
    monkeypatch.setenv("CMM_OTHER", "never")
    tools = load_tools(tmp_path / "needy.py")

    async def go() -> None:
        async with Gateway(tools) as gateway:
            for value in ("first", "second"):  # a warm worker with the old value is not used
                monkeypatch.setenv("CMM_WANTED", value)
                (answer,) = await gateway.run([call("wanted")])
                assert answer.value == ["CMM_WANTED", value], answer.content
            (answer,) = await gateway.run([call("hidden")])
            assert "KeyError: 'CMM_WANTED'; the tool runs in a process" in answer.detail
            assert "environment=[...]" in answer.detail
            (answer,) = await gateway.run([call("other")])
            assert answer.detail == "KeyError: 'CMM_WANTED'"

    asyncio.run(go())
