"""Write src/callmemaybe/grammar/idna.py, what may stand in a name in Unicode, from the `idna` package.

    python tools/idna_table.py

The package carries what RFC 5892 makes of the Unicode Character Database (which code points are valid,
how letters join); categories, directions, combining classes and normal forms are Python's own, so the
table goes as far as the Unicode of the Python that writes it: what is valid there is valid in all later
versions too.
"""

# ruff: noqa: INP001 - a script, not a package

from __future__ import annotations

import textwrap
import unicodedata
from collections import defaultdict
from pathlib import Path

from idna import idnadata
from idna.intranges import intranges_contain
from ranges import runs

TARGET = Path(__file__).parents[1] / "src" / "callmemaybe" / "grammar" / "idna.py"
SCRIPTS = {
    "Greek": "greek",
    "Hebrew": "hebrew",
    "Hiragana": "kana",
    "Katakana": "kana",
    "Han": "kana",
}
HEAD = '''"""What may stand in a domain name in Unicode {version}; written by tools/idna_table.py, not by hand.

Derived from the Unicode Character Database, copyright Unicode, Inc., under the Unicode License V3
(https://www.unicode.org/license.txt), by the rules of RFC 5892.
"""

#: What a code point is like (direction, combining class, joining type, M for a mark, script), and which
#: are (ranges in hexadecimal).
CODES = """
{codes}
"""

#: What is not left as it is by normalisation (form C) behind some others: the code point, and those.
COMPOSED = """
{composed}
"""
'''


def like(code: int) -> str:
    """Describe a code point."""
    char = chr(code)
    said = [unicodedata.bidirectional(char), str(unicodedata.combining(char))]
    said += [
        name
        for name, ranges in idnadata.joining_types.items()
        if name != "C" and intranges_contain(code, ranges)
    ] or ["-"]
    said += ["M" if unicodedata.category(char)[0] == "M" else "-"]
    said += [
        name
        for script, name in SCRIPTS.items()
        if intranges_contain(code, idnadata.scripts[script])
    ]
    return " ".join(said)


def valid() -> list[int]:
    """Return the code points that may stand in a label, be it in some contexts only."""
    kinds = ("PVALID", "CONTEXTJ", "CONTEXTO")
    return [
        code
        for code in range(0x110000)
        if any(intranges_contain(code, idnadata.codepoint_classes[kind]) for kind in kinds)
        and unicodedata.category(chr(code)) != "Cn"
    ]


def composed(codes: list[int]) -> dict[int, list[int]]:
    """Return, for what composes with something before it, the starters it may not stand behind."""
    pairs = [
        tuple(int(part, 16) for part in parts)
        for code in range(0x110000)
        if len(parts := unicodedata.decomposition(chr(code)).split()) == 2 and parts[0][0] != "<"
    ]
    firsts, seconds = ({pair[at] for pair in pairs} for at in (0, 1))
    starters = [
        code
        for code in codes
        if unicodedata.combining(chr(code)) == 0
        and firsts.intersection(map(ord, unicodedata.normalize("NFD", chr(code))))
    ]
    return {
        second: [
            code
            for code in starters
            if not unicodedata.is_normalized("NFC", chr(code) + chr(second))
        ]
        for second in sorted(seconds.intersection(codes))
    }


def main() -> None:
    """Write the table."""
    codes = valid()
    groups: dict[str, list[int]] = defaultdict(list)
    for code in codes:
        groups[like(code)].append(code)
    rows = [f"{name}: {runs(group)}" for name, group in sorted(groups.items())]
    pairs = [f"{code:x}: {runs(before)}" for code, before in composed(codes).items() if before]
    TARGET.write_text(
        HEAD.format(
            version=unicodedata.unidata_version,
            codes="\n".join(map(_filled, rows)),
            composed="\n".join(map(_filled, pairs)),
        ),
        "utf-8",
    )


def _filled(row: str) -> str:
    return textwrap.fill(row, 98, subsequent_indent="  ", break_on_hyphens=False)


if __name__ == "__main__":
    main()
