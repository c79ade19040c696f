"""The pure parts of the Home Assistant component: what a home offers, what calls become, what is a question or a yes."""

from __future__ import annotations

import json
from types import ModuleType
from typing import Any

import pytest

import callmemaybe
from callmemaybe.tools import tool_specs
from tests.home_agent.conftest import FOLDER

DEVICES = (
    ("Ceiling Light", "light", "Kitchen", None),
    ("Bedside Lamp", "light", "Bedroom", None),
    ("Kettle", "switch", "Kitchen", None),
    ("Tower Fan", "fan", "Bedroom", None),
    ("Curtain", "cover", "Bedroom", "curtain"),
    ("Garage Door", "cover", "Garage", "garage"),
    ("Front Door", "lock", "Hall", None),
    ("Thermostat", "climate", "Bedroom", None),
    ("TV", "media_player", "Bedroom", None),
    ("Dusty", "vacuum", None, None),
    ("Clippy", "lawn_mower", None, None),
    ("Shopping", "todo", None, None),
    ("Forecast", "weather", None, None),
)


@pytest.fixture(scope="module")
def house(home: ModuleType) -> Any:
    """A home with a device of every kind."""
    places = tuple(home.Place(name) for name in ("Kitchen", "Bedroom", "Garage", "Hall"))
    devices = tuple(
        home.Device(name, domain, (), area, kind) for name, domain, area, kind in DEVICES
    )
    return home.Home(devices, places, (home.Place("Upstairs", ("First Floor",)),))


@pytest.mark.parametrize("language", ["en", "de", "fr", "es"])
def test_every_function_is_an_intent(
    home: ModuleType, intents: ModuleType, house: Any, language: str
) -> None:
    """Each definition is valid, each function but the relative ones is an intent, and each kind of devices has slots."""
    offered = home.functions(house, language)
    assert len({one["name"] for one in offered}) == len(tool_specs(offered)) == len(offered)
    known = {one["name"] for one in offered}
    for name in known - {"make_brighter", "dim_light"}:
        assert intents.to_intent(name, {}).type.startswith("Hass")
    assert {*home.ASKING, *home.TIMING} <= known
    assert all(known >= {*names} for names in home.BY_DOMAIN.values())
    for word in home.kind_words(house, language):
        assert intents.kind_slots(word)["domain"] in {domain for _, domain, _, _ in DEVICES}


def test_a_home_offers_what_it_has(home: ModuleType) -> None:
    """Nothing of an empty home can be named; what every home can do is left."""
    names = {one["name"] for one in home.functions(home.Home())}
    assert names == {"get_time", "get_date", *home.TIMING}
    lamp = home.Home((home.Device("Lamp", "light", ("Lampe", " ")),))
    turn_on = next(one for one in home.functions(lamp) if one["name"] == "turn_on")
    assert turn_on["parameters"]["properties"]["device"]["enum"] == ["Lamp", "Lampe"]
    assert "area" not in turn_on["parameters"]["properties"]
    assert lamp.device("LAMPE") is lamp.devices[0]
    assert lamp.device("") is None


