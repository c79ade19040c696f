"""Typed slot generators: each returns a value and its wording in a request.

`Slot.surface` is what stands in the request before quoting; `Slot.style` tells the filler whether
quotes are needed ("text"), unusual ("bare") or wrong ("number").
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any

from callmemaybe.tuning.rendering import NumberText
from training.data.generators import word_pools as w

NUMBER_WORDS = [
    "zero",
    "one",
    "two",
    "three",
    "four",
    "five",
    "six",
    "seven",
    "eight",
    "nine",
    "ten",
    "eleven",
    "twelve",
    "thirteen",
    "fourteen",
    "fifteen",
    "sixteen",
    "seventeen",
    "eighteen",
    "nineteen",
    "twenty",
]


@dataclass(frozen=True, slots=True)
class Slot:
    """A value with its wording."""

    value: Any
    surface: str
    style: str = "bare"


Generator = Callable[..., Slot]


def grouped(digits: str) -> str:
    """Write thousands separators."""
    return f"{int(digits):,}"


def runs(rng: Random) -> int:
    """A whole number with runs of equal digits, whose places are easily confused."""
    digit = rng.choice("0000123456789")
    text = rng.choice("123456789") + digit * rng.randint(2, 8)
    if rng.random() < 0.5:
        text += "".join(rng.choice("0123456789") for _ in range(rng.randint(1, 3)))
    elif rng.random() < 0.4:
        text += rng.choice("123456789") * rng.randint(2, 4)
    return int(text)


def num(rng: Random, low: float = -1000, high: float = 1000) -> Slot:
    """Any number: small, decimal, negative, huge."""
    kind = rng.random()
    if kind < 0.5:
        text = str(rng.randint(int(low), int(high)) if rng.random() < 0.5 else rng.randint(0, 60))
        if int(text) < low:
            text = str(int(low) + 1)
    elif kind < 0.85:
        places = rng.choice((1, 1, 2, 2, 3, 5))
        text = f"{rng.uniform(max(low, -500), min(high, 500)):.{places}f}"
    elif kind < 0.95:
        text = str(runs(rng) if rng.random() < 0.4 else rng.randint(0, 10 ** rng.randint(3, 12)))
    else:
        text = f"{rng.uniform(0, 1):.{rng.randint(1, 5)}f}"
    if low >= 0:
        text = text.lstrip("-")
    return Slot(NumberText(text), text, "number")


def small(rng: Random, low: float = 0, high: float = 100) -> Slot:
    """A modest number, decimal in half of the cases."""
    text = str(rng.randint(int(low), int(high)))
    if rng.random() < 0.5:
        text = f"{rng.uniform(low, high):.{rng.choice((1, 1, 2))}f}"
    return Slot(NumberText(text), text, "number")


def integer(rng: Random, low: int = 0, high: int = 100) -> Slot:
    """A whole number, now and then in words or with separators."""
    value = rng.randint(int(low), int(high))
    surface = str(value)
    if 0 <= value <= 20 and rng.random() < 0.12:
        surface = NUMBER_WORDS[value]
    elif value >= 10_000 and rng.random() < 0.25:
        surface = grouped(str(value))
    return Slot(value, surface, "number")


def wide(rng: Random) -> Slot:
    """A whole number of any size and sign."""
    value = rng.randint(0, 10 ** rng.choice((1, 2, 2, 3, 4, 6, 9, 15)))
    value = runs(rng) if rng.random() < 0.12 else value
    value = -value if rng.random() < 0.15 else value
    return Slot(value, str(value), "number")


def money(rng: Random) -> Slot:
    """An amount; the currency sign is part of the wording, not of the value."""
    value = rng.choice((str(rng.randint(1, 5000)), f"{rng.uniform(1, 2000):.2f}"))
    sign = rng.choice(("", "", "$", "€", "£"))
    return Slot(NumberText(value), sign + value, "number")


def percent(rng: Random) -> Slot:
    """A percentage, as the number before the sign."""
    value = rng.choice((str(rng.randint(1, 100)), f"{rng.uniform(0.1, 99):.1f}"))
    return Slot(NumberText(value), value + rng.choice(("%", "%", " percent", "")), "number")


def pool(rng: Random, items: list[str], invented: float = 0.15) -> str:
    """One of a pool, sometimes an invented word shaped like a name."""
    if rng.random() < invented:
        parts = [w.invented(rng).capitalize() for _ in range(rng.choice((1, 1, 2)))]
        return " ".join(parts)
    return rng.choice(items)


def first(rng: Random) -> Slot:
    return as_worded(rng, pool(rng, w.FIRST))


def as_worded(rng: Random, text: str) -> Slot:
    """A bare word, copied as worded; some requests do not capitalise it."""
    if rng.random() < 0.12:
        text = text.lower()
    return Slot(text, text)


def person(rng: Random) -> Slot:
    name = pool(rng, w.FIRST)
    if rng.random() < 0.6:
        name += " " + pool(rng, w.LAST)
    if rng.random() < 0.06:
        name = rng.choice(("Dr. ", "Mrs. ", "Prof. ")) + name
    return as_worded(rng, name)


def city(rng: Random) -> Slot:
    return as_worded(rng, pool(rng, w.CITIES))


def country(rng: Random) -> Slot:
    return as_worded(rng, pool(rng, w.COUNTRIES))


def company(rng: Random) -> Slot:
    return as_worded(rng, pool(rng, w.COMPANIES))


def product(rng: Random) -> Slot:
    return as_worded(rng, pool(rng, w.PRODUCTS))


def food(rng: Random) -> Slot:
    return as_worded(rng, pool(rng, w.FOODS))


def color(rng: Random) -> Slot:
    hexcode = "#" + "".join(rng.choice("0123456789abcdef") for _ in range(6))
    return Slot(*[hexcode if rng.random() < 0.2 else rng.choice(w.COLORS)] * 2)


def language(rng: Random) -> Slot:
    return as_worded(rng, pool(rng, w.LANGUAGES, 0.05))


def word(rng: Random) -> Slot:
    """A single word, any case."""
    text = w.any_word(rng)
    shape = rng.random()
    text = text.upper() if shape < 0.08 else text.capitalize() if shape < 0.2 else text
    return Slot(text, text, "word")


def words_of(rng: Random, low: int, high: int) -> str:
    """Loose words with small ones between, as in notes and messages."""
    count = rng.randint(low, high)
    return " ".join(
        rng.choice(w.SMALL) if rng.random() < 0.3 else w.any_word(rng) for _ in range(count)
    )


def phrase(rng: Random) -> Slot:
    """A few words: a title, a subject, a label."""
    text = words_of(rng, 2, 5)
    shape = rng.random()
    text = text.title() if shape < 0.3 else text.capitalize() if shape < 0.6 else text
    return Slot(text, text, "text")


def sentence(rng: Random) -> Slot:
    """A message with the punctuation people use, quotes and apostrophes included."""
    text = words_of(rng, 3, 10).capitalize()
    tail = rng.random()
    if tail < 0.2:
        text += rng.choice(("!", "?", "...", " :)", " ❤️", " 👍"))
    elif tail < 0.3:
        text += f", {w.any_word(rng)}!"
    elif tail < 0.4:
        text = rng.choice(("I'm", "don't", "It's", "we'll", "can't")) + " " + text.lower()
    elif tail < 0.46:
        text += f' "{w.any_word(rng)}"'
    elif tail < 0.5:
        text += f" at {rng.randint(1, 12)}:{rng.randint(0, 59):02d}"
    elif tail < 0.54:
        text = f"{text}; {words_of(rng, 1, 3)} ({rng.randint(1, 99)})"
    return Slot(text, text, "text")


def with_quotes(rng: Random) -> Slot:
    """A text that has quotes or apostrophes in itself."""
    one, two = w.any_word(rng), w.any_word(rng)
    full = rng.choice(
        (
            f'{words_of(rng, 1, 3)} "{one}" {words_of(rng, 0, 2)}'.strip(),
            f"{words_of(rng, 1, 2)} '{one} {two}'",
            f'"{one}" {rng.choice(("and", "or", "vs"))} "{two}"',
            f"{rng.choice(w.FIRST)}'s {one}",
            f"it's {one}, isn't it?",
            f"{one} 'n' {two}",
            f'don\'t say "{one}"',
            f"the {one}s' {two}",
        )
    )
    return Slot(full, full, "text")


def text(rng: Random) -> Slot:
    """Any text worth quoting, from one letter to a sentence, odd characters included."""
    kind = rng.random()
    if kind < 0.3:
        return Slot(*[word(rng).value] * 2, "text")
    if kind < 0.55:
        return phrase(rng)
    if kind < 0.75:
        return sentence(rng)
    if kind < 0.83:
        return with_quotes(rng)
    alphabet = "abcXYZ019 _-+*/.,;:!?#@$%&()[]{}<>=~^|é漢ñ"
    if kind < 0.95:
        odd = "".join(rng.choice(alphabet) for _ in range(rng.randint(2, 14))).strip() or "x"
    else:
        odd = words_of(rng, 1, 3) + rng.choice(("\\n", "\\", "\t", "\n")) + words_of(rng, 1, 2)
    return Slot(odd, odd, "text")


def topic(rng: Random) -> Slot:
    """What a search is for; often unquoted."""
    text = " ".join(w.any_word(rng) for _ in range(rng.randint(1, 3)))
    return Slot(text, text, rng.choice(("bare", "text")))


def title(rng: Random) -> Slot:
    """A song, film or book."""
    text = rng.choice(
        (
            f"The {w.any_word(rng).title()} {rng.choice(w.NOUNS).title()}",
            f"{rng.choice(w.ADJECTIVES).title()} {rng.choice(w.NOUNS).title()}",
            f"{rng.choice(w.NOUNS).title()} of the {rng.choice(w.NOUNS).title()}",
            f"{w.invented(rng).title()} {rng.randint(2, 9)}",
            f"Don't {rng.choice(w.VERBS).title()} Me",
        )
    )
    return Slot(text, text, rng.choice(("bare", "text")))


EXTENSIONS = [
    "txt",
    "csv",
    "json",
    "py",
    "md",
    "log",
    "pdf",
    "png",
    "jpg",
    "mp4",
    "mp3",
    "tar.gz",
    "yaml",
    "toml",
    "html",
    "docx",
    "xlsx",
    "sql",
]


def file_name(rng: Random) -> Slot:
    stem = rng.choice(("_", "-", "")).join(w.any_word(rng) for _ in range(rng.randint(1, 2)))
    if rng.random() < 0.3:
        stem += rng.choice(("_", "-", "")) + str(rng.randint(1, 2030))
    name = f"{stem}.{rng.choice(EXTENSIONS)}"
    return Slot(name, name)


def folder(rng: Random) -> Slot:
    """A directory, POSIX or Windows."""
    parts = [w.any_word(rng) for _ in range(rng.randint(1, 3))]
    if rng.random() < 0.25:
        path = rng.choice("CDE") + ":\\" + "\\".join(parts)
    else:
        path = rng.choice(("/", "~/", "./", "/home/", "/var/", "../", "")) + "/".join(parts)
    return Slot(path, path)


def path(rng: Random) -> Slot:
    """A file with its directories, POSIX or Windows, spaces now and then."""
    place, name = folder(rng).value, file_name(rng).value
    if rng.random() < 0.1:
        name = f"{w.any_word(rng)} {name}"
    full = place + ("\\" if "\\" in place else "/") + name
    return Slot(full, full, "text" if " " in full else "bare")


def url(rng: Random) -> Slot:
    host = f"{rng.choice(('www.', 'api.', '', ''))}{w.any_word(rng)}.{rng.choice(('com', 'org', 'io', 'dev', 'net'))}"
    tail = "".join("/" + w.any_word(rng) for _ in range(rng.randint(0, 2)))
    if rng.random() < 0.25:
        tail += f"?{w.any_word(rng)}={rng.randint(1, 999)}"
    if rng.random() < 0.1:
        host += f":{rng.choice((80, 8080, 3000, 8000))}"
    full = rng.choice(("https://", "https://", "http://")) + host + tail
    return Slot(full, full)


def host(rng: Random) -> Slot:
    name = rng.choice(
        (
            f"{w.any_word(rng)}.{rng.choice(('com', 'org', 'local', 'io'))}",
            ".".join(str(rng.randint(1, 254)) for _ in range(4)),
            f"{w.any_word(rng)}-{rng.randint(1, 20)}",
            "localhost",
        )
    )
    return Slot(name, name)


def email(rng: Random) -> Slot:
    user = rng.choice((".", "_", "", "+")).join(
        w.any_word(rng).lower() for _ in range(rng.randint(1, 2))
    )
    address = f"{user}@{w.any_word(rng).lower()}.{rng.choice(('com', 'org', 'net', 'io', 'fr'))}"
    return Slot(address, address)


def phone(rng: Random) -> Slot:
    number = rng.choice(("+1-{}-{}-{}", "+44 {} {} {}", "({}) {}-{}", "{}-{}-{}", "{}{}{}"))
    full = number.format(rng.randint(100, 999), rng.randint(100, 999), rng.randint(1000, 9999))
    return Slot(full, full)


def code_id(rng: Random) -> Slot:
    """An identifier made of letters and digits."""
    kind = rng.random()
    if kind < 0.5:
        text = (
            rng.choice(w.OBJECT_IDS) + rng.choice(("-", "", "_", "#")) + str(rng.randint(1, 99999))
        )
    elif kind < 0.75:
        text = "".join(rng.choice("0123456789abcdef") for _ in range(rng.randint(6, 12)))
    else:
        text = "".join(
            rng.choice("ABCDEFGHJKLMNPQRSTUVWXYZ23456789") for _ in range(rng.randint(4, 9))
        )
    return Slot(text, text)


def slug(rng: Random) -> Slot:
    """A name as programs have them: branch, container, table, variable."""
    joiner = rng.choice(("-", "_", "-", "/", ""))
    text = joiner.join(w.any_word(rng).lower() for _ in range(rng.randint(1, 3)))
    if rng.random() < 0.2:
        text += rng.choice(("-", "_", "")) + str(rng.randint(1, 50))
    return Slot(text, text)


def version(rng: Random) -> Slot:
    text = f"{rng.choice(('v', ''))}{rng.randint(0, 12)}.{rng.randint(0, 30)}.{rng.randint(0, 9)}"
    return Slot(text, text)


def date(rng: Random) -> Slot:
    """An ISO date."""
    text = f"{rng.randint(1950, 2039)}-{rng.randint(1, 12):02d}-{rng.randint(1, 28):02d}"
    return Slot(text, text)


MONTHS = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
]
DAYS = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"]


def day(rng: Random) -> Slot:
    """A day in words; the value copies the wording."""
    text = rng.choice(
        (
            rng.choice(("today", "tomorrow", "tonight", "next week", "yesterday")),
            rng.choice(("", "next ", "this ")) + rng.choice(DAYS),
            f"{rng.choice(MONTHS)} {rng.randint(1, 28)}",
            f"{rng.choice(MONTHS)} {rng.choice(('1st', '2nd', '3rd', '21st', '22nd', '23rd'))}",
            f"{rng.choice(MONTHS)} {rng.randint(4, 20)}th",
            f"{rng.randint(1, 12)}/{rng.randint(1, 28)}/{rng.randint(2000, 2035)}",
            f"the {rng.randint(4, 20)}th",
            date(rng).surface,
            date(rng).surface,
        )
    )
    return Slot(text, text)


def clock(rng: Random) -> Slot:
    """A time of day, copied as worded."""
    hour, minute = rng.randint(0, 23), rng.choice((0, 15, 30, 45, rng.randint(0, 59)))
    text = rng.choice(
        (
            f"{hour:02d}:{minute:02d}",
            f"{hour:02d}:{minute:02d}",
            f"{hour % 12 or 12}:{minute:02d} {rng.choice(('am', 'pm', 'AM', 'PM'))}",
            f"{hour % 12 or 12}{rng.choice(('am', 'pm', ' pm', ' am'))}",
            f"{hour % 12 or 12} o'clock",
            rng.choice(("noon", "midnight", "half past 3", "quarter to nine")),
        )
    )
    return Slot(text, text)


def regex(rng: Random) -> Slot:
    """A pattern somebody would type."""
    item = rng.choice(
        (r"\d", r"\w", "[a-z]", "[A-Z]", "[0-9]", r"\s", ".", "[aeiou]", r"[^\s]", r"\b")
    )
    text = rng.choice(
        (
            item + rng.choice(("+", "*", "{2,4}", "{3}", "?", "")),
            f"^{w.any_word(rng)}{item}+$",
            f"({rng.choice(w.NOUNS)}|{rng.choice(w.NOUNS)})",
            rf"\b{w.any_word(rng)}\b",
            f"{item}+{rng.choice('@-_:')}{item}+",
            rf"{item}{{{rng.randint(1, 5)}}}-\d+",
        )
    )
    return Slot(text, text, "text" if rng.random() < 0.7 else "bare")


def template(rng: Random) -> Slot:
    """A text with holes in braces."""
    name = w.any_word(rng)
    form = rng.choice(("{{{}}}", "{{{{{}}}}}", "${{{}}}", "%{}%", "<{}>"))
    hole, other = form.format(name), form.format(w.any_word(rng))
    text = rng.choice(
        (
            f"Hello {hole}!",
            f"Dear {hole}, your {w.any_word(rng)} is {other}",
            f"{hole}-{other}",
            f"{words_of(rng, 1, 4)} {hole} {words_of(rng, 0, 3)}".strip(),
            f"{w.any_word(rng)}_{hole}.{rng.choice(EXTENSIONS)}",
        )
    )
    return Slot(text, text, "text")


def sql(rng: Random) -> Slot:
    """A query."""
    table, column, other = w.any_word(rng), w.any_word(rng), w.any_word(rng)
    number = rng.randint(0, 5000)
    text = rng.choice(
        (
            f"SELECT * FROM {table}",
            f"SELECT {column}, {other} FROM {table} WHERE {column} > {number}",
            f"SELECT COUNT(*) FROM {table} WHERE {column} = '{other}'",
            f"SELECT DISTINCT {column} FROM {table}",
            f"SELECT {column}, SUM({other}) FROM {table} GROUP BY {column}",
            f"SELECT {column} FROM {table} WHERE {other} LIKE '{w.any_word(rng)}%' LIMIT {number}",
            f"DELETE FROM {table} WHERE id = {number};",
            f"UPDATE {table} SET {column} = '{other}' WHERE id = {number}",
            f"INSERT INTO {table} ({column}) VALUES ({number})",
            f"select {column} from {table} order by {other} desc limit {number}",
        )
    )
    return Slot(text, text, "text" if rng.random() < 0.75 else "bare")


def code(rng: Random) -> Slot:
    """A line of a program or a shell, or a formula."""
    name, other, number = w.any_word(rng), w.any_word(rng), rng.randint(0, 99)
    text = rng.choice(
        (
            f"print({name})",
            f"{name} = {other} + {number}",
            f"ls -la /{name}",
            f"git commit -m '{name}'",
            f'echo "{name}"',
            f"for i in range({number}): {name}(i)",
            f'{{"{name}": {number}}}',
            f"{number}*x + {number % 7}",
            f"grep {name} {other}.txt",
            f"npm run {name}",
        )
    )
    return Slot(text, text, "text")


def listing(rng: Random, make: Generator, low: int, high: int, *, fenced: bool = False) -> Slot:
    """Several values, worded as a list; `fenced` in brackets, so that two lists beside each other stay apart."""
    items: list[Slot] = []
    for _ in range(rng.randint(low, high)):
        for _ in range(12):  # a list holds no day or person twice
            item = make(rng)
            if isinstance(item.value, NumberText | int) or all(
                item.value != i.value for i in items
            ):
                break
        items.append(item)
    surfaces = [item.surface for item in items]
    loose = items[0].style in ("text", "word")
    if any(item.style == "text" for item in items) or (loose and rng.random() < 0.3):
        mark = rng.choice("'\"")
        items = [item for item in items if mark not in item.value] or [Slot("x", "x")]
        surfaces = [f"{mark}{item.value}{mark}" for item in items]
    shape = rng.random()
    if fenced:
        said_so = ", ".join(surfaces)
        said_so = f"[{said_so}]" if shape < 0.55 else f"({said_so})" if shape < 0.7 else said_so
    elif shape < 0.5 and len(surfaces) > 1:
        joint = rng.choice((" and ", ", and ")) if len(surfaces) > 2 else " and "
        said_so = ", ".join(surfaces[:-1]) + joint + surfaces[-1]
    elif shape < 0.6:
        said_so = "[" + ", ".join(surfaces) + "]"
    elif shape < 0.68 and all(re.fullmatch(r"[^ ,]*[\d@_./-][^ ,]*", s) for s in surfaces):
        said_so = " ".join(
            surfaces
        )  # numbers and names of files; "Mia Quentin" would be one person
    else:
        said_so = ", ".join(surfaces)
    return Slot([item.value for item in items], said_so, "list")


GENERATORS: dict[str, Generator] = {
    "num": num,
    "small": small,
    "int": integer,
    "wide": wide,
    "money": money,
    "percent": percent,
    "first": first,
    "person": person,
    "city": city,
    "country": country,
    "company": company,
    "product": product,
    "food": food,
    "color": color,
    "language": language,
    "word": word,
    "phrase": phrase,
    "sentence": sentence,
    "text": text,
    "topic": topic,
    "title": title,
    "filename": file_name,
    "folder": folder,
    "path": path,
    "url": url,
    "host": host,
    "email": email,
    "phone": phone,
    "id": code_id,
    "slug": slug,
    "version": version,
    "date": date,
    "day": day,
    "time": clock,
    "regex": regex,
    "template": template,
    "sql": sql,
    "code": code,
}


def make(rng: Random, spec: str, length: int | None = None, *, fenced: bool = False) -> Slot:
    """Draw from a generator named in a task file: `int(1,9)`, `a;b;c`, `list word 2 5`.

    `length` is that of a list which another one decides; `fenced` is for one of several lists.
    """
    if spec.startswith("list "):
        try:
            _, inner, low, high = spec.split()
            bounds = int(low), int(high)
        except ValueError:
            raise ValueError(f"a list is `list GENERATOR LOW HIGH`, not {spec!r}") from None
        if length:
            bounds = length, length
        return listing(rng, lambda r: make(r, inner), *bounds, fenced=fenced)
    if ";" in spec:
        if not all(item.strip() for item in spec.split(";")):
            raise ValueError(f"an empty choice in {spec!r}")
        value, differs, surface = rng.choice(spec.split(";")).strip().partition("=>")
        plain = bool(differs) or re.fullmatch(r"-?\d[\d.,]*", value)
        return Slot(value, surface if differs else value, "number" if plain else "bare")
    match = re.fullmatch(r"(\w+)(?:\((.*)\))?", spec)
    if match is None or match[1] not in GENERATORS:
        raise ValueError(f"unknown generator {spec!r}")
    arguments = [float(item) for item in match[2].split(",")] if match[2] else []
    return GENERATORS[match[1]](rng, *arguments)
