"""Write src/callmemaybe/grammar/unicode_scripts.py, the table of Unicode scripts, from the `regex` package.

    python tools/unicode_scripts.py

The package carries the Unicode Character Database (Scripts.txt, ScriptExtensions.txt); Python's own
`unicodedata` has no scripts.
"""

# ruff: noqa: INP001 - a script, not a package

from __future__ import annotations

import textwrap
from collections import defaultdict
from importlib.metadata import metadata
from pathlib import Path

import regex
from regex import _regex_core as core

TARGET = Path(__file__).parents[1] / "src" / "callmemaybe" / "grammar" / "scripts.py"
NOT_SCRIPTS = {"UNKNOWN", "ZZZZ", "KATAKANAORHIRAGANA", "HRKT"}
HEAD = '''"""The scripts of Unicode {version}; written by tools/unicode_scripts.py, not by hand.

Derived from the Unicode Character Database, copyright Unicode, Inc., under the Unicode License V3
(https://www.unicode.org/license.txt).
"""

#: Names of each script, its characters, and behind a bar those that other scripts share with it
#: (ranges of code points in hexadecimal).
SCRIPTS = """
{rows}
"""
'''


def main() -> None:
    """Write the table."""
    names: dict[int, list[str]] = defaultdict(list)
    for name, number in core.PROPERTIES["SCRIPT"][1].items():
        if name not in NOT_SCRIPTS:
            names[number].append(name.lower())
    text = "".join(map(chr, (*range(0xD800), *range(0xE000, 0x110000))))
    rows = []
    for own in sorted(names.values()):
        plain = [ord(m[0]) for m in regex.finditer(rf"\p{{Script={own[0]}}}", text)]
        wide = [ord(m[0]) for m in regex.finditer(rf"\p{{scx={own[0]}}}", text)]
        if not plain:
            continue
        shared = sorted(set(wide) - set(plain))
        row = f"{' '.join(own)}: {runs(plain)}" + (f" | {runs(shared)}" if shared else "")
        rows.append(textwrap.fill(row, 98, subsequent_indent="  ", break_on_hyphens=False))
    TARGET.write_text(HEAD.format(version=version(), rows="\n".join(rows)), "utf-8")


def runs(codes: list[int]) -> str:
    """Write code points as ranges."""
    found: list[list[int]] = []
    for code in codes:
        if found and code == found[-1][1] + 1:
            found[-1][1] = code
        else:
            found.append([code, code])
    return " ".join(f"{low:x}" if low == high else f"{low:x}-{high:x}" for low, high in found)


def version() -> str:
    """Return the version of Unicode that the package says it knows."""
    found = regex.search(r"supports Unicode ([\d.]+\d)", str(metadata("regex").get_payload()))
    return str(found[1])


if __name__ == "__main__":
    main()
