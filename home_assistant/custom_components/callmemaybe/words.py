"""Words by language: what people call kinds of devices, how questions begin, and what a timer is called."""

from __future__ import annotations

import re

#: Languages that are read; any other is read as English.
LANGUAGES = ("en", "de", "fr", "es")

#: What people call all devices of a domain.
DOMAIN_WORDS: dict[str, dict[str, tuple[str, ...]]] = {
    "light": {
        "en": ("lights", "light", "lamps", "lamp", "lighting"),
        "de": ("Lichter", "Licht", "Lampen", "Lampe", "Beleuchtung"),
        "fr": ("lumières", "lumière", "lampes", "lampe", "éclairage"),
        "es": ("luces", "luz", "lámparas", "lámpara", "iluminación"),
    },
    "fan": {
        "en": ("fans", "fan"),
        "de": ("Ventilatoren", "Ventilator", "Lüfter"),
        "fr": ("ventilateurs", "ventilateur"),
        "es": ("ventiladores", "ventilador"),
    },
    "switch": {
        "en": ("switches", "outlets"),
        "de": ("Schalter", "Steckdosen"),
        "fr": ("interrupteurs", "prises"),
        "es": ("interruptores", "enchufes"),
    },
    "lock": {
        "en": ("locks",),
        "de": ("Schlösser",),
        "fr": ("serrures",),
        "es": ("cerraduras",),
    },
}
#: What people call covers of a device class.
CLASS_WORDS: dict[str, dict[str, tuple[str, ...]]] = {
    "curtain": {
        "en": ("curtains", "curtain"),
        "de": ("Vorhänge", "Vorhang", "Gardinen", "Gardine"),
        "fr": ("rideaux", "rideau"),
        "es": ("cortinas", "cortina"),
    },
    "blind": {
        "en": ("blinds", "blind"),
        "de": ("Jalousien", "Jalousie"),
        "fr": ("stores", "store"),
        "es": ("persianas", "persiana"),
    },
    "shutter": {
        "en": ("shutters", "shutter"),
        "de": ("Rollläden", "Rollladen", "Rolladen", "Fensterläden"),
        "fr": ("volets", "volet"),
        "es": ("contraventanas", "contraventana"),
    },
    "shade": {
        "en": ("shades", "shade"),
        "de": ("Rollos", "Rollo"),
        "fr": ("stores",),
        "es": ("estores", "estor"),
    },
    "window": {
        "en": ("windows", "window"),
        "de": ("Fenster",),
        "fr": ("fenêtres", "fenêtre"),
        "es": ("ventanas", "ventana"),
    },
    "door": {
        "en": ("doors", "door"),
        "de": ("Türen", "Tür"),
        "fr": ("portes", "porte"),
        "es": ("puertas", "puerta"),
    },
    "garage": {
        "en": ("garage doors", "garage door"),
        "de": ("Garagentore", "Garagentor"),
        "fr": ("portes de garage", "porte de garage"),
        "es": ("puertas de garaje", "puerta de garaje"),
    },
    "gate": {
        "en": ("gates", "gate"),
        "de": ("Tore", "Tor"),
        "fr": ("portails", "portail"),
        "es": ("portones", "portón"),
    },
    "awning": {
        "en": ("awnings", "awning"),
        "de": ("Markisen", "Markise"),
        "fr": ("auvents", "auvent"),
        "es": ("toldos", "toldo"),
    },
}

