"""What a model may write, with what was learnt of it."""

from __future__ import annotations

from dataclasses import dataclass

from callmemaybe.decoding.name_choice import NameChoices
from callmemaybe.grammar import Grammar
from callmemaybe.grammar import compile as compile_grammar
from callmemaybe.grammar.compile import automaton_of
from callmemaybe.matching import Matcher
from callmemaybe.vocabulary import Vocabulary


@dataclass(frozen=True)
class Constraint:
    """A language as a matcher to fork, and the choices in it."""

    matcher: Matcher
    choices: NameChoices

    @classmethod
    def of(cls, grammar: Grammar, vocabulary: Vocabulary, *, is_shared: bool) -> Constraint:
        """Return the language of a grammar.

        ``is_shared``: requests will ask for it again, so its automaton is kept; what one request
        alone can use takes no place among those.
        """
        automaton = compile_grammar(grammar) if is_shared else automaton_of(grammar)
        return cls(Matcher(automaton, vocabulary), NameChoices(automaton, vocabulary))

    def shortest_call(self) -> int:
        """Return how many tokens the shortest valid call takes (calling nothing may take fewer)."""
        matcher = self.matcher
        fork = self.choices.at(matcher.state, ())
        if fork is None:
            return matcher.remaining
        lengths = []
        for branch in fork.candidates:
            if branch.name is not None and matcher.try_accept(branch.ids) == len(branch.ids):
                lengths.append(len(branch.ids) + matcher.remaining)
                matcher.rollback(len(branch.ids))
        return min(lengths, default=matcher.remaining)
