"""llama.cpp's tests of chat formats as a ratchet: outputs of models, and the calls that they mean.

The cases are read at run time from ``tests/test-chat.cpp`` in a copy of llama.cpp (``python ratchets/fetch.py
--peers``): each chain ``tst.test(OUTPUT).tools(...).expect(...)`` is one, under the chat template that its
tester names. Nothing of theirs is committed; results are by template and number of the case.

A case is "passed" if the format that :func:`callmemaybe.wire.detect` finds for the template reads the output,
cut at every byte, as the calls, the text and the thought that llama.cpp expects (white space around text and
thought aside). Whether a model's prompt has opened its thought is not in the output: one that is closed
and was never opened counts as opened by the prompt.
"""

# ruff: noqa: INP001 - a script, not a package

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from peer_tests import judged

from callmemaybe.errors import CallMeMaybeError, InputError, ModelError
from callmemaybe.grammar.nodes import Control
from callmemaybe.tools import (
    ArgumentsDelta,
    CallStarted,
    StreamEvent,
    TextDelta,
    ThoughtDelta,
    ToolSpec,
)
from callmemaybe.wire import Format, detect, formats
from callmemaybe.wire.format_nodes import ArgumentsNode, TextNode, ThoughtNode, TokenNode, leaves
from callmemaybe.wire.prompt import split_controls

SOURCE = "tests/test-chat.cpp"
DESCRIPTION = "llama.cpp as llama-cpp-python 0.3.36 ships it, tests/test-chat.cpp"


class Unreadable(Exception):
    """A part of the C++ that this reader does not evaluate."""


# -- the C++ --------------------------------------------------------------------------------------

_TOKENS = re.compile(
    r'R"(?P<mark>[^(\s]*)\((?P<raw>.*?)\)(?P=mark)"'
    r"|\"(?P<text>(?:[^\"\\\n]|\\.)*)\"|(?P<comment>//[^\n]*|/\*.*?\*/)"
    r"|(?P<word>[A-Za-z_]\w*(?:::\w+)*)|(?P<number>\d+)|(?P<char>'(?:[^'\\]|\\.)')|(?P<mark2>\S)",
    re.DOTALL,
)


@dataclass(frozen=True)
class Token:
    """A string's value, or a word, number or mark, and where it begins."""

    kind: str
    text: str
    start: int


def tokens(source: str) -> list[Token]:
    """Return the tokens of C++ without comments; neighbouring strings are one."""
    found: list[Token] = []
    for match in _TOKENS.finditer(source):
        kind = match.lastgroup
        if match["raw"] is not None or match["text"] is not None:
            text = match["raw"] if match["raw"] is not None else unescape(match["text"])
            if found and found[-1].kind == "string":
                found[-1] = Token("string", found[-1].text + text, found[-1].start)
            else:
                found.append(Token("string", text, match.start()))
        elif kind != "comment":
            found.append(
                Token(kind if kind in ("word", "number") else "mark", match[0], match.start())
            )
    return found


def unescape(text: str) -> str:
    """Return the value of the inside of a C++ string literal."""
    simple = {"n": "\n", "t": "\t", "r": "\r", "0": "\0", '"': '"', "'": "'", "\\": "\\"}
    data = bytearray()
    at = 0
    while at < len(text):
        if text[at] != "\\":
            data += text[at].encode()
            at += 1
        elif text[at + 1] == "x":
            match = re.match(r"[0-9a-fA-F]+", text[at + 2 :])
            assert match is not None
            data.append(int(match[0], 16))
            at += 2 + len(match[0])
        elif text[at + 1] in "uU":
            size = 4 if text[at + 1] == "u" else 8
            data += chr(int(text[at + 2 : at + 2 + size], 16)).encode()
            at += 2 + size
        else:
            data += simple[text[at + 1]].encode()
            at += 2
    return data.decode("utf-8", "replace")