#: What people call states.
STATE_WORDS: dict[str, dict[str, tuple[str, ...]]] = {
    "on": {"en": ("on",), "de": ("an", "ein", "eingeschaltet", "angeschaltet"), "fr": ("allumé", "allumée", "allumés", "allumées"), "es": ("encendido", "encendida", "encendidos", "encendidas")},
    "off": {"en": ("off",), "de": ("aus", "ausgeschaltet"), "fr": ("éteint", "éteinte", "éteints", "éteintes"), "es": ("apagado", "apagada", "apagados", "apagadas")},
    "open": {"en": ("open", "opened"), "de": ("offen", "auf", "geöffnet"), "fr": ("ouvert", "ouverte", "ouverts", "ouvertes"), "es": ("abierto", "abierta", "abiertos", "abiertas")},
    "closed": {"en": ("closed", "shut"), "de": ("zu", "geschlossen"), "fr": ("fermé", "fermée", "fermés", "fermées"), "es": ("cerrado", "cerrada", "cerrados", "cerradas")},
    "locked": {"en": ("locked",), "de": ("abgeschlossen", "verriegelt", "abgesperrt", "verschlossen"), "fr": ("verrouillé", "verrouillée", "verrouillés", "verrouillées"), "es": ("bloqueado", "bloqueada", "bloqueados", "bloqueadas")},
    "unlocked": {"en": ("unlocked",), "de": ("aufgeschlossen", "entriegelt", "aufgesperrt", "unverschlossen"), "fr": ("déverrouillé", "déverrouillée", "déverrouillés", "déverrouillées"), "es": ("desbloqueado", "desbloqueada", "desbloqueados", "desbloqueadas")},
}  # fmt: skip

#: What functions are called when a person is asked about them.
VERBS: dict[str, dict[str, str]] = {
    "turn_on": {"en": "turn on", "de": "einschalten", "fr": "allumer", "es": "encender"},
    "turn_off": {"en": "turn off", "de": "ausschalten", "fr": "éteindre", "es": "apagar"},
    "open": {"en": "open", "de": "öffnen", "fr": "ouvrir", "es": "abrir"},
    "close": {"en": "close", "de": "schließen", "fr": "fermer", "es": "cerrar"},
    "lock": {"en": "lock", "de": "abschließen", "fr": "verrouiller", "es": "bloquear"},
    "unlock": {"en": "unlock", "de": "aufschließen", "fr": "déverrouiller", "es": "desbloquear"},
    "set_position": {"en": "move", "de": "stellen", "fr": "régler", "es": "mover"},
    "set_brightness": {"en": "set the brightness", "de": "Helligkeit stellen", "fr": "régler la luminosité", "es": "ajustar el brillo"},
    "set_color": {"en": "set the color", "de": "Farbe ändern", "fr": "changer la couleur", "es": "cambiar el color"},
    "set_temperature": {"en": "set the temperature", "de": "Temperatur stellen", "fr": "régler la température", "es": "ajustar la temperatura"},
    "set_timer": {"en": "set a timer", "de": "Timer stellen", "fr": "lancer un minuteur", "es": "poner un temporizador"},
    "add_to_list": {"en": "put on the list", "de": "auf die Liste setzen", "fr": "mettre sur la liste", "es": "poner en la lista"},
}  # fmt: skip
_QUESTIONS = {
    "en": r"(?:please )?(?:tell me|show me|is|are|was|were|do|does|did|has|have|how|what|what's|whats|which|who|where|when|any)\b",
    "de": r"(?:sag mir|sage mir|zeig mir|ist|sind|war|hat|haben|wie|was|welche[rsnm]?|wer|wo|wann|gibt es|läuft|laufen|brennt|brennen|steht|stehen)\b",
    "fr": r"(?:dis[- ]moi|est-ce|est|sont|y a-t-il|quel(?:le)?s?|combien|qui|où|quand|qu'est-ce|il y a)\b|[^,.]*\w(?:-t)?-(?:il|elle|ils|elles)\b",
    "es": r"(?:dime|está[ns]?|hay|cuá(?:l|les|nto|nta|ntos|ntas|ndo)|qué|quién|dónde)\b",
}
_NO_QUESTIONS = {"en": r"(?:how about|what about|do (?:not|turn|switch|set))\b"}
_TIMERS = {
    "en": r"\b(?:timers?|countdown)\b",
    "de": r"timer|\b(?:wecker|countdown|kurzzeitmesser)\b",
    "fr": r"\b(?:minuteurs?|minuteries?|compte à rebours)\b",
    "es": r"\b(?:temporizador(?:es)?|cuenta atrás)\b",
}

