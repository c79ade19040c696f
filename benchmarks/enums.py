"""Enum parameters of 8 to 1,000 values: how often nano takes the value that a request names, and how long it takes.

``python benchmarks/enums.py [--cases 60] [--sizes 8,16,30,100,1000]`` writes results/enums.json. Values and
requests are made here from lists of words, by a seed.
"""

from __future__ import annotations

import argparse
import json
import platform
import random
import statistics
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from callmemaybe import Caller, load_model

RESULTS = Path(__file__).parent / "results"
_ROOMS = [
    "attic",
    "basement",
    "bathroom",
    "bedroom",
    "cellar",
    "conservatory",
    "corridor",
    "dining-room",
    "garage",
    "garden",
    "greenhouse",
    "guest-room",
    "hallway",
    "kitchen",
    "larder",
    "laundry",
    "library",
    "loft",
    "lounge",
    "nursery",
    "office",
    "pantry",
    "patio",
    "playroom",
    "porch",
    "shed",
    "stairs",
    "studio",
    "terrace",
    "utility-room",
    "veranda",
    "workshop",
]
_DEVICES = [
    "ceiling-light",
    "floor-lamp",
    "desk-lamp",
    "wall-light",
    "fan",
    "heater",
    "radiator",
    "speaker",
    "television",
    "blinds",
    "curtain",
    "kettle",
    "dehumidifier",
    "socket",
    "projector",
    "humidifier",
    "thermostat",
    "camera",
    "doorbell",
    "sprinkler",
]
_SIDES = ["left", "right", "upper", "lower", "front", "back", "old", "new"]
_FIRST = [
    "Ada",
    "Bela",
    "Chidi",
    "Dara",
    "Emeka",
    "Farah",
    "Gita",
    "Hana",
    "Ilse",
    "Jorge",
    "Kaito",
    "Leila",
    "Marek",
    "Nadia",
    "Oskar",
    "Petra",
    "Quentin",
    "Rosa",
    "Soren",
    "Tomas",
    "Uma",
    "Viktor",
    "Wanda",
    "Ximena",
    "Yusuf",
    "Zofia",
]
_LAST = [
    "Abbott",
    "Bergstrom",
    "Castellano",
    "Demir",
    "Eriksen",
    "Fontaine",
    "Gallagher",
    "Hashimoto",
    "Ivanova",
    "Jansen",
    "Kowalski",
    "Lindqvist",
    "Moreau",
    "Nakamura",
    "Okafor",
    "Petrov",
    "Quigley",
    "Rossi",
    "Silva",
    "Tanaka",
    "Ueda",
    "Varga",
    "Winter",
    "Xu",
    "Yamada",
    "Zielinski",
]
_COLOURS = [
    "amber",
    "azure",
    "beige",
    "black",
    "cobalt",
    "coral",
    "cream",
    "crimson",
    "emerald",
    "grey",
    "indigo",
    "ivory",
    "jade",
]
_GOODS = [
    "backpack",
    "blanket",
    "bottle",
    "candle",
    "cushion",
    "glove",
    "hat",
    "jacket",
    "mug",
    "notebook",
    "pillow",
    "rug",
    "scarf",
    "shelf",
    "stool",
    "teapot",
    "towel",
    "tray",
    "umbrella",
    "vase",
    "wallet",
]
_STUFFS = [
    "bamboo",
    "ceramic",
    "cotton",
    "glass",
    "leather",
    "linen",
    "oak",
    "steel",
    "velvet",
    "wool",
]


def _homes() -> list[str]:
    plain = [f"{room} {device}".replace("-", " ") for room in _ROOMS for device in _DEVICES]
    sided = [f"{room} {side} {device}".replace("-", " ")
             for room in _ROOMS for side in _SIDES for device in _DEVICES]  # fmt: skip
    return plain + sided


def _ids() -> list[str]:
    return [f"{device.replace('-', '_')}.{room.replace('-', '_')}_{n}"
            for room in _ROOMS for device in _DEVICES for n in (1, 2, 3)]  # fmt: skip


def _contacts() -> list[str]:
    return [f"{first} {last}" for first in _FIRST for last in _LAST] + [
        f"{first} {letter}. {last}" for first in _FIRST for letter in "KT" for last in _LAST
    ]


def _products() -> list[str]:
    return [
        f"{colour} {stuff} {good}" for colour in _COLOURS for stuff in _STUFFS for good in _GOODS
    ]


