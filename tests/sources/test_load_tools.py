"""One way to name tools: each kind of source, and what is said where it is wrong."""

from __future__ import annotations

import asyncio
import json
import shlex
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from callmemaybe import load_tools
from callmemaybe.errors import InputError, NotExecuted

FLAT = {"name": "flat", "parameters": {"a": {"type": "number"}}}
SCHEMA = {"type": "object", "properties": {"a": {"type": "number"}}, "required": ["a"]}
OPENAI = {"type": "function", "function": {"name": "openai", "parameters": SCHEMA}}
ANTHROPIC = {"name": "anthropic", "description": "x", "input_schema": SCHEMA}
MCP_SERVER = Path(__file__).parents[1] / "integrations" / "mcp_server.py"
OPENAPI = """\
openapi: 3.0.3
info: {title: Pets, version: "1"}
servers: [{url: "https://pets.example/v1"}]
paths:
  /pets/{id}:
    get:
      operationId: showPet
      parameters:
        - {name: id, in: path, required: true, schema: {type: integer}}
      responses: {200: {description: "on, off and 2026-01-01 stay texts"}}
  /up:
    post:
      operationId: upload
      requestBody: {content: {application/octet-stream: {schema: {type: string, format: binary}}}}
      responses: {200: {description: ok}}
"""
#: A text of 500 characters that is ten thousand million values.
LAUGHS = "a0: &a0 [x]\n" + "".join(
    f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 11)
)
PYTHON = """\
from callmemaybe import tool

@tool(effect="read")
def add(a: float, b: float) -> float:
    \"\"\"Add two numbers.\"\"\"
    return a + b
"""


def written(folder: Path, name: str, value: Any) -> str:
    """Write a file, as JSON if it is no text, and return its path."""
    path = folder / name
    path.write_text(value if isinstance(value, str) else json.dumps(value), encoding="utf-8")
    return str(path)


def refused(*sources: str, **options: Any) -> str:
    """Return why sources are refused."""
    with pytest.raises(InputError) as caught:
        load_tools(*sources, **options)
    message = str(caught.value)
    assert "\n" not in message
    return message


@pytest.mark.parametrize("wrap", [lambda many: many, lambda many: {"tools": many}])
def test_the_forms_of_definitions_mix(tmp_path: Path, wrap: Any) -> None:
    """The flat form, OpenAI's and Anthropic's stand in one list, or under "tools", in order, and mean the same."""
    tools = load_tools(written(tmp_path, "f.json", wrap([FLAT, OPENAI, ANTHROPIC])))
    assert [spec.name for spec in tools.specs] == ["flat", "openai", "anthropic"]
    assert {json.dumps(spec.schema["properties"]) for spec in tools.specs} == {
        '{"a": {"type": "number"}}'
    }


def test_definitions_in_yaml_are_those_in_json(tmp_path: Path) -> None:
    """YAML is read with JSON's values: `on` and a date stay texts."""
    text = "- name: f\n  parameters: {a: {enum: [on, off, 2026-01-01, 1]}}\n"
    (spec,) = load_tools(written(tmp_path, "f.yaml", text)).specs
    assert spec.schema["properties"]["a"]["enum"] == ["on", "off", "2026-01-01", 1]


def test_sources_add_up(tmp_path: Path) -> None:
    """Tools come in the order of their sources; a name that two share is an error that names both files."""
    first, second = written(tmp_path, "a.json", [FLAT]), written(tmp_path, "b.json", [OPENAI])
    assert [spec.name for spec in load_tools(first, second).specs] == ["flat", "openai"]
    third = written(tmp_path, "c.json", [FLAT])
    message = refused(first, third)
    assert first in message
    assert third in message
    assert len(load_tools(first, third, second, skip=["flat"])) == 1


@pytest.mark.parametrize(
    ("slip", "meant"),
    [
        ({"name": "f", "paramters": {}}, "parameters"),
        ({"name": "f", "descripton": "x"}, "description"),
        ({"name": "f", "params": {"a": {"type": "number"}}}, "parameters"),
        ({"name": "f", "parameters": {**SCHEMA, "requierd": ["a"]}}, "required"),
        ({"name": "f", "parameters": {"a": {"type": "string", "maxLenght": 3}}}, "maxLength"),
    ],
)
def test_a_misspelt_key_is_an_error(tmp_path: Path, slip: Any, meant: str) -> None:
    """A key that is nearly one is named with its file, line and column, and with what was meant."""
    path = written(tmp_path, "f.json", [slip])
    message = refused(path)
    assert message.startswith(f"{path}:1:")
    assert meant in message