@dataclass
class Call:
    """A call of a function in C++, with its arguments as values."""

    name: str
    arguments: list[Any]


@dataclass
class Reader:
    """Evaluates the few expressions that the tests are made of."""

    tokens: list[Token]
    names: dict[str, Any] = field(default_factory=dict)
    at: int = 0

    def peek(self) -> str:
        """Return the text of the next token."""
        return self.tokens[self.at].text if self.at < len(self.tokens) else ""

    def mark(self, text: str) -> bool:
        """Take this mark, if it is next."""
        if self.at < len(self.tokens) and self.tokens[self.at] == Token(
            "mark", text, self.tokens[self.at].start
        ):
            self.at += 1
            return True
        return False

    def value(self) -> Any:
        """Evaluate an expression: a literal, a list, a name, a call, or a sum of those."""
        left = self.term()
        while self.mark("+"):
            left += self.term()
        return left

    def term(self) -> Any:
        """Evaluate one summand."""
        token = self.tokens[self.at]
        self.at += 1
        if token.kind == "string":
            return token.text
        if token.kind == "number":
            return int(token.text)
        if token.text == "{":
            return self.rest("}")
        if token.kind != "word":
            raise Unreadable(token.text)
        if self.mark("("):
            arguments = self.rest(")")
            if token.text in ("std::string", "std::move"):
                return arguments[0]
            return self.made(Call(token.text, arguments))
        if self.mark("{"):
            return self.rest("}")
        if token.text in ("true", "false"):
            return token.text == "true"
        if token.text in self.names:
            return self.names[token.text]
        return Call(token.text, [])

    def rest(self, end: str) -> list[Any]:
        """Evaluate up to a closing mark, designators (``.name =``) aside."""
        found: list[Any] = []
        while not self.mark(end):
            if self.mark("."):
                self.at += 2
            found.append(self.value())
            if not self.mark(",") and self.peek() != end:
                raise Unreadable(self.peek())
        return found

    def made(self, call: Call) -> Any:
        """Return what the helpers of the tests make."""
        given = call.arguments

        def message(content: str = "", thought: str = "", calls: list[Any] | None = None) -> Any:
            return {"content": content, "thought": thought, "calls": calls or []}

        match call.name:
            case "simple_assist_msg":
                name, arguments = [*given[2:4], "", ""][:2]
                return message(*given[:2], calls=[[name, arguments]] if name else [])
            case "message_with_tool_calls":
                return message(calls=[given])
            case "message_with_tool_calls_and_reasoning":
                return message("", given[2], [given[:2]])
            case "message_with_reasoning_content_and_multiple_tool_calls":
                return message(given[1], given[0], given[2])
            case "message_with_content_and_tool_call":
                return message(given[0], "", [given[1:3]])
            case "message_with_reasoning_and_tool_call":
                return message("", given[0], [given[1:3]])
        return call


# -- the cases ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ChatCase:
    """One output of a model and what llama.cpp reads in it."""

    name: str
    template: str
    output: str
    options: dict[str, Any]


def constants(source: list[Token]) -> dict[str, Any]:
    """Return the messages and tools that the tests refer to by name."""
    names: dict[str, Any] = {}
    for index, token in enumerate(source):
        kind = token.text
        if kind not in ("common_chat_msg", "common_chat_tool", "string", "std::string", "char"):
            continue
        at = index + 1 + (source[index + 1].text == "*")
        if at + 1 >= len(source) or source[at].kind != "word" or source[at + 1].text not in "={":
            continue
        reader = Reader(source, names, at + 1 + (source[at + 1].text == "="))
        try:
            value = reader.value()
        except (Unreadable, IndexError, TypeError):
            continue
        if kind == "common_chat_tool" and isinstance(value, list) and len(value) == 3:
            value = {"tool": value}
        names[source[at].text] = value
    return names