@pytest.mark.parametrize(
    ("name", "arguments", "kind", "slots"),
    [
        ("turn_on", {"device": "Kettle"}, "HassTurnOn", {"name": "Kettle"}),
        ("turn_off", {"area": "Kitchen"}, "HassTurnOff", {"area": "Kitchen", "domain": "light"}),
        ("turn_on", {"kind": "Ventilatoren", "floor": "Upstairs"}, "HassTurnOn", {"domain": "fan", "floor": "Upstairs"}),
        ("close", {"kind": "rideaux"}, "HassTurnOff", {"domain": "cover", "device_class": "curtain"}),
        ("open", {"area": "Bedroom"}, "HassTurnOn", {"area": "Bedroom", "domain": "cover"}),
        ("lock", {"device": "Front Door"}, "HassTurnOn", {"name": "Front Door"}),
        ("unlock", {"device": "Front Door"}, "HassTurnOff", {"name": "Front Door"}),
        ("set_brightness", {"percent": 20, "area": "Hall"}, "HassLightSet", {"brightness": 20, "area": "Hall"}),
        ("set_volume", {"percent": 30}, "HassSetVolume", {"volume_level": 30}),
        ("volume_up", {}, "HassSetVolumeRelative", {"volume_step": "up"}),
        ("volume_down", {"percent": 10}, "HassSetVolumeRelative", {"volume_step": -10}),
        ("set_timer", {"time": "PT1H30M", "name": "tea"}, "HassStartTimer", {"hours": 1, "minutes": 30, "name": "tea"}),
        ("get_state", {"kind": "windows", "state": "open"}, "HassGetState", {"device_class": "window", "state": "open"}),
        ("add_to_list", {"item": "milk"}, "HassShoppingListAddItem", {"item": "milk"}),
        ("add_to_list", {"item": "milk", "list": "Work"}, "HassListAddItem", {"item": "milk", "name": "Work"}),
        ("set_temperature", {"degrees": 20.5}, "HassClimateSetTemperature", {"temperature": 20.5}),
    ],
)  # fmt: skip
def test_calls_become_intents(
    intents: ModuleType, name: str, arguments: dict[str, Any], kind: str, slots: dict[str, Any]
) -> None:
    """With the slots that Home Assistant's handlers take."""
    found = intents.to_intent(name, arguments)
    assert (found.type, dict(found.slots)) == (kind, slots)


def test_nothing_is_done_to_everything(intents: ModuleType) -> None:
    """An act that names nothing, a question about nothing and a timer without a time need to be asked about."""
    for name in ("turn_on", "turn_off", "open", "close", "get_state", "set_timer", "extend_timer"):
        assert intents.needs_target(intents.to_intent(name, {}))
    assert not intents.needs_target(intents.to_intent("turn_off", {"kind": "lights"}))
    assert not intents.needs_target(intents.to_intent("cancel_timer", {}))


def test_lengths_of_time(intents: ModuleType) -> None:
    """As RFC 3339 writes them; what is no length of time, or longer than a year, has no slots."""
    assert intents.time_slots("P1DT2H") == {"hours": 26}
    assert intents.time_slots("PT90S") == {"seconds": 90}
    for text in ("", "P", "1 hour", "PT", "PT99999H", "P-1D"):
        assert intents.time_slots(text) == {}


def test_risky_is_what_the_settings_say(intents: ModuleType, house: Any) -> None:
    """Locks by their domain, garage doors by their class, by name or as a kind; questions never."""
    unlock = intents.to_intent("unlock", {"device": "front door"})
    garage = intents.to_intent("open", {"device": "Garage Door"})
    kind = intents.to_intent("open", {"kind": "garage doors"})
    assert all(intents.is_risky(one, house, {"lock", "garage"}) for one in (unlock, garage, kind))
    assert not any(intents.is_risky(one, house, set()) for one in (unlock, garage, kind))
    room = intents.to_intent("open", {"area": "Garage"})
    storey = intents.to_intent("open", {"floor": "Upstairs"})
    assert all(intents.is_risky(one, house, {"garage"}) for one in (room, storey))
    assert not intents.is_risky(intents.to_intent("open", {"area": "Bedroom"}), house, {"garage"})
    asked = intents.to_intent("get_state", {"device": "Front Door", "state": "locked"})
    assert not intents.is_risky(asked, house, {"lock"})


def test_steps_of_brightness(intents: ModuleType) -> None:
    """A fifth of full brightness, and never off."""
    assert [intents.brightness_step("make_brighter", now) for now in (None, 0.0, 40.0, 95.0)] == [
        20,
        20,
        60,
        100,
    ]
    assert [intents.brightness_step("dim_light", now) for now in (None, 10.0, 60.0)] == [1, 1, 40]  # fmt: skip


