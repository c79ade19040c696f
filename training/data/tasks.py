"""Function definitions with request templates, read from `training/tasks/*.txt`.

The format, one line per fact, so that hundreds of functions stay readable:

    == domain
    # name / other_name                         a function
    : One description. | Another.
    - key/other name? type generator : description | other
    > request with {key} and (one|another) wording [and an {optional} part]
    ! what sounds like a request for it and is none

Types are those of the schema (`[string]` is an array). A generator is a name from
`slots.GENERATORS`, optionally with numbers, `a;b;c` for literal choices (`value=>as said` where
the two differ), or for `enum`
`value=synonym/synonym,value`; a list is `list GENERATOR LOW HIGH`, and with ` as KEY` behind it as long as
the list of another parameter. `?` after the names makes a parameter optional. A boolean slot
carries its wording: `{flag:said when true/said when false}`; `{flag:words}` is always true and
`{flag:/words}` always false. A request that starts with `~` is no imperative, so nobody puts
"please" before it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from training.data.generators import domain_slots, slots
from training.data.rendering import Number

slots.GENERATORS.update(domain_slots.MORE)
TASKS = Path(__file__).parent / "sources" / "tasks"
SCALARS = {"string", "number", "integer", "boolean", "enum"}
FORMATS = {"date", "email", "uri", "time", "ipv4", "hostname", "uuid", "date-time"}


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter with everything it may be called."""

    names: tuple[str, ...]
    type: str
    generator: str
    abouts: tuple[str, ...]
    optional: bool
    parallel: str = ""  # key of the list that has the same length
    told: bool = False  # the values of this enum mean what a legend says and nothing else tells

    @property
    def key(self) -> str:
        return self.names[0]

    @property
    def literal(self) -> bool:
        """Whether the values of an enum are symbols that nobody would number."""
        return any(not re.search("[a-z]", value) for value in self.choices)

    @property
    def choices(self) -> dict[str, list[str]]:
        """Enum values with their synonyms."""
        pairs = (item.partition("=") for item in self.generator.split(","))
        return {value.strip(): [s for s in words.split("/") if s] for value, _, words in pairs}


@dataclass(slots=True)
class Function:
    """A function definition with its requests."""

    domain: str
    names: tuple[str, ...]
    abouts: tuple[str, ...] = ()
    parameters: list[Parameter] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)
    near: list[str] = field(default_factory=list)  # what it cannot do, in words that sound like it
    topic: str = ""  # of a made-up function: the words that a request for it would say

    @property
    def key(self) -> str:
        return f"{self.domain}/{self.names[0]}"


def split(text: str, mark: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(mark) if part.strip())


def read_parameter(line: str) -> Parameter:
    """Parse one `-` line."""
    head, _, about = line.partition(" : ")
    names, kind, *drawn = head.split(None, 2)
    generator, parallel = drawn[0] if drawn else "", ""
    if generator.startswith("list "):
        generator, _, parallel = generator.partition(" as ")
    optional = names.endswith("?")
    parameter = Parameter(
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


def check(function: Function) -> None:
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


def read_tasks(folder: Path = TASKS) -> list[Function]:
    """Read all task files in name order."""
    functions: list[Function] = []
    for file in sorted(folder.glob("*.txt")):
        functions += read_file(file)
    return functions


def read_file(file: Path) -> list[Function]:
    """Read one file; what is wrong with it is said with its line."""
    functions: list[Function] = []
    starts: list[int] = []
    domain = ""
    number = 0
    try:
        for number, line in enumerate(file.read_text("utf-8").splitlines(), 1):
            mark, _, rest = line.partition(" ")
            if not line.strip():
                continue
            if mark == "==":
                domain = rest.strip()
            elif mark == "#":
                functions.append(Function(domain, split(rest, "/")))
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
                raise ValueError(f"a line begins with ==, #, :, -, > or !, not {line!r}")
        for number, function in zip(starts, functions, strict=True):  # noqa: B007 (for the error)
            check(function)
    except (ValueError, IndexError) as error:
        raise ValueError(f"{file.name}:{number}: {error}") from error
    return functions


def as_type(value: Any, kind: str) -> Any:
    """Fit a drawn value to the declared type."""
    if kind.startswith("["):
        return [as_type(item, kind[1:-1]) for item in value]
    if kind == "number" and not isinstance(value, Number):
        return Number(value)
    if kind == "integer" and isinstance(value, str):
        return int(value)
    return value