def test_keys_of_others_are_let_alone(tmp_path: Path) -> None:
    """What other programs put into a definition is no error."""
    value = {**FLAT, "cache_control": {"type": "ephemeral"}, "owner": "x", "x-price": 3}
    assert len(load_tools(written(tmp_path, "f.json", [value]))) == 1


def test_only_and_skip(tmp_path: Path) -> None:
    """Names and patterns choose; one that fits nothing is an error that tells what there is."""
    path = written(tmp_path, "f.json", [{"name": name} for name in ("pet_add", "pet_get", "stop")])
    chosen = load_tools(path, only=["pet_*"], skip=["pet_add"])
    assert [spec.name for spec in chosen.specs] == ["pet_get"]
    assert "pet_get" in refused(path, only=["pet_gte"])
    assert "--skip" in refused(path, skip=["nothing"])


def test_definitions_are_not_run(tmp_path: Path) -> None:
    """A tool that is only defined says so, before a run and when it is run."""
    path = written(tmp_path, "f.json", [FLAT])
    tools = load_tools(path)
    with pytest.raises(InputError, match="only defines flat"):
        tools.check_runnable()
    with pytest.raises(NotExecuted, match="only defines flat"):
        asyncio.run(tools[0](a=1))


def test_a_python_file_is_run(tmp_path: Path) -> None:
    """The functions of a file are tools that run."""
    tools = load_tools(written(tmp_path, "sums_of_a_file.py", PYTHON))
    tools.check_runnable()
    assert tools[0].function(2, 3) == 5


def test_a_module_of_the_current_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A module is found in the folder where one is, as Python does it."""
    written(tmp_path, "sums_of_a_module.py", PYTHON)
    monkeypatch.chdir(tmp_path)
    assert [spec.name for spec in load_tools("sums_of_a_module").specs] == ["add"]
    assert "no_such_module_here" in refused("no_such_module_here")


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("import sys\nsys.exit(3)\n", "sys.exit(3)"),
        ("raise SystemExit\n", "ends the program"),
        ("def f(:\n", "in line 1"),
        ("x = 1 / 0\n", "ZeroDivisionError"),
        ("import no_such_package_at_all\n", "no_such_package_at_all"),
    ],
)
def test_a_python_file_that_fails(tmp_path: Path, code: str, said: str) -> None:
    """Whatever happens while a file is imported is one sentence with its name."""
    path = written(tmp_path, "failing_tools.py", code)
    message = refused(path)
    assert message.startswith(path)
    assert said in message


def test_an_operation_that_cannot_be_expressed_is_skipped(tmp_path: Path) -> None:
    """The rest of an OpenAPI document is there, and what is left out is told with its place."""
    path = written(tmp_path, "pets.yaml", OPENAPI)
    tools = load_tools(path)
    assert [spec.name for spec in tools.specs] == ["showPet"]
    assert [one.name for one in tools.skipped] == ["upload"]
    assert path in str(tools.skipped[0])
    assert "written as" in str(tools.skipped[0])
    assert "it may be application/json or" in refused(path, only=["upload"])


def test_other_versions_of_openapi_are_refused(tmp_path: Path) -> None:
    """Swagger 1 is named, with the file."""
    path = written(tmp_path, "old.json", {"swagger": "1.2", "paths": {}})
    message = refused(path)
    assert message.startswith(path)
    assert "this is Swagger 1.2" in message


def test_a_document_that_nests_without_end_is_refused(tmp_path: Path) -> None:
    """One sentence, not Python's limit of recursion."""
    schema = '{"type": "object", "properties": {"a": ' * 400 + "{}" + "}}" * 400
    body = f'{{"content": {{"application/json": {{"schema": {schema}}}}}}}'
    operation = f'{{"operationId": "x", "requestBody": {body}, "responses": {{}}}}'
    text = f'{{"openapi": "3.0.0", "info": {{}}, "paths": {{"/x": {{"post": {operation}}}}}}}'
    said = refused(written(tmp_path, "deep.json", text))
    assert "deep" in said.rpartition("deep.json")[2]


def test_what_only_a_finished_call_can_be_checked_for_is_kept(tmp_path: Path) -> None:
    """Items that all differ make a tool of a definition and of an operation; what the validator cannot read does not."""
    tags = {"type": "array", "items": {"type": "string"}, "uniqueItems": True}
    body = {"type": "object", "properties": {"tags": tags}}
    unread = {
        "type": "object",
        "properties": {"tags": tags, "size": {"minimum": 1, "exclusiveMinimum": True}},
    }

    content = {"application/json": {"schema": body}}
    post = {"operationId": "tag", "requestBody": {"content": content}, "responses": {}}
    document = {"openapi": "3.1.0", "info": {"title": "t", "version": "1"}, "paths": {"/tags": {"post": post}},
                "servers": [{"url": "https://tags.example"}]}  # fmt: skip
    path = written(tmp_path, "openapi.json", document)
    assert [one.name for one in load_tools(path).specs] == ["tag"]
    defined = written(tmp_path, "f.json", [{"name": "tag", "parameters": body}])
    assert [one.name for one in load_tools(defined).specs] == ["tag"]
    said = refused(written(tmp_path, "g.json", [{"name": "tag", "parameters": unread}]))
    assert (
        "(/0/parameters/properties/tags/uniqueItems): uniqueItems is not supported here, nor can"
        in said
    )


