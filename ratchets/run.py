"""Outside suites as ratchets: how each case fares, worst first; results may only improve.

    python ratchets/run.py            measure and compare with the committed results
    python ratchets/run.py --write    measure and write the results
    python ratchets/run.py --peers    the tests of peers alone

The suites are the official JSON Schema test suite, drafts 3 to 2020-12, and a sample of MaskBench. They are
read from --data, from ../shared/data beside the repository, or from ratchets/data, where
`python ratchets/fetch.py` puts them. An instance counts as accepted if its text, written
as json.dumps(ensure_ascii=False) does, is in the grammar's language, as it is or with its keys in
schema order; or with whole numbers as integers (from draft 6 on 1.0 and 1 are one value).

A schema is "checked" if its grammar leaves something to a validator; an instance, if it takes that to
tell: if it is in that grammar, and not in the one that has only what is certainly valid (there may be
none, where what cannot be masked is refused).

Left out of the suite are its coming draft (v1) and two files: format.json asserts that formats are never checked
(here they are; optional/format is measured instead), and draft 7's optional/content that contents are decoded (they
are annotations since 2019-09). Up to draft 3 a keyword has other names (extends, disallow, divisibleBy, a type that is a
schema, a property that is required): such schemas are refused, and told what to write instead.
"""

# ruff: noqa: INP001 - a script, not a package

from __future__ import annotations

import argparse
import gzip
import importlib
import json
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from jsonschema_specifications import REGISTRY

from callmemaybe.errors import UnsupportedSchema
from callmemaybe.grammar import compile as compile_grammar
from callmemaybe.grammar import json_schema
from callmemaybe.grammar.automaton import Automaton
from callmemaybe.grammar.json_schema import DeferredCheck
from callmemaybe.grammar.json_schema.entry import in_schema_order

HERE = Path(__file__).parent
_PLACES = (HERE.parents[1] / "shared" / "data", HERE / "data")
#: Where the suites are; where there are none, the place that fetch.py fills.
DATA = next((place for place in _PLACES if (place / "maskbench").exists()), _PLACES[-1])
#: Results by badness, the worst first. "checked": the grammar is wider than the schema and says so.
RESULTS = ("wrong accept", "wrong reject", "refused", "checked", "exact")
SHOWN = 20
LEFT_OUT = {"format.json", "optional/content.json"}
DRAFTS = {
    "draft3": "http://json-schema.org/draft-03/schema#",
    "draft4": "http://json-schema.org/draft-04/schema#",
    "draft6": "http://json-schema.org/draft-06/schema#",
    "draft7": "http://json-schema.org/draft-07/schema#",
    "draft2019-09": "https://json-schema.org/draft/2019-09/schema",
    "draft2020-12": "https://json-schema.org/draft/2020-12/schema",
}

Case = tuple[str, Any, list[dict[str, Any]], dict[str, Any]]


def suite(folder: Path) -> Iterator[Case]:
    """Yield the cases of the official suite: name, schema, tests, remote schemas."""
    # The metaschemas, which some tests refer to, are handed in like any other remote.
    remotes: dict[str, Any] = {uri: REGISTRY.contents(uri) for uri in REGISTRY}
    for file in sorted(folder.glob("remotes/**/*.json")):
        name = file.relative_to(folder / "remotes").as_posix()
        remotes[f"http://localhost:1234/{name}"] = json.loads(file.read_text("utf-8"))
    for draft, dialect in DRAFTS.items():
        # A copy of the suite may have some drafts only; fetch.py gets all.
        place = next(
            (one for one in (folder, HERE / "data" / folder.name) if (one / draft).exists()), folder
        )
        for file in sorted((place / draft).glob("**/*.json")):
            name = file.relative_to(place / draft).as_posix()
            if name in LEFT_OUT:
                continue
            for group in json.loads(file.read_text("utf-8")):
                schema = group["schema"]
                if isinstance(schema, dict) and name != "optional/no-schema.json":
                    schema = {"$schema": dialect, **schema}
                yield f"{draft}/{name}: {group['description']}", schema, group["tests"], remotes


