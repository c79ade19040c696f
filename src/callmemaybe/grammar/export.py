"""Grammar -> text in the notations of other engines: one function for each notation.

* :func:`to_gbnf` for llama.cpp, :func:`to_ebnf` for xgrammar (the same notation without control tokens), :func:`to_lark` for llguidance, :func:`to_regex` if no rule is recursive.

The text describes the same language. What a notation cannot express is refused with a GrammarError, never
left out. Captures change no language and are dropped.

The notations describe characters, our automata bytes. An intersection, a difference or the substrings of a
text are exported from their automaton: one rule for each state, with the bytes of each character joined.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from callmemaybe.errors import GrammarError
from callmemaybe.grammar.automata.divisible import Divisible
from callmemaybe.grammar.automata.tree import machine_of
from callmemaybe.grammar.automaton import Automaton
from callmemaybe.grammar.characters import Ranges, ranges
from callmemaybe.grammar.grammar import (
    EMPTY,
    NOTHING,
    Alternation,
    Bytes,
    CaptureMark,
    Chars,
    Concat,
    Control,
    DfaTable,
    Difference,
    Grammar,
    Intersection,
    Lexeme,
    Literal,
    Node,
    Ref,
    Repeat,
    Substrings,
    WordTrie,
    alt,
    bytes_of,
    lexeme,
    many,
    repeat,
    seq,
)
from callmemaybe.grammar.unordered import Unordered, unfold

#: States of an automaton that is exported as rules.
MAX_AUTOMATON_STATES = 2_000
#: Members in any order that are exported; n members take 2^n rules.
MAX_UNORDERED_MEMBERS = 8
# How tightly an expression binds: alternatives, a sequence, something counted, one unit.
_LOOSE, _CHAIN, _COUNTED, _TIGHT = range(4)
_Text = tuple[str, int]
#: Prefix of a rule's name: the same rule without the empty text.
_NON_EMPTY = "\0filled "


def to_gbnf(grammar: Grammar) -> str:
    """Return ``grammar`` in llama.cpp's notation; control tokens as ``<name>``."""
    return _Gbnf(grammar, controls=True).text()


def to_ebnf(grammar: Grammar) -> str:
    """Return ``grammar`` in xgrammar's notation. Raises GrammarError if it has control tokens."""
    return _Gbnf(grammar, controls=False).text()


def to_lark(grammar: Grammar) -> str:
    """Return ``grammar`` in llguidance's variant of Lark; lexemes become terminals."""
    return _Lark(grammar, controls=True).text()


def to_regex(grammar: Grammar) -> str:
    """Return ``grammar`` as one regular expression over characters, for a full match.

    Raises GrammarError if a rule is recursive, and for nodes that need an automaton.
    """
    return _Regex(grammar, controls=False).text()


