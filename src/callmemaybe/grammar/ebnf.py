r"""Grammars as text: GBNF (llama.cpp) and Lark-style EBNF, read into one tree.

Both notations share rules, alternatives, groups, repetition, literals and comments; what differs is
spelling, which :class:`_Dialect` holds. The language is that of the text read as a context-free
grammar over characters: there is no lexer that commits to the longest token, so an output is in the
language if *some* reading of it is.

* GBNF: ``name ::= ...``, classes ``[a-z]``, ``.``, ``{m,n}``, ``#`` comments, start rule ``root``.
* Lark: ``name: ...``, terminals in capitals, ``/regex/is``, ``"a".."z"``, ``[optional]``, ``~ m..n``,
  ``"text"i``, ``%ignore``, ``%import common.NAME``, ``//`` and ``#`` comments, start rule ``start``; and, as in
  llguidance, counts ``{m,n}`` and ``%json {...}``: a JSON text by that schema, spaced as json.dumps writes.
* Both: ``<tool_call>`` names a control token.

A rule that begins with itself (``e: e "+" t | t``) is rewritten as repetition; recursion that begins
with itself only through other rules is refused.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple, NoReturn

from callmemaybe.errors import GrammarError
from callmemaybe.grammar import characters
from callmemaybe.grammar.grammar import (
    EMPTY,
    Alternation,
    Concat,
    Control,
    Grammar,
    Node,
    Ref,
    alt,
    lexeme,
    lit,
    many,
    opt,
    repeat,
    seq,
    some,
)
from callmemaybe.grammar.json_schema import json_schema_node
from callmemaybe.grammar.nodes import set_source
from callmemaybe.grammar.regex import matching


def ebnf(text: str, *, start: str | None = None) -> Grammar:
    """Read a grammar written in GBNF or in Lark's notation; its first rule decides which.

    ``start`` is the rule of the whole output (default ``root`` in GBNF, ``start`` in Lark, else the first
    rule). Raises GrammarError with the line of the mistake.
    """
    dialect = _GBNF if re.search(r"^[ \t]*[\w-]+[ \t]*::=", text, re.MULTILINE) else _LARK
    rules = _GrammarReader(text, dialect).read()
    if not rules.nodes:
        raise GrammarError("the grammar has no rule", line=1)
    root = start or (dialect.start if dialect.start in rules.nodes else next(iter(rules.nodes)))
    if root not in rules.nodes:
        raise GrammarError(f"the start rule {root!r} is not defined")
    nodes = {name: _without_left_recursion(name, node) for name, node in rules.nodes.items()}
    return Grammar(seq(rules.ignored, Ref(root)), nodes)


@dataclass(frozen=True)
class _Dialect:
    start: str
    defines: str
    token: re.Pattern[str]


# One token of either notation. Order matters: longer forms first.
_SHARED = r"""
    (?P<string>"(?:[^"\\\n]|\\.)*"i?) |
    (?P<control><[^\s<>][^<>\n]*>) |
    (?P<newline>\n) | (?P<space>[ \t\r]+) |
