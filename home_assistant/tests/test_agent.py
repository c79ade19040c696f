"""The agent in the real Home Assistant: what it does, what it asks, what it refuses."""

from __future__ import annotations

import pytest
from homeassistant.components import conversation
from homeassistant.components.homeassistant.exposed_entities import async_expose_entity
from homeassistant.config_entries import SOURCE_USER, ConfigEntryState
from homeassistant.core import HomeAssistant, ServiceCall
from homeassistant.data_entry_flow import FlowResultType
from homeassistant.helpers import area_registry as ar
from homeassistant.helpers import entity_registry as er
from homeassistant.helpers.intent import IntentResponseErrorCode, IntentResponseType
from pytest_homeassistant_custom_component.common import MockConfigEntry

from .conftest import Ask

Called = dict[str, list[ServiceCall]]


def speech(result: conversation.ConversationResult) -> str:
    """Return what was said."""
    return str(result.response.speech["plain"]["speech"])


def targets(called: Called, service: str) -> list[str]:
    """Return the entities that a service was called for, whichever domain it is of."""
    found = []
    for call in [
        call for name, calls in called.items() if name.endswith(f".{service}") for call in calls
    ]:
        ids = call.data["entity_id"]
        found += [ids] if isinstance(ids, str) else list(ids)
    return sorted(found)


async def test_home_assistants_own_sentences_come_first(ask: Ask, home: Called) -> None:
    """What Home Assistant understands by itself is its own to do and to answer."""
    result = await ask("turn on the kettle")
    assert targets(home, "turn_on") == ["switch.kettle"]
    assert speech(result) == "Turned on the switch"


async def test_other_wordings_are_understood(ask: Ask, home: Called) -> None:
    """A wording that no template has, answered in Home Assistant's words."""
    result = await ask("could you get the counter lamp going please")
    assert result.response.response_type is not IntentResponseType.ERROR
    assert targets(home, "turn_on") == ["light.counter"]
    assert speech(result).startswith("Turned on")


async def test_several_clauses_are_several_acts(ask: Ask, home: Called) -> None:
    """Each clause is done, in its order."""
    await ask("turn on the ceiling light and close the curtain")
    assert targets(home, "turn_on") == ["light.ceiling"]
    assert targets(home, "close_cover") == ["cover.curtain"]


async def test_it_is_what_was_spoken_of(ask: Ask, home: Called) -> None:
    """A pronoun means the device of the same conversation, and nothing in another one."""
    first = await ask("switch on the bedside lamp")
    await ask("turn it off again please", first.conversation_id)
    assert targets(home, "turn_off") == ["light.bed"]
    other = await ask("turn it off again please")
    assert speech(other) == "Which device or room?"
    assert targets(home, "turn_off") == ["light.bed"]


async def test_what_the_home_has_not_is_not_what_was_spoken_of(ask: Ask, home: Called) -> None:
    """An unknown device is asked about, and the lamp of before is left alone."""
    first = await ask("switch on the bedside lamp")
    await ask("could you get the espresso machine going", first.conversation_id)
    assert targets(home, "turn_on") == ["light.bed"]


async def test_brighter_is_a_step_from_what_is(ask: Ask, home: Called) -> None:
    """The counter lamp is at 40 percent."""
    result = await ask("make the counter lamp a bit brighter")
    assert targets(home, "turn_on") == ["light.counter"], (
        speech(result),
        result.response.error_code,
    )
    assert [call.data["brightness_pct"] for call in home["light.turn_on"]] == [60]


@pytest.mark.parametrize(("text", "service", "entity"), [
    ("unlock the front door", "unlock", "lock.front"),
    ("open the garage door", "open_cover", "cover.garage"),
    ("please open the garage for me", "open_cover", "cover.garage"),
])  # fmt: skip
async def test_risky_acts_need_a_yes(
    ask: Ask, home: Called, text: str, service: str, entity: str
) -> None:
    """Nothing happens before a yes, after a no, or after anything else."""
    for answer in ("no", "what is the time", "yes of course not"):
        asked = await ask(text)
        assert asked.continue_conversation, speech(asked)
        assert not targets(home, service)
        await ask(answer, asked.conversation_id)
        await ask("yes", asked.conversation_id)
        assert not targets(home, service)
    asked = await ask(text)
    done = await ask("Yes.", asked.conversation_id)
    assert done.response.response_type is not IntentResponseType.ERROR
    assert targets(home, service) == [entity]


