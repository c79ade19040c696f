"""Fetch the outside suites from their public sources, at the commits that were measured.

    python ratchets/fetch.py               clone with git into ratchets/data (about 100 MB, a minute or two)
    python ratchets/fetch.py --from DIR    take DIR/JSON-Schema-Test-Suite and DIR/jsonschemabench, your own clones
    python ratchets/fetch.py --peers       peers' own tests, from their packages (130 MB): llama.cpp's of chat formats
                                           with its templates, vLLM's of tool parsers, those of xgrammar, llguidance and
                                           outlines-core of grammars and schemas; and,
                                           where there is npm, MCP's conformance suite with a Node (60 MB)

Afterwards `python ratchets/run.py` and the tests find them. Nothing of it is committed: the suites belong to
their makers.
"""

# ruff: noqa: INP001 - a script, not a package

from __future__ import annotations

import argparse
import gzip
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urljoin
from urllib.request import urlopen

HERE = Path(__file__).parent
DATA = HERE / "data"
#: Repository -> commit.
SOURCES = {
    "json-schema-org/JSON-Schema-Test-Suite": "44401e0c046704b476ec9d2e2fccdaee618f259d",
    "guidance-ai/jsonschemabench": "ba103c73756198dd9b149ddc7db7867da7a077f6",
}


class Peer(NamedTuple):
    """A source distribution with somebody's tests: its name, version and SHA-256, and what is taken out of it."""

    package: str
    version: str
    digest: str
    #: Where the tests begin in the archive, behind the name of its top folder.
    top: str
    files: tuple[str, ...]


#: Peers by the name of their folder.
PEERS = {
    "llama.cpp": Peer(
        "llama-cpp-python", "0.3.36", "832db0699007f1be95a7e41ef12e88926b02ba836461e36a36372db2760c1a2e",
        "vendor/llama.cpp/", ("tests/test-chat.cpp", "models/templates/", "LICENSE"),
    ),
    "xgrammar": Peer(
        "xgrammar", "0.2.9", "87b466bca2475e29bb0323abc62c6c33cbcbcff47e5fb800a3e2099ac9620b90",
        "", ("tests/python/", "LICENSE"),
    ),
    "llguidance": Peer(
        "llguidance", "1.9.1", "3ba1b37585d07f50bb73e06dca6d45c88c9d5801789c071c8ff784c9dbcc5c46",
        "", ("parser/tests/test_", "LICENSE"),
    ),
    "outlines-core": Peer(
        "outlines_core", "0.2.14", "64808deed1591ca3029ff64346ceb974cd5d780c916ea82504951fe83523039e",
        "", ("tests/", "src/json_schema/", "LICENSE"),
    ),
    "vllm": Peer(
        "vllm", "0.33.0", "f4c33c2503d52bb411146afa9618a4f48bed68912f617e6803ac8d76e4c74112",
        "", ("tests/tool_parsers/", "tests/parser/engine/replay_harness.py", "LICENSE"),
    ),
}  # fmt: skip

#: MCP's conformance suite, a package of npm, and the Node that runs it.
CONFORMANCE, NODE = "@modelcontextprotocol/conformance@0.2.0-alpha.12", "node@22.23.3"
CONFORMANCE_DIGEST = "sha512-eXtZFgmtZiU5SsvXty+RGXGnyIqEVm3GLU/HZmg1wMjtKOocPZZgD9HQKd30oJhio5UB0wFJmsc6r8u48Q+EYA=="


def fetch_peer(folder: str, data: Path) -> None:
    """Put a peer's tests, as its package ships them, into ``data``."""
    peer = PEERS[folder]
    print(f"{peer.package} {peer.version} ...", flush=True)
    with tempfile.TemporaryDirectory() as place:
        package = Path(place) / "package.tar.gz"
        try:
            package.write_bytes(_download(peer))
        except OSError as error:
            raise SystemExit(f"could not fetch: {error}; is there a way to the network?") from None
        _unpack_peer(package, peer, data / "peers" / folder)


def _download(peer: Peer) -> bytes:
    """Return a source distribution from the index that pip asks; pip itself would begin to build it."""
    from pip._internal.models.index import (
        PyPI,
    )  # an environment may be without pip until peers are asked for

    asked = [sys.executable, "-m", "pip", "config", "get", "global.index-url"]
    done = subprocess.run(asked, capture_output=True, text=True, check=False)
    index = os.environ.get("PIP_INDEX_URL") or done.stdout.strip() or PyPI.simple_url
    page = f"{index.rstrip('/')}/{peer.package}/"
    with urlopen(page, timeout=60) as answer:  # noqa: S310 - whatever index pip is set to
        text = answer.read().decode()
    name = re.escape(f"{peer.package}-{peer.version}.tar.gz").replace(r"\-", "[-_]")
    found = re.search(rf'href="([^"#]*{name})', text)
    if found is None:
        raise SystemExit(f"could not fetch: {page} has no {peer.package}-{peer.version}.tar.gz")
    with urlopen(urljoin(page, found[1]), timeout=600) as answer:  # noqa: S310
        data: bytes = answer.read()
    if hashlib.sha256(data).hexdigest() != peer.digest:
        raise SystemExit(f"could not fetch: {found[1]} is not the file that was measured")
    return data


