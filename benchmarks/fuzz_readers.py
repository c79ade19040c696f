"""The readers of foreign text as the fuzzer drives them: how an input is made, what reads it, what it may raise."""

from __future__ import annotations

import json
import os
import random
import re
import tempfile
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple

import fuzz_seeds as seeds
from fuzz_mutators import changed_bytes, changed_text, changed_value

from callmemaybe import jsonio
from callmemaybe.cli import defaults
from callmemaybe.cli.inputs import read_calls, read_prompts, read_secrets
from callmemaybe.cli.prompts import PromptPlace, open_prompts
from callmemaybe.errors import InputError, ModelOutputError, UpstreamError, VocabularyError
from callmemaybe.grammar import Grammar, export, json_schema, regex
from callmemaybe.grammar import compile as compile_grammar
from callmemaybe.grammar.ebnf import ebnf
from callmemaybe.matching import Matcher
from callmemaybe.models._replies import AnswerReader
from callmemaybe.sources import mcp_servers
from callmemaybe.sources.loading import load_tools
from callmemaybe.testing.vocabularies import ByteVocabulary
from callmemaybe.tools import ToolSpec
from callmemaybe.values import guess_language, other_language, read_values
from callmemaybe.vocabulary import Vocabulary
from callmemaybe.wire import formats
from callmemaybe.wire.prompt import split_controls

ROOT = Path(__file__).parents[1]
Input = tuple[str, str | bytes]


class Reader(NamedTuple):
    """One reader: ``make`` an input (a label, and a text or bytes), ``read`` it; ``may`` be raised."""

    name: str
    make: Callable[[random.Random], Input]
    read: Callable[[str, Any, random.Random], None]
    may: tuple[type[Exception], ...]
    #: Inputs of one process.
    count: int


#: Files of inputs; gone when the process that imports this ends.
_FOLDER = tempfile.TemporaryDirectory(prefix="callmemaybe-fuzz-")
os.environ["CALLMEMAYBE_CACHE"] = str(Path(_FOLDER.name) / "cache")


def put(name: str, content: str | bytes) -> Path:
    """Write a file, and return its path."""
    data = content.encode("utf-8", "surrogatepass") if isinstance(content, str) else content
    path = Path(_FOLDER.name) / name
    path.write_bytes(data)
    return path


# -- JSON -------------------------------------------------------------------------------------------


@cache
def _json_texts() -> list[str]:
    return [*seeds.texts("jsonio/*.py"), *(json.dumps(one) for one in seeds.schemas()[:200])]


def _make_json(draw: random.Random) -> Input:
    texts = _json_texts()
    words = ['"', "\\u", "\\ud800", "null", "true", "1e5", "{}", "[]", '{"a":1,"a":2}', "\\"]
    return "", changed_text(draw.choice(texts), draw, words, texts)


def _read_json(_: str, text: str, draw: random.Random) -> None:
    strict, exact = draw.random() < 0.5, draw.random() < 0.5
    limits = (
        {"max_depth": 64, "max_bytes": 10_000, "max_digits": 100} if draw.random() < 0.3 else {}
    )
    for one in (
        lambda: jsonio.loads(text, strict=strict, exact=exact, **limits),
        lambda: jsonio.dumps(jsonio.loads(text, strict=strict, exact=True)),
        lambda: jsonio.check_syntax(text),
        lambda: jsonio.rewrite(text, compact=exact),
    ):
        with suppress(InputError):
            one()
    jsonio.read(text, source="file")


# -- languages ----------------------------------------------------------------------------------------

KEYWORDS = [
    "type", "properties", "required", "additionalProperties", "items", "prefixItems", "anyOf", "oneOf", "allOf", "not", "if", "then", "else", "enum",
    "const", "pattern", "patternProperties", "propertyNames", "minLength", "maxLength", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum",
    "multipleOf", "minItems", "maxItems", "uniqueItems", "contains", "minContains", "maxContains", "minProperties", "maxProperties", "dependentRequired",
    "dependentSchemas", "dependencies", "unevaluatedItems", "unevaluatedProperties", "$ref", "$defs", "definitions", "$id", "$anchor", "$dynamicRef",
    "$dynamicAnchor", "$recursiveRef", "$recursiveAnchor", "$schema", "format", "default", "title", "description", "contentEncoding", "a", "b", "x-ground",
]  # fmt: skip


