"""Documents in JSON or YAML: their value, and the place in the text of any part of it."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from callmemaybe.errors import InputError
from callmemaybe.jsonio import loads, read, split_pointer
from callmemaybe.jsonio.reader import MAX_DEPTH

if TYPE_CHECKING:
    import yaml

_YAML_NAMES = (".yaml", ".yml")
#: What aliases (``*name``) may make of a document in YAML, in values.
_MAX_VALUES = 5_000_000


@dataclass(frozen=True)
class SourceDocument:
    """The value of a document, and where its parts stand."""

    value: Any
    source: str
    place_of: Callable[[str], str]
    """JSON pointer -> ``file:line:column (pointer)``; reads the text again, so it is for errors only."""

    def place(self, pointer: str = "") -> str:
        """Return the place of the value at a JSON pointer, for messages."""
        return self.place_of("" if pointer == "/" else pointer)

    def error(self, error: InputError, pointer: str = "") -> InputError:
        """Return an error with its JSON pointer, after ``pointer``, turned into a place of the document."""
        return InputError(
            error.message, where=self.place(pointer + (error.where or "")), hint=error.hint
        )


def read_document(text: str, source: str) -> SourceDocument:
    """Read a text as JSON, or as YAML where it is called so or cannot be JSON.

    Raises InputError with file, line and column, also for a key that comes twice.
    """
    name = source.partition("?")[0].lower()
    if name.endswith(_YAML_NAMES) or (
        not name.endswith(".json") and text.lstrip("\ufeff \t\r\n")[:1] not in {"{", "["}
    ):
        return _read_yaml(text, source)
    try:
        # The C decoder; for the place of a mistake the text is read again, with all places.
        value = loads(text, strict=True, max_depth=MAX_DEPTH)
    except InputError:
        read(text, source=source)
        raise
    return SourceDocument(value, source, lambda pointer: read(text, source=source).place(pointer))


def _read_yaml(text: str, source: str) -> SourceDocument:
    import yaml

    loader = _yaml_loader()
    try:
        value = yaml.load(text, Loader=loader)  # noqa: S506 - a safe loader, with the values of JSON
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        where = f"{source}:{mark.line + 1}:{mark.column + 1}" if mark else source
        what = error.problem or error.context or str(error)
        raise InputError(f"not valid YAML: {what}", where=where) from None
    except yaml.YAMLError as error:
        raise InputError(f"not valid YAML: {error}", where=source) from None
    except RecursionError:
        raise InputError("nests too deep", where=source) from None
    _check_size(value, source)

    def place(pointer: str) -> str:
        node: Any = yaml.compose(text, Loader=loader)
        if node is None:  # nothing but comments
            return source
        for key in split_pointer(pointer):
            node = _child(node, key) or node
        mark = node.start_mark
        where = f"{source}:{mark.line + 1}:{mark.column + 1}"
        return f"{where} ({pointer})" if pointer else where

    return SourceDocument(value, source, place)


def _child(node: Any, key: str) -> Any:
    import yaml

    if isinstance(node, yaml.MappingNode):
        return next((value for name, value in node.value if name.value == key), None)
    if isinstance(node, yaml.SequenceNode) and key.isdecimal() and int(key) < len(node.value):
        return node.value[int(key)]
    return None


def _check_size(value: Any, source: str) -> None:
    """Raise InputError for a document whose aliases make it endless, or far larger than its text."""
    count, stack = 0, [value]
    while stack:
        part = stack.pop()
        count += 1
        if count > _MAX_VALUES:
            raise InputError("its aliases make too much of it", where=source)
        if isinstance(part, dict):
            stack += part.values()
        elif isinstance(part, list):
            stack += part


def _yaml_loader() -> type[yaml.SafeLoader]:
    """Return a loader of YAML whose values are those of JSON: YAML 1.2's core schema, text keys, no key twice."""
    import re

    import yaml

    base: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

    class JsonValuesLoader(base):  # type: ignore[misc]
        yaml_implicit_resolvers: dict[str, list[Any]] = {}  # noqa: RUF012 - as in PyYAML

    def construct_mapping(loader: Any, node: Any) -> Any:
        found: dict[Hashable, Any] = {}
        yield found
        merged: list[Any] = []
        for key_node, value_node in node.value:
            if key_node.value == "<<" and not isinstance(value_node, yaml.ScalarNode):
                merged.append(loader.construct_object(value_node, deep=True))
                continue
            # The keys of a mapping of status codes are numbers, and in JSON texts.
            key = key_node.value
            if not isinstance(key, str):
                raise yaml.constructor.ConstructorError(
                    None, None, "a key must be a text", key_node.start_mark
                )
            if key in found:
                raise yaml.constructor.ConstructorError(
                    None, None, f"the key {key!r} comes twice", key_node.start_mark
                )
            found[key] = loader.construct_object(value_node, deep=True)
        for one in merged:
            for part in one if isinstance(one, list) else [one]:
                found |= {name: value for name, value in part.items() if name not in found}

    for tag, pattern, first in (
        ("bool", r"true|True|TRUE|false|False|FALSE", "tTfF"),
        ("null", r"~|null|Null|NULL|", "~nN\0"),
        ("int", r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+", "-+0123456789"),
        ("float", r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?", "-+.0123456789"),
    ):
        JsonValuesLoader.add_implicit_resolver(
            f"tag:yaml.org,2002:{tag}", re.compile(rf"(?:{pattern})\Z"), list(first)
        )
    JsonValuesLoader.add_implicit_resolver("tag:yaml.org,2002:null", re.compile(r"\Z"), [""])
    JsonValuesLoader.add_constructor("tag:yaml.org,2002:map", construct_mapping)
    JsonValuesLoader.add_constructor("tag:yaml.org,2002:int", _yaml_int)
    JsonValuesLoader.add_constructor(
        "tag:yaml.org,2002:float", lambda loader, node: float(loader.construct_scalar(node))
    )
    return JsonValuesLoader


def _yaml_int(loader: Any, node: Any) -> int:
    text = loader.construct_scalar(node)
    base = {"0o": 8, "0x": 16}.get(text[:2], 10)
    return int(text[2:] if base != 10 else text, base)
