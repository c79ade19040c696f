"""More slot generators: the vocabulary of particular trades, and values that differ from their wording.

Pools are written by hand and diluted with invented words, as in `words.py`.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from random import Random

from callmemaybe.tuning.rendering import NumberText
from training.data.generators import slots as s
from training.data.generators import word_pools as w
from training.data.generators.slots import Generator, Slot


def bare(text: str) -> Slot:
    return Slot(text, text)


def digits(rng: Random, count: int) -> str:
    return "".join(rng.choice("0123456789") for _ in range(count))


def letters(rng: Random, low: int, high: int) -> str:
    return "".join(rng.choice("ABCDEFGHIJKLMNOPQRSTUVWXYZ") for _ in range(rng.randint(low, high)))


def from_pool(text: str, style: str = "bare", invented: float = 0.12) -> Generator:
    """A generator over `a|b|c`; some people write the first letter small."""
    items = [" ".join(item.split()) for item in text.split("|")]

    def draw(rng: Random) -> Slot:
        item = s.pool(rng, items, invented)
        if rng.random() < 0.08:
            item = item.lower()
        return Slot(item, item, style)

    return draw


def from_words(text: str, style: str = "bare", invented: float = 0.12) -> Generator:
    """The same over words, invented ones in lower case."""
    items = text.split()

    def draw(rng: Random) -> Slot:
        item = w.invented(rng) if rng.random() < invented else rng.choice(items)
        return Slot(item, item, style)

    return draw


# Numbers that differ from their wording


def big(rng: Random, low: float = 1e3, high: float = 5e6) -> Slot:
    """A large amount: 250k, 1.5 million, 320,000."""
    shape = rng.random()
    if shape < 0.2 and high >= 1e6:
        text = rng.choice(("1", "2", "1.5", "2.5", "3", "1.2", "4.75"))
        return Slot(NumberText(int(float(text) * 1_000_000)), f"{text} million", "number")
    if shape < 0.4:
        value = rng.randint(max(1, int(low / 1000)), min(999, int(high / 1000)))
        said = rng.choice((f"{value}k", f"{value}K", f"{value} thousand"))
        return Slot(NumberText(value * 1000), said, "number")
    value = rng.randint(int(low), int(high))
    if rng.random() < 0.6:
        value = max(int(low), value // 1000 * 1000)
    text = f"{value:,}" if rng.random() < 0.45 else str(value)
    return Slot(NumberText(value), text, "number")


def dollars(rng: Random, low: float = 1000, high: float = 5e6) -> Slot:
    """A large amount with its sign."""
    slot = big(rng, low, high)
    sign = rng.choice(("$", "$", "€", "£", ""))
    return Slot(slot.value, sign + slot.surface, "number")


def rate(rng: Random, low: float = 0.5, high: float = 15) -> Slot:
    """A percentage of modest size, as the number before the sign."""
    text = rng.choice(
        (
            str(rng.randint(max(1, int(low)), int(high))),
            f"{rng.uniform(low, high):.1f}",
            f"{rng.uniform(low, high):.2f}",
        )
    )
    return Slot(NumberText(text), text + rng.choice(("%", "%", "%", " percent")), "number")


def fraction(rng: Random, low: float = 1, high: float = 40) -> Slot:
    """A percentage passed as a decimal fraction: 5% is 0.05."""
    value = rng.randint(int(low), int(high))
    text = f"{value / 100:.2f}".rstrip("0").rstrip(".")
    if rng.random() < 0.3:
        return Slot(NumberText(text), text, "number")
    return Slot(NumberText(text), f"{value}{rng.choice(('%', '%', ' percent'))}", "number")


def dec(rng: Random, low: float = 0, high: float = 100, places: float = 2) -> Slot:
    """A decimal within bounds."""
    text = f"{rng.uniform(low, high):.{int(places)}f}"
    return Slot(NumberText(text), text, "number")


TENS = ["twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"]


def in_words(value: int) -> str:
    """A whole number below a hundred in words."""
    if value <= 20:
        return s.NUMBER_WORDS[value]
    ten, one = divmod(value, 10)
    return TENS[ten - 2] + (f"-{s.NUMBER_WORDS[one]}" if one else "")


def digits_only(rng: Random, low: float = 0, high: float = 100) -> Slot:
    """A whole number, always in digits."""
    value = rng.randint(int(low), int(high))
    return Slot(value, str(value), "number")


def many(rng: Random, low: float = 1, high: float = 30) -> Slot:
    """A count, often in words."""
    value = rng.randint(int(low), int(high))
    text = str(value)
    if value < 100 and rng.random() < 0.4:
        text = in_words(value)
    if value == 12 and rng.random() < 0.5:
        text = "a dozen"
    return Slot(value, text, "number")


def ordinal(rng: Random, low: float = 1, high: float = 12) -> Slot:
    """A position, as 3rd or third."""
    value = rng.randint(int(low), int(high))
    names = [
        "first",
        "second",
        "third",
        "fourth",
        "fifth",
        "sixth",
        "seventh",
        "eighth",
        "ninth",
        "tenth",
    ]
    tail = "th" if 10 <= value % 100 <= 20 else {1: "st", 2: "nd", 3: "rd"}.get(value % 10, "th")
    text = names[value - 1] if value <= 10 and rng.random() < 0.5 else f"{value}{tail}"
    return Slot(value, text, "number")


def mins(rng: Random, low: float = 5, high: float = 120) -> Slot:
    """A duration worded with its unit, passed in minutes."""
    if rng.random() < 0.35:
        value, text = rng.choice(
            (
                (30, "half an hour"),
                (60, "an hour"),
                (60, "one hour"),
                (120, "two hours"),
                (90, "an hour and a half"),
                (15, "a quarter of an hour"),
                (180, "3 hours"),
                (120, "2 hours"),
                (45, "three quarters of an hour"),
            )
        )
        if low <= value <= max(high, 180):
            return Slot(value, text, "number")
    value = rng.randint(int(low), int(high))
    value = value // 5 * 5 if value > 10 and rng.random() < 0.6 else value
    number = in_words(value) if value < 100 and rng.random() < 0.2 else str(value)
    return Slot(value, number + rng.choice((" minutes", " minutes", " min", " mins")), "number")


def days(rng: Random, low: float = 1, high: float = 60) -> Slot:
    """A duration worded with its unit, passed in days."""
    if rng.random() < 0.35:
        value, text = rng.choice(
            (
                (7, "a week"),
                (7, "one week"),
                (14, "two weeks"),
                (21, "3 weeks"),
                (14, "2 weeks"),
                (28, "four weeks"),
            )
        )
        return Slot(value, text, "number")
    value = rng.randint(max(2, int(low)), int(high))
    number = in_words(value) if value < 31 and rng.random() < 0.25 else str(value)
    return Slot(value, f"{number} days", "number")


def secs(rng: Random) -> Slot:
    """A duration worded with its unit, passed in seconds."""
    if rng.random() < 0.3:
        value, said = rng.choice(
            (
                (60, "a minute"), (60, "one minute"), (120, "two minutes"), (30, "half a minute"),
                (1800, "half an hour"), (3600, "an hour"), (3600, "one hour"), (7200, "two hours"),
                (86400, "a day"), (86400, "one day"), (86400, "24 hours"), (604800, "a week"),
                (5400, "an hour and a half"), (900, "a quarter of an hour"), (172800, "two days"),
            )
        )  # fmt: skip
        return Slot(value, said, "number")
    unit, size = rng.choice((("seconds", 1), ("seconds", 1), ("minutes", 60), ("hours", 3600)))
    # Few multiples: a network of this size can learn products by heart, not to multiply.
    few = {"minutes": (2, 5, 10, 15, 20, 30, 45, 90), "hours": (2, 3, 6, 8, 12, 24, 48)}
    count = rng.choice(few[unit]) if unit in few else rng.randint(2, rng.choice((90, 900)))
    number = in_words(count) if count < 21 and rng.random() < 0.2 else str(count)
    short = {"seconds": "s", "minutes": "min", "hours": "h"}[unit]
    said = f"{number} {short if number.isdigit() and rng.random() < 0.2 else unit}"
    return Slot(count * size, said, "number")


def months(rng: Random) -> Slot:
    """A duration worded with its unit, passed in months."""
    if rng.random() < 0.4:
        value, said = rng.choice(
            ((12, "a year"), (12, "one year"), (6, "half a year"), (24, "two years"), (3, "a quarter"),
             (18, "a year and a half"), (36, "3 years"), (120, "ten years"))
        )  # fmt: skip
        return Slot(value, said, "number")
    count = rng.randint(2, 60)
    number = in_words(count) if count < 21 and rng.random() < 0.25 else str(count)
    return Slot(count, f"{number} months", "number")


def year(rng: Random, low: float = 1500, high: float = 2035) -> Slot:
    value = rng.randint(int(low), int(high))
    return Slot(value, str(value), "number")


def temperature(rng: Random, low: float = -20, high: float = 40) -> Slot:
    """A temperature with or without its sign."""
    text = (
        str(rng.randint(int(low), int(high)))
        if rng.random() < 0.7
        else f"{rng.uniform(low, high):.1f}"
    )
    return Slot(
        NumberText(text), text + rng.choice(("", "°", " degrees", "°C", " degrees")), "number"
    )


def matrix(rng: Random, low: float = 2, high: float = 3) -> Slot:
    """Rows of numbers, as brackets."""
    size, width = rng.randint(int(low), int(high)), rng.randint(2, 3)
    rows = [[NumberText(rng.randint(-9, 20)) for _ in range(width)] for _ in range(size)]
    comma = rng.choice((", ", ", ", ","))
    said = "[" + comma.join("[" + comma.join(row) + "]" for row in rows) + "]"
    return Slot(rows, said, "list")


def square(rng: Random) -> Slot:
    """A square matrix."""
    size = rng.choice((2, 2, 3))
    rows = [[NumberText(rng.randint(-9, 12)) for _ in range(size)] for _ in range(size)]
    comma = rng.choice((", ", ", ", ","))
    said = "[" + comma.join("[" + comma.join(row) + "]" for row in rows) + "]"
    return Slot(rows, said, "list")


# Dates and times that differ from their wording


def isodate(rng: Random) -> Slot:
    """A date in words, passed as YYYY-MM-DD."""
    y, m, d = rng.randint(1980, 2035), rng.randint(1, 12), rng.randint(1, 28)
    iso, month = f"{y}-{m:02d}-{d:02d}", s.MONTHS[m - 1]
    tail = "th" if 10 <= d <= 20 else {1: "st", 2: "nd", 3: "rd"}.get(d % 10, "th")
    said = rng.choice(
        (
            iso,
            iso,
            iso,
            f"{month} {d}, {y}",
            f"{d} {month} {y}",
            f"{month} {d}{tail}, {y}",
            f"{d}{tail} of {month} {y}",
            f"{month[:3]} {d}, {y}",
            f"{d} {month[:3]} {y}",
        )
    )
    return Slot(iso, said, "number")


def hhmm(rng: Random) -> Slot:
    """A time in words, passed as HH:MM (24 hours)."""
    hour, minute = rng.randint(0, 23), rng.choice((0, 0, 15, 30, 45, 5, 10, 20, 50))
    half = "am" if hour < 12 else "pm"
    said = [f"{hour:02d}:{minute:02d}"] * 2 + [f"{hour % 12 or 12}:{minute:02d} {half}"]
    if minute == 0:
        said += [f"{hour % 12 or 12} {half}", f"{hour % 12 or 12}{half}"]
        said += {0: ["midnight"], 12: ["noon"]}.get(hour, [])
    return Slot(f"{hour:02d}:{minute:02d}", rng.choice(said), "number")


def cron(rng: Random) -> Slot:
    text = rng.choice(
        (
            f"{rng.randint(0, 59)} {rng.randint(0, 23)} * * *",
            f"*/{rng.choice((5, 10, 15))} * * * *",
            f"0 {rng.randint(0, 23)} * * {rng.randint(0, 6)}",
            f"{rng.randint(0, 59)} * * * *",
            "@daily",
            "@hourly",
            f"0 0 {rng.randint(1, 28)} * *",
        )
    )
    return Slot(text, text, "text")


# Codes and identifiers


def currency(rng: Random) -> Slot:
    return bare(
        rng.choice(
            [
                "USD",
                "EUR",
                "GBP",
                "JPY",
                "CHF",
                "INR",
                "BRL",
                "CAD",
                "AUD",
                "SEK",
                "NOK",
                "PLN",
                "KES",
                "ZAR",
                "MXN",
                "TRY",
                "CNY",
                "KRW",
                "NZD",
                "DKK",
            ]
        )
    )


def airport(rng: Random) -> Slot:
    known = [
        "JFK",
        "LHR",
        "CDG",
        "FRA",
        "NRT",
        "SFO",
        "LAX",
        "SYD",
        "NBO",
        "GRU",
        "AMS",
        "MAD",
        "DXB",
        "SIN",
        "ICN",
        "YYZ",
        "BOM",
        "ORD",
        "MEX",
        "IST",
        "ZRH",
        "OSL",
        "LIS",
    ]
    return bare(letters(rng, 3, 3) if rng.random() < 0.3 else rng.choice(known))


def ticker(rng: Random) -> Slot:
    known = [
        "AAPL",
        "MSFT",
        "TSLA",
        "AMZN",
        "NVDA",
        "GOOG",
        "META",
        "NFLX",
        "IBM",
        "INTC",
        "AMD",
        "ORCL",
        "SAP",
        "KO",
        "DIS",
        "BA",
        "GE",
        "F",
        "T",
        "V",
    ]
    return bare(letters(rng, 2, 5) if rng.random() < 0.45 else rng.choice(known))


def flight(rng: Random) -> Slot:
    return bare(letters(rng, 2, 2) + rng.choice(("", "", " ")) + str(rng.randint(10, 9999)))


def plate(rng: Random) -> Slot:
    return bare(
        letters(rng, 2, 3)
        + rng.choice(("-", " ", ""))
        + digits(rng, rng.randint(2, 4))
        + rng.choice(("", letters(rng, 1, 2)))
    )


def tracking(rng: Random) -> Slot:
    return bare(
        rng.choice(("1Z", "PX", "RR", "JD", ""))
        + digits(rng, rng.randint(8, 14))
        + rng.choice(("", letters(rng, 2, 2)))
    )


def iban(rng: Random) -> Slot:
    return bare(rng.choice(("DE", "FR", "GB", "NL", "ES", "IT")) + digits(rng, rng.randint(12, 20)))


def account(rng: Random) -> Slot:
    return bare(
        rng.choice(
            (
                digits(rng, rng.randint(6, 12)),
                f"{letters(rng, 2, 3)}-{digits(rng, 5)}",
                f"ACC{digits(rng, 4)}",
            )
        )
    )


def isbn(rng: Random) -> Slot:
    return bare(
        rng.choice(
            (
                f"978{digits(rng, 10)}",
                f"978-{digits(rng, 1)}-{digits(rng, 5)}-{digits(rng, 3)}-{digits(rng, 1)}",
            )
        )
    )


def vin(rng: Random) -> Slot:
    return bare("".join(rng.choice("ABCDEFGHJKLMNPRSTUVWXYZ0123456789") for _ in range(17)))


def postcode(rng: Random) -> Slot:
    return bare(
        rng.choice(
            (
                digits(rng, 5),
                digits(rng, 5),
                f"{letters(rng, 2, 2)}{rng.randint(1, 9)} {rng.randint(1, 9)}{letters(rng, 2, 2)}",
                f"{digits(rng, 5)}-{digits(rng, 4)}",
            )
        )
    )


def uuid(rng: Random) -> Slot:
    return bare(
        "-".join(
            "".join(rng.choice("0123456789abcdef") for _ in range(n)) for n in (8, 4, 4, 4, 12)
        )
    )


def commit(rng: Random) -> Slot:
    return bare(
        "".join(rng.choice("0123456789abcdef") for _ in range(rng.choice((7, 7, 8, 10, 40))))
    )


def ipv4(rng: Random) -> Slot:
    return bare(".".join(str(rng.randint(1, 254)) for _ in range(4)))


def cidr(rng: Random) -> Slot:
    return bare(
        f"{rng.choice((10, 172, 192))}.{rng.randint(0, 254)}.{rng.choice((0, rng.randint(0, 254)))}.0/{rng.choice((8, 16, 20, 24, 24, 28))}"
    )


def mac(rng: Random) -> Slot:
    return bare(
        ":".join("".join(rng.choice("0123456789abcdef") for _ in range(2)) for _ in range(6))
    )


def domain(rng: Random) -> Slot:
    return bare(
        f"{rng.choice(('', '', 'www.', 'mail.', 'shop.'))}{w.any_word(rng).lower()}.{rng.choice(('com', 'org', 'net', 'io', 'de', 'co.uk'))}"
    )


def image(rng: Random) -> Slot:
    """A container image."""
    name = rng.choice(
        (
            "nginx",
            "redis",
            "postgres",
            "alpine",
            "python",
            w.any_word(rng).lower(),
            f"{w.any_word(rng).lower()}/{w.any_word(rng).lower()}",
        )
    )
    return bare(
        name
        + rng.choice(
            (
                "",
                ":latest",
                f":{rng.randint(1, 20)}",
                f":{rng.randint(1, 9)}.{rng.randint(0, 30)}-alpine",
            )
        )
    )


def branch(rng: Random) -> Slot:
    stem = "-".join(w.any_word(rng).lower() for _ in range(rng.randint(1, 3)))
    return bare(
        rng.choice(
            (
                "main",
                "develop",
                stem,
                f"feature/{stem}",
                f"fix/{stem}",
                f"release/{rng.randint(1, 9)}.{rng.randint(0, 9)}",
                f"{w.any_word(rng)}-{rng.randint(1, 999)}",
            )
        )
    )


def repo(rng: Random) -> Slot:
    return bare(
        f"{w.any_word(rng).lower()}/{w.any_word(rng).lower()}{rng.choice(('', '-' + rng.choice(w.NOUNS)))}"
    )


def handle(rng: Random) -> Slot:
    return bare(
        rng.choice(("@", "@", ""))
        + w.any_word(rng).lower()
        + rng.choice(("", "_", "."))
        + rng.choice((w.any_word(rng).lower(), str(rng.randint(1, 99))))
    )


def channel(rng: Random) -> Slot:
    return bare(
        rng.choice(("#", "#", ""))
        + rng.choice(
            (
                "general",
                "random",
                "dev",
                "support",
                "marketing",
                "ops",
                "announcements",
                w.any_word(rng).lower(),
                f"team-{w.any_word(rng).lower()}",
            )
        )
    )


def hashtag(rng: Random) -> Slot:
    return bare("#" + "".join(w.any_word(rng).title() for _ in range(rng.randint(1, 2))))


def json_text(rng: Random) -> Slot:
    """A JSON document as text."""
    value: dict[str, object] = {}
    for _ in range(rng.randint(1, 3)):
        value[w.any_word(rng).lower()] = rng.choice(
            (rng.randint(0, 99), w.any_word(rng), True, None, [1, 2])
        )
    text = json.dumps(value, separators=rng.choice(((", ", ": "), (",", ":"))))
    return Slot(text, text, "text" if rng.random() < 0.4 else "bare")


def selector(rng: Random) -> Slot:
    name = w.any_word(rng).lower()
    return bare(
        rng.choice(
            (
                f"#{name}",
                f".{name}",
                f"div.{name}",
                f"//{name}[@id='{rng.randint(1, 9)}']",
                f"a[href='{name}']",
                f"ul > li.{name}",
            )
        )
    )


def expression(rng: Random) -> Slot:
    """A formula in x."""
    a, b, c = rng.randint(2, 12), rng.randint(1, 20), rng.randint(2, 5)
    text = rng.choice(
        (
            f"{a}x^2 + {b}x - {c}",
            f"x^{c} - {b}",
            f"sin(x) + {a}",
            f"{a}*x**{c} + {b}",
            f"e^({a}x)",
            f"{a}x + {b}",
            f"ln(x)/{a}",
            f"(x+{a})(x-{b})",
            f"sqrt(x) - {b}",
            f"cos({a}x)",
        )
    )
    return Slot(text, text, rng.choice(("bare", "text")))


def chemical(rng: Random) -> Slot:
    known = [
        "H2O",
        "CO2",
        "NaCl",
        "C6H12O6",
        "H2SO4",
        "CaCO3",
        "NH3",
        "CH4",
        "HCl",
        "NaOH",
        "C2H5OH",
        "KMnO4",
        "Fe2O3",
        "MgO",
        "C8H10N4O2",
        "H2O2",
        "AgNO3",
    ]
    return bare(rng.choice(known))


def dice(rng: Random) -> Slot:
    text = f"{rng.choice(('', 1, 2, 3, 4, 6))}d{rng.choice((4, 6, 8, 10, 12, 20, 100))}"
    return bare(text + rng.choice(("", "", f"+{rng.randint(1, 9)}", f"-{rng.randint(1, 4)}")))


def playing_card(rng: Random) -> Slot:
    rank = rng.choice(["A", "K", "Q", "J", "10", "9", "8", "7", "6", "5", "4", "3", "2"])
    return bare(rank + rng.choice("♠♥♦♣"))


def chess_move(rng: Random) -> Slot:
    at = rng.choice("abcdefgh") + rng.choice("12345678")
    return bare(
        rng.choice(
            (
                at,
                "N" + at,
                "Bx" + at,
                "O-O",
                "Q" + at + "+",
                f"e2{rng.choice(('e4', 'e3'))}",
                f"{rng.choice('abcdefgh')}x{at}",
            )
        )
    )


# Places and things


STREETS = [
    "Oak",
    "Main",
    "Maple",
    "Station",
    "King",
    "Victoria",
    "Cedar",
    "Lake",
    "Church",
    "Mill",
    "River",
    "Park",
    "Elm",
    "Bahnhof",
    "Rose",
]


def address(rng: Random) -> Slot:
    name = rng.choice(STREETS) if rng.random() < 0.8 else w.invented(rng).title()
    text = f"{rng.randint(1, 999)} {name} {rng.choice(('Street', 'St', 'Avenue', 'Road', 'Lane', 'Drive', 'Blvd'))}"
    if rng.random() < 0.4:
        text += f", {rng.choice(w.CITIES)}"
    return bare(text)


STATES = [
    "Texas",
    "California",
    "Ohio",
    "Oregon",
    "Nevada",
    "Florida",
    "Maine",
    "Utah",
    "Iowa",
    "Georgia",
    "Colorado",
    "Michigan",
    "Vermont",
]


def place(rng: Random) -> Slot:
    """A city, sometimes with its country or state."""
    name = s.pool(rng, w.CITIES)
    tail = rng.random()
    if tail < 0.15:
        name += ", " + rng.choice(w.COUNTRIES)
    elif tail < 0.25:
        name += ", " + rng.choice((*STATES, "TX", "CA", "NY", "WA", "UK"))
    return s.as_worded(rng, name)


def venue(rng: Random) -> Slot:
    """A hotel, restaurant or shop by name."""
    word, other = rng.choice(w.ADJECTIVES).title(), rng.choice(w.NOUNS).title()
    text = rng.choice(
        (
            f"The {word} {other}",
            f"Hotel {w.invented(rng).title()}",
            f"Café {other}",
            f"{rng.choice(w.FIRST)}'s",
            f"{other} House",
            f"{word} {other}",
            f"Chez {rng.choice(w.FIRST)}",
            f"{w.invented(rng).title()} Inn",
            f"{other} & {rng.choice(w.NOUNS).title()}",
        )
    )
    return Slot(text, text, rng.choice(("bare", "bare", "text")))


def team(rng: Random) -> Slot:
    text = f"{rng.choice(w.CITIES)} {rng.choice(('Rovers', 'United', 'Tigers', 'Hawks', 'Bears', 'Sharks', 'City', 'FC', 'Giants'))}"
    return bare(
        rng.choice(
            (
                text,
                text,
                f"the {rng.choice(w.NOUNS).title()}s".removeprefix("the "),
                f"FC {w.invented(rng).title()}",
            )
        )
    )


def artist(rng: Random) -> Slot:
    text = rng.choice(
        (
            f"The {rng.choice(w.ADJECTIVES).title()} {rng.choice(w.NOUNS).title()}s",
            s.person(rng).value,
            f"DJ {w.invented(rng).title()}",
            f"{rng.choice(w.NOUNS).title()} Parade",
            w.invented(rng).title(),
        )
    )
    return bare(text)


def question(rng: Random) -> Slot:
    """A question for a quiz, a card or a poll."""
    text = rng.choice(
        (
            f"What is the capital of {rng.choice(w.COUNTRIES)}?",
            f"Who discovered {w.any_word(rng)}?",
            f"How many {rng.choice(w.NOUNS)}s fit in a {rng.choice(w.NOUNS)}?",
            f"Which {rng.choice(w.NOUNS)} do you like best?",
            f"What does {w.invented(rng)} mean?",
            f"Should we {rng.choice(w.VERBS)} the {rng.choice(w.NOUNS)}?",
            f"Where shall we eat on {rng.choice(s.DAYS)}?",
            f"Is {rng.randint(2, 99)} a prime number?",
            f"When did {rng.choice(w.LAST)} {rng.choice(w.VERBS)} the {rng.choice(w.NOUNS)}?",
        )
    )
    return Slot(text, text, "text")


def message(rng: Random) -> Slot:
    """What people really write to each other."""
    name, noun, number = rng.choice(w.FIRST), w.any_word(rng), rng.randint(2, 45)
    text = rng.choice(
        (
            f"I'm running {number} minutes late",
            f"see you at {s.clock(rng).value}",
            "on my way!",
            f"can you bring the {noun}?",
            f"Happy birthday, {name}!",
            f"don't forget the {noun}",
            "call me when you're free",
            f"The {noun} is ready for pickup",
            f"lunch on {rng.choice(s.DAYS)}?",
            "I'll be home soon ❤️",
            f"Meeting moved to room {number}",
            f"thanks for the {noun}, it's lovely",
            f"did {name} reply yet?",
            f"the {noun} arrived today",
            f"we need {number} more {noun}s",
            f"Let's meet in {rng.choice(w.CITIES)}",
            "where are you?",
            "Can't talk now, I'll ring later",
            f"{name} says hi",
            f"the password is {w.invented(rng)}{number}",
        )
    )
    return Slot(text, text, "text")


def chore(rng: Random) -> Slot:
    """A thing to do."""
    text = rng.choice(
        (
            f"call {rng.choice(w.FIRST)}",
            f"buy {rng.choice(w.PRODUCTS)}",
            f"{rng.choice(w.VERBS)} the {rng.choice(w.NOUNS)}",
            "pay the rent",
            "renew my passport",
            "book the dentist",
            f"send the {rng.choice(w.NOUNS)} to {rng.choice(w.LAST)}",
            "water the plants",
            f"review the {rng.choice(w.ADJECTIVES)} {rng.choice(w.NOUNS)}",
            "finish the slides",
            f"fix the {rng.choice(w.NOUNS)} bug",
            "pick up the kids",
            f"write the {rng.choice(w.ADJECTIVES)} report",
            "update the docs",
            "clean the kitchen",
        )
    )
    return Slot(text, text, rng.choice(("bare", "text")))


def subject(rng: Random) -> Slot:
    """A mail subject or a meeting title."""
    text = rng.choice(
        (
            f"Invoice {rng.randint(100, 9999)}",
            f"Q{rng.randint(1, 4)} {rng.choice(w.NOUNS)}",
            f"Re: {w.any_word(rng)}",
            "Holiday plans",
            f"{rng.choice(w.NOUNS).title()} update",
            "Welcome aboard",
            f"Meeting notes {rng.randint(1, 28)} {rng.choice(s.MONTHS)}",
            f"Your {rng.choice(w.NOUNS)} order",
            "Team lunch",
            f"Proposal for {rng.choice(w.COMPANIES)}",
            "Contract draft",
            f"{rng.choice(w.FIRST)}'s farewell",
            "Weekly sync",
            f"Budget {rng.randint(2020, 2030)}",
        )
    )
    return Slot(text, text, "text")


def reason(rng: Random) -> Slot:
    text = rng.choice(
        (
            "a flat tire",
            "a family emergency",
            "a duplicate charge",
            "the wrong size",
            "a broken screen",
            "bad weather",
            "a doctor's appointment",
            "missing parts",
            "a scheduling conflict",
            "poor signal",
            "late delivery",
            f"a {rng.choice(w.ADJECTIVES)} {rng.choice(w.NOUNS)}",
            "spam",
            "a power cut",
            "illness",
            f"too much {rng.choice(w.NOUNS)}",
            "unpaid invoices",
            "a typo",
        )
    )
    return Slot(text, text, rng.choice(("bare", "text")))


POOLS: dict[str, Generator] = {
    "ingredient": from_words(
        "onions garlic rice eggs flour butter spinach chicken tofu lentils basil mushrooms salmon potatoes carrots cheese beans oats avocado ginger lemons yogurt honey broccoli shrimp zucchini quinoa"
    ),
    "medicine": from_words(
        "ibuprofen aspirin paracetamol amoxicillin metformin insulin loratadine omeprazole lisinopril atorvastatin cetirizine warfarin prednisone melatonin sertraline",
        invented=0.3,
    ),
    "symptom": from_pool(
        "headache|fever|sore throat|dizziness|back pain|nausea|cough|rash|chest pain|fatigue|runny nose|stomach ache|blurred vision|insomnia",
        invented=0.05,
    ),
    "animal": from_words(
        "dog cat elephant tiger penguin rabbit horse owl dolphin fox bear hamster parrot turtle giraffe wolf octopus bee otter gecko"
    ),
    "plant": from_words(
        "tomatoes basil roses lavender ferns orchids cactus mint carrots lettuce tulips strawberries peppers monstera rosemary sunflowers pumpkins kale"
    ),
    "element": from_words(
        "hydrogen helium carbon oxygen iron gold silver copper sodium calcium uranium neon zinc lead mercury chlorine tin nickel",
        invented=0.03,
    ),
    "planet": from_words(
        "Mercury Venus Mars Jupiter Saturn Uranus Neptune Pluto Earth", invented=0.05
    ),
    "sky": from_pool(
        "Mars|Jupiter|Moon|Orion|Sirius|Andromeda|Halley's comet|Saturn|Vega|Pleiades|Betelgeuse|Ursa Major|Polaris"
    ),
    "material": from_words(
        "steel aluminum copper wood glass concrete titanium plastic brass granite rubber PLA ABS PETG nylon cotton leather ceramic",
        invented=0.06,
    ),
    "sport": from_words(
        "football basketball tennis hockey rugby cricket volleyball badminton golf baseball handball swimming",
        invented=0.03,
    ),
    "exercise": from_pool(
        "running|cycling|swimming|push-ups|squats|yoga|rowing|walking|deadlifts|plank|pilates|hiking|jump rope|burpees",
        invented=0.05,
    ),
    "instrument": from_words(
        "guitar piano violin drums flute cello trumpet saxophone ukulele harp banjo clarinet",
        invented=0.05,
    ),
    "genre": from_pool(
        "jazz|rock|classical|hip hop|folk|techno|blues|reggae|indie|metal|country|soul|ambient|salsa|K-pop",
        invented=0.04,
    ),
    "film_genre": from_pool(
        "comedy|drama|horror|thriller|science fiction|documentary|romance|animation|western|fantasy|crime|action|mystery",
        invented=0.03,
    ),
    "cuisine": from_words(
        "Italian Thai Mexican Indian Japanese Ethiopian French Greek Vietnamese Turkish Korean Lebanese Peruvian Chinese Spanish",
        invented=0.04,
    ),
    "diet": from_words(
        "vegan vegetarian gluten-free halal kosher keto paleo dairy-free pescatarian low-carb",
        invented=0.03,
    ),
    "job": from_pool(
        "software engineer|nurse|teacher|data analyst|plumber|accountant|graphic designer|chef|electrician|product manager|welder|translator|pharmacist|bus driver",
        invented=0.05,
    ),
    "course": from_pool(
        "algebra|biology|world history|chemistry|geography|physics|economics|French|art|programming|music theory|statistics|philosophy|literature",
        invented=0.08,
    ),
    "landmark": from_pool(
        "Eiffel Tower|Central Park|Colosseum|Big Ben|Machu Picchu|Golden Gate Bridge|Louvre|Taj Mahal|Petra|Sagrada Família|Grand Canyon|Table Mountain|Old Harbour|City Museum",
        invented=0.15,
    ),
    "history": from_pool(
        "French Revolution|fall of the Berlin Wall|moon landing|Battle of Hastings|Magna Carta|Black Death|Industrial Revolution|Treaty of Versailles|Boston Tea Party|Russian Revolution|signing of the Edict of Nantes",
        invented=0.1,
    ),
    "celeb": from_pool(
        "Marie Curie|Albert Einstein|Leonardo da Vinci|Cleopatra|Nelson Mandela|Ada Lovelace|Frida Kahlo|Isaac Newton|Mozart|Joan of Arc|Charles Darwin|Napoleon|Rosa Parks|Alan Turing",
        invented=0.15,
    ),
    "coin": from_words(
        "Bitcoin Ethereum Litecoin Dogecoin BTC ETH SOL XRP Cardano USDT Monero", invented=0.12
    ),
    "airline": from_pool(
        "Lufthansa|Air France|Delta|Emirates|KLM|Kenya Airways|Ryanair|Qantas|Blue Sky Air|Iberia|Polar Wings|ANA",
        invented=0.15,
    ),
    "car": from_pool(
        "Toyota Corolla|Ford Focus|Tesla Model 3|Volkswagen Golf|Honda Civic|Fiat 500|BMW X5|Renault Zoe|Kia Niro|Volvo XC40|Nissan Leaf",
        invented=0.12,
    ),
    "room": from_pool(
        "kitchen|living room|bedroom|office|bathroom|garage|hallway|basement|kids' room|attic|balcony|dining room",
        invented=0.04,
    ),
    "device": from_pool(
        "coffee machine|TV|heater|humidifier|air purifier|washing machine|speaker|dishwasher|projector|router|oven|radio|dehumidifier|electric blanket",
        invented=0.1,
    ),
    "garment": from_pool(
        "jacket|blue jeans|summer dress|sneakers|wool sweater|scarf|raincoat|linen shirt|boots|skirt|suit|hoodie|beanie",
        invented=0.05,
    ),
    "service": from_words(
        "nginx postgres redis api-gateway billing auth web worker search mailer scheduler checkout frontend payments",
        invented=0.2,
    ),
    "language_code": from_words(
        "Python JavaScript Go Rust Java TypeScript Ruby C++ PHP Kotlin Swift Bash", invented=0.02
    ),
    "metric": from_words(
        "cpu memory latency disk_usage error_rate requests throughput queue_depth p95 uptime",
        invented=0.1,
    ),
    "unit_name": from_pool(
        "meters|feet|miles|kilometers|inches|pounds|kilograms|ounces|liters|gallons|acres|hectares|joules|calories|psi|bar|knots|stone|yards|cups",
        invented=0.0,
    ),
    "state": from_pool(
        "Texas|California|Ohio|Oregon|Nevada|New York|Florida|Maine|Utah|Bavaria|Ontario|Queensland|Georgia|North Carolina",
        invented=0.05,
    ),
    "holiday": from_pool(
        "Christmas|Easter|Diwali|Thanksgiving|New Year's Day|Eid al-Fitr|Hanukkah|Halloween|Labor Day|Midsummer|Carnival|Lunar New Year",
        invented=0.04,
    ),
    "weekday": from_words("Monday Tuesday Wednesday Thursday Friday Saturday Sunday", invented=0.0),
    "month": from_words(
        "January February March April May June July August September October November December",
        invented=0.0,
    ),
    "role": from_words(
        "admin editor viewer owner guest developer auditor manager operator moderator",
        invented=0.08,
    ),
    "note": from_words("C D E F G A B C# Eb F# Ab Bb C4 E4 G4 A3 B3 D5 F#4 Bb2", invented=0.0),
    "drink": from_pool(
        "coffee|green tea|water|orange juice|red wine|beer|latte|lemonade|espresso|hot chocolate|mojito|oat milk cappuccino",
        invented=0.05,
    ),
}

MORE: dict[str, Callable[..., Slot]] = {
    **POOLS,
    "big": big, "dollars": dollars, "rate": rate, "fraction": fraction, "dec": dec, "many": many, "nat": digits_only,
    "ordinal": ordinal, "mins": mins, "days": days, "secs": secs, "months": months, "year": year, "temp": temperature,
    "matrix": matrix, "square": square, "isodate": isodate, "hhmm": hhmm, "cron": cron,
    "currency": currency, "airport": airport, "ticker": ticker, "flight": flight, "plate": plate,
    "tracking": tracking, "iban": iban, "account": account, "isbn": isbn, "vin": vin,
    "postcode": postcode, "uuid": uuid, "commit": commit, "ipv4": ipv4, "cidr": cidr, "mac": mac,
    "domain": domain, "image": image, "branch": branch, "repo": repo, "handle": handle,
    "channel": channel, "hashtag": hashtag, "json": json_text, "selector": selector,
    "expression": expression, "chemical": chemical, "dice": dice, "chess_move": chess_move, "playing_card": playing_card,
    "address": address, "place": place, "venue": venue, "team": team, "artist": artist,
    "question": question, "message": message, "chore": chore, "subject": subject, "reason": reason,
}  # fmt: skip
