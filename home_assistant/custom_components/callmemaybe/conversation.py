"""The conversation agent: Home Assistant's own sentences first, then the model; what is risky or unsure is asked back.

The model only reads. What it read is an intent with slots, handled by Home Assistant's own handlers for exposed entities, and
answered in Home Assistant's own words.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal

from homeassistant.components import conversation
from homeassistant.components.conversation import DOMAIN as CONVERSATION
from homeassistant.config_entries import ConfigEntry
from homeassistant.core import HomeAssistant, callback
from homeassistant.helpers import device_registry as dr
from homeassistant.helpers import intent
from homeassistant.helpers.entity_platform import AddEntitiesCallback

from . import answers
from .const import (
    CONF_CONFIRM,
    CONF_OWN_FIRST,
    CONF_THRESHOLD,
    DEFAULT_CONFIRM,
    DEFAULT_OWN_FIRST,
    DEFAULT_THRESHOLD,
)
from .home import Home
from .intents import (
    TARGETS,
    HomeIntent,
    brightness_step,
    function_of,
    is_risky,
    needs_target,
    to_intent,
)
from .reading import HomeReader, ReadCall
from .registries import listen, read_home
from .words import LANGUAGES, is_no, is_yes, language_of, refers_back

#: Conversations that are remembered.
_MOST_REMEMBERED = 64
#: A call that is less likely right than this is not even asked about.
_HOPELESS = 0.2
_ERRORS = intent.IntentResponseErrorCode


async def async_setup_entry(
    _hass: HomeAssistant, entry: ConfigEntry, add: AddEntitiesCallback
) -> None:
    """Add the agent."""
    add([CallMeMaybeAgent(entry)])


@dataclass
class Remembered:
    """What a conversation was about: the last target, and what waits for a yes."""

    target: Mapping[str, Any] = field(default_factory=dict)
    waiting: tuple[HomeIntent, ...] = ()


class CallMeMaybeAgent(conversation.ConversationEntity):
    """Reads requests with the model, and hands intents to Home Assistant."""

    _attr_has_entity_name = True
    _attr_name = None
    _attr_supported_features = conversation.ConversationEntityFeature.CONTROL

    def __init__(self, entry: ConfigEntry) -> None:
        self._entry = entry
        self._attr_unique_id = entry.entry_id
        self._attr_name = entry.title
        self._readers: dict[str, HomeReader] = {}
        self._answered: set[str] = set()
        self._building = asyncio.Lock()
        self._talks: OrderedDict[str, Remembered] = OrderedDict()

    @property
    def supported_languages(self) -> list[str] | Literal["*"]:
        """The languages that the model reads."""
        return list(LANGUAGES)

    async def async_added_to_hass(self) -> None:
        """Keep in step with the home."""
        await super().async_added_to_hass()
        for end in listen(self.hass, self._forget_home):
            self.async_on_remove(end)

    @callback
    def _forget_home(self) -> None:
        self._readers = {}

    async def async_prepare(self, language: str | None = None) -> None:
        """Read the home before the first request."""
        await self._reader(language or self.hass.config.language)

    async def _reader(self, language: str) -> HomeReader:
        """Return the reader of the home as it is now."""
        short = language_of(language)
        async with self._building:
            readers = self._readers
            if short not in readers:
                home = read_home(self.hass)
                readers[short] = await self.hass.async_add_executor_job(
                    HomeReader, self._entry.runtime_data, home, short
                )
            return readers[short]

    async def _load_answers(self, language: str) -> None:
        """Read the answers of a language once, and not in the event loop."""
        if language not in self._answered:
            await self.hass.async_add_executor_job(answers.error_text, language)
            self._answered.add(language)

    # -- one request ------------------------------------------------------------------------------

    async def _async_handle_message(
        self, user_input: conversation.ConversationInput, chat_log: conversation.ChatLog
    ) -> conversation.ConversationResult:
        """Answer a request."""
        await self._load_answers(user_input.language)
        options = self._entry.options
        talk = self._talk(chat_log.conversation_id)
        waiting, talk.waiting = talk.waiting, ()
        language = language_of(user_input.language)
        if waiting and (is_yes(user_input.text, language) or is_no(user_input.text, language)):
            if is_yes(user_input.text, language):
                return self._end(
                    chat_log, user_input, await self._do_all(waiting, user_input, talk)
                )
            return self._end(chat_log, user_input, self._say(user_input, answers.NOTHING))
        if options.get(CONF_OWN_FIRST, DEFAULT_OWN_FIRST):
            risky: list[HomeIntent] = []
            response = await conversation.async_handle_intents(
                self.hass, user_input, chat_log, intent_filter=partial(self._is_risky_result, risky)
            )
            if response is not None:
                talk.target = _target_of(response)
                return self._end(chat_log, user_input, response)
            if risky:
                return self._ask_first(tuple(risky), answers.CONFIRM, user_input, chat_log, talk)
        reader = await self._reader(user_input.language)
        calls = await self.hass.async_add_executor_job(reader.read, user_input.text)
        if not calls or any(
            call.confidence is not None and call.confidence < _HOPELESS for call in calls
        ):
            return self._end(
                chat_log, user_input, self._error(user_input, _ERRORS.NO_INTENT_MATCH, "no_intent")
            )
        return await self._weigh(calls, reader.home, user_input, chat_log, talk)

    async def _weigh(
        self,
        calls: list[ReadCall],
        home: Home,
        user_input: conversation.ConversationInput,
        chat_log: conversation.ChatLog,
        talk: Remembered,
    ) -> conversation.ConversationResult:
        """Do what is sure and harmless; ask about the rest."""
        intents = tuple(self._resolved(call, talk, user_input) for call in calls)
        if any(one.type == "HassGetState" and needs_target(one) for one in intents):
            return self._end(
                chat_log, user_input, self._error(user_input, _ERRORS.NO_INTENT_MATCH, "no_intent")
            )
        is_somewhere = self._own_area(user_input) is not None
        if any(needs_target(one, is_somewhere=is_somewhere) for one in intents):
            return self._end(
                chat_log, user_input, self._say(user_input, answers.WHICH), goes_on=True
            )
        threshold = self._entry.options.get(CONF_THRESHOLD, DEFAULT_THRESHOLD)
        likelihoods = [call.confidence for call in calls if call.confidence is not None]
        risky = set(self._entry.options.get(CONF_CONFIRM, DEFAULT_CONFIRM))
        question = None
        if any(is_risky(one, home, risky) for one in intents):
            question = answers.CONFIRM
        elif likelihoods and min(likelihoods) < threshold:
            question = answers.UNSURE
        if question is None:
            return self._end(chat_log, user_input, await self._do_all(intents, user_input, talk))
        return self._ask_first(intents, question, user_input, chat_log, talk)

    def _ask_first(
        self,
        intents: tuple[HomeIntent, ...],
        question: int,
        user_input: conversation.ConversationInput,
        chat_log: conversation.ChatLog,
        talk: Remembered,
    ) -> conversation.ConversationResult:
        """Ask whether something shall be done, and wait for the answer."""
        talk.waiting = intents
        what = "; ".join(one.described(language_of(user_input.language)) for one in intents)
        return self._end(chat_log, user_input, self._say(user_input, question, what), goes_on=True)

    def _is_risky_result(self, found: list[HomeIntent], result: Any) -> bool:
        """Whether what Home Assistant's own sentences understood needs a yes; it is put into ``found`` then."""
        home = read_home(self.hass)
        slots = {one.name: one.value for one in result.entities_list}
        kind = result.intent.name
        one = HomeIntent(kind, slots, result.response or "default", function_of(kind, slots, home))
        if not is_risky(one, home, set(self._entry.options.get(CONF_CONFIRM, DEFAULT_CONFIRM))):
            return False
        found.append(one)
        return True

    def _resolved(
        self, call: ReadCall, talk: Remembered, user_input: conversation.ConversationInput
    ) -> HomeIntent:
        """Return the intent of a call: "it" is what was spoken of, "brighter" a step from what is."""
        arguments = dict(call.arguments)
        has_target = any(key in arguments for key in ("device", "area", "floor", "kind"))
        is_relative = call.name in ("make_brighter", "dim_light")
        if (
            not has_target
            and call.name in TARGETS
            and (is_relative or refers_back(user_input.text, language_of(user_input.language)))
        ):
            arguments |= talk.target
        if is_relative:
            arguments["percent"] = brightness_step(
                call.name, self._brightness(arguments, user_input)
            )
            return to_intent("set_brightness", arguments)
        return to_intent(call.name, arguments)

    def _brightness(
        self, arguments: Mapping[str, Any], user_input: conversation.ConversationInput
    ) -> float | None:
        """Return the mean brightness, in percent, of the lights that are meant; None if none is on."""
        area = self._own_area(user_input)
        found = intent.async_match_targets(
            self.hass,
            intent.MatchTargetsConstraints(
                name=arguments.get("device"), area_name=arguments.get("area"), floor_name=arguments.get("floor"),
                domains={"light"}, assistant=CONVERSATION,
            ),
            intent.MatchTargetsPreferences(area_id=area) if area else None,
        )  # fmt: skip
        levels = [
            100 * state.attributes["brightness"] / 255
            for state in found.states if state.attributes.get("brightness") is not None
        ]  # fmt: skip
        return sum(levels) / len(levels) if levels else None

    def _own_area(self, user_input: conversation.ConversationInput) -> str | None:
        """Return the id of the area of the device that was spoken to."""
        device = user_input.device_id and dr.async_get(self.hass).async_get(user_input.device_id)
        return device.area_id if device else None

    # -- doing --------------------------------------------------------------------------------------

    async def _do_all(
        self,
        intents: tuple[HomeIntent, ...],
        user_input: conversation.ConversationInput,
        talk: Remembered,
    ) -> intent.IntentResponse:
        """Handle intents in their order; what was said of each is said in one answer. The first that fails is the last."""
        spoken: list[str] = []
        response = intent.IntentResponse(language=user_input.language)
        for one in intents:
            response = await self._do(one, user_input)
            speech = response.speech.get("plain", {}).get("speech", "")
            if speech and speech not in spoken:
                spoken.append(speech)
            if response.response_type is intent.IntentResponseType.ERROR:
                break
            talk.target = _target_of(response) or _target_of_slots(one.slots) or talk.target
        response.async_set_speech(
            ". ".join(text.rstrip(".") for text in spoken) if len(spoken) > 1 else "".join(spoken)
        )
        return response

    async def _do(
        self, one: HomeIntent, user_input: conversation.ConversationInput
    ) -> intent.IntentResponse:
        slots: dict[str, Any] = {
            key: {"value": value, "text": str(value)} for key, value in one.slots.items()
        }
        if area := self._own_area(user_input):
            slots["preferred_area_id"] = {"value": area}
        try:
            response = await intent.async_handle(
                self.hass, CONVERSATION, one.type, slots, user_input.text, user_input.context, user_input.language,
                assistant=CONVERSATION, device_id=user_input.device_id, satellite_id=user_input.satellite_id,
                conversation_agent_id=user_input.agent_id,
            )  # fmt: skip
        except intent.MatchFailedError:
            return self._error(
                user_input,
                _ERRORS.NO_VALID_TARGETS,
                "no_entity" if "name" in one.slots else "no_intent",
                one,
            )
        except intent.IntentError:
            return self._error(user_input, _ERRORS.FAILED_TO_HANDLE, "handle_error")
        if not response.speech:
            text = answers.answer_template(user_input.language, one.type, one.answer)
            said = answers.render(self.hass, text, response, dict(one.slots)) if text else ""
            response.async_set_speech(said)
        return response

    # -- answers --------------------------------------------------------------------------------------

    def _say(
        self, user_input: conversation.ConversationInput, which: int, what: str = ""
    ) -> intent.IntentResponse:
        response = intent.IntentResponse(language=user_input.language)
        response.async_set_speech(answers.ours(which, language_of(user_input.language), what))
        return response

    def _error(
        self,
        user_input: conversation.ConversationInput,
        code: Any,
        key: str,
        one: HomeIntent | None = None,
    ) -> intent.IntentResponse:
        text = answers.error_text(user_input.language, key)
        if "{" in text:
            text = answers.render(
                self.hass, text.replace("entity", "slots.name"), intent.IntentResponse(language=user_input.language),
                dict(one.slots) if one else {},
            )  # fmt: skip
        response = intent.IntentResponse(language=user_input.language)
        response.async_set_error(code, text)
        return response

    def _end(
        self,
        chat_log: conversation.ChatLog,
        user_input: conversation.ConversationInput,
        response: intent.IntentResponse,
        *,
        goes_on: bool = False,
    ) -> conversation.ConversationResult:
        speech = response.speech.get("plain", {}).get("speech", "")
        chat_log.async_add_assistant_content_without_tools(
            conversation.AssistantContent(agent_id=user_input.agent_id, content=speech)
        )
        return conversation.ConversationResult(
            response=response,
            conversation_id=chat_log.conversation_id,
            continue_conversation=goes_on,
        )

    def _talk(self, conversation_id: str) -> Remembered:
        talk = self._talks.setdefault(conversation_id, Remembered())
        self._talks.move_to_end(conversation_id)
        while len(self._talks) > _MOST_REMEMBERED:
            self._talks.popitem(last=False)
        return talk


def _target_of(response: intent.IntentResponse) -> dict[str, Any]:
    """Return what a response was about, as arguments: one device, or one area with its lights."""
    found = [one for one in response.success_results if one.id]
    for kind, key in (
        (intent.IntentResponseTargetType.AREA, "area"),
        (intent.IntentResponseTargetType.ENTITY, "device"),
    ):
        named = [one.name for one in found if one.type is kind]
        if len(named) == 1:
            return {key: named[0]}
    return {}


def _target_of_slots(slots: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "device" if key == "name" else key: slots[key]
        for key in ("name", "area", "floor")
        if key in slots
    }