def cases(root: Path) -> Iterator[ChatCase | str]:
    """Yield the cases of test-chat.cpp; a text is the reason why one could not be read."""
    source = tokens((root / SOURCE).read_text("utf-8"))
    names = constants(source)
    loops = _loops(source)
    testers: dict[str, list[str]] = {}
    numbers: Counter[str] = Counter()
    for index, token in enumerate(source):
        following = [one.text for one in source[index + 1 : index + 4]]
        if following[:2] == ["=", "peg_tester"]:
            given = source[index + 4]
            testers[token.text] = (
                [given.text] if given.kind == "string" else loops.get(given.text, [])
            )
        if token.text not in testers or following != [".", "test", "("]:
            continue
        try:
            output, options = _chain(Reader(source, names, index + 4))
        except (Unreadable, IndexError, TypeError) as error:
            yield f"line of character {token.start}: {error!r}"
            continue
        for template in testers[token.text]:
            stem = Path(template).stem
            numbers[stem] += 1
            yield ChatCase(f"{stem} {numbers[stem]}", template, output, options)


def _loops(source: list[Token]) -> dict[str, list[str]]:
    """Return the templates that each loop variable, and the parameter it is handed to, goes through."""
    found: dict[str, list[str]] = {"template_path": []}
    for index, token in enumerate(source):
        if token.text == ":" and source[index + 1].text == "{" and source[index - 1].kind == "word":
            reader = Reader(source, {}, index + 1)
            try:
                values = reader.value()
            except (Unreadable, IndexError):
                continue
            if values and all(isinstance(one, str) and one.endswith(".jinja") for one in values):
                found[source[index - 1].text] = values
    for index, token in enumerate(source):
        if token.text == "test_lfm2_parser" and source[index + 2].text in found:
            found["template_path"] = found[source[index + 2].text]
    return found


def _chain(reader: Reader) -> tuple[str, dict[str, Any]]:
    """Read ``test(...)`` from behind its bracket, and the calls that are chained to it."""
    (output,) = reader.rest(")")
    options: dict[str, Any] = {}
    while reader.mark("."):
        name = reader.tokens[reader.at].text
        reader.at += 2
        given = reader.rest(")")
        if name == "run":
            return output, options
        options[name] = given[0] if given else True
    raise Unreadable(reader.peek())


# -- the answers ----------------------------------------------------------------------------------


@cache
def all_tokens() -> frozenset[str]:
    """Return the control tokens of all formats."""
    found: set[str] = set()
    for form in map(formats.get, formats.names()):
        found |= tokens_of(form)
    return frozenset(found)


@cache
def tokens_of(form: Format) -> frozenset[str]:
    """Return the control tokens that the model of a format writes."""
    found = set(form.controls)
    for leaf in leaves(form.tree):
        nodes = (*leaf.begin.nodes, *leaf.end.nodes) if isinstance(leaf, ThoughtNode) else (leaf,)
        found |= {one.text for one in nodes if isinstance(one, TokenNode)}
        if isinstance(leaf, ArgumentsNode):
            found |= {*leaf.syntax.tokens, leaf.syntax.fence} - {""}
    return frozenset(found)


def form_of(template: str, stem: str) -> Format | None:
    """Return the format of a chat template, whose vocabulary has the tokens it mentions."""
    have = {token for token in all_tokens() if token in template}
    if stem.startswith("LFM"):  # its tokens are in no template of the family
        have |= {"<|tool_call_start|>", "<|tool_call_end|>"}
    have |= {"｜DSML｜"} if "DSML" in template else set()
    if ":opensource" in template or "hy_" in template:
        have |= {
            token for token in all_tokens() if token.endswith(":opensource>") or "hy_" in token
        }
    try:
        return detect(template, frozenset(have))
    except ModelError:
        return None