def _tool(name: str, about: str, parameter: str, what: str, values: list[str]) -> dict[str, Any]:
    properties = {parameter: {"type": "string", "enum": values, "description": what}}
    parameters = {"type": "object", "properties": properties, "required": [parameter]}
    return {"name": name, "description": about, "parameters": parameters}


#: Name -> (its values, the function that takes one, requests with a place for the value).
KINDS: dict[str, tuple[Callable[[], list[str]], tuple[str, str, str, str], tuple[str, ...]]] = {
    "devices": (
        _homes,
        ("turn_on", "Turn a device on.", "device", "The device"),
        ("turn on the {}", "please switch the {} on", "can you turn the {} on for me?", "{} on"),
    ),
    "entity ids": (
        _ids,
        ("turn_off", "Turn an entity off.", "entity_id", "The entity"),
        ("turn off {}", "{} should be off", "switch {} off please"),
    ),
    "contacts": (
        _contacts,
        ("call_contact", "Call a person on the phone.", "contact", "Whom to call"),
        ("call {}", "give {} a ring", "I need to speak to {} on the phone"),
    ),
    "products": (
        _products,
        ("add_to_cart", "Put a product into the shopping cart.", "product", "The product"),
        ("add a {} to my cart", "I'd like to buy the {}", "put one {} in the cart"),
    ),
}
_OTHERS = [
    {"name": "get_weather", "description": "Current weather of a city.", "parameters": {
        "type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}},
    {"name": "set_timer", "description": "Start a timer.", "parameters": {
        "type": "object", "properties": {"minutes": {"type": "integer"}}, "required": ["minutes"]}},
]  # fmt: skip


def typo(text: str, draw: random.Random) -> str:
    """Return ``text`` with two neighbouring letters exchanged, or one letter lost."""
    places = [
        i
        for i in range(1, len(text) - 1)
        if text[i : i + 2].isalpha() and text[i : i + 2].islower()
    ]
    i = draw.choice(places)
    if draw.random() < 0.5 and text[i] != text[i + 1]:
        return text[:i] + text[i + 1] + text[i] + text[i + 2 :]
    return text[:i] + text[i + 1 :]


def ask(kind: str, size: int, cases: int, spell: str, model: Any) -> tuple[int, list[float]]:
    """Return how many of the calls had the value that was named, and the milliseconds of each."""
    values, function, requests = KINDS[kind]
    draw = random.Random(f"{kind} {size} {spell}")
    right, took = 0, []
    for batch in range(3):  # three functions, so that no one list decides
        chosen = draw.sample(values(), size)
        tools = [_tool(*function, chosen), *_OTHERS]
        caller = Caller(model, tools)
        caller.call(draw.choice(requests).format(chosen[0]))  # compiles what all requests share
        for _ in range(cases // 3 + (batch < cases % 3)):
            value = draw.choice(chosen)
            named = typo(value, draw) if spell == "typo" else value
            request = draw.choice(requests).format(named)
            before = time.perf_counter()
            call = caller.call(request).call
            took.append((time.perf_counter() - before) * 1000)
            wanted = call is not None and call.name == function[0]
            right += wanted and json.loads(call.arguments).get(function[2]) == value
    return right, took


def main() -> None:
    """Run every kind, size and spelling; print a table and write it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=60)
    parser.add_argument("--sizes", default="8,16,30,100,1000")
    parser.add_argument("--model", default="nano")
    options = parser.parse_args()
    model, rows = load_model(options.model), []
    for size in map(int, options.sizes.split(",")):
        for kind in KINDS:
            for spell in ("named", "typo"):
                right, took = ask(kind, size, options.cases, spell, model)
                rows.append({"values": size, "kind": kind, "spelling": spell, "right": right,
                             "cases": options.cases, "ms": statistics.median(took)})  # fmt: skip
                print(
                    f"{size:5} {kind:12} {spell:6} {right:4} of {options.cases} {rows[-1]['ms']:7.1f} ms",
                    flush=True,
                )
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False
    ).stdout.strip()
    facts = {
        "machine": platform.machine(),
        "python": platform.python_version(),
        "commit": commit,
        "rows": rows,
    }
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "enums.json").write_text(json.dumps(facts, indent=1) + "\n")


if __name__ == "__main__":
    main()