def maskbench(file: Path) -> Iterator[Case]:
    """Yield the cases of the MaskBench sample."""
    with gzip.open(file, "rt", encoding="utf-8") as lines:
        for line in lines:
            row = json.loads(line)
            yield row["id"], row["schema"], row.get("tests") or [], {}


def judge(case: Case) -> Iterator[tuple[str, str]]:
    """Yield (name, result) for a case and each of its tests."""
    name, schema, tests, remotes = case
    checks: list[DeferredCheck] = []
    try:
        automaton = compile_grammar(json_schema(schema, remotes=remotes, checks=checks))
    except UnsupportedSchema as error:
        # A schema that nothing meets is rightly refused.
        result = "exact" if "no value" in str(error) and not _any_valid(tests) else "refused"
        yield name, result
        for index, test in enumerate(tests):
            yield f"{name} [{index}: {test['description']}]", result
        return
    right = "checked" if checks else "exact"
    yield name, right
    strict = _strict(schema, remotes) if checks else automaton
    for index, test in enumerate(tests):
        data = test["data"]
        texts = [data, in_schema_order(schema, data, remotes=remotes)]
        if not _tells_apart(schema):
            texts.append(_with_integers(data))
        is_possible = any(_accepts(automaton, text) for text in texts)
        is_certain = strict is not None and any(_accepts(strict, text) for text in texts)
        if test["valid"]:
            result = "wrong reject" if not is_possible else "exact" if is_certain else "checked"
        else:
            result = "wrong accept" if is_certain else "checked" if is_possible else "exact"
        yield f"{name} [{index}: {test['description']}]", result


def _strict(schema: Any, remotes: dict[str, Any]) -> Automaton | None:
    """Return the automaton of what is valid without a check; None if that is refused."""
    try:
        return compile_grammar(json_schema(schema, remotes=remotes))
    except UnsupportedSchema:
        return None


def _tells_apart(schema: Any) -> bool:
    """Whether the draft of a schema tells 1.0 from 1, as those up to 4 do."""
    dialect = str(schema.get("$schema")) if isinstance(schema, dict) else ""
    return "draft-03" in dialect or "draft-04" in dialect


