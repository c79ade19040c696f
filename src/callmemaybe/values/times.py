"""Dates, times and lengths of time, in a text whose number words are digits."""

from __future__ import annotations

import re
from calendar import monthrange
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import MAXYEAR, date, datetime, time, timedelta
from decimal import Decimal
from functools import cache
from itertools import islice
from typing import Any, Literal

from callmemaybe.values.tables import TABLES, Words

#: The most days of a text, and times, that are read: each may stand beside each.
MOST_MOMENTS = 100
MomentKind = Literal["date", "time", "datetime", "duration"]
#: Seconds of a unit; months and years have no length in seconds that holds for all of them.
SECONDS = {"second": 1, "minute": 60, "hour": 3600, "day": 86_400, "week": 604_800}
#: How a unit is written in ISO 8601, and whether behind the T.
_ISO = {
    "year": "Y",
    "month": "M",
    "week": "W",
    "day": "D",
    "hour": "TH",
    "minute": "TM",
    "second": "TS",
}
_ORDINAL = "(?:st|nd|rd|th|er|ème|ª|º|o|\\.)?"


@dataclass(frozen=True)
class Moment:
    """What a stretch of a text says of time; ``value`` as :class:`~callmemaybe.values.Reading` has it."""

    kind: MomentKind
    value: Any
    start: int
    end: int
    seconds: int | None = None


def moments(text: str, now: datetime, language: str) -> Iterator[Moment]:
    """Yield the dates, times, both together, and durations of a text in lower case."""
    words = TABLES[language]
    whole = list(islice(_iso(text, now), MOST_MOMENTS))
    dates = _longest(islice(_dates(text, now, language, words), MOST_MOMENTS))
    times = _longest(islice(_times(text, language, words), MOST_MOMENTS))
    joined = list(_joined(text, dates, times, words))
    soon = list(_soon(text, now, words))
    yield from whole
    yield from soon
    yield from joined
    inside = [(one.start, one.end) for one in whole]
    for one in (*dates, *times):
        if not any(start <= one.start and one.end <= end for start, end in inside):
            yield one
    yield from _durations(text, language, words)


def _longest(found: Iterator[Moment]) -> list[Moment]:
    """Return the moments without those that overlap a longer one, from left to right."""
    kept: list[Moment] = []
    for one in sorted(found, key=lambda each: (each.start - each.end, each.start)):
        if all(one.end <= other.start or other.end <= one.start for other in kept):
            kept.append(one)
    return sorted(kept, key=lambda each: each.start)


# -- dates ----------------------------------------------------------------------------------------


def _iso(text: str, now: datetime) -> Iterator[Moment]:
    pattern = (
        r"(?<!\d)\d{4}-\d\d-\d\d[t ]\d\d:\d\d(?::\d\d)?(?:\.\d{1,6})?(?:z|[+-]\d\d:?\d\d)?(?!\d)"
    )
    for match in re.finditer(pattern, text):
        try:
            value = datetime.fromisoformat(match[0].upper())
        except ValueError:
            continue
        yield Moment(
            "datetime", value if value.tzinfo else value.replace(tzinfo=now.tzinfo), *match.span()
        )


