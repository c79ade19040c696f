"""The home agent beside Home Assistant's own matchers: ``python -m benchmarks.home [--data FOLDER] [--output benchmarks/results/home.json]``.

It needs what Home Assistant uses: ``pip install hassil home-assistant-intents gazetteer-matcher pyyaml``. Two sets:

- *Other wordings*: the requests of ``home_requests.py`` for its home, in English, German and French, with requests that the home cannot
  do. A request that Home Assistant's sentences recognise after all is told apart.
- *Open sentences* (``--data``: a folder with ``test_open.jsonl.gz`` and ``intents.tar.gz``, made from OHF-Voice/intents): English sentences that the
  templates generate, for the home of that repository's tests, so that Home Assistant's sentences know nearly all of them.

A request is right if the intent and all slots are (the domain counts where nothing else says it), or if none is made of one that has none.
"""

from __future__ import annotations

import argparse
import gzip
import importlib
import importlib.util
import json
import platform
import statistics
import subprocess
import sys
import tarfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import home_assistant_intents
import yaml
from gazetteer_matcher import GazetteerMatcher
from hassil.intents import Intents, TextSlotList
from hassil.recognize import recognize_best

from benchmarks.home_requests import DEVICES, LANGUAGES, REQUESTS, ROOMS

ROOT = Path(__file__).parents[1]
#: Intents that the agent has functions for.
_SHOPPING = "HassShoppingListAddItem"
#: The room of whoever speaks: Home Assistant knows it of its satellites.
_HERE = "Living Room"
Reader = Callable[[str], tuple[str, Mapping[str, Any]] | None]


def component() -> Any:
    """Import the pure parts of the component, which is no package of this project's."""
    folder = ROOT / "home_assistant/custom_components/callmemaybe"
    found = importlib.util.spec_from_file_location(
        "home_agent", folder / "__init__.py", submodule_search_locations=[str(folder)]
    )
    assert found is not None
    sys.modules["home_agent"] = importlib.util.module_from_spec(found)
    return importlib.import_module("home_agent.home")


def own_home(language: str) -> Any:
    """Return the home of ``home_requests.py`` in a language."""
    home = component()
    at = LANGUAGES.index(language)
    return home.Home(
        tuple(
            home.Device(names[at], domain, (), ROOMS[room][at] if room else None, device_class)
            for domain, device_class, names, room in DEVICES
        ),
        tuple(home.Place(names[at]) for names in ROOMS.values()),
    )


def fixture_home(data: Path) -> Any:
    """Return the home of the tests of OHF-Voice/intents, in English."""
    home = component()
    with tarfile.open(data / "intents.tar.gz") as archive:
        member = next(
            one for one in archive.getmembers() if one.name.endswith("tests/en/_fixtures.yaml")
        )
        read = archive.extractfile(member)
        assert read is not None
        found = yaml.safe_load(read)
    areas = {one["id"]: one["name"] for one in found["areas"]}
    return home.Home(
        tuple(
            home.Device(
                one["name"],
                one["id"].split(".")[0],
                (),
                areas.get(one.get("area")),
                (one.get("attributes") or {}).get("device_class"),
            )
            for one in found["entities"]
        ),
        tuple(home.Place(one["name"]) for one in found["areas"]),
        tuple(home.Place(one["name"]) for one in found["floors"]),
    )


# -- three readers -----------------------------------------------------------------------------------


def agent(home: Any, language: str) -> Reader:
    """Read with the component and nano: one call, likely right."""
    from callmemaybe import load_model

    intents = importlib.import_module("home_agent.intents")
    reader = importlib.import_module("home_agent.reading").HomeReader(
        load_model("nano"), home, language
    )

    def read(text: str) -> tuple[str, Mapping[str, Any]] | None:
        calls = [one for one in reader.read(text) if (one.confidence or 0) >= 0.5]
        if len(calls) != 1:
            return None
        if calls[0].name in ("make_brighter", "dim_light"):
            return calls[0].name, {}
        found = intents.to_intent(calls[0].name, calls[0].arguments)
        return None if intents.needs_target(found) else (found.type, found.slots)

    return read


