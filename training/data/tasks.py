"""Written functions with request templates: reads `sources/tasks/<field>/<domain>.txt`.

A file holds the functions of the domain that it is named after, one line per fact, so that thousands of functions stay
readable:

    # name / other_name                         a function
    : One description. | Another.
    - key/other name? type generator : description | other
    > request with {key} and (one|another) wording [and an {optional} part]
    ! a request that sounds like it and that it cannot serve

Types are those of JSON Schema (`[string]` is an array). A generator is a name from `slots.GENERATORS`, optionally with
numbers; `a;b;c` for literal choices (`value=>as said` where the argument differs from the wording); or for an `enum`
`value=synonym/synonym,value`. A list is `list GENERATOR LOW HIGH`; with ` as KEY` behind it, it is as long as the list of
that parameter. `?` after the names makes a parameter optional. The slot of a boolean holds its wording:
`{flag:wording of true/wording of false}`; `{flag:words}` is always true and `{flag:/words}` always false. A request that
starts with `~` is not an imperative, so "please" is never put before it.

`sources/tasks/order.txt` fixes the order of the functions, because random draws depend on it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from callmemaybe.tuning.rendering import NumberText
from training.data.generators import domain_slots, slots

slots.GENERATORS.update(domain_slots.MORE)
TASKS = Path(__file__).parent / "sources" / "tasks"
SCALARS = {"string", "number", "integer", "boolean", "enum"}
FORMATS = {"date", "email", "uri", "time", "ipv4", "hostname", "uuid", "date-time"}


@dataclass(frozen=True, slots=True)
class TaskParameter:
    """A parameter with everything it may be called."""

    names: tuple[str, ...]
    type: str
    generator: str
    abouts: tuple[str, ...]
    optional: bool
    parallel: str = ""  # key of the list that has the same length
    legend_only: bool = (
        False  # only the legend in the description says what the values of this enum mean
    )

    @property
    def key(self) -> str:
        return self.names[0]

    @property
    def literal(self) -> bool:
        """Whether the values of an enum are symbols, which no legend would number."""
        return any(not re.search("[a-z]", value) for value in self.choices)

    @property
    def choices(self) -> dict[str, list[str]]:
        """Enum values with their synonyms."""
        pairs = (item.partition("=") for item in self.generator.split(","))
        return {value.strip(): [s for s in words.split("/") if s] for value, _, words in pairs}


@dataclass(slots=True)
class TaskFunction:
    """A function definition with its requests."""

    domain: str
    names: tuple[str, ...]
    abouts: tuple[str, ...] = ()
    parameters: list[TaskParameter] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)
    near: list[str] = field(default_factory=list)  # what it cannot do, in words that sound like it
    topic: str = ""  # of a made-up function: the words that its requests are about

    @property
    def key(self) -> str:
        return f"{self.domain}/{self.names[0]}"


def split(text: str, mark: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(mark) if part.strip())


def read_parameter(line: str) -> TaskParameter:
    """Parse one `-` line."""
    head, _, about = line.partition(" : ")
    names, kind, *drawn = head.split(None, 2)
    generator, parallel = drawn[0] if drawn else "", ""
    if generator.startswith("list "):
        generator, _, parallel = generator.partition(" as ")
    optional = names.endswith("?")
    parameter = TaskParameter(
        split(names.rstrip("?"), "/"),
        kind,
        generator.strip(),
        split(about, "|"),
        optional,
        parallel.strip(),
    )
    if kind.strip("[]") not in SCALARS | FORMATS:
        raise ValueError(f"unknown type in {line!r}")
    if kind == "enum" and len(parameter.choices) < 2:
        raise ValueError(f"an enum needs two values or more: {line!r}")
    if kind not in ("boolean", "enum"):
        slots.make(Random(0), parameter.generator)
    return parameter


def check(function: TaskFunction) -> None:
    """Refuse a function whose requests miss a required parameter, name an unknown one or are cut in two."""
    known = {parameter.key for parameter in function.parameters}
    required = {parameter.key for parameter in function.parameters if not parameter.optional}
    if not function.requests or not function.abouts:
        raise ValueError(f"{function.key}: needs a description and requests")
    lists = {p.key for p in function.parameters if p.generator.startswith("list ")}
    for parameter in function.parameters:
        if parameter.parallel and not {parameter.key, parameter.parallel} <= lists:
            raise ValueError(f"{function.key}: `as {parameter.parallel}` is for two lists")
    for request in function.requests:
        used = set(re.findall(r"\{(\w+)", request))
        always = set(re.findall(r"\{(\w+)", re.sub(r"\[[^\]]*\]", "", request)))
        if used - known or required - always:
            raise ValueError(f"{function.key}: {request!r} {used - known or required - always}")
        if re.search(r"[{}]", re.sub(r"\{\w+(:[^{}]*)?\}", "", request)):
            raise ValueError(
                f"{function.key}: {request!r} has a brace too many, or a slot in another"
            )
    for near in function.near:
        if re.search(r"[{}\[\]]", near) or near in function.requests:
            raise ValueError(f"{function.key}: {near!r} is a request, or has a slot")


def read_tasks(folder: Path = TASKS) -> list[TaskFunction]:
    """All written functions, in the order of `order.txt`; domains that it does not name follow by name.

    Raises ValueError for a file that cannot be read, a domain with two files, and an order that names no file.
    """
    domains: dict[str, list[TaskFunction]] = {}
    for file in sorted(folder.glob("*/*.txt"), key=lambda file: file.stem):
        if file.stem in domains:
            raise ValueError(f"{file}: there is another file of the domain {file.stem}")
        domains[file.stem] = read_file(file)
    functions: list[TaskFunction] = []
    left = dict(domains)
    for domain, part in read_order(folder / "order.txt"):
        if domain not in domains:
            raise ValueError(f"order.txt names {domain}, of which there is no file")
        functions += domains[domain][part]
        left.pop(domain, None)
    return functions + [function for rest in left.values() for function in rest]


def read_order(file: Path) -> Iterator[tuple[str, slice]]:
    """Yield domains with the part of their functions that stands at this place of the order."""
    lines = [line for line in file.read_text("utf-8").splitlines() if not line.startswith("#")]
    for entry in " ".join(lines).split():
        domain, _, part = entry.rstrip("]").partition("[")
        start, _, stop = part.partition(":")
        yield domain, slice(int(start or 0), int(stop) if stop else None)


def read_file(file: Path) -> list[TaskFunction]:
    """Read the functions of one domain; raises ValueError with file and line for a mistake."""
    functions: list[TaskFunction] = []
    starts: list[int] = []
    number = 0
    try:
        for number, line in enumerate(file.read_text("utf-8").splitlines(), 1):
            mark, _, rest = line.partition(" ")
            if not line.strip():
                continue
            if mark == "#":
                functions.append(TaskFunction(file.stem, split(rest, "/")))
                starts.append(number)
            elif mark == ":":
                functions[-1].abouts = split(rest, "|")
            elif mark == "-":
                functions[-1].parameters.append(read_parameter(rest))
            elif mark == ">":
                functions[-1].requests.append(rest.strip())
            elif mark == "!":
                functions[-1].near.append(rest.strip())
            else:
                raise ValueError(f"a line begins with #, :, -, > or !, not {line!r}")
        for number, function in zip(starts, functions, strict=True):  # noqa: B007 (for the error)
            check(function)
    except (ValueError, IndexError) as error:
        raise ValueError(f"{file.name}:{number}: {error}") from error
    return functions


def as_type(value: Any, kind: str) -> Any:
    """Fit a drawn value to the declared type."""
    if kind.startswith("["):
        return [as_type(item, kind[1:-1]) for item in value]
    if kind == "number" and not isinstance(value, NumberText):
        return NumberText(value)
    if kind == "integer" and isinstance(value, str):
        return int(value)
    return value
