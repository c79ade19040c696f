"""How a function is presented: names, descriptions, values and order, drawn for every list."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

from training.data.generators import slots
from training.data.long_descriptions import document_parameter, document_tool
from training.data.tasks import FORMATS, TaskFunction, TaskParameter


@dataclass(frozen=True, slots=True)
class Variant:
    """A function as one tool block shows it: names, wording and order drawn at random."""

    function: Any
    tool: dict[str, Any]
    names: dict[str, str]  # parameter key -> name shown
    enums: dict[str, dict[str, Any]]  # parameter key -> canonical value -> value shown
    groups: dict[str, str] = field(default_factory=dict)  # parameter key -> object it is in
    as_worded: frozenset[str] = frozenset()  # parameters whose values nothing asks to normalise


def restyle(name: str, style: str, domain: str) -> str:
    """Write a snake_case name in another style."""
    parts = name.split("_")
    if style == "camel":
        return parts[0] + "".join(part.capitalize() for part in parts[1:])
    if style == "pascal":
        return "".join(part.capitalize() for part in parts)
    if style == "kebab":
        return "-".join(parts)
    if style == "dotted":
        return f"{domain}.{name}"
    if style == "dotted_camel":
        return f"{domain}.{restyle(name, 'camel', domain)}"
    if style == "prefixed":
        return f"{domain}_{name}"
    if style == "fn":
        return f"fn_{name}"
    return name


STYLES = ["snake"] * 10 + ["camel"] * 4 + ["pascal", "kebab", "dotted", "dotted_camel"]
STYLES += ["dotted", "prefixed", "fn"]


@dataclass(frozen=True, slots=True)
class BlockStyle:
    """What the tools of one block tend to share: naming and how much is described."""

    names: str
    describe_tool: float
    describe_parameter: float
    wordy: bool = False  # described at length, as documentation does
    listed: float = 0.0  # share of the choices whose values only the description lists
    keeps_legends: bool = False  # no group hides a description that a value needs

    @classmethod
    def draw(cls, rng: Random) -> BlockStyle:
        describe = rng.choice((0.0, 0.4, 1.0, 1.0))
        return cls(rng.choice(STYLES), rng.choice((0.6, 0.9, 1.0, 1.0)), describe)


def scalar_schema(kind: str, rng: Random) -> dict[str, Any]:
    """Schema of a non-enum type."""
    if kind.startswith("["):
        return {"type": "array", "items": scalar_schema(kind[1:-1], rng)}
    if kind in FORMATS:
        return {"type": "string", "format": kind} if rng.random() < 0.6 else {"type": "string"}
    return {"type": kind}


LEGENDS = (
    ("'{}' for {}", ", "),
    ("{} = {}", ", "),
    ("{}: {}", "; "),
    ("{} ({})", ", "),
    ("{} means {}", ", "),
    ('"{}" for {}', " and "),
)


def write_legend(shown: dict[str, Any], meaning: dict[str, str], rng: Random) -> str:
    """Say what each value of an enum stands for."""
    form, joint = rng.choice(LEGENDS)
    return joint.join(form.format(shown[value], meaning[value]) for value in shown)


# Schemas of strings that list their values in words: the rest of a sentence, and what joins the values.
LISTINGS = (
    ("Options: {}", ", ", ", "),
    ("One of {}", ", ", " or "),
    ("Must be one of: {}", ", ", ", "),
    ("Possible values: {}", ", ", " and "),
    ("Possible values are {}", ", ", ", and "),
    ("Can be {}", ", ", " or "),
    ("Either {}", ", ", " or "),
    ("({})", " or ", " or "),
    ("{}", " | ", " | "),
    ("Choices: {}", "/", "/"),
)


def write_listing(shown: dict[str, Any], meaning: dict[str, str], rng: Random) -> str:
    """List the values of a choice, some with what they stand for."""
    form, joint, last = rng.choice(LISTINGS)
    quote = rng.choice(("'", "'", '"', "`")) if "/" in joint + last or rng.random() < 0.7 else ""
    has_meanings = quote and rng.random() < 0.3
    values = [
        f"{quote}{value}{quote}"
        + (f" ({meaning[key]})" if has_meanings and meaning.get(key) else "")
        for key, value in shown.items()
    ]
    return form.format(f"{joint.join(values[:-1])}{last}{values[-1]}")


def draw_codes(values: list[str], rng: Random) -> dict[str, Any] | None:
    """Codes for the values of an enum: initials, numbers or letters; what they mean is not in them."""
    initials = [value[0].lower() for value in values]
    kind = rng.choice(("initials", "initials", "numbers", "letters"))
    if kind == "numbers":
        first = rng.choice((0, 1, 1))
        return {value: first + index for index, value in enumerate(values)}
    if kind == "initials" and len(set(initials)) == len(initials):
        case = rng.choice((str, str.upper))
        return {value: case(letter) for value, letter in zip(values, initials, strict=True)}
    if kind == "letters" and len(values) < 6:
        return {value: "ABCDE"[index] for index, value in enumerate(values)}
    return None


def show_enum(
    parameter: TaskParameter, rng: Random, case: Callable[[str], str], listed: float = 0.0
) -> tuple[dict[str, Any], dict[str, Any], str]:
    """Draw how the values of an enum are written, and a legend where they do not speak for themselves.

    A share of `listed` becomes strings whose values only the legend lists.
    """
    choices = parameter.choices
    values = list(choices)
    if rng.random() < 0.3:
        rng.shuffle(values)
    legend = ""
    luck = rng.random()
    codes = draw_codes(values, rng) if luck < 0.07 and not parameter.literal else None
    if parameter.legend_only:
        shown = {value: value for value in values}
        legend = write_legend(shown, {value: choices[value][0] for value in values}, rng)
    elif codes:
        shown = codes
        legend = write_legend(codes, {value: value.replace("_", " ") for value in values}, rng)
    elif luck < 0.15 and all(choices.values()):
        shown = {value: choices[value][0] for value in values}
    else:
        shown = {value: case(value) if value == value.lower() else value for value in values}
        if luck > 0.8 and all(choices.values()):
            legend = write_legend(shown, {v: rng.choice(choices[v]) for v in values}, rng)
    kind = "integer" if isinstance(shown[values[0]], int) else "string"
    shown = {value: shown[value] for value in values}
    if (
        listed
        and kind == "string"
        and not codes
        and not parameter.legend_only
        and rng.random() < listed
    ):
        meaning = {value: rng.choice(words) for value, words in choices.items() if words}
        return {"type": kind}, shown, write_listing(shown, meaning, rng)
    return {"type": kind, "enum": list(shown.values())}, shown, legend


# Legends of a boolean: the wordings of true and of false.
POLES = (
    "true {}, false {}",
    "true for {}, false for {}",
    "true = {}, false = {}",
    "true: {}; false: {}",
    "{} if true, {} if false",
    "{} (true) or {} (false)",
    "true means {}, false {}",
    "{} when true, otherwise {}",
)
TOLD = 0.3  # share of the switches whose description says what true and false mean
POLES_TURNED = ("false {1}, true {0}", "false: {1}, true: {0}", "{1} if false, {0} if true")


def write_poles(function: TaskFunction, key: str, rng: Random) -> str:
    """Say what the two values of a boolean stand for, in words of a request; empty if none has both."""
    said = [
        pair
        for request in function.requests
        for pair in re.findall(r"\{" + key + r":([^{}/]+)/([^{}/]+)\}", request)
    ]
    if not said:
        return ""
    form = rng.choice(POLES if rng.random() < 0.75 else POLES_TURNED)
    bare = (re.sub(r"^(and|but|plus) ", "", words.strip(" ,.()[]")) for words in rng.choice(said))
    return form.format(*bare)


# Values that differ from their wording: the pattern in a schema that explains it, and an explanation to add.
HINTS = {
    "isodate": (r"yyyy|\biso\b|\bformat\b", "(YYYY-MM-DD)", 0.75),
    "hhmm": (r"hh:mm|24", "(HH:MM, 24 hours)", 0.75),
    "mins": (r"min", "in minutes", 1.0),
    "days": (r"day", "in days", 1.0),
    "secs": (r"sec", "in seconds", 1.0),
    "months": (r"month", "in months", 1.0),
    "fraction": (r"fraction|decimal|between 0 and 1|0\.\d", "as a decimal fraction", 1.0),
}


def is_explained(parameter: TaskParameter, shown: str, schema: dict[str, Any]) -> bool:
    """Whether a schema explains the format of a value, or the format needs no explanation."""
    generator = form_of(parameter)
    if generator not in HINTS or schema.get("format") in ("date", "time"):
        return True
    pattern = HINTS[generator][0]
    return bool(re.search(pattern, f"{shown} {schema.get('description', '')}".lower()))


def form_of(parameter: TaskParameter) -> str:
    """Generator of a parameter's values, or of those in its list."""
    return parameter.generator.removeprefix("list ").partition("(")[0].partition(" ")[0]


