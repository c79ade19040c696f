"""How a family writes the turns of a conversation, as one table; for models without a template.

The texts of the table are the family's own and may contain control tokens. The texts of users, tools
and models are plain text, even where they spell one.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Any

from callmemaybe.jsonio import check_syntax, dumps
from callmemaybe.tools import ToolCall, ToolSpec
from callmemaybe.wire.arg_syntax import arguments_object, arguments_place, arguments_text
from callmemaybe.wire.format import Format
from callmemaybe.wire.format_nodes import (
    ArgumentsNode,
    ChoiceNode,
    Controls,
    FormatNode,
    FreeTextNode,
    PromptPart,
    PromptParts,
    SequenceNode,
    join_parts,
    leaves,
)
from callmemaybe.wire.prompt import PromptWriter, split_controls
from callmemaybe.wire.rendering import render

#: Before it, behind it.
Surround = tuple[str, str]


def write_openai_json(tool: ToolSpec) -> Iterable[PromptPart]:
    """Write a tool as OpenAI's JSON, as most families read it."""
    yield dumps(tool.as_openai())


def write_typescript(tool: ToolSpec) -> Iterable[PromptPart]:
    """Write a tool as a type of TypeScript, its parameters as one line of JSON Schema."""
    for line in tool.description.splitlines():
        yield f"// {line}\n"
    yield f"type {tool.name} = (_: {dumps(tool.parameters)}) => any;\n\n"


def write_function_json(tool: ToolSpec) -> Iterable[PromptPart]:
    """Write a tool as the inner object of OpenAI's JSON."""
    yield dumps(tool.as_openai()["function"])


def write_indented_json(tool: ToolSpec) -> Iterable[PromptPart]:
    """Write a tool as JSON over several lines."""
    yield json.dumps(json.loads(dumps(tool.as_openai())), ensure_ascii=False, indent=4)


def write_content(_name: str, _call_id: str, content: str) -> Iterable[str]:
    """Write a result as it is."""
    return (content,)


@dataclass(frozen=True)
class ToolMarkup:
    """How tools are declared: the marks around all and around each, and how each is written."""

    around: Surround
    each: Surround = ("", "")
    between: str = ""
    write: Callable[[ToolSpec], Iterable[PromptPart]] = write_openai_json


@dataclass(frozen=True)
class ChatMarkup:
    """The marks of a family's turns.

    ``tools`` stand in the system's turn, behind its text (``gap`` in between) or, where
    ``tools_in_user``, in front of the last user's turn. ``default`` is the system's text where a
    conversation has none. ``results`` stand around neighbouring results, ``result`` around each, and
    ``result_gaps`` between the texts that ``write_result`` makes of a result's name, id and content
    (``{index}`` in them is the number of the result in its turn, from 1 on).
    ``ask`` begins the model's turn; ``no_thinking`` is a token and a text, which follows where the
    vocabulary has the token and the model should not reason.
    """

    system: Surround
    user: Surround
    assistant: Surround
    result: Surround
    ask: str
    tools: ToolMarkup
    begin: str = ""
    gap: str = "\n\n"
    default: str = ""
    tools_in_user: bool = False
    #: The system's text stands in front of the last user's text, and has no turn of its own.
    system_in_user: bool = False
    #: The model's turn continues after results; and has no end mark behind calls either.
    resumes: bool = False
    open_calls: bool = False
    results: Surround = ("", "")
    write_result: Callable[[str, str, str], Iterable[str]] = write_content
    result_gaps: tuple[str, ...] = ()
    #: Marks around an answer in text that stand around no call.
    answer: Surround = ("", "")
    no_thinking: tuple[str, str] = ("", "")