def _make_schema(draw: random.Random) -> Input:
    found = seeds.schemas()
    text = changed_value(draw.choice(found), draw, KEYWORDS, found)
    if draw.random() < 0.1:
        text = changed_text(text, draw, [json.dumps(one) for one in KEYWORDS], [text])
    return draw.choice(("spaced", "compact", "flexible")), text


@cache
def _vocabulary() -> ByteVocabulary:
    pieces = [
        '{"',
        '", "',
        '": ',
        '"}',
        "}]",
        ", ",
        "tru",
        "null",
        "12",
        "0.",
        "e-",
        "\\u",
        "aa",
        "é",
        "🙂",
    ]
    return ByteVocabulary(more=[one.encode() for one in pieces], ends=["<end>"])


def _walk(grammar: Grammar, draw: random.Random) -> None:
    """Compile a grammar, and write some tokens of it."""
    matcher = Matcher(compile_grammar(grammar), _vocabulary())
    for _ in range(25):
        bits = matcher.mask()
        ids = [i for i in range(_vocabulary().size) if bits[i >> 5] >> (i & 31) & 1]
        if not ids or matcher.is_terminated:
            break
        forced = matcher.forced()
        matcher.accept(forced[0] if forced else draw.choice(ids))
    if draw.random() < 0.1:
        for write in (export.to_gbnf, export.to_lark, export.to_regex):
            with suppress(InputError):
                write(grammar)


def _read_schema(style: str, text: str, draw: random.Random) -> None:
    # As servers and files are read: exact, and no deeper than 1,000.
    schema = jsonio.loads(text, max_depth=1000)
    _walk(json_schema(schema, style=style), draw)  # type: ignore[arg-type]


def _make_pattern(draw: random.Random) -> Input:
    found = seeds.patterns()
    words = [
        "(?:",
        "(?=",
        "(?!",
        "(?<=",
        "(?i:",
        "(?<n>",
        "\\b",
        "\\B",
        "\\p{L}",
        "\\P{Lu}",
        "\\u{1F600}",
        "\\1",
        "\\k<n>",
        "[^",
        "{2,}",
        "{0,100000}",
        "|",
        "^",
        "$",
        "\\x",
    ]
    return draw.choice(("whole", "schema")), changed_text(draw.choice(found), draw, words, found)


def _read_pattern(how: str, text: str, draw: random.Random) -> None:
    _walk(regex(text) if how == "whole" else json_schema({"type": "string", "pattern": text}), draw)


@cache
def _grammars() -> list[str]:
    found = list(seeds.grammars())
    for schema in seeds.schemas()[:120]:
        for write in (export.to_gbnf, export.to_lark):
            with suppress(InputError):
                found += [write(json_schema(schema))[:6000]]
    return found


def _make_grammar(draw: random.Random) -> Input:
    words = [
        "::=",
        ":",
        "|",
        "start",
        "root",
        "%import common.INT",
        "%ignore",
        "%json {",
        "/a/i",
        '"a".."z"',
        "{2,4}",
        "~2..3",
        "[^\\n]",
        "@",
        "#",
        "//",
        "?",
        "->",
        "!",
    ]
    found = _grammars()
    return "", changed_text(draw.choice(found), draw, words, found)


def _read_grammar(_: str, text: str, draw: random.Random) -> None:
    _walk(ebnf(text), draw)


# -- tools --------------------------------------------------------------------------------------------

PARTS = [
    *KEYWORDS, "openapi", "swagger", "paths", "components", "schemas", "parameters", "requestBody", "content", "application/json", "get", "post",
    "operationId", "in", "name", "path", "query", "header", "schema", "servers", "url", "security", "securitySchemes", "variables", "style", "explode",
    "discriminator", "nullable", "allOf", "consumes", "host", "basePath", "function", "functions", "tools", "input_schema", "arguments",
]  # fmt: skip


@cache
def _documents() -> tuple[list[Any], list[Any]]:
    """Return OpenAPI documents, and definitions of functions."""
    found = seeds.values("sources/*.py", "tools/*.py", "cli/*.py")
    interfaces = [one for one in found if isinstance(one, dict) and "paths" in one]
    made = random.Random(0)
    interfaces += [_interface(made) for _ in range(100)]
    functions = [
        one
        for one in found
        if re.search('"(parameters|input_schema|function)"', json.dumps(one))
        and one not in interfaces
    ]
    functions += [
        json.loads(file.read_text("utf-8")) for file in sorted((ROOT / "data").glob("**/*.json"))
    ]
    return interfaces, functions