def message_of(events: list[StreamEvent]) -> dict[str, Any]:
    """Return what was read, in the shape of the tests."""
    content, thought = bytearray(), bytearray()
    calls: list[list[Any]] = []
    for event in events:
        match event:
            case TextDelta():
                content += event.data
            case ThoughtDelta():
                thought += event.data
            case CallStarted():
                calls.append([event.name, b""])
            case ArgumentsDelta():
                calls[event.index][1] += event.data
    return {
        "content": content.decode("utf-8", "replace"),
        "thought": thought.decode("utf-8", "replace"),
        "calls": [[name, data.decode("utf-8", "replace")] for name, data in calls],
    }


def read(form: Format, output: str, tools: list[ToolSpec], *, partial: bool) -> dict[str, Any]:
    """Read an output whole and byte by byte; both must give the same. Raises InputError."""
    for leaf in leaves(form.tree):
        if isinstance(leaf, ThoughtNode):
            begin, end = (
                "".join(one.text for one in node.nodes if isinstance(one, TextNode | TokenNode))
                for node in (leaf.begin, leaf.end)
            )
            if (
                end.strip() in output
                and begin.strip() not in output.split(end.strip(), maxsplit=1)[0]
            ):
                output = begin + output
    controls = tokens_of(form)
    parts = split_controls(output, controls)
    results = []
    for pieces in (parts, [piece for part in parts for piece in _bytes(part)]):
        reader = form.reader(tools, controls=controls)
        events = [event for piece in pieces for event in reader.feed(piece)]
        if not partial:
            events += reader.end()
        results.append(message_of(events))
    assert results[0] == results[1], "cutting a stream changed what was read"
    return results[0]


def _bytes(part: str | Control) -> list[bytes | Control]:
    return [part] if isinstance(part, Control) else [bytes([one]) for one in part.encode()]


def tools_of(options: dict[str, Any]) -> list[ToolSpec]:
    """Return the tools of a case."""
    found = []
    for one in options.get("tools", []):
        name, description, parameters = one["tool"] if isinstance(one, dict) else one
        found.append(ToolSpec(name, description, json.loads(parameters)))
    return found


def expected(options: dict[str, Any]) -> dict[str, Any]:
    """Return the message that a case expects."""
    message = options.get("expect", {"content": "", "thought": "", "calls": []})
    if isinstance(message, Call):
        raise Unreadable(message.name)
    message = dict(message)
    if "expect_content" in options:
        message["content"] = options["expect_content"]
    if "expect_reasoning" in options:
        message["thought"] = options["expect_reasoning"]
    if "expect_tool_calls" in options:
        message["calls"] = options["expect_tool_calls"]
    message["calls"] = [one[:2] for one in message["calls"]]
    return message


def agrees(found: dict[str, Any], wanted: dict[str, Any], *, partial: bool) -> str | None:
    """Return how what was read differs from what is expected, None if it does not."""
    for key in ("content", "thought"):
        if found[key].strip() != wanted[key].strip():
            return key
    if [one[0] for one in found["calls"]] != [one[0] for one in wanted["calls"]]:
        return "names"
    for (_, ours), (_, theirs) in zip(found["calls"], wanted["calls"], strict=True):
        if partial:
            short, long = sorted((re.sub(r"\s", "", text) for text in (ours, theirs)), key=len)
            if not long.startswith(short.rstrip('"}]')):
                return "arguments so far"
        elif json.loads(ours) != json.loads(theirs or "{}"):
            return "arguments"
    return None


def judge(root: Path) -> Iterator[tuple[str, str]]:
    """Yield (name, "passed", or how it is not) for every case."""
    known: dict[str, Format | None] = {}
    for case in cases(root):
        if isinstance(case, str):
            yield case, "not read"
            continue
        if case.template not in known:
            known[case.template] = form_of(
                (root / case.template).read_text("utf-8"), Path(case.template).stem
            )
        form = known[case.template]
        if form is None:
            yield case.name, "no format"
            continue
        yield case.name, _verdict(case, form)


