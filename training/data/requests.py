"""Requests: a template filled with values, then varied as people vary in writing."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from random import Random
from typing import Any

from training.data.generators import slots
from training.data.generators.slots import Slot
from training.data.openings import NO_VERB, reword
from training.data.tasks import TaskFunction, TaskParameter, as_type
from training.data.variants import Variant

BEFORE_VERB = (
    "please ",
    "can you ",
    "could you ",
    "could you please ",
    "I need you to ",
    "I'd like you to ",
    "I want to ",
    "I need to ",
    "I would like to ",
    "would you ",
    "help me ",
    "go ahead and ",
    "just ",
    "kindly ",
    "now ",
    "let's ",
    "I was wondering if you could ",
    "would it be possible to ",
    "any chance you could ",
    "it would be great if you could ",
    "do me a favor and ",
    "I have to ",
    "we need to ",
    "I'm trying to ",
    "your task: ",
)
ASKING = ("can you", "could you", "would you", "would it be", "any chance")
BEFORE_SERVICE = ("please ", "can you ", "could you ", "could you please ", "would you ", "kindly ")
BEFORE_ANY = ("hey, ", "hi! ", "hello, ", "ok, ", "quick one: ", "um, ", "so, ", "also, ", "well, ")
AFTER = (
    " please",
    ", please",
    ", thanks",
    " thanks",
    " for me",
    " if you can",
    " right now",
    " asap",
)
LEADS = """I'm in a hurry.|Quick question for you.|My boss just asked me about this.|I hope you can help me with this.
I've been putting this off all week.|We talked about it at lunch.|Sorry to bother you again.|I'm not good at this kind of thing.
There's one more thing.|I was thinking about this on the way home.|My phone is almost dead so I'll be brief.|Thanks for earlier!
It's late and I'm tired.|I'm preparing something for work.|My neighbour told me to ask you.|Good morning!|Good evening.|Back again.
I can't find it anywhere.|We have guests soon.|I'm on my way out.|Let me think.|Right, next thing.|I tried this myself and failed.
My colleague is sick, so this is on me now.|The kids keep asking.|Somebody has to do it.|This is for a friend.|First things first.
I always mix this up.|My teacher wants to know.|I'm writing a report.|Just checking something.|Here's what I need.|OK here goes.
I'm new here.|Finally some free time.|It's been a long day.|You've been a great help so far.|Nobody else could tell me.""".replace(
    "\n", "|"
).split("|")
TAILS = """I need it for a report.|It's for my homework.|Thank you so much.|No rush.|It's important.|I'm really curious.|Thanks in advance!
I'd appreciate it.|My team is waiting for it.|Just so I know.|I keep forgetting.|That would help a lot.|Cheers!|We talked about it before.""".replace(
    "\n", "|"
).split("|")
QUOTES = ("''", '""', "''", '""', "''", '""', "“”", "``", "«»", "‘’")


def expand(template: str, rng: Random, often: str = "", keep: float = 0.5) -> str:
    """Choose among `(a|b)` and keep or drop `[parts]`, innermost first.

    Parts in which the pattern `often` is found are included more often than others.
    """
    inner = re.compile(r"\(([^()\[\]]*\|[^()\[\]]*)\)|\[((?:[^()\[\]]|\([^()|\[\]]*\))*)\]")
    while match := inner.search(template):
        if match[1] is not None:
            put = rng.choice(match[1].split("|"))
        else:
            rare = often and re.search(often, match[2])
            put = match[2] if rng.random() < (0.75 if rare else keep) else ""
        template = template[: match.start()] + put + template[match.end() :]
    template = re.sub(r" {2,}", " ", template).strip()
    return re.sub(r" ([,.?!;:])(?=\s|$)", r"\1", template)


def quoted(text: str, rng: Random) -> str:
    """Put quotes around, of a kind that the text does not contain."""
    fitting = [pair for pair in QUOTES if pair[0] not in text and pair[1] not in text]
    opening, closing = rng.choice(fitting or ['""'])
    return opening + text + closing


