"""Prompts as tuples of plain text and control tokens.

What a user or a tool's author writes is always plain text, even where it spells a control token. What
a format or a model's own template writes may contain control tokens. A model's template is Jinja and
runs in a sandbox, in a process with limits; before it runs, the control tokens in text from outside are
escaped, so that one found in its output can only come from the template itself.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple, Protocol

from callmemaybe.grammar.nodes import Control
from callmemaybe.jsonio import dumps
from callmemaybe.tools import ToolSpec
from callmemaybe.wire.arg_syntax import arguments_object, arguments_place
from callmemaybe.wire.format_nodes import Controls, PromptParts, join_parts

#: Characters to escape with: the Private Use Area of plane 15, which texts have no reason to use.
_ESCAPES = range(0xF0000, 0xFFFFE)


def split_controls(text: str, controls: Controls) -> PromptParts:
    """Split trusted text at the control tokens in it; the longest one at a place wins."""
    pattern = _pattern(controls)
    if pattern is None:
        return join_parts([text])
    texts = pattern.split(text)
    return join_parts(Control(one) if at % 2 else one for at, one in enumerate(texts))


def last_user_text(messages: Sequence[Mapping[str, Any]]) -> str:
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


class PromptWriter:
    """Writes whole prompts, and splits them behind what all requests for the same tools share."""

    def render(
        self,
        messages: Sequence[Mapping[str, Any]],
        tools: Sequence[ToolSpec],
        controls: Controls,
        thinking: bool = False,
    ) -> PromptParts:
        """Return the whole prompt."""
        raise NotImplementedError

    def prefix(self, tools: Sequence[ToolSpec], controls: Controls) -> PromptParts:
        """Return what every prompt for these tools begins with, up to its last control token."""
        one, other = (
            self.render([{"role": "user", "content": text}], tools, controls) for text in "ab"
        )
        common = 0
        for left, right in zip(one, other, strict=False):
            if left is not right and left != right:
                break
            common += 1
        # Text behind the last control token may merge with what follows when it is tokenised.
        while common and isinstance(one[common - 1], str):
            common -= 1
        return one[:common]

    def request(
        self, messages: Sequence[Mapping[str, Any]], tools: Sequence[ToolSpec], controls: Controls
    ) -> PromptParts:
        """Return the rest of the prompt, behind the prefix (all of it if it begins differently)."""
        prefix, whole = self.prefix(tools, controls), self.render(messages, tools, controls)
        return whole[len(prefix) :] if whole[: len(prefix)] == prefix else whole


class Opening(NamedTuple):
    """What a model's turn may begin with, and a template may end with: a thought (and its end), or an answer."""

    begin: str
    end: str | None = None


class ChatTemplate(PromptWriter):
    """A model's own chat template, rendered for tools, in two parts.

    The part before the first message is computed once for all requests. Thinking is switched off by
    ``enable_thinking=False`` and ``thinking=False``, which templates that do not know them ignore.
    """

    def __init__(
        self,
        source: str,
        renderer: TemplateRenderer,
        *,
        openings: Sequence[Opening] = (),
        **names: str,
    ) -> None:
        """Compile the template; ``names`` are what it may call by name (``bos_token``, ...).

        ``openings`` are what a template may end with and a model's turn begins with. A template is a program,
        so ``renderer`` decides where it may run. Raises ModelError if it is not valid Jinja.
        """
        self.source = source
        self._openings = openings
        self._renderer = renderer
        self._names = names
        # Rendering the tools twice more for each prompt would cost more than hashing them.
        self._prefixes = lru_cache(maxsize=8)(super().prefix)
        renderer.check(source, names)

    def prefix(self, tools: Sequence[ToolSpec], controls: Controls) -> PromptParts:
        """Return what every prompt for these tools begins with, up to its last control token."""
        return self._prefixes(tuple(tools), controls)

    def render(
        self,
        messages: Sequence[Mapping[str, Any]],
        tools: Sequence[ToolSpec],
        controls: Controls,
        thinking: bool = False,
    ) -> PromptParts:
        """Return the whole prompt.

        Raises ModelError if the template fails, InputError for arguments of a call that it cannot read.
        """
        messages = [_with_parsed_arguments(*each) for each in enumerate(messages)]
        pattern = _pattern(controls)
        definitions = [tool.as_openai() for tool in tools]
        escaper = _ControlEscaper(pattern, dumps([list(messages), definitions]))
        text = self._renderer.render(
            self.source,
            self._names,
            {
                "messages": escaper.escape(list(messages)),
                "tools": escaper.escape(definitions),
                "add_generation_prompt": True,
                "enable_thinking": thinking,
                "thinking": thinking,
            },
        )
        parts = split_controls(text, controls)
        read = join_parts(
            escaper.unescape(part) if isinstance(part, str) else part for part in parts
        )
        return self._before_turn(read, controls, thinking)

    def _before_turn(self, parts: PromptParts, controls: Controls, thinking: bool) -> PromptParts:
        """Return a prompt without the beginning of the turn, which the grammar has the model write.

        Where the model should not reason, a thought that was opened is closed instead.
        """
        for opening in self._openings:
            before = _without_end(parts, split_controls(opening.begin, controls))
            if before is not None and opening.end is not None and not thinking:
                return join_parts([*parts, *split_controls(opening.end, controls)])
            if before is not None:
                return before
        return parts


