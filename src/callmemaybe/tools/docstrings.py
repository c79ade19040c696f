"""Descriptions of a function and its parameters from a docstring in Google, NumPy or reST style."""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

# A backquote behind the second colon makes it a role, which may begin any line of prose: ":class:`Bot` is".
_REST = re.compile(r"^:(?P<kind>\w+)(?:[ \t]+(?P<about>[^:]*?))?[ \t]*:(?!`)[ \t]*(?P<text>.*)$")
_GOOGLE_HEAD = re.compile(r"^(?P<head>[A-Z][A-Za-z ]+):[ \t]*$")
# A type may have brackets of its own: "size (tuple(int, int)): ...".
_GOOGLE_ITEM = re.compile(
    r"^\*{0,2}(?P<name>\w+)[ \t]*(?:\((?:[^()]|\([^()]*\))*\))?[ \t]*:[ \t]*(?P<text>.*)$"
)
_NUMPY_ITEM = re.compile(r"^\*{0,2}(?P<names>\w+(?:[ \t]*,[ \t]*\*{0,2}\w+)*)[ \t]*(?::.*)?$")
_PARAMETERS = frozenset((
    "args", "arguments", "parameters", "params", "keyword", "other", "keyword args",
    "keyword arguments", "other parameters",
))  # fmt: skip
_RETURNS = frozenset(("returns", "return", "yields"))
_SECTIONS = _PARAMETERS | _RETURNS | frozenset((
    "raises", "example", "examples", "note", "notes", "warning", "warnings", "see", "also", "see also",
    "references", "attributes", "todo",
))  # fmt: skip


@dataclass(frozen=True)
class Docstring:
    """The parts of a docstring: the prose before the sections, the parameters, and the result."""

    description: str = ""
    parameters: Mapping[str, str] = field(default_factory=dict)
    returns: str = ""


def parse_docstring(text: str | None) -> Docstring:
    """Parse a docstring in any of the three styles."""
    if not text:
        return Docstring()
    lines = inspect.cleandoc(text).splitlines()
    if any(_REST.match(line) for line in lines):
        return _rest(lines)
    if any(_is_numpy_head(lines, index) for index in range(len(lines) - 1)):
        return _numpy(lines)
    return _google(lines)


def _prose(lines: list[str]) -> str:
    """Join the lines of each paragraph; keep the paragraphs apart."""
    paragraphs = re.split(r"\n[ \t]*\n", "\n".join(lines).strip())
    return "\n\n".join(" ".join(part.split()) for part in paragraphs).strip()


def _rest(lines: list[str]) -> Docstring:
    prose: list[str] = []
    parameters: dict[str, list[str]] = {}
    returns: list[str] = []
    current: list[str] | None = None
    started = False
    for line in lines:
        match = _REST.match(line)
        if match:
            started = True
            about = (match["about"] or "").split()
            if (
                match["kind"] in {"param", "parameter", "arg", "argument", "key", "keyword"}
                and about
            ):
                # ":param int count: ..." names the type before the parameter.
                current = parameters.setdefault(about[-1].lstrip("*"), [])
                current.append(match["text"])
            elif match["kind"] in {"return", "returns"}:
                returns.append(match["text"])
                current = returns
            else:
                current = None
        elif not started:
            prose.append(line)
        elif line[:1].isspace() and current is not None:
            current.append(line)
        elif line.strip():
            current = None
    return Docstring(
        _prose(prose), {name: _prose(text) for name, text in parameters.items()}, _prose(returns)
    )


def _is_numpy_head(lines: list[str], index: int) -> bool:
    under = lines[index + 1].strip()
    return (
        lines[index].strip().lower() in _SECTIONS
        and len(under) >= 3
        and not under.strip("-=")
        and not lines[index][:1].isspace()
    )


def _numpy(lines: list[str]) -> Docstring:
    prose: list[str] = []
    sections: dict[str, list[str]] = {}
    current = prose
    index = 0
    while index < len(lines):
        if index + 1 < len(lines) and _is_numpy_head(lines, index):
            current = sections.setdefault(lines[index].strip().lower(), [])
            index += 2
            continue
        current.append(lines[index])
        index += 1
    parameters: dict[str, str] = {}
    for head in _PARAMETERS & sections.keys():
        names: list[str] = []
        about: dict[str, list[str]] = {}
        for line in sections[head]:
            match = _NUMPY_ITEM.match(line)
            if match and not line[:1].isspace():
                names = [name.strip().lstrip("*") for name in match["names"].split(",")]
                about |= {name: [] for name in names}
            elif names:
                for name in names:
                    about[name].append(line)
        parameters |= {name: _prose(text) for name, text in about.items()}
    returns = [line for head in _RETURNS & sections.keys() for line in sections[head]]
    indented = [line for line in returns if line[:1].isspace()]
    return Docstring(_prose(prose), parameters, _prose(indented or returns))


def _google(lines: list[str]) -> Docstring:
    prose: list[str] = []
    sections: dict[str, list[str]] = {}
    current = prose
    for line in lines:
        match = _GOOGLE_HEAD.match(line)
        if match and match["head"].lower() in _SECTIONS:
            current = sections.setdefault(match["head"].lower(), [])
        elif current is not prose and line.strip() and not line[:1].isspace():
            current = prose
            prose.append(line)
        else:
            current.append(line)
    parameters: dict[str, str] = {}
    for head in _PARAMETERS & sections.keys():
        parameters |= _google_items(sections[head])
    returns = [line for head in _RETURNS & sections.keys() for line in sections[head]]
    text = _prose(returns)
    # "Returns:\n    float: the sum" names the type first.
    typed = re.match(r"^[\w\[\], |.]+:[ \t]+(.*)$", text, re.DOTALL)
    return Docstring(_prose(prose), parameters, typed[1] if typed else text)


def _google_items(lines: list[str]) -> dict[str, str]:
    indents = [len(line) - len(line.lstrip()) for line in lines if line.strip()]
    margin = min(indents, default=0)
    items: dict[str, list[str]] = {}
    current: list[str] | None = None
    for line in lines:
        inner = line[margin:]
        match = _GOOGLE_ITEM.match(inner)
        if match and not inner[:1].isspace():
            current = items.setdefault(match["name"], [])
            current.append(match["text"])
        elif current is not None:
            current.append(inner)
    return {name: _prose(text) for name, text in items.items()}