def quote_slot(slot: Slot, rng: Random, *, last: bool, marked: bool) -> str:
    """Decide on quotes: free text in the middle of a request needs them."""
    if slot.style in ("number", "list") or marked:
        return slot.surface
    chance = {"text": 0.5 if last else 0.93, "word": 0.4, "bare": 0.13}[slot.style]
    return quoted(slot.surface, rng) if rng.random() < chance else slot.surface


def draw_slot(
    parameter: TaskParameter,
    wording: str | None,
    variant: Variant,
    rng: Random,
    known: Slot | None = None,
    length: int | None = None,
    *,
    fenced: bool = False,
) -> Slot:
    """Draw a value for one parameter, the same one wherever the request repeats it."""
    if parameter.type == "boolean":
        yes, _, no = (wording or parameter.key).partition("/")
        value = known.value if known else bool(yes) and (not no or rng.random() < 0.5)
        return Slot(value, yes if value else no, "number")
    if known:
        return known
    if parameter.type == "enum":
        choices = parameter.choices
        value = rng.choice(list(choices))
        shown = variant.enums[parameter.key][value]
        surface = rng.choice([value, value, *choices[value]])
        coded = not isinstance(shown, str) or (len(shown) == 1 and shown.lower() != value.lower())
        if coded and rng.random() < 0.8:
            surface = value  # the wording of the legend
        if parameter.legend_only:
            surface = choices[value][0] if rng.random() < 0.6 else value
        elif isinstance(shown, str) and len(shown) > 2 and rng.random() < 0.3:
            surface = shown.lower()
        return Slot(shown, surface.replace("_", " "), "number")
    slot = slots.make(rng, parameter.generator, length, fenced=fenced)
    value = slot.surface if parameter.key in variant.as_worded else slot.value
    return Slot(as_type(value, parameter.type), slot.surface, slot.style)


def with_article(before: str, surface: str) -> str:
    """Turn "a" before a value into "an", or back, as the value wants it."""
    match = re.search(r"(?:^|\s)(an?)\s$", before, re.IGNORECASE)
    if not match or not surface[:1].isalpha():
        return before
    first = surface.split(maxsplit=1)[0]
    spelled = first.isupper() and len(first) < 6
    vowels = "AEFHILMNORSX" if spelled else "AEIOUaeiou"
    vowel = surface[0] in vowels
    if re.match(r"(?i)uni|use|usu|eu|one\b|once|ura|ukr", surface) and not spelled:
        vowel = False
    at = match.start(1)
    return f"{before[:at]}{match[1][0]}{'n' if vowel else ''} "


def misspell(text: str, rng: Random) -> str:
    """Swap, drop or double a letter of a word."""
    spots = [m.start() for m in re.finditer(r"(?<=[a-z])[a-z](?=[a-z])", text)]
    if not spots:
        return text
    at = rng.choice(spots)
    return rng.choice(
        (
            text[:at] + text[at + 1 :],
            text[:at] + text[at] + text[at:],
            text[: at - 1] + text[at] + text[at - 1] + text[at + 1 :],
        )
    )


