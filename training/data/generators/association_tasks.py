"""Made-up functions and enums that are asked for by association.

Requests that share no word with their function are understood by what words mean alone. Written functions
practise it with some thousand words; here any word that has associations may be meant.
"""

from __future__ import annotations

from functools import cache
from random import Random

from training.data.associations import Line, read
from training.data.tasks import TaskFunction, TaskParameter

NEAREST = 7  # of a line: what comes later is too loosely associated
CHOICE_NAMES = (
    "kind", "type", "category", "item", "topic", "subject", "thing", "theme", "section", "group",
)  # fmt: skip
FUNCTION_NAMES = (
    "get_{0}", "find_{0}", "{0}_info", "open_{0}", "{0}_service", "ask_{0}", "{0}", "show_{0}",
    "{0}_desk", "use_{0}",
)  # fmt: skip
ABOUTS = (
    "Everything about {0}.", "{1}.", "For {0}.", "Opens what belongs to {0}.",
    "Asks the {0} desk.", "A tool for {0}",
)  # fmt: skip
RIDDLES = """~I need something for {a} and {b}|~it is about {a}, {b} and {c}|~{a} and {b}: you know what I mean
give me the one with {a} and {b}|~{a}, {b}, {c}|~{a}? {b}? that one|help me, I have to do with {a} and {b}
~I keep thinking of {a} and {b}|which one is about {a} and {b}?|take me to whatever has {a} or {b}
~there is {a} and {b} in it|something with {a}, {b} and {c}, please""".replace("\n", "|").split("|")
SLOTS = [" for {x}", ": {x}", " ({x})", ", name {x}"]


@cache
def lines() -> list[Line]:
    """The lines with enough associations to ask by."""
    return [(head, said[:NEAREST]) for head, said in read() if len(said) >= 4 and len(head) > 2]


def draw_association_task(rng: Random) -> TaskFunction:
    """A function of one thing, asked for by its associations."""
    head, said = rng.choice(lines())
    names = tuple(name.format(head) for name in rng.sample(FUNCTION_NAMES, 3))
    abouts = tuple(about.format(head, head.capitalize()) for about in rng.sample(ABOUTS, 2))
    named = rng.random() < 0.4
    parameters = []
    if named:
        kind = rng.choice(("word", "person", "slug", "city", "id"))
        about = rng.choice(("Whom or what it is for", "Name", "The name to use"))
        parameters.append(TaskParameter(("name", "target", "who"), "string", kind, (about,), False))
    function = TaskFunction(head, names, abouts, parameters, topic=head)
    for riddle in rng.sample(RIDDLES, 4):
        a, b, c = rng.sample(said, 3)
        slot = rng.choice(SLOTS).replace("{x}", "{name}") if named else ""
        function.requests.append(riddle.format(a=a, b=b, c=c) + slot)
    return function


def draw_association_enum(rng: Random, taken: set[str]) -> TaskParameter | None:
    """An enum of words, each asked for by associations that none of the others has."""
    name = rng.choice(CHOICE_NAMES)
    if name in taken:
        return None
    chosen = rng.sample(lines(), rng.randint(3, 6))
    heads = {head for head, _ in chosen}
    values = []
    for head, said in chosen:
        others = {word for other, words in chosen if other != head for word in words}
        own = [word for word in said if word not in others and word not in heads]
        if len(own) < 2:
            return None
        values.append(f"{head}={'/'.join(rng.sample(own, min(3, len(own))))}")
    about = (name.capitalize(), f"Which {name}", f"The {name} that is meant")
    return TaskParameter((name,), "enum", ",".join(values), about, rng.random() < 0.4)
