"""The conformance suite of MCP as a ratchet: its scenarios on this package's client and server of MCP.

``python ratchets/fetch.py --peers`` installs the suite (a package of npm) with a Node that runs it; nothing of it is
committed. Each check of each scenario, under each version of the protocol that has it, is a case. The client is
``mcp_client.py``, which loads a server's tools and calls them through a gateway; the server is ``mcp_server.py``, a
gateway with a few tools. Scenarios that ask for what neither offers are left out, with the reason.
"""

# ruff: noqa: INP001 - a script, not a package

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from peer_tests import judged

HERE = Path(__file__).parent
PACKAGE = "@modelcontextprotocol/conformance"
VERSION = "0.2.0-alpha.12"
DESCRIPTION = (
    f"MCP's conformance suite {VERSION}, on client and server, for 2025-11-25 and 2026-07-28"
)
#: Versions of the protocol.
VERSIONS = ("2025-11-25", "2026-07-28")
#: Words of a scenario's name, and why it is left out; the first that fits.
LEFT_OUT = (
    (r"^client auth/", "OAuth: headers of a source are given, or come with its address"),
    (r"resource|prompts-|completion|skills|sep-2640", "resources, prompts, completions and skills: tools alone are taken and offered"),
    (r"logging|progress|sampling|elicitation|input-required|mrtr|sep-2322|list-roots", "questions and messages of a server during a call: calls run unattended"),
    (r"tasks-", "tasks, an extension: an answer that takes long is waited for, or waits as a run of the gateway's"),
    (r"tools-call-(image|audio|mixed)", "pictures and sounds as results: a tool of the gateway's returns JSON"),
    (r"server-sse-polling", "streams that a server closes and takes up again: a redelivery is answered from the ledger instead"),
)  # fmt: skip
#: Words of a case's name, words of what the suite says, and what is made of it.
REASONS = (
    (r"omit-null", r"did not send a tools.call", "differs: a call whose arguments do not fit the tool's schema is not sent"),
    (r"caching sep-2549-(prompts|resources)", r"", "left out: resources, prompts, completions and skills: tools alone are taken and offered"),
    (r"server-stateless .*capability", r"test_missing_capability", "left out: questions and messages of a server during a call: calls run unattended"),
)  # fmt: skip


class Suite:
    """The installed suite."""

    def __init__(self, root: Path) -> None:
        modules = root / "node_modules"
        node = modules / ".bin" / "node"
        self._command = [str(node if node.exists() else shutil.which("node") or "node")]
        self._command.append(str(modules / PACKAGE / "dist" / "index.js"))

    def scenarios(self) -> Iterator[tuple[str, str, tuple[str, ...]]]:
        """Yield side ("server" or "client"), name and versions of every scenario."""
        done = subprocess.run([*self._command, "list"], capture_output=True, text=True, check=True)
        side = ""
        for line in done.stdout.splitlines():
            if heading := re.match(r"(Server|Client|Auth\w+).* scenarios", line):
                side = heading[1].lower()
            elif (found := re.match(r"\s+- (\S+) \[(.*)\]", line)) and side in ("server", "client"):
                yield side, found[1], tuple(found[2].split(","))

    def checks(
        self, side: str, scenario: str, version: str, target: list[str]
    ) -> list[tuple[str, str]]:
        """Run a scenario; return each check by its id, "" if it was met and else what the suite says."""
        with tempfile.TemporaryDirectory() as place:
            given = ["--scenario", scenario, "--spec-version", version, "-o", place]
            command = [*self._command, side, *target, *given]
            try:
                subprocess.run(command, capture_output=True, check=False, timeout=90)
            except subprocess.TimeoutExpired:
                return [("", "takes more than 90 s")]
            files = list(Path(place).glob("**/checks.json"))
            if not files:
                return [("", "it did not run")]
            said = json.loads(files[0].read_text("utf-8"))
        return [
            (
                one["id"],
                "" if one["status"] == "SUCCESS" else one.get("errorMessage") or one["status"],
            )
            for one in said
            if one["status"] in ("SUCCESS", "FAILURE", "WARNING")
        ]


@contextmanager
def server() -> Iterator[str]:
    """Run our server in a process of its own; yield its address."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    environment = {**os.environ, "PYTHONPATH": str(HERE.parent / "src")}
    command = [sys.executable, str(HERE / "mcp_server.py"), str(port)]
    process = subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL)
    try:
        for _ in range(600):
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.1)
        yield f"http://127.0.0.1:{port}/mcp"
    finally:
        process.terminate()
        process.wait()


def results(root: Path) -> dict[str, str]:
    """Return "passed", "differs: why", "left out: why" or "fails: how" for each check."""
    suite = Suite(root)
    client = ["--command", f"{sys.executable} {HERE / 'mcp_client.py'}"]
    found: dict[str, str] = {}
    with server() as address:
        targets = {"client": client, "server": ["--url", address]}
        for side, scenario, versions in suite.scenarios():
            name = f"{side} {scenario}"
            reason = next((why for words, why in LEFT_OUT if re.search(words, name)), None)
            if reason is not None:
                found[name] = f"left out: {reason}"
                continue
            for version in (one for one in VERSIONS if one in versions):
                checks = suite.checks(side, scenario, version, targets[side])
                if scenario == "sse-retry" and any(said for _, said in checks):
                    # It asks for a pause of half a second, which a busy machine may miss once.
                    checks = suite.checks(side, scenario, version, targets[side])
                for check, said in checks:
                    case = f"{version} {name} {check}"
                    case += (
                        f" {sum(known.startswith(case) for known in found) + 1}"
                        if case in found
                        else ""
                    )
                    found[case] = judged(case, said or "passed", REASONS)
    return found


if __name__ == "__main__":
    for name, result in results(Path(sys.argv[1])).items():
        if not result.startswith("left out"):
            print(name, "|", result)
