"""What a description says the values of a parameter stand for.

Descriptions explain codes and switches in passing: "Class: m (motorbike), v (van)", "0 = off, 1 = on", "true to
forbid changes, false to allow them". A model that fills in a form sees such words best where the value stands.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

MAX_GLOSS_LENGTH = 40  # characters of what one value stands for; of more, the first words
MAX_READ_LENGTH = (
    1_000  # characters of a description that are looked at: what comes behind is no legend
)
MAX_VALUES = 12  # values that a description may list

_QUOTE = "[\"'`\u2018\u2019\u201c\u201d]?"
_IS = r"\s*(?:=|:|\(|->|\u2192|[-\u2013\u2014](?=\s)|(?:means|stands for|for)\b)\s*"
_END = re.compile(r"[.;!?](?=\s|$)|\n")
_EDGES = " \t,;:.!()\"'`\u2018\u2019\u201c\u201d-"
_JOINTS = re.compile(
    r"(?:^(?:and|but|or|if|when|to mean|means|for|otherwise)\s+)|(?:[\s,;]+(?:and|or)$)"
)
_SWITCH = re.compile(r"(?<![\w-])(true|false)(?![\w-])", re.IGNORECASE)
_POLE = r"(?:\b(?:if|when)\s+|\(\s*)(true|false)\b\s*\)?"
_BEHIND = re.compile(rf"\s*{_POLE}[\s,;]*(?:(?:or|and|otherwise)\b[\s,;]*)?", re.IGNORECASE)
_OTHER = re.compile(rf"[.:;,]|{_POLE}", re.IGNORECASE)
_CLAUSE = re.compile(r"[.:;]|\s-\s")

# A list must be split in one way only: with two at each joint, one that ends otherwise would take 2^n tries. So
# an "or" behind a comma is always part of the joint, unless another joint follows it ("XOR, AND or OR").
_BETWEEN = (
    r"\s*(?:\([^()]{0,40}\)\s*)?"
    r"(?:,\s*(?:(?:or|and)\s+(?![(,/|]|(?-i:or|and)\s))?+|[/|]\s*|\b(?:or|and)\s+)"
)
_JOINED = re.compile(r"[,/|]|\b(?:or|and)\b", re.IGNORECASE)
_QUOTED = r"(?:\"[^\"]{1,30}\"|'[^']{1,30}'|`[^`]{1,30}`|\u2018[^\u2019]{1,30}\u2019|\u201c[^\u201d]{1,30}\u201d)"
_BARE = r"[^\W_](?:[\w+-]|\.(?=\w)){0,29}"
_LEAD = r"\b(?:one of|options?|choices|values?|either|(?:can|must|may) be|choose (?:from|between))"
_LISTS = re.compile(
    rf"(?P<quoted>{_QUOTED}(?:{_BETWEEN}{_QUOTED})+)"
    rf"|{_LEAD}(?:\s+(?:are|is|one of|either))?\s*:?\s+(?P<bare>{_BARE}(?:{_BETWEEN}{_BARE})+)(?=\s*(?:[.;()]|$))"
    rf"|\((?P<inside>{_BARE}(?:(?:,|\s+or)\s+{_BARE})*\s+or\s+{_BARE})\)"
    rf"|(?P<piped>{_BARE}(?:\s\|\s{_BARE})+)(?!\s*[\w|])",
    re.IGNORECASE,
)
_EXAMPLE = re.compile(
    r"(?:\be\.g\.|\bi\.e\.|\blike|\bsuch as|\bexamples?|\bfor instance)[\s:,(]*$", re.IGNORECASE
)
_GLOSS = re.compile(r"\([^()]*\)")


def enum_glosses(values: Sequence[str], about: str) -> list[str]:
    """Find what a description says of each of some values, "" for nothing.

    A word or a sign must join a value and what it stands for, and two values have to be explained at least:
    "Celsius or Fahrenheit" explains none.

    >>> meanings(["m", "v"], "Class: m (motorbike), v (van)")
    ['motorbike', 'van']
    """
    about = about[:MAX_READ_LENGTH]
    there = {value for value in values if value and value in about}
    if len(there) < 2:
        return [""] * len(values)
    written = "|".join(re.escape(value) for value in sorted(there, key=len, reverse=True))
    begins = list(re.finditer(rf"(?<!\w){_QUOTE}({written}){_QUOTE}(?:{_IS})", about))
    found: dict[str, str] = {}
    for at, match in enumerate(begins):
        until = begins[at + 1].start() if at + 1 < len(begins) else len(about)
        said = about[match.end() : until]
        closed = said.find(")") if match[0].rstrip().endswith("(") else -1
        if words := _brief(said[:closed] if closed >= 0 else said):
            found.setdefault(match[1], words)
    if len(found) < 2:
        return [""] * len(values)
    found = {value: words for value, words in found.items() if words.lower() != value.lower()}
    return [found.get(value, "") for value in values]


def boolean_glosses(about: str) -> tuple[str, str] | None:
    """Find what a description says that true and false of a switch stand for; None unless it says both.

    >>> poles("true to forbid changes, false to allow them")
    ('to forbid changes', 'to allow them')
    """
    about = about[:MAX_READ_LENGTH]
    if not _SWITCH.search(about):
        return None  # most descriptions, in a catalogue of ten thousand tools
    for sides in (_behind(about), _before(about)):
        if sides and all(sides) and sides[0] != sides[1] and not any(map(_SWITCH.search, sides)):
            return sides
    return None


def listed_values(about: str) -> list[str]:
    """Find the values that the description of a string lists; none if it lists no two, or only examples.

    >>> options("The unit. Options: 'celsius' (metric), 'fahrenheit'. Defaults to 'celsius'.")
    ['celsius', 'fahrenheit']
    """
    about = about[:MAX_READ_LENGTH]
    if not _JOINED.search(about):
        return []
    for match in _LISTS.finditer(about):
        if _EXAMPLE.search(about[: match.start()]):
            continue
        text = _GLOSS.sub("", match[match.lastgroup or 0])
        part = _QUOTED if match["quoted"] else _BARE
        found = [each.strip("\"'`\u2018\u2019\u201c\u201d. ") for each in re.findall(part, text)]
        found = [each for each in dict.fromkeys(found) if each and each not in ("or", "and")]
        if 2 <= len(found) <= MAX_VALUES:
            return found
    return []


def _behind(about: str) -> tuple[str, str] | None:
    """Of "PE if true, SE if false", "PE (true) or SE (false)", "PE when true, otherwise SE"."""
    match = _BEHIND.search(about)
    if not match:
        return None
    one = _brief(_CLAUSE.split(about[: match.start()])[-1])
    other = _brief(_OTHER.split(about[match.end() :], maxsplit=1)[0])
    return (one, other) if match[1].lower() == "true" else (other, one)


def _before(about: str) -> tuple[str, str] | None:
    """Of "true: PE, false: SE" in all its spellings."""
    said: dict[str, str] = {}
    for value, words in _pieces(about):
        said.setdefault(value, words)
    return (said["true"], said["false"]) if said.keys() == {"true", "false"} else None


def _pieces(about: str) -> Iterator[tuple[str, str]]:
    """Each true and false that something is said behind."""
    marks = list(_SWITCH.finditer(about))
    for at, match in enumerate(marks):
        until = marks[at + 1].start() if at + 1 < len(marks) else len(about)
        said = re.sub(rf"^{_QUOTE}(?:{_IS})?", "", about[match.end() : until])
        if words := _brief(said):
            yield match[1].lower(), words


def _brief(said: str) -> str:
    """Keep the first clause, without what joins it to the next, cut between words."""
    said = said.lstrip(_EDGES)
    end = _END.search(said)
    said = (said[: end.start()] if end else said).strip(_EDGES)
    while (bare := _JOINTS.sub("", said).strip(_EDGES)) != said:
        said = bare
    if len(said) <= MAX_GLOSS_LENGTH:
        return said
    return said[: MAX_GLOSS_LENGTH + 1].rpartition(" ")[0].strip(_EDGES)