def vary_style(parts: list[tuple[str, bool]], rng: Random, imperative: bool, loose: bool) -> str:
    """Add greetings, thanks, case, punctuation and typos around the slots.

    `loose`: the request ends with free text without quotes, to which nothing can be added.
    """
    asking = False
    if imperative and rng.random() < 0.4:
        served = re.match(r"(give|tell|show|get|let|make|help|find) (me|us)\b", parts[0][0])
        before = rng.choice(BEFORE_SERVICE if served else BEFORE_VERB)
        asking = before.strip().startswith(ASKING)
        parts.insert(0, (before, False))
    if rng.random() < 0.07:
        parts.insert(0, (rng.choice(BEFORE_ANY), False))
    ends_free = loose or (parts[-1][1] and not re.search(r"[\w\"'%]$", parts[-1][0]))
    question = parts[-1][0].endswith("?") and not parts[-1][1]
    if not ends_free and not question:
        if rng.random() < 0.07:
            after = rng.choice(AFTER)
            if "please" not in after or not any("please" in text.lower() for text, _ in parts):
                parts.append((after, False))
        if parts[-1][0][-1:] in ".!?":
            pass
        elif asking and rng.random() < 0.7:
            parts.append(("?", False))
        elif rng.random() < 0.2:
            parts.append((rng.choice("..!"), False))
    if question and rng.random() < 0.15:
        parts[-1] = (parts[-1][0].rstrip("?"), False)
    elif (
        not loose and (not parts[-1][1] or parts[-1][0][-1:] in "'\"%0123456789")
    ) and rng.random() < 0.04:
        mark = "" if parts[-1][0][-1:] in "?!." else "."
        parts.append((f"{mark} {rng.choice(TAILS)}", False))
    if rng.random() < 0.05:
        plain = [i for i, (text, slot) in enumerate(parts) if not slot and len(text) > 4]
        if plain:
            at = rng.choice(plain)
            parts[at] = (misspell(parts[at][0], rng), False)
    if rng.random() < 0.06:
        parts[0] = (
            (parts[0][0][:1].upper() + parts[0][0][1:], False) if not parts[0][1] else parts[0]
        )
        parts.insert(0, (rng.choice(LEADS) + " ", False))
    case = rng.random()
    if case < 0.1:
        parts = [(text if slot else text.lower(), slot) for text, slot in parts]
    elif case < 0.13:
        parts = [(text if slot else text.upper(), slot) for text, slot in parts]
    elif case < 0.75 and not parts[0][1]:
        parts[0] = (parts[0][0][:1].upper() + parts[0][0][1:], False)
    return "".join(text for text, _ in parts)


def in_words(name: str) -> str:
    """An identifier as words."""
    return re.sub(r"[_.\-]+", " ", re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name)).lower()


def plain_template(function: TaskFunction, variant: Variant, rng: Random) -> str:
    """A request that names function and parameters as the block does: works for every function."""
    chosen = [p for p in function.parameters if not p.optional or rng.random() < 0.4]
    rng.shuffle(chosen)
    joint = rng.choice((" = ", "=", ": ", " "))
    said = [
        f"{in_words(variant.names[p.key])}{joint}"
        + (f"{{{p.key}:true/false}}" if p.type == "boolean" else f"{{{p.key}}}")
        for p in chosen
    ]
    name = variant.tool["name"]
    head = rng.choice((f"call {name}", f"use {name}", f"run {name}", in_words(name), f"{name}:"))
    if not said:
        return head
    return f"{head}{rng.choice((' with ', ' ', ' for '))}{rng.choice((', ', ' and ', '; ')).join(said)}"


def arrange(values: dict[str, Any], variant: Variant) -> dict[str, Any]:
    """Put values under the names shown, nested as shown, in schema order."""
    flat = {variant.names[key]: value for key, value in values.items()}
    inside = {variant.names[key] for key in variant.groups}
    arguments: dict[str, Any] = {}
    for name, schema in variant.tool["parameters"]["properties"].items():
        if name in variant.groups.values():
            nested = {each: flat[each] for each in schema["properties"] if each in flat}
            if nested or name in variant.tool["parameters"]["required"]:
                arguments[name] = nested
        elif name in flat and name not in inside:
            arguments[name] = flat[name]
    return arguments


def draw_lengths(function: TaskFunction, rng: Random) -> dict[str, int]:
    """How long the lists are that have to be equally long, by parameter."""
    lengths: dict[str, int] = {}
    for parameter in function.parameters:
        if parameter.parallel:
            low, high = parameter.generator.split()[-2:]
            count = lengths.get(parameter.parallel) or rng.randint(max(2, int(low)), int(high))
            lengths[parameter.key] = lengths[parameter.parallel] = count
    return lengths


