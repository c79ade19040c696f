"""Reads tests that are written in Rust, as far as data goes: cases, literals, ``json!``, loops, comparisons, formatted texts.

A file's tests are run with functions given for those that judge (``json_schema_check`` ...). What a test asks of Rust beyond
that raises :class:`Beyond`, and leaves the test out.
"""

# ruff: noqa: INP001 - a script, not a package

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

_TOKEN = re.compile(
    r"""(?P<skip>\s+|//[^\n]*|/\*.*?\*/)
    |(?P<raw>r(?P<fence>\#*)".*?"(?P=fence))
    |(?P<string>"(?:\\.|[^"\\])*")
    |(?P<char>'(?:\\(?:u\{[0-9a-fA-F]+\}|x..|.)|[^'\\])')
    |(?P<lifetime>'\w+)
    |(?P<number>\d[\d_]*(?:\.\d[\d_]*)?(?:[eE][+-]?\d+)?(?:[iuf](?:8|16|32|64|size))?)
    |(?P<name>[A-Za-z_]\w*(?:::[A-Za-z_]\w*)*!?(?=[^=]|==)|[A-Za-z_]\w*)
    |(?P<sign>\.\.=|\.\.|=>|->|==|!=|<=|>=|&&|\|\||\#\[|::|[-+*/%&|!<>=.,;:?(){}\[\]@\#])""",
    re.VERBOSE | re.DOTALL,
)
_ESCAPE = re.compile(r"\\(?:u\{(?P<u>[0-9a-fA-F]+)\}|x(?P<x>..)|\r?\n\s*|(?P<c>.))", re.DOTALL)
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "0": "\0"}
_LEVELS = (
    ("||",),
    ("&&",),
    ("==", "!=", "<", ">", "<=", ">="),
    ("..=", ".."),
    ("+", "-"),
    ("*", "/", "%"),
)
Env = dict[str, Any]
Expression = Callable[[Env], Any]


class Beyond(Exception):
    """A test asks for more of Rust than is read here."""


@dataclass(frozen=True)
class Token:
    """A token, and the line that it stands on."""

    kind: str
    text: str
    line: int


def tokens(source: str) -> Iterator[Token]:
    """Yield the tokens of a file."""
    at, line = 0, 1
    while at < len(source):
        match = _TOKEN.match(source, at)
        if match is None:
            raise Beyond(f"line {line}")
        kind = match.lastgroup or ""
        kind = "raw" if match["raw"] else kind
        if kind != "skip":
            yield Token(kind, match[0], line)
        line += match[0].count("\n")
        at = match.end()
    yield Token("end", "", line)


def compact(value: Any) -> str:
    """Write a value as serde_json does."""
    if isinstance(value, dict):
        return "{" + ",".join(f"{compact(k)}:{compact(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ",".join(map(compact, value)) + "]"
    if isinstance(value, float):
        return re.sub(r"e\+?(-?)0*(\d)", r"e\1\2", repr(value))
    return json.dumps(value, ensure_ascii=False)


@dataclass
class Function:
    """A function of the file: its parameters with the values they take, its cases, its body."""

    name: str
    is_test: bool
    parameters: list[tuple[str, list[Expression] | None]]
    cases: list[tuple[str, list[Expression]]]
    body: Expression | None

    def calls(self, env: Env) -> Iterator[tuple[str, Env]]:
        """Yield each combination of arguments that the test is run with, and what it is called."""
        given = [
            [(name, one) for one in values or ()]
            for name, values in self.parameters
            if values is not None
        ]
        from_cases = [name for name, values in self.parameters if values is None]
        for label, arguments in self.cases or [("", [])]:
            fixed = dict(zip(from_cases, (one(env) for one in arguments), strict=True))
            for some in itertools.product(*given):
                chosen = {name: one(env) for name, one in some}
                shown = [label] if label else []
                shown += [compact(value) for value in chosen.values()]
                yield f"{self.name}[{'-'.join(shown)}]" if shown else self.name, fixed | chosen


class Stop(Exception):
    """The value that a function returns early."""