def explain_formats(
    shown: Sequence[tuple[TaskParameter, str, dict[str, Any]]], rng: Random
) -> set[str]:
    """Explain the formats of values in their schemas; where that is left out, pass values as worded.

    Values of one format are explained together or not at all. Returns the keys of those to pass as worded.
    """
    as_worded: set[str] = set()
    decided: dict[str, bool] = {}
    for parameter, name, schema in shown:
        form = form_of(parameter)
        if form in HINTS and is_explained(parameter, name, schema):
            decided[form] = True
    for parameter, name, schema in shown:
        if is_explained(parameter, name, schema):
            continue
        form = form_of(parameter)
        pattern, words, share = HINTS[form]
        if parameter.type != "string":
            explained = True
        else:
            explained = decided.setdefault(form, rng.random() <= share)
        if not explained:
            as_worded.add(parameter.key)
            continue
        about = schema.get("description") or (
            rng.choice(parameter.abouts) if parameter.abouts else name
        )
        if not re.search(pattern, about.lower()):
            about = f"{about.rstrip('.')} {words}"
        schema["description"] = about
    return as_worded


DEFAULTS = (
    " (default {})",
    " (default: {})",
    ". Default is {}.",
    ", {} by default",
    ". Defaults to {}",
)
EXAMPLES = (", e.g. {}", " (e.g. '{}')", ", like '{}'", ', for example "{}"', ", such as {}")


