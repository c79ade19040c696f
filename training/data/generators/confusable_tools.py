"""Made-up functions that do different things with one kind of thing, and what none of them does.

Functions of one domain share all their nouns, so only the verb tells which is meant, or that none is. A request
hardly ever says that verb: nobody archives a playlist, one puts it away for later. What may stand for a verb does not depend
on the thing, so every function of a list is drawn from one table of actions, and so is what fits none of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from random import Random

from training.data.generators.tables import read_table
from training.data.tasks import TaskFunction, TaskParameter, read_parameter

THINGS = """playlist folder document account server ticket booking contract campaign channel course device invoice note
    photo album recipe form survey poll report dashboard script job task project branch database table backup key
    certificate group team page article video podcast episode product coupon shipment parcel order membership
    reservation event meeting calendar alarm list template theme bot sensor camera lamp printer queue cluster volume
    snapshot domain mailbox letter thread game level character route map sketch poster song lesson quiz exam
    experiment sample dataset model draft blog newsletter shop garden boat bike locker room desk machine
    drone robot""".split()  # noqa: SIM905
NAMES = ("{v}_{n}", "{v}_{n}", "{v}_{n}", "{n}_{v}")
ABOUTS = (
    "{V} a {n}.", "{V} {n}s", "To {v} one {n}.", "{V} one of the user's {n}s.", "{V} the {n} named",
)  # fmt: skip
OF_QUERIES = ("{n}_{v}", "get_{n}_{v}", "{v}_of_{n}")
ABOUTS_OF_QUERIES = (
    "{V} of a {n}.", "Tells the {v} of one {n}.", "Get the {v} of one of the user's {n}s.", "The {n}'s {v}",
)  # fmt: skip
CALLED = ("the {n} {i}", "{n} {i}", "my {n} {i}", "{i}", "our {n} {i}", "the {n} called {i}")
KEYS = (("name", "title", "{n}"), ("{n}", "name", "which"), ("{n}_id", "id", "identifier"))
IDS = ("word", "word", "slug", "id", "title")


@dataclass(frozen=True)
class Action:
    """Something that is done with things, or `is_query` of them."""

    verbs: tuple[str, ...]
    said: tuple[str, ...]
    more: TaskParameter | None = None  # what else it has to know
    is_query: bool = False

    @property
    def names(self) -> tuple[str, ...]:
        return OF_QUERIES if self.is_query else NAMES

    @property
    def abouts(self) -> tuple[str, ...]:
        return ABOUTS_OF_QUERIES if self.is_query else ABOUTS


@cache
def actions() -> tuple[Action, ...]:
    """The table, read."""
    found = []
    for line in read_table("actions"):
        verbs, said, *more = line.split("|")
        extra = read_parameter(more[0]) if more else None
        is_query, verbs = verbs.startswith("="), verbs.lstrip("=")
        found.append(Action(tuple(verbs.split(",")), tuple(said.split(";")), extra, is_query))
    return tuple(found)


def draw_confusable_tools(rng: Random, size: int) -> tuple[list[TaskFunction], list[TaskFunction]]:
    """Functions that all do something else with things of one kind or two, and others that do yet something else.

    What is asked need not name the kind, so no action comes twice.
    """
    things = rng.sample(THINGS, rng.choice((1, 1, 2)))
    chosen = rng.sample(actions(), min(size + 6, len(actions())))
    drawn = [draw_tool(rng, action, rng.choice(things)) for action in chosen]
    return drawn[:size], drawn[size:]


def draw_tool(rng: Random, action: Action, thing: str) -> TaskFunction:
    """One function with requests that rarely contain its verb."""
    verbs = rng.sample(action.verbs, len(action.verbs))
    names = tuple(dict.fromkeys(rng.choice(action.names).format(v=v, n=thing) for v in verbs))
    spoken = [verb.replace("_", " ") for verb in action.verbs]
    abouts = tuple(
        about.format(v=verb, V=verb.capitalize(), n=thing)
        for about in rng.sample(action.abouts, 3)
        for verb in [rng.choice(spoken)]
    )
    keys = tuple(key.format(n=thing) for key in rng.choice(KEYS))
    described = (f"The {thing}", f"Which {thing}", f"Name of the {thing}")
    parameters = [TaskParameter(keys, "string", rng.choice(IDS), described, False)]
    of = f"{{{keys[0]}}}"
    other = ""
    if action.more:
        parameters.append(action.more)
        other = f"{{{action.more.key}}}"
    function = TaskFunction(thing, names, abouts, parameters)
    for said in rng.sample(action.said, min(4, len(action.said))):
        called = rng.choice(CALLED).format(n=thing, i=of)
        function.requests.append(said.replace("{x}", called).replace("{y}", other))
    if not action.more and rng.random() < 0.5:
        called = rng.choice(CALLED).format(n=thing, i=of)
        verb = rng.choice(spoken)
        function.requests.append(f"~{verb} of {called}" if action.is_query else f"{verb} {called}")
    return function
