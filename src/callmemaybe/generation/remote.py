"""Asks a server for a call: the language goes out in its notation, the answer is checked by ours.

A server may hold to a grammar in part or not at all, so nothing is taken on trust: the answer walks
through the same automaton that masks tokens elsewhere. Where a server decides itself on
spaces or the order of keys, the call is written anew in our way before it is checked, and that is
reported.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from callmemaybe.errors import GrammarError, InputError, ModelError
from callmemaybe.generation.validation import CallValidator, check_keys
from callmemaybe.grammar import Automaton
from callmemaybe.grammar.compile import automaton_of
from callmemaybe.grammar.export import to_ebnf, to_gbnf, to_regex
from callmemaybe.grammar.grammar import Grammar
from callmemaybe.jsonio import writer
from callmemaybe.models.remote import Completion, RemoteModel, StructuredOutput
from callmemaybe.tools import ToolCall, ToolSpec
from callmemaybe.wire import Format
from callmemaybe.wire.grounding import GroundingConfig
from callmemaybe.wire.output_grammar import OutputSpec
from callmemaybe.wire.plain_json import CALL_FORMAT

_NOTHING: frozenset[str] = frozenset()


@dataclass(frozen=True)
class RemoteResult:
    """What came back: the call (None: none fits), the text, and what the server left to chance."""

    call: ToolCall | None
    answer: Completion
    remarks: tuple[str, ...]


class RemoteCaller:
    """Asks one server for calls of some tools; usable from several threads at once.

    ``validators`` take over what the grammar leaves to be checked. Raises InputError for a ``format``
    that needs control tokens, which a chat interface hides, and what ``Format.grammar`` raises for the tools.
    """

    def __init__(
        self,
        remote: RemoteModel,
        tools: Sequence[ToolSpec],
        limits: GroundingConfig,
        validators: CallValidator,
        *,
        format: str | Format | None = None,  # noqa: A002 - the word users know
        no_call: bool = False,
        max_tokens: int = 512,
        temperature: float = 0.0,
        seed: int | None = None,
    ) -> None:
        if format not in (None, "json"):
            raise InputError(
                "a server writes plain JSON", where="format", hint="leave it out, or say json"
            )
        self.remote, self._tools = remote, tuple(tools)
        self.settings: dict[str, Any] = {
            "max_tokens": max_tokens,
            "temperature": temperature,
            "seed": seed,
        }
        self.format = CALL_FORMAT
        self._wish, self.limits, self._validators = OutputSpec(no_call=no_call), limits, validators
        self._is_grounded = self.limits.depends_on_request(self._tools)
        self._terms = self._terms_of(self.limits.without_request(self._wish))
        parts = self.format.prefix(self._tools, _NOTHING)
        self._system = "".join(part for part in parts if isinstance(part, str))
        if no_call:
            self._system += "If no function fits, answer null.\n"

    def ask(self, prompt: str) -> RemoteResult:
        """Return the call that ``prompt`` asks for.

        Raises ModelError if the server fails, or writes what is not in the language, and GroundingError
        if no function can be called with what the prompt says.
        """
        messages = [
            {"role": "system", "content": self._system},
            {"role": "user", "content": prompt.encode(errors="replace").decode()},
        ]
        terms = self._terms
        if self._is_grounded:
            terms = self._terms_of(self.limits.for_messages(self._wish, messages))
        automaton, constraint = terms
        answer = self.remote.complete(messages, constraint, **self.settings)
        wrong = first_wrong(automaton, answer.text)
        if wrong is None:
            return RemoteResult(self._read(answer.text), answer, ())
        text = rewritten(answer.text, self._tools)
        if text is None or first_wrong(automaton, text) is not None:
            raise ModelError(self._complaint(answer, wrong))
        said = f"asked by {answer.way}, the server chose spaces or the order of keys itself"
        return RemoteResult(self._read(text), answer, (said,))

    def _terms_of(self, wish: OutputSpec) -> tuple[Automaton, StructuredOutput]:
        """Return what an answer may be: to check it by, and in the server's words."""
        grammar = self._validators.language(self.format, wish, _NOTHING)
        schema = schema_of(self._tools, no_call=wish.no_call)
        return automaton_of(grammar), constraint_of(grammar, schema)

    def _complaint(self, answer: Completion, wrong: int) -> str:
        shown = answer.text.encode(errors="replace")[max(0, wrong - 30) : wrong + 10]
        where = f"{self.remote.name} was given the grammar by {answer.way}"
        if answer.finish == "length":
            return f"{where}; its answer was cut off at {self.settings['max_tokens']} tokens"
        return f"{where} and did not hold to it: byte {wrong} of its answer, near {shown!r}"

    def _read(self, text: str) -> ToolCall | None:
        calls = self.format.read([text], controls=_NOTHING)
        return calls[0] if calls else None