class _Exporter:
    """Writes nodes as expressions; subclasses define how each kind of expression is written."""

    def __init__(self, grammar: Grammar, *, controls: bool) -> None:
        self._grammar = grammar
        self._controls = controls
        self._rules: dict[str, str] = {}
        self._names: dict[object, str] = {}
        # A node may be part of many.
        self._written: dict[Node, _Text] = {}
        self._splits: dict[Node, bool | None] = {}

    # -- what a notation defines ----------------------------------------------------------------

    def _string(self, text: str) -> str:
        raise NotImplementedError

    def _set(self, one: Ranges) -> str:
        raise NotImplementedError

    def _count(self, at_least: int, at_most: int | None) -> str:
        return (
            f"{{{at_least},{'' if at_most is None else at_most}}}"
            if at_least != at_most
            else f"{{{at_least}}}"
        )

    def _named(self, key: object, hint: str, body: Node) -> _Text:
        """Return a reference to a rule of its own for ``body``, which is written on first use."""
        name = self._names.get(key)
        if name is None:
            name = self._names[key] = self._fresh(hint, body)
            self._rules[name] = ""
            self._rules[name] = self._write(body)[0]
        return name, _TIGHT

    def _fresh(self, hint: str, body: Node) -> str:  # noqa: ARG002 - a notation may look at the body
        clean = "".join(c if c.isascii() and c.isalnum() else "-" for c in hint).strip("-").lower()
        return f"{clean or 'r'}-{len(self._names)}"

    # -- walking ------------------------------------------------------------------------------

    def _write(self, node: Node) -> _Text:
        if node not in self._written:
            self._written[node] = self._expression(node)
        return self._written[node]

    def _expression(self, node: Node) -> _Text:
        if isinstance(node, Concat | Alternation | Repeat | Lexeme) and self._is_split(node):
            return self._machine(lexeme(node))
        match node:
            case Literal():
                return self._string(_decoded(node.data)), _TIGHT
            case Bytes():
                return self._set(_ascii(node.mask)), _TIGHT
            case Chars():
                return self._set(_without_surrogates(node.ranges)), _TIGHT
            case Control():
                return self._control(node.text), _TIGHT
            case CaptureMark():
                return self._write(EMPTY)
            case Ref():
                return self._named(("rule", node.name), node.name, self._grammar.rules[node.name])
            case Concat():
                return self._sequence([self._write(part) for part in node.parts])
            case Alternation():
                return self._choice([self._write(option) for option in node.options])
            case Repeat():
                return self._repeat(node)
            case Unordered():
                return self._unordered(node)
            case WordTrie():
                return self._words(node)
            case Lexeme():
                return self._named(node, "lexeme", node.body)
            case Intersection() | Difference() | Substrings() | DfaTable() | Divisible():
                return self._machine(node)
        raise TypeError(f"unknown node {node!r}")

    def _is_split(self, node: Node) -> bool:
        """Whether the bytes of one character are in different nodes, all of them regular."""
        parts = [self._has_split(part) for part in node.children]
        return None not in parts and any(parts)

    def _has_split(self, node: Node) -> bool | None:
        """Return whether a part has bytes of which no text is made; None if it is not regular."""
        if node not in self._splits:
            match node:
                case Literal():
                    self._splits[node] = not _is_text(node.data)
                case Bytes():
                    self._splits[node] = bool(node.mask >> 128)
                case Ref() | Control() | Unordered():
                    self._splits[node] = None
                case Lexeme() | Intersection() | Difference() | Chars():
                    # The bytes of a lexeme make whole characters, or it is exported as an automaton.
                    self._splits[node] = False
                case _:
                    parts = [self._has_split(part) for part in node.children]
                    self._splits[node] = None if None in parts else any(parts)
        return self._splits[node]

    def _sequence(self, parts: list[_Text]) -> _Text:
        shown = [_grouped(part, _CHAIN) for part in parts if part[0] != self._string("")]
        if not shown:
            return self._string(""), _TIGHT
        return (shown[0], parts[0][1]) if len(parts) == 1 else (" ".join(shown), _CHAIN)

    def _choice(self, options: list[_Text]) -> _Text:
        if len(options) == 1:
            return options[0]
        return " | ".join(text for text, _ in options), _LOOSE

    def _repeat(self, node: Repeat) -> _Text:
        at_least, at_most = node.at_least, node.at_most
        operator = {(0, None): "*", (1, None): "+", (0, 1): "?"}.get((at_least, at_most))
        inner = self._write(node.body)
        return _grouped(inner, _TIGHT) + (operator or self._count(at_least, at_most)), _COUNTED

    def _words(self, node: WordTrie) -> _Text:
        then = node.tails or (EMPTY,) * len(node.words)
        pairs = zip(node.words, then, strict=True)
        return self._choice(
            [
                self._sequence([(self._string(_decoded(w)), _TIGHT), self._write(after)])
                for w, after in pairs
            ]
        )

    def _unordered(self, node: Unordered) -> _Text:
        """Write members in any order: one rule for each set of members still to be written."""
        if node.unwritten.bit_count() > MAX_UNORDERED_MEMBERS:
            raise GrammarError(
                f"more than {MAX_UNORDERED_MEMBERS} members in any order are too many rules",
                hint='use order="schema"',
            )
        ways = unfold(node, self._grammar.min_length)
        return self._named(node, "members", alt(*ways))

    def _control(self, text: str) -> str:
        if not self._controls:
            raise GrammarError(f"this notation has no spelling for the control token {text!r}")
        return text if text.startswith("<") and text.endswith(">") else f"<{text}>"

    def _machine(self, node: Node) -> _Text:
        """Write an automaton as right-linear rules: state -> character, next state."""
        machine = machine_of(node)
        names: dict[int, str] = {}
        waiting = [machine.start]
        base = self._names.setdefault(node, f"automaton-{len(self._names)}")
        while waiting:
            state = waiting.pop()
            if state in names and names[state] in self._rules:
                continue
            name = names.setdefault(state, f"{base}-{len(names)}")
            options = [self._string("")] if machine.is_accepting(state) else []
            for target, one in _character_moves(machine, state).items():
                names.setdefault(target, f"{base}-{len(names)}")
                options.append(f"{self._set(one)} {names[target]}")
                waiting.append(target)
            self._rules[name] = " | ".join(options)
            if len(names) > MAX_AUTOMATON_STATES:
                raise GrammarError(
                    f"an automaton of more than {MAX_AUTOMATON_STATES} states is too large"
                )
        return names[machine.start], _TIGHT