def _without_end(parts: PromptParts, end: PromptParts) -> PromptParts | None:
    """Return a prompt without this end, None if it ends otherwise; white space behind it is no part of either."""
    parts, end = _without_space(parts), _without_space(end)
    if not end or len(parts) < len(end) or parts[len(parts) - len(end) + 1 :] != end[1:]:
        return None
    before, last = parts[: -len(end)], parts[-len(end)]
    if isinstance(last, str) and isinstance(end[0], str) and last.endswith(end[0]):
        return join_parts([*before, last.removesuffix(end[0])])
    return before if last == end[0] else None


def _without_space(parts: PromptParts) -> PromptParts:
    """Return a prompt without white space behind it."""
    if not parts or not isinstance(parts[-1], str):
        return parts
    return join_parts([*parts[:-1], parts[-1].rstrip()])


class _ControlEscaper:
    """Replaces each control token's text by one private character, and back.

    The characters are chosen so that none of them occurs in the text.
    """

    def __init__(self, pattern: re.Pattern[str] | None, text: str) -> None:
        self._pattern = pattern
        self._characters: dict[str, str] = {}
        self._free = (chr(code) for code in _ESCAPES if chr(code) not in text)

    def escape(self, value: Any) -> Any:
        """Return the value with every string in it escaped, keys too."""
        if self._pattern is None:
            return value
        if isinstance(value, str):
            return self._pattern.sub(lambda match: self._character(match[0]), value)
        if isinstance(value, Mapping):
            return {self.escape(key): self.escape(inner) for key, inner in value.items()}
        if isinstance(value, list | tuple):
            return [self.escape(inner) for inner in value]
        return value

    def unescape(self, text: str) -> str:
        """Return the text as it was."""
        for found, character in self._characters.items():
            text = text.replace(character, found)
        return text

    def _character(self, found: str) -> str:
        if found not in self._characters:
            self._characters[found] = next(self._free)
        return self._characters[found]


def _pattern(controls: Controls) -> re.Pattern[str] | None:
    if not controls:
        # A template names tokens by itself; which of them are tokens only the vocabulary can say.
        return None
    ordered = sorted(controls, key=lambda text: (-len(text), text))
    return re.compile("(" + "|".join(map(re.escape, ordered)) + ")")


def _with_parsed_arguments(number: int, message: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a message as templates expect it: the arguments of calls as values, not as text."""
    calls = message.get("tool_calls")
    if not calls:
        return message
    parsed = []
    for index, call in enumerate(calls):
        function = dict(call["function"])
        if isinstance(function.get("arguments"), str):
            function["arguments"] = arguments_object(
                function["arguments"], arguments_place(number, index)
            )
        parsed.append({**call, "function": function})
    return {**message, "tool_calls": parsed}
