"""Call Me Maybe for Home Assistant: a conversation agent that runs on the machine itself and names no device that is not there.

Home Assistant imports this package; what is pure in it (``home``, ``words``, ``intents``, ``reading``) imports nothing of Home
Assistant and can be used and tested without it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from homeassistant.config_entries import ConfigEntry
    from homeassistant.core import HomeAssistant


async def async_setup_entry(hass: HomeAssistant, entry: ConfigEntry) -> bool:
    """Load the model, and add the agent."""
    from homeassistant.const import Platform
    from homeassistant.exceptions import ConfigEntryNotReady

    from .const import CONF_MODEL, DEFAULT_MODEL

    def load() -> object:
        from callmemaybe import load_model

        return load_model(entry.data.get(CONF_MODEL, DEFAULT_MODEL))

    from callmemaybe.errors import CallMeMaybeError

    try:
        entry.runtime_data = await hass.async_add_executor_job(load)
    except CallMeMaybeError as error:
        raise ConfigEntryNotReady(str(error)) from error
    await hass.config_entries.async_forward_entry_setups(entry, [Platform.CONVERSATION])
    return True


async def async_unload_entry(hass: HomeAssistant, entry: ConfigEntry) -> bool:
    """Take the agent away."""
    from homeassistant.const import Platform

    return await hass.config_entries.async_unload_platforms(entry, [Platform.CONVERSATION])
