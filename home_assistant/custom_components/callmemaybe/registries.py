"""Reads the home from Home Assistant's registries: what is exposed to its assistant, with all names that it answers to."""

from __future__ import annotations

from collections.abc import Callable

from homeassistant.components.conversation import DOMAIN as CONVERSATION
from homeassistant.components.homeassistant.exposed_entities import (
    async_listen_entity_updates,
    async_should_expose,
)
from homeassistant.const import ATTR_DEVICE_CLASS, EVENT_STATE_CHANGED
from homeassistant.core import Event, HomeAssistant, callback
from homeassistant.helpers import (
    area_registry as ar,
)
from homeassistant.helpers import (
    entity_registry as er,
)
from homeassistant.helpers import (
    floor_registry as fr,
)
from homeassistant.helpers import (
    intent,
)

from .home import Device, Home, Place


def _names(found: list[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(" ".join(name.split()) for name in found if name.strip()))


@callback
def read_home(hass: HomeAssistant) -> Home:
    """Return what a person may speak of now."""
    areas = ar.async_get(hass)
    entities = er.async_get(hass)
    devices = []
    for state in hass.states.async_all():
        if not async_should_expose(hass, CONVERSATION, state.entity_id):
            continue
        entry = entities.async_get(state.entity_id)
        names = _names(intent.async_get_entity_aliases(hass, entry, state=state))
        if not names:
            continue
        area = er.async_get_effective_area_id(hass, entry) if entry else None
        known = areas.async_get_area(area) if area else None
        devices.append(Device(
            names[0], state.domain, names[1:], known.name if known else None, state.attributes.get(ATTR_DEVICE_CLASS)
        ))  # fmt: skip
    return Home(
        tuple(devices),
        tuple(Place(one.name, _names(list(one.aliases))) for one in areas.async_list_areas()),
        tuple(
            Place(one.name, _names(list(one.aliases)))
            for one in fr.async_get(hass).async_list_floors()
        ),
    )


@callback
def listen(hass: HomeAssistant, changed: Callable[[], None]) -> list[Callable[[], None]]:
    """Call ``changed`` whenever the home may be another; returns what ends that."""

    @callback
    def heard(_event: Event) -> None:
        changed()

    @callback
    def is_new_or_gone(data: dict) -> bool:
        return data.get("old_state") is None or data.get("new_state") is None

    return [
        hass.bus.async_listen(ar.EVENT_AREA_REGISTRY_UPDATED, heard),
        hass.bus.async_listen(fr.EVENT_FLOOR_REGISTRY_UPDATED, heard),
        hass.bus.async_listen(er.EVENT_ENTITY_REGISTRY_UPDATED, heard),
        hass.bus.async_listen(EVENT_STATE_CHANGED, heard, event_filter=is_new_or_gone),
        async_listen_entity_updates(hass, CONVERSATION, changed),
    ]