def _unpack_peer(package: Path, peer: Peer, target: Path) -> None:
    shutil.rmtree(target, ignore_errors=True)
    with tarfile.open(package) as archive:
        for member in archive:
            path = member.name.partition("/")[2]
            if member.isfile() and path.startswith(tuple(peer.top + one for one in peer.files)):
                file = archive.extractfile(member)
                assert file is not None
                place = target / path.removeprefix(peer.top)
                place.parent.mkdir(parents=True, exist_ok=True)
                place.write_bytes(file.read())


def fetch_conformance(data: Path) -> None:
    """Install MCP's conformance suite and a Node that runs it into ``data``; skipped without npm."""
    npm = shutil.which("npm")
    if npm is None:
        print(f"{CONFORMANCE}: skipped, there is no npm")
        return
    print(f"{CONFORMANCE} ...", flush=True)
    target = data / "peers" / "mcp"
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    (target / "package.json").write_text('{"private": true}', "utf-8")
    command = [npm, "install", "--no-audit", "--no-fund", "--loglevel=error", CONFORMANCE, NODE]
    done = subprocess.run(command, cwd=target, capture_output=True, text=True, check=False)
    if done.returncode:
        reason = done.stderr.strip().splitlines() or ["npm failed"]
        raise SystemExit(f"could not fetch: {reason[-1]}; is there a way to the network?")
    lock = json.loads((target / "node_modules" / ".package-lock.json").read_text("utf-8"))
    name = CONFORMANCE.rpartition("@")[0]
    if lock["packages"][f"node_modules/{name}"]["integrity"] != CONFORMANCE_DIGEST:
        raise SystemExit(f"could not fetch: {CONFORMANCE} is not the package that was measured")


def checkout(repository: str, folder: Path) -> None:
    """Put the files of a repository at its commit into ``folder``, under the repository's name."""
    commit = SOURCES[repository]
    target = folder / repository.split("/")[1]
    print(f"{repository} at {commit[:12]} ...", flush=True)
    _git("init", "-q", str(target))
    source = f"https://github.com/{repository}.git"
    _git("-C", str(target), "fetch", "-q", "--depth", "1", source, commit)
    _git("-C", str(target), "checkout", "-q", "FETCH_HEAD")


def _git(*arguments: str) -> None:
    try:
        command = ["git", *arguments]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        raise SystemExit("git is needed to fetch the suites, and is not installed") from None
    if done.returncode:
        reason = done.stderr.strip().splitlines() or ["git failed"]
        raise SystemExit(f"could not fetch: {reason[-1]}; is there a way to the network?")


def write_suite(files: Path, data: Path) -> None:
    """Lay the drafts and remotes of the official suite as run.py reads them."""
    target = data / "json-schema-test-suite"
    shutil.rmtree(target, ignore_errors=True)
    for draft in ("draft3", "draft4", "draft6", "draft7", "draft2019-09", "draft2020-12"):
        shutil.copytree(files / "tests" / draft, target / draft)
    shutil.copytree(files / "remotes", target / "remotes")
    shutil.copy(files / "LICENSE", target / "LICENSE")


def write_sample(files: Path, data: Path) -> None:
    """Write the sampled schemas of MaskBench with their instances, one a line."""
    lines = (HERE / "maskbench_sample.txt").read_text(encoding="utf-8").splitlines()
    names = [line for line in lines if line and not line.startswith("#")]
    target = data / "maskbench"
    target.mkdir(parents=True, exist_ok=True)
    sources = [files / "maskbench" / "data" / f"{name}.json" for name in names]
    missing = [path.name for path in sources if not path.is_file()]
    if missing:
        raise SystemExit(f"{files} lacks {len(missing)} of the schemas, {missing[0]} for one")
    with gzip.open(target / "sample.jsonl.gz", "wt", encoding="utf-8") as out:
        for name, path in zip(names, sources, strict=True):
            row = json.loads(path.read_text("utf-8"))
            out.write(json.dumps({**row, "id": name}, ensure_ascii=False) + "\n")


def main() -> int:
    """Run from the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--from", dest="clones", type=Path, help="a folder with both clones")
    parser.add_argument("--peers", action="store_true", help="fetch the tests of peers instead")
    parser.add_argument("--data", type=Path, default=DATA, help="where to write")
    options = parser.parse_args()
    if options.peers:
        for folder in PEERS:
            fetch_peer(folder, options.data)
        fetch_conformance(options.data)
        print(f"written to {options.data / 'peers'}; now: python ratchets/run.py")
        return 0
    with tempfile.TemporaryDirectory() as folder:
        clones = options.clones or Path(folder)
        for repository in SOURCES if options.clones is None else ():
            checkout(repository, clones)
        suite, bench = (clones / name for name in ("JSON-Schema-Test-Suite", "jsonschemabench"))
        for place in (suite / "tests", bench / "maskbench" / "data"):
            if not place.is_dir():
                raise SystemExit(f"{place} is not there: is {clones} the folder of both clones?")
        write_suite(suite, options.data)
        write_sample(bench, options.data)
    print(f"written to {options.data}; now: python ratchets/run.py")
    return 0


if __name__ == "__main__":
    sys.exit(main())
