"""How a family writes the turns of a conversation, as one table; for models without a template.

The texts of the table are the family's own and may name control tokens. What people, tools and
models said is plain text, whatever it spells.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from callmemaybe.jsonio.writer import check, dumps
from callmemaybe.tools import ToolCall, ToolSpec
from callmemaybe.wire.format import Format, leaves
from callmemaybe.wire.format_nodes import Arguments, Controls, Part, Parts, Piece, join
from callmemaybe.wire.history_args import object_of, place_of, text_of
from callmemaybe.wire.prompt import behind_control, with_controls
from callmemaybe.wire.rendering import render

#: Before it, behind it.
Around = tuple[str, str]


def as_openai(tool: ToolSpec) -> Iterable[Part]:
    """Write a tool as OpenAI's JSON, as most families read it."""
    yield dumps(tool.as_openai())


def indented(tool: ToolSpec) -> Iterable[Part]:
    """Write a tool as JSON over several lines."""
    yield json.dumps(json.loads(dumps(tool.as_openai())), ensure_ascii=False, indent=4)


def plain(_name: str, _call_id: str, content: str) -> Iterable[str]:
    """Write a result as it is."""
    return (content,)


@dataclass(frozen=True)
class Tools:
    """How the tools are told: what stands around all and around each, and how each is written."""

    around: Around
    each: Around = ("", "")
    between: str = ""
    write: Callable[[ToolSpec], Iterable[Part]] = as_openai


@dataclass(frozen=True)
class Chat:
    """The marks of a family's turns.

    ``tools`` stand in the system's turn, behind what it says (``gap`` in between) or, where
    ``tools_in_user``, in front of the last user's turn. ``default`` is what the system says otherwise.
    ``results`` stand around results that follow each other, ``result`` around each, and between the
    texts of each (name, id, content; what there are) the ``result_gaps``. ``ask`` begins
    the model's turn; ``no_thinking`` follows it where the model could think and shall not (its first
    token says whether it could).
    """

    system: Around
    user: Around
    assistant: Around
    result: Around
    ask: str
    tools: Tools
    begin: str = ""
    gap: str = "\n\n"
    default: str = ""
    tools_in_user: bool = False
    #: What the system says stands in front of the last user's text, and has no turn of its own.
    system_in_user: bool = False
    #: The model's turn goes on behind results; and has no end behind calls either.
    resumes: bool = False
    open_calls: bool = False
    results: Around = ("", "")
    write_result: Callable[[str, str, str], Iterable[str]] = plain
    result_gaps: tuple[str, ...] = ()
    #: What stands around an answer in text, where that is not all of the turn.
    said_behind: str = ""
    said_end: str = ""
    no_thinking: tuple[str, str] = ("", "")