def _dates(text: str, now: datetime, language: str, words: Words) -> Iterator[Moment]:
    today = now.date()
    for match in re.finditer(r"(?<![\d-])(\d{4})-(\d{1,2})-(\d{1,2})(?![\d-])", text):
        yield from _day(match, today, *map(int, match.groups()))
    yield from _numeric_dates(text, today, language, words)
    for match in re.finditer(_named_date(language), text):
        day = int(match["day"] or match["day2"])
        month = words.months[match["month"] or match["month2"]]
        year = match["year"] or match["year2"]
        yield from _day(match, today, int(year) if year else None, month, day)
    for match in re.finditer(_any_word(words.holidays), text):
        yield from _day(match, today, None, *words.holidays[match[0]])
    for match in re.finditer(_any_word(words.days), text):
        if (value := _later(today, "day", words.days[match[0]])) is not None:
            yield Moment("date", value, *match.span())
    yield from _weekdays(text, today, language, words)
    if language == "en":
        for match in re.finditer(
            rf"(?<!\w)on the (\d{{1,2}})(?:st|nd|rd|th)(?! (?:of|{words.month}|floor))(?!\w)", text
        ):
            yield from _day_of_month(match, today, int(match[1]))
    if language == "de":
        for match in re.finditer(
            rf"(?<!\w)am (\d{{1,2}})(?:\.|rd)(?! ?(?:{words.month}|\d))(?!\w)", text
        ):
            yield from _day_of_month(match, today, int(match[1]))
    for form in (words.ahead, words.hence or words.ahead, words.ago):
        for match in re.finditer(rf"(?<!\w){form.format(unit=words.unit)}(?!\w)", text):
            count, unit = _count(match[1], words), words.units[match[2]]
            if count is None or unit in ("hour", "minute", "second"):
                continue
            sign = -1 if form is words.ago else 1
            value = _later(today, unit, sign * int(count))
            if value is not None:
                yield Moment("date", value, *match.span())


def _numeric_dates(text: str, today: date, language: str, words: Words) -> Iterator[Moment]:
    marks = "[/.-]"
    year = r"(?:(?P=mark)(?P<year>\d{4}|\d\d))"
    optional = f"{year}?" if language != "de" else rf"(?:{year}|\.)"
    for match in re.finditer(
        rf"(?<![\w.,/:-])(\d{{1,2}})(?P<mark>{marks})(\d{{1,2}}){optional}(?![\w/:-])", text
    ):
        if match["mark"] == "-" and not match["year"]:
            continue
        if match["mark"] == "." and language != "de" and len(match["year"] or "") < 4:
            continue
        first, second = int(match[1]), int(match[3])
        month, day = (first, second) if words.month_first and first <= 12 else (second, first)
        if words.month_first and month <= 12 < day and first > 12:
            month, day = second, first
        year_ = int(match["year"]) if match["year"] else None
        if year_ is not None and year_ < 100:
            year_ += 2000
        yield from _day(match, today, year_, month, day)


@cache
def _named_date(language: str) -> re.Pattern[str]:
    words = TABLES[language]
    of = {"en": "(?: of)?", "fr": "", "de": "", "es": "(?: de)?"}[language]
    year = r"(?:,? (?:de |del |of )?(?P<year{}>[12]\d{{3}}))?"
    day_first = rf"(?:the |le |el |den )?(?<![\d:.,/-])(?P<day>\d{{1,2}}){_ORDINAL}{of} ?(?P<month>{words.month})(?![^\W_])\.?{year.format('')}"
    month_first = rf"(?P<month2>{words.month})\.? (?:the )?(?P<day2>\d{{1,2}})(?:st|nd|rd|th)?{year.format('2')}(?![\w:]|[.,]\d| ?[ap]m)"
    forms = (
        [day_first, month_first]
        if language == "en"
        else [day_first, month_first.replace("{1,2}", "{9}")]
    )
    return re.compile(rf"(?<!\w)(?:{'|'.join(forms)})(?!\w)")


def _day(
    match: re.Match[str], today: date, year: int | None, month: int, day: int
) -> Iterator[Moment]:
    """Yield the day; without a year the next such day."""
    try:
        value = date(year or today.year, month, day)
        if year is None and value < today:
            value = date(today.year + 1, month, day)
    except ValueError:
        return
    yield Moment("date", value, *match.span())


def _day_of_month(match: re.Match[str], today: date, day: int) -> Iterator[Moment]:
    """Yield the next such day of a month."""
    for ahead in range(3):
        month = today.month + ahead
        year, month = today.year + (month - 1) // 12, (month - 1) % 12 + 1
        if year > MAXYEAR:
            return
        if 1 <= day <= monthrange(year, month)[1] and (value := date(year, month, day)) >= today:
            yield Moment("date", value, *match.span())
            return


