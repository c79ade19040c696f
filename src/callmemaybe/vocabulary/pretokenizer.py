"""Pre-tokenization of ASCII text: splits it into words with Python's ``re``, as a tokenizer does.

``tokenizers`` splits with Oniguruma's Unicode classes, which Python's ``re`` does not have. Within
ASCII these classes are a few letters and digits, so the same expressions can be written for ``re``,
which is ten times as fast. Expressions that cannot be translated exactly are left to the library.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

Splitter = Callable[[str], list[str]]

#: The expression of a ByteLevel pre-tokenizer with ``use_regex``: GPT-2's.
GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"

#: The ASCII characters of each class, as written between brackets.
_CLASSES: Mapping[str, str] = {
    r"\p{L}": "A-Za-z", r"\p{Lu}": "A-Z", r"\p{Ll}": "a-z", r"\p{Lt}": "", r"\p{Lm}": "",
    r"\p{Lo}": "", r"\p{M}": "", r"\p{N}": "0-9", r"\p{Nd}": "0-9", r"\d": "0-9",
    r"\s": r"\t\n\x0b\x0c\r ", r"\r": r"\r", r"\n": r"\n", r"\t": r"\t",
}  # fmt: skip
_SPACE = _CLASSES[r"\s"]
#: One piece of an expression: a class, a set of characters, a group, a quantifier, a character.
_PIECE = re.compile(
    r"(?P<klass>\\p\{\w+\}|\\[dsrnt])|(?P<solid>\\S)|(?P<set>\[(?:\\.(?:\{\w+\})?|[^\\\[\]])+\])"
    r"|(?P<group>\(\?(?:i:|:|!|=)|\))|(?P<times>[*+?]\+?|\{\d+(?:,\d*)?\})|(?P<other>[^\\\[(){}^$.])",
    re.DOTALL,
)
_MEMBER = re.compile(r"\\p\{\w+\}|\\[dsrnt]|\\[^\w\s]|-|[^\\\[\]&~|-]", re.DOTALL)


def ascii_splitter(parts: Sequence[Mapping[str, Any]]) -> Splitter | None:
    """Return a function that splits ASCII text as these pre-tokenizers do in turn; None if unknown.

    ``parts`` are the pre-tokenizers of a ``tokenizer.json``, with sequences flattened.
    """
    splits: list[Splitter] = []
    for part in parts:
        kind, split = part.get("type"), None
        if kind == "Split" and part.get("behavior") == "Isolated" and not part.get("invert"):
            split = _isolated(part.get("pattern", {}).get("Regex"))
        elif kind == "Digits" and part.get("individual_digits"):
            split = _isolated(r"\p{N}")
        elif kind == "ByteLevel" and not part.get("add_prefix_space"):
            if not part.get("use_regex", True):
                continue
            split = _isolated(GPT2)
        if split is None:
            return None
        splits.append(split)
    if len(splits) == 1:
        return splits[0]
    return lambda text: _in_turn(splits, text)


def _in_turn(splits: Sequence[Splitter], text: str) -> list[str]:
    words = [text] if text else []
    for split in splits:
        words = [smaller for word in words for smaller in split(word)]
    return words


def _isolated(pattern: str | None) -> Splitter | None:
    """Return a splitter whose words are the matches and the texts between matches."""
    translated = None if pattern is None else translate(pattern)
    if translated is None:
        return None
    try:
        matches = re.compile(translated, re.DOTALL)
        # The second alternative matches the text up to the next match.
        words: Splitter = re.compile(f"{translated}|(?:(?!{translated}).)+", re.DOTALL).findall
    except re.error:
        return None
    # An expression with an empty match would split differently.
    starts = map(matches.match, ["", *map(chr, range(128))])
    return words if all(start is None or start.end() for start in starts) else None


def translate(pattern: str) -> str | None:
    """Return an expression of ``re`` that matches in ASCII text what ``pattern`` does, if known.

    It has no group that captures.
    """
    found: list[str] = []
    at, was_times = 0, True
    while at < len(pattern):
        piece = _PIECE.match(pattern, at)
        if piece is None or (piece["times"] and was_times):
            return None  # a second quantifier means something else in re
        was_times = bool(piece["times"])
        at, text = piece.end(), piece[0]
        if piece["klass"]:
            inner = _CLASSES.get(text)
            found.append(text if inner is None else f"[{inner}]" if inner else "(?!)")
            if inner is None:
                return None
        elif piece["solid"]:
            found.append(f"[^{_SPACE}]")
        elif piece["set"]:
            members = _members(text)
            if members is None:
                return None
            found.append(members)
        else:
            found.append(text)
    return f"(?:{''.join(found)})"


def _members(text: str) -> str | None:
    """Translate a set of characters in brackets."""
    inner = text[1:-1]
    negated = inner.startswith("^")
    inner = inner[negated:]
    found, at = "", 0
    while at < len(inner):
        member = _MEMBER.match(inner, at)
        if member is None:
            return None
        at, one = member.end(), member[0]
        if one.startswith("\\") and (one in _CLASSES or one[1].isalpha()):
            if one not in _CLASSES:
                return None
            found += _CLASSES[one]
        else:
            found += one if one == "-" or one.startswith("\\") else re.escape(one)
    if not found:
        return "." if negated else "(?!)"
    return f"[{'^' * negated}{found}]"