def _interface(draw: random.Random) -> dict[str, Any]:
    """Return a document with one operation, whose schemas are those of suites."""
    parameters = [
        {
            "name": name,
            "in": draw.choice(("query", "path", "header", "cookie")),
            "required": True,
            "schema": draw.choice(seeds.schemas()),
        }
        for name in ("id", "b")
    ]
    body = {
        "content": {
            draw.choice(
                ("application/json", "multipart/form-data", "application/x-www-form-urlencoded")
            ): {"schema": draw.choice(seeds.schemas())}
        }
    }
    operation = {
        "operationId": "act",
        "parameters": parameters,
        "requestBody": body,
        "responses": {"200": {"description": "done"}},
    }
    if draw.random() < 0.2:
        parameters += [{"name": "body", "in": "body", "schema": draw.choice(seeds.schemas())}]
        return {
            "swagger": "2.0",
            "host": "a.example",
            "basePath": "/v1",
            "paths": {"/a/{id}": {"post": operation}},
            "definitions": {},
        }
    url = {
        "url": "https://{region}.a.example/v1",
        "variables": {"region": {"default": "eu", "enum": ["eu", "us"]}},
    }
    return {
        "openapi": draw.choice(("3.0.3", "3.1.0")),
        "servers": [url],
        "paths": {"/a/{id}": {"post": operation}},
        "components": {"schemas": {}},
    }


def _make_tools(draw: random.Random, kind: int) -> Input:
    found = _documents()[kind]
    text = changed_value(draw.choice(found), draw, PARTS, found)
    if draw.random() < 0.4:
        import yaml

        with suppress(ValueError, RecursionError):
            text = yaml.safe_dump(json.loads(text))
        words = [
            "- ",
            ": ",
            "&a ",
            "*a",
            "<<: *a",
            "!!int ",
            "|\n",
            "? ",
            "---\n",
            "{",
            "[",
            "1_000",
            "0o7",
            "2026-01-01",
            "~",
            "%YAML 9.9\n",
        ]
        return "tools.yaml", changed_text(text, draw, words, [text])
    if draw.random() < 0.2:
        text = changed_text(text, draw, PARTS, [text])
    return "tools.json", text


def _no_server(*_: object) -> None:
    raise InputError("the fuzzer starts no server")


def _read_tools(name: str, text: str, _: random.Random) -> None:
    mcp_servers._connect = _no_server  # type: ignore[assignment]
    load_tools(put(name, text))


# -- vocabularies -------------------------------------------------------------------------------------


@cache
def _tokenizers() -> list[Any]:
    from tests.vocabulary.samples import train

    small = json.loads(train(320))
    nano = json.loads(
        (Path(str(files("callmemaybe"))) / "data" / "nano" / "tokenizer.json").read_text("utf-8")
    )
    model = nano["model"]
    if "vocab" in model:
        pairs = list(
            model["vocab"].items() if isinstance(model["vocab"], dict) else model["vocab"]
        )[:300]
        model["vocab"] = dict(pairs) if isinstance(model["vocab"], dict) else pairs
    if "merges" in model:
        model["merges"] = []
    return [small, nano]


def _make_tokenizer(draw: random.Random) -> Input:
    words = [
        "model",
        "vocab",
        "merges",
        "added_tokens",
        "pre_tokenizer",
        "normalizer",
        "decoder",
        "type",
        "BPE",
        "Unigram",
        "WordPiece",
        "ByteLevel",
        "Metaspace",
        "Split",
        "content",
        "id",
        "special",
        "byte_fallback",
    ]
    text = changed_value(draw.choice(_tokenizers()), draw, words, _tokenizers())
    return "tokenizer.json", changed_text(
        text, draw, words, [text]
    ) if draw.random() < 0.2 else text


def _read_tokenizer(name: str, text: str, _: random.Random) -> None:
    found = Vocabulary.from_file(put(name, text))
    with suppress(VocabularyError):
        found.encode('{"a": "é🎉"}'.encode())


@cache
def _gguf() -> bytes:
    from tests.training.qwen3_reference import random_tensors, tiny_config
    from tests.vocabulary.test_gguf import split_as
    from training.export.qwen3_gguf import export as write

    config = tiny_config(vocab_size=340, hidden_size=32, num_hidden_layers=1)
    text = split_as(json.dumps(_tokenizers()[0]), "qwen2")
    path = write(
        config,
        random_tensors(config),
        Path(_FOLDER.name) / "seed.gguf",
        kind="f32",
        tokenizer=text,
        pre="qwen2",
        ends={"eos_token_id": 0},
    )
    return path.read_bytes()


def _make_gguf(draw: random.Random) -> Input:
    return "model.gguf", changed_bytes(_gguf(), draw)


