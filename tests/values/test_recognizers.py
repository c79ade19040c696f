"""How much of Microsoft's specification of recognizers is read: it may only become more."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from callmemaybe.values import Reading, read_values

SPECS = Path(__file__).parents[3] / "shared/data/recognizers/specs.jsonl.gz"
#: Right of all, by language and kind; what is left are fractions in words, formulas, far holidays and ranges.
FLOOR = {
    ("en", "number"): 59, ("en", "percent"): 7, ("en", "date"): 141, ("en", "time"): 56, ("en", "datetime"): 70,
    ("en", "duration"): 39, ("fr", "number"): 45, ("fr", "percent"): 6, ("fr", "date"): 13, ("fr", "time"): 7,
    ("fr", "datetime"): 10, ("fr", "duration"): 6,
}  # fmt: skip


def _wanted(row: dict[str, Any], found: dict[str, Any]) -> tuple[str, list[str]] | None:
    """Return the kind and the values that a result may have; None for what is no single value."""
    resolution = found.get("Resolution") or {}
    if row["kind"] in ("Number/NumberModel", "Number/PercentModel"):
        text = str(resolution.get("value", "")).rstrip("%").replace(",", ".")
        try:
            return ("percent" if "Percent" in row["kind"] else "number"), [repr(float(text))]
        except ValueError:
            return None
    kind = str(found.get("TypeName", "")).rpartition(".")[2]
    if not row["kind"].startswith("DateTime/DateTimeModel") or kind not in (
        "date",
        "time",
        "datetime",
        "duration",
    ):
        return None
    values = [
        one["value"]
        for one in resolution.get("values", ())
        if one.get("value") not in (None, "not resolved") and not one.get("Mod")
    ]
    return (kind, values) if values else None


def _is(reading: Reading, kind: str, values: list[str]) -> bool:
    if kind in ("number", "percent"):
        wanted = float(values[0])
        return reading.kind in ("number", "percent") and abs(
            float(reading.value) - wanted
        ) <= 1e-9 * max(1.0, abs(wanted))
    if reading.kind != kind:
        return False
    if kind == "duration":
        return reading.seconds is None or str(reading.seconds) in values
    text = reading.value.isoformat() if kind == "date" else f"{reading.value:%H:%M:%S}"
    return (f"{reading.value:%Y-%m-%d} {text}" if kind == "datetime" else text) in values


def test_recognizers_specification() -> None:
    """At least as many results are read as were once."""
    if not SPECS.is_file():
        pytest.skip("the specification is not beside this clone")
    right: Counter[tuple[str, str]] = Counter()
    for line in gzip.decompress(SPECS.read_bytes()).splitlines():
        row = json.loads(line)
        if "dotnet" in str(row.get("not_supported")):
            continue  # unchecked translations
        language = {"English": "en", "French": "fr"}[row["language"]]
        said = (row.get("context") or {}).get("ReferenceDateTime", "2026-11-23T10:00:00")
        readings = read_values(row["text"], datetime.fromisoformat(said), language)
        for found in row["results"]:
            wanted = _wanted(row, found)
            if wanted is not None:
                right[language, wanted[0]] += any(_is(one, *wanted) for one in readings)
    assert {key: right[key] for key in FLOOR if right[key] < FLOOR[key]} == {}
