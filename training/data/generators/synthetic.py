"""Made-up functions, new in every block: what can only be solved by reading the tool list."""

from __future__ import annotations

from random import Random

from training.data.generators import word_pools as w
from training.data.generators.association_tasks import draw_association_task
from training.data.generators.boolean_parameters import (
    draw_features,
    draw_filter,
    draw_flag_phrases,
    draw_state,
)
from training.data.generators.choices import draw_choice, draw_switch
from training.data.generators.formulas import draw_formula
from training.data.generators.typed_fields import draw_record
from training.data.scenes import draw_scene
from training.data.tasks import TaskFunction, TaskParameter

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
    ("number", ("num", "num", "small", "money", "percent", "big", "dollars")),
    ("integer", ("int(0,20)", "int(0,1000)", "wide", "wide", "many", "ordinal", "mins", "days")),
    ("integer", ("secs", "months", "days", "mins")),
    ("enum", ()),
    ("boolean", ()),
    ("[string]", ("list word 1 4", "list person 1 3", "list slug 2 4", "list filename 1 3")),
    ("[number]", ("list num 2 5", "list small 2 4")),
    ("[integer]", ("list int(0,99) 2 5",)),
    ("date", ("date", "isodate", "isodate")),
    ("string", ("isodate", "hhmm")),
    ("email", ("email",)),
)
KIND_WEIGHTS = (5, 4, 3, 4, 3, 1, 2, 2, 2.4, 1.6, 1.2, 1.2, 0.8, 0.4)


KIND_CHOICES = (("enum", ()), ("boolean", ()), ("string", ("word", "person", "slug", "id")))


def draw_value(rng: Random) -> str:
    """A value of an enum: a word, two words, a size, a format, a number with a letter."""
    word = w.any_word(rng).lower()
    return rng.choice(
        (
            word,
            word,
            word,
            f"{word}_{w.any_word(rng).lower()}",
            f"{word}-{w.any_word(rng).lower()}",
            f"{word}{rng.randint(1, 9)}",
            f"{rng.choice('ABCDMX')}{rng.randint(1, 99)}",
            f"{rng.choice((1, 2, 5, 10, 64, 480, 720))}{rng.choice(('p', 'k', 'x', 'h', 'gb'))}",
            word.capitalize(),
        )
    )


def draw_enum(rng: Random) -> tuple[str, bool]:
    """Values of an enum, and whether only a legend in the description gives their meaning."""
    values = list(dict.fromkeys(draw_value(rng) for _ in range(rng.choice((2, 2, 3, 3, 4, 5, 6)))))
    if len(values) < 2:
        values = ["on_request", "always"]
    if rng.random() < 0.3:
        meanings = list(dict.fromkeys(w.any_word(rng).lower() for _ in values))
        if len(meanings) == len(values) and not set(meanings).intersection(values):
            pairs = zip(values, meanings, strict=True)
            return ",".join(f"{value}={meaning}" for value, meaning in pairs), True
    return ",".join(values), False


def draw_parameter(
    rng: Random, taken: set[str], optional: bool, *, choices: bool = False
) -> TaskParameter:
    """A parameter with a made-up name."""
    while True:
        parts = [w.any_word(rng).lower() for _ in range(rng.choice((1, 1, 1, 2)))]
        name = "_".join(parts)
        if not taken.intersection(parts):
            break
    taken.update(parts)
    if choices:
        kind, generators = rng.choices(KIND_CHOICES, (5, 4, 1))[0]
    else:
        kind, generators = rng.choices(KINDS, KIND_WEIGHTS)[0]
    legend_only = False
    if kind == "enum":
        generator, legend_only = draw_enum(rng)
    else:
        generator = rng.choice(generators) if generators else ""
    spoken = name.replace("_", " ")
    about = rng.choice(
        (f"The {spoken}", f"{spoken.capitalize()} to use", f"{spoken} {w.any_word(rng)}")
    )
    if kind == "boolean":
        about = rng.choice((f"Whether to {spoken}", f"With {spoken}", f"Use {spoken}", about))
    return TaskParameter((name,), kind, generator, (about,), optional, legend_only=legend_only)


YES_NO = """with {}/without {}|with {}/with no {}|{} on/{} off|{}: yes/{}: no|{} = true/{} = false|{} too/no {}
and {}/but no {}|enable {}/disable {}|turn {} on/turn {} off|turn on {}/turn off {}|switch {} on/switch {} off
including {}/excluding {}|include {}/exclude {}|include the {}/leave out the {}|including the {}/except the {}
use {}/don't use {}|with the {}/skip the {}|I want {}/I don't want {}|{} allowed/{} not allowed
allow {}/forbid {}|allow {}/don't allow {}|keep the {}/drop the {}|make it {}/don't make it {}
it should be {}/it should not be {}|{} please/no {} please|{} enabled/{} disabled|do {}/do not {}
yes to {}/no to {}|plus {}/minus {}|{} is fine/{} is not needed|needs {}/doesn't need {}|{}/not {}|{}/no {}
set {} to true/set {} to false|{} active/{} inactive|show {}/hide {}|add {}/never add {}""".replace(
    "\n", "|"
).split("|")


