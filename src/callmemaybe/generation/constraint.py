"""What a turn may be, compiled: the automaton over a model's tokens, and the checks left for later."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from callmemaybe.decoding.decoder import check_budget
from callmemaybe.decoding.name_choice import NameChoices
from callmemaybe.generation.validation import CallValidator
from callmemaybe.grammar import compile as compile_grammar
from callmemaybe.grammar.compile import automaton_of
from callmemaybe.matching import Matcher
from callmemaybe.tools import ToolSpec
from callmemaybe.vocabulary import Vocabulary
from callmemaybe.wire import Format
from callmemaybe.wire.output_grammar import OutputSpec


@dataclass(frozen=True, eq=False)
class Constraint:
    """What a model may write for some tools and a spec; turns fork its matcher.

    ``choices`` are the places where a function's name is chosen; ``validator`` checks in finished calls
    what the grammar cannot say.
    """

    tools: tuple[ToolSpec, ...]
    matcher: Matcher
    choices: NameChoices
    validator: CallValidator
    #: Whether what may be written depends on the texts of the request.
    is_grounded: bool = False
    #: Functions that cannot be called for this request, and the sentence that says why.
    barred: Mapping[str, str] = field(default_factory=dict)
    _shortest_call: list[int] = field(default_factory=list, init=False)

    @classmethod
    def of(
        cls,
        form: Format,
        tools: tuple[ToolSpec, ...],
        spec: OutputSpec,
        vocabulary: Vocabulary,
        *,
        is_grounded: bool,
        is_shared: bool,
    ) -> Constraint:
        """Compile the constraint.

        ``is_shared``: other requests will need it again, so its automaton is cached; an automaton that
        only one request can use takes no place in the cache. Raises what ``Format.output_grammar`` does, and
        UnsupportedSchema for a schema that can be neither masked nor checked.
        """
        validator = CallValidator(tools, spec.answer)
        grammar = validator.grammar(form, spec, frozenset(vocabulary.controls))
        automaton = compile_grammar(grammar) if is_shared else automaton_of(grammar)
        return cls(
            tools, Matcher(automaton, vocabulary), NameChoices(automaton, vocabulary), validator,
            is_grounded,
        )  # fmt: skip

    @property
    def shortest_call(self) -> int:
        """How many tokens the shortest valid call takes (calling nothing may take fewer)."""
        # Counting may let other tasks run, which may count here as well: so no lock is held, as that of a
        # cached_property would be, and no matcher is shared.
        if not self._shortest_call:
            self._shortest_call.append(self._count_shortest_call())
        return self._shortest_call[0]

    def fits(self, most: int) -> bool:
        """Whether :attr:`shortest_call` is at most ``most``; without counting tokens where bytes decide, as they mostly do."""
        if self._shortest_call:
            return self._shortest_call[0] <= most
        matcher = self.matcher.fork()
        choice = self.choices.at(matcher.state, ())
        if choice is None:
            return matcher.fits(most)
        for branch in choice.candidates:
            if branch.name is not None and matcher.try_accept(branch.ids) == len(branch.ids):
                if matcher.fits(most - len(branch.ids)):
                    return True
                matcher.rollback(len(branch.ids))
        return False

    def check(self, most: int) -> None:
        """Raise BudgetError unless the shortest valid call takes at most ``most`` tokens."""
        if not self.fits(most):
            check_budget(self.shortest_call, most)

    def _count_shortest_call(self) -> int:
        matcher = self.matcher.fork()
        choice = self.choices.at(matcher.state, ())
        if choice is None:
            return matcher.remaining
        lengths = []
        for branch in choice.candidates:
            if branch.name is not None and matcher.try_accept(branch.ids) == len(branch.ids):
                lengths.append(len(branch.ids) + matcher.remaining)
                matcher.rollback(len(branch.ids))
        return min(lengths, default=matcher.remaining)
