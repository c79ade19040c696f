"""Word associations, written for this project: a word, and words that a person who means it may use instead.

    umbrella: rain wet weather cover shower storm

WordNet defines things; people describe what they see ("pitch dark" for a lamp that is off). From the lines of
`sources/associations/*.txt` come word vectors (`association_vectors.py`) and made-up functions
(`generators/association_tasks.py`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

FOLDER = Path(__file__).parent / "sources" / "associations"
LINE = re.compile(r"[a-z]+:( [a-z]+)+")

Line = tuple[str, list[str]]


def read(folder: Path = FOLDER) -> Iterator[Line]:
    """Yield a word and its associations, line by line; raises ValueError with file and line for a mistake."""
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