class _Gbnf(_Exporter):
    def text(self) -> str:
        root = self._write(self._grammar.root)[0]
        lines = [f"root ::= {root}", *(f"{name} ::= {body}" for name, body in self._rules.items())]
        return "\n".join(lines) + "\n"

    def _write(self, node: Node) -> _Text:
        if isinstance(node, Ref) and node.name.startswith(_NON_EMPTY):
            name = node.name.removeprefix(_NON_EMPTY)
            return self._named(("filled", name), name, self._filled(self._grammar.rules[name]))
        return super()._write(node)

    def _repeat(self, node: Repeat) -> _Text:
        """Repeat only non-empty texts without limit: llama.cpp takes ``("a"?)*`` for recursion."""
        if node.at_most is None and self._grammar.min_length(node.body) == 0:
            return self._write(many(self._filled(node.body)))
        return super()._repeat(node)

    def _filled(self, node: Node) -> Node:
        """Return the texts of a node without the empty one."""
        if self._grammar.min_length(node) > 0:
            return node
        match node:
            case Alternation():
                return alt(*map(self._filled, node.options))
            case Concat():
                # The first part that is not empty, and whatever follows it.
                parts = node.parts
                return alt(
                    *(seq(self._filled(part), *parts[at + 1 :]) for at, part in enumerate(parts))
                )
            case Repeat() if self._grammar.min_length(node.body) > 0:
                return repeat(node.body, 1, node.at_most)
            case Repeat():
                return repeat(self._filled(node.body), 1, node.at_most)
            case Ref():
                return Ref(_NON_EMPTY + node.name)
            case Lexeme():
                return self._filled(node.body)
            case Unordered():
                return alt(*map(self._filled, unfold(node, self._grammar.min_length)))
            case Intersection() | Difference() | DfaTable() | Divisible():
                return Difference(node, EMPTY)
        return NOTHING

    def _string(self, text: str) -> str:
        return '"' + "".join(_gbnf_char(c, '"\\') for c in text) + '"'

    def _set(self, one: Ranges) -> str:
        parts = (
            _gbnf_char(chr(low), "]\\-^[")
            + ("" if low == high else "-" + _gbnf_char(chr(high), "]\\-^["))
            for low, high in one
        )
        return f"[{''.join(parts)}]"


class _Lark(_Exporter):
    """Structure becomes rules (lower case), lexemes become terminals (capitals)."""

    def text(self) -> str:
        root = self._write(self._grammar.root)[0]
        lines = [f"start: {root}", *(f"{name}: {body}" for name, body in self._rules.items())]
        return "\n".join(lines) + "\n"

    def _fresh(self, hint: str, body: Node) -> str:
        name = super()._fresh(hint, body).replace("-", "_")
        return name.upper() if hint == "lexeme" else name

    def _string(self, text: str) -> str:
        return '"' + "".join(_lark_char(c) for c in text) + '"'

    def _set(self, one: Ranges) -> str:
        return f"/{_regex_set(one)}/"

    def _machine(self, node: Node) -> _Text:
        """Use intersection and complement, which llguidance's terminals have, instead of rules."""
        if isinstance(node, Substrings):
            raise GrammarError("the substrings of a text have no spelling in Lark")
        if not isinstance(node, Intersection | Difference):
            return super()._machine(node)  # rules, in lower case
        left, right = self._operand(node.left), self._operand(node.right)
        name = self._names.setdefault(node, f"LEXEME_{len(self._names)}")
        self._rules[name] = f"{left} & {'~' if isinstance(node, Difference) else ''}{right}"
        return name, _TIGHT

    def _operand(self, node: Node) -> str:
        if isinstance(node, Lexeme | Intersection | Difference):
            return self._write(node)[0]
        return self._named(node, "lexeme", node)[0]


