"""A model family's way to write calls: one tree, from which everything else is derived.

``render`` writes calls, ``grammar`` says what a model may write, ``reader`` understands what was
written. All three walk the same tree, so they agree by construction; the laws that say so are
tested on every format of the registry.
"""

from __future__ import annotations

import marshal
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from callmemaybe.errors import InputError
from callmemaybe.grammar.grammar import Grammar
from callmemaybe.tools import CallEnded, TextDelta, ToolCall, ToolSpec, check_distinct
from callmemaybe.wire.format_nodes import (
    Answer,
    Calls,
    Chain,
    Controls,
    Either,
    Id,
    Name,
    Part,
    Parts,
    Piece,
    Thought,
    join,
)
from callmemaybe.wire.output_grammar import MOST_CALLS, DeferredChecks, OutputGrammar, OutputSpec
from callmemaybe.wire.prompt import ChatTemplate, TemplateRenderer
from callmemaybe.wire.reader import Reader
from callmemaybe.wire.rendering import render

#: One message of a conversation, in OpenAI's shape: {"role": ..., "content": ...}.
Message = Mapping[str, Any]
#: Writes the part of a prompt that does not depend on the request.
Prefix = Callable[[Sequence[ToolSpec], Controls], Parts]
#: Writes the rest, up to where the model begins.
Request = Callable[[Sequence[Message], Sequence[ToolSpec], Controls], Parts]


#: Languages that are kept, the last used ones.
KEPT_LANGUAGES = 512
_LANGUAGES: dict[tuple[int, bool, Hashable], tuple[Piece, Grammar, DeferredChecks]] = {}


