"""Turns a call into an intent of Home Assistant: its type and slots, and which of its own answers fits. It imports nothing of Home Assistant."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from .home import Device, Home
from .words import CLASS_WORDS, DOMAIN_WORDS, VERBS

#: The intent of each function, the key of its answer, and what it always says.
_INTENTS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "turn_on": ("HassTurnOn", "default", {}),
    "turn_off": ("HassTurnOff", "default", {}),
    "set_brightness": ("HassLightSet", "brightness", {}),
    "set_color": ("HassLightSet", "color", {}),
    "open": ("HassTurnOn", "default", {}),
    "close": ("HassTurnOff", "default", {}),
    "set_position": ("HassSetPosition", "default", {}),
    "lock": ("HassTurnOn", "lock", {}),
    "unlock": ("HassTurnOff", "lock", {}),
    "set_temperature": ("HassClimateSetTemperature", "default", {}),
    "get_temperature": ("HassClimateGetTemperature", "default", {}),
    "set_fan_speed": ("HassFanSetSpeed", "default", {}),
    "pause_media": ("HassMediaPause", "default", {}),
    "resume_media": ("HassMediaUnpause", "default", {}),
    "next_track": ("HassMediaNext", "default", {}),
    "previous_track": ("HassMediaPrevious", "default", {}),
    "set_volume": ("HassSetVolume", "default", {}),
    "volume_up": ("HassSetVolumeRelative", "default", {"volume_step": "up"}),
    "volume_down": ("HassSetVolumeRelative", "default", {"volume_step": "down"}),
    "mute": ("HassMediaPlayerMute", "default", {}),
    "unmute": ("HassMediaPlayerUnmute", "default", {}),
    "start_vacuum": ("HassVacuumStart", "default", {}),
    "dock_vacuum": ("HassVacuumReturnToBase", "default", {}),
    "start_mower": ("HassLawnMowerStartMowing", "default", {}),
    "dock_mower": ("HassLawnMowerDock", "default", {}),
    "get_state": ("HassGetState", "one", {}),
    "get_weather": ("HassGetWeather", "default", {}),
    "get_time": ("HassGetCurrentTime", "default", {}),
    "get_date": ("HassGetCurrentDate", "default", {}),
    "set_timer": ("HassStartTimer", "default", {}),
    "cancel_timer": ("HassCancelTimer", "default", {}),
    "pause_timer": ("HassPauseTimer", "default", {}),
    "resume_timer": ("HassUnpauseTimer", "default", {}),
    "extend_timer": ("HassIncreaseTimer", "default", {}),
    "shorten_timer": ("HassDecreaseTimer", "default", {}),
    "timer_status": ("HassTimerStatus", "default", {}),
    "add_to_list": ("HassListAddItem", "item_added", {}),
}  # fmt: skip

#: Functions that tell the model's answer apart by how much, and the slot that takes it.
_PERCENT = {
    "set_brightness": "brightness", "set_position": "position", "set_fan_speed": "percentage", "set_volume": "volume_level",
    "volume_up": "volume_level", "volume_down": "volume_level",
}  # fmt: skip
#: Arguments that are slots of another name.
_SLOTS = {"device": "name", "list": "name", "degrees": "temperature"}
#: Functions that are told of lights where only a place is named.
_SWITCHES, _COVERS = ("turn_on", "turn_off"), ("open", "close", "set_position")
_DURATION = re.compile(r"P(?:(\d+)W)?(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+)S)?)?")
#: How much brighter or darker is, in per cent of full brightness.
STEP = 20


@dataclass(frozen=True)
class HomeIntent:
    """What Home Assistant is asked to do, and the key of the answer among its own."""

    type: str
    slots: Mapping[str, Any] = field(default_factory=dict)
    answer: str = "default"

    #: The function it comes from.
    function: str = ""

    def described(self, language: str = "en") -> str:
        """Return it in few words, to be asked about."""
        verb = VERBS.get(self.function, {}).get(language, self.function.replace("_", " "))
        return f"{verb}: {', '.join(str(value) for value in self.slots.values())}"


#: Functions that change what a person names or has just spoken of.
TARGETS = frozenset((
    "turn_on", "turn_off", "set_brightness", "make_brighter", "dim_light", "set_color", "open", "close",
    "set_position", "set_temperature", "set_fan_speed",
))  # fmt: skip
#: What must not be done to everything because nothing was named.
_NEED_TARGET = frozenset(("HassTurnOn", "HassTurnOff", "HassSetPosition", "HassGetState"))

_NEED_TIME = frozenset(("HassStartTimer", "HassIncreaseTimer", "HassDecreaseTimer"))


def needs_target(one: HomeIntent, *, is_somewhere: bool = True) -> bool:
    """Whether an intent names nothing that it is about: "turn it on", with nothing spoken of before.

    Light may be without a place if it is known where it was asked for (``is_somewhere``): it is that room's.
    """
    if one.type in _NEED_TIME:
        return not one.slots.keys() & {"hours", "minutes", "seconds"}
    needs = one.type in _NEED_TARGET or (one.type == "HassLightSet" and not is_somewhere)
    return needs and not one.slots.keys() & {
        "name",
        "area",
        "floor",
        "domain",
        "device_class",
    }


def is_risky(one: HomeIntent, home: Home, risky: Collection[str]) -> bool:
    """Whether an intent changes a device of a risky domain or device class."""
    if one.type in ("HassGetState", "HassClimateGetTemperature"):
        return False
    if {one.slots.get("domain"), one.slots.get("device_class")} & {*risky}:
        return True
    return any({device.domain, device.device_class} & {*risky} for device in _reached(one, home))


def _reached(one: HomeIntent, home: Home) -> list[Device]:
    """Return the devices that an intent may change: the named one, or those of its domain in its area ("open the garage").

    Where it is not known which devices stand there (a floor, an alias of an area), all of its domain.
    """
    if "name" in one.slots:
        device = home.device(str(one.slots["name"]))
        return [] if device is None else [device]
    domain, device_class = one.slots.get("domain"), one.slots.get("device_class")
    area = str(one.slots.get("area") or "").casefold()
    is_known = area in {place.name.casefold() for place in home.areas}
    return [
        each
        for each in home.devices
        if each.domain == domain
        and device_class in (None, each.device_class)
        and (not is_known or (each.area or "").casefold() == area)
    ]


def function_of(kind: str, slots: Mapping[str, Any], home: Home) -> str:
    """Return the function that an intent would come from, for turning on and off: a lock is locked, a cover opened."""
    device = home.device(str(slots.get("name") or ""))
    domain = slots.get("domain") or (device.domain if device else None)
    names = {"lock": ("lock", "unlock"), "cover": ("open", "close"), "valve": ("open", "close")}
    on, off = names.get(str(domain), ("turn_on", "turn_off"))
    return {"HassTurnOn": on, "HassTurnOff": off}.get(kind, kind.removeprefix("Hass"))


def to_intent(name: str, arguments: Mapping[str, Any]) -> HomeIntent:
    """Return the intent of a call. ``make_brighter`` and ``make_darker`` have none: they need a state (see :func:`brightness_step`)."""
    kind, answer, always = _INTENTS[name]
    slots = dict(always)
    for key, value in arguments.items():
        if key == "time":
            slots |= time_slots(value)
        elif key == "kind":
            slots |= kind_slots(value)
        elif key == "percent":
            slots[_PERCENT[name]] = value
        else:
            slots[_SLOTS.get(key, key)] = value
    if name in _SWITCHES and "name" not in slots:
        if "area" in slots or "floor" in slots:
            slots.setdefault("domain", "light")
        if slots.get("domain") in ("light", "fan"):
            plural = {"light": "lights", "fan": "fans"}[slots["domain"]]
            answer = (
                f"{plural}_area"
                if "area" in slots
                else f"{plural}_floor"
                if "floor" in slots
                else "light_all"
            )
    if name in _COVERS:
        if "area" in slots or "floor" in slots:
            slots.setdefault("domain", "cover")
        if name != "set_position":
            answer = (
                "cover"
                if "name" in slots
                else "cover_area"
                if "area" in slots
                else "cover_device_class"
            )
    if name == "get_state":
        answer = ("one_yesno" if "state" in slots else "one") if "name" in slots else "any"
        if slots.get("domain") == "cover":
            del slots["domain"]  # a sensor may tell of a window, too
    if name == "add_to_list" and "name" not in slots:
        kind = "HassShoppingListAddItem"
    if name in ("volume_up", "volume_down") and "volume_level" in slots:
        step = slots.pop("volume_level")
        slots["volume_step"] = step if name == "volume_up" else -step
    return HomeIntent(kind, slots, answer, name)


def kind_slots(word: str) -> dict[str, str]:
    """Return the slots of what people call a kind of devices: a domain, or covers of a device class."""
    for domain, words in DOMAIN_WORDS.items():
        if any(word in each for each in words.values()):
            return {"domain": domain}
    for device_class, words in CLASS_WORDS.items():
        if any(word in each for each in words.values()):
            return {"domain": "cover", "device_class": device_class}
    return {}


def time_slots(duration: str) -> dict[str, int]:
    """Return the slots of a length of time as RFC 3339 writes it: ``PT1H30M`` is an hour and 30 minutes."""
    found = _DURATION.fullmatch(duration)
    if found is None or re.search(r"\d{5}", duration):
        return {}
    weeks, days, hours, minutes, seconds = (int(each or 0) for each in found.groups())
    hours += 24 * (days + 7 * weeks)
    return {
        unit: n for unit, n in (("hours", hours), ("minutes", minutes), ("seconds", seconds)) if n
    }


def brightness_step(name: str, now: float | None) -> int:
    """Return the brightness in percent that is a step from ``now`` (percent; None for a light that is off)."""
    before = 0.0 if now is None else now
    after = before + STEP if name == "make_brighter" else before - STEP
    return int(max(1, min(100, round(after))))