def test_private_addresses_need_a_word() -> None:
    """A document of one's own network is fetched only when that is allowed."""
    for address in ("http://127.0.0.1:9/openapi.json", "https://127.0.0.1:9/openapi.json"):
        assert "--allow-private" in refused(address)
        assert "--allow-private" not in refused(address, allow_private=True)


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("f.json", "", "empty"),
        ("f.json", '{"a":', "cut off"),
        ("f.json", "[]", "list of functions is empty"),
        ("f.json", "17", "expected a list of functions"),
        ("f.yaml", "# nothing\n", "expected a list of functions, found null"),
        ("f.yaml", "a: [1", "not valid YAML"),
        ("f.yaml", "- name: f\n  name: g\n", "comes twice"),
        ("f.yaml", "a: &a [1]\nb: *a\n", "expected a list of functions"),
        ("f.yaml", "a: &a [*a, *a]\n", "recursive"),
        ("f.yaml", LAUGHS, "aliases"),
        ("f.yaml", "!!python/object/apply:os.system ['true']", "not valid YAML"),
        ("mcp.json", '{"mcpServers": {}}', "no server is listed"),
        ("mcp.json", '{"mcpServers": {"a": {"args": []}}}', "a command or a url"),
    ],
)
def test_documents_that_are_wrong(tmp_path: Path, name: str, text: str, said: str) -> None:
    """A document that cannot be used is one sentence with its name."""
    path = written(tmp_path, name, text)
    message = refused(path)
    assert message.startswith(path)
    assert said in message


def test_sources_that_are_nothing(tmp_path: Path) -> None:
    """A missing file, a folder, an empty text and an odd one are told apart."""
    assert "no such file" in refused(str(tmp_path / "nope.json"))
    assert "no such file" in refused(str(tmp_path / "nope.py"))
    assert "folder" in refused(str(tmp_path))
    assert "no source is named" in refused("  ")
    assert "mcp:COMMAND" in refused("what is this?")
    assert "list of names" in refused("a.json", only="add")


def test_an_mcp_server_is_started_and_closed(tmp_path: Path) -> None:
    """A command, and an entry of an mcp.json, give tools that run in any loop until they are closed."""
    pytest.importorskip("mcp")
    log = tmp_path / "log"
    command = [sys.executable, str(MCP_SERVER), str(log)]
    with load_tools("mcp:" + shlex.join(command), only=["add_note"]) as tools:
        assert [spec.name for spec in tools.specs] == ["add_note"]
        (tool,) = tools
        asyncio.run(tool(text="milk"))
        asyncio.run(tool(text="bread"))
    assert log.read_text() == "milk\nbread\n"
    with pytest.raises(NotExecuted, match="closed"):
        asyncio.run(tool(text="late"))
    entry = {"command": command[0], "args": command[1:]}
    path = written(tmp_path, "mcp.json", {"mcpServers": {"notes": entry}})
    with load_tools(f"{path}#notes", skip=["fail"]) as tools:
        assert "add_note" in {spec.name for spec in tools.specs}
    assert "there is notes" in refused(f"{path}#bank")


def test_an_mcp_server_that_is_none(tmp_path: Path) -> None:
    """A command that does not exist, or ends at once, is told with what it said last."""
    pytest.importorskip("mcp")
    assert "nonesuch-server: No such file" in refused("mcp:nonesuch-server --x")
    script = written(tmp_path, "s.py", "import sys; sys.exit('the key is missing')")
    message = refused(f"mcp:{shlex.join([sys.executable, script])}")
    assert "the key is missing" in message


def test_what_nests_too_deeply_is_refused_at_once(tmp_path: Path) -> None:
    """A file of megabytes that nests thousands deep is refused with the place, in a second or two."""
    deep = "[" * 3000 + "0" + "]" * 3000
    file = tmp_path / "tools.json"
    file.write_text(json.dumps({"tools": ["..."]}).replace('"..."', ", ".join([deep] * 300)))
    begun = time.process_time()
    with pytest.raises(InputError, match=r"tools\.json:1:\d+: nested more than 500 levels deep"):
        load_tools(file)
    assert time.process_time() - begun < 3
