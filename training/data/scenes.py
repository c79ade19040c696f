"""Scenes: functions whose values are of one type, distinguished by the words beside them, in any order.

`sources/scenes/*.txt`, one line per fact:

    == domain
    # name / other_name | what it is in a note         a function
    : One description. | Another.
    = what is asked for? | do it                        a question, or an imperative
    - key/other? type generator : description = said so {} | *a clause of its own with {}
    > a whole request with {key} and {other}

Parameters and requests are those of `tasks.py`. After ` = ` follow the wordings of a value: as a phrase
that follows what is asked for, or with `*` as a clause that can stand before it. `{}` is the value;
`?` may follow any of the names. A boolean is worded as `when true/when false`; one side may be empty. Each time a scene is drawn it has another choice of its optional parameters, and its
requests another choice and order of phrases, so only the words beside a value show what it means.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from random import Random

from training.data.tasks import TaskFunction, TaskParameter, check, read_parameter, split

SCENES = Path(__file__).parent / "sources" / "scenes"
KEPT = 0.75  # share of optional parameters that a drawn function has


@dataclass(frozen=True, slots=True)
class Role:
    """A parameter with the wordings of its value."""

    parameter: TaskParameter
    phrases: tuple[str, ...]
    clauses: tuple[str, ...]


@dataclass(slots=True)
class Scene:
    """A function with the ways to ask for it and to give each of its values."""

    domain: str
    names: tuple[str, ...]
    noun: str
    abouts: tuple[str, ...] = ()
    asks: tuple[str, ...] = ()
    roles: list[Role] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)

    @property
    def key(self) -> str:
        return f"{self.domain}/{self.names[0]}"

    @property
    def chooses(self) -> bool:
        """Whether it has a list or a choice among its values."""
        return any(r.parameter.type == "enum" or r.parameter.type[0] == "[" for r in self.roles)

    def whole(self) -> TaskFunction:
        """The function with all its parameters and every way to say each, for comparing it with others."""
        said = [text for role in self.roles for text in (*role.phrases, *role.clauses)]
        parameters = [role.parameter for role in self.roles]
        requests = [*self.asks, *said, *self.requests]
        return TaskFunction(self.domain, self.names, self.abouts, parameters, requests, self.noun)


def read_role(line: str) -> Role:
    """Parse one `-` line."""
    head, _, said = line.partition(" = ")
    names, _, rest = head.partition(" ")
    parameter = read_parameter(f"{names.replace('?', '')}{'?' * ('?' in names)} {rest}")
    ways = [way.strip() for way in said.split(" | ") if way.strip()]
    if parameter.type == "boolean":
        put = [re.sub(r"^(\*?)(.*)$", rf"\1{{{parameter.key}:\2}}", way) for way in ways]
    else:
        put = [way.replace("{}", f"{{{parameter.key}}}") for way in ways]
    if not ways or any(f"{{{parameter.key}" not in way for way in put):
        raise ValueError(f"{parameter.key}: a value is said as `phrase {{}}`: {line!r}")
    clauses = tuple(way[1:] for way in put if way[0] == "*")
    return Role(parameter, tuple(way for way in put if way[0] != "*"), clauses)


def read_file(file: Path) -> list[Scene]:
    """Read one file; raises ValueError with file and line for a mistake."""
    scenes: list[Scene] = []
    domain = ""
    number = 0
    try:
        for number, line in enumerate(file.read_text("utf-8").splitlines(), 1):  # noqa: B007 (for the error)
            mark, _, rest = line.partition(" ")
            if mark == "==":
                domain = rest.strip()
            elif mark == "#":
                names, _, noun = rest.partition(" | ")
                scenes.append(Scene(domain, split(names, "/"), noun.strip()))
            elif mark == ":":
                scenes[-1].abouts = split(rest, " | ")
            elif mark == "=":
                scenes[-1].asks = split(rest, " | ")
            elif mark == "-":
                scenes[-1].roles.append(read_role(rest))
            elif mark == ">":
                scenes[-1].requests.append(rest.strip())
            elif line.strip():
                raise ValueError(f"a line begins with ==, #, :, =, - or >, not {line!r}")
        for scene in scenes:
            if not (scene.noun and scene.asks and len(scene.roles) > 1):
                raise ValueError(f"{scene.key}: needs a noun, an `=` line and two roles")
            if scene.requests:
                check(
                    TaskFunction(
                        domain, scene.names, scene.abouts, parameters(scene), scene.requests
                    )
                )
    except (ValueError, IndexError) as error:
        raise ValueError(f"{file.name}:{number}: {error}") from error
    return scenes


def parameters(scene: Scene) -> list[TaskParameter]:
    """All parameters of a scene."""
    return [role.parameter for role in scene.roles]


@lru_cache(maxsize=1)
def read_scenes() -> tuple[Scene, ...]:
    """All scenes, file by file in name order."""
    return tuple(scene for file in sorted(SCENES.glob("*.txt")) for scene in read_file(file))


def draw_scene(rng: Random, scenes: tuple[Scene, ...] = ()) -> TaskFunction:
    """Draw a scene with a choice of its roles and requests that state them in any order."""
    scene = rng.choice(scenes or read_scenes())
    if not scenes and not scene.chooses and rng.random() < 0.5:
        scene = rng.choice(read_scenes())  # lists and choices are rare and hard
    roles = [r for r in scene.roles if not r.parameter.optional or rng.random() < KEPT]
    if len(roles) < 2:
        roles = scene.roles
    function = TaskFunction(
        scene.domain, scene.names, scene.abouts, [r.parameter for r in roles], topic=scene.noun
    )
    kept = frozenset(role.parameter.key for role in roles)
    whole = [shorten(request, kept) for request in scene.requests]
    whole = [request for request in whole if request]
    if whole:
        function.requests += rng.sample(whole, min(2, len(whole)))
    for _ in range(4):
        function.requests.append(phrase(scene, roles, rng))
    return function


@lru_cache(maxsize=8192)
def shorten(request: str, kept: frozenset[str]) -> str:
    """A written request without the optional parts for parameters that are not there; empty if it needs them."""
    request = re.sub(
        r" ?\[[^\]]*\]",
        lambda part: part[0] if set(re.findall(r"\{(\w+)", part[0])) <= kept else "",
        request,
    )
    return request if set(re.findall(r"\{(\w+)", request)) <= kept else ""


def phrase(scene: Scene, roles: list[Role], rng: Random) -> str:
    """One request: what is asked for with phrases after it, clauses before it, or a note."""
    said = [role for role in roles if not role.parameter.optional or rng.random() < 0.5]
    rng.shuffle(said)
    ask = rng.choice(scene.asks)
    if not said:
        return ask
    how = rng.choice(("behind", "behind", "before", "before", "note", "name"))
    if how == "note":
        parts = [rng.choice(role.phrases or role.clauses) for role in said]
        note = rng.choice((", ", ", ", "; ", " / ")).join(parts)
        forms = [f"~{scene.noun}: {note}", f"~{note}: {ask}", f"~{scene.noun}, {note}"]
        return rng.choice(forms + [f"~{note}"] * (len(said) > 2))
    before: list[str] = []
    behind: list[str] = []
    for role in said:
        named = how == "name" and role.parameter.type not in ("boolean", "enum")
        spoken = role.parameter.key.replace("_", " ")
        if named and rng.random() < 0.6:
            slot = f"{{{role.parameter.key}}}"
            behind.append(
                rng.choice((f"{spoken} {slot}", f"with {slot} as {spoken}", f"{spoken}: {slot}"))
            )
        elif not role.phrases or (role.clauses and how == "before" and rng.random() < 0.7):
            before.append(rng.choice(role.clauses))
        else:
            behind.append(rng.choice(role.phrases))
    return join(ask, before, behind, rng)


def join(ask: str, before: list[str], behind: list[str], rng: Random) -> str:
    """Put clauses before what is asked for and phrases after it."""
    mark = "?" if ask.endswith("?") else ""
    core = ask.rstrip("?")
    joint = rng.choice((" ", " ", ", "))
    tail = "".join(f"{joint}{part}" for part in behind[:-1])
    if behind:
        last = rng.choice((joint, " and ", ", ")) if len(behind) > 1 else joint
        put = re.sub(r"(:|/)and ", r"\1", behind[-1]) if last == " and " else behind[-1]
        tail += last + put
    core = f"{core}{tail}{mark}"
    if not before:
        return core
    link = rng.choice((", ", ", ", ". ", "; ", " and "))
    story = before[0]
    for part in before[1:]:
        story += link + (sentence(part) if link == ". " else part)
    end = rng.choice((". ", ". ", "; ", " - ", ", "))
    if rng.random() < 0.2 and not mark:
        return f"~{core}{rng.choice((': ', '; ', '. '))}{story}"
    return f"~{story}{end}{sentence(core) if end == '. ' else core}"


def sentence(text: str) -> str:
    """With a capital where a sentence begins."""
    return text[0].upper() + text[1:]