async def test_light_without_a_place_is_asked_about(ask: Ask, home: Called) -> None:
    """Where nobody knows in which room it was said, not all lights of the home are meant."""
    assert speech(await ask("make it a bit brighter")) == "Which device or room?"
    assert not home


async def test_a_question_changes_nothing(ask: Ask, home: Called) -> None:
    """Also where the model would rather lock the door."""
    result = await ask("would you know, is the front door locked")
    assert not home
    again = await ask("is the front door still locked or what")
    assert not home, (speech(result), speech(again))


async def test_foreign_requests_are_refused(ask: Ask, home: Called) -> None:
    """With Home Assistant's own sentence."""
    result = await ask("who painted the ceiling of the sistine chapel")
    assert result.response.error_code is IntentResponseErrorCode.NO_INTENT_MATCH
    assert speech(result) == "Sorry, I couldn't understand that"
    assert not home


async def test_what_is_not_exposed_cannot_be_named(
    hass: HomeAssistant, ask: Ask, home: Called
) -> None:
    """Neither told of nor touched; once it is exposed it can be."""
    await ask("please get the safe open for me, unlock it")
    assert not targets(home, "unlock")
    async_expose_entity(hass, conversation.DOMAIN, "lock.secret", True)
    asked = await ask("I want the safe unlocked")
    assert "Safe" in speech(asked)


async def test_the_home_may_change(hass: HomeAssistant, ask: Ask, home: Called) -> None:
    """A new area and a new name are known at once."""
    areas, entities = ar.async_get(hass), er.async_get(hass)
    attic = areas.async_create("Attic")
    entities.async_update_entity("light.bed", name="Reading Light", area_id=attic.id)
    hass.states.async_set(
        "light.bed",
        "off",
        {"friendly_name": "Reading Light", "supported_color_modes": ["rgb"], "color_mode": "rgb"},
    )
    await hass.async_block_till_done()
    await ask("would you get the reading light going")
    assert targets(home, "turn_on") == ["light.bed"]


async def test_german_is_read_and_answered(ask: Ask, home: Called) -> None:
    """In Home Assistant's words for German."""
    result = await ask("kannst du bitte Counter Lamp mal einschalten", language="de")
    assert targets(home, "turn_on") == ["light.counter"], speech(result)


async def test_the_flow_tries_the_model(hass: HomeAssistant, home: Called) -> None:
    """A model that is not there is said on the form; "nano" makes an entry, once."""
    assert not home
    flow = await hass.config_entries.flow.async_init("callmemaybe", context={"source": SOURCE_USER})
    assert flow["type"] is FlowResultType.FORM
    flow = await hass.config_entries.flow.async_configure(
        flow["flow_id"], {"model": "/nowhere/model"}
    )
    assert flow["errors"] == {"model": "cannot_load"}
    assert "/nowhere/model" in flow["description_placeholders"]["why"]
    flow = await hass.config_entries.flow.async_configure(flow["flow_id"], {"model": "nano"})
    assert flow["type"] is FlowResultType.CREATE_ENTRY
    await hass.async_block_till_done()
    entry = hass.config_entries.async_entries("callmemaybe")[0]
    assert entry.state is ConfigEntryState.LOADED
    again = await hass.config_entries.flow.async_init(
        "callmemaybe", context={"source": SOURCE_USER}
    )
    again = await hass.config_entries.flow.async_configure(again["flow_id"], {"model": "nano"})
    assert again["reason"] == "already_configured"


async def test_options_take_effect(
    hass: HomeAssistant, agent: MockConfigEntry, ask: Ask, home: Called
) -> None:
    """Without anything that needs a yes, the door is unlocked at once."""
    flow = await hass.config_entries.options.async_init(agent.entry_id)
    flow = await hass.config_entries.options.async_configure(
        flow["flow_id"], {"own_sentences_first": True, "threshold": 0.0, "confirm": []}
    )
    assert flow["type"] is FlowResultType.CREATE_ENTRY
    await hass.async_block_till_done()
    await ask("unlock the front door")
    assert targets(home, "unlock") == ["lock.front"]