def _with_integers(value: Any) -> Any:
    """Return a value with its whole numbers as integers."""
    if isinstance(value, dict):
        return {key: _with_integers(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_with_integers(inner) for inner in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _any_valid(tests: list[dict[str, Any]]) -> bool:
    return not tests or any(test["valid"] for test in tests)


def _accepts(automaton: Automaton, value: Any) -> bool:
    text = json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogatepass")
    state = automaton.walk(automaton.start, text)
    return state >= 0 and automaton.is_accepting(state)


def measure(cases: Iterable[Case]) -> dict[str, str]:
    """Return the result of every case and test, by name."""
    found: dict[str, str] = {}
    for case in cases:
        for name, result in judge(case):
            found[name] = min(found.get(name, "exact"), result, key=RESULTS.index)
    return found


def committed(file: Path) -> dict[str, str]:
    """Return the committed results that are not exact."""
    return dict(json.loads(file.read_text("utf-8"))["not exact"]) if file.exists() else {}


def worse(results: dict[str, str], known: dict[str, str]) -> list[str]:
    """Return what got worse, as lines for people."""
    return [
        f"{name}: {known.get(name, 'exact')} -> {result}"
        for name, result in results.items()
        if RESULTS.index(result) < RESULTS.index(known.get(name, "exact"))
    ]


def summary(results: dict[str, str]) -> dict[str, Any]:
    """Return the counts, and every result that is not exact."""
    counts = Counter(results.values())
    return {
        "counts": {name: counts[name] for name in RESULTS},
        "not exact": {name: result for name, result in results.items() if result != "exact"},
    }


def sources(data: Path) -> dict[str, Iterator[Case]]:
    """Return the suites by the name of their result file."""
    return {
        "json-schema-test-suite": suite(data / "json-schema-test-suite"),
        "maskbench": maskbench(data / "maskbench" / "sample.jsonl.gz"),
    }


def _rank(result: str) -> int:
    """Return how good the result of a peer's case is."""
    return ("fails", "differs", "left out", "passed").index(result.partition(":")[0])


#: The folder of a peer's tests -> the module that runs them, after which the file of results is called.
PEERS = {
    "llama.cpp": "llama_cpp_chat",
    "vllm": "vllm_tool_parsers",
    "xgrammar": "xgrammar_tests",
    "llguidance": "llguidance_tests",
    "outlines-core": "outlines_tests",
    "mcp": "mcp_conformance",
}


def peers(data: Path, *, write: bool) -> bool:
    """Measure the tests of peers that are here, say what got worse; return whether anything did."""
    lost = [_peer(folder, module, data, write=write) for folder, module in PEERS.items()]
    return any(lost)


def peer_module(name: str) -> Any:
    """Return the module that runs a peer's tests."""
    if str(HERE) not in sys.path:
        sys.path.insert(0, str(HERE))
    return importlib.import_module(name)


def peer_place(folder: str, data: Path) -> Path | None:
    """Return where a peer's tests are, or None."""
    places = (data / "peers" / folder, HERE / "data" / "peers" / folder)
    return next((place for place in places if place.exists()), None)


def _peer(folder: str, name: str, data: Path, *, write: bool) -> bool:
    module = peer_module(name)
    file = HERE / "peers" / f"{name}.json"
    root = peer_place(folder, data)
    if root is None:
        print(f"{name}: skipped, python ratchets/fetch.py --peers fetches it")
        return False
    results: dict[str, str] = module.results(root)
    counts = Counter(result.partition(":")[0] for result in results.values())
    known = json.loads(file.read_text("utf-8"))["not passed"] if file.exists() else {}
    lost = [
        f"{case}: {known.get(case, 'passed')} -> {result}"
        for case, result in results.items()
        if _rank(result) < _rank(known.get(case, "passed"))
    ]
    print(f"{name}: {dict(counts)}")
    for line in lost[:SHOWN]:
        print(f"  worse: {line}")
    if write:
        report = {
            "source": module.DESCRIPTION,
            "counts": {kind: counts[kind] for kind in ("passed", "differs", "fails", "left out")},
            "not passed": {case: one for case, one in results.items() if one != "passed"},
        }
        file.write_text(json.dumps(report, indent=1, ensure_ascii=False) + "\n", "utf-8")
    return bool(lost)


def main() -> int:
    """Run from the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--write", action="store_true", help="write the result files")
    parser.add_argument("--peers", action="store_true", help="the tests of peers alone")
    options = parser.parse_args()
    if options.peers:
        return 1 if peers(options.data, write=options.write) and not options.write else 0
    if not (options.data / "maskbench").exists():
        print(
            f"the suites are not at {options.data}: run python ratchets/fetch.py", file=sys.stderr
        )
        return 2
    failed = False
    for name, cases in sources(options.data).items():
        start = time.process_time()
        results = measure(cases)
        file = HERE / f"{name}.json"
        lost = worse(results, committed(file))
        report = summary(results)
        print(f"{name}: {report['counts']} in {time.process_time() - start:.1f} s")
        for line in lost[:SHOWN]:
            print(f"  worse: {line}")
        if len(lost) > SHOWN:
            print(f"  and {len(lost) - SHOWN} more")
        failed = failed or bool(lost)
        if options.write:
            file.write_text(json.dumps(report, indent=1, ensure_ascii=False) + "\n", "utf-8")
    failed = peers(options.data, write=options.write) or failed
    return 1 if failed and not options.write else 0


if __name__ == "__main__":
    sys.exit(main())
