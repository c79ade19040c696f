"""A real Home Assistant with a small home, and the agent in it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

import custom_components  # noqa: F401 - first of all: the test kit has a package of this name, too
import pytest
from homeassistant.components import conversation
from homeassistant.components.homeassistant.exposed_entities import async_expose_entity
from homeassistant.core import Context, HomeAssistant, ServiceCall
from homeassistant.helpers import area_registry as ar
from homeassistant.helpers import entity_registry as er
from homeassistant.helpers import floor_registry as fr
from homeassistant.setup import async_setup_component
from pytest_homeassistant_custom_component.common import MockConfigEntry

Ask = Callable[..., Awaitable[conversation.ConversationResult]]

#: id, name, area, state, attributes
ENTITIES = (
    ("light.ceiling", "Ceiling Light", "Kitchen", "off", {"supported_color_modes": ["rgb"], "color_mode": "rgb"}),
    ("light.counter", "Counter Lamp", "Kitchen", "on",
     {"supported_color_modes": ["rgb"], "color_mode": "rgb", "brightness": 102}),
    ("light.bed", "Bedside Lamp", "Bedroom", "off", {"supported_color_modes": ["rgb"], "color_mode": "rgb"}),
    ("switch.kettle", "Kettle", "Kitchen", "off", {}),
    ("cover.curtain", "Curtain", "Bedroom", "open", {"device_class": "curtain", "supported_features": 15}),
    ("cover.garage", "Garage Door", "Garage", "closed", {"device_class": "garage", "supported_features": 15}),
    ("lock.front", "Front Door", "Hall", "locked", {}),
    ("lock.secret", "Safe", "Bedroom", "locked", {}),
    ("climate.heating", "Heating", "Living Room", "heat",
     {"current_temperature": 19.5, "temperature": 20, "supported_features": 1}),
    ("media_player.tv", "TV", "Living Room", "playing", {"supported_features": 152_461}),
)  # fmt: skip
#: Entities that are there and not exposed to assistants.
HIDDEN = ("lock.secret",)


@pytest.fixture(autouse=True)
def _custom(enable_custom_integrations: None) -> None:
    """Load integrations from ``custom_components``."""


@pytest.fixture
async def home(hass: HomeAssistant) -> dict[str, list[ServiceCall]]:
    """Set up rooms, devices and services that only note what they are asked; returns the notes by service."""
    for component in (
        "homeassistant",
        "light",
        "switch",
        "cover",
        "lock",
        "climate",
        "media_player",
        "intent",
        "conversation",
    ):
        assert await async_setup_component(hass, component, {})
    floor = fr.async_get(hass).async_create("Ground Floor")
    areas, entities = ar.async_get(hass), er.async_get(hass)
    for entity_id, name, area, state, attributes in ENTITIES:
        domain, object_id = entity_id.split(".")
        place = areas.async_get_area_by_name(area) or areas.async_create(
            area, floor_id=floor.floor_id
        )
        entry = entities.async_get_or_create(
            domain, "test", object_id, suggested_object_id=object_id, original_name=name
        )
        entities.async_update_entity(entry.entity_id, area_id=place.id, name=name)
        hass.states.async_set(entity_id, state, {"friendly_name": name, **attributes})
        async_expose_entity(hass, conversation.DOMAIN, entity_id, entity_id not in HIDDEN)
    called: dict[str, list[ServiceCall]] = {}

    def note(call: ServiceCall) -> None:
        called.setdefault(f"{call.domain}.{call.service}", []).append(call)

    for domain, services in {
        "light": ("turn_on", "turn_off"), "switch": ("turn_on", "turn_off"), "homeassistant": ("turn_on", "turn_off"),
        "cover": ("open_cover", "close_cover", "set_cover_position"), "lock": ("lock", "unlock"),
        "climate": ("set_temperature",), "media_player": ("media_pause", "volume_set"),
    }.items():  # fmt: skip
        for service in services:
            hass.services.async_register(domain, service, note)
    return called


@pytest.fixture
async def agent(
    hass: HomeAssistant, home: dict[str, list[ServiceCall]]
) -> AsyncIterator[MockConfigEntry]:
    """Add the agent."""
    assert not home
    entry = MockConfigEntry(domain="callmemaybe", title="Call Me Maybe", data={"model": "nano"})
    entry.add_to_hass(hass)
    assert await hass.config_entries.async_setup(entry.entry_id)
    await hass.async_block_till_done()
    yield entry
    await hass.config_entries.async_unload(entry.entry_id)
    await asyncio.sleep(0)


@pytest.fixture
def ask(hass: HomeAssistant, agent: MockConfigEntry) -> Ask:
    """Return a function that says something to the agent."""
    agent_id = next(
        iter(er.async_entries_for_config_entry(er.async_get(hass), agent.entry_id))
    ).entity_id

    async def say(
        text: str, talk: str | None = None, language: str = "en"
    ) -> conversation.ConversationResult:
        result = await conversation.async_converse(
            hass, text, talk, Context(), language=language, agent_id=agent_id
        )
        await hass.async_block_till_done()
        return result

    return say
