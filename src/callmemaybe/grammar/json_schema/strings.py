"""JSON strings of a facet, and the formats of JSON Schema (Validation, section 7.3), one row each.

Strings without a pattern or format may use every escape of JSON; the others are written as json.dumps does.

Most formats are exact. Some are subsets, so that every text of the language is valid: leap seconds come only
at offsets of whole quarters of an hour; regular expressions have groups that nest at most three deep, and
refer only to groups whose name is one letter; host names have no label in punycode ("xn--"). What punycode
and IDNA 2008 ask takes arithmetic over a whole label, which no mask can do byte by byte: `SUPERSETS` has
every valid name and others, for callers that validate complete values.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from string import ascii_letters, ascii_lowercase, ascii_uppercase, digits
from typing import Any

from callmemaybe.grammar.automata.tree import machine_of
from callmemaybe.grammar.characters import (
    JSON_CANONICAL_CHARACTER,
    JSON_CHARACTER,
    json_canonical,
    quoted_text,
)
from callmemaybe.grammar.json_schema.shapes import KeyPattern, StringFacet
from callmemaybe.grammar.json_schema.values import can_be_written, quoted
from callmemaybe.grammar.nodes import (
    NOTHING,
    Difference,
    Intersection,
    Node,
    alt,
    byte_range,
    byte_set,
    lexeme,
    lit,
    many,
    opt,
    repeat,
    seq,
    words,
    words_then,
)
from callmemaybe.grammar.regex import matching

#: Any JSON string / any JSON string in the form of json.dumps(ensure_ascii=False).
ANY_STRING = lexeme(quoted_text(JSON_CHARACTER))
PLAIN_STRING = lexeme(quoted_text(JSON_CANONICAL_CHARACTER))


@lru_cache(maxsize=256)
def strings_of_length(at_least: int, at_most: int | None, character: Node = JSON_CHARACTER) -> Node:
    """Return the JSON strings of these lengths, in characters."""
    return lexeme(quoted_text(character, at_least, at_most))


def string_node(facet: StringFacet | None, excluded: Mapping[Any, Any]) -> Node:
    """Return the JSON strings that a facet allows, without some values."""
    if facet is None:
        facet = StringFacet()
    texts = [value for value in excluded.values() if isinstance(value, str)]
    counted = facet.at_least > 0 or facet.at_most is not None
    if not facet.within and not facet.without and not texts:
        return strings_of_length(facet.at_least, facet.at_most) if counted else ANY_STRING
    if facet.at_most is not None and facet.at_most < facet.at_least:
        return NOTHING
    node = PLAIN_STRING
    for index, within in enumerate(facet.within):
        node = Intersection(node, within) if index else within
    if counted:
        node = Intersection(
            node, strings_of_length(facet.at_least, facet.at_most, JSON_CANONICAL_CHARACTER)
        )
    for without in facet.without:
        node = Difference(node, without)
    return without_words(node, texts)


def without_words(node: Node, texts: list[str]) -> Node:
    """Return a language of JSON strings (in the form of json.dumps) without some texts."""
    written = [quoted(text) for text in texts if can_be_written(text)]
    return Difference(node, lexeme(words(written))) if written else node


def key_matches(pattern: KeyPattern, text: str) -> bool:
    """Whether a key matches a pattern."""
    return contains_text(pattern.node, text)


def contains_text(node: Node, text: str) -> bool:
    """Whether a language of JSON strings contains a text, in the form of json.dumps."""
    if not can_be_written(text):
        return False
    machine = machine_of(node)
    state = machine.walk(machine.start, quoted(text).encode())
    return state >= 0 and machine.is_accepting(state)


_QUOTE = lit('"')

# RFC 3339, section 5.6 and appendix C (February).
_LEAP = r"(?:\d\d(?:0[48]|[2468][048]|[13579][26])|(?:0[48]|[2468][048]|[13579][26])00)"
_YEAR = r"(?:000[1-9]|00[1-9]\d|0[1-9]\d\d|[1-9]\d{3})"
_DATE = (
    rf"(?:{_YEAR}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12]\d|3[01])|(?:0[469]|11)-(?:0[1-9]|[12]\d|30)"
    rf"|02-(?:0[1-9]|1\d|2[0-8]))|{_LEAP}-02-29)"
)


def _leap_seconds() -> str:
    """Return 23:59:60 UTC in the time of every offset of whole quarters (RFC 3339, section 5.7)."""
    options = []
    for local in range(14, 24 * 60, 15):
        ahead, behind = (local + 1) % (24 * 60), (23 * 60 + 59 - local) % (24 * 60)
        offsets = rf"\+{ahead // 60:02}:{ahead % 60:02}|-{behind // 60:02}:{behind % 60:02}"
        options.append(rf"{local // 60:02}:{local % 60:02}:60(?:\.\d+)?(?:{offsets})")
    return "|".join(options)


_TIME = (
    r"(?:(?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d(?:\.\d+)?(?:[Zz]|[+-](?:[01]\d|2[0-3]):[0-5]\d)"
    rf"|23:59:60(?:\.\d+)?[Zz]|{_leap_seconds()})"
)
# RFC 3339, appendix A.
_CLOCK = r"T(?:\d+H(?:\d+M(?:\d+S)?)?|\d+M(?:\d+S)?|\d+S)"
_DAYS = r"(?:\d+Y(?:\d+M(?:\d+D)?)?|\d+M(?:\d+D)?|\d+D)"
_DURATION = rf"P(?:\d+W|{_DAYS}(?:{_CLOCK})?|{_CLOCK})"

# RFC 2673, section 3.2; RFC 4291, section 2.2; RFC 5954 for the IPv4 tail.
_OCTET = r"(?:25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)"
_IPV4 = rf"{_OCTET}(?:\.{_OCTET}){{3}}"


def _ipv6() -> str:
    group = "[0-9A-Fa-f]{1,4}"
    tail = f"(?:{group}:{group}|{_IPV4})"
    options = [f"(?:{group}:){{6}}{tail}"]
    for before in range(8):
        head = f"(?:{group}(?::{group}){{{before - 1}}})" if before else ""
        at_most = 7 - before  # groups after "::", which stands for at least one
        options += [
            f"{head}::(?:{group}(?::{group}){{0,{at_most - 1}}})?" if at_most else f"{head}::"
        ]
        if at_most >= 2:
            options += [f"{head}::(?:{group}:){{0,{at_most - 2}}}{_IPV4}"]
    return f"(?:{'|'.join(options)})"


_IPV6 = _ipv6()

# RFC 1123, section 2.1, and RFC 5891, section 4.2.3.1 on "--".
_A, _H = "[A-Za-z0-9]", "[A-Za-z0-9-]"
_LABEL = (
    f"(?:{_A}(?:{_H}?{_A})?|{_A}{_H}[A-Za-z0-9-]{_A}|{_A}{_H}(?:{_A}{_H}|-{_A}){_H}{{0,58}}{_A})"
)
_HOST = rf"{_LABEL}(?:\.{_LABEL})*"
# RFC 1123, section 2.1: any hyphens inside of a label.
_OLD_LABEL = "[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
_OLD_HOST = rf"{_OLD_LABEL}(?:\.{_OLD_LABEL})*"
# CSS 2.1, section 4.3.6.
_COLOR = (
    "#[0-9A-Fa-f]{3}(?:[0-9A-Fa-f]{3})?|aqua|black|blue|fuchsia|gray|green|lime|maroon|navy|olive|orange|purple|red"
    "|silver|teal|white|yellow"
)
_WIDE_LABEL = rf"(?:{_LABEL}|[Xx][Nn]--{_H}{{0,58}}{_A})"
_WIDE_HOST = rf"{_WIDE_LABEL}(?:\.{_WIDE_LABEL})*"
# RFC 5890: labels with letters beyond ASCII, between any of the four full stops of RFC 3490, section 3.1.
_U = r"A-Za-z0-9\u00aa-\u3001\u3003-\uff0d\uff0f-\uff60\uff62-\u{10ffff}"
_IDN_LABEL = rf"[{_U}](?:[{_U}-]{{0,61}}[{_U}])?"
_IDN_HOST = rf"{_IDN_LABEL}(?:[.\u3002\uff0e\uff61]{_IDN_LABEL})*"

# RFC 5321, section 4.1.2 (and RFC 6531 for the internationalised form).
_ATOM = "[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]"
_QUOTED = r'"(?:[ !#-\[\]-~]|\\[ -~])*"'
_UQUOTED = r'"(?:[ !#-\[\]-~\u0080-\u{10ffff}]|\\[ -~])*"'
_ADDRESS = rf"\[(?:{_IPV4}|IPv6:{_IPV6})\]"
_MAILBOX = rf"(?:{_ATOM}+(?:\.{_ATOM}+)*|{_QUOTED})@"
_UATOM = r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~\u0080-\u{10ffff}-]"
_IDN_MAILBOX = rf"(?:{_UATOM}+(?:\.{_UATOM}+)*|{_UQUOTED})@"
# Octets of the text, however they are written in a JSON string: only ASCII characters are escaped here.
_OCTET_BUT_AT = alt(
    byte_set(frozenset(range(0x20, 0x100)) - frozenset(b'"\\@')),
    seq(lit("\\"), byte_range(0x20, 0x7E)),
)


# RFC 3986, appendix A; RFC 3987, section 2.2 for the characters of an IRI.
_UCS = (
    r"\u00a0-\ud7ff\uf900-\ufdcf\ufdf0-\uffef"
    + "".join(rf"\u{{{plane:x}0000}}-\u{{{plane:x}fffd}}" for plane in range(1, 14))
    + r"\u{e1000}-\u{efffd}"
)
_PRIVATE = r"\ue000-\uf8ff\u{f0000}-\u{ffffd}\u{100000}-\u{10fffd}"


def _uri(*, relative: bool, international: bool) -> str:
    extra = _UCS if international else ""
    private = _PRIVATE if international else ""
    percent = "%[0-9A-Fa-f]{2}"
    plain = rf"A-Za-z0-9._~!$&'()*+,;={extra}"
    char = rf"(?:[{plain}:@-]|{percent})"
    future = r"[vV][0-9A-Fa-f]+\.[A-Za-z0-9._~!$&'()*+,;=:-]+"
    host = rf"(?:\[(?:{_IPV6}|{future})\]|(?:[{plain}-]|{percent})*)"
    authority = rf"//(?:(?:[{plain}:-]|{percent})*@)?{host}(?::\d*)?(?:/{char}*)*"
    absolute = rf"/(?:{char}+(?:/{char}*)*)?"
    rootless = rf"{char}+(?:/{char}*)*"
    query = rf"(?:\?(?:[{plain}:@/?{private}-]|{percent})*)?(?:#(?:[{plain}:@/?-]|{percent})*)?"
    whole = rf"[A-Za-z][A-Za-z0-9+.-]*:(?:{authority}|{absolute}|{rootless}|){query}"
    if not relative:
        return whole
    no_scheme = rf"(?:[{plain}@-]|{percent})+(?:/{char}*)*"
    return rf"(?:{whole}|(?:{authority}|{absolute}|{no_scheme}|){query})"


# RFC 6570, section 2.
_VARCHAR = "(?:[A-Za-z0-9_]|%[0-9A-Fa-f]{2})"
_VARSPEC = rf"{_VARCHAR}(?:\.?{_VARCHAR})*(?::[1-9]\d{{0,3}}|\*)?"
_TEMPLATE = (
    rf"(?:[!#$&-;=?-\[\]_a-z~{_UCS}{_PRIVATE}]|%[0-9A-Fa-f]{{2}}"
    rf"|\{{[+#./;?&=,!@|]?{_VARSPEC}(?:,{_VARSPEC})*\}})*"
)

# RFC 6901, section 3; draft-bhutton-relative-json-pointer.
_POINTER = "(?:/(?:[^~/]|~[01])*)*".replace("[^~/]", r"[\0-.0-}\x7f-\u{10ffff}]")
_RELATIVE_POINTER = rf"(?:0|[1-9]\d*)(?:[+-](?:[1-9]\d*))?(?:#|{_POINTER})"


def _regex() -> Node:
    """Return regular expressions with groups up to three deep, in the portable syntax.

    Look-arounds and one named group may stand outside of groups. Back-references follow a group whose name is
    one letter, which an automaton can remember.
    """
    escape = r"\\(?:[dDwWsSfnrtv^$\\.*+?()\[\]{}|/]|u[0-9A-Fa-f]{4}|x[0-9A-Fa-f]{2}|c[A-Za-z])"
    # Ranges around one of a few characters: remembering the start of any range would take many states.
    pivots = ((digits, "1359"), (ascii_uppercase, "CFMSZ"), (ascii_lowercase, "cfmsz"))
    spans = "|".join(
        f"[{known[0]}-{pivot}]-[{pivot}-{known[-1]}]" for known, enum in pivots for pivot in enum
    )
    member = rf"(?:[A-Za-z0-9 _.,:;!@#%&*+=/?()<>'\"~`{{}}|$\u0080-\u{{10ffff}}]|{escape}|{spans})"
    atom = rf"(?:[^\\^$.*+?()\[\]{{}}|]|\.|{escape}|\[\^?{member}*-?\])"
    quantifier = r"(?:(?:[*+?]|\{\d\}|\{\d,\})\??)?"
    inner = rf"[\^]?(?:{atom}{quantifier})*\$?(?:\|(?:{atom}{quantifier})*)*"
    for _ in range(2):
        piece = rf"(?:{atom}|\((?:\?:)?{inner}\))"
        branch = rf"\^?(?:{piece}{quantifier})*\$?"
        inner = rf"{branch}(?:\|{branch})*"
    piece = rf"(?:(?:{atom}|\((?:\?:)?{inner}\)){quantifier}|\(\?<?[=!]{inner}\))"
    one, group = _matching(piece), _matching(rf"{inner}\){quantifier}")
    referring: dict[str | bytes, Node] = {
        f"{name}>": seq(group, many(alt(one, _matching(rf"\\k<{name}>{quantifier}"))))
        for name in ascii_letters
    }
    named = alt(seq(_matching("[A-Za-z_][A-Za-z0-9_]*>"), group, many(one)), words_then(referring))
    rest = _matching(rf"\$?(?:\|\^?{piece}*\$?)*")
    body = seq(_matching(r"\^?"), many(one), opt(seq(lit("(?<"), named)), rest)
    return lexeme(seq(_QUOTE, body, _QUOTE))


def _matching(pattern: str) -> Node:
    return matching(pattern, json_canonical, search=False)


def _host(pattern: str) -> Node:
    """Return names of at most 253 octets (RFC 1034, section 3.1, without the dot of the root)."""
    name = lexeme(seq(_QUOTE, _matching(pattern), _QUOTE))
    return Intersection(name, lexeme(quoted_text(JSON_CANONICAL_CHARACTER, 1, 253)))


def _email(pattern: str, domain: Node) -> Node:
    """Return addresses with a local part of at most 64 octets (RFC 5321, section 4.5.3.1.1).

    ``domain`` limits the length of what follows the last "@".
    """
    address = lexeme(seq(_QUOTE, _matching(pattern), _QUOTE))
    local = repeat(alt(_OCTET_BUT_AT, lit("@")), 1, 64)
    return Intersection(address, lexeme(seq(_QUOTE, local, lit("@"), domain, _QUOTE)))


#: Name -> regular expression of the whole text, or a function that returns one or a node.
FORMATS: dict[str, str | Callable[[], str | Node]] = {
    "date": _DATE,
    "time": _TIME,
    "date-time": rf"{_DATE}[Tt]{_TIME}",
    "duration": _DURATION,
    "email": lambda: _email(rf"{_MAILBOX}(?:{_HOST}|{_ADDRESS})", repeat(_OCTET_BUT_AT, 1, 253)),
    "hostname": lambda: _host(_HOST),
    "ipv4": _IPV4,
    "ipv6": _IPV6,
    "uuid": r"[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}",
    "uri": lambda: _uri(relative=False, international=False),
    "uri-reference": lambda: _uri(relative=True, international=False),
    "iri": lambda: _uri(relative=False, international=True),
    "iri-reference": lambda: _uri(relative=True, international=True),
    "uri-template": _TEMPLATE,
    "json-pointer": _POINTER,
    "relative-json-pointer": _RELATIVE_POINTER,
    "regex": _regex,
}
#: Supersets of the formats that a mask cannot hold: used where complete values are validated. A format
#: that is here and not in `FORMATS` has no useful subset either, so it is refused without validation.
SUPERSETS: dict[str, Callable[[], Node]] = {
    "hostname": lambda: _host(_WIDE_HOST),
    "idn-hostname": lambda: lexeme(seq(_QUOTE, _matching(_IDN_HOST), _QUOTE)),
    "idn-email": lambda: _email(rf"{_IDN_MAILBOX}(?:{_IDN_HOST}|{_ADDRESS})", many(_OCTET_BUT_AT)),
}
#: What the superset leaves to the validator.
DEFERRED = {
    "hostname": "what labels in punycode (xn--) say",
    "idn-hostname": "IDNA 2008 decides over whole labels which names in Unicode are valid",
    "idn-email": "IDNA 2008 decides over whole labels which domains in Unicode are valid",
}

#: The last draft of older meanings -> formats that it and those before it have otherwise, or under another name.
OLD_FORMATS: dict[int, dict[str, str | Callable[[], str | Node]]] = {
    6: {"hostname": lambda: _host(_OLD_HOST)},
    3: {
        "host-name": lambda: _host(_OLD_HOST),
        "ip-address": _IPV4,
        "time": "(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]",
        "color": _COLOR,
    },
}


def is_old_format(name: str, draft: int) -> bool:
    """Whether a format means something else in this draft than today."""
    return any(draft <= last and name in formats for last, formats in OLD_FORMATS.items())


@lru_cache(maxsize=64)
def format_node(name: str, *, superset: bool = False, draft: int = 2020) -> Node | None:
    """Return the JSON strings (with quotes) of a format; None if there is no such language.

    ``superset``: take the language of `SUPERSETS` where there is one.
    """
    source = (SUPERSETS if superset and name in SUPERSETS else FORMATS).get(name)
    for last, formats in OLD_FORMATS.items():
        source = formats.get(name, source) if draft <= last else source
    if source is None:
        return None
    body = source if isinstance(source, str) else source()
    return body if isinstance(body, Node) else lexeme(seq(_QUOTE, _matching(body), _QUOTE))