def _weekdays(text: str, today: date, language: str, words: Words) -> Iterator[Moment]:
    front = rf"(?:(?P<next>{words.next_})|(?P<last>{words.last})|(?P<this>{words.this}))"
    behind = (
        front.replace("<next>", "<next2>").replace("<last>", "<last2>").replace("<this>", "<this2>")
    )
    week = {"en": "week", "fr": "semaine", "de": "woche", "es": "semana"}[language]
    some = f"(?:{words.next_}|{words.last}|{words.this})"
    pattern = (
        rf"(?<!\w)(?:{front}\s+)?(?:(?P<week>{some} {week}),? (?:on )?)?(?P<day>{words.weekday})"
        rf"(?:\s+(?:of |de la )?(?P<week2>{some} {week}|{week} {some}))?(?:\s+{behind})?"
        rf"(?:,? (?:the |le |den |el )?(?P<of_month>\d{{1,2}})(?:st|nd|rd|th|\.)(?! ?{words.month}))?(?!\w)"
    )
    for match in re.finditer(pattern, text):
        if match["of_month"]:
            yield from _day_of_month(match, today, int(match["of_month"]))
            continue
        day, today_is = words.weekdays[match["day"]], today.weekday()
        said = match["week"] or match["week2"]
        if said:
            weeks = 1 if re.search(words.next_, said) else -1 if re.search(words.last, said) else 0
            ahead = day - today_is + 7 * weeks
        elif match["last"] or match["last2"]:
            # Of the week before, as "next" is of the week behind.
            ahead = day - today_is - 7
        elif match["next"] and language == "en":
            ahead = day - today_is + 7
        elif match["this"] or match["this2"]:
            ahead = (day - today_is) % 7
        else:
            ahead = (day - today_is) % 7 or 7
        if (value := _later(today, "day", ahead)) is not None:
            yield Moment("date", value, *match.span())


def _later(day: date, unit: str, count: int) -> date | None:
    """Return the day so many units later; None where the calendar ends."""
    try:
        if unit in ("day", "week"):
            return day + timedelta(count * (7 if unit == "week" else 1))
        months = day.year * 12 + day.month - 1 + count * (12 if unit == "year" else 1)
        year, month = months // 12, months % 12 + 1
        return date(year, month, min(day.day, monthrange(year, month)[1]))
    except (ValueError, OverflowError):
        return None


def _count(text: str, words: Words) -> Decimal | None:
    if re.fullmatch(words.article, text):
        return Decimal(1)
    return Decimal(text) if re.fullmatch(r"\d{1,6}", text) else None


def _any_word(table: Any) -> str:
    return (
        r"(?<![\w-])(?:"
        + "|".join(sorted(map(re.escape, table), key=len, reverse=True))
        + r")(?![\w-])"
    )


# -- times ----------------------------------------------------------------------------------------