def _read_gguf(name: str, data: bytes, _: random.Random) -> None:
    found = Vocabulary.from_file(put(name, data))
    with suppress(VocabularyError):
        found.encode(b'{"a": 1}')


# -- what models and their servers write ------------------------------------------------------------------

TOOLS = [
    ToolSpec("get_weather", "", {"type": "object", "properties": {"unit": {"enum": ["c", "f"]}, "city": {"type": "string"}, "days": {"type": "integer"}}}),
    ToolSpec("ping"),
    ToolSpec("f", "", {"type": "object", "properties": {"list": {"type": "array"}, "any": {}, "object": {"type": "object"}}}),
]  # fmt: skip


@cache
def _golden() -> dict[str, list[str]]:
    """Return the parts of each format's golden conversation that its model wrote, and its whole."""
    found = {}
    for name in formats.names():
        text = (ROOT / "tests" / "wire" / "golden" / f"{name}.txt").read_text("utf-8")
        lines = text.split("\n")
        cuts = [at for at, line in enumerate(lines) if "get_weather" in line or "ping" in line]
        parts = ["\n".join(lines[max(0, at - 2) : at + 4]) for at in cuts]
        found[name] = [re.sub("[«»]", "", one) for one in [*parts, text]]
    return found


def _make_output(draw: random.Random) -> Input:
    name = draw.choice(list(_golden()))
    form = formats.get(name)
    words = [
        *form.controls,
        "get_weather",
        "ping",
        '"',
        "{",
        "}",
        "</",
        ">",
        "<",
        "null",
        "arguments",
        "name",
        "parameters",
    ]
    texts = _golden()[name]
    return name, changed_text(draw.choice(texts), draw, words, texts)


def _read_output(name: str, text: str, draw: random.Random) -> None:
    form = formats.get(name)
    controls = form.controls if draw.random() < 0.8 else frozenset()
    reader = form.reader(TOOLS, controls=controls or None, calls=draw.random() < 0.9)
    for part in split_controls(text, controls):
        if isinstance(part, str):
            data = part.encode("utf-8", "surrogatepass")
            size = draw.choice((1, 3, 17, len(data) or 1))
            for start in range(0, len(data), size):
                reader.feed(data[start : start + size])
        else:
            reader.feed(part)
    reader.end()


@cache
def _answers() -> list[str]:
    return [one for one in seeds.texts("models/test_remote.py", "models/conftest.py", "models/test_remote_llama_cpp.py") if len(one) > 10] + [
        'data: {"choices": [{"index": 0, "delta": {"content": "a", "tool_calls": [{"index": 0, "function": {"name": "f", "arguments": "{}"}}]}}]}\n\ndata: {"choices": [{"delta": {}, "finish_reason": "stop"}], "usage": {"prompt_tokens": 3, "completion_tokens": 1}}\n\ndata: [DONE]\n\n',
        '{"choices": [{"message": {"content": "a", "tool_calls": [{"function": {"name": "f", "arguments": "{}"}}]}, "finish_reason": "stop"}], "usage": {}}',
        '{"message": {"content": "a"}, "done": false}\n{"message": {"content": ""}, "done": true, "done_reason": "stop"}\n',
    ]  # fmt: skip


def _make_answer(draw: random.Random) -> Input:
    words = [
        "data: ",
        "[DONE]",
        '"choices"',
        '"delta"',
        '"index"',
        "null",
        "[]",
        "{}",
        '"error"',
        '"usage"',
        "\n\n",
        '"tool_calls"',
        '"finish_reason"',
    ]
    kind = draw.choice(("text/event-stream", "application/x-ndjson", "application/json"))
    return kind, changed_text(draw.choice(_answers()), draw, words, _answers())


def _read_answer(kind: str, text: str, draw: random.Random) -> None:
    reader = AnswerReader("server")
    reader.begin(kind)
    data = text.encode("utf-8", "surrogatepass")
    size = draw.choice((1, 7, len(data) or 1))
    for start in range(0, len(data), size):
        reader.feed(data[start : start + size])
    reader.end()
    assert isinstance(reader.text, str)
    assert isinstance(reader.calls, tuple)


# -- files of a user ------------------------------------------------------------------------------------

CONFIG = '[run]\nmodel = "nano"\nmax-tokens = 10\ntools = ["a.json", "b.py"]\nyes = true\n\n[audit.list]\ndb = "x.db"\n\n[serve]\nport = 8000\nhost = "::1"\n'


