"""How many tokens an output takes, and how many of them are forced."""

from __future__ import annotations

from typing import NamedTuple

from callmemaybe.grammar.automaton import Automaton
from callmemaybe.matching.matcher import Matcher
from callmemaybe.vocabulary import Vocabulary


class Tokens(NamedTuple):
    """Tokens of an output that is shortest in bytes (without the end token), and the forced ones."""

    fewest: int
    forced: int


def tokens_of(automaton: Automaton, vocabulary: Vocabulary) -> Tokens:
    """Write an output that is shortest in bytes with as few tokens as that takes.

    Where several tokens are on such a way, the one with the lowest id is taken. Raises
    VocabularyError if the vocabulary cannot express the language.
    """
    matcher = Matcher(automaton, vocabulary)
    written = forced = 0
    while not matcher.is_accepting:
        ids = matcher.forced()
        forced += len(ids)
        if not ids:
            ids = [int(matcher.allowed(matcher.remaining)[0])]
        written += len(ids)
        for index in ids:
            matcher.accept(index)
    return Tokens(written, forced)