class Prompter:
    """Writes prompts as a table of marks says."""

    def __init__(self, chat: Chat, tree: Piece, known: frozenset[str]) -> None:
        """``known`` are the control tokens that the table and the tree may name."""
        self._chat = chat
        self._tree = tree
        self._known = known
        self._translates = any(
            isinstance(leaf, Arguments) and leaf.notation.outer is not None for leaf in leaves(tree)
        )

    def whole(
        self,
        messages: Sequence[Mapping[str, Any]],
        tools: Sequence[ToolSpec],
        controls: Controls,
        thinking: bool = False,
    ) -> Parts:
        """Return the whole prompt; raise InputError for arguments of a call that it cannot write."""
        read = [self._with_calls(*each) for each in enumerate(messages)]
        return join(list(self._parts(read, tools, controls, thinking)))

    def prefix(self, tools: Sequence[ToolSpec], controls: Controls) -> Parts:
        """Return what every prompt for these tools begins with, up to its last control token."""
        one, other = (
            self.whole([{"role": "user", "content": text}], tools, controls) for text in "ab"
        )
        common = 0
        while common < len(one) and one[common] == other[common]:
            common += 1
        return tuple(one[: behind_control(one, common)])

    def request(
        self,
        messages: Sequence[Mapping[str, Any]],
        tools: Sequence[ToolSpec],
        controls: Controls,
    ) -> Parts:
        """Return the rest of the prompt behind the prefix."""
        prefix, whole = self.prefix(tools, controls), self.whole(messages, tools, controls)
        return whole[len(prefix) :] if whole[: len(prefix)] == prefix else whole

    def _with_calls(self, number: int, message: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return a message of the model with its calls read."""
        if message.get("role") != "assistant":
            return message
        calls = enumerate(message.get("tool_calls") or ())
        read = [self._call(one, place_of(number, index)) for index, one in calls]
        return {**message, "tool_calls": read}

    def _call(self, value: Mapping[str, Any], where: str) -> ToolCall:
        """Read a call; what was written as JSON is written as it was, if it is JSON."""
        function = value.get("function") or value
        arguments = function.get("arguments") or ""
        text = text_of(arguments if isinstance(arguments, str) else dumps(arguments))
        if self._translates:
            object_of(text, where)
        else:
            check(text, where=where)
        return ToolCall(str(function["name"]), text, str(value.get("id") or ""))

    # -- the parts --------------------------------------------------------------------------------

    def _own(self, text: str, controls: Controls) -> Iterator[Part]:
        """Split a text of the table at its control tokens."""
        known = self._known if controls is None else self._known & controls
        yield from with_controls(text, known)

    def _around(self, marks: Around, inner: Iterable[Part], controls: Controls) -> Iterator[Part]:
        yield from self._own(marks[0], controls)
        yield from inner
        yield from self._own(marks[1], controls)

    def _parts(
        self,
        messages: Sequence[Mapping[str, Any]],
        tools: Sequence[ToolSpec],
        controls: Controls,
        thinking: bool,
    ) -> Iterator[Part]:
        chat = self._chat
        yield from self._own(chat.begin, controls)
        said = chat.default
        if messages and messages[0].get("role") in ("system", "developer"):
            said, messages = str(messages[0].get("content") or ""), messages[1:]
        listed = list(self._tools(tools, controls)) if tools else []
        last = max((i for i, m in enumerate(messages) if m.get("role") == "user"), default=-1)
        if said and chat.system_in_user and last >= 0:
            text = f"{said}{chat.gap}{messages[last].get('content') or ''}"
            messages = [
                *messages[:last],
                {**messages[last], "content": text},
                *messages[last + 1 :],
            ]
        elif said or (listed and not chat.tools_in_user):
            inner: list[Part] = [said]
            if listed and not chat.tools_in_user:
                inner += [*self._own(chat.gap if said else "", controls), *listed]
            yield from self._around(chat.system, inner, controls)
        names: dict[str, str] = {}
        for index, message in enumerate(messages):
            if index == last and chat.tools_in_user:
                yield from listed
            yield from self._turn(messages, index, message, names, tools, controls)
        if chat.resumes and messages and messages[-1].get("role") == "tool":
            return
        yield from self._own(chat.ask, controls)
        token, text = chat.no_thinking
        if token and not thinking and (controls is None or token in controls):
            yield from self._own(text, controls)

    def _turn(
        self,
        messages: Sequence[Mapping[str, Any]],
        index: int,
        message: Mapping[str, Any],
        names: dict[str, str],
        tools: Sequence[ToolSpec],
        controls: Controls,
    ) -> Iterator[Part]:
        chat, role = self._chat, message.get("role")
        content = str(message.get("content") or "")
        if role == "assistant":
            calls: list[ToolCall] = message["tool_calls"]
            names.update((call.id, call.name) for call in calls)
            before, behind = chat.assistant
            if chat.resumes and index and messages[index - 1].get("role") == "tool":
                before = ""
            if chat.open_calls and calls:
                behind = ""
            said = self._said(content, calls, tools, controls)
            yield from self._around((before, behind), said, controls)
        elif role == "tool":
            call_id = str(message.get("tool_call_id") or "")
            name = str(message.get("name") or names.get(call_id) or "")
            if index == 0 or messages[index - 1].get("role") != "tool":
                yield from self._own(chat.results[0], controls)
            texts: list[Part] = []
            for at, text in enumerate(chat.write_result(name, call_id, content)):
                texts += [*self._own(chat.result_gaps[at - 1], controls), text] if at else [text]
            yield from self._around(chat.result, texts, controls)
            if index + 1 == len(messages) or messages[index + 1].get("role") != "tool":
                yield from self._own(chat.results[1], controls)
        else:
            marks = chat.user if role == "user" else chat.system
            yield from self._around(marks, [content], controls)

    def _said(
        self, content: str, calls: list[ToolCall], tools: Sequence[ToolSpec], controls: Controls
    ) -> Iterator[Part]:
        """Write what the model said; text as it is, calls as the model writes them."""
        if not calls and self._chat.said_behind:
            yield from self._own(self._chat.said_behind, controls)
        yield content
        if not calls:
            yield from self._own(self._chat.said_end, controls)
            return
        yield from render(self._tree, calls, tools=tools, controls=controls)

    def _tools(self, tools: Sequence[ToolSpec], controls: Controls) -> Iterator[Part]:
        told = self._chat.tools
        yield from self._own(told.around[0], controls)
        for index, tool in enumerate(tools):
            if index:
                yield from self._own(told.between, controls)
            yield from self._around(told.each, told.write(tool), controls)
        yield from self._own(told.around[1], controls)


def declare(
    name: str,
    summary: str,
    tree: Piece,
    chat: Chat,
    *,
    tokens: Iterable[str],
    signs: Iterable[str] = (),
    template_has: tuple[str, ...] = (),
    template_lacks: tuple[str, ...] = (),
    needs_template: bool = False,
    priority: int = 0,
) -> Format:
    """Return a format whose prompts are written as ``chat`` says.

    ``tokens`` are the control tokens of the family; ``signs`` those that give it away (all of them).
    """
    prompter = Prompter(chat, tree, frozenset(tokens))
    return Format(
        name=name,
        summary=summary,
        tree=tree,
        prefix=prompter.prefix,
        request=prompter.request,
        whole=prompter.whole,
        controls=frozenset(signs),
        template_has=template_has,
        template_lacks=template_lacks,
        needs_template=needs_template,
        priority=priority,
    )