_CLOCK = r"(?<![\w:.,/-])(?P<h>\d{1,2}):(?P<m>\d\d)(?::(?P<s>\d\d))?"
_FORMS: dict[str, tuple[str, ...]] = {
    "en": (
        rf"{_CLOCK}(?:\s?(?P<half>[ap])\.?\s?m\b\.?)?(?![\w:])",
        r"(?<![\w:.,/-])(?P<h>\d{1,2})(?:\.(?P<m>\d\d))?\s?\.?(?P<half>[ap])\s?\.?\s?m\b\.?",
        r"(?<!\w)half past (?P<past>\d{1,2})(?!\w)",
        r"(?<!\w)(?:a )?quarter (?P<way>past|after|to|before) (?P<h>\d{1,2})(?!\w)",
        r"(?<![\w:.,/-])(?P<min>\d{1,2})(?: minutes?)? (?P<way>past|to) (?P<h>\d{1,2})(?![\w%])",
        r"(?<![\w:])(?P<h>\d{1,2}) ?o'?clock",
        r"(?<![\w:.,/-])(?P<h>\d{1,2})(?= (?:in the (?:morning|afternoon|evening)|at night|tonight)(?!\w))",
        r"(?<![\w:.,/-])(?P<h>\d{1,2})[ -](?P<m>[0-5]\d) ?(?P<half>[ap])\.?\s?m\b",
        r"(?<!\w){at} (?P<h>\d{1,2})[. -](?P<m>[0-5]\d)(?![\w:/%.,-])",
        r"(?<!\w)(?:at|around|tonight) (?P<h>\d{1,2})(?![\w:/%.,-]|[.,]\d| (?:degrees|percent|dollars|euros|people|{unit}))",
    ),
    "fr": (
        rf"{_CLOCK}(?![\w:])",
        r"(?<![\w:])(?P<h>\d{1,2}) ?h ?(?P<m>\d\d)(?!\w)",
        r"(?<!\w){at} (?P<h>\d{1,2}) ?(?:h|heures?)(?: (?:(?P<and>et (?:quart|demie?))|moins (?P<less>le quart|\d{1,2})|(?P<m>\d{1,2})))?(?!\w)",
        r"(?<!\w)(?P<h>\d{1,2}) ?(?:h|heures?) ?(?:(?P<and>et (?:quart|demie?))|moins (?P<less>le quart|\d{1,2}))(?!\w)",
        r"(?<!\w)(?P<h>\d{1,2}) ?(?:h|heures?)(?= (?:du|de l') ?(?:matin|soir|après-midi))",
    ),
    "de": (
        rf"{_CLOCK}(?: ?uhr)?(?![\w:])",
        r"(?<![\w:])(?P<h>\d{1,2})(?:\.(?P<m2>\d\d))? ?uhr(?: (?P<m>\d{1,2})(?!\w))?",
        r"(?<!\w)halb (?P<before>\d{1,2})(?!\w)",
        r"(?<!\w)viertel (?P<way>nach|vor) (?P<h>\d{1,2})(?!\w)",
        r"(?<!\w)(?P<min>\d{1,2}) (?P<way>nach|vor) (?P<h>\d{1,2})(?!\w)",
        r"(?<!\w)um (?P<h>\d{1,2})(?![\w:/%.,]|[.,]\d| (?:{unit}|grad|prozent|euro))",
    ),
    "es": (
        rf"(?:a las? )?{_CLOCK}(?: ?h(?:oras)?)?(?![\w:])",
        r"(?<!\w){at} (?P<h>\d{1,2})(?: (?:horas|h))?(?: (?:(?P<and>y (?:cuarto|media))|menos (?P<less>cuarto|\d{1,2})|y (?P<m>\d{1,2})))?(?![\w:/%])",
    ),
}  # fmt: skip


@cache
def _time_patterns(language: str) -> tuple[re.Pattern[str], ...]:
    words = TABLES[language]
    return tuple(
        re.compile(form.replace("{unit}", words.unit).replace("{at}", words.at))
        for form in _FORMS[language]
    )


def _times(text: str, language: str, words: Words) -> Iterator[Moment]:
    evening = words.evening.format(weekday=words.weekday)
    morning = words.morning.format(weekday=words.weekday)
    is_late = re.search(rf"(?<!\w){evening}(?!\w)", text) is not None
    is_early = re.search(rf"(?<!\w){morning}(?!\w)", text) is not None
    part = rf"\s*(?:{morning}|{evening})(?!\w)"
    for pattern in _time_patterns(language):
        for match in pattern.finditer(text):
            value = _clock_time(match.groupdict(), is_late=is_late and not is_early)
            if value is not None:
                start = match.start() + _lead(match[0], words)
                behind = re.match(part, text[match.end() :])
                yield Moment("time", value, start, match.end() + (behind.end() if behind else 0))
    for form, hour in ((words.noon, 12), (words.midnight, 0)):
        for match in re.finditer(rf"(?<!\w){form}(?!\w)", text):
            yield Moment("time", time(hour), *match.span())


