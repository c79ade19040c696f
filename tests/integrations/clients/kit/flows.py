"""What the programs of clients share: the functions, the requests, and how a flow is told.

A program declares flows with :func:`flow` and ends with :func:`main`, which runs them and prints one line of JSON
for each. A flow fails by raising; what it returns is its note. Names of flows mean the same for all clients.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable
from typing import Any

BASE_URL, MODEL = os.environ["BASE_URL"], os.environ["MODEL"]
KIND, API_KEY = os.environ["KIND"], os.environ["API_KEY"]
BRIEF = "Be brief."
ASK = "What's the weather in Paris?"
ASK_TWO = "What's the weather in Paris and what's the weather in Oslo?"
ASK_AGAIN = "And what's the weather in Oslo?"
ASK_LIGHT = "Set the light in the kitchen to 40 percent."
ASK_STEPS = "Find out where Ada lives and what the weather is like there."
ASK_STRUCTURED = "I live in Paris."
ASK_PLAIN = "Say hello."
#: The most tokens that the flow "budget" tries.
MOST_TOKENS = 60

#: Seconds that a flow may take: some frameworks ask for ever.
PATIENCE = 120

#: The calls that ran, in their order.
ran: list[tuple[Any, ...]] = []
#: The cities whose weather cannot be had, for the flow "tool error fed back".
failing: set[str] = set()
_flows: dict[str, Callable[[], Any]] = {}
_reasons: dict[str, dict[str, str]] = {}


def get_weather(city: str) -> str:
    """Current weather of a city.

    Args:
        city: Name of the city.
    """
    ran.append(("get_weather", city))
    if city in failing:
        raise ValueError(f"no weather station in {city}")
    return f"22 degrees in {city}"


def set_light(room: str, percent: int) -> str:
    """Set the brightness of the light in a room.

    Args:
        room: Name of the room.
        percent: Brightness from 0 to 100.
    """
    ran.append(("set_light", room, percent))
    return f"the light in the {room} is at {percent} percent"


def find_person(name: str) -> str:
    """Find out in which city a person lives.

    Args:
        name: Name of the person.
    """
    ran.append(("find_person", name))
    return "Oslo"


FUNCTIONS = {one.__name__: one for one in (get_weather, set_light, find_person)}
PARIS, OSLO, ADA = ("get_weather", "Paris"), ("get_weather", "Oslo"), ("find_person", "Ada")
LIGHT = ("set_light", "kitchen", 40)


def schema(name: str) -> dict[str, Any]:
    """Return a function's parameters as a JSON Schema."""
    types = {
        "get_weather": {"city": "string"},
        "set_light": {"room": "string", "percent": "integer"},
        "find_person": {"name": "string"},
    }[name]
    return {
        "type": "object",
        "properties": {one: {"type": kind} for one, kind in types.items()},
        "required": [*types],
        "additionalProperties": False,
    }


def about(name: str) -> str:
    """Return what a function is for."""
    return str(FUNCTIONS[name].__doc__).partition("\n")[0]


def tools(*names: str) -> list[dict[str, Any]]:
    """Return functions as chat requests offer them."""
    return [
        {
            "type": "function",
            "function": {"name": one, "description": about(one), "parameters": schema(one)},
        }
        for one in names
    ]


def run(name: str, arguments: str) -> str:
    """Run a call; a failure is told as text, as a loop written by hand would."""
    try:
        return FUNCTIONS[name](**json.loads(arguments))
    except ValueError as error:
        return f"error: {error}"


def flow(name: str, **reasons: str) -> Callable[[Callable[[], Any]], Callable[[], Any]]:
    """Declare a flow; ``reasons`` say why it fails with a kind of model, where that is known and no fault."""

    def declare(function: Callable[[], Any]) -> Callable[[], Any]:
        _flows[name], _reasons[name] = function, reasons
        return function

    return declare


def same(found: object, wanted: object) -> None:
    """Fail unless both are the same."""
    if found != wanted:
        raise AssertionError(f"{found!r}, not {wanted!r}")


def says(text: object, *words: str) -> None:
    """Fail unless a text has all the words; without words, unless it says anything."""
    if not isinstance(text, str) or not text.strip() or any(word not in text for word in words):
        raise AssertionError(f"{text!r} does not say {' and '.join(words) or 'anything'}")


def never_wrong(ask: Callable[[int], Any], wanted: tuple[Any, ...] = PARIS) -> str:
    """Ask with every budget; fail if a call ever runs that is not the whole one, or if none ever runs.

    What the client raises at an answer that was cut off is its own business.
    """
    first = None
    for budget in range(1, MOST_TOKENS + 1):
        ran.clear()
        try:
            ask(budget)
        except AssertionError:
            raise
        except Exception:
            pass
        if wrong := [one for one in ran if one != wanted]:
            raise AssertionError(f"with {budget} tokens it ran {wrong[0]!r}")
        if ran and first is None:
            first = budget
    if first is None:
        raise AssertionError(f"no call within {MOST_TOKENS} tokens")
    return f"whole from {first} tokens"


def _too_long(*_: object) -> None:
    raise TimeoutError(f"no end after {PATIENCE} s")


def main() -> None:
    """Run the flows (those named on the command line, or all) and tell each in a line of JSON."""
    signal.signal(signal.SIGALRM, _too_long)
    for name in sys.argv[1:] or _flows:
        ran.clear()
        failing.clear()
        signal.alarm(PATIENCE)
        try:
            note, passed = _flows[name]() or "", True
        except Exception as error:
            text = " ".join(str(error).split())[:300]
            note = _reasons[name].get(KIND) or f"{type(error).__name__}: {text}"
            passed = False
        finally:
            signal.alarm(0)  # what a client does at its end is no part of its last flow
        line = {"flow": name, "passed": passed, "note": note if isinstance(note, str) else ""}
        print(json.dumps(line), flush=True)
