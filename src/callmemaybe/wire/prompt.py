"""Prompts as tuples of plain text and control tokens.

What a user or a tool's author writes is always plain text, even where it spells a control token.
What a format or a model's own template writes may hold control tokens. A model's template is
Jinja and runs in a sandbox, in a process with limits; before it runs, text from outside is armoured, so that a control token
found in what it wrote can only come from the template itself.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, Protocol

from callmemaybe.grammar.nodes import Control
from callmemaybe.jsonio.writer import dumps
from callmemaybe.tools import ToolSpec
from callmemaybe.wire.format_nodes import Controls, Part, Parts, join
from callmemaybe.wire.history_args import object_of, place_of

#: Characters for armour: the Private Use Area of plane 15, which no text has a reason to hold.
_ARMOUR = range(0xF0000, 0xFFFFE)


def with_controls(text: str, controls: Controls) -> Parts:
    """Split trusted text at the control tokens it names; longer names win."""
    pattern = _pattern(controls)
    if pattern is None:
        return join([text])
    pieces = pattern.split(text)
    return join([Control(piece) if at % 2 else piece for at, piece in enumerate(pieces)])


def request_text(messages: Sequence[Mapping[str, Any]]) -> str:
    """Return the content of the last user message (empty if there is none)."""
    for message in reversed(messages):
        if message.get("role") == "user":
            return str(message.get("content") or "")
    return ""


class TemplateRenderer(Protocol):
    """Compiles and renders Jinja templates that came with a model's weights; both raise ModelError."""

    def check(self, source: str, names: Mapping[str, str]) -> None:
        """Raise ModelError unless ``source`` is valid Jinja; ``names`` are its constants."""

    def render(self, source: str, names: Mapping[str, str], values: Mapping[str, Any]) -> str:
        """Return the text that the template makes of ``values``."""


class ChatTemplate:
    """A model's own chat template, rendered for tools, in two parts.

    The part before the first message is computed once for all requests. Thinking is switched off
    the way the template offers it (``enable_thinking=False``); a template that does not know the
    switch ignores it.
    """

    def __init__(self, source: str, renderer: TemplateRenderer, **names: str) -> None:
        """Compile the template; ``names`` are what it may call by name (``bos_token``, ...).

        A template is a program, so ``renderer`` decides where it may run. Raises ModelError if it is
        not valid Jinja.
        """
        self.source = source
        self._renderer = renderer
        self._names = names
        # Rendering the tools twice per prompt would cost more than finding them again.
        self._prefixes = lru_cache(maxsize=8)(self._prefix)
        renderer.check(source, names)

    def prefix(self, tools: Sequence[ToolSpec], controls: Controls) -> Parts:
        """Return what every prompt for these tools begins with, up to its last control token."""
        return self._prefixes(tuple(tools), controls)

    def _prefix(self, tools: tuple[ToolSpec, ...], controls: Controls) -> Parts:
        both = [self.render([_user(text)], tools, controls) for text in ("a", "b")]
        common = 0
        for one, other in zip(*both, strict=False):
            if one is not other and one != other:
                break
            common += 1
        return tuple(both[0][: behind_control(both[0], common)])

    def request(
        self,
        messages: Sequence[Mapping[str, Any]],
        tools: Sequence[ToolSpec],
        controls: Controls,
    ) -> Parts:
        """Return the rest of the prompt, behind the prefix (all of it if it begins differently)."""
        prefix = self.prefix(tools, controls)
        whole = self.render(messages, tools, controls)
        return whole[len(prefix) :] if whole[: len(prefix)] == prefix else whole

    def render(
        self,
        messages: Sequence[Mapping[str, Any]],
        tools: Sequence[ToolSpec],
        controls: Controls,
        thinking: bool = False,
    ) -> Parts:
        """Return the whole prompt.

        Raises ModelError if the template fails, InputError for arguments of a call that it cannot read.
        """
        messages = [_with_parsed_arguments(*each) for each in enumerate(messages)]
        pattern = _pattern(controls)
        definitions = [tool.as_openai() for tool in tools]
        armour = _Armour(pattern, dumps([list(messages), definitions]))
        text = self._renderer.render(
            self.source,
            self._names,
            {
                "messages": armour.put_on(list(messages)),
                "tools": armour.put_on(definitions),
                "add_generation_prompt": True,
                "enable_thinking": thinking,
            },
        )
        parts = with_controls(text, controls)
        return join([armour.take_off(part) if isinstance(part, str) else part for part in parts])


class _Armour:
    """Replaces each control token's text by one private character, and back.

    The characters are chosen so that none of them occurs in the text.
    """

    def __init__(self, pattern: re.Pattern[str] | None, text: str) -> None:
        self._pattern = pattern
        self._of: dict[str, str] = {}
        self._free = (chr(code) for code in _ARMOUR if chr(code) not in text)

    def put_on(self, value: Any) -> Any:
        """Return the value with every string in it armoured, keys too."""
        if self._pattern is None:
            return value
        if isinstance(value, str):
            return self._pattern.sub(lambda match: self._character(match[0]), value)
        if isinstance(value, Mapping):
            return {self.put_on(key): self.put_on(inner) for key, inner in value.items()}
        if isinstance(value, list | tuple):
            return [self.put_on(inner) for inner in value]
        return value

    def take_off(self, text: str) -> str:
        """Return the text as it was."""
        for found, character in self._of.items():
            text = text.replace(character, found)
        return text

    def _character(self, found: str) -> str:
        if found not in self._of:
            self._of[found] = next(self._free)
        return self._of[found]


def _pattern(controls: Controls) -> re.Pattern[str] | None:
    if not controls:
        # A template names tokens by itself; which of them are tokens only the vocabulary can say.
        return None
    ordered = sorted(controls, key=lambda text: (-len(text), text))
    return re.compile("(" + "|".join(map(re.escape, ordered)) + ")")


def behind_control(parts: Sequence[Part], limit: int) -> int:
    """Return the place behind the last control token: text in front of it is tokenised alone."""
    while limit and isinstance(parts[limit - 1], str):
        limit -= 1
    return limit


def _with_parsed_arguments(number: int, message: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a message as templates expect it: the arguments of calls as values, not as text."""
    calls = message.get("tool_calls")
    if not calls:
        return message
    parsed = []
    for index, call in enumerate(calls):
        function = dict(call["function"])
        if isinstance(function.get("arguments"), str):
            function["arguments"] = object_of(function["arguments"], place_of(number, index))
        parsed.append({**call, "function": function})
    return {**message, "tool_calls": parsed}


def _user(text: str) -> dict[str, str]:
    return {"role": "user", "content": text}
