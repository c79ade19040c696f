"""What FunctionGemma and Gemma 4 have in common: how tools, calls and results are written."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from callmemaybe.grammar.nodes import Control
from callmemaybe.jsonio import dumps
from callmemaybe.tools import ToolSpec
from callmemaybe.wire.arg_syntax import gemma_args, sorted_keys
from callmemaybe.wire.format_nodes import (
    ArgumentsNode,
    NameNode,
    PromptPart,
    SequenceNode,
    TokenNode,
    sequence,
)


def call(begin: str, end: str, fence: str) -> SequenceNode:
    """Return one call between two tokens, strings in fences."""
    arguments = ArgumentsNode(syntax=gemma_args(fence))
    return sequence(TokenNode(begin), "call:", NameNode(bare=True), arguments, TokenNode(end))


def declaration(tool: ToolSpec, fence: str) -> Iterable[PromptPart]:
    """Write a tool: a record like that of a call, types in capitals."""
    yield f"declaration:{tool.name}{{description:"
    yield from _fenced(tool.description, fence)
    yield ",parameters:"
    yield from _schema(tool.schema, fence)
    yield "}"


def _fenced(text: str, fence: str) -> Iterable[PromptPart]:
    yield from (Control(fence), text, Control(fence))


def _schema(schema: Any, fence: str) -> Iterable[PromptPart]:
    """Write a schema: what describes it, then its type."""
    given = dict(schema) if isinstance(schema, Mapping) else {}
    kind = given.pop("type", "object" if "properties" in given else "string")
    first = True
    yield "{"
    for key in sorted_keys(given):
        if key.startswith("$") or key == "additionalProperties":
            continue
        yield f"{'' if first else ','}{key}:"
        first = False
        if key == "properties" and isinstance(given[key], Mapping):
            yield from _record(
                {name: list(_schema(one, fence)) for name, one in given[key].items()}
            )
        elif isinstance(given[key], Mapping):
            yield from _schema(given[key], fence)
        else:
            yield from _value(given[key], fence)
    yield "type:" if first else ",type:"
    kinds = kind if isinstance(kind, list) else [kind]
    texts = [str(one).upper() for one in kinds]
    yield from _value(texts if isinstance(kind, list) else texts[0], fence)
    yield "}"


def _record(fields: Mapping[str, list[PromptPart]]) -> Iterable[PromptPart]:
    yield "{"
    for index, key in enumerate(sorted_keys(fields)):
        yield f"{',' if index else ''}{key}:"
        yield from fields[key]
    yield "}"


def _value(value: Any, fence: str) -> Iterable[PromptPart]:
    if isinstance(value, str):
        yield from _fenced(value, fence)
    elif isinstance(value, list | tuple):
        yield "["
        for index, item in enumerate(value):
            yield "," * bool(index)
            yield from _value(item, fence)
        yield "]"
    else:
        yield dumps(value)