def _verdict(case: ChatCase, form: Format) -> str:
    options = case.options
    if "json_schema" in options:
        return "left out: an answer by a schema"
    if "continue_final_message" in options:
        return "left out: goes on with a message that the prompt begins"
    reasoning = options.get("reasoning_format")
    if isinstance(reasoning, Call) and reasoning.name.endswith("FORMAT_NONE"):
        return "left out: asks for the thought as part of the text"
    partial = options.get("is_partial") is True
    try:
        wanted = expected(options)
    except Unreadable as error:
        return f"not read: {error}"
    try:
        tools = tools_of(options)
        found = read(form, case.output, tools, partial=partial)
    except InputError as error:
        return f"refused: {error}"
    except CallMeMaybeError as error:
        return f"failed: {error}"
    if found["thought"] and reasoning is None:
        return "left out: asks for the thought as part of the text"
    differs = agrees(found, wanted, partial=partial)
    return "passed" if differs is None else f"other {differs}"


#: Why cases differ: words of their names (none: any), words of what came of them, and the reason; the first
#: that fits. They say what our grammars never let a model write, and so our readers do not read.
REASONS = (
    (r"", r"^not read", "left out: its expectation is computed by the C++, which is not evaluated here"),
    (r"MiniMax-M3 18", r"other arguments", "differs: no value holds a control token, also none that may be a string"),
    (r"gemma-2-2b", r"no format", "differs: a template without tools: its model calls nothing"),
    (r"gemma-4", r"<.?channel", "differs: a thought stands once, in front; its tokens cannot be written elsewhere"),
    (r"Qwen3-Coder [345]", r"</tool_call>", "differs: a call begins with its opening tag, which cannot be left out"),
    (r"Kimi-K2-Thinking 13", r"", "differs: calls begin with the token of their section, which cannot be left out"),
    (r"", r"not valid JSON", "differs: where a string or another value may stand, a string that looks like JSON is in quotes"),
    (r"Qwen3.5-4B 15", r"", "differs: whether the prompt has opened the thought cannot be seen in an output"),
    (r"Qwen3.5-4B 12|V4 10|ling-3.0-flash 1$|Thinking 1[12]", r"", "differs: a call in front of which no thought was closed stands behind text"),
    (r"Kimi-K3 4", r"", "differs: whether the prompt has opened the thought cannot be seen in an output"),
    (r"Apriel-1.6", r"other thought", "differs: the words that open a thought are no part of it"),
    (r"command-r-plus-tool_use 1$", r"CHATBOT", "differs: the token that ends a turn is the engine's, and no part of the output"),
    (r"Ministral|LFM2.5-8B|Reka-Edge 10", r"refused", "differs: a thought holds no control token"),
    (r"ling-3.0-flash 5", r"</think>", "differs: a string with the characters of a control token: tokens and text are told apart here"),
    (r"ling-3.0-flash 3", r"", "differs: no text stands behind calls"),
    (r"ling-3.0-flash (9|10)|muse-glimmer [147]", r"", "differs: the token that ends a turn is the engine's, and no part of the output"),
    (r"muse-glimmer 3", r"", "differs: a turn is an answer or calls: no second message behind an answer"),
    (r"Reka-Edge 18", r"", "differs: calls of this family stand right behind each other, as in its template"),
    (r"gpt-oss", r"refused", "differs: harmony's headers in another order, without the content type or its end token: one spelling is written"),
    (r"MiniCPM5", r"", "differs: a string ends at its closing tag; CDATA blocks are not written"),
)  # fmt: skip


def results(root: Path) -> dict[str, str]:
    """Return "passed", "differs: why", "left out: why" or "fails: how" for each case."""
    return {name: judged(name, verdict, REASONS) for name, verdict in judge(root)}


if __name__ == "__main__":
    import sys

    for name, result in results(Path(sys.argv[1])).items():
        if result.startswith("fails"):
            print(name, "|", result)