def templates(home: Any, language: str) -> Reader:
    """Read with Home Assistant's sentence templates, by hassil."""
    file = Path(home_assistant_intents.__file__).parent / "data" / f"{language}.json"
    intents = Intents.from_dict(json.loads(file.read_text(encoding="utf-8")))
    names = [
        (
            one.name,
            one.name,
            {"domain": one.domain}
            | ({"device_class": one.device_class} if one.device_class else {}),
        )
        for one in home.devices
    ]
    lists = {
        "name": TextSlotList.from_tuples(names, allow_template=False),
        "area": TextSlotList.from_tuples(
            [(one.name, one.name) for one in home.areas], allow_template=False
        ),
        "floor": TextSlotList.from_tuples(
            [(one.name, one.name) for one in home.floors], allow_template=False
        ),
    }

    def read(text: str) -> tuple[str, Mapping[str, Any]] | None:
        found = recognize_best(
            text,
            intents,
            slot_lists=lists,
            language=language,
            best_slot_name="name",
            intent_context={"area": _HERE},
        )
        if found is None:
            return None
        return _without_here(
            text, (found.intent.name, {one.name: one.value for one in found.entities_list})
        )

    return read


def gazetteer(home: Any, language: str) -> Reader | None:
    """Read with Home Assistant's fallback, which reads English."""
    if language != "en":
        return None
    areas = {one.name: {"name": one.name, "aliases": [], "floor": None} for one in home.areas}
    entities = {}
    for number, one in enumerate(home.devices):
        spec = {"name": one.name, "aliases": [], "domain": one.domain, "area": one.area}
        entities[f"{one.domain}.e{number}"] = spec | (
            {"device_class": one.device_class} if one.device_class else {}
        )
    floors = {one.name: {"name": one.name, "aliases": []} for one in home.floors}
    matcher = GazetteerMatcher(home={"areas": areas, "floors": floors, "entities": entities})

    def read(text: str) -> tuple[str, Mapping[str, Any]] | None:
        found = matcher.interpret(text, context_area=_HERE if _HERE in areas else None)
        if not found.accepted or len(found.frames) != 1:
            return None
        frame = found.frames[0]
        slots = {key: matcher.display_name(key, value) for key, value in frame.slots.items()}
        return _without_here(text, (frame.intent, slots))

    return read


# -- right or wrong ----------------------------------------------------------------------------------


def same(
    found: tuple[str, Mapping[str, Any]] | None, intent: str | None, slots: Mapping[str, Any]
) -> bool:
    """Whether what was read is what was meant."""
    if found is None or intent is None:
        return found is None and intent is None
    return found[0] == intent and _plain(*found) == _plain(intent, slots)


def _plain(intent: str, slots: Mapping[str, Any]) -> dict[str, Any]:
    """Return slots as they are compared: without case, and without what another slot says."""
    is_told = intent in ("HassTurnOn", "HassTurnOff") and not slots.keys() & {
        "name",
        "device_class",
    }
    return {
        key: _value(value)
        for key, value in slots.items()
        if (key != "domain" or is_told) and not (key == "name" and intent == "HassListAddItem")
    }


def _value(value: Any) -> str | float:
    """Return a value as it is compared: a number is one in whatever type."""
    try:
        return float(value)
    except (TypeError, ValueError):
        return str(value).casefold()


def _without_here(
    text: str, found: tuple[str, Mapping[str, Any]] | None
) -> tuple[str, Mapping[str, Any]] | None:
    """Leave out the room of whoever speaks, which the sets do not write down."""
    if found is None or _HERE.casefold() in text.casefold():
        return found
    return found[0], {
        key: value for key, value in found[1].items() if (key, value) != ("area", _HERE)
    }


def measure(
    readers: Mapping[str, Reader], requests: Sequence[tuple[str, str | None, Mapping[str, Any]]]
) -> dict[str, Any]:
    """Return how many requests each reader reads right, refusals apart, with milliseconds of CPU."""
    result: dict[str, Any] = {}
    for name, read in readers.items():
        took, right, refused, by_intent = [], 0, 0, {}
        made = [0, 0]
        for text, intent, slots in requests:
            begun = time.process_time()
            found = read(text)
            took.append(1000 * (time.process_time() - begun))
            is_right = same(found, intent, slots)
            if intent is None:
                refused += is_right
                continue
            right += is_right
            if found is not None:
                made = [made[0] + 1, made[1] + is_right]
            of = by_intent.setdefault(intent, [0, 0])
            of[0] += is_right
            of[1] += 1
        result[name] = {
            "right": right, "requests": sum(intent is not None for _, intent, _ in requests),
            "refused": refused, "foreign": sum(intent is None for _, intent, _ in requests),
            "acted": made[0], "acted_rightly": made[1],
            "ms_median": round(statistics.median(took), 1), "ms_99": round(sorted(took)[int(0.99 * (len(took) - 1))], 1),
            "by_intent": dict(sorted(by_intent.items())),
        }  # fmt: skip
        print(
            name,
            {key: value for key, value in result[name].items() if key != "by_intent"},
            file=sys.stderr,
        )
    return result