class _Regex(_Exporter):
    def text(self) -> str:
        return self._write(self._grammar.root)[0]

    def _named(self, key: object, hint: str, body: Node) -> _Text:
        if key in self._names:
            raise GrammarError(f"rule {hint!r} is recursive, so no regular expression describes it")
        self._names[key] = hint
        written = self._write(body)
        del self._names[key]
        return written

    def _string(self, text: str) -> str:
        return "".join(_regex_char(c, r"\.^$|?*+()[]{}/") for c in text)

    def _set(self, one: Ranges) -> str:
        return _regex_set(one)

    def _sequence(self, parts: list[_Text]) -> _Text:
        return "".join(_grouped(part, _CHAIN) for part in parts), _CHAIN

    def _choice(self, options: list[_Text]) -> _Text:
        text, level = super()._choice(options)
        return text.replace(" | ", "|") if level == _LOOSE and len(options) > 1 else text, level

    def _write(self, node: Node) -> _Text:
        text, level = super()._write(node)
        return text, min(level, _CHAIN) if isinstance(node, Literal) and len(
            node.data
        ) > 1 else level

    def _machine(self, node: Node) -> _Text:
        raise GrammarError(f"{type(node).__name__} has no spelling as a regular expression")


def _grouped(written: _Text, level: int) -> str:
    text, binds = written
    return text if binds >= level else f"({text})"


def _is_text(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def _decoded(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise GrammarError(
            f"the bytes {data!r} are no whole characters, which notations need"
        ) from None


def _ascii(mask: int) -> Ranges:
    if mask >> 128:
        raise GrammarError("a set of bytes above 127 is no set of characters, which notations need")
    return ranges((byte, byte) for byte in bytes_of(mask))


def _without_surrogates(one: Ranges) -> Ranges:
    kept = []
    for low, high in one:
        kept += [(low, min(high, 0xD7FF)), (max(low, 0xE000), high)]
    return tuple(
        (low, high) for low, high in kept if low <= high and low not in range(0xD800, 0xE000)
    )


def _character_moves(machine: Automaton, state: int) -> dict[int, Ranges]:
    """Return for each state after one whole character the characters that lead there."""
    found: dict[int, list[tuple[int, int]]] = {}
    for low, high, target in _character_ranges(machine, state):
        found.setdefault(target, []).append((low, high))
    return {target: ranges(pairs) for target, pairs in found.items()}


def _character_ranges(machine: Automaton, state: int) -> Iterator[tuple[int, int, int]]:
    known: dict[tuple[int, int], list[tuple[int, int, int]]] = {}
    for mask, target in machine.edges(state):
        for lead in bytes_of(mask):
            if lead < 0x80:
                yield lead, lead, target
            elif not 0xC2 <= lead <= 0xF4:
                raise GrammarError(f"byte {lead:#x} begins no character")
            else:
                following = 1 if lead < 0xE0 else 2 if lead < 0xF0 else 3
                base = (lead & (0x3F >> following)) << 6 * following
                for low, high, end in _character_tails(machine, target, following, known):
                    yield base + low, base + high, end


def _character_tails(
    machine: Automaton, state: int, following: int, known: dict[tuple[int, int], Any]
) -> list[tuple[int, int, int]]:
    """Return (low, high, target) for the last bytes of a character; low and high are offsets."""
    found: list[tuple[int, int, int]] | None = known.get((state, following))
    if found is None:
        pairs: dict[int, list[tuple[int, int]]] = {}
        for mask, target in machine.edges(state):
            for byte in bytes_of(mask):
                base = (byte & 0x3F) << 6 * (following - 1)
                tails = [(0, 0, target)]
                if following > 1:
                    tails = _character_tails(machine, target, following - 1, known)
                for low, high, end in tails:
                    pairs.setdefault(end, []).append((base + low, base + high))
        found = [(*pair, end) for end, own in pairs.items() for pair in ranges(own)]
        known[state, following] = found
    return found


_NAMED = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}


def _gbnf_char(char: str, special: str) -> str:
    if char in _NAMED:
        return _NAMED[char]
    if char in special:
        # Not every reader knows \- or \^, all know \x.
        return f"\\{char}" if char in '"\\]' else f"\\x{ord(char):02X}"
    code = ord(char)
    if 0x20 <= code < 0x7F:
        return char
    return (
        f"\\x{code:02X}" if code < 0x80 else f"\\U{code:08X}" if code > 0xFFFF else f"\\u{code:04X}"
    )


def _lark_char(char: str) -> str:
    if char in _NAMED or char in '"\\':
        return _NAMED.get(char, f"\\{char}")
    return char if char.isprintable() else f"\\u{ord(char):04x}"


def _regex_char(char: str, special: str) -> str:
    if char in _NAMED:
        return _NAMED[char]
    if char in special:
        return f"\\{char}"
    return char if char.isprintable() else f"\\x{{{ord(char):x}}}"


def _regex_set(one: Ranges) -> str:
    parts = (
        _regex_char(chr(low), r"\^-[]/&~")
        + ("" if low == high else "-" + _regex_char(chr(high), r"\^-[]/&~"))
        for low, high in one
    )
    return f"[{''.join(parts)}]"
