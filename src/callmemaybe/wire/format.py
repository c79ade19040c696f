"""How a model family writes calls: one tree, from which everything else is derived.

``render`` writes calls, ``output_grammar`` says what a model may write, ``reader`` reads what was
written. All three walk the same tree, so they agree by construction; the laws that say so are tested
on every format of the registry.
"""

from __future__ import annotations

import marshal
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import takewhile
from typing import Any

from callmemaybe.errors import CallMeMaybeError, InputError
from callmemaybe.grammar.grammar import Grammar
from callmemaybe.tools import CallEnded, ToolCall, ToolSpec, check_distinct
from callmemaybe.wire.format_nodes import (
    CallsNode,
    ChoiceNode,
    Controls,
    FormatNode,
    FreeTextNode,
    IdNode,
    NameNode,
    PromptPart,
    PromptParts,
    SchemaEchoNode,
    SequenceNode,
    TextNode,
    ThoughtNode,
    TokenNode,
    join_parts,
    leaves,
)
from callmemaybe.wire.output_grammar import (
    MAX_CALLS,
    DeferredChecks,
    OutputGrammarBuilder,
    OutputSpec,
)
from callmemaybe.wire.prompt import ChatTemplate, Opening, TemplateRenderer
from callmemaybe.wire.reader import OutputReader
from callmemaybe.wire.rendering import render

#: One message of a conversation, in OpenAI's shape: {"role": ..., "content": ...}.
Message = Mapping[str, Any]
#: Writes the part of a prompt that does not depend on the request.
PrefixWriter = Callable[[Sequence[ToolSpec], Controls], PromptParts]
#: Writes the rest, up to where the model begins.
RequestWriter = Callable[[Sequence[Message], Sequence[ToolSpec], Controls], PromptParts]


#: The grammars of so many lists of tools are cached, the latest used ones.
GRAMMAR_CACHE_SIZE = 512
_GRAMMARS: dict[tuple[int, bool, Hashable], tuple[FormatNode, Grammar, DeferredChecks]] = {}


