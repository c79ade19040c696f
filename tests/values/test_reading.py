"""Values are read from what people write, in four languages, and each reading stands where it says."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from callmemaybe.values import guess_language, read_values

NOW = datetime(2026, 11, 23, 10, 0, tzinfo=UTC)  # a Monday


def _read(text: str, kind: str) -> list[str]:
    return [str(one.value) for one in read_values(text, NOW) if one.kind == kind]


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("order 7 eggs", "7"), ("I need two dozen eggs", "24"), ("a dozen roses", "12"), ("half a dozen", "6"),
        ("a couple of beers", "2"), ("twenty one and a half degrees", "21.5"), ("minus five degrees", "-5"),
        ("set it to -5", "-5"), ("homes under 300K", "3.00E+5"), ("send Bob 1.5k", "1.5E+3"), ("$5m", "5E+6"),
        ("3.5 million people", "3.5E+6"), ("1,500 steps", "1500"), ("1,234,567", "1234567"), ("$1,200.50", "1200.50"),
        ("the 1 500,50 euros", "1500.50"), ("1e-9 volts", "1E-9"), ("a base of 5m", "5"), ("call me twice", "2"),
        ("un virement de 1 500,50 € à Anna", "1500.50"), ("règle à vingt et un virgule cinq", "21.5"),
        ("il me faut deux douzaines d'œufs", "24"), ("stelle es auf einundzwanzig Komma fünf Grad", "21.5"),
        ("überweise 1.500 Euro an Jana", "1500"), ("por favor transfiere 1.500,25 euros", "1500.25"),
        ("pon la calefacción a veintiún grados y medio", "21"),
    ],
)  # fmt: skip
def test_numbers(text: str, number: str) -> None:
    """A number is read whatever it is written like."""
    assert _read(text, "number")[0] == number


@pytest.mark.parametrize(
    "text",
    ["version 1.2.3 of it", "call 555-1234", "room B12", "which one is it", "see https://a.example/1/2",
     "write to a1@b2.example", "no number here", "a table at 12:30", "at 10.0.0.1"],
)  # fmt: skip
def test_what_is_no_number(text: str) -> None:
    """Digits of versions, telephones, names, addresses and times are no numbers, nor is "one" as a pronoun."""
    assert _read(text, "number") == []


@pytest.mark.parametrize(
    ("text", "kind", "value"),
    [
        ("tomorrow at 5pm", "datetime", "2026-11-24 17:00:00"), ("half past six", "time", "06:30:00"),
        ("half past six in the evening", "time", "18:30:00"), ("quarter to nine", "time", "08:45:00"),
        ("next Friday", "date", "2026-12-04"), ("on Friday", "date", "2026-11-27"), ("monday next week", "date", "2026-11-30"),
        ("last Friday", "date", "2026-11-20"), ("the 3rd of May", "date", "2027-05-03"), ("July 4th, 2027", "date", "2027-07-04"),
        ("12/24 at noon", "datetime", "2026-12-24 12:00:00"), ("2026-12-01", "date", "2026-12-01"),
        ("the second of May", "date", "2027-05-02"), ("on the 3rd", "date", "2026-12-03"), ("Friday the 27th", "date", "2026-11-27"),
        ("in two hours", "datetime", "2026-11-23 12:00:00+00:00"), ("in three weeks", "date", "2026-12-14"),
        ("3 days from now", "date", "2026-11-26"), ("10 minutes ago", "datetime", "2026-11-23 09:50:00+00:00"),
        ("8pm tonight", "datetime", "2026-11-23 20:00:00"), ("on Christmas Eve", "date", "2026-12-24"),
        ("for an hour and a half", "duration", "PT1H30M"), ("half an hour", "duration", "PT30M"), ("90 seconds", "duration", "PT90S"),
        ("1h30", "duration", "PT1H30M"), ("2 hours and 15 minutes", "duration", "PT2H15M"), ("three weeks", "duration", "P3W"),
        ("three quarters of an hour", "duration", "PT45M"), ("20% off", "percent", "20"),
        ("demain à 20h30", "datetime", "2026-11-24 20:30:00"), ("vendredi prochain à huit heures et demie", "datetime", "2026-11-27 08:30:00"),
        ("le 14 juillet", "date", "2027-07-14"), ("dans une semaine", "date", "2026-11-30"), ("une demi-heure", "duration", "PT30M"),
        ("übermorgen um 17 Uhr", "datetime", "2026-11-25 17:00:00"), ("der Wecker soll um halb sieben klingeln", "time", "06:30:00"),
        ("am 3. Mai", "date", "2027-05-03"), ("in einer Stunde", "datetime", "2026-11-23 11:00:00+00:00"),
        ("anderthalb Stunden", "duration", "PT1H30M"), ("pon la alarma mañana a las cinco y media", "datetime", "2026-11-24 05:30:00"),
        ("el 3 de mayo de 2027", "date", "2027-05-03"), ("write to bob@example.com.", "email", "bob@example.com"),
        ("open https://a.example/x?y=1.", "uri", "https://a.example/x?y=1"), ("block 10.0.0.1", "ipv4", "10.0.0.1"),
    ],
)  # fmt: skip
def test_moments_lengths_and_addresses(text: str, kind: str, value: str) -> None:
    """Dates count from now, and one without a year is the next such day."""
    assert value in _read(text, kind)


@pytest.mark.parametrize(
    "text", ["the 31st of February", "at 25:70", "13/13", "in 999999 years", "2026-13-40"]
)
def test_what_no_calendar_has_is_not_read(text: str) -> None:
    """A day or a time that does not exist is none."""
    assert not {"date", "time", "datetime"} & {one.kind for one in read_values(text, NOW, "en")}


@pytest.mark.parametrize(
    ("text", "language"),
    [("What is the weather in Paris?", "en"), ("Quel temps fait-il à Paris demain ?", "fr"),
     ("Wie ist das Wetter morgen in Paris?", "de"), ("¿Qué tiempo hace mañana en París?", "es"), ("12345", None)],
)  # fmt: skip
def test_the_language_is_told_by_common_words(text: str, language: str | None) -> None:
    """Where nothing tells the language, none is named."""
    assert guess_language(text) == language


_PARTS = st.sampled_from(
    ["one", "twenty", "half", "a", "and a half", "dozen", "5", "1,500", "-3", "k", "%", "at", "tomorrow", "monday", "next", "pm",
     "8", ":", "30", "hours", "in", "may", "3rd", "of", "/", "h", "une", "heure", "et", "demi", "um", "halb", "ß", "İ", "\u2019", "😀",
     "1e400", "9" * 50, "\u00a0", "²", "٣", "to", "past", "99", "100", "0", "24", "vor", "moins", "menos", "quarter", "minutes", "ago",
     "tonight", "between", "and", "février", "31", "29", "february", "2027", "0000", "-", "T", ".", "\ud800"]
)  # fmt: skip


@given(
    st.lists(_PARTS, max_size=14).map(" ".join)
    | st.text(st.characters(exclude_categories=()), max_size=60),
    st.sampled_from(["en", "fr", "de", "es", None]),
)
def test_every_reading_stands_where_it_says(text: str, language: Any) -> None:
    """Nothing fails, and each reading's text is that stretch of the request."""
    for one in read_values(text, NOW, language):
        assert 0 <= one.start < one.end <= len(text)
        assert one.text == text[one.start : one.end]


@pytest.mark.parametrize(
    "part",
    ["1,", "one two ", "a ", "at ", "in ", "9", "monday 8pm ", "1h30", "a@b.", "http://", "1 000 "],
)
def test_long_texts_take_no_long(part: str) -> None:
    """However often something is said, readings are bounded."""
    assert len(read_values(part * 20_000, NOW)) < 20_000


@pytest.mark.parametrize(
    "now", [datetime(1, 1, 1, tzinfo=UTC), datetime(9999, 12, 31, 23, 59, tzinfo=UTC)]
)
def test_a_calendar_ends(now: datetime) -> None:
    """What would be before the first year or behind the last one is not read; the rest of the text is."""
    text = "7 eggs tomorrow or yesterday, next friday, last monday, this sunday, friday next week, on the 31st, in 99999 hours, 99999 hours ago"
    found = read_values(text, now, "en")
    assert 7 in [one.value for one in found]
    assert all(
        one.value.year in (1, 12, 9988, 9999) for one in found if one.kind in ("date", "datetime")
    )