def ask(parameter: TaskParameter, rng: Random) -> str:
    """How a request mentions one parameter."""
    key = parameter.key
    name = key.replace("_", " ")
    if parameter.type == "boolean":
        yes, no = rng.choice(YES_NO).format(name, name).split("/")
        return f"{{{key}:{yes}/{no}}}"
    if parameter.type == "enum":
        forms = (
            f"{name} {{{key}}}",
            f"{{{key}}} {name}",
            f"{{{key}}}",
            f"in {{{key}}}",
            f"as {{{key}}}",
            f"the {{{key}}} one",
            f"make it {{{key}}}",
            f"{name}: {{{key}}}",
            f"with {{{key}}} {name}",
            f"use {{{key}}}",
            f"{{{key}}} as {name}",
            f"the {name} should be {{{key}}}",
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


PAIRS = (
    (
        "move ship carry send drive",
        "from to",
        "from {a} to {b}|to {b} from {a}|{a} -> {b}|out of {a} into {b}",
    ),
    (
        "replace swap exchange",
        "old new",
        "{a} by {b}|{a} with {b}|{a} for {b}|{a}, take {b} instead",
    ),
    (
        # Who swaps one thing for another gives away the first; who substitutes it puts it in.
        "substitute",
        "old new",
        "{a} by {b}|{a} with {b}|{b} for {a}|{a}, take {b} instead",
    ),
    (
        "rename change turn convert",
        "current_name new_name",
        "{a} to {b}|{a} into {b}|from {a} to {b}",
    ),
    ("compare match relate", "first second", "{a} with {b}|{a} and {b}|{a} to {b}|{a} against {b}"),
    ("lend give hand sell", "item recipient", "{a} to {b}|{b} the {a}|{a} over to {b}"),
    ("link connect join attach tie", "source target", "{a} to {b}|{a} with {b}|{a} and {b}"),
    ("put store place hide keep", "thing place", "{a} in {b}|{a} into {b}|into {b} {a}"),
    ("call label mark tag", "thing label", "{a} {b}|{a} as {b}|{a} with the word {b}"),
)
PAIR_KINDS = ("word", "slug", "person", "city", "filename", "text", "id", "product", "path", "num")
OTHER_NAMES = {
    "from": "from/source/origin/start", "to": "to/destination/target/end", "old": "old/before/find/original",
    "new": "new/after/replacement/with_value", "current_name": "current_name/old_name/source_name",
    "new_name": "new_name/target_name/to_name", "first": "first/a/left/x", "second": "second/b/right/y",
    "item": "item/object/what", "recipient": "recipient/to/receiver/who", "source": "source/from_node/origin",
    "target": "target/to_node/endpoint", "thing": "thing/object/what", "place": "place/where/location",
    "label": "label/mark/text",
}  # fmt: skip


def draw_pair_function(rng: Random) -> TaskFunction:
    """A function of two values of one type, distinguished by prepositions alone."""
    verbs, keys, ways = rng.choice(PAIRS)
    verb, noun = rng.choice(verbs.split()), w.any_word(rng).lower()
    a, b = keys.split()
    kind = rng.choice(PAIR_KINDS)
    parameters = [
        TaskParameter(
            tuple(OTHER_NAMES[key].split("/")),
            "number" if kind == "num" else "string",
            kind,
            (f"{key.replace('_', ' ').capitalize()} {noun}",),
            False,
        )
        for key in (a, b)
    ]
    if rng.random() < 0.4:
        parameters.append(draw_parameter(rng, {verb, noun, a, b}, True, choices=True))
    function = TaskFunction(
        noun,
        (f"{verb}_{noun}", f"{verb}_{noun}s"),
        (
            f"{verb.capitalize()} one {noun} {ways.split('|')[0].format(a='the first', b='the second')}.",
        ),
        parameters,
    )
    thing = rng.choice(("", "", f"the {noun} ", f"{noun} "))
    for way in ways.split("|"):
        tail = f" [, {ask(parameters[2], rng)}]" if len(parameters) > 2 else ""
        said = way.replace("{a}", f"{{{a}}}").replace("{b}", f"{{{b}}}")
        function.requests.append(f"{verb} {thing}{said}{tail}")
    return function


NATURAL = {
    draw_scene: 7.0,
    draw_formula: 1.5,
    draw_choice: 3.5,
    draw_switch: 1.0,
    draw_record: 1.5,
    draw_state: 1.0,
    draw_filter: 1.2,
    draw_features: 1.2,
    draw_flag_phrases: 1.2,
    draw_association_task: 4.0,
}  # with the weight of each


def draw_natural(rng: Random) -> TaskFunction:
    """A made-up function of real quantities, choices, switches, fields of different kinds or of one."""
    return rng.choices(list(NATURAL), list(NATURAL.values()))[0](rng)


def draw_function(rng: Random) -> TaskFunction:
    """A made-up function of one of many families."""
    luck = rng.random()
    if luck < 0.6:
        return draw_natural(rng)
    if luck < 0.7:
        return draw_pair_function(rng)
    return draw_random_words(rng, choices=luck < 0.84)


def draw_random_words(rng: Random, *, choices: bool) -> TaskFunction:
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
    share = 0.5 if choices else 0.3
    parameters = [
        draw_parameter(rng, taken, rng.random() < share, choices=choices) for _ in range(count)
    ]
    function = TaskFunction(w.any_word(rng).lower(), (name,), abouts, parameters)
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
