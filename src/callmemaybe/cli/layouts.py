"""How results are written: what ``--format`` names, and the text of each form that holds all results.

JSON lines are appended one by one instead (``lines``).
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from pathlib import Path

from callmemaybe.cli.process import printable
from callmemaybe.cli.results import ResultRecord, array_text


class ResultLayout(StrEnum):
    """The forms of a file of results."""

    JSON = "json"
    JSONL = "jsonl"
    CSV = "csv"
    TABLE = "table"

    @classmethod
    def of(cls, path: Path) -> ResultLayout:
        """Return the layout that the ending of a file means; JSON for any other."""
        endings = {".jsonl": cls.JSONL, ".ndjson": cls.JSONL, ".csv": cls.CSV}
        return endings.get(path.suffix.lower(), cls.JSON)


def csv_text(records: Sequence[ResultRecord]) -> str:
    """Return a line for each result, after one with the names of the columns; parameters are JSON."""
    file = io.StringIO()
    writer = csv.writer(file)
    writer.writerow(("prompt", "name", "parameters", "error"))
    for one in records:
        writer.writerow((one.prompt, one.name or "", one.parameters, one.failure or ""))
    return file.getvalue()


def table_text(records: Sequence[ResultRecord]) -> str:
    """Return aligned columns for people, each result on one line."""
    rows = [("prompt", "name", "parameters")]
    rows += [(one.prompt, one.name or "", one.failure or one.parameters) for one in records]
    shown = [tuple(printable(cell) for cell in row) for row in rows]
    first, second = (max(len(row[at]) for row in shown) for at in (0, 1))
    return "".join(f"{a:<{first}}  {b:<{second}}  {c}\n" for a, b, c in shown)


#: The text of all results, by layout.
TEXTS: Mapping[ResultLayout, Callable[[Sequence[ResultRecord]], str]] = {
    ResultLayout.JSON: array_text,
    ResultLayout.CSV: csv_text,
    ResultLayout.TABLE: table_text,
}
