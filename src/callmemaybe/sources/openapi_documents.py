"""OpenAPI documents as sources: each operation that can be expressed is a tool, the others are listed."""

from __future__ import annotations

from callmemaybe.errors import InputError
from callmemaybe.sources.definitions import check_expressible
from callmemaybe.sources.documents import SourceDocument
from callmemaybe.sources.source import LoadedSource, LoadOptions, SkippedTool


def read_openapi(document: SourceDocument, options: LoadOptions) -> LoadedSource:
    """Return the operations of a document as tools.

    Raises InputError for a document that is none of OpenAPI 3.
    """
    from callmemaybe.gateway.http import HttpTransport
    from callmemaybe.jsonio import map_decimals
    from callmemaybe.tools.openapi import SkippedOperation, tools_from_openapi

    allow = options.allow_private
    transport = HttpTransport(
        schemes=frozenset({"https", "http"} if allow else {"https"}), private=allow
    )
    left_out: list[SkippedOperation] = []
    try:
        value = map_decimals(document.value, float)  # definitions are hashed, without Decimals
    except RecursionError:
        raise document.error(InputError("it nests too deep")) from None
    try:
        found = tools_from_openapi(
            value, transport, wanted=options.names.wants,
            skipped=left_out, base_url=options.base_url, source=document.source,
        )  # fmt: skip
    except InputError as error:
        raise document.error(error) from None
    skipped = [SkippedTool(one.name, document.source, str(one.error)) for one in left_out]
    tools = []
    for tool in found:
        try:
            check_expressible(tool.spec)
        except InputError as error:
            skipped.append(SkippedTool(tool.name, document.source, str(error)))
        else:
            tools.append(tool)
    return LoadedSource(tools, skipped)
