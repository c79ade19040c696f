"""Which functions would answer each other's requests, judged by the words they share."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from functools import lru_cache
from math import log
from typing import Any

from training.data.tasks import TaskFunction

KIN = 0.42  # cosine of tf-idf from which functions of two domains do much the same
# A word of more functions than this, and than this share of them, is no evidence of similarity.
COMMON, SHARE = 60, 1 / 30

# Kinds of services of Schema-Guided Dialogue, and whose requests they would answer as well.
SERVICES = {
    "Banks": "banking",
    "Buses": "travel transit",
    "Calendar": "calendar meetings",
    "Events": "events boxoffice",
    "Flights": "travel",
    "Homes": "realestate",
    "Hotels": "travel frontdesk",
    "Media": "Movies films video boxoffice",
    "Movies": "Media films boxoffice",
    "Music": "music audio",
    "RentalCars": "car fleet travel",
    "Restaurants": "restaurant food",
    "RideSharing": "car transit travel",
    "Services": "health",
    "Travel": "travel museum geography maps events",
    "Weather": "weather",
}


def stems(text: str) -> list[str]:
    """Words in lower case without the commonest endings."""
    found = re.findall(r"[a-z]+", re.sub(r"(?<=[a-z])(?=[A-Z])", " ", text).lower())
    return [re.sub(r"(?<=\w{3})(?:ing|es|ed|s|e)$", "", word) for word in found if len(word) > 2]


@lru_cache(maxsize=4096)
def stem_set(text: str) -> frozenset[str]:
    """The stems of a text; few texts are compared with many."""
    return frozenset(stems(text))


#: Stems that carry no meaning of their own.
SMALL = stem_set(
    "the and for with from that this what how which who whom when where are was been has have had into all any some "
    "one its their they not can does did will would should could may than then there you your only each other onto"
)


def without_slots(request: str) -> str:
    """The words of a request without its values."""
    return re.sub(r"\{\w+:?|[}]", " ", request)


def describe_function(function: TaskFunction) -> str:
    """The words of a function's descriptions and requests, without values."""
    requests = " ".join(without_slots(request) for request in function.requests)
    names = " ".join(function.names).replace("_", " ")
    return f"{names} {names} {' '.join(function.abouts)} {requests}"


def describe_dialogue(tool: Mapping[str, Any], said: Iterable[str]) -> str:
    """The same of a function of Schema-Guided Dialogue."""
    name = str(tool["name"]).rpartition("_")[2]
    return f" {name} {name} {tool['description'].partition(' (')[0]} {' '.join(said)}"


class FunctionSimilarity:
    """Who would answer whose requests, by key (`domain/name`, or a kind of service).

    Functions of one domain were written to differ, however alike they sound: `add_to_cart` and
    `remove_from_cart` are what a model has to tell apart. Those of two domains may be the same thing
    twice.
    """

    def __init__(self, texts: Mapping[str, str], least: float = KIN) -> None:
        counts = {key: Counter(stems(text)) for key, text in texts.items()}
        seen = Counter(word for each in counts.values() for word in each)
        common = max(COMMON, len(texts) * SHARE)
        vectors: dict[str, dict[str, float]] = {}
        for key, each in counts.items():
            vector = {
                word: (1 + log(count)) * log(len(texts) / seen[word])
                for word, count in each.items()
                if seen[word] <= common
            }
            length = sum(value * value for value in vector.values()) ** 0.5 or 1.0
            vectors[key] = {word: value / length for word, value in vector.items()}
        places: dict[str, list[tuple[str, float]]] = defaultdict(list)
        self.similar: dict[str, set[str]] = {key: set() for key in texts}
        for key, vector in vectors.items():
            score: dict[str, float] = defaultdict(float)
            for word, value in vector.items():
                for other, its in places[word]:
                    score[other] += value * its
                places[word].append((key, value))
            for other, cosine in score.items():
                if cosine > least and key.partition("/")[0] != other.partition("/")[0]:
                    self.similar[key].add(other)
                    self.similar[other].add(key)

    def are_similar(self, one: str, other: str) -> bool:
        """Whether one function may be meant by a request for the other."""
        if one == other or other in self.similar.get(one, ()):
            return True
        kind, domain = one.partition("/")[0], other.partition("/")[0]
        return domain in SERVICES.get(kind, "").split() or kind in SERVICES.get(domain, "").split()

    @staticmethod
    def touches(topic: str, text: str) -> bool:
        """Whether a text holds all words of a topic; False for an empty topic."""
        words = stem_set(topic)
        return bool(words) and words <= stem_set(text.replace("_", " "))

    @staticmethod
    def mentions(prompt: str, tool: Mapping[str, Any]) -> bool:
        """Whether a request holds all words of a tool's name."""
        name = str(tool["name"]).rpartition(".")[2]
        words = stem_set(re.sub(r"[_\-]", " ", name)) - {"the", "tool"}
        return len(words) > 1 and words <= stem_set(prompt)