@dataclass(frozen=True)
class Format:
    """How one family of models is asked, and how it answers.

    ``controls``, wherever a method takes it, is the set of control tokens the vocabulary has, by
    text; None means that it has all of them.
    """

    name: str
    summary: str
    tree: Piece
    prefix: Prefix
    request: Request
    #: Writes all of a prompt, also one that does not begin with the prefix; None: the two joined.
    whole: Callable[..., Parts] | None = None
    #: Control tokens that give this format away, all of them.
    controls: frozenset[str] = frozenset()
    #: Texts of a chat template that give it away (all), and that speak against it (any).
    template_has: tuple[str, ...] = ()
    template_lacks: tuple[str, ...] = ()
    #: Whether the control tokens alone do not give it away.
    needs_template: bool = False
    #: Among formats that fit, the higher number wins.
    priority: int = 0
    #: Whether models of the family learnt only what a grammar leaves open: to them, what it forces is
    #: as good as any other text, and its probability says nothing.
    learnt_choices: bool = False

    def fits(self, template: str | None, controls: frozenset[str]) -> bool:
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
        template = ChatTemplate(source, renderer, **names)
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
    ) -> Parts:
        """Return the whole prompt: the static prefix, then the request.

        ``thinking`` leaves the model room to think aloud, where the family's prompts say so.
        """
        if self.whole is not None:
            return self.whole(messages, tools, controls, thinking)
        return join([*self.prefix(tools, controls), *self.request(messages, tools, controls)])

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
        UnsupportedSchema (its ``where`` names the tool) for a schema that cannot be kept.
        """
        most = MOST_CALLS if parallel else 1
        return self.language(tools, _wanted(no_call, most), controls=controls)

    def language(
        self,
        tools: Sequence[ToolSpec],
        wanted: OutputSpec,
        *,
        controls: Controls = None,
        left: DeferredChecks | None = None,
    ) -> Grammar:
        """Return what a model may write where an answer may be what is ``wanted``.

        Captures and errors are those of :meth:`grammar`, and "thinking". What no grammar can say of a
        schema is refused; or, where ``left`` is given, left out, and added to that under the name of the
        function (None: the answer). Whoever reads the calls then has to check the finished ones.
        """
        if wanted.calls and not tools:
            raise InputError("there is no function to call", hint="give at least one")
        check_distinct(tools, "tools")
        key = _key(tools, wanted, controls)
        place = id(self.tree), left is not None, key
        known = _LANGUAGES.pop(place, None) if key is not None else None
        if known is None or known[0] is not self.tree:
            writer = OutputGrammar(tools, wanted, controls, may_leave=left is not None)
            known = self.tree, writer.grammar(self.tree), writer.left
        if left is not None:
            left.update(known[2])
        if key is not None:
            _LANGUAGES[place] = known
            if len(_LANGUAGES) > KEPT_LANGUAGES:
                _LANGUAGES.pop(next(iter(_LANGUAGES)), None)
        return known[1]

    def spellings(self, tools: Sequence[ToolSpec]) -> Mapping[bytes, str]:
        """Return what the capture "name" holds for each tool, and the tool's name."""
        (leaf,) = {leaf for leaf in leaves(self.tree) if isinstance(leaf, Name)}
        return {leaf.encode(tool.name).encode(): tool.name for tool in tools}

    @property
    def has_ids(self) -> bool:
        """Whether the model writes an id with each call."""
        return self.id_length is not None

    @property
    def id_length(self) -> int | None:
        """How many letters and digits an id has, where the model writes them; None: it does not."""
        return next((leaf.length for leaf in leaves(self.tree) if isinstance(leaf, Id)), None)

    @property
    def is_parallel(self) -> bool:
        """Whether the family can call several functions in one turn."""
        return all(
            leaf.between is not None for leaf in leaves(self.tree) if isinstance(leaf, Calls)
        )

    @property
    def talks(self) -> bool:
        """Whether the family can answer in text."""
        return any(isinstance(leaf, Answer) for leaf in leaves(self.tree))

    @property
    def thinks(self) -> bool:
        """Whether the family has a place for thinking."""
        return any(isinstance(leaf, Thought) for leaf in leaves(self.tree))

    def render(
        self,
        calls: Sequence[ToolCall],
        *,
        answer: str = "",
        thought: str = "",
        tools: Sequence[ToolSpec] = (),
        controls: Controls = None,
    ) -> Parts:
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
    ) -> Reader:
        """Return a fresh incremental reader of what a model writes; ``tools`` as in render.

        ``calls`` False: it could call nothing, so whatever looks like a call is text.
        """
        tree = self.tree if calls else _speechless(self.tree)
        return Reader(tree, {tool.name: tool.parameters for tool in tools}, controls)

    def read(
        self,
        parts: Iterable[Part | bytes],
        tools: Sequence[ToolSpec] = (),
        *,
        controls: Controls = None,
    ) -> list[ToolCall]:
        """Return the calls of a complete answer (none: the model called nothing).

        Raises InputError if the answer is cut off or not in this format.
        """
        return list(self.understand(parts, tools, controls=controls)[1])

    def understand(
        self,
        parts: Iterable[Part | bytes],
        tools: Sequence[ToolSpec] = (),
        *,
        controls: Controls = None,
    ) -> tuple[str, tuple[ToolCall, ...]]:
        """Return the free text and the calls of a complete answer; errors as in :meth:`read`."""
        reader = self.reader(tools, controls=controls)
        events = [event for part in parts for event in reader.feed(part)]
        calls: list[ToolCall] = []
        text = bytearray()
        for event in [*events, *reader.end()]:
            if isinstance(event, CallEnded):
                calls.append(event.call)
            elif isinstance(event, TextDelta):
                text += event.data
        return text.decode(errors="replace"), tuple(calls)


@lru_cache(maxsize=4)
def _wanted(no_call: bool, most: int) -> OutputSpec:
    return OutputSpec(no_call=no_call, most=most)


def _speechless(piece: Piece) -> Piece:
    """Return the tree without the way that calls; its text may then be any."""
    match piece:
        case Chain():
            return Chain(tuple(map(_speechless, piece.pieces)))
        case Either():
            return _speechless(piece.no_call)
        case Answer():
            return Answer()
    return piece


def _key(tools: Sequence[ToolSpec], wanted: OutputSpec, controls: Controls) -> Hashable:
    """Return what a language depends on, by content; None where that cannot be told."""
    is_of_one_request = wanted.ground is not None and wanted.ground.is_known
    if wanted.answer is not None or wanted.given or is_of_one_request:
        return None
    try:
        # Version 2 writes equal values as equal bytes, and 1, 1.0 and true as different ones.
        written = tuple((tool.name, marshal.dumps(dict(tool.parameters), 2)) for tool in tools)
    except ValueError:  # what no JSON text can hold, or too deep
        return None
    return written, wanted, controls


def leaves(piece: Piece) -> Iterator[Piece]:
    """Yield every piece of a tree that is no mere structure; what is called, behind its list."""
    match piece:
        case Chain():
            for inner in piece.pieces:
                yield from leaves(inner)
        case Calls():
            yield piece
            yield from (*leaves(piece.call), *leaves(piece.between or Chain(())))
        case Either():
            yield from (*leaves(piece.calls), *leaves(piece.no_call))
        case _:
            yield piece