@dataclass(frozen=True)
class Format:
    """How one family of models is prompted, and how it writes calls.

    ``controls``, wherever a method takes it, is the set of control tokens the vocabulary has, by
    text; None means that it has all of them.
    """

    name: str
    summary: str
    tree: FormatNode
    prefix: PrefixWriter
    request: RequestWriter
    #: Writes a whole prompt, also one that does not begin with the prefix; None: the two joined.
    whole: Callable[..., PromptParts] | None = None
    #: Control tokens by which this format is detected, all of them.
    controls: frozenset[str] = frozenset()
    #: Texts in a chat template by which it is detected (all), and by which it is excluded (any).
    template_has: tuple[str, ...] = ()
    template_lacks: tuple[str, ...] = ()
    #: Whether the control tokens alone are not enough to detect it.
    needs_template: bool = False
    #: Among the formats that match, the highest number wins.
    priority: int = 0
    #: Whether models of the family were trained on the choices only, not on what the grammar forces: the
    #: probability of forced text then means nothing.
    trained_on_choices: bool = False
    #: Whether values that take a computation (what day is tomorrow?) are read from the request, not left to the model.
    reads_values: bool = False
    #: Whether models of the family read and write parameters by name, not in the order of the schema, which their answers
    #: would depend on. Finished calls have the schema's order all the same.
    sorts_parameters: bool = False
    #: The languages of requests that models of the family read, by their names in English; none where they read any.
    languages: tuple[str, ...] = ()
    #: The most functions that models of the family tell apart; None where there is no such number. Of more, those that
    #: fit the request are shown (:func:`callmemaybe.retrieval.shown_tools`).
    most_tools: int | None = None

    @cached_property
    def is_single_request(self) -> bool:
        """Whether prompts contain the last user message only; found out by comparing two of them."""
        try:
            one, other = (
                self.prompt(
                    [
                        {"role": "user", "content": text},
                        {"role": "assistant", "content": "said"},
                        {"role": "user", "content": "asked"},
                    ],
                    [],
                )
                for text in ("first", "second")
            )
        except CallMeMaybeError:
            return False  # a template that refuses some conversations reads them
        return one == other

    def matches(self, template: str | None, controls: frozenset[str]) -> bool:
        """Whether a model with this chat template and these control tokens uses this format."""
        if not self.controls <= controls:
            return False
        if template is None or not self.template_has:
            return bool(self.controls) and not self.needs_template
        return all(sign in template for sign in self.template_has) and not any(
            sign in template for sign in self.template_lacks
        )

    def with_template(self, source: str, renderer: TemplateRenderer, **names: str) -> Format:
        """Return the same format with the prompts of a model's own chat template (Jinja).

        ``names`` are what the template may call by name: ``bos_token``, ``eos_token``.

        Raises ModelError if the template is not valid.
        """
        template = ChatTemplate(source, renderer, openings=tuple(_openings(self.tree)), **names)
        return replace(
            self, prefix=template.prefix, request=template.request, whole=template.render
        )

    def prompt(
        self,
        messages: Sequence[Message],
        tools: Sequence[ToolSpec],
        controls: Controls = None,
        *,
        thinking: bool = False,
    ) -> PromptParts:
        """Return the whole prompt: the static prefix, then the request.

        ``thinking`` allows the model to reason first, where the family's prompts say whether it may.
        """
        if self.whole is not None:
            return self.whole(messages, tools, controls, thinking)
        return join_parts([*self.prefix(tools, controls), *self.request(messages, tools, controls)])

    def grammar(
        self,
        tools: Sequence[ToolSpec],
        *,
        no_call: bool = False,
        parallel: bool = False,
        controls: Controls = None,
    ) -> Grammar:
        """Return what a model may write: one call (or, ``parallel``, several) of these tools.

        Captures: "name" and "arguments" of each call; "no_call" where ``no_call`` allows that
        branch. Raises InputError without tools or for a name that occurs twice, and
        UnsupportedSchema (its ``where`` names the tool) for a schema that no grammar expresses.
        """
        most = MAX_CALLS if parallel else 1
        return self.output_grammar(tools, _call_spec(no_call, most), controls=controls)

    def output_grammar(
        self,
        tools: Sequence[ToolSpec],
        spec: OutputSpec,
        *,
        controls: Controls = None,
        deferred: DeferredChecks | None = None,
    ) -> Grammar:
        """Return the grammar of what a model may write in a turn.

        Captures and errors are those of :meth:`grammar`, and "thinking". What no grammar can say of a
        schema is refused; or, where ``deferred`` is given, left out of the grammar and added to that under
        the name of the function (None: the answer). The caller then has to check the finished calls.
        """
        if spec.calls and not tools:
            raise InputError("there is no function to call", hint="give at least one")
        check_distinct(tools, "tools")
        content = _content_key(tools, spec, controls)
        key = id(self.tree), deferred is not None, content
        known = _GRAMMARS.pop(key, None) if content is not None else None
        if known is None or known[0] is not self.tree:
            builder = OutputGrammarBuilder(tools, spec, controls, may_defer=deferred is not None)
            known = self.tree, builder.grammar(self.tree), builder.deferred
        if deferred is not None:
            deferred.update(known[2])
        if content is not None:
            _GRAMMARS[key] = known
            if len(_GRAMMARS) > GRAMMAR_CACHE_SIZE:
                _GRAMMARS.pop(next(iter(_GRAMMARS)), None)
        return known[1]

    def echoes_request(self, tools: Sequence[ToolSpec]) -> bool:
        """Whether the output depends on the request, not on the tools alone."""
        echoes = [leaf for leaf in leaves(self.tree) if isinstance(leaf, SchemaEchoNode)]
        return any(echo.needs_request(tool) for echo in echoes for tool in tools)

    def encoded_names(self, tools: Sequence[ToolSpec]) -> Mapping[bytes, str]:
        """Return the bytes of the capture "name" for each tool, and the tool's name."""
        (leaf,) = {leaf for leaf in leaves(self.tree) if isinstance(leaf, NameNode)}
        return {leaf.encode(tool.name).encode(): tool.name for tool in tools}

    @property
    def has_ids(self) -> bool:
        """Whether the model writes an id with each call."""
        return self.id_length is not None

    @property
    def id_length(self) -> int | None:
        """How many letters and digits an id has, where the model writes them; None: it does not."""
        return next((leaf.length for leaf in leaves(self.tree) if isinstance(leaf, IdNode)), None)

    @property
    def is_parallel(self) -> bool:
        """Whether the family can call several functions in one turn."""
        return all(
            leaf.between is not None for leaf in leaves(self.tree) if isinstance(leaf, CallsNode)
        )

    @property
    def has_free_text(self) -> bool:
        """Whether the family can answer in text."""
        return any(isinstance(leaf, FreeTextNode) for leaf in leaves(self.tree))

    @property
    def has_thinking(self) -> bool:
        """Whether the family has a place for reasoning."""
        return any(isinstance(leaf, ThoughtNode) for leaf in leaves(self.tree))

    def render(
        self,
        calls: Sequence[ToolCall],
        *,
        answer: str = "",
        thought: str = "",
        tools: Sequence[ToolSpec] = (),
        controls: Controls = None,
    ) -> PromptParts:
        """Return what a model writes for these calls; without any, the no-call branch.

        ``answer`` is free text: all there is, or what stands in front of the calls. ``tools`` say
        which arguments are strings, where the format writes those without quotes. Raises InputError
        for what the format cannot write, VocabularyError for a token that it cannot do without.
        """
        return render(
            self.tree, calls, answer=answer, thought=thought, tools=tools, controls=controls
        )

    def reader(
        self, tools: Sequence[ToolSpec] = (), *, controls: Controls = None, calls: bool = True
    ) -> OutputReader:
        """Return a new incremental reader of what a model writes; ``tools`` as in render.

        ``calls`` False: the model could call nothing, so whatever looks like a call is text.
        """
        tree = self.tree if calls else _without_calls(self.tree)
        return OutputReader(tree, {tool.name: tool.parameters for tool in tools}, controls)

    def read(
        self,
        parts: Iterable[PromptPart | bytes],
        tools: Sequence[ToolSpec] = (),
        *,
        controls: Controls = None,
    ) -> list[ToolCall]:
        """Return the calls of a complete answer (none: the model called nothing).

        Raises InputError if the answer is cut off or not in this format.
        """
        reader = self.reader(tools, controls=controls)
        events = [event for part in parts for event in reader.feed(part)]
        events += reader.end()
        return [event.call for event in events if isinstance(event, CallEnded)]


