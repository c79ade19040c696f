"""OpenAI's ``tool_choice`` as the specification of what a model may write.

====================  ==========================================================================
``"auto"``            calls, or an answer in text
``"none"``            an answer in text
``"required"``        calls
a named function      calls of that function
``allowed_tools``     calls of these functions; its mode says whether text will do as well
====================  ==========================================================================
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from callmemaybe.errors import InputError
from callmemaybe.wire.output_grammar import MAX_CALLS, OutputSpec


def output_spec(
    tool_choice: str | Mapping[str, Any] | None = None,
    *,
    has_tools: bool = True,
    parallel: bool = False,
    most: int | None = None,
    answer: Any = None,
    thinking: int = 0,
    text: int = 0,
) -> OutputSpec:
    """Return what a model may write.

    ``parallel`` allows several calls, ``most`` of them. ``answer`` is the JSON Schema, or the grammar, that
    an answer without calls has to meet. ``thinking`` and ``text`` are the most tokens of thought, and of text in
    front of a call. Raises InputError for a choice that is none, or contradicts the rest.
    """
    count = most if most is not None else MAX_CALLS if parallel else 1
    if count < 1:
        raise InputError("it must be at least 1", where="max_tool_calls")
    base = OutputSpec(most=count if parallel else 1, answer=answer, thinking=thinking, text=text)
    choice = tool_choice if tool_choice is not None else "auto" if has_tools else "none"
    if isinstance(choice, str):
        if choice not in ("auto", "none", "required"):
            raise _wrong(f"there is no choice {choice!r}")
        if choice == "required" and not has_tools:
            raise _wrong("a call is required, but there is no function to call")
        calls = choice != "none" and has_tools
        return replace(base, calls=calls, no_call=choice != "required")
    if not isinstance(choice, Mapping):
        raise _wrong("it must be a word or an object")
    kind = choice.get("type")
    if kind == "function":
        return replace(base, only=(_name(choice),))
    if kind == "allowed_tools":
        # The chat interface nests it, the responses interface does not.
        inner = choice.get("allowed_tools", choice)
        mode, tools = inner.get("mode", "auto"), inner.get("tools")
        if mode not in ("auto", "required"):
            raise _wrong(f"the mode must be auto or required, not {mode!r}")
        if not isinstance(tools, Sequence) or not tools:
            raise _wrong("it must list the functions that are allowed")
        only = tuple(dict.fromkeys(map(_name, tools)))
        return replace(base, only=only, no_call=mode == "auto")
    raise _wrong(f"there is no choice of the type {kind!r}")


def _name(value: Any) -> str:
    function = value.get("function", value) if isinstance(value, Mapping) else None
    name = function.get("name") if isinstance(function, Mapping) else None
    if not isinstance(name, str):
        raise _wrong("a function is named by its name")
    return name


def _wrong(what: str) -> InputError:
    return InputError(
        what,
        where="tool_choice",
        hint="use auto, none, required, a function, or allowed_tools",
    )
