"""Whether the tables that a database has under the ledger's names are a ledger's, of this version."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from callmemaybe.errors import StoreError
from callmemaybe.gateway.store import SCHEMA_VERSION

_TABLE = re.compile(r"create table if not exists (\w+)\((.*?)\n?\)[^()\n]*;", re.DOTALL)
_COLUMN = re.compile(
    r"(?:^|,)\s*(?!primary key)(\w+) (?:text|integer|bigint|blob|bytea|real|double|timestamptz)"
)


def columns_of(tables: str) -> dict[str, frozenset[str]]:
    """Return the columns of each table that the SQL ``tables`` makes."""
    return {name: frozenset(_COLUMN.findall(body)) for name, body in _TABLE.findall(tables)}


def check_tables(
    where: str,
    found: Mapping[str, Sequence[str]],
    expected: Mapping[str, frozenset[str]],
    version: str | None,
) -> None:
    """Raise StoreError unless ``found``, the columns of the tables there are, is nothing or a whole ledger.

    ``version`` is what the table ``meta`` says, None if it says nothing. ``where`` names the database.
    """
    if not found:
        return
    if version is None:
        raise StoreError(
            f"{where}: the database of another program (its table {min(found)!r} is not a ledger's);"
            " choose another one for the ledger"
        )
    if version != str(SCHEMA_VERSION):
        raise StoreError(
            f"{where}: a ledger of version {version[:20]}, and this callmemaybe reads version"
            f" {SCHEMA_VERSION}; use the release that wrote it"
        )
    for name, columns in expected.items():
        if frozenset(found.get(name, ())) != columns:
            what = "changed" if name in found else "missing"
            raise StoreError(
                f"{where}: the ledger is damaged (its table {name!r} is {what}); restore it from a copy"
            )