def draw_template(
    function: TaskFunction, rng: Random, reworded: float, among: Sequence[str]
) -> tuple[str, bool]:
    """One of the requests of `among`, its options chosen, and whether it is an imperative; see `draw_request`."""
    rare = [p.key for p in function.parameters if p.type in ("boolean", "enum")]
    often = rf"\{{(?:{'|'.join(rare)})\b" if rare else ""
    template = rng.choice(among)
    if rare and rng.random() < 0.3 and not re.search(often, template):
        template = rng.choice(among)
    is_sentence = template.startswith("~")
    template = expand(template.lstrip("~ "), rng, often)
    start = template.split(" ")[0].lower()
    stated = (
        is_sentence or template[-1] in "?:" or start[0] in '{#"' or "'" in start or ":" in start
    )
    stated = stated or template.split(" ", 2)[1:2] == ["of"] or " please" in template
    imperative = not stated and start not in NO_VERB
    if imperative and rng.random() < reworded:
        template = reword(template, rng)
    return template, imperative


class Filling:
    """Fills the slots of a template one after another, and collects their wordings and values."""

    articles = True  # English has "a" and "an"

    def __init__(
        self, function: TaskFunction, variant: Variant, template: str, rng: Random
    ) -> None:
        self.by_key = {parameter.key: parameter for parameter in function.parameters}
        self.variant, self.template, self.rng = variant, template, rng
        self.lengths = draw_lengths(function, rng)
        lists = [p for p in function.parameters if p.type[0] == "["]
        self.fenced = sum(f"{{{p.key}}}" in template for p in lists) > 1
        self.drawn: dict[str, Slot] = {}
        self.chosen: set[tuple[str, str]] = set()

    def draw(self, parameter: TaskParameter, option: str | None) -> Slot:
        """Draw a value, or return that of an earlier slot of the parameter; no two parameters share a value (km to km, Rome to Rome)."""
        key = parameter.key
        known, length = self.drawn.get(key), self.lengths.get(key)
        for _ in range(4):
            slot = draw_slot(
                parameter, option, self.variant, self.rng, known, length, fenced=self.fenced
            )
            taken = (parameter.generator, str(slot.value))
            if known or parameter.type == "boolean" or taken not in self.chosen:
                break
        self.chosen.add(taken)
        self.drawn[key] = slot
        return slot

    def fill(self) -> tuple[list[tuple[str, bool]], bool]:
        """What is said, piece by piece, with whether it is a value, which nothing may change; and whether it ends
        with free text without quotes."""
        parts: list[tuple[str, bool]] = []
        position, loose = 0, False
        for match in re.finditer(r"\{(\w+)(?::([^}]*))?\}", self.template):
            before = self.template[position : match.start()]
            parameter = self.by_key[match[1]]
            slot = self.draw(parameter, match[2])
            position = match.end()
            last = position == len(self.template)
            if self.template[position : position + 1] in ("%", "°") and slot.surface.isalpha():
                slot = replace(slot, surface=str(slot.value))  # "five%" is never written
            marked = before.rstrip(" ")[-1:] in ("«", "„") or before[-1:] in ("'", '"', "`")
            said = quote_slot(slot, self.rng, last=last, marked=marked)
            loose = last and slot.style == "text" and said == slot.surface
            if parameter.type == "boolean" and said[:1] in (",", ";", ".", ":"):
                before = before.rstrip(" ")
            if before:
                parts.append((with_article(before, said) if self.articles else before, False))
            if said:
                parts.append((said, parameter.type != "boolean"))
        if position < len(self.template):
            parts.append((self.template[position:], False))
        return parts, loose


def draw_request(
    function: TaskFunction,
    variant: Variant,
    rng: Random,
    *,
    plain: float = 0.06,
    reworded: float = 0.0,
    among: Sequence[str] = (),
) -> tuple[str, dict[str, Any]]:
    """Make one request and the arguments it means, keys in schema order.

    `plain` is the share of requests that name function and parameters as the block does, `reworded` the share
    of imperatives that begin with another verb of the same meaning; `among` are the requests to draw from, if not
    all of the function's.
    """
    if rng.random() < plain:
        template, imperative = plain_template(function, variant, rng), False
    else:
        template, imperative = draw_template(function, rng, reworded, among or function.requests)
    filling = Filling(function, variant, template, rng)
    parts, loose = filling.fill()
    values = {key: slot.value for key, slot in filling.drawn.items()}
    return vary_style(parts, rng, imperative, loose), arrange(values, variant)