def open_sentences(data: Path) -> list[tuple[str, str | None, Mapping[str, Any]]]:
    """Return the English open sentences whose intent the agent has a function for, or an id of a timer in it."""
    intents = importlib.import_module("home_agent.intents")
    known = {kind for kind, _, _ in intents._INTENTS.values()} | {_SHOPPING}
    with gzip.open(data / "test_open.jsonl.gz", "rt", encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines]
    return [
        (one["text"], one["intent"], one["slots"]) for one in rows
        if one["language"] == "en" and one["intent"] in known
    ]  # fmt: skip


def beside(home: Any, language: str) -> dict[str, Reader]:
    """Return the readers of a language, and Home Assistant's sentences with each of the others behind them."""
    own, ours, theirs = templates(home, language), agent(home, language), gazetteer(home, language)
    readers = {
        "templates": own,
        "agent": ours,
        "templates, then agent": lambda text: own(text) or ours(text),
    }
    if theirs is not None:
        fallback = theirs
        readers |= {
            "gazetteer": fallback,
            "templates, then gazetteer": lambda text: own(text) or fallback(text),
        }
    return readers


def many(count: int) -> dict[str, Any]:
    """Return the time of requests to a home with so many entities more."""
    home = component()
    own = own_home("en")
    more = tuple(
        home.Device(f"Sensor {number}", "sensor", (), None, None)
        for number in range(count - len(own.devices))
    )
    big = home.Home((*own.devices, *more), own.areas)
    read = agent(big, "en")
    texts = [text for text, _, _ in REQUESTS["en"]]
    read(texts[0])
    took = []
    for text in texts:
        begun = time.process_time()
        read(text)
        took.append(1000 * (time.process_time() - begun))
    return {
        "entities": count,
        "ms_median": round(statistics.median(took), 1),
        "ms_most": round(max(took), 1),
    }


def started(count: int) -> dict[str, Any]:
    """Return the MiB that a process takes for the agent, once it has read all requests for a home with so many entities."""
    script = (
        "import json\n"
        "from benchmarks import home\n"
        "def taken(): return int(open('/proc/self/statm').read().split()[1]) * 4096\n"
        "before = taken()\n"
        f"home.many({count})\n"
        "print(json.dumps({'mib': round((taken() - before) / 2**20)}))\n"
    )
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT)
    return dict(json.loads(done.stdout))


def main(arguments: Iterable[str] | None = None) -> None:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--data", type=Path, help="the folder with the open sentences")
    parser.add_argument("--output", type=Path)
    given = parser.parse_args(None if arguments is None else list(arguments))
    component()
    wordings = {}
    for language in LANGUAGES:
        print(language, file=sys.stderr)
        wordings[language] = measure(beside(own_home(language), language), REQUESTS[language])
    result: dict[str, Any] = {"wordings": wordings, "big": many(200) | started(200)}
    if given.data is not None:
        print("open sentences", file=sys.stderr)
        result["open"] = measure(beside(fixture_home(given.data), "en"), open_sentences(given.data))
    result |= {"versions": _versions(), "machine": _machine(), "commit": _commit()}
    text = json.dumps(result, indent=1, ensure_ascii=False)
    if given.output is None:
        print(text)
    else:
        given.output.write_text(text + "\n", encoding="utf-8")


def _versions() -> dict[str, str]:
    from importlib.metadata import version

    return {
        name: version(name)
        for name in ("hassil", "home-assistant-intents", "gazetteer-matcher", "callmemaybe")
    }


def _machine() -> str:
    lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    cpu = next(
        (line.split(":")[1].strip() for line in lines if "model name" in line), platform.machine()
    )
    return f"{cpu}, Python {platform.python_version()}"


def _commit() -> str:
    command = ["git", "rev-parse", "--short", "HEAD"]
    return subprocess.run(
        command, capture_output=True, text=True, check=True, cwd=ROOT
    ).stdout.strip()


if __name__ == "__main__":
    main()
