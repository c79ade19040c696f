"""Which language a request is in, told by its commonest words."""

from __future__ import annotations

import re
from collections.abc import Mapping

#: The languages whose values are read.
LANGUAGES = ("en", "fr", "de", "es")
#: A request says in its first words what language it is in.
_MOST_WORDS = 400

_COMMON: Mapping[str, str] = {
    "en": """the a an of to and in is it for on with at from by what how please my me i you this that are do can
        show find set get make all tomorrow today about which when where who need want book turn play add will would
        should could have has not up down off out next last every more than between into as be or if there your
        there's what's i'm i'd let's o'clock half past dozen minutes hours""",
    "fr": """le la les de des du un une et à au aux en est pour sur dans avec par que qui quoi quel quelle quels
        je tu il elle nous vous moi mon ma mes ton ta tes ce cette ces ne pas plus demain aujourd'hui hier peux veux
        combien où quand comment faut fais mets réserve trouve donne entre l d j s'il te plaît heures heure midi
        minuit prochain prochaine vers chez sans demie""",
    "de": """der die das den dem des ein eine einen einem einer und in im ist für auf mit von zu zum zur bei nach
        ich du er sie es wir mich mir mein meine wie was wo wann welche welcher bitte nicht kein morgen heute
        gestern uhr um am kann kannst möchte will soll stelle zeige finde suche mach buche aus an über zwischen
        nächsten nächste halb viertel vom bis minuten stunden""",
    "es": """el la los las de del un una y a al en es para por con que qué cuál cómo cuándo dónde quién yo tú mi mis
        me te tu tus este esta lo no más mañana hoy ayer quiero puedes necesito reserva busca pon dame entre hay
        favor cuánto cuántos cuántas hasta desde sobre próximo próxima horas minutos media""",
}  # fmt: skip
_SETS = {name: frozenset(words.split()) for name, words in _COMMON.items()}
_LETTERS = {"fr": "çœèêëàâîïôùû", "de": "äöüß", "es": "ñ¿¡áíóú"}
_WORD = re.compile(r"[^\W\d_]+(?:['\u2019](?:s|m|d|clock)\b)?")


def common_words() -> Mapping[str, frozenset[str]]:
    """Return the commonest words of each language, by its code."""
    return _SETS


def guess_language(text: str) -> str | None:
    """Return the code of the language of a text ("en", "fr", "de", "es"), or None where nothing tells it.

    Each of the commonest words counts for the languages that have it, a letter that only one has for a third.

    >>> guess_language("Réserve une table pour quatre personnes demain à 20h")
    'fr'
    """
    lowered = text[: 12 * _MOST_WORDS].lower().replace("\u2019", "'")
    words = _WORD.findall(lowered)[:_MOST_WORDS]
    counts = {name: sum(map(known.__contains__, words)) * 1.0 for name, known in _SETS.items()}
    for name, letters in _LETTERS.items():
        counts[name] += sum(map(lowered.count, letters)) / 3
    best = max(counts, key=lambda name: counts[name])
    return best if counts[best] > 0 else None
