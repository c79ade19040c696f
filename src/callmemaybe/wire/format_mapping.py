r"""A format declared as plain data, as a TOML file holds it.

::

    name = "angle"
    summary = "calls in angle brackets"
    tokens = ["<call>", "</call>"]              # control tokens, where the vocabulary has them
    calls = [{token = "<call>"}, "name", {text = " "}, "arguments", {token = "</call>"}]
    between = [{text = "\n"}]                   # leave it out for one call a turn
    before = []                                 # around all calls together
    after = []
    style = "spaced"                            # or "compact", "python", "xml"
    bare_names = true                           # else the inside of a JSON string
    no_call = {text = "none"}                   # or {stop = "<call>"}, {not_first = "["}

    [chat]
    system = ["<|system|>", "<|end|>"]
    user = ["<|user|>", "<|end|>"]
    assistant = ["<|assistant|>", "<|end|>"]
    result = ["<|result|>", "<|end|>"]
    ask = "<|assistant|>"
    tools = {around = ["Functions: [", "]"], between = ", "}
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from callmemaybe.errors import InputError
from callmemaybe.wire.arg_syntax import JSON_ARGS, PYTHON_ARGS, XML_ARGS
from callmemaybe.wire.chat_markup import ChatMarkup, Surround, ToolMarkup, declare_format
from callmemaybe.wire.format import Format
from callmemaybe.wire.format_nodes import (
    ArgumentsNode,
    CallsNode,
    ChoiceNode,
    FormatNode,
    FreeTextNode,
    IdNode,
    NameNode,
    SequenceNode,
    TextNode,
    TokenNode,
    sequence,
)

_SYNTAXES = {"python": PYTHON_ARGS, "xml": XML_ARGS}
_KEYS = frozenset(
    ("name", "summary", "tokens", "calls", "between", "before", "after", "style", "bare_names",
     "no_call", "chat", "template_has", "template_lacks", "signs")
)  # fmt: skip
_AROUND = ("system", "user", "assistant", "result", "results")


def format_from_mapping(data: Mapping[str, Any], where: str) -> Format:
    """Return the format that ``data`` declares (see the top of this file).

    Raises InputError with ``where`` and the key for what is missing, unknown or of another kind.
    """
    if unknown := data.keys() - _KEYS:
        raise _wrong(where, min(unknown), "there is no such key", f"use {', '.join(sorted(_KEYS))}")
    style = _get(data, "style", str, where, "spaced")
    if style not in ("spaced", "compact", *_SYNTAXES):
        raise _wrong(where, "style", f"there is no style {style!r}", "spaced, compact, python, xml")
    arguments = ArgumentsNode(
        style if style not in _SYNTAXES else "spaced", _SYNTAXES.get(style, JSON_ARGS)
    )
    name = NameNode(bare=_get(data, "bare_names", bool, where, False))
    leaves: dict[str, FormatNode] = {"name": name, "arguments": arguments, "id": IdNode()}
    call = _chain(data, "calls", leaves, where)
    if sum(one is name for one in call.nodes) != 1 or call.nodes.count(arguments) != 1:
        raise _wrong(where, "calls", 'it needs one "name" and one "arguments" behind it')
    between = _chain(data, "between", {}, where) if "between" in data else None
    nodes = (
        *_chain(data, "before", {}, where).nodes,
        CallsNode(call, between),
        *_chain(data, "after", {}, where).nodes,
    )
    calls: FormatNode = SequenceNode(nodes)
    tree = ChoiceNode(calls, _no_call(data["no_call"], where)) if "no_call" in data else calls
    tokens = _texts(data.get("tokens", ()), where, "tokens")
    return declare_format(
        _get(data, "name", str, where),
        _get(data, "summary", str, where, ""),
        tree,
        _chat(_get(data, "chat", Mapping, where, {}), where),
        tokens=tokens,
        signs=_texts(data.get("signs", ()), where, "signs"),
        template_has=_texts(data.get("template_has", ()), where, "template_has"),
        template_lacks=_texts(data.get("template_lacks", ()), where, "template_lacks"),
    )


def _wrong(where: str, key: str, what: str, hint: str | None = None) -> InputError:
    return InputError(what, where=f"{where}, {key}", hint=hint)


def _get(data: Mapping[str, Any], key: str, kind: Any, where: str, default: Any = ...) -> Any:
    value = data.get(key, default)
    if value is ...:
        raise _wrong(where, key, "it is missing")
    if not isinstance(value, kind):
        raise _wrong(where, key, f"it must be of type {kind.__name__}")
    return value


def _texts(value: Any, where: str, key: str) -> tuple[str, ...]:
    if not isinstance(value, Sequence) or isinstance(value, str) or not all(
        isinstance(one, str) for one in value
    ):  # fmt: skip
        raise _wrong(where, key, "it must be a list of texts")
    return tuple(value)


def _chain(
    data: Mapping[str, Any], key: str, leaves: Mapping[str, FormatNode], where: str
) -> SequenceNode:
    listed = data.get(key, [] if key != "calls" else None)
    if not isinstance(listed, list):
        raise _wrong(where, key, "it must be a list of nodes")
    found: list[FormatNode] = []
    for one in listed:
        if isinstance(one, str) and one in leaves:
            found.append(leaves[one])
        elif isinstance(one, Mapping) and len(one) == 1 and isinstance(one.get("text"), str):
            found.append(TextNode(one["text"]))
        elif isinstance(one, Mapping) and len(one) == 1 and isinstance(one.get("token"), str):
            found.append(TokenNode(one["token"]))
        else:
            raise _wrong(where, key, f"{one!r} is no node",
                         'use {text = "..."}, {token = "..."}, "name", "arguments" or "id"')  # fmt: skip
    return sequence(*found)


def _no_call(value: Any, where: str) -> FormatNode:
    if isinstance(value, Mapping) and len(value) == 1:
        ((key, text),) = value.items()
        if isinstance(text, str):
            match key:
                case "text":
                    return TextNode(text)
                case "token":
                    return TokenNode(text)
                case "stop":
                    return FreeTextNode(stop=text)
                case "not_first":
                    return FreeTextNode(not_first=text)
    raise _wrong(where, "no_call", "it must be one of text, token, stop, not_first with a text")


def _chat(data: Mapping[str, Any], where: str) -> ChatMarkup:
    where = f"{where}, chat"
    known = {*_AROUND, "begin", "ask", "gap", "default", "tools", "tools_in_user"}
    if unknown := data.keys() - known:
        raise _wrong(where, min(unknown), "there is no such key", f"use {', '.join(sorted(known))}")
    around = {key: _around(data[key], where, key) for key in _AROUND if key in data}
    tools = _get(data, "tools", Mapping, where, {})
    return ChatMarkup(
        system=around.get("system", ("", "\n\n")),
        user=around.get("user", ("user: ", "\n\n")),
        assistant=around.get("assistant", ("assistant: ", "\n\n")),
        result=around.get("result", ("result: ", "\n\n")),
        results=around.get("results", ("", "")),
        ask=_get(data, "ask", str, where, "assistant: "),
        begin=_get(data, "begin", str, where, ""),
        gap=_get(data, "gap", str, where, "\n\n"),
        default=_get(data, "default", str, where, ""),
        tools_in_user=_get(data, "tools_in_user", bool, where, False),
        tools=ToolMarkup(
            _around(tools.get("around", ["", ""]), where, "tools"),
            _around(tools.get("each", ["", ""]), where, "tools"),
            _get(tools, "between", str, where, ""),
        ),
    )


def _around(value: Any, where: str, key: str) -> Surround:
    found = _texts(value, where, key)
    if len(found) != 2:
        raise _wrong(where, key, "it must be two texts: before and behind")
    return found[0], found[1]
