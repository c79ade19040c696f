"""The embedded model is the one its manifest describes, and small enough to ship."""

from __future__ import annotations

import hashlib
import json
import zipfile
from importlib.resources import files
from pathlib import Path

FOLDER = Path(str(files("callmemaybe"))) / "data/nano"
MOST = 16_000_000  # bytes that the embedded model may take of a wheel


def test_its_files_are_those_of_the_manifest() -> None:
    """Every file but the manifest is listed, with the size and the hash it has."""
    listed = json.loads((FOLDER / "manifest.json").read_text("utf-8"))["files"]
    found = {
        path.relative_to(FOLDER).as_posix(): {
            "sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
            "bytes": path.stat().st_size,
        }
        for path in FOLDER.rglob("*")
        if path.is_file() and path.name != "manifest.json"
    }
    assert found == listed


def test_it_takes_at_most_sixteen_megabytes_of_a_wheel(tmp_path: Path) -> None:
    """A wheel is a ZIP archive; so much of it is the model."""
    archive = tmp_path / "nano.zip"
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as wheel:
        for path in sorted(FOLDER.iterdir()):
            wheel.write(path, path.name)
    assert archive.stat().st_size <= MOST


def test_its_card_says_what_it_must() -> None:
    """Data, licences, scores and weaknesses."""
    card = (FOLDER / "MODEL_CARD.md").read_text("utf-8")
    for part in ("## Scores", "## Training", "## Data and licences", "## What it is bad at"):
        assert part in card
    for licence in ("CC BY-SA 4.0", "WordNet"):
        assert licence in card
