"""A home, and the functions that its devices offer to a model. It knows nothing of Home Assistant.

The functions have the home's own names as their values, so that a call can name no device, area or floor that does not exist.
Only functions are offered that some device can do.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from .words import CLASS_WORDS, DOMAIN_WORDS

#: Domains that can be switched.
SWITCHED = frozenset((
    "light", "switch", "fan", "media_player", "input_boolean", "climate", "humidifier", "siren",
    "script", "scene", "group", "automation",
))  # fmt: skip
#: What lights can be told to be.
COLORS = (
    "white", "black", "red", "orange", "yellow", "green", "blue", "purple", "brown", "pink", "turquoise",
)  # fmt: skip


@dataclass(frozen=True)
class Place:
    """An area or a floor, and what else people call it."""

    name: str
    aliases: tuple[str, ...] = ()


@dataclass(frozen=True)
class Device:
    """An entity: its name, what else people call it, and what it is."""

    name: str
    domain: str
    aliases: tuple[str, ...] = ()
    area: str | None = None
    device_class: str | None = None


@dataclass(frozen=True)
class Home:
    """What a person may speak of."""

    devices: tuple[Device, ...] = ()
    areas: tuple[Place, ...] = ()
    floors: tuple[Place, ...] = ()

    def names(self, *domains: str) -> list[str]:
        """Return the names and aliases of the devices of some domains, each once."""
        found = (one for one in self.devices if one.domain in domains)
        return _spoken(found)

    @property
    def places(self) -> list[str]:
        """The names and aliases of areas."""
        return _spoken(self.areas)

    def device(self, name: str) -> Device | None:
        """Return the device of this name or alias."""
        folded = name.casefold()
        for one in self.devices:
            if folded in {each.casefold() for each in (one.name, *one.aliases)}:
                return one
        return None


def _spoken(things: Iterable[Device | Place]) -> list[str]:
    names = (name.strip() for one in things for name in (one.name, *one.aliases))
    return list(dict.fromkeys(name for name in names if name))


#: Names of the functions that change nothing, and of those about timers.
ASKING = ("get_state", "get_temperature", "get_weather", "get_time", "get_date")
TIMING = (
    "set_timer", "cancel_timer", "pause_timer", "resume_timer", "extend_timer", "shorten_timer", "timer_status",
)  # fmt: skip

_SWITCHES = ("turn_on", "turn_off")
_COVERS = ("open", "close", "set_position")
#: Functions that a device of a domain is meant by; of other domains it can be switched.
BY_DOMAIN: dict[str, tuple[str, ...]] = {
    "light": (*_SWITCHES, "set_brightness", "make_brighter", "dim_light", "set_color"),
    "cover": _COVERS,
    "valve": _COVERS,
    "lock": ("lock", "unlock"),
    "climate": (*_SWITCHES, "set_temperature"),
    "water_heater": ("set_temperature",),
    "fan": (*_SWITCHES, "set_fan_speed"),
    "media_player": (
        *_SWITCHES, "pause_media", "resume_media", "next_track", "previous_track", "set_volume", "volume_up",
        "volume_down", "mute", "unmute",
    ),
    "vacuum": ("start_vacuum", "dock_vacuum"),
    "lawn_mower": ("start_mower", "dock_mower"),
    "todo": ("add_to_list",),
    **dict.fromkeys(SWITCHED - {"light", "climate", "fan", "media_player"}, _SWITCHES),
}  # fmt: skip


def functions(home: Home, language: str = "en") -> list[dict[str, Any]]:
    """Return the definitions of what the home can do, each with ``name``, ``description`` and ``parameters``."""
    return [
        *_switches(home, language),
        *_lights(home),
        *_covers(home, language),
        *_climate(home),
        *_media(home),
        *_cleaners(home),
        *_questions(home, language),
        *_timers(home),
        *_lists(home),
    ]


def kind_words(home: Home, language: str) -> list[str]:
    """Return what people call the kinds of devices that the home has."""
    return _kinds(home, language, "light", "fan", "switch", "lock", classes=True)


def _kinds(home: Home, language: str, *domains: str, classes: bool = False) -> list[str]:
    """Return what people call devices of these domains, and of the device classes of covers, as far as the home has any."""
    words = [DOMAIN_WORDS[domain][language] for domain in domains if home.names(domain)]
    if classes:
        present = {one.device_class for one in home.devices}
        words += [CLASS_WORDS[each][language] for each in CLASS_WORDS if each in present]
    return list(dict.fromkeys(word for each in words for word in each))


def _function(
    title: str, about: str, required: Iterable[str] = (), /, **fields: Any
) -> dict[str, Any]:
    given = {key: value for key, value in fields.items() if value is not None}
    return {
        "name": title,
        "description": about,
        "parameters": {
            "type": "object",
            "properties": given,
            "required": [key for key in required if key in given],
            "additionalProperties": False,
        },
    }


def _values(names: list[str], about: str) -> dict[str, Any] | None:
    """Return the schema of one of these names; None where there are none."""
    if not names:
        return None
    # Only what the request names may be written: of "turn on the lights" no model makes a device.
    return {"type": "string", "enum": names, "description": about, "x-ground": "prompt"}


def _where(home: Home) -> dict[str, Any]:
    return {
        "area": _values(home.places, "The room"),
        "floor": _values(_spoken(home.floors), "The floor"),
    }


def _percent(about: str) -> dict[str, Any]:
    return {"type": "integer", "minimum": 0, "maximum": 100, "description": about}


def _switches(home: Home, language: str) -> Iterator[dict[str, Any]]:
    devices = home.names(*SWITCHED)
    if not devices:
        return
    kinds = _kinds(home, language, "light", "fan", "switch")
    target = {
        "device": _values(devices, "The device"),
        "kind": _values(kinds, "All devices of a kind"),
        **_where(home),
    }
    yield _function("turn_on", "Turn on, switch on or start a device, or light up a room", **target)
    yield _function(
        "turn_off", "Turn off, switch off or stop a device, or the lights of a room", **target
    )


def _lights(home: Home) -> Iterator[dict[str, Any]]:
    lights = home.names("light")
    if not lights:
        return
    target = {"device": _values(lights, "The light"), **_where(home)}
    yield _function(
        "set_brightness", "Set the brightness of a light or of the lights of a room: dim, brighten to a percentage",
        ("percent",), percent=_percent("The brightness in percent"), **target,
    )  # fmt: skip
    yield _function(
        "make_brighter", "Make the light brighter: more light, because it is dark", **target
    )
    yield _function("dim_light", "Dim the light: less light", **target)
    yield _function(
        "set_color", "Change the color of a light or of the lights of a room",
        ("color",), color={"type": "string", "enum": [*COLORS], "description": "The color"}, **target,
    )  # fmt: skip


def _covers(home: Home, language: str) -> Iterator[dict[str, Any]]:
    covers = home.names("cover", "valve")
    if covers:
        target = {
            "device": _values(covers, "The cover"),
            "kind": _values(_kinds(home, language, classes=True), "All covers of a kind"),
            **_where(home),
        }  # fmt: skip
        yield _function(
            "open", "Open or raise a curtain, blind, shutter, window or garage door", **target
        )
        yield _function(
            "close", "Close or lower a curtain, blind, shutter, window or garage door", **target
        )
        yield _function(
            "set_position", "Move a curtain, blind or shutter to a position in percent",
            ("percent",), percent=_percent("How far it is open, in percent"), **target,
        )  # fmt: skip
    locks = home.names("lock")
    if locks:
        lock = _values(locks, "The lock or door")
        yield _function("lock", "Lock a door", ("device",), device=lock)
        yield _function("unlock", "Unlock a door", ("device",), device=lock)


def _climate(home: Home) -> Iterator[dict[str, Any]]:
    thermostats = home.names("climate", "water_heater")
    if thermostats:
        target = {"device": _values(thermostats, "The thermostat"), **_where(home)}
        degrees = {
            "type": "number",
            "minimum": -50,
            "maximum": 250,
            "description": "The temperature in degrees",
        }
        yield _function("set_temperature", "Set the heating or thermostat to a temperature", ("degrees",),
                        degrees=degrees, **target)  # fmt: skip
        yield _function("get_temperature", "Tell how warm or cold it is in a room", **target)
    fans = home.names("fan")
    if fans:
        yield _function(
            "set_fan_speed", "Set the speed of a fan",
            ("percent",), percent=_percent("The speed in percent"), device=_values(fans, "The fan"), **_where(home),
        )  # fmt: skip


def _media(home: Home) -> Iterator[dict[str, Any]]:
    players = home.names("media_player")
    if not players:
        return
    target = {"device": _values(players, "The player"), **_where(home)}
    yield _function("pause_media", "Pause the music or film", **target)
    yield _function("resume_media", "Go on playing the music or film that is paused", **target)
    yield _function("next_track", "Skip to the next song", **target)
    yield _function("previous_track", "Go back to the previous song", **target)
    yield _function("set_volume", "Set the volume of the music", ("percent",),
                    percent=_percent("The volume in percent"), **target)  # fmt: skip
    step = _percent("By how much, in percent")
    yield _function(
        "volume_up", "Make the music louder: turn up the volume", **target, percent=step
    )
    yield _function(
        "volume_down", "Make the music quieter: turn down the volume", **target, percent=step
    )
    yield _function("mute", "Mute the sound", **target)
    yield _function("unmute", "Unmute the sound", **target)


def _cleaners(home: Home) -> Iterator[dict[str, Any]]:
    vacuums, mowers = home.names("vacuum"), home.names("lawn_mower")
    if vacuums:
        device = _values(vacuums, "The vacuum cleaner")
        yield _function("start_vacuum", "Start the vacuum cleaner: clean the floor", device=device)
        yield _function("dock_vacuum", "Send the vacuum cleaner back to its base", device=device)
    if mowers:
        device = _values(mowers, "The lawn mower")
        yield _function("start_mower", "Start mowing the lawn", device=device)
        yield _function("dock_mower", "Send the lawn mower back to its base", device=device)


def _questions(home: Home, language: str) -> Iterator[dict[str, Any]]:
    devices = _spoken(home.devices)
    if devices:
        yield _function(
            "get_state", "Tell the state of devices or sensors: is it on, are any open, which are locked, how many, how much",
            device=_values(devices, "The device or sensor"),
            kind=_values(kind_words(home, language), "What is asked about"),
            **_where(home),
        )  # fmt: skip
    if home.names("weather"):
        yield _function("get_weather", "Tell the weather: is it warm, will it rain")
    yield _function("get_time", "Tell what time it is")
    yield _function("get_date", "Tell today's date: what day it is")


def _timers(home: Home) -> Iterator[dict[str, Any]]:
    def time(about: str) -> dict[str, Any]:
        return {"type": "string", "format": "duration", "maxLength": 16, "description": about}

    named = {
        "type": "string",
        "minLength": 1,
        "maxLength": 40,
        "description": "What the timer is for",
    }
    room = {"area": _values(home.places, "The room")}
    yield _function("set_timer", "Set or start a new timer for a time", ("time",),
                    time=time("How long, until it rings"), name=named)  # fmt: skip
    yield _function("cancel_timer", "Cancel or stop a timer", name=named, **room)
    yield _function("pause_timer", "Pause a timer", name=named, **room)
    yield _function("resume_timer", "Resume a paused timer: let it go on", name=named, **room)
    yield _function("extend_timer", "Add time to a running timer: make it longer", ("time",),
                    time=time("How much to add"), name=named, **room)  # fmt: skip
    yield _function("shorten_timer", "Remove time from a running timer: make it shorter", ("time",),
                    time=time("How much to take off"), name=named, **room)  # fmt: skip
    yield _function(
        "timer_status", "Tell how much time is left on a timer: its status", name=named, **room
    )


def _lists(home: Home) -> Iterator[dict[str, Any]]:
    item = {
        "type": "string",
        "minLength": 1,
        "maxLength": 80,
        "description": "What to put on the list",
    }
    lists = _values(home.names("todo"), "The list; the shopping list if none is named")
    if lists:
        yield _function("add_to_list", "Put something on the shopping list or a to-do list: buy, remember",
                        ("item",), item=item, list=lists)  # fmt: skip