def _lead(written: str, words: Words) -> int:
    """Return how many characters stand in front of a time and are none of it: "at"."""
    found = re.match(rf"(?:{words.at})\s+(?=\d)", written)
    return found.end() if found else 0


def _clock_time(found: dict[str, str | None], *, is_late: bool) -> time | None:
    """Return the time that the parts of a match mean; None where there is no such time."""
    if found.get("past"):
        hour, minute = int(found["past"] or 0), 30
    elif found.get("before"):
        hour, minute = int(found["before"] or 0) - 1, 30
    else:
        hour = int(found.get("h") or 0)
        minute = int(found.get("m") or found.get("m2") or 0)
    if found.get("way"):
        minute = int(found.get("min") or 15)
    if found.get("and"):
        minute = 15 if (found["and"] or "").endswith(("quart", "cuarto")) else 30
    less = found.get("less")
    if less:
        minute = -(int(less) if less.isdigit() else 15)
    elif found.get("way") in ("to", "before", "vor"):
        minute = -minute
    if minute < 0:
        hour, minute = hour - 1, minute + 60
    half = found.get("half")
    if half:
        if not 1 <= hour <= 12:
            return None
        hour = hour % 12 + (12 if half == "p" else 0)
    elif is_late and 1 <= hour < 12:
        hour += 12
    hour %= 24 if hour in (-1, 24) else 100
    second = int(found.get("s") or 0)
    if not (0 <= hour < 24 and 0 <= minute < 60 and second < 60):  # "99 to 5"
        return None
    return time(hour, minute, second)


# -- both, and lengths ----------------------------------------------------------------------------


def _joined(text: str, dates: list[Moment], times: list[Moment], words: Words) -> Iterator[Moment]:
    """Yield the dates that have a time beside them, as one."""
    parts = rf"(?:{words.evening.format(weekday=words.weekday)}|{words.morning.format(weekday=words.weekday)}|morning|afternoon|evening|night|matin|soir|abend|früh)"
    gap = re.compile(rf"\s*(?:{words.between}|{words.at}|{parts})?(?:\s+{words.at})?\s*")
    for day in dates:
        for hour in times:
            first, second = sorted((day, hour), key=lambda one: one.start)
            between = text[first.end : second.start] if first.end <= second.start else None
            is_within = hour.start <= day.start and day.end <= hour.end
            if is_within:
                yield Moment(
                    "datetime", datetime.combine(day.value, hour.value), hour.start, hour.end
                )
            elif between is not None and len(between) < 40 and gap.fullmatch(between):
                yield Moment(
                    "datetime", datetime.combine(day.value, hour.value), first.start, second.end
                )


def _soon(text: str, now: datetime, words: Words) -> Iterator[Moment]:
    """Yield "in two hours", "ten minutes ago" as moments."""
    for match in re.finditer(_any_word(words.now.split("/")), text):
        yield Moment("datetime", now.replace(microsecond=0), *match.span())
    amount = rf"(\d{{1,6}}(?:[.,]\d)?|{words.article}|{words.half}(?: {words.article})?)"
    for form in (words.ahead, words.hence or words.ahead, words.ago):
        written = form.format(unit=words.unit).replace(r"(\S+)", amount)
        for match in re.finditer(rf"(?<!\w){written}(?!\w)", text):
            unit = words.units[match[2]]
            if unit not in ("hour", "minute", "second"):
                continue
            count = _count(match[1], words)
            if count is None:
                count = (
                    Decimal(match[1].replace(",", ".")) if match[1][0].isdigit() else Decimal("0.5")
                )
            length = timedelta(seconds=float(count) * SECONDS[unit])
            try:
                moment = now - length if form is words.ago else now + length
            except OverflowError:  # the calendar ends before
                continue
            yield Moment("datetime", moment.replace(microsecond=0), *match.span())


