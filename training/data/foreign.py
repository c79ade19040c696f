"""Requests in French, German and Spanish to the written functions: reads `sources/foreign/<language>/*.txt`.

Names and descriptions stay English; only what is asked, and the values in it, are of the other language:

    # domain/function                  a function of `sources/tasks`
    - key one;two                      what its values are called: literals, or a generator of the language
    - key value=mot/autre mot,other=…  for an enum: the words for each value that requests say
    : Une description.                 now and then shown instead of the English one
    > a request, as in `sources/tasks`
    ! a request that sounds like it and that it cannot serve

A line with `!` before the first function means none at all. The values of a generator without a `-` line are those of
`language_slots`; one that has none of the language is a mistake where a request names it. "de {x}" becomes "d'{x}"
before a vowel.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

from callmemaybe.tuning.rendering import NOW, SAID, SaidValues, ToolSpec, has_readable, holds
from training.data.generators import language_slots, slots
from training.data.generators.slots import Slot
from training.data.requests import Filling, arrange, expand, misspell
from training.data.tasks import TaskFunction, TaskParameter, check, split
from training.data.variants import Variant

SOURCES = Path(__file__).parent / "sources" / "foreign"
SHARES = {"fr": 0.5, "de": 0.25, "es": 0.25}  # of the lists with requests in another language
JOINTS = {
    "fr": (" et ", ", puis ", " et aussi ", ". Ensuite ", ", et "),
    "de": (" und ", ", dann ", " und außerdem ", ". Danach ", ", und "),
    "es": (" y ", ", luego ", " y también ", ". Después ", ", y "),
}
BEFORE = {
    "fr": [
        "s'il te plaît, ",
        "s'il vous plaît, ",
        "merci de bien vouloir faire ceci : ",
        "j'ai besoin d'aide : ",
        "dis, ",
        "bonjour, ",
        "salut, ",
        "euh, ",
        "ok, ",
        "bon, ",
        "alors, ",
        "coucou, ",
        "allez, ",
        "vite, ",
    ],
    "de": [
        "bitte ",
        "hallo, ",
        "hey, ",
        "also, ",
        "ok, ",
        "hi, ",
        "du, ",
        "guten Tag, ",
        "kurze Bitte: ",
        "schnell, ",
    ],
    "es": [
        "por favor, ",
        "hola, ",
        "oye, ",
        "a ver, ",
        "vale, ",
        "buenas, ",
        "buenos días, ",
        "bueno, ",
        "rápido, ",
    ],
}
AFTER = {
    "fr": [", s'il te plaît", " s'il vous plaît", ", merci", ", stp", " svp", " merci d'avance"],
    "de": [", bitte", " bitte", ", danke", ", wenn es geht", " danke dir"],
    "es": [", por favor", " por favor", ", gracias", ", porfa", " si puedes"],
}
AND = {"fr": " et ", "de": " und ", "es": " y "}
SPACED = 0.6  # share of the French requests with a space before question marks and colons
REDRAWN = (
    8  # times that a request is drawn anew because its values cannot be read as they are meant
)


@dataclass(slots=True)
class ForeignTasks:
    """The functions that are asked for in one language, and requests that mean none."""

    language: str
    functions: list[tuple[TaskFunction, TaskFunction]] = field(
        default_factory=list
    )  # as it is shown, and as it is asked for
    strays: list[str] = field(default_factory=list)


def read(functions: Sequence[TaskFunction], folder: Path = SOURCES) -> dict[str, ForeignTasks]:
    """The requests to some of the written functions by language; raises ValueError with file and line for a mistake."""
    known = {function.key: function for function in functions}
    return {language: read_language(folder / language, known) for language in SHARES}


def read_language(folder: Path, known: Mapping[str, TaskFunction]) -> ForeignTasks:
    """The requests of one language to the functions in `known`; others are passed over."""
    found = ForeignTasks(folder.name)
    for file in sorted(folder.glob("*.txt")):
        for key, lines in read_entries(file):
            if not key:
                found.strays += [text for mark, text, _ in lines if mark == "!"]
            elif key in known:
                asked = localised(known[key], lines, folder.name, file.name)
                found.functions.append((known[key], asked))
    return found


def read_entries(file: Path) -> Iterator[tuple[str, list[tuple[str, str, int]]]]:
    """The functions of a file with their lines (mark, text, number); first what is before any of them."""
    key, lines = "", []  # type: str, list[tuple[str, str, int]]
    for number, line in enumerate(file.read_text("utf-8").splitlines(), 1):
        mark, _, text = line.partition(" ")
        if not line.strip():
            continue
        if mark not in ("#", "-", ":", ">", "!"):
            raise ValueError(
                f"{file.name}:{number}: a line begins with #, -, :, > or !, not {line!r}"
            )
        if mark == "#":
            yield key, lines
            key, lines = text.strip(), []
        else:
            lines.append((mark, text.strip(), number))
    yield key, lines


def localised(
    function: TaskFunction, lines: Sequence[tuple[str, str, int]], language: str, file: str
) -> TaskFunction:
    """A function with the requests and values of a language; raises ValueError for a mistake."""
    own: dict[str, str] = {}
    for mark, text, _ in lines:
        if mark == "-":
            key, _, drawn = text.partition(" ")
            own[key] = drawn.strip()
    requests = [text for mark, text, _ in lines if mark == ">"]
    abouts = [each for mark, text, _ in lines if mark == ":" for each in split(text, "|")]
    near = [text for mark, text, _ in lines if mark == "!"]
    said = set(re.findall(r"\{(\w+)", " ".join(requests)))
    try:
        if lost := own.keys() - {p.key for p in function.parameters}:
            raise ValueError(f"{function.key} has no parameter {min(lost)!r}")
        parameters = [
            in_language(p, own.get(p.key, ""), language) if p.key in said else p
            for p in function.parameters
        ]
        asked = replace(
            function,
            parameters=parameters,
            requests=requests,
            near=near,
            abouts=tuple(abouts) or function.abouts,
        )
        check(asked)
    except ValueError as error:
        raise ValueError(f"{file}:{lines[0][2] if lines else 0}: {error}") from error
    return asked


def in_language(parameter: TaskParameter, own: str, language: str) -> TaskParameter:
    """A parameter whose values are those of a language."""
    if parameter.type == "boolean":
        return parameter
    if parameter.type == "enum":
        if not own and any(re.search("[a-z]{4}", value) for value in parameter.choices):
            raise ValueError(f"{parameter.key}: no words for its values")
        drawn = replace(parameter, generator=own or parameter.generator)
        if lost := drawn.choices.keys() - parameter.choices.keys():
            raise ValueError(f"{parameter.key} has no value {min(lost)!r}")
        return drawn
    drawn = replace(parameter, generator=own or localised_generator(parameter.generator, language))
    slots.make(Random(0), drawn.generator)
    return drawn


def localised_generator(generator: str, language: str) -> str:
    """The generator of a language for one of the English ones; raises ValueError if there is none."""
    head = "list " if generator.startswith("list ") else ""
    match = re.fullmatch(r"(\w+)(.*)", generator.removeprefix("list "))
    if not match or ";" in generator:
        numbers = all(
            re.fullmatch(r"[^a-z=]*|\w|[^\s=]*\d[^\s=]*|[A-Z][a-z]?[a-z]?", each)
            for each in generator.split(";")
        )
        if numbers or re.fullmatch(r"list [^a-z]+", generator):
            return generator
        raise ValueError(f"no values in {language} for {generator[:40]!r}")
    own = f"{language}_{match[1]}"
    if own in slots.GENERATORS:
        return f"{head}{own}{match[2]}"
    if match[1] in language_slots.ALIKE:
        return generator
    raise ValueError(f"no generator {own}")


class ForeignFilling(Filling):
    """Fills the slots of a template with values of its language."""

    articles = False
    language = "fr"

    def draw(self, parameter: TaskParameter, option: str | None) -> Slot:
        """As `Filling.draw`; of an enum only the words of the language are said."""
        key = parameter.key
        if parameter.type != "enum":
            slot = super().draw(parameter, option)
            if slot.style == "list":
                slot = replace(slot, surface=re.sub(r",? and ", AND[self.language], slot.surface))
                self.drawn[key] = slot
            return slot
        if key not in self.drawn:
            choices = parameter.choices
            free = [value for value in choices if ("enum", value) not in self.chosen]
            value = self.rng.choice(free or list(choices))
            self.chosen.add(("enum", value))
            surface = self.rng.choice(choices[value] or [value])
            self.drawn[key] = Slot(self.variant.enums[key][value], surface, "number")
        return self.drawn[key]


def draw_request(
    function: TaskFunction, variant: Variant, rng: Random, language: str
) -> tuple[str, dict[str, Any]] | None:
    """One request and the arguments it means; None if its values are always read otherwise than they are meant."""
    for _ in range(REDRAWN):
        template = rng.choice(function.requests)
        filling = ForeignFilling(function, variant, expand(template.lstrip("~ "), rng), rng)
        filling.language = language
        parts, loose = filling.fill()
        parts = elided(parts) if language == "fr" else parts
        values = {key: slot.value for key, slot in filling.drawn.items()}
        prompt = vary_style(parts, rng, language, loose=loose)
        arguments = settled(variant.tool, arrange(values, variant), prompt, filling)
        if arguments is not None:
            return prompt, arguments
    return None


def settled(
    tool: Mapping[str, Any], arguments: dict[str, Any], prompt: str, filling: Filling
) -> dict[str, Any] | None:
    """The arguments with dates and times as they are read from the request; None if a value is none of those."""
    spec = ToolSpec(tool["name"], parameters=tool["parameters"])
    if not has_readable(spec):
        return arguments
    changed, _ = SaidValues.of(prompt, NOW).narrow(spec)
    shown = {filling.variant.names[key]: slot for key, slot in filling.drawn.items()}
    properties = changed.parameters["properties"]
    for name, schema in properties.items():
        if name not in arguments or holds(schema, arguments[name]):
            continue
        if not isinstance(schema, Mapping) or SAID not in schema or name not in shown:
            return None
        words = shown[name].surface.lower()
        near = [
            value
            for value, said in zip(schema["enum"], schema[SAID], strict=True)
            if isinstance(value, str) and (said.lower() in words or words in said.lower())
        ]
        if len(set(near)) != 1:
            return None
        arguments[name] = near[0]
    return arguments


def elided(parts: list[tuple[str, bool]]) -> list[tuple[str, bool]]:
    """French drops a vowel before another: "d'Amiens", "l'école"."""
    found = list(parts)
    for at, ((before, is_value), (after, _)) in enumerate(pairwise(parts)):
        if not is_value and re.match(r"[aeiouyàâéèêîïôûœAEIOUÀÂÉÈÊÎÔ]", after):
            found[at] = re.sub(r"(?i)(?<!\w)(de|le|la|que|je|ne) $", shortened, before), False
    return found


def shortened(match: re.Match[str]) -> str:
    return match[1][:-1] + "'"


def vary_style(parts: list[tuple[str, bool]], rng: Random, language: str, *, loose: bool) -> str:
    """Add greetings, thanks, case, accents left out, punctuation and typos around the values."""
    parts = list(parts)
    ends_free = loose or (parts[-1][1] and not re.search(r"[\w\"'%»]$", parts[-1][0]))
    if rng.random() < 0.12:
        parts.insert(0, (rng.choice(BEFORE[language]), False))
    question = parts[-1][0].endswith("?")
    if not ends_free and not question:
        if rng.random() < 0.12:
            parts.append((rng.choice(AFTER[language]), False))
        if rng.random() < 0.25 and parts[-1][0][-1:] not in ".!?":
            parts.append((rng.choice("...!"), False))
    elif question and not parts[-1][1] and rng.random() < 0.15:
        parts[-1] = (parts[-1][0].rstrip("? \u00a0"), False)
    if rng.random() < 0.05 and (
        plain := [i for i, p in enumerate(parts) if not p[1] and len(p[0]) > 5]
    ):
        at = rng.choice(plain)
        parts[at] = (misspell(parts[at][0], rng), False)
    if rng.random() < 0.06:
        parts = [(text if slot else without_accents(text), slot) for text, slot in parts]
    if rng.random() < 0.08:
        parts = [(text if slot else text.replace("'", "\u2019"), slot) for text, slot in parts]
    if language == "fr" and rng.random() < SPACED:
        parts = [(text if slot else spaced(text), slot) for text, slot in parts]
    case = rng.random()
    if case < 0.2:
        parts = [(text if slot else text.lower(), slot) for text, slot in parts]
    elif case < 0.22:
        parts = [(text if slot else text.upper(), slot) for text, slot in parts]
    elif case < 0.8 and not parts[0][1]:
        first = parts[0][0]
        at = 1 if first[:1] in "¿¡" else 0
        parts[0] = (first[:at] + first[at : at + 1].upper() + first[at + 1 :], False)
    return "".join(text for text, _ in parts)


def spaced(text: str) -> str:
    """With the spaces that French puts before marks of two parts."""
    return re.sub(r"(?<!\s)([?!;:])(?=\s|$)", r" \1", text)


PLAIN = str.maketrans("àâäéèêëîïôöûùüçñáíóúÀÂÉÈÊÎÔÛÇ", "aaaeeeeiioouuucnaiouAAEEEIOUC")


def without_accents(text: str) -> str:
    """As people write who have no accents at hand."""
    return text.translate(PLAIN)