@dataclass
class Reader:
    """Reads the functions and constants of a file."""

    source: str
    functions: dict[str, Function] = field(default_factory=dict)
    constants: dict[str, Expression] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._tokens = list(tokens(self.source))
        self._at = 0
        attributes: list[tuple[str, list[Expression]]] = []
        while (token := self._peek()).kind != "end":
            if token.text == "#[":
                attributes.append(self._attribute())
            elif token.text == "fn":
                self._function(attributes)
                attributes = []
            elif token.text in ("const", "static"):
                self._constant()
            elif token.text in ("use", "pub", "mod", "lazy_static!", "}", "(", "crate", ")", "{"):
                self._next()
                if token.text == "use":
                    self._skip_to(";")
            else:
                self._next()

    # -- items --------------------------------------------------------------------------------------

    def _attribute(self) -> tuple[str, list[Expression]]:
        self._expect("#[")
        name = self._next().text
        arguments = (
            self._arguments() if self._peek().text == "(" and re.match("case|values", name) else []
        )
        depth = 1
        while depth:
            text = self._next().text
            depth += {"[": 1, "#[": 1, "]": -1}.get(text, 0)
        return name, arguments

    def _constant(self) -> None:
        self._next()
        if self._peek().text == "ref":
            self._next()
        name = self._next().text
        self._skip_to("=")
        self.constants[name] = self._expression()
        self._expect(";")

    def _function(self, attributes: list[tuple[str, list[Expression]]]) -> None:
        self._expect("fn")
        name = self._next().text
        self._expect("(")
        parameters: list[tuple[str, list[Expression] | None]] = []
        while self._peek().text != ")":
            values: list[Expression] | None = None
            while self._peek().text == "#[":
                kind, arguments = self._attribute()
                values = arguments if kind == "values" else values
            parameters.append((self._next().text, values))
            self._skip_type()
        self._next()
        while self._peek().text != "{":
            self._next()
        cases = [
            (kind.partition("::")[2] or str(number), arguments)
            for number, (kind, arguments) in enumerate(
                one for one in attributes if one[0].startswith("case")
            )
        ]
        is_test = any(kind in ("test", "rstest") for kind, _ in attributes)
        begin = self._at
        try:
            body: Expression | None = self._block()
        except Beyond:
            body = None
            self._at = begin
            self._skip_braces()
        self.functions[name] = Function(name, is_test, parameters, cases, body)

    def _skip_type(self) -> None:
        depth = 0
        while True:
            text = self._peek().text
            if depth == 0 and text in (",", ")"):
                if text == ",":
                    self._next()
                return
            depth += {"<": 1, "(": 1, "[": 1, ">": -1, ")": -1, "]": -1}.get(text, 0)
            self._next()

    def _skip_braces(self) -> None:
        depth = 0
        while True:
            depth += {"{": 1, "}": -1}.get(self._next().text, 0)
            if depth == 0:
                return

    # -- statements ---------------------------------------------------------------------------------

    def _block(self) -> Expression:
        self._expect("{")
        steps: list[Expression] = []
        last: Expression = _nothing
        while self._peek().text != "}":
            last = self._statement()
            steps.append(last)
            if self._peek().text == ";":
                self._next()
                last = _nothing
        self._next()

        def run(env: Env) -> Any:
            value = None
            for step in steps:
                value = step(env)
            return None if last is _nothing else value

        return run

    def _statement(self) -> Expression:
        text = self._peek().text
        if text in ("let", "const"):
            return self._let()
        if text == "for":
            return self._for()
        if text == "#[":
            self._attribute()
            return self._statement()
        return self._expression()

    def _let(self) -> Expression:
        self._next()
        if self._peek().text == "mut":
            self._next()
        name = self._next()
        if name.kind != "name":
            raise Beyond("a pattern")
        while self._peek().text != "=":
            if self._next().text == ";":
                raise Beyond("a name without a value")
        self._next()
        value = self._expression()
        return lambda env: env.__setitem__(name.text, value(env))

    def _for(self) -> Expression:
        self._next()
        names = [self._next().text]
        if names == ["("]:
            names = []
            while self._peek().text != "in":
                names += [one.text for one in [self._next()] if one.kind == "name"]
        self._expect("in")
        over = self._expression()
        body = self._block()

        def run(env: Env) -> None:
            for value in over(env):
                env.update(zip(names, value if len(names) > 1 else [value], strict=True))
                body(env)

        return run

    # -- expressions --------------------------------------------------------------------------------

    def _expression(self, level: int = 0) -> Expression:
        if level == len(_LEVELS):
            return self._unary()
        left = self._expression(level + 1)
        while self._peek().text in _LEVELS[level]:
            left = _binary(self._next().text, left, self._expression(level + 1))
        return left

    def _unary(self) -> Expression:
        text = self._peek().text
        if text in ("&", "*", "&&"):
            self._next()
            if self._peek().text == "mut":
                self._next()
            return self._unary()
        if text in ("-", "!"):
            self._next()
            inner = self._unary()
            return (lambda env: -inner(env)) if text == "-" else (lambda env: not inner(env))
        return self._postfix(self._primary())

    def _postfix(self, value: Expression) -> Expression:
        while True:
            text = self._peek().text
            if text == ".":
                self._next()
                name = self._next().text
                arguments = self._arguments() if self._peek().text == "(" else None
                value = _method(value, name, arguments)
            elif text == "as":
                self._next()
                self._next()
            elif text == "?":
                self._next()
            else:
                return value

    def _primary(self) -> Expression:
        token = self._next()
        match token.kind, token.text:
            case "string" | "raw" | "char", text:
                return _constant(_unquoted(text))
            case "number", text:
                return _constant(_number(text))
            case _, "(":
                return self._tuple()
            case _, "[":
                return self._list("]")
            case _, "{":
                self._at -= 1
                return self._block()
            case "name", "true" | "false":
                return _constant(token.text == "true")
            case "name", "match":
                return self._match()
            case "name", "if":
                return self._if()
            case (
                "name",
                "json!" | "vec!" | "format!" | "concat!" | "assert!" | "assert_eq!" | "println!",
            ):
                return self._macro(token.text)
            case "name", name if not name.endswith("!"):
                return self._name(token)
        raise Beyond(token.text)

    def _name(self, token: Token) -> Expression:
        name = token.text.removeprefix("super::")
        if self._peek().text != "(":
            return lambda env: _looked_up(env, name)
        arguments = self._arguments()

        def call(env: Env) -> Any:
            function = _looked_up(env, name)
            if isinstance(function, Function):
                if function.body is None:
                    raise Beyond(f"the function {name}")
                names = [one for one, _ in function.parameters]
                return function.body(
                    env | dict(zip(names, (one(env) for one in arguments), strict=True))
                )
            return function(token.line, *(one(env) for one in arguments))

        return call

    def _tuple(self) -> Expression:
        parts = []
        is_tuple = False
        while self._peek().text != ")":
            parts.append(self._expression())
            if self._peek().text == ",":
                self._next()
                is_tuple = True
        self._next()
        return (lambda env: tuple(one(env) for one in parts)) if is_tuple else parts[0]

    def _list(self, end: str) -> Expression:
        parts = []
        while self._peek().text != end:
            parts.append(self._expression())
            if self._peek().text == ",":
                self._next()
        self._next()
        return lambda env: [one(env) for one in parts]

    def _arguments(self) -> list[Expression]:
        self._expect("(")
        parts = []
        while self._peek().text != ")":
            parts.append(self._expression())
            if self._peek().text == ",":
                self._next()
        self._next()
        return parts

    def _if(self) -> Expression:
        condition, then = self._expression(), self._block()
        otherwise: Expression = _nothing
        if self._peek().text == "else":
            self._next()
            otherwise = self._statement() if self._peek().text == "if" else self._block()
        return lambda env: then(env) if condition(env) else otherwise(env)

    def _match(self) -> Expression:
        value = self._expression()
        self._expect("{")
        arms: list[tuple[Expression, Expression]] = []
        while self._peek().text != "}":
            pattern = (
                _constant(...) if self._peek().text == "_" and self._next() else self._expression()
            )
            self._expect("=>")
            arms.append((pattern, self._expression()))
            if self._peek().text == ",":
                self._next()
        self._next()

        def run(env: Env) -> Any:
            found = value(env)
            for pattern, then in arms:
                wanted = pattern(env)
                if wanted is ... or wanted == found:
                    return then(env)
            raise Beyond("no arm of a match")

        return run

    def _macro(self, name: str) -> Expression:
        if name == "vec!":
            self._next()
            return self._list("]")
        if name == "json!":
            self._expect("(")
            value = self._json()
            self._expect(")")
            return value
        arguments = self._arguments()
        if name in ("assert!", "assert_eq!", "println!"):
            return _nothing
        if name == "concat!":
            return lambda env: "".join(one(env) for one in arguments)
        return lambda env: _formatted(env, *(one(env) for one in arguments))

    def _json(self) -> Expression:
        text = self._peek().text
        if text == "null":
            self._next()
            return _nothing
        if text == "[":
            self._next()
            parts = []
            while self._peek().text != "]":
                parts.append(self._json())
                if self._peek().text == ",":
                    self._next()
            self._next()
            return lambda env: [one(env) for one in parts]
        if text != "{":
            return self._expression()
        self._next()
        members = []
        while self._peek().text != "}":
            key = self._expression()
            self._expect(":")
            members.append((key, self._json()))
            if self._peek().text == ",":
                self._next()
        self._next()
        return lambda env: {key(env): value(env) for key, value in members}

    # -- tokens -------------------------------------------------------------------------------------

    def _peek(self) -> Token:
        return self._tokens[self._at]

    def _next(self) -> Token:
        token = self._tokens[self._at]
        if token.kind == "end":
            raise Beyond("the end")
        self._at += 1
        return token

    def _expect(self, text: str) -> None:
        token = self._next()
        if token.text != text:
            raise Beyond(f"{token.text!r} in line {token.line}")

    def _skip_to(self, text: str) -> None:
        while self._next().text != text:
            pass

    def environment(self, functions: Mapping[str, Any]) -> Env:
        """Return what a body may name: these functions, those of the file, its constants."""
        env: Env = {**self.functions, **functions}
        for name, value in self.constants.items():
            try:
                env[name] = value(env)
            except Beyond:
                continue
        return env


