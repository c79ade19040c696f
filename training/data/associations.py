"""What words bring to mind, written for this project: one word and what a person who means it may say instead.

    umbrella: rain wet weather cover shower storm

WordNet says what a thing is; people say what they see of it ("pitch dark" for a lamp that is off). The
lines of `sources/associations/*.txt` give words vectors (`nearness.py`) and riddles (`riddles.py`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

FOLDER = Path(__file__).parent / "sources" / "associations"
LINE = re.compile(r"[a-z]+:( [a-z]+)+")

Line = tuple[str, list[str]]


def read(folder: Path = FOLDER) -> Iterator[Line]:
    """Yield a word and its associations, line by line; what is wrong with a line is said with its number."""
    for file in sorted(folder.glob("*.txt")):
        for number, line in enumerate(file.read_text("utf-8").splitlines(), 1):
            head, _, rest = line.partition(":")
            words = rest.split()
            if not LINE.fullmatch(line):
                raise ValueError(
                    f"{file.name}:{number}: not `word: word word ...` in small letters"
                )
            if head in words or len(set(words)) < len(words):
                raise ValueError(
                    f"{file.name}:{number}: {head} brings a word to mind twice, or itself"
                )
            yield head, words