"""
_GBNF = _Dialect(
    "root",
    "::=",
    re.compile(
        r"(?P<comment>\#[^\n]*) |"
        + _SHARED
        + r"""
    (?P<set>\[(?:[^\]\\\n]|\\.)*\]) | (?P<count>\{[^}\n]*\}) |
    (?P<punct>::=|[|()?*+.]) | (?P<name>[A-Za-z0-9_-]+)""",
        re.VERBOSE,
    ),
)
_LARK = _Dialect(
    "start",
    ":",
    re.compile(
        r"(?P<comment>(?://|\#)[^\n]*) |"
        + _SHARED
        + r"""
    (?P<regex>/(?!/)(?:[^/\\\n]|\\.)+/[imslux]*) |
    (?P<json>%json\b) | (?P<count>\{[0-9, ]*\}) |
    (?P<range>\.\.) | (?P<tilde>~[ ]*\d+(?:[ ]*\.\.[ ]*\d+)?) |
    (?P<directive>%[a-z]+) | (?P<arrow>->[ ]*\w+) | (?P<priority>\.-?\d+) |
    (?P<punct>[:|()?*+\[\].,!]) | (?P<name>[A-Za-z_][A-Za-z0-9_]*)""",
        re.VERBOSE,
    ),
)


class _Token(NamedTuple):
    kind: str
    text: str
    line: int


@dataclass
class _Rules:
    nodes: dict[str, Node] = field(default_factory=dict)
    ignored: Node = EMPTY


_MAX_NESTING = 100
#: The largest count of a repetition, as in patterns and schemas.
MAX_COUNT = 20_000

# Lark's common terminals, with their definitions (lark-parser's grammars/common.lark names them).
_COMMON = {
    "DIGIT": r"[0-9]",
    "HEXDIGIT": r"[0-9a-fA-F]",
    "INT": r"[0-9]+",
    "SIGNED_INT": r"[+-]?[0-9]+",
    "DECIMAL": r"[0-9]+\.[0-9]*|\.[0-9]+",
    "FLOAT": r"[0-9]+[eE][+-]?[0-9]+|([0-9]+\.[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?",
    "SIGNED_FLOAT": r"[+-]?([0-9]+[eE][+-]?[0-9]+|([0-9]+\.[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?)",
    "NUMBER": r"[0-9]+([eE][+-]?[0-9]+)?|([0-9]+\.[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?",
    "SIGNED_NUMBER": r"[+-]?([0-9]+([eE][+-]?[0-9]+)?|([0-9]+\.[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?)",
    "ESCAPED_STRING": r'"([^"\\\n]|\\[^\n])*"',
    "LCASE_LETTER": r"[a-z]",
    "UCASE_LETTER": r"[A-Z]",
    "LETTER": r"[A-Za-z]",
    "WORD": r"[A-Za-z]+",
    "CNAME": r"[A-Za-z_][A-Za-z0-9_]*",
    "WS_INLINE": r"[ \t]+",
    "WS": r"[ \t\f\r\n]+",
    "_EXP": r"[eE][+-]?[0-9]+",
    "SH_COMMENT": r"#[^\n]*",
    "CPP_COMMENT": r"//[^\n]*",
    "C_COMMENT": r"/\*([^*]|\*+[^*/])*\*+/",
    "SQL_COMMENT": r"--[^\n]*",
    "CR": r"\r",
    "LF": r"\n",
    "NEWLINE": r"(\r?\n)+",
}


class _GrammarReader:
    """A recursive-descent reader; one method for each construct."""

    def __init__(self, text: str, dialect: _Dialect) -> None:
        self._dialect = dialect
        self._tokens = list(_tokens(text, dialect))
        self._at = 0
        self._depth = 0
        self._rules = _Rules()
        self._in_terminal = False

    def read(self) -> _Rules:
        """Return every rule of the text."""
        ignored = [self._directive_node() for _ in self._directives("%ignore")]
        if ignored:
            self._rules.ignored = many(alt(*ignored))
        self._at = 0
        while self._peek().kind != "end":
            if self._peek().kind == "newline":
                self._at += 1
            elif self._peek().kind == "directive":
                self._directive()
            else:
                self._rule()
        return self._rules

    # -- statements ---------------------------------------------------------------------------

    def _directives(self, name: str) -> Iterator[None]:
        """Stand behind each directive of that name, wherever it is: %ignore may come last."""
        for index, token in enumerate(self._tokens):
            if token.kind == "directive" and token.text == name:
                self._at = index + 1
                yield

    def _directive_node(self) -> Node:
        self._in_terminal = True
        node = self._alternatives()
        self._in_terminal = False
        return node

    def _directive(self) -> None:
        token = self._next()
        if token.text == "%ignore":
            self._directive_node()
        elif token.text == "%import":
            self._import(token)
        else:
            self._fail(f"unknown directive {token.text}", token)

    def _import(self, token: _Token) -> None:
        if self._next().text != "common" or self._peek().text not in (".", "("):
            self._fail("only %import common.NAME and common (NAME, NAME) are known", token)
        self._take(".")
        names = []
        if self._take("("):
            self._skip_lines()
            while not self._take(")"):
                if self._peek().kind == "end":
                    self._fail("the names of %import are not closed; write ')' behind them", token)
                names.append(self._next())
                self._take(",")
                self._skip_lines()
        else:
            names.append(self._next())
        for name in names:
            if name.text not in _COMMON:
                self._fail(f"there is no common terminal {name.text!r}", name)
            alias = self._peek()
            defined = name.text
            if alias.kind == "arrow":
                self._at += 1
                defined = alias.text[2:].strip()
            self._rules.nodes[defined] = self._pattern(_COMMON[name.text], name)

    def _rule(self) -> None:
        while self._take("?") or self._take("!"):
            pass  # these shape Lark's tree; the language is the same
        name = self._next()
        if name.kind != "name":
            self._fail(f"a rule's name is expected, not {name.text!r}", name)
        if self._peek().kind == "priority":
            self._at += 1
        if not self._take(self._dialect.defines):
            self._fail(f"{self._dialect.defines!r} is expected after {name.text!r}", self._peek())
        if name.text in self._rules.nodes:
            self._fail(f"rule {name.text!r} is defined twice", name)
        self._in_terminal = self._is_terminal(name.text)
        self._rules.nodes[name.text] = EMPTY
        self._rules.nodes[name.text] = self._alternatives()
        if self._peek().kind not in ("newline", "end"):
            self._fail(f"unexpected {self._peek().text!r}", self._peek())

    def _is_terminal(self, name: str) -> bool:
        return self._dialect is _LARK and name.lstrip("_")[:1].isupper()

    # -- expressions --------------------------------------------------------------------------

    def _alternatives(self) -> Node:
        options = [self._sequence()]
        while self._continues_with("|"):
            options.append(self._sequence())
        return alt(*options)

    def _sequence(self) -> Node:
        parts: list[Node] = []
        while True:
            if self._depth:
                self._skip_lines()
            token = self._peek()
            if token.kind == "arrow":
                self._at += 1
            elif token.kind in ("newline", "end", "directive") or token.text in ("|", ")", "]"):
                return seq(*parts)
            else:
                parts.append(self._repeated(self._atom()))

    def _repeated(self, node: Node) -> Node:
        while True:
            token = self._peek()
            if token.kind == "punct" and token.text in "?*+":
                node = {"?": opt, "*": many, "+": some}[token.text](node)
            elif token.kind in ("count", "tilde"):
                low, high = self._bounds(token)
                node = repeat(node, low, high)
            else:
                return node
            self._at += 1

    def _bounds(self, token: _Token) -> tuple[int, int | None]:
        text = token.text.strip("{}~").replace(" ", "")
        match = re.fullmatch(r"(\d+)(?:(,|\.\.)(\d*))?|(?=,\d)(,)(\d+)", text) or self._fail(
            f"{token.text!r} is no count", token
        )
        if match[5]:
            return 0, self._times(match[5], token)
        low = self._times(match[1], token)
        high = self._times(match[3], token) if match[3] else (None if match[2] else low)
        if high is not None and high < low:
            self._fail(f"{token.text!r} counts backwards", token)
        return low, high

    def _times(self, digits: str, token: _Token) -> int:
        """Return a count; the length of its digits is checked first, since Python converts only so many."""
        if len(digits.lstrip("0")) > len(str(MAX_COUNT)) or int(digits) > MAX_COUNT:
            self._fail(f"a count is more than {MAX_COUNT:,}, which is the most", token)
        return int(digits)

    def _atom(self) -> Node:
        token = self._next()
        if token.text in ("(", "["):
            self._depth += 1
            if self._depth > _MAX_NESTING:
                self._fail(f"groups nest more than {_MAX_NESTING} deep", token)
            inner = self._alternatives()
            self._skip_lines()
            self._depth -= 1
            if not self._take(")" if token.text == "(" else "]"):
                self._fail(f"the {token.text!r} is never closed", token)
            return inner if token.text == "(" else opt(inner)
        if token.kind == "name":
            node: Node = Ref(token.text)
            return self._padded(node) if self._is_terminal(token.text) else node
        if token.kind == "control":
            return Control(token.text)
        if token.kind == "json":
            return self._padded(self._json(token))
        return self._padded(self._terminal(token))

    def _json(self, token: _Token) -> Node:
        try:
            schema = json.loads(token.text)
        except ValueError as error:
            self._fail(f"%json: {error}", token)
        node, rules = json_schema_node(schema, prefix=f"json {token.line} {self._at} ")
        self._rules.nodes.update(rules)
        return node

    def _padded(self, node: Node) -> Node:
        """Allow ignored text between the terminals of a rule, but not inside one."""
        return node if self._in_terminal else seq(node, self._rules.ignored)

    def _terminal(self, token: _Token) -> Node:
        if token.kind == "string":
            text = self._unquoted(token)
            if any("\ud800" <= one <= "\udfff" for one in text):
                self._fail("half of a surrogate pair is no character", token)
            if self._peek().kind == "range":
                self._at += 1
                return self._range(text, token)
            return _any_case(text) if token.text.endswith("i") else lit(text)
        if token.kind == "regex":
            body, _, flags = token.text[1:].rpartition("/")
            if set(flags) - set("isu"):
                self._fail(
                    f"of the flags {flags!r} of a regex, only i, s and u are supported", token
                )
            body = body.replace("\\/", "/")
            modifiers = "".join(sorted(set(flags) - {"u"}))
            return self._pattern(f"(?{modifiers}:{body})" if modifiers else body, token)
        if token.kind == "set":
            return self._pattern(_as_ecma_class(token.text), token)
        if token.text == ".":
            return characters.utf8(characters.ALL)
        return self._fail(f"unexpected {token.text!r}", token)

    def _pattern(self, pattern: str, token: _Token) -> Node:
        try:
            return set_source(pattern, lexeme(matching(pattern, characters.utf8, search=False)))
        except GrammarError as error:
            self._fail(error.message, token)

    def _range(self, first: str, token: _Token) -> Node:
        end = self._next()
        last = self._unquoted(end)
        if token.text.endswith("i") or end.text.endswith("i"):
            self._fail("a range has no flag: write both cases", token)
        if len(first) != 1 or len(last) != 1 or first > last:
            self._fail("a range goes from one character to a later one", token)
        return characters.utf8(((ord(first), ord(last)),))

    def _unquoted(self, token: _Token) -> str:
        if token.kind != "string":
            self._fail(f"a string is expected, not {token.text!r}", token)
        body = token.text[1 : token.text.rindex('"')]
        return re.sub(_ESCAPE, lambda m: self._unescaped(m, token), body)

    def _unescaped(self, match: re.Match[str], token: _Token) -> str:
        code = match["x"] or match["u"] or match["U"]
        if code:
            if int(code, 16) > 0x10FFFF or 0xD800 <= int(code, 16) <= 0xDFFF:
                self._fail(f"{match[0]} is no character", token)
            return chr(int(code, 16))
        known = {"n": "\n", "t": "\t", "r": "\r", "f": "\f", "v": "\v", "b": "\b"}
        if match[1] not in known and match[1].isalnum():
            self._fail(f"{match[0]!r} is no escape of a string", token)
        return known.get(match[1], match[1])

    # -- tokens -------------------------------------------------------------------------------

    def _peek(self) -> _Token:
        return self._tokens[self._at]

    def _next(self) -> _Token:
        token = self._tokens[self._at]
        self._at = min(self._at + 1, len(self._tokens) - 1)
        return token

    def _take(self, text: str) -> bool:
        token = self._peek()
        if token.text == text and token.kind == "punct":
            self._at += 1
            return True
        return False

    def _skip_lines(self) -> None:
        while self._peek().kind == "newline":
            self._at += 1

    def _continues_with(self, text: str) -> bool:
        """Whether ``text`` comes next, possibly on a later line; moves behind it if so."""
        before = self._at
        self._skip_lines()
        if self._take(text):
            self._skip_lines()
            return True
        self._at = before
        return False

    def _fail(self, message: str, token: _Token) -> NoReturn:
        raise GrammarError(message, line=token.line)


_ESCAPE = re.compile(r"\\(x(?P<x>[0-9a-fA-F]{2})|u(?P<u>[0-9a-fA-F]{4})|U(?P<U>[0-9a-fA-F]{8})|.)")


def _tokens(text: str, dialect: _Dialect) -> Iterator[_Token]:
    at, line = 0, 1
    while at < len(text):
        match = dialect.token.match(text, at)
        if match is None:
            raise GrammarError(f"unexpected {text[at]!r}", line=line)
        kind = match.lastgroup or ""
        if kind == "json":
            end = _end_of_json(text, match.end(), line)
            yield _Token(kind, text[match.end() : end], line)
            line += text.count("\n", at, end)
            at = end
            continue
        if kind not in ("space", "comment"):
            yield _Token(kind, match[kind], line)
        line += match[0].count("\n")
        at = match.end()
    yield _Token("end", "the end", line)


def _end_of_json(text: str, at: int, line: int) -> int:
    """Return where the JSON text behind ``at`` ends."""
    while text[at : at + 1].isspace():
        at += 1
    try:
        return json.JSONDecoder().raw_decode(text, at)[1]
    except (ValueError, RecursionError) as error:
        raise GrammarError(f"a JSON Schema is expected behind %json: {error}", line=line) from None


def _as_ecma_class(text: str) -> str:
    r"""Write a GBNF class for the regex reader: only ``\UHHHHHHHH`` and an inner ``[`` differ."""
    text = re.sub(r"\\U([0-9a-fA-F]{8})", lambda m: f"\\u{{{int(m[1], 16):x}}}", text)
    return text[0] + text[1:-1].replace("\\[", "[").replace("[", "\\[") + text[-1]


def _any_case(text: str) -> Node:
    return seq(*(alt(*(lit(c) for c in sorted({char.lower(), char.upper()}))) for char in text))


def _without_left_recursion(name: str, node: Node) -> Node:
    """Rewrite ``A = A x | A y | b | c`` as ``A = (b | c)(x | y)*`` (Paull's step for one rule)."""
    options = node.options if isinstance(node, Alternation) else (node,)
    this = Ref(name)
    tails, heads = [], []
    for option in options:
        parts = option.parts if isinstance(option, Concat) else (option,)
        if parts and parts[0] is this:
            tails.append(seq(*parts[1:]))
        else:
            heads.append(option)
    if not tails:
        return node
    return seq(alt(*heads), many(alt(*(tail for tail in tails if tail is not EMPTY))))