def _nothing(_: Env) -> None:
    return None


def _constant(value: Any) -> Expression:
    return lambda _: value


def _looked_up(env: Env, name: str) -> Any:
    if name in env:
        return env[name]
    if "::" in name and name.rpartition("::")[2][:1].isupper():
        return name  # a variant of an enumeration
    raise Beyond(name)


def _unquoted(text: str) -> str:
    if text.startswith("r"):
        fence = text[1 : text.index('"')]
        return text[len(fence) + 2 : -1 - len(fence)]

    def character(found: re.Match[str]) -> str:
        if found["u"] or found["x"]:
            return chr(int(found["u"] or found["x"], 16))
        return _ESCAPES.get(found["c"], found["c"]) if found["c"] else ""

    return _ESCAPE.sub(character, text[1:-1])


def _number(text: str) -> int | float:
    plain = re.sub(r"_|[iuf](8|16|32|64|size)$", "", text)
    return float(plain) if re.search(r"[.eE]", plain) else int(plain)


def _binary(sign: str, left: Expression, right: Expression) -> Expression:
    def run(env: Env) -> Any:
        a = left(env)
        if sign in ("&&", "||"):
            return (a and right(env)) if sign == "&&" else (a or right(env))
        b = right(env)
        match sign:
            case "==":
                return a == b
            case "!=":
                return a != b
            case "<":
                return a < b
            case ">":
                return a > b
            case "<=":
                return a <= b
            case ">=":
                return a >= b
            case "..=":
                return range(a, b + 1)
            case "..":
                return range(a, b)
            case "+":
                return a + b
            case "-":
                return a - b
            case "*":
                return a * b
            case "%":
                # Rust's remainder has the sign of the dividend; only whether it is 0 is asked.
                return a % b
        raise Beyond(sign)

    return run


