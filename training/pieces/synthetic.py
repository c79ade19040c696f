"""Made-up functions, new in every block: what can only be solved by reading the tool list."""

from __future__ import annotations

from random import Random

from training.pieces import words as w
from training.pieces.tasks import Function, Parameter

KINDS = (
    ("string", ("word", "word", "text", "phrase", "sentence", "person", "city", "path", "url")),
    (
        "string",
        ("email", "id", "slug", "title", "day", "time", "regex", "template", "code", "food"),
    ),
    (
        "string",
        ("topic", "product", "company", "host", "filename", "folder", "phone", "sql", "date"),
    ),
    ("number", ("num", "small", "money", "percent")),
    ("integer", ("int(0,20)", "int(0,1000)", "wide")),
    ("enum", ()),
    ("boolean", ()),
    ("[string]", ("list word 1 4", "list person 1 3", "list slug 2 4", "list filename 1 3")),
    ("[number]", ("list num 2 5", "list small 2 4")),
    ("[integer]", ("list int(0,99) 2 5",)),
    ("date", ("date",)),
    ("email", ("email",)),
)
KIND_WEIGHTS = (5, 4, 3, 4, 3, 2, 2, 1.2, 0.8, 0.6, 0.5, 0.4)


def draw_parameter(rng: Random, taken: set[str], optional: bool) -> Parameter:
    """A parameter with a made-up name."""
    while True:
        parts = [w.any_word(rng).lower() for _ in range(rng.choice((1, 1, 1, 2)))]
        name = "_".join(parts)
        if not taken.intersection(parts):
            break
    taken.update(parts)
    kind, generators = rng.choices(KINDS, KIND_WEIGHTS)[0]
    if kind == "enum":
        generator = ",".join({w.any_word(rng).lower() for _ in range(rng.randint(2, 5))})
    else:
        generator = rng.choice(generators) if generators else ""
    spoken = name.replace("_", " ")
    about = rng.choice(
        (f"The {spoken}", f"{spoken.capitalize()} to use", f"{spoken} {w.any_word(rng)}")
    )
    return Parameter((name,), kind, generator, (about,), optional)


def ask(parameter: Parameter, rng: Random) -> str:
    """How a request mentions one parameter."""
    key = parameter.key
    name = key.replace("_", " ")
    if parameter.type == "boolean":
        forms = (
            f"{{{key}:with {name}/without {name}}}",
            f"{name} {{{key}:on/off}}",
            f"{name} {{{key}:yes/no}}",
            f"{name} = {{{key}:true/false}}",
        )
    else:
        forms = (
            f"{name} {{{key}}}",
            f"with {name} {{{key}}}",
            f"{{{key}}} as {name}",
            f"the {name} is {{{key}}}",
            f"{name}: {{{key}}}",
            f"{name} set to {{{key}}}",
            f"{{{key}}} for the {name}",
        )
    return rng.choice(forms)


def draw_function(rng: Random) -> Function:
    """A function out of random words, with requests that use some of them."""
    verb, noun = rng.choice(w.VERBS), w.any_word(rng).lower()
    if rng.random() < 0.25:
        verb = w.invented(rng)
    adjective, other = rng.choice(w.ADJECTIVES), rng.choice(w.NOUNS)
    name = rng.choice(
        (f"{verb}_{noun}", f"{verb}_{noun}", f"{noun}_{verb}", f"{verb}_{adjective}_{noun}")
    )
    abouts = (
        f"{verb.capitalize()} the {adjective} {noun} of a {other}.",
        f"{verb.capitalize()} a {noun}",
        f"Used to {verb} {adjective} {noun}s for the {other}, {w.any_word(rng)} included.",
        f"{verb}s {noun}",
    )
    taken: set[str] = {verb, noun}
    count = rng.choices((0, 1, 2, 3, 4, 5), (1, 8, 10, 6, 3, 1))[0]
    parameters = [draw_parameter(rng, taken, rng.random() < 0.3) for _ in range(count)]
    function = Function(w.any_word(rng).lower(), (name,), abouts, parameters)
    thing = rng.choice((noun, f"the {noun}", f"the {adjective} {noun}", f"a {noun}"))
    for _ in range(3):
        said = [p for p in parameters if not p.optional or rng.random() < 0.5]
        rng.shuffle(said)
        parts = [ask(p, rng) for p in said]
        joined = rng.choice((", ", " and ", ", ")).join(parts)
        options = [
            f"{verb} {thing} {joined}",
            f"~{noun} {verb}: {joined}",
            f"~{joined}: {verb} {thing}",
        ]
        if said and said[0].type != "boolean":
            rest = rng.choice((", ", " with ")).join(["", *parts[1:]])
            lead = f"{{{said[0].key}}}"
            if len(said) == 1 or sum(p.type == said[0].type for p in parameters) == 1:
                options += [f"{verb} {thing} {lead}{rest}", f"{verb} {lead}{rest}"] * 2
        if not said:
            options = [f"{verb} {thing}", f"~{noun}, {verb} it", f"I want {thing} to {verb}"]
        function.requests.append(rng.choice(options))
    return function
