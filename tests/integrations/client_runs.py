"""Run the clients that people use against the server, in their current releases: ``python -m tests.integrations.client_runs``.

A file of ``clients/`` is one client, a program in Python or for Node. Its first lines name what it requires
(``# requires: openai pydantic`` or ``// requires: openai``); that is installed into an environment of its own, which is kept
between runs (``CLIENTS_CACHE``, else ``~/.cache/callmemaybe-clients``; ``--update`` makes it anew). The program is run twice, in
front of the embedded model and of the model of ``player.py``, with ``BASE_URL`` (it ends in ``/v1``), ``MODEL``, ``KIND`` (``nano`` or
``scripted``) and ``API_KEY`` in its environment, and prints one line of JSON for each flow::

    {"flow": "tool loop", "passed": true, "note": ""}

The results are written into ``benchmarks/results/clients.json``; ``docs/generate.py`` makes the page of them.
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
FOLDER = Path(__file__).parent / "clients"
RESULTS = ROOT / "benchmarks" / "results" / "clients.json"
KINDS = ("nano", "scripted")
#: Seconds that a program may take for all its flows.
PATIENCE = 1200


@dataclass(frozen=True)
class ClientProgram:
    """A client: its program and what it requires."""

    path: Path

    @property
    def name(self) -> str:
        """How it is called in results: the name of its file."""
        return self.path.stem

    @property
    def requires(self) -> list[str]:
        """The packages that it needs."""
        head = self.path.read_text(encoding="utf-8").splitlines()[:3]
        found = [re.fullmatch(r"(?:#|//) requires: (.+)", line) for line in head]
        packages = [name for one in found if one for name in one[1].split()]
        if not packages:
            raise SystemExit(f"{self.path}: its first lines do not say what it requires")
        return packages


def programs(names: Sequence[str] = ()) -> list[ClientProgram]:
    """Return the clients with these names (of their files), or all."""
    paths = sorted(one for one in FOLDER.iterdir() if one.suffix in {".py", ".mjs"})
    unknown = {*names} - {one.stem for one in paths}
    if unknown:
        known = ", ".join(one.stem for one in paths)
        raise SystemExit(f"no such client: {', '.join(sorted(unknown))}; there are {known}")
    return [ClientProgram(one) for one in paths if not names or one.stem in names]


def read_flows(output: str) -> list[dict[str, Any]]:
    """Return the flows that a program printed; lines of other things are left out."""
    flows = []
    for line in output.splitlines():
        try:
            one = json.loads(line)
        except ValueError:
            continue
        if isinstance(one, dict) and {"flow", "passed"} <= one.keys():
            flows.append(
                {"flow": one["flow"], "passed": one["passed"] is True, "note": one.get("note", "")}
            )
    return flows


def install(program: ClientProgram, cache: Path, *, update: bool) -> tuple[list[str], Path]:
    """Return the command that runs a program, and the folder of its environment."""
    packages = program.requires
    folder = cache / program.path.name
    done = folder / "requires.txt"
    if update or not done.exists() or done.read_text(encoding="utf-8").split() != packages:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        print(f"{program.name}: installing {' '.join(packages)}", file=sys.stderr)
        if program.path.suffix == ".py":
            subprocess.run([sys.executable, "-m", "venv", folder / "venv"], check=True)
            pip = [
                folder / "venv/bin/python",
                "-m",
                "pip",
                "--quiet",
                "--disable-pip-version-check",
            ]
            subprocess.run([*pip, "install", *packages], check=True)
        else:
            # Without one, npm installs into the next folder above that has one.
            (folder / "package.json").write_text('{"private": true}', encoding="utf-8")
            subprocess.run(
                ["npm", "install", "--silent", "--no-fund", "--no-audit", *packages],
                check=True, cwd=folder,
            )  # fmt: skip
        done.write_text(" ".join(packages), encoding="utf-8")
    if program.path.suffix == ".py":
        # -P: a program named after its package would import itself.
        return [str(folder / "venv/bin/python"), "-P", str(program.path)], folder
    # Node looks for packages beside the program.
    shutil.copytree(FOLDER / "kit", folder / "kit", dirs_exist_ok=True)
    shutil.copy(program.path, folder)
    own = folder / "node_modules/.bin/node"  # a newer Node, from the package "node"
    return [str(own) if own.exists() else "node", str(folder / program.path.name)], folder


def versions(program: ClientProgram, folder: Path) -> dict[str, str]:
    """Return the versions that are installed of what a program requires."""
    if program.path.suffix == ".py":
        command = [folder / "venv/bin/python", "-m", "pip", "list", "--format", "json"]
        listed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        found = {
            one["name"].lower().replace("_", "-"): one["version"] for one in json.loads(listed)
        }
        names = [
            re.split(r"[\[<>=!~]", one)[0].lower().replace("_", "-") for one in program.requires
        ]
        return {name: found[name] for name in names}
    names = [re.sub(r"(?<=.)@.*", "", one) for one in program.requires]
    packages = folder / "node_modules"
    return {
        name: json.loads((packages / name / "package.json").read_text(encoding="utf-8"))["version"]
        for name in names
    }


@contextmanager
def served(kind: str, port: int = 0) -> Iterator[str]:
    """Serve a model while the block runs; yields the base URL."""
    from callmemaybe.models import load
    from callmemaybe.server.config import ServerConfig
    from callmemaybe.server.serving import application, make_server
    from callmemaybe.server.sockets import bind, url_of
    from tests.integrations.player import VOCABULARY, player

    config = ServerConfig(port=port)
    app = (
        application(load("nano"), config)
        if kind == "nano"
        else application(player(), config, format="hermes", vocabulary=VOCABULARY)
    )
    opened = bind(config)
    server = make_server(app.asgi(), config, app.begin_to_stop)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [opened]}, daemon=True)
    thread.start()
    try:
        yield f"{url_of(opened)}/v1"
    finally:
        server.should_exit = True
        thread.join(60)
        opened.close()


def run_program(command: Sequence[str], kind: str, url: str) -> list[dict[str, Any]]:
    """Run a program in front of a server; return its flows. One that breaks off has a flow that failed."""
    kept = {name: value for name, value in os.environ.items() if name in {"PATH", "HOME", "LANG"}}
    surroundings = {"BASE_URL": url, "MODEL": kind, "KIND": kind, "API_KEY": "unused"}
    settings = {"PYTHONPATH": str(FOLDER / "kit"), "NO_PROXY": "127.0.0.1", "DO_NOT_TRACK": "1"}
    try:
        done = subprocess.run(
            command, env=kept | surroundings | settings, capture_output=True, text=True,
            timeout=PATIENCE, check=False,
        )  # fmt: skip
        output, errors, why = done.stdout, done.stderr, f"ended with {done.returncode}"
        is_broken = done.returncode != 0
    except subprocess.TimeoutExpired as error:
        output, errors, why = _text(error.stdout), _text(error.stderr), f"ran for {PATIENCE} s"
        is_broken = True
    flows = read_flows(output)
    if is_broken or not flows:
        print(errors[-3000:], file=sys.stderr)
        last = (errors.strip().splitlines() or ["nothing on standard error"])[-1]
        flows.append({"flow": "(program)", "passed": False, "note": f"{why}: {last[:200]}"})
    return flows


def _text(data: bytes | str | None) -> str:
    return data.decode(errors="replace") if isinstance(data, bytes) else data or ""


def machine() -> str:
    """Say on what this ran."""
    lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    cpu = next((line.split(":")[1].strip() for line in lines if "model name" in line), "")
    cores = len(os.sched_getaffinity(0))
    return f"{cpu or platform.machine()}, {cores} cores, Python {platform.python_version()}, {platform.platform(terse=True)}"


def commit() -> str:
    """Return the commit that is tried."""
    command = ["git", "rev-parse", "--short", "HEAD"]
    return subprocess.run(
        command, capture_output=True, text=True, check=True, cwd=ROOT
    ).stdout.strip()


def client_result(
    program: ClientProgram, urls: dict[str, str], cache: Path, *, update: bool
) -> dict[str, Any]:
    """Return the results of one client: versions, when and of which commit, and its flows by kind."""
    command, folder = install(program, cache, update=update)
    flows: dict[str, dict[str, Any]] = {}
    for kind, url in urls.items():
        for one in run_program(command, kind, url):
            print(f"{program.name} {kind}: {one}", file=sys.stderr)
            flows.setdefault(one["flow"], {})[kind] = {
                "passed": one["passed"], "note": one["note"]
            }  # fmt: skip
    return {
        "versions": versions(program, folder),
        "commit": commit(),
        "date": dt.datetime.now(dt.UTC).date().isoformat(),
        "flows": flows,
    }


def main() -> None:
    """Run clients, and write their results beside those of the others."""
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument(
        "names", nargs="*", help="clients (files without their suffix); default: all"
    )
    parser.add_argument("--kind", choices=KINDS, help="only this model; nothing is written")
    parser.add_argument("--update", action="store_true", help="install the current releases anew")
    parser.add_argument("--dry", action="store_true", help="write no results")
    given = parser.parse_args()
    kinds = [given.kind] if given.kind else KINDS
    cache = Path(os.environ.get("CLIENTS_CACHE") or Path.home() / ".cache/callmemaybe-clients")
    chosen = programs(given.names)
    with served(kinds[0]) as first, served(kinds[-1]) as second:
        urls = dict(zip(kinds, (first, second), strict=False))
        for program in chosen:
            found = client_result(program, urls, cache, update=given.update)
            if not given.dry and not given.kind:
                _write(program.name, found)


def _write(name: str, found: dict[str, Any]) -> None:
    """Put a client's results beside those of the others."""
    results = json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.exists() else {}
    clients = results.get("clients", {}) | {name: found}
    results = {
        "callmemaybe": version("callmemaybe"),
        "machine": machine(),
        "clients": dict(sorted(clients.items())),
    }
    RESULTS.write_text(json.dumps(results, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