def _method(value: Expression, name: str, arguments: list[Expression] | None) -> Expression:
    def run(env: Env) -> Any:
        this = value(env)
        given = [one(env) for one in arguments or ()]
        match name:
            case (
                "as_str"
                | "clone"
                | "into"
                | "iter"
                | "to_vec"
                | "unwrap"
                | "expect"
                | "into_iter"
                | "as_ref"
            ):
                return this
            case "to_string" | "to_owned":
                return this if isinstance(this, str) else compact(this)
            case "len":
                return len(this.encode()) if isinstance(this, str) else len(this)
            case "abs":
                return abs(this)
            case "repeat":
                return this * given[0]
            case "is_empty":
                return not this
            case "join":
                return given[0].join(this)
            case "replace":
                return this.replace(*given)
        raise Beyond(f".{name}")

    return run


def _formatted(env: Env, pattern: str, *given: Any) -> str:
    rest = iter(given)

    def shown(found: re.Match[str]) -> str:
        if found[0] in ("{{", "}}"):
            return found[0][0]
        name = found[1]
        value = (
            next(rest)
            if not name
            else given[int(name)]
            if name.isdigit()
            else _looked_up(env, name)
        )
        return value if isinstance(value, str) else compact(value)

    return re.sub(r"\{\{|\}\}|\{(\w*)\}", shown, pattern)