def draw_default(parameter: TaskParameter, schema: dict[str, Any], rng: Random) -> str:
    """Draw the default of a scalar for its description; empty for types without one.

    It is never written into a call: what a request does not mention is left out.
    """
    if "enum" in schema:
        return str(rng.choice(schema["enum"]))
    if parameter.type == "boolean":
        return rng.choice(("false", "False", "true"))
    if parameter.type in ("integer", "number"):
        return str(slots.make(rng, parameter.generator).value)
    return ""


def draw_example(parameter: TaskParameter, rng: Random) -> str:
    """Draw an example for a description, which no request asks for."""
    value = str(slots.make(rng, parameter.generator).value)
    is_plain = form_of(parameter) not in HINTS and 0 < len(value) < 40 and value.isprintable()
    return rng.choice(EXAMPLES).format(value) if is_plain else ""


def phrase_about(parameter: TaskParameter, about: str, schema: dict[str, Any], rng: Random) -> str:
    """Describe a parameter, as briefly or as long-winded as documentation does."""
    luck = rng.random()
    if (
        luck < 0.12
        and parameter.type != "boolean"
        and not re.match(
            r"(The|An?|How|Wh\w+|At|In|Only|Up|From|To|On|With|For|By|Between|Beside|Not|Also|As|Keep)\b",
            about,
        )
    ):
        about = f"The {about[0].lower()}{about[1:]}" if about[1:2].islower() else f"The {about}"
    elif luck < 0.2:
        about = about.lower()
    default = draw_default(parameter, schema, rng) if parameter.optional else ""
    if default and "efault" not in about and rng.random() < 0.12:
        about = about.rstrip(".") + rng.choice(DEFAULTS).format(default)
    elif parameter.optional and "efault" not in about and rng.random() < 0.15:
        about += rng.choice((" (optional)", ". Optional.", ", optional", ". Defaults to None."))
    elif parameter.type == "string" and rng.random() < 0.08:
        about = f"{about.rstrip('.')}{draw_example(parameter, rng)}"
    elif "enum" in schema and rng.random() < 0.12:
        about += f" ({rng.choice((', ', ' or ', ' / ')).join(map(str, schema['enum']))})"
    elif schema.get("type") == "array" and rng.random() < 0.1:
        about = f"{rng.choice(('List of', 'Array with', 'A list:'))} {about[0].lower()}{about[1:]}"
    return about + "." if rng.random() < 0.15 and about[-1].isalnum() else about


GROUPS = [
    "options",
    "details",
    "params",
    "settings",
    "data",
    "info",
    "filter",
    "query",
    "payload",
    "config",
    "attributes",
    "item",
]


def needs_description(
    written: Sequence[tuple[TaskParameter, str, dict[str, Any]]],
    enums: dict[str, dict[str, Any]],
    as_worded: set[str],
) -> set[str]:
    """Names of parameters that need their descriptions to be understood: fields of a group are rendered without."""
    found = set()
    for parameter, name, schema in written:
        if parameter.key in enums:
            shown = enums[parameter.key].items()
            coded = any(
                not isinstance(v, str) or (len(v) == 1 and v.lower() != k.lower()) for k, v in shown
            )
            leans = coded or parameter.legend_only or "enum" not in schema
        else:
            kept = {key: schema[key] for key in ("format",) if key in schema}
            leans = parameter.key not in as_worded and not is_explained(parameter, name, kept)
        if leans:
            found.add(name)
    return found