def _openings(node: FormatNode) -> Iterator[Opening]:
    """Yield what a turn in this format may begin with: a thought, and the marks in front of an answer."""
    match node:
        case ThoughtNode():
            yield Opening(_fixed_text(node.begin), _fixed_text(node.end))
        case SequenceNode():
            for inner in node.nodes:
                yield from _openings(inner)
        case ChoiceNode(_, SequenceNode() as no_call) if begin := _fixed_text(no_call):
            yield Opening(begin)


def _fixed_text(node: SequenceNode) -> str:
    """Return the texts and tokens that a sequence begins with."""
    fixed = takewhile(lambda one: isinstance(one, TextNode | TokenNode), node.nodes)
    return "".join(one.text for one in fixed if isinstance(one, TextNode | TokenNode))


@lru_cache(maxsize=4)
def _call_spec(no_call: bool, most: int) -> OutputSpec:
    return OutputSpec(no_call=no_call, most=most)


def _without_calls(node: FormatNode) -> FormatNode:
    """Return the tree without the branch that calls; its text may then be any."""
    match node:
        case SequenceNode():
            return SequenceNode(tuple(map(_without_calls, node.nodes)))
        case ChoiceNode():
            return _without_calls(node.no_call)
        case FreeTextNode():
            return FreeTextNode()
    return node


def _content_key(tools: Sequence[ToolSpec], spec: OutputSpec, controls: Controls) -> Hashable:
    """Return what a grammar depends on, by content; None for one that is not worth caching."""
    is_grounded = spec.ground is not None and spec.ground.is_known
    if spec.answer is not None or spec.given or is_grounded or spec.request is not None:
        return None
    try:
        # Version 2 writes equal values as equal bytes, and 1, 1.0 and true as different ones.
        written = tuple((tool.name, marshal.dumps(dict(tool.parameters), 2)) for tool in tools)
    except ValueError:  # what no JSON text can hold, or too deep
        return None
    return written, spec, controls