def rewritten(text: str, tools: Sequence[ToolSpec]) -> str | None:
    """Return an answer in our own spelling, if it is JSON of the right shape.

    Raises DuplicateKeyError: to read it as a value would lose one of the two.
    """
    try:
        found = writer.loads(text)
    except (ValueError, InputError, RecursionError):
        return None
    if found is None:
        return "null"
    if not isinstance(found, dict) or found.keys() != {"name", "arguments"}:
        return None
    check_keys(text)
    tool = next((tool for tool in tools if tool.name == found["name"]), None)
    if tool is None or not isinstance(found["arguments"], dict):
        return None
    arguments = writer.dumps(_ordered(found["arguments"], tool.parameters))
    call = ToolCall(tool.name, arguments)
    parts = CALL_FORMAT.render([call], tools=[tool], controls=_NOTHING)
    return "".join(part for part in parts if isinstance(part, str))


def first_wrong(automaton: Automaton, text: str) -> int | None:
    """Return how many bytes are right before the first that is not; None if all are."""
    data = text.encode(errors="replace")
    state = automaton.start
    for at, byte in enumerate(data):
        state = automaton.step(state, byte)
        if state < 0:
            return at
    return None if automaton.is_accepting(state) else len(data)


def constraint_of(grammar: Grammar, schema: Mapping[str, Any] | None) -> StructuredOutput:
    """Return a language in every notation that can say it; ``schema`` is the JSON Schema of it."""
    return StructuredOutput(
        gbnf=_said(to_gbnf, grammar),
        ebnf=_said(to_ebnf, grammar),
        regex=_said(to_regex, grammar),
        schema=schema,
    )


def _said(write: Callable[[Grammar], str], grammar: Grammar) -> str | None:
    try:
        return write(grammar)
    except GrammarError:
        return None  # not in this notation


def _ordered(value: Any, schema: Any) -> Any:
    """Return the value with its keys in the order of the schema's properties."""
    properties = schema.get("properties") if isinstance(schema, Mapping) else None
    if not isinstance(value, dict) or not isinstance(properties, Mapping):
        return value
    known = [key for key in properties if key in value]
    others = [key for key in value if key not in properties]
    return {key: _ordered(value[key], properties.get(key)) for key in [*known, *others]}


def schema_of(tools: Sequence[ToolSpec], *, no_call: bool) -> dict[str, Any]:
    """Return the language of one call as a JSON Schema."""
    several = len(tools) > 1 or no_call
    options: list[dict[str, Any]] = []
    for index, tool in enumerate(tools):
        root = f"#/anyOf/{index}/properties/arguments" if several else "#/properties/arguments"
        inner = _moved(dict(tool.parameters), root)
        options.append(
            {
                "type": "object",
                "properties": {"name": {"const": tool.name}, "arguments": inner},
                "required": ["name", "arguments"],
                "additionalProperties": False,
            }
        )
    if no_call:
        options.append({"type": "null"})
    return {"anyOf": options} if several else options[0]


def _moved(schema: Any, root: str) -> Any:
    """Return a schema whose references from its own root start at ``root`` instead."""
    if isinstance(schema, list):
        return [_moved(each, root) for each in schema]
    if not isinstance(schema, Mapping):
        return schema
    found = {key: _moved(value, root) for key, value in schema.items()}
    target = found.get("$ref")
    if isinstance(target, str) and target.startswith("#"):
        found["$ref"] = root + target[1:]
    return found