@pytest.mark.parametrize(
    ("language", "text", "is_question"),
    [
        ("en", "Is the door locked?", True), ("en", "which lights are on", True), ("en", "tell me the time", True),
        ("en", "turn on the light", False), ("en", "how about some light", False), ("en", "do turn it off", False),
        ("de", "Ist die Haustür zu?", True), ("de", "Mach das Licht an", False), ("de", "wie warm ist es", True),
        ("fr", "La porte est-elle fermée ?", True), ("fr", "Ferme la porte", False), ("fr", "est-ce que la lumière est allumée", True),
        ("es", "¿Está abierta la ventana?", True), ("es", "abre la ventana", False),
    ],
)  # fmt: skip
def test_questions_and_requests(
    words: ModuleType, language: str, text: str, is_question: bool
) -> None:
    """By how they begin."""
    assert words.is_question(text, language) is is_question


def test_a_yes_is_nothing_but_a_yes(words: ModuleType) -> None:
    """Whoever says more may mean something else."""
    assert words.is_yes("Yes!")
    assert words.is_yes("ja bitte", "de")
    assert words.is_no("Non, merci.", "fr")
    for text in ("yes of course not", "no wait yes", "", "yesterday", "the lights"):
        assert not words.is_yes(text)
        assert not words.is_no(text)
    assert words.language_of("de-AT") == "de"
    assert words.language_of("pl") == "en"


@pytest.mark.parametrize(
    ("language", "text", "does"),
    [
        ("en", "turn it off again", True), ("en", "switch off the italian lamp", False),
        ("de", "Mach sie wieder aus", True), ("de", "Mach die Lampe aus", False),
        ("fr", "éteins-la", True), ("fr", "éteins la lampe", False),
        ("es", "apágalo", True), ("es", "apaga la lámpara", False),
    ],
)  # fmt: skip
def test_references(words: ModuleType, language: str, text: str, does: bool) -> None:
    """A pronoun, and no article."""
    assert words.refers_back(text, language) is does


def test_requests_are_read(reading: ModuleType, house: Any) -> None:
    """By nano: what is named is meant; clauses and devices side by side are calls of their own; a question changes nothing."""
    reader = reading.HomeReader(callmemaybe.load_model("nano"), house)

    def read(text: str) -> list[tuple[str, dict[str, Any]]]:
        return [(one.name, dict(one.arguments)) for one in reader.read(text)]

    assert read("turn on the kettle and close the curtain") == [
        ("turn_on", {"device": "Kettle"}),
        ("close", {"device": "Curtain"}),
    ]
    assert read("turn off the ceiling light and the kettle") == [
        ("turn_off", {"device": "Ceiling Light"}),
        ("turn_off", {"device": "Kettle"}),
    ]
    assert read("is the front door locked?") == [
        ("get_state", {"device": "Front Door", "state": "locked"})
    ]
    assert read("who was Napoleon?") == []
    assert read("put milk on the shopping list") == [
        ("add_to_list", {"item": "milk", "list": "Shopping"})
    ]
    assert not any(name == "add_to_list" for name, _ in read("make the coffee machine go"))


def test_settings_are_in_all_languages() -> None:
    """With the same keys; and the component asks for the version of this package."""

    def keys(value: Any) -> Any:
        return {key: keys(inner) for key, inner in value.items()} if isinstance(value, dict) else 0

    texts = {
        file.stem: json.loads(file.read_text("utf-8"))
        for file in (FOLDER / "translations").iterdir()
    }
    assert {*texts} == {"en", "de", "fr", "es"}
    assert all(keys(text) == keys(texts["en"]) for text in texts.values())
    assert json.loads((FOLDER / "strings.json").read_text("utf-8")) == texts["en"]
    manifest = json.loads((FOLDER / "manifest.json").read_text("utf-8"))
    assert manifest["requirements"] == [f"callmemaybe=={callmemaybe.__version__}"]
    assert manifest["version"] == callmemaybe.__version__