class MarkupPrompts(PromptWriter):
    """Writes prompts by a table of marks."""

    def __init__(self, chat: ChatMarkup, tree: FormatNode, known: frozenset[str]) -> None:
        """``known`` are the control tokens that may occur in the table and the tree."""
        self._chat = chat
        self._tree = tree
        self._known = known
        #: Whether the branch that calls has a place for text in it.
        self._has_place = any(
            isinstance(inner, FreeTextNode)
            for leaf in _choices(tree)
            if isinstance(leaf.calls, SequenceNode)
            for inner in leaf.calls.nodes
        )
        self._is_json = not any(
            isinstance(leaf, ArgumentsNode) and leaf.syntax.top is not None for leaf in leaves(tree)
        )

    def render(
        self,
        messages: Sequence[Mapping[str, Any]],
        tools: Sequence[ToolSpec],
        controls: Controls,
        thinking: bool = False,
    ) -> PromptParts:
        """Return the whole prompt; raise InputError for arguments of a call that it cannot write."""
        read = [self._with_calls(*each) for each in enumerate(messages)]
        return join_parts(self._parts(read, tools, controls, thinking))

    def _with_calls(self, number: int, message: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return a message of the model with its calls read."""
        if message.get("role") != "assistant":
            return message
        calls = enumerate(message.get("tool_calls") or ())
        read = [self._call(one, arguments_place(number, index)) for index, one in calls]
        return {**message, "tool_calls": read}

    def _call(self, value: Mapping[str, Any], where: str) -> ToolCall:
        """Read a call; where the family writes JSON, the text of the arguments is copied."""
        function = value.get("function") or value
        arguments = function.get("arguments") or ""
        text = arguments_text(arguments if isinstance(arguments, str) else dumps(arguments))
        if self._is_json:
            check_syntax(text, where=where)
        else:
            arguments_object(text, where)
        return ToolCall(str(function["name"]), text, str(value.get("id") or ""))

    # -- the parts --------------------------------------------------------------------------------

    def _marks(self, text: str, controls: Controls) -> Iterator[PromptPart]:
        """Split a text of the table at its control tokens."""
        known = self._known if controls is None else self._known & controls
        yield from split_controls(text, known)

    def _around(
        self, marks: Surround, inner: Iterable[PromptPart], controls: Controls
    ) -> Iterator[PromptPart]:
        yield from self._marks(marks[0], controls)
        yield from inner
        yield from self._marks(marks[1], controls)

    def _parts(
        self,
        messages: Sequence[Mapping[str, Any]],
        tools: Sequence[ToolSpec],
        controls: Controls,
        thinking: bool,
    ) -> Iterator[PromptPart]:
        chat = self._chat
        yield from self._marks(chat.begin, controls)
        system = chat.default
        if messages and messages[0].get("role") in ("system", "developer"):
            system, messages = str(messages[0].get("content") or ""), messages[1:]
        declared = list(self._tools(tools, controls)) if tools else []
        last = max((i for i, m in enumerate(messages) if m.get("role") == "user"), default=-1)
        if system and chat.system_in_user and last >= 0:
            text = f"{system}{chat.gap}{messages[last].get('content') or ''}"
            messages = [
                *messages[:last],
                {**messages[last], "content": text},
                *messages[last + 1 :],
            ]
        elif system or (declared and not chat.tools_in_user):
            inner: list[PromptPart] = [system]
            if declared and not chat.tools_in_user:
                inner += [*self._marks(chat.gap if system else "", controls), *declared]
            yield from self._around(chat.system, inner, controls)
        names: dict[str, str] = {}
        for index, message in enumerate(messages):
            if index == last and chat.tools_in_user:
                yield from declared
            yield from self._turn(messages, index, message, names, tools, controls)
        if chat.resumes and messages and messages[-1].get("role") == "tool":
            return
        yield from self._marks(chat.ask, controls)
        token, text = chat.no_thinking
        if token and not thinking and (controls is None or token in controls):
            yield from self._marks(text, controls)

    def _turn(
        self,
        messages: Sequence[Mapping[str, Any]],
        index: int,
        message: Mapping[str, Any],
        names: dict[str, str],
        tools: Sequence[ToolSpec],
        controls: Controls,
    ) -> Iterator[PromptPart]:
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
            if calls:
                inner = self._calls(content, calls, tools, controls)
            else:
                inner = list(self._around(chat.answer, [content], controls))
            yield from self._around((before, behind), inner, controls)
        elif role == "tool":
            call_id = str(message.get("tool_call_id") or "")
            name = str(message.get("name") or names.get(call_id) or "")
            if index == 0 or messages[index - 1].get("role") != "tool":
                yield from self._marks(chat.results[0], controls)
            others = takewhile(lambda one: one.get("role") == "tool", reversed(messages[:index]))
            number = str(1 + sum(1 for _ in others))
            texts: list[PromptPart] = []
            for at, text in enumerate(chat.write_result(name, call_id, content)):
                gap = chat.result_gaps[at - 1].replace("{index}", number) if at else ""
                texts += [*self._marks(gap, controls), text]
            yield from self._around(chat.result, texts, controls)
            if index + 1 == len(messages) or messages[index + 1].get("role") != "tool":
                yield from self._marks(chat.results[1], controls)
        else:
            marks = chat.user if role == "user" else chat.system
            yield from self._around(marks, [content], controls)

    def _calls(
        self, content: str, calls: list[ToolCall], tools: Sequence[ToolSpec], controls: Controls
    ) -> list[PromptPart]:
        """Return earlier calls and the text in front of them, where the family has a place for that."""
        answer = content if self._has_place else ""
        written = render(self._tree, calls, answer=answer, tools=tools, controls=controls)
        return [*([] if self._has_place else [content]), *written]

    def _tools(self, tools: Sequence[ToolSpec], controls: Controls) -> Iterator[PromptPart]:
        markup = self._chat.tools
        yield from self._marks(markup.around[0], controls)
        for index, tool in enumerate(tools):
            if index:
                yield from self._marks(markup.between, controls)
            yield from self._around(markup.each, markup.write(tool), controls)
        yield from self._marks(markup.around[1], controls)


def _choices(node: FormatNode) -> Iterator[ChoiceNode]:
    if isinstance(node, ChoiceNode):
        yield node
    for inner in node.nodes if isinstance(node, SequenceNode) else ():
        yield from _choices(inner)


def declare_format(
    name: str,
    summary: str,
    tree: FormatNode,
    chat: ChatMarkup,
    *,
    tokens: Iterable[str],
    signs: Iterable[str] = (),
    template_has: tuple[str, ...] = (),
    template_lacks: tuple[str, ...] = (),
    needs_template: bool = False,
    priority: int = 0,
) -> Format:
    """Return a format whose prompts are written as ``chat`` says.

    ``tokens`` are the control tokens of the family; ``signs`` those by which it is detected (all of them).
    """
    prompts = MarkupPrompts(chat, tree, frozenset(tokens))
    return Format(
        name=name,
        summary=summary,
        tree=tree,
        prefix=prompts.prefix,
        request=prompts.request,
        whole=prompts.render,
        controls=frozenset(signs),
        template_has=template_has,
        template_lacks=template_lacks,
        needs_template=needs_template,
        priority=priority,
    )