def _make_config(draw: random.Random) -> Input:
    words = [
        "[run]",
        "[[run]]",
        "[a.b]",
        "model",
        "=",
        '"""',
        "'''",
        "1979-05-27T07:32:00Z",
        "inf",
        "nan",
        "0x1",
        "{a=1}",
        "[1,[2]]",
        "true",
        "run.model",
    ]
    texts = [CONFIG, *(one for one in seeds.texts("cli/test_defaults.py") if "=" in one)]
    return "config.toml", changed_text(draw.choice(texts), draw, words, texts)


@cache
def _program() -> Any:
    import typer

    from callmemaybe.cli.main import app

    return typer.main.get_command(app)


def _read_config(name: str, text: str, _: random.Random) -> None:
    os.environ[defaults.CONFIG_VARIABLE] = str(put(name, text))
    defaults.read_defaults(_program())


PROMPTS = [
    '[{"prompt": "Add 2 and 3"}, {"prompt": "é"}]', '{"prompt": "a", "id": 1}\n{"prompt": "b"}\n', '"a"\n"b"\n', '[{"name": "f", "arguments": {"a": 1.50}, "id": "x"}]',
    '[{"function": {"name": "f", "arguments": "{}"}}]', '{"KEY": "value"}',
]  # fmt: skip


def _make_prompts(draw: random.Random) -> Input:
    words = ['"prompt"', '"id"', '"arguments"', "null", "\n", "\r", "{}", "[]", '"a"']
    kind = draw.choice(("prompts.json", "prompts.jsonl", "calls.json", "secrets.json"))
    return kind, changed_text(draw.choice(PROMPTS), draw, words, PROMPTS)


def _read_prompts(name: str, text: str, _: random.Random) -> None:
    path = put(name, text)
    if name.startswith("prompts"):
        for row in open_prompts(path, "prompt", read_prompts).rows(PromptPlace()):
            assert isinstance(row.prompt, str)
    else:
        (read_calls if name.startswith("calls") else read_secrets)(path)


def _make_request(draw: random.Random) -> Input:
    texts = [one for one in seeds.texts("values/*.py") if len(one) > 3]
    words = [
        "two dozen",
        "tomorrow",
        "at 5pm",
        "half past",
        "31/02/2026",
        "1,000.5",
        "1.000,5",
        "-",
        "minus",
        "thousand",
        "million",
        "%",
        "€",
        "next friday",
        "in 1000000000 years",
        "a@b.c",
        "00:60",
        "²",
        "½",
        "٣",
        "二",
    ]
    return "", changed_text(draw.choice(texts), draw, words, texts)


def _read_request(_: str, text: str, draw: random.Random) -> None:
    now = draw.choice(
        (
            datetime(2026, 11, 23, 10, 0, tzinfo=UTC),
            datetime(1, 1, 1, tzinfo=UTC),
            datetime(9999, 12, 31, 23, 59, tzinfo=UTC),
        )
    )
    guess_language(text), other_language(text)
    for language in (None, "en", "fr", "de", "es"):
        read_values(text, now, language)


READERS = (
    Reader("JSON", _make_json, _read_json, (InputError,), 2000),
    Reader("JSON Schema", _make_schema, _read_schema, (InputError,), 300),
    Reader("regular expressions", _make_pattern, _read_pattern, (InputError,), 300),
    # A grammar may name a control token that the vocabulary does not have.
    Reader("grammars (GBNF, Lark)", _make_grammar, _read_grammar, (InputError, VocabularyError), 300),
    Reader("OpenAPI documents (JSON, YAML)", lambda draw: _make_tools(draw, 0), _read_tools, (InputError,), 150),
    Reader("definitions of functions (JSON, YAML)", lambda draw: _make_tools(draw, 1), _read_tools, (InputError,), 150),
    Reader("tokenizer.json", _make_tokenizer, _read_tokenizer, (VocabularyError,), 200),
    Reader("GGUF", _make_gguf, _read_gguf, (VocabularyError,), 300),
    Reader("outputs of models, all wire formats", _make_output, _read_output, (InputError, ModelOutputError), 1000),
    Reader("answers of model servers", _make_answer, _read_answer, (UpstreamError,), 2000),
    Reader("the file of defaults (TOML)", _make_config, _read_config, (InputError,), 1000),
    Reader("prompts, calls and secrets (JSON, JSON lines)", _make_prompts, _read_prompts, (InputError,), 2000),
    Reader("requests: dates, times, numbers", _make_request, _read_request, (), 500),
)  # fmt: skip
