"""The settings: which model, how sure it must be, and what needs a yes."""

from __future__ import annotations

from typing import Any

try:
    import probatio as vol
except ImportError:  # before 2026.11
    import voluptuous as vol
from homeassistant.config_entries import (
    ConfigEntry,
    ConfigFlow,
    ConfigFlowResult,
    OptionsFlow,
    OptionsFlowWithReload,
)
from homeassistant.core import callback
from homeassistant.helpers.selector import (
    BooleanSelector,
    NumberSelector,
    NumberSelectorConfig,
    NumberSelectorMode,
    SelectSelector,
    SelectSelectorConfig,
    TextSelector,
)

from callmemaybe.errors import CallMeMaybeError

from .const import (
    CONF_CONFIRM,
    CONF_MODEL,
    CONF_OWN_FIRST,
    CONF_THRESHOLD,
    DEFAULT_CONFIRM,
    DEFAULT_MODEL,
    DEFAULT_OWN_FIRST,
    DEFAULT_THRESHOLD,
    DOMAIN,
    RISKY,
)

_MODEL = vol.Schema({vol.Required(CONF_MODEL, default=DEFAULT_MODEL): TextSelector()})


def _options(now: dict[str, Any]) -> Any:
    return vol.Schema({
        vol.Required(CONF_OWN_FIRST, default=now.get(CONF_OWN_FIRST, DEFAULT_OWN_FIRST)): BooleanSelector(),
        vol.Required(CONF_THRESHOLD, default=now.get(CONF_THRESHOLD, DEFAULT_THRESHOLD)): NumberSelector(
            NumberSelectorConfig(min=0, max=1, step=0.05, mode=NumberSelectorMode.SLIDER)
        ),
        vol.Required(CONF_CONFIRM, default=now.get(CONF_CONFIRM, DEFAULT_CONFIRM)): SelectSelector(
            SelectSelectorConfig(options=list(RISKY), multiple=True, translation_key=CONF_CONFIRM)
        ),
    })  # fmt: skip


class CallMeMaybeConfigFlow(ConfigFlow, domain=DOMAIN):
    """Asks for the model, and tries it."""

    VERSION = 1

    async def async_step_user(self, user_input: dict[str, Any] | None = None) -> ConfigFlowResult:
        """Ask for the model: "nano", a folder, or the address of a server."""
        errors: dict[str, str] = {}
        if user_input is not None:
            model = str(user_input[CONF_MODEL]).strip()
            self._async_abort_entries_match({CONF_MODEL: model})
            try:
                await self.hass.async_add_executor_job(_try, model)
            except CallMeMaybeError as error:
                errors[CONF_MODEL] = "cannot_load"
                return self.async_show_form(
                    step_id="user", data_schema=self.add_suggested_values_to_schema(_MODEL, user_input),
                    errors=errors, description_placeholders={"why": str(error)},
                )  # fmt: skip
            title = "Call Me Maybe" if model == DEFAULT_MODEL else f"Call Me Maybe: {model}"
            return self.async_create_entry(title=title, data={CONF_MODEL: model})
        return self.async_show_form(
            step_id="user", data_schema=_MODEL, description_placeholders={"why": ""}
        )

    @staticmethod
    @callback
    def async_get_options_flow(_entry: ConfigEntry) -> OptionsFlow:
        """Return the flow of what can be changed later."""
        return CallMeMaybeOptionsFlow()


class CallMeMaybeOptionsFlow(OptionsFlowWithReload):
    """Asks how sure the model must be, and what needs a yes."""

    async def async_step_init(self, user_input: dict[str, Any] | None = None) -> ConfigFlowResult:
        """Ask for all of it on one page."""
        if user_input is not None:
            return self.async_create_entry(data=user_input)
        return self.async_show_form(
            step_id="init", data_schema=_options(dict(self.config_entry.options))
        )


def _try(model: str) -> None:
    """Load a model and ask it something. Raises CallMeMaybeError."""
    from callmemaybe import Caller, load_model

    Caller(
        load_model(model), [{"name": "get_time", "description": "Tell the time", "parameters": {}}]
    ).call("What time is it?")
