"""The table of kinds of sources: what a source looks like, and what reads it.

:data:`KINDS` is asked in order, by the text that names the source; documents are then told apart by their content
(:data:`DOCUMENTS`). To add a kind, add a row.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from callmemaybe.errors import InputError
from callmemaybe.sources.definitions import LIST_KEYS, is_definition, read_definitions
from callmemaybe.sources.documents import SourceDocument, read_document
from callmemaybe.sources.source import LoadedSource, LoadOptions
from callmemaybe.sources.texts import fetch_text, is_file, is_standard, read_text, source_name

_MODULE = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*")


class SourceKind(NamedTuple):
    """A kind of source: how it is written, what it is, which texts name it, and what reads it."""

    form: str
    what: str
    names: Callable[[str], bool]
    read: Callable[[str, LoadOptions], LoadedSource]


class DocumentKind(NamedTuple):
    """A kind of document: what it is, which contents are one, and what reads it; ``entry`` is after the ``#``."""

    what: str
    fits: Callable[[Any], bool]
    read: Callable[[SourceDocument, str, LoadOptions], LoadedSource]


def read_source(source: str | Path, options: LoadOptions) -> LoadedSource:
    """Return what a source holds. Raises InputError naming it."""
    text = str(source).strip()
    if not text:
        raise InputError("no source is named", where="tools", hint=_forms())
    for kind in KINDS:
        if kind.names(text):
            return kind.read(text, options)
    raise InputError("there is no such file", where=text, hint=_forms())


def _forms() -> str:
    return f"a source is one of {', '.join(kind.form for kind in KINDS)}"


# --- what is named by its text ------------------------------------------------------------------------


def _is_mcp_address(text: str) -> bool:
    return text.startswith(("mcp+https://", "mcp+http://"))


def _read_mcp_command(text: str, options: LoadOptions) -> LoadedSource:
    from callmemaybe.sources.mcp_servers import read_command

    return read_command(text, options)


def _read_mcp_address(text: str, options: LoadOptions) -> LoadedSource:
    from callmemaybe.sources.mcp_servers import read_address

    return read_address(text, options)


def _read_python_file(text: str, options: LoadOptions) -> LoadedSource:
    from callmemaybe.sources.python_code import read_python_file

    return read_python_file(Path(text), options.names)


def _read_python_module(text: str, options: LoadOptions) -> LoadedSource:
    from callmemaybe.sources.python_code import read_python_module

    return read_python_module(text, options.names)


def _read_address(text: str, options: LoadOptions) -> LoadedSource:
    address, _, entry = text.partition("#")
    document = read_document(fetch_text(address, allow_private=options.allow_private), address)
    return _read_content(document, entry, options)


def _read_file(text: str, options: LoadOptions) -> LoadedSource:
    path, entry = _path(text)
    return _read_content(read_document(read_text(path), source_name(path)), entry, options)


def _is_path(text: str) -> bool:
    path, _ = _path(text)
    # A name that looks like one of a file is one, so that a missing file is reported as such.
    return is_standard(path) or "/" in text or "\\" in text or bool(path.suffix) or path.exists()


def _path(text: str) -> tuple[Path, str]:
    """Split a text into the path of a file and the entry after ``#``; a file may have one in its name."""
    whole = Path(text)
    if "#" not in text or is_file(whole):
        return whole, ""
    path, _, entry = text.rpartition("#")
    return Path(path), entry


KINDS: Sequence[SourceKind] = (
    SourceKind(
        "mcp:COMMAND", "an MCP server, started by a command",
        lambda text: text.startswith("mcp:"), _read_mcp_command,
    ),
    SourceKind("mcp+https://...", "an MCP server at an address", _is_mcp_address, _read_mcp_address),
    SourceKind(
        "https://...", "a document at an address",
        lambda text: text.startswith(("https://", "http://")), _read_address,
    ),
    SourceKind(
        "FILE.py", "a Python file, which is imported",
        lambda text: text.endswith(".py") and not is_standard(Path(text)), _read_python_file,
    ),
    SourceKind(
        "package.module", "a Python module",
        lambda text: bool(_MODULE.fullmatch(text)) and not Path(text).exists()
        and not text.endswith((".json", ".yaml", ".yml")),
        _read_python_module,
    ),
    SourceKind("FILE.json", "a document in JSON or YAML", _is_path, _read_file),
)  # fmt: skip


# --- what is named by its content ---------------------------------------------------------------------


def _read_openapi(document: SourceDocument, entry: str, options: LoadOptions) -> LoadedSource:
    from callmemaybe.sources.openapi_documents import read_openapi

    _no_entry(document, entry)
    return read_openapi(document, options)


def _read_mcp_settings(document: SourceDocument, entry: str, options: LoadOptions) -> LoadedSource:
    from callmemaybe.sources.mcp_servers import read_settings

    return read_settings(document, entry, options)


def _read_functions(document: SourceDocument, entry: str, options: LoadOptions) -> LoadedSource:
    _no_entry(document, entry)
    return LoadedSource(
        [tool for tool in read_definitions(document) if options.names.wants(tool.name)]
    )


def _no_entry(document: SourceDocument, entry: str) -> None:
    if entry:
        raise InputError(
            f"it has no entry {entry!r}: only the servers of an mcp.json have names",
            where=document.source, hint="--only chooses tools",
        )  # fmt: skip


def _has(*keys: str) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, dict) and any(key in value for key in keys)


def _are_functions(value: Any) -> bool:
    return isinstance(value, list) or (
        isinstance(value, dict)
        and (is_definition(value) or any(isinstance(value.get(key), list) for key in LIST_KEYS))
    )


DOCUMENTS: Sequence[DocumentKind] = (
    DocumentKind("an OpenAPI document", _has("openapi", "swagger"), _read_openapi),
    DocumentKind("the settings of MCP servers", _has("mcpServers", "servers"), _read_mcp_settings),
    DocumentKind("definitions of functions", _are_functions, _read_functions),
)


def _read_content(document: SourceDocument, entry: str, options: LoadOptions) -> LoadedSource:
    for kind in DOCUMENTS:
        if kind.fits(document.value):
            return kind.read(document, entry, options)
    return _read_functions(document, entry, options)  # which says what is expected