@cache
def _duration_pattern(language: str) -> re.Pattern[str]:
    words = TABLES[language]
    return re.compile(
        rf"(?<![\w.,:/-])(?:(?P<n>\d{{1,6}}(?:[.,]\d{{1,3}})?)(?P<half_word>einhalb)?(?P<and_half>\s+{words.and_half})?[\s-]?"
        rf"|(?P<half>(?:{words.article} )?{words.half}[ -]?(?:{words.article} )?)"
        rf"|(?P<quarter>(?:{words.article} )?(?:quarter of|quart d'|viertel|cuarto de) ?(?:{words.article} )?)"
        rf"|(?P<quarters>3 (?:quarters of|quarts d'|viertel|cuartos de) ?(?:{words.article} )?|dreiviertel)"
        rf"|(?P<more>anderthalb(?:e[nrs]?)?\s)|(?P<one>{words.article}\s))(?P<unit>{words.unit})(?![^\W\d_])(?P<late_half>\s+(?:{words.and_half}|et quart)(?!\w))?"
        rf"(?:(?<=h)\s?(?P<minutes>\d\d))?(?!\w)",
    )


def _durations(text: str, language: str, words: Words) -> Iterator[Moment]:
    """Yield lengths of time; what is said in a row or joined by "and" is one."""
    run: list[tuple[re.Match[str], Decimal, str]] = []
    for match in _duration_pattern(language).finditer(text):
        unit = words.units[match["unit"]]
        if unit == "second" and not match["n"] and language == "en":
            continue  # "the second", "a second"
        count = _length(match)
        gap = text[run[-1][0].end() : match.start()] if run else ""
        if run and not re.fullmatch(rf"\s*(?:{words.joint})?\s*", gap):
            yield _duration(run)
            run = []
        run.append((match, count, unit))
        if match["minutes"]:
            run.append((match, Decimal(match["minutes"]), "minute"))
    if run:
        yield _duration(run)


def _length(match: re.Match[str]) -> Decimal:
    if match["half"]:
        count = Decimal("0.5")
    elif match["quarters"]:
        count = Decimal("0.75")
    elif match["quarter"]:
        count = Decimal("0.25")
    else:
        count = Decimal((match["n"] or "1").replace(",", "."))
    halves = sum(bool(match[name]) for name in ("half_word", "more", "and_half", "late_half"))
    return count + Decimal("0.5") * halves


def _duration(run: list[tuple[re.Match[str], Decimal, str]]) -> Moment:
    start, end = run[0][0].start(), run[-1][0].end()
    seconds = sum((count * SECONDS.get(unit, 0) for _, count, unit in run), Decimal(0))
    exact = int(seconds) if all(unit in SECONDS for _, _, unit in run) else None
    return Moment("duration", _iso_duration(run), start, end, exact)


def _iso_duration(run: list[tuple[re.Match[str], Decimal, str]]) -> str:
    """Write a length of time as ISO 8601 has it: PT1H30M."""
    amounts: dict[str, Decimal] = {}
    for _, count, unit in run:
        smaller = {
            "hour": ("minute", 60),
            "minute": ("second", 60),
            "year": ("month", 12),
            "week": ("day", 7),
        }
        whole = count // 1
        amounts[unit] = amounts.get(unit, Decimal(0)) + whole
        if count != whole:
            lower, factor = smaller.get(unit, (unit, 1))
            amounts[lower] = amounts.get(lower, Decimal(0)) + (count - whole) * factor
    if len(amounts) > 1 and "week" in amounts:
        amounts["day"] = amounts.get("day", Decimal(0)) + 7 * amounts.pop("week")
    days, clock = "", ""
    for unit, sign in _ISO.items():
        if amounts.get(unit):
            written = f"{amounts[unit].normalize():f}{sign[-1]}"
            if sign.startswith("T"):
                clock += written
            else:
                days += written
    return f"P{days}{'T' + clock if clock else ''}" if days or clock else "PT0S"
