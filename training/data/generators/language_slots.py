"""Slot generators of other languages: dates, times, numbers and lengths of time as French, German and Spanish say
them, and words from `sources/foreign/pools/<language>.txt` (`pool: one|two`).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, partial
from pathlib import Path
from random import Random

from callmemaybe.tuning.rendering import NumberText
from training.data.generators import domain_slots, slots
from training.data.generators import word_pools as w
from training.data.generators.slots import Generator, Slot

POOLS = Path(__file__).parents[1] / "sources" / "foreign" / "pools"
LANGUAGES = ("fr", "de", "es")
#: Generators whose values are the same in every language.
ALIKE = frozenset(
    [
        "filename",
        "folder",
        "path",
        "url",
        "host",
        "email",
        "phone",
        "id",
        "slug",
        "version",
        "regex",
        "template",
        "sql",
        "code",
        "num_code",
        "airport",
        "ticker",
        "flight",
        "plate",
        "tracking",
        "iban",
        "account",
        "isbn",
        "vin",
        "postcode",
        "uuid",
        "commit",
        "ipv4",
        "cidr",
        "mac",
        "domain",
        "image",
        "branch",
        "repo",
        "handle",
        "channel",
        "hashtag",
        "json",
        "selector",
        "expression",
        "chemical",
        "dice",
        "chess_move",
        "playing_card",
        "cron",
        "wide",
        "airline",
        "car",
    ]
)
SHARE_INVENTED = 0.08  # of the names that are made up


@lru_cache
def pools(language: str) -> dict[str, list[str]]:
    """The words of a language by pool."""
    found = {}
    for line in (POOLS / f"{language}.txt").read_text("utf-8").splitlines():
        if line and not line.startswith("#"):
            name, _, words = line.partition(": ")
            found[name] = [each.strip() for each in words.split("|")]
    return found


def one_of(language: str, pool: str, style: str, rng: Random) -> Slot:
    """A value of a pool; names are now and then made up, or written small."""
    text = rng.choice(pools(language)[pool])
    if style == "name":
        if rng.random() < SHARE_INVENTED:
            text = w.invented(rng).capitalize()
        if rng.random() < 0.1:
            text = text.lower()
        return Slot(text, text)
    return Slot(text, text, style)


def person(language: str, rng: Random) -> Slot:
    """A first name, and mostly a last one."""
    name = one_of(language, "first", "name", rng).surface
    if rng.random() < 0.6:
        name += " " + one_of(language, "last", "name", rng).surface
    if rng.random() < 0.08:
        name = rng.choice(pools(language)["title_of_person"]) + " " + name
    return Slot(name, name)


def title(language: str, rng: Random) -> Slot:
    """A song, film or book."""
    text = rng.choice(pools(language)["title"])
    return Slot(text, text, rng.choice(("bare", "text")))


# -- numbers -------------------------------------------------------------------------------------------

FR = [
    "zéro",
    "un",
    "deux",
    "trois",
    "quatre",
    "cinq",
    "six",
    "sept",
    "huit",
    "neuf",
    "dix",
    "onze",
    "douze",
    "treize",
    "quatorze",
    "quinze",
    "seize",
    "dix-sept",
    "dix-huit",
    "dix-neuf",
]
FR_TENS = {2: "vingt", 3: "trente", 4: "quarante", 5: "cinquante", 6: "soixante"}
DE = [
    "null",
    "eins",
    "zwei",
    "drei",
    "vier",
    "fünf",
    "sechs",
    "sieben",
    "acht",
    "neun",
    "zehn",
    "elf",
    "zwölf",
    "dreizehn",
    "vierzehn",
    "fünfzehn",
    "sechzehn",
    "siebzehn",
    "achtzehn",
    "neunzehn",
]
DE_TENS = "zwanzig dreißig vierzig fünfzig sechzig siebzig achtzig neunzig".split()  # noqa: SIM905
ES = [
    "cero",
    "uno",
    "dos",
    "tres",
    "cuatro",
    "cinco",
    "seis",
    "siete",
    "ocho",
    "nueve",
    "diez",
    "once",
    "doce",
    "trece",
    "catorce",
    "quince",
    "dieciséis",
    "diecisiete",
    "dieciocho",
    "diecinueve",
    "veinte",
    "veintiuno",
    "veintidós",
    "veintitrés",
    "veinticuatro",
    "veinticinco",
    "veintiséis",
    "veintisiete",
    "veintiocho",
    "veintinueve",
]
ES_TENS = "treinta cuarenta cincuenta sesenta setenta ochenta noventa".split()  # noqa: SIM905


def below_hundred(language: str, value: int) -> str:
    """A number from 0 to 99 in words."""
    tens, ones = divmod(value, 10)
    if language == "fr":
        if value < 20:
            return FR[value]
        if value >= 80:
            return "quatre-vingts" if value == 80 else f"quatre-vingt-{FR[value - 80]}"
        if tens == 7:
            return "soixante et onze" if ones == 1 else f"soixante-{FR[value - 60]}"
        return FR_TENS[tens] + ("" if not ones else " et un" if ones == 1 else f"-{FR[ones]}")
    if language == "de":
        if value < 20:
            return DE[value]
        first = {1: "ein"}.get(ones, DE[ones])
        return f"{first}und{DE_TENS[tens - 2]}" if ones else DE_TENS[tens - 2]
    if value < 30:
        return ES[value]
    return ES_TENS[tens - 3] + (f" y {ES[ones]}" if ones else "")


HUNDRED = {"fr": "cent", "de": "hundert", "es": "cien"}
THOUSAND = {"fr": "mille", "de": "tausend", "es": "mil"}


def in_words(language: str, value: int) -> str:
    """A number of the kind that people write in words; in digits if it is another."""
    if value < 100:
        return below_hundred(language, value)
    thousands, rest = divmod(value, 1000)
    if rest == 0 and thousands < 100:
        ahead = (
            ""
            if thousands == 1
            else {"de": "ein"}.get(language, "")
            if thousands == 1
            else below_hundred(language, thousands)
        )
        return f"{ahead}{'' if language == 'de' or not ahead else ' '}{THOUSAND[language]}"
    if value % 100 == 0 and value < 1000:
        count = value // 100
        if count == 1:
            return HUNDRED[language]
        if language == "fr":
            return f"{FR[count]} cents"
        if language == "de":
            return f"{DE[count]}hundert"
    return str(value)


def grouped(language: str, value: int) -> str:
    """Digits in groups of three, with the mark of the language."""
    mark = {"fr": " ", "de": ".", "es": "."}[language]
    return f"{value:,}".replace(",", mark)


def whole(language: str, value: int, rng: Random, words: float) -> Slot:
    """A whole number: in digits, in groups of three, or in words."""
    surface = str(value)
    if value >= 10_000 and rng.random() < 0.5:
        surface = grouped(language, value)
    elif (1 < value < 21 and rng.random() < words) or (
        (20 < value < 100 or value % 100 == 0) and value > 1 and rng.random() < words / 2
    ):
        surface = in_words(language, value)
    return Slot(value, surface, "number")


def integer(language: str, rng: Random, low: float = 0, high: float = 100) -> Slot:
    return whole(language, rng.randint(int(low), int(high)), rng, 0.15)


def many(language: str, rng: Random, low: float = 1, high: float = 30) -> Slot:
    """A count, often in words."""
    value = rng.randint(int(low), int(high))
    if value == 12 and rng.random() < 0.3:
        return Slot(
            12,
            {"fr": "une douzaine de", "de": "ein Dutzend", "es": "una docena de"}[language],
            "number",
        )
    return whole(language, value, rng, 0.45)


def decimal(text: str, rng: Random) -> Slot:
    """A number with a comma, or now and then a point."""
    surface = text.replace(".", ",") if rng.random() < 0.85 else text
    return Slot(NumberText(text), surface, "number")


def small(rng: Random, low: float = 0, high: float = 100) -> Slot:
    return decimal(str(slots.small(rng, low, high).value), rng)


def num(rng: Random, low: float = -1000, high: float = 1000) -> Slot:
    value = str(slots.num(rng, low, high).value)
    return decimal(value, rng) if "." in value else Slot(NumberText(value), value, "number")


def dec(rng: Random, low: float = 0, high: float = 100, places: float = 2) -> Slot:
    return decimal(f"{rng.uniform(low, high):.{int(places)}f}", rng)


def money(language: str, rng: Random, low: float = 1, high: float = 3000) -> Slot:
    """An amount with what is said behind it."""
    if rng.random() < 0.65:
        value = rng.randint(int(low), int(high))
        value = round(value, -2) if value > 400 and rng.random() < 0.5 else value
        slot = whole(language, value, rng, 0.2)
        value_text, said = str(value), slot.surface
    else:
        value_text = f"{rng.uniform(low, min(high, 900)):.2f}"
        said = value_text.replace(".", ",")
    unit = rng.choice(
        (
            " €",
            "€",
            " euros" if language != "de" else " Euro",
            " euros" if language != "de" else " Euro",
        )
    )
    return Slot(NumberText(value_text), said + unit, "number")


def percent(language: str, rng: Random, low: float = 0.1, high: float = 99) -> Slot:
    value = (
        str(rng.randint(max(1, int(low)), int(high)))
        if rng.random() < 0.6
        else f"{rng.uniform(low, high):.1f}"
    )
    sign = {
        "fr": (" %", "%", " pour cent"),
        "de": (" %", "%", " Prozent"),
        "es": ("%", " %", " por ciento"),
    }[language]
    return Slot(NumberText(value), value.replace(".", ",") + rng.choice(sign), "number")


UNITS = {
    "fr": {"mins": ("minute", "minutes"), "hours": ("heure", "heures"), "days": ("jour", "jours"), "secs": ("seconde", "secondes"),
           "months": ("mois", "mois"), "weeks": ("semaine", "semaines")},
    "de": {"mins": ("Minute", "Minuten"), "hours": ("Stunde", "Stunden"), "days": ("Tag", "Tage"), "secs": ("Sekunde", "Sekunden"),
           "months": ("Monat", "Monate"), "weeks": ("Woche", "Wochen")},
    "es": {"mins": ("minuto", "minutos"), "hours": ("hora", "horas"), "days": ("día", "días"), "secs": ("segundo", "segundos"),
           "months": ("mes", "meses"), "weeks": ("semana", "semanas")},
}  # fmt: skip
#: What is said of a length of time besides a number with its unit: the value in that unit.
ROUND = {
    "fr": {"mins": {30: "une demi-heure", 60: "une heure", 120: "deux heures", 90: "une heure et demie", 15: "un quart d'heure", 45: "trois quarts d'heure"},
           "secs": {60: "une minute", 120: "deux minutes", 30: "trente secondes", 3600: "une heure", 300: "cinq minutes"},
           "days": {7: "une semaine", 14: "deux semaines", 3: "trois jours", 21: "trois semaines"}, "months": {12: "un an", 24: "deux ans", 6: "six mois"}},
    "de": {"mins": {30: "eine halbe Stunde", 60: "eine Stunde", 120: "zwei Stunden", 90: "anderthalb Stunden", 15: "eine Viertelstunde"},
           "secs": {60: "eine Minute", 120: "zwei Minuten", 30: "dreißig Sekunden", 3600: "eine Stunde", 300: "fünf Minuten"},
           "days": {7: "eine Woche", 14: "zwei Wochen", 3: "drei Tage", 21: "drei Wochen"}, "months": {12: "ein Jahr", 24: "zwei Jahre", 6: "sechs Monate"}},
    "es": {"mins": {30: "media hora", 60: "una hora", 120: "dos horas", 90: "una hora y media", 15: "un cuarto de hora"},
           "secs": {60: "un minuto", 120: "dos minutos", 30: "treinta segundos", 3600: "una hora", 300: "cinco minutos"},
           "days": {7: "una semana", 14: "dos semanas", 3: "tres días", 21: "tres semanas"}, "months": {12: "un año", 24: "dos años", 6: "seis meses"}},
}  # fmt: skip


def length(language: str, unit: str, rng: Random, low: float = 2, high: float = 60) -> Slot:
    """A length of time with its unit."""
    fitting = [value for value in ROUND[language][unit] if low <= value <= high]
    if fitting and rng.random() < 0.4:
        value = rng.choice(fitting)
        return Slot(value, ROUND[language][unit][value], "number")
    value = rng.randint(max(2, int(low)), int(high))
    number = whole(language, value, rng, 0.2).surface
    return Slot(value, f"{number} {UNITS[language][unit][1]}", "number")


def seconds(language: str, rng: Random) -> Slot:
    return (
        length(language, "secs", rng, 2, 3600)
        if rng.random() < 0.3
        else length(language, "secs", rng, 2, 90)
    )


# -- days and times ------------------------------------------------------------------------------------


def day(language: str, rng: Random) -> Slot:
    """A day in words; the value copies the wording."""
    words = pools(language)
    number, month = rng.randint(2, 28), rng.choice(words["month"])
    dated = {"fr": f"{number} {month}", "de": f"{number}. {month}", "es": f"{number} de {month}"}[
        language
    ]
    weekday = rng.choice(words["weekday"])
    following = {
        "fr": f"{weekday} prochain",
        "de": f"nächsten {weekday}",
        "es": f"el próximo {weekday}",
    }[language]
    text = rng.choice(
        (
            rng.choice(words["near_day"]),
            rng.choice(words["near_day"]),
            weekday,
            weekday,
            following,
            dated,
            dated,
        )
    )
    return Slot(text, text)


def clock(language: str, rng: Random) -> Slot:
    """A time of day, copied as worded."""
    text = hhmm(language, rng).surface
    return Slot(text, text)


def hhmm(language: str, rng: Random) -> Slot:
    """A time in words, passed as HH:MM (24 hours)."""
    hour, minute = rng.randint(6, 23), rng.choice((0, 0, 0, 15, 30, 30, 45, 10, 20))
    value = f"{hour:02d}:{minute:02d}"
    if language == "fr":
        said = [f"{hour}h{minute or ''}" if not minute else f"{hour}h{minute:02d}"] * 3 + [
            f"{hour} h" + (f" {minute:02d}" if minute else "")
        ]
        said += [
            f"{hour} heures" + {0: "", 15: " et quart", 30: " et demie"}.get(minute, f" {minute}"),
            value,
        ]
        said += ["midi"] * 2 if value == "12:00" else []
    elif language == "de":
        said = [f"{hour} Uhr" + (f" {minute}" if minute else "")] * 3 + [
            value,
            f"{hour}:{minute:02d} Uhr",
        ]
    else:
        said = [value, f"{hour}:{minute:02d} h", f"{hour}:{minute:02d}"]
    return Slot(value, rng.choice(said), "number")


def isodate(language: str, rng: Random) -> Slot:
    """A date in words, passed as YYYY-MM-DD."""
    y, m, d = rng.randint(1985, 2034), rng.randint(1, 12), rng.randint(1, 28)
    month = pools(language)["month"][m - 1]
    first = "1er" if d == 1 and language == "fr" else str(d)
    said = {
        "fr": [f"{first} {month} {y}"] * 3 + [f"{d:02d}/{m:02d}/{y}"],
        "de": [f"{d}. {month} {y}"] * 3 + [f"{d:02d}.{m:02d}.{y}"],
        "es": [f"{d} de {month} de {y}"] * 3 + [f"{d:02d}/{m:02d}/{y}"],
    }[language]
    return Slot(f"{y}-{m:02d}-{d:02d}", rng.choice((*said, f"{y}-{m:02d}-{d:02d}")), "number")


NAMES = "city country first last company color language product food ingredient place venue".split()  # noqa: SIM905
TEXTS = "sentence message phrase text question subject chore reason".split()  # noqa: SIM905
BARE = """topic word room drink cuisine plant exercise genre instrument job month weekday diet medicine symptom currency artist team
address""".split()  # noqa: SIM905


def generators(language: str) -> dict[str, Generator]:
    """The generators of a language, named `<language>_<generator>`."""
    made: dict[str, Callable[..., Slot]] = {
        "person": person, "title": title, "int": integer, "many": many, "nat": integer,         "money": money, "dollars": money, "percent": percent, "rate": percent, "secs": seconds, "day": day, "time": clock,
        "hhmm": hhmm, "isodate": isodate, "date": isodate,
    }  # fmt: skip
    found: dict[str, Generator] = {name: partial(each, language) for name, each in made.items()}
    found |= {"small": small, "num": num, "dec": dec}
    found |= {unit: partial(length, language, unit) for unit in ("mins", "days", "months")}
    found["year"] = domain_slots.year
    for pool, style in (
        *((p, "name") for p in NAMES),
        *((p, "text") for p in TEXTS),
        *((p, "bare") for p in BARE),
    ):
        if pool in pools(language):
            found[pool] = partial(one_of, language, pool, style)
    return {f"{language}_{name}": each for name, each in found.items()}


for each_language in LANGUAGES:
    slots.GENERATORS.update(generators(each_language))
