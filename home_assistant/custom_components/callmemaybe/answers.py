"""What is said: Home Assistant's own answers in the language of the request, and the few sentences that are ours."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from home_assistant_intents import get_intents
from homeassistant.core import HomeAssistant, State
from homeassistant.helpers import intent, template

#: Ours: a call that needs a yes, a call that the model is unsure of, one that lacks its target, and a no.
_OURS = {
    "en": ("Shall I do this: {what}? Say yes or no.", "Did you mean: {what}? Say yes or no.", "Which device or room?", "All right, I do nothing."),
    "de": ("Soll ich das tun: {what}? Ja oder nein?", "Meinten Sie: {what}? Ja oder nein?", "Welches Gerät oder welcher Raum?", "Gut, ich tue nichts."),
    "fr": ("Dois-je faire ceci : {what} ? Oui ou non ?", "Vouliez-vous dire : {what} ? Oui ou non ?", "Quel appareil ou quelle pièce ?", "D'accord, je ne fais rien."),
    "es": ("¿Hago esto: {what}? ¿Sí o no?", "¿Quería decir: {what}? ¿Sí o no?", "¿Qué dispositivo o qué habitación?", "De acuerdo, no hago nada."),
}  # fmt: skip
CONFIRM, UNSURE, WHICH, NOTHING = range(4)


def ours(which: int, language: str, what: str = "") -> str:
    """Return one of our own sentences."""
    return _OURS[language][which].format(what=what)


@lru_cache(maxsize=8)
def _responses(language: str) -> dict[str, Any]:
    """Return Home Assistant's answers in a language. Reads a file: call it in an executor."""
    for tag in (language, language.split("-", maxsplit=1)[0], "en"):
        found = get_intents(tag)
        if found:
            return dict(found.get("responses") or {})
    return {}


def error_text(language: str, key: str = "no_intent") -> str:
    """Return Home Assistant's own sentence for what is not understood, or could not be done."""
    return str(_responses(language).get("errors", {}).get(key, ""))


def answer_template(language: str, intent_type: str, key: str) -> str:
    """Return the template of an answer; "" where Home Assistant has none."""
    known = _responses(language).get("intents", {}).get(intent_type, {})
    return str(known.get(key) or known.get("default") or "")


def render(
    hass: HomeAssistant, text: str, response: intent.IntentResponse, slots: dict[str, Any]
) -> str:
    """Return an answer with the states and slots of a response put in."""

    def wrapped(states: list[State]) -> list[template.TemplateState]:
        return [template.TemplateState(hass, state) for state in states]

    states = [*response.matched_states, *response.unmatched_states]
    found = template.Template(text, hass).async_render({
        "slots": slots | response.speech_slots,
        "state": template.TemplateState(hass, states[0]) if states else None,
        "query": {"matched": wrapped(response.matched_states), "unmatched": wrapped(response.unmatched_states)},
    })  # fmt: skip
    return " ".join(str(found).split())
