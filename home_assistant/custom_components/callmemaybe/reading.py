"""Reads what a person says: which calls it asks for, how sure the model is, and whether it is a question. It knows nothing of Home Assistant."""

from __future__ import annotations

import re
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from callmemaybe import Caller
from callmemaybe.errors import CallMeMaybeError
from callmemaybe.models.base import Model
from callmemaybe.models.remote import RemoteModel
from callmemaybe.wire.named_values import named_values

from .home import ASKING, BY_DOMAIN, TIMING, Home, functions, kind_words
from .intents import kind_slots
from .words import is_about_lists, is_about_timers, is_question, language_of, state_in


@dataclass(frozen=True)
class ReadCall:
    """A call that was read, and how likely it is right (None: the model does not tell)."""

    name: str
    arguments: Mapping[str, Any]
    confidence: float | None = None


class HomeReader:
    """Reads requests for one home in one language. Thread-safe; made anew when the home changes."""

    def __init__(self, model: Model | RemoteModel, home: Home, language: str = "en") -> None:
        """Prepare for a home. Raises CallMeMaybeError for a model that cannot be used."""
        self.home, self.language = home, language_of(language)
        self._model = model
        self._offered = {one["name"]: one for one in functions(home, self.language)}
        self._domains = {
            domain: self.home.names(domain) for domain in {one.domain for one in home.devices}
        }
        self._kinds = {word: kind_slots(word)["domain"] for word in kind_words(home, self.language)}
        self._things = {
            "device": {
                "enum": [name for names in self._domains.values() for name in names],
                "x-ground": "prompt",
            },
            "area": {"enum": home.places, "x-ground": "prompt"},
            "kind": {"enum": [*self._kinds], "x-ground": "prompt"},
        }
        self._callers: dict[tuple[str, ...], Caller] = {}
        self._lock = threading.Lock()
        self._caller(self._all())
        self._caller(ASKING)

    def _all(self) -> tuple[str, ...]:
        return tuple(name for name in self._offered if name not in (*ASKING, *TIMING[1:]))

    def _caller(self, names: tuple[str, ...]) -> Caller:
        """Return the caller of some functions, made when it is first needed."""
        with self._lock:
            if names not in self._callers:
                offered = [self._offered[name] for name in names if name in self._offered]
                # That a request is about a timer is told by the word; the model only says which function it is.
                self._callers[names] = Caller(self._model, offered, no_call=names is not TIMING)
            return self._callers[names]

    def _meant(self, text: str) -> tuple[str, ...]:
        """Return the functions that a request may mean, by what it names: a lock is locked, and not muted."""
        if is_about_timers(text, self.language):
            return TIMING
        if is_question(text, self.language):
            return ASKING
        named = named_values(self._things, text)
        domains = {
            domain
            for name in named["device"]
            for domain, names in self._domains.items()
            if name in names
        }
        domains = domains or {self._kinds[word] for word in named["kind"]}
        known = {name for domain in domains for name in BY_DOMAIN.get(domain, ())}
        meant = tuple(name for name in self._all() if name in known) or self._all()
        if "add_to_list" in meant and not is_about_lists(text, self.language):
            meant = tuple(name for name in meant if name != "add_to_list") or meant
        return meant

    def read(self, text: str) -> list[ReadCall]:
        """Return the calls that ``text`` asks for, in their order; none if no function of the home fits.

        A request of several clauses is read clause by clause, if each is a request by itself.
        """
        clauses = _clauses(text)
        if len(clauses) > 1 and all(map(self._may_stand_alone, clauses)):
            found = [self._read(clause) for clause in clauses]
            if all(found):
                return [call for calls in found for call in calls]
        return self._read(text)

    def _may_stand_alone(self, clause: str) -> bool:
        """Whether a clause says enough to be a request: "hold on" does not."""
        return len(clause.split()) > 2 or any(named_values(self._things, clause).values())

    def _read(self, text: str) -> list[ReadCall]:
        """Read one clause: a call, or one for each device that it names side by side."""
        caller = self._caller(self._meant(text))
        try:
            result = caller.call(text)
        except CallMeMaybeError:
            return []
        if result.call is None:
            return []
        name, arguments = result.call.name, dict(result.call.parsed)
        named = named_values(self._offered[name]["parameters"]["properties"], text)
        for key, values in named.items():
            if key not in arguments and len(values) == 1:
                arguments[key] = values[0]
        if "device" in arguments:
            arguments.pop("kind", None)  # the curtain is meant, not all curtains
        if name == "get_state" and (state := state_in(text, self.language)):
            arguments["state"] = state
        spoken = str(arguments.get("name", "")).casefold()
        if "area" in arguments and spoken and spoken in str(arguments["area"]).casefold():
            del arguments["name"]  # a timer named like a room is that room's
        devices = [arguments["device"]] if "device" in arguments else []
        if devices and len(named["device"]) > 1 and _AND.search(text):
            devices = named["device"]
        return [
            ReadCall(name, {**arguments, "device": one}, result.confidence) for one in devices
        ] or [ReadCall(name, arguments, result.confidence)]


#: Words between clauses, and words with which no clause begins.
_AND = re.compile(
    r"\s*(?:[,;]|\b(?:and|und|et|y|then|dann|danach|puis|ensuite|luego|después)\b)\s*",
    re.IGNORECASE,
)
_NO_CLAUSE = re.compile(
    r"(?:the|a|an|my|our|all|in|on|at|of|for|by|to|der|die|das|den|dem|ein|eine|alle|im|in|am|auf|le|la|les|l|un|une|mon|ma|mes|dans|du|de|des|au|el|los|las|mi|mis|en)\b|\d",
    re.IGNORECASE,
)


def _clauses(text: str) -> list[str]:
    """Cut a text at words such as *and* where what follows may be a request by itself: two words that begin with no article or number."""
    clauses: list[str] = []
    at = 0
    for cut in _AND.finditer(text):
        rest = text[cut.end() :]
        if cut.start() > at and len(rest.split()) > 1 and not _NO_CLAUSE.match(rest):
            clauses.append(text[at : cut.start()])
            at = cut.end()
    return [*clauses, text[at:]]