def draw_group(schema: dict[str, Any], rng: Random, apart: Collection[str] = ()) -> str | None:
    """Move neighbouring parameters into one nested object, and name it; None if one of `apart` is among them."""
    names = list(schema["properties"])
    size = rng.randint(2, len(names) - 1)
    start = rng.randint(0, len(names) - size)
    inside = names[start : start + size]
    group = rng.choice(GROUPS)
    if group in names or not set(inside).isdisjoint(apart):
        return None
    needed = [name for name in inside if name in schema["required"]]
    nested = {name: schema["properties"][name] for name in inside}
    properties: dict[str, Any] = {}
    for name in names:
        if name == inside[0]:
            properties[group] = {"type": "object", "properties": nested, "required": needed}
        if name not in inside:
            properties[name] = schema["properties"][name]
    schema["required"] = [n for n in schema["required"] if n not in inside]
    schema["required"] += [group] if needed else []
    schema["properties"] = properties
    return group


KIN = 0.8  # share of the functions whose parameters have names, and descriptions, of one family


@dataclass(frozen=True, slots=True)
class Family:
    """Which of their names and descriptions the parameters of a function take: if one end of a line is `x1`,
    the other is `x2` and not `bx`."""

    name: int | None  # the n-th of each that has so many; None: each its own
    about: int | None

    @classmethod
    def draw(cls, rng: Random) -> Family:
        """The first name is the likeliest."""
        name = 0 if rng.random() < 0.4 else rng.randrange(5)
        about = rng.randrange(4)
        return cls(*(which if rng.random() < KIN else None for which in (name, about)))

    @staticmethod
    def pick(options: Sequence[str], which: int | None, rng: Random, first: float) -> str:
        """The family's among `options`, or else the first with a chance of `first`, or any."""
        if which is not None and which < len(options):
            return options[which]
        return options[0] if rng.random() < first else rng.choice(options)


def draw_variant(function: TaskFunction, rng: Random, style: BlockStyle) -> Variant:
    """Draw names, descriptions and order of a function."""
    names_style = style.names if rng.random() < 0.8 else rng.choice(STYLES)
    name = function.names[0] if rng.random() < 0.5 else rng.choice(function.names)
    tool: dict[str, Any] = {"name": restyle(name, names_style, function.domain)}
    if rng.random() < style.describe_tool:
        about = rng.choice(function.abouts)
        tool["description"] = about if rng.random() < 0.7 else about.rstrip(".")
        if rng.random() < 0.03:
            tool["name"] = f"{rng.choice(('fn', 'tool', 'f', 'action'))}_{rng.randint(1, 99)}"
    parameters = list(function.parameters)
    if rng.random() < 0.25:
        rng.shuffle(parameters)
    names: dict[str, str] = {}
    enums: dict[str, dict[str, Any]] = {}
    properties: dict[str, Any] = {}
    required = []
    written: list[tuple[TaskParameter, str, dict[str, Any]]] = []
    case = rng.choice((str, str, str, str.upper, str.capitalize))
    family = Family.draw(rng)
    for parameter in parameters:
        shown = family.pick(parameter.names, family.name, rng, 0.5)
        if names_style in ("camel", "pascal", "dotted_camel"):
            shown = restyle(shown, "camel", "")
        if shown in properties:
            shown = parameter.key
        legend = ""
        if parameter.type == "enum":
            schema, enums[parameter.key], legend = show_enum(parameter, rng, case, style.listed)
        else:
            schema = scalar_schema(parameter.type, rng)
            if parameter.type == "boolean" and rng.random() < TOLD:
                legend = write_poles(function, parameter.key, rng)
        if legend and parameter.type == "boolean" and rng.random() < 0.4:
            schema["description"] = legend
        elif legend:
            about = rng.choice(parameter.abouts).rstrip(".") if parameter.abouts else shown
            schema["description"] = f"{about}{rng.choice((': ', '. ', ' - '))}{legend}"
        elif parameter.abouts and rng.random() < style.describe_parameter:
            about = family.pick(parameter.abouts, family.about, rng, 0.0)
            schema["description"] = phrase_about(parameter, about, schema, rng)
        written.append((parameter, shown, schema))
        names[parameter.key] = shown
        properties[shown] = schema
        if not parameter.optional:
            required.append(shown)
    as_worded = explain_formats(written, rng)
    schema = {"type": "object", "properties": properties, "required": required}
    if style.wordy:
        document_tool(tool, function.abouts, function.domain, rng)
        for parameter, _, shown_schema in written:
            document_parameter(shown_schema, parameter.abouts, rng, optional=parameter.optional)
    grouped = len(properties) > 2 and rng.random() < 0.05
    apart = (
        needs_description(written, enums, as_worded) if grouped and style.keeps_legends else set()
    )
    group = draw_group(schema, rng, apart) if grouped else None
    tool["parameters"] = schema
    inside = schema["properties"][group]["properties"] if group else {}
    groups = {key: group for key, shown in names.items() if group and shown in inside}
    return Variant(function, tool, names, enums, groups, frozenset(as_worded))