_YES = {
    "en": ("yes", "yeah", "yep", "sure", "ok", "okay", "do it", "go ahead", "please do", "yes please"),
    "de": ("ja", "jawohl", "klar", "gern", "gerne", "ok", "okay", "mach das", "ja bitte", "bitte"),
    "fr": ("oui", "ouais", "d'accord", "ok", "vas-y", "oui merci", "s'il te plaît", "bien sûr"),
    "es": ("sí", "si", "vale", "claro", "ok", "hazlo", "adelante", "por favor", "sí por favor"),
}  # fmt: skip
_NO = {
    "en": ("no", "nope", "don't", "do not", "cancel", "stop", "never mind", "nevermind", "no thanks"),
    "de": ("nein", "nee", "nicht", "abbrechen", "stopp", "lass es", "vergiss es", "nein danke"),
    "fr": ("non", "annule", "arrête", "laisse tomber", "non merci"),
    "es": ("no", "cancela", "para", "déjalo", "olvídalo", "no gracias"),
}  # fmt: skip

_REFERENCES = {
    "en": r"\b(?:it|them|that|this|these|those)\b",
    "de": r"\b(?:es|sie|ihn|das|die|den|diese[rsnm]?)\b(?!\s+[A-ZÄÖÜ])",
    "fr": r"-(?:le|la|les)\b|\b(?:ça|cela)\b|\bl['’](?=\w+er\b)",
    "es": r"\b(?:lo|la|los|las|eso|esto)\b(?!\s+\w{3,})|\w(?:[aeiáéí])(?:lo|la|los|las)\b",
}
_LISTS = {
    "en": r"\b(?:lists?|buy|purchase|need|groceries|shopping|out of|remind)\b",
    "de": r"liste|\b(?:kauf|besorg|brauch|erinner)",
    "fr": r"\b(?:listes?|achet|courses|faut|besoin|rappel)",
    "es": r"\b(?:listas?|compr|necesit|falta|recuerda)",
}


def language_of(tag: str) -> str:
    """Return the language of a tag ("de-AT") that is read; "en" for others."""
    short = tag.split("-", maxsplit=1)[0].split("_", maxsplit=1)[0].lower()
    return short if short in LANGUAGES else "en"


def is_question(text: str, language: str = "en") -> bool:
    """Whether a text asks and does not request: "is the door locked" must lock nothing."""
    text = text.strip(" \t¿¡.,!\"'")
    no = _NO_QUESTIONS.get(language)
    is_no = no is not None and bool(re.match(no, text, re.IGNORECASE))
    return bool(re.match(_QUESTIONS[language], text, re.IGNORECASE)) and not is_no


def is_about_timers(text: str, language: str = "en") -> bool:
    """Whether a text speaks of a timer."""
    return bool(re.search(_TIMERS[language], text, re.IGNORECASE))


def _is_one_of(text: str, phrases: tuple[str, ...]) -> bool:
    return re.sub(r"[.,!?¡¿]", "", text).strip().casefold() in phrases


def is_yes(text: str, language: str = "en") -> bool:
    """Whether a text is a yes, and nothing else: whoever says more is asked anew."""
    return _is_one_of(text, _YES[language])


def is_no(text: str, language: str = "en") -> bool:
    """Whether a text is a no, and nothing else."""
    return _is_one_of(text, _NO[language])


def state_in(text: str, language: str = "en") -> str | None:
    """Return the state that a question asks about, if it says one and no other."""
    words = set(re.findall(r"\w+", text.casefold()))
    found = [state for state, said in STATE_WORDS.items() if words & {*said[language]}]
    return found[0] if len(found) == 1 else None


def is_about_lists(text: str, language: str = "en") -> bool:
    """Whether a text speaks of a list or of what one writes on it: nothing else is put on one."""
    return bool(re.search(_LISTS[language], text, re.IGNORECASE))


def refers_back(text: str, language: str = "en") -> bool:
    """Whether a text has a word for what was spoken of: "turn it off"."""
    return bool(re.search(_REFERENCES[language], text if language == "de" else text.lower()))
