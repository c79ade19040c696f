"""Glosses: what a parameter's description says that its values mean.

Descriptions explain codes and switches in passing: "Class: m (motorbike), v (van)", "0 = off, 1 = on",
"true to forbid changes, false to allow them". A small model uses such words best where they stand
beside the value. They are found by punctuation and a few English words; what is not found is not shown.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

MAX_GLOSS_LENGTH = 40  # characters of one gloss; of a longer one, the first words
MAX_READ_LENGTH = 1_000  # characters of a description that are searched
MAX_VALUES = 12  # the most values that a description may list

_QUOTE = "[\"'`\u2018\u2019\u201c\u201d]?"
_IS = r"\s*(?:=|:|\(|->|\u2192|[-\u2013\u2014](?=\s)|(?:means|stands for|for)\b)\s*"
_END = re.compile(r"[.;!?](?=\s|$)|\n")
_EDGES = " \t,;:.!()\"'`\u2018\u2019\u201c\u201d-"
_JOINTS = re.compile(
    r"(?:^(?:and|but|or|if|when|to mean|means|for|otherwise)\s+)|(?:[\s,;]+(?:and|or)$)"
)
_SWITCH = re.compile(r"(?<![\w-])(true|false)(?![\w-])", re.IGNORECASE)
_CONDITION = r"(?:\b(?:if|when)\s+|\(\s*)(true|false)\b\s*\)?"
_CONDITION_END = re.compile(
    rf"\s*{_CONDITION}[\s,;]*(?:(?:or|and|otherwise)\b[\s,;]*)?", re.IGNORECASE
)
_OTHER = re.compile(rf"[.:;,]|{_CONDITION}", re.IGNORECASE)
_CLAUSE = re.compile(r"[.:;]|\s-\s")

# A list must be split in one way only: with two ways at each joint, a regular expression that fails at the end
# would try 2^n of them. So an "or" behind a comma always belongs to the joint, unless another joint follows it
# ("XOR, AND or OR").
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
    """Return the gloss of each value in a description, "" for none.

    A word or a sign must join a value and its gloss, and at least two values must have one: "Celsius or
    Fahrenheit" explains none.

    >>> enum_glosses(["m", "v"], "Class: m (motorbike), v (van)")
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
        text = about[match.end() : until]
        closed = text.find(")") if match[0].rstrip().endswith("(") else -1
        if gloss := _first_clause(text[:closed] if closed >= 0 else text):
            found.setdefault(match[1], gloss)
    if len(found) < 2:
        return [""] * len(values)
    found = {value: gloss for value, gloss in found.items() if gloss.lower() != value.lower()}
    return [found.get(value, "") for value in values]


def boolean_glosses(about: str) -> tuple[str, str] | None:
    """Return the glosses of true and of false in a description; None unless it has both.

    >>> boolean_glosses("true to forbid changes, false to allow them")
    ('to forbid changes', 'to allow them')
    """
    about = about[:MAX_READ_LENGTH]
    if not _SWITCH.search(about):
        return None  # most descriptions; there may be ten thousand tools
    for sides in (_before_values(about), _after_values(about)):
        if sides and all(sides) and sides[0] != sides[1] and not any(map(_SWITCH.search, sides)):
            return sides
    return None


def listed_values(about: str) -> list[str]:
    """Return the values that the description of a string lists; none for fewer than two, or examples.

    >>> listed_values("The unit. Options: 'celsius' (metric), 'fahrenheit'. Defaults to 'celsius'.")
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


def _before_values(about: str) -> tuple[str, str] | None:
    """Return the glosses in front of true and false: "PE if true, SE if false", "PE (true) or SE (false)"."""
    match = _CONDITION_END.search(about)
    if not match:
        return None
    one = _first_clause(_CLAUSE.split(about[: match.start()])[-1])
    other = _first_clause(_OTHER.split(about[match.end() :], maxsplit=1)[0])
    return (one, other) if match[1].lower() == "true" else (other, one)


def _after_values(about: str) -> tuple[str, str] | None:
    """Return the glosses behind true and false: "true: PE, false: SE"."""
    glosses: dict[str, str] = {}
    marks = list(_SWITCH.finditer(about))
    for at, match in enumerate(marks):
        until = marks[at + 1].start() if at + 1 < len(marks) else len(about)
        text = re.sub(rf"^{_QUOTE}(?:{_IS})?", "", about[match.end() : until])
        if gloss := _first_clause(text):
            glosses.setdefault(match[1].lower(), gloss)
    return (glosses["true"], glosses["false"]) if len(glosses) == 2 else None


def _first_clause(text: str) -> str:
    """Return the first clause, without what joins it to the next, cut between words."""
    text = text.lstrip(_EDGES)
    end = _END.search(text)
    text = (text[: end.start()] if end else text).strip(_EDGES)
    while (bare := _JOINTS.sub("", text).strip(_EDGES)) != text:
        text = bare
    if len(text) <= MAX_GLOSS_LENGTH:
        return text
    return text[: MAX_GLOSS_LENGTH + 1].rpartition(" ")[0].strip(_EDGES)
