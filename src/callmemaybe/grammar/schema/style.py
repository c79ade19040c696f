"""How a JSON text is spaced: the separators and paddings of one style."""

from __future__ import annotations

from dataclasses import dataclass

from callmemaybe.grammar.nodes import EMPTY, Node, byte_set, lexeme, lit, opt, repeat, seq

# A newline and what indents the next line; bounded, so that no model can loop in it.
_LONGEST_INDENT = 40
_SPACE = lexeme(seq(opt(lit("\n")), repeat(byte_set(b" \t"), 0, _LONGEST_INDENT)))


@dataclass(frozen=True, slots=True)
class Style:
    """What stands between and around the tokens of a JSON text."""

    name: str
    comma: Node
    colon: Node
    #: After an opening and before a closing bracket or brace.
    padding: Node = EMPTY
    #: The texts of comma and colon, where there is one way only.
    separators: tuple[str, str] | None = None


STYLES: dict[str, Style] = {
    "spaced": Style("spaced", lit(", "), lit(": "), separators=(", ", ": ")),
    "compact": Style("compact", lit(","), lit(":"), separators=(",", ":")),
    "flexible": Style(
        "flexible", seq(_SPACE, lit(","), _SPACE), seq(_SPACE, lit(":"), _SPACE), _SPACE
    ),
}
