"""Requests in a language that is not read are told from those in one that is."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from callmemaybe.values import other_language, unread_language

READ = ("English", "French", "German", "Spanish")


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("Sytytä keittiön valot ja soita jazzia", "Finnish"),
        ("Włącz światło w kuchni", "Polish"),
        ("Che tempo fa a Roma domani?", "Italian"),
        ("Toque uma música do Caetano", "Portuguese"),
        ("Doe de lamp in de keuken aan, alsjeblieft", "Dutch"),
        ("Tänd lampan i köket", "Swedish"),
        ("Mutfaktaki ışığı aç", "Turkish"),
        ("明日のParisの天気は?", "Japanese"),
        ("打开厨房的灯", "Chinese"),
        ("Включи свет на кухне", "a language in Cyrillic letters"),
        ("რა ამინდია", "a language in Georgian letters"),
    ],
)
def test_another_language_is_told(text: str, language: str) -> None:
    """By its script, or by words and letters that none of those that are read has."""
    assert other_language(text) == language


@pytest.mark.parametrize(
    "text",
    [
        "", "12 + 7", "Radiohead", "weather Oslo", "Play Sigur Rós", "Call Ville Valo", "Turn on the lights in the sauna",
        "Translate 'missä on rautatieasema ja kuka' to English", "Say 你好 to Wei", "Search for Москва",
        "book Il Pagliaccio in Roma via del Corso for 2", "O que é isso? is what she said, what does it mean",
        "Pon la alarma a las siete", "¿Está el ventilador encendido o apagado?", "Stelle den Wecker auf sieben", "Joue O Sole Mio",
        "SELECT * FROM users WHERE id = 5", "/home/ola/på/æøå.txt", "🎉🎉🎉",
    ],
)  # fmt: skip
def test_names_and_quotations_are_of_no_language(text: str) -> None:
    """A request that is read stays so, whatever names and quotations stand in it; where nothing tells, none is named."""
    assert other_language(text) is None


def test_what_functions_are_described_in_is_read() -> None:
    """Their words match those of a request; the sentence names the language, and those that a model reads."""
    text = "Sytytä keittiön valot ja sammuta ne huomenna"
    assert unread_language(text, READ, ["Turn on the light of a room"]) == (
        "the request seems to be in Finnish, and the model reads English, French, German and Spanish"
    )
    assert unread_language(text, READ, ["Sytyttää huoneen valot", "Mikä sää on huomenna?"]) is None
    assert unread_language(text, ["Finnish", "Swedish"], []) is None


@given(st.text(max_size=200))
def test_any_text_is_taken(text: str) -> None:
    """Whatever a request says, nothing fails."""
    assert other_language(text) is None or len(text) > 0
