"""Write the pages that are drawn from the program itself: `python docs/generate.py`."""

from __future__ import annotations

import json
import re
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import fields
from enum import Enum
from importlib import import_module
from pathlib import Path
from typing import Any

import typer

from callmemaybe.cli.defaults import VARIABLES
from callmemaybe.cli.main import app
from callmemaybe.cli.process import ExitCode
from callmemaybe.conversation.state import TRANSITIONS, ConversationState, diagram, may_follow

ROOT = Path(__file__).parents[1]
RATCHETS = sorted((ROOT / "ratchets").glob("*.json"))
HEAD = """# Command line

This page is written by `docs/generate.py` from the program itself; do not edit it by hand.

`callmemaybe` and `python -m callmemaybe` are the same program. Progress and messages go to standard
error, tables to standard output; colour and moving bars appear only on a terminal, and never when
`NO_COLOR` is set. `FORCE_COLOR` gives colour to files and pipes, too. [Settings](settings.md) compares the
options with those of Python and of the server.
"""


DEFAULTS = """## Defaults of your own

What is typed goes before a variable of the environment, that before a file, that before the default above. The file is
`~/.config/callmemaybe/config.toml` (on Windows in `%APPDATA%`), or what `CALLMEMAYBE_CONFIG` names; set and empty,
none is read. A key is an option without its dashes, and holds for every command that has it; a table holds for one
command:

```toml
model = "onnx-community/Qwen3-0.6B-ONNX:q4"
tools = ["tools.py", "mcp:npx -y @modelcontextprotocol/server-filesystem ."]

[serve]
port = 8000

[audit.list]
limit = 10
```

The variables are VARIABLES; of several values each is on a line of its own, and a flag is `true` or `false`. `check` looks
at the tools that are typed. No file in the folder where you work is read unless you name it: whoever wrote it would choose
where your requests go and what runs without asking. `callmemaybe config` shows what is set, and by what.
"""


def command_line() -> str:
    """Return the reference of all commands, their options, and the exit codes."""
    group: Any = typer.main.get_command(app)
    parts = [HEAD]
    for name, command in sorted(_commands(group)):
        parts.append(f"## callmemaybe {name}\n\n{command.help}\n")
        if rows := [_option(parameter) for parameter in command.params]:
            parts.append(_table(("option", "default", "what it does"), rows))
    variables = ", ".join(f"`CALLMEMAYBE_{name.upper().replace('-', '_')}`" for name in VARIABLES)
    parts.append(DEFAULTS.replace("VARIABLES", variables))
    codes = [(str(int(code)), code.meaning) for code in ExitCode]
    parts.append("## Exit codes\n\n" + _table(("code", "meaning"), codes))
    return "\n".join(parts)


def _commands(group: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield all commands with their names, those of groups included."""
    for name, command in group.commands.items():
        yield prefix + name, command
        if hasattr(command, "commands"):
            yield from _commands(command, f"{prefix}{name} ")


def _option(parameter: Any) -> tuple[str, str, str]:
    names = ", ".join(f"`{name}`" for name in parameter.opts)
    default = parameter.default
    if isinstance(default, Enum):
        default = default.value
    is_empty = default is None or default is False or default == ""
    return names, "" if is_empty else f"`{default}`", parameter.help or ""


def _table(head: tuple[str, ...], rows: list[Any]) -> str:
    lines = [head, tuple("---" for _ in head), *rows]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


def measured(script: str, results: str) -> str:
    """Return the page that a script in benchmarks/ writes of its results."""
    sys.path.insert(0, str(ROOT / "benchmarks"))
    read = (ROOT / "benchmarks/results" / f"{results}.json").read_text(encoding="utf-8")
    return str(import_module(script).page(json.loads(read)))


def embedded_model() -> str:
    """Return what the embedded model reaches, from the results of its benchmark."""
    return measured("nano", "nano")


def confidence() -> str:
    """Return how far the embedded model's confidence can be believed, from the results of its benchmark."""
    return measured("confidence", "confidence")


def agentdojo() -> str:
    """Return what the gateway prevents of AgentDojo, from the results of its benchmark."""
    return measured("dojopage", "agentdojo")


def retrieval() -> str:
    """Return how well retrieval finds a tool, from the results of its benchmark."""
    return measured("retrieval", "retrieval")


def gateway() -> str:
    """Return what a call through the gateway costs, from the results of its benchmark."""
    return measured("gateway", "gateway")


def scale() -> str:
    """Return the page on batches of any size, with the figures of their benchmark."""
    return measured("batches", "batches")


def decoding() -> str:
    """Return what a call costs with each engine and rival, from the results of the benchmark."""
    return measured("decodepage", "decode")


def masks() -> str:
    """Return what masks cost beside other engines, from the results of their benchmark."""
    return measured("maskpage", "masks")


def clients() -> str:
    """Return which flows of which clients the server passes, from the results of their runs."""
    return measured("clientspage", "clients")


def home() -> str:
    """Return how the Home Assistant agent reads beside Home Assistant's own matchers, from their benchmark."""
    return measured("homepage", "home")


def tuning() -> str:
    """Return what tuning on a user's functions is worth, from the results of its benchmark."""
    return measured("tunepage", "tune")


SUITES = """# Outside suites

This page is written by `docs/generate.py` from the results in `ratchets/`; do not edit it by hand.

How the language of a schema fares on the official JSON Schema test suite (drafts 3 to 2020-12, with
its optional parts and formats) and on a sample of MaskBench. A case is a schema or one of its
instances, written as `json.dumps` does with its keys in schema order and whole numbers as integers.
*checked*: something the schema asks is left to a validator, and said so, or it takes that to tell
whether the instance is valid; *wrong reject*: a valid instance cannot be written; *wrong accept*: an
invalid one can. What is refused is draft 3, of 2010, where it names keywords otherwise (`extends`, `disallow`,
`divisibleBy`); the error says what to write. `python ratchets/run.py` measures again, and fails if any case got worse.

"""


def suites() -> str:
    """Return the results on outside suites, and which files of them have valid values refused."""
    read = [(path.stem, json.loads(path.read_text("utf-8"))) for path in RATCHETS]
    names = list(read[0][1]["counts"])
    rows, lost = [], Counter[str]()
    for suite, found in read:
        counts, total = found["counts"], sum(found["counts"].values())
        cells = [f"{counts[name]:,} ({counts[name] / total:.2%})" for name in names]
        rows.append((suite, f"{total:,}", *cells))
        lost.update(
            case.partition(": ")[0] for case, how in found["not exact"].items() if "reject" in how
        )
    parts = [SUITES, _table(("suite", "cases", *names), rows)]
    parts += ["\n## Valid and refused\n\n"]
    files = [(f"`{name}`", str(n)) for name, n in lost.most_common()]
    parts += [_table(("file", "cases"), files) if files else "None.\n"]
    return "".join([*parts, *_peers(), measured("fuzz", "fuzz"), measured("mutants", "mutants")])


PEERS = """
## Tests of peers

`python ratchets/fetch.py --peers` fetches them, and `python ratchets/run.py --peers` runs them. llama.cpp's are of
chat formats: the format that is detected for each template reads the outputs of its cases, whole and cut at every
byte, and must find the calls, the text and the thought that llama.cpp expects. vLLM's are of its tool parsers, and run
as they are, each parser standing for the format of its family, whole and in the tests' own chunks; tests that vLLM
marks as failing count like the others. xgrammar's are of languages, and run as they are, too, its names standing for
the grammars of this package. llguidance's are Rust: its checks of schemas, grammars and recorded traces are read from its files and
made on the grammars of this package; so are outlines-core's of schemas, whose tests of indexes and guides run as they are.
MCP's conformance suite runs against both sides of MCP: the client that loads a server's tools
and calls them through a gateway, and the gateway's own server; its cases are checks of scenarios, for each version of the protocol.
*differs*: on purpose, for a reason below; *fails*: it should pass, and does not yet;
*left out*: it asks for something else.

"""


def _peers() -> Iterator[str]:
    """Yield what peers' own tests say, and why cases differ."""
    yield PEERS
    rows, reasons = [], Counter[str]()
    for path in sorted((ROOT / "ratchets" / "peers").glob("*.json")):
        found = json.loads(path.read_text("utf-8"))
        rows.append((found["source"], *(str(count) for count in found["counts"].values())))
        reasons.update(how for how in found["not passed"].values())
    yield _table(("suite", "passed", "differs", "fails", "left out"), rows)
    yield "\n"
    for kind in ("differs", "fails", "left out"):
        some = [
            (how.partition(": ")[2], str(n))
            for how, n in reasons.most_common()
            if how.startswith(kind)
        ]
        yield _table((kind, "cases"), some) + "\n"


SERVER = """# The server's interfaces

This page is written by `docs/generate.py` from the program itself; do not edit it by hand. How to run
the server is told in [Serve a model](../how-to/serve.md). The whole document in OpenAPI's form is at
`/openapi.json` of a running server.
"""


def server() -> str:
    """Return the reference of the server: addresses, parameters, statuses, and what it carries."""
    sys.path.insert(0, str(ROOT / "benchmarks"))
    import hostile
    from server import page

    from callmemaybe.server import (
        completions,
        message_models,
        messages,
        request_models,
        tokens,
    )
    from callmemaybe.server.http_errors import STATUS_MEANINGS

    parts = [SERVER]
    for title, path, shape, neutral in (
        ("Chat", "/v1/chat/completions", request_models.ChatRequest, request_models.CHAT_NEUTRAL),
        (
            "Responses",
            "/v1/responses",
            request_models.ResponsesRequest,
            request_models.RESPONSES_NEUTRAL,
        ),
        (
            "Messages",
            messages.ROUTE,
            message_models.MessagesRequest,
            message_models.MESSAGES_NEUTRAL,
        ),
        (
            "Tokens of messages",
            messages.COUNT_ROUTE,
            message_models.CountTokensRequest,
            message_models.COUNT_NEUTRAL,
        ),
        (
            "Completions",
            completions.ROUTE,
            completions.CompletionRequest,
            completions.COMPLETION_NEUTRAL,
        ),
        ("Tokens", tokens.TOKENIZE_ROUTE, tokens.TokenizeRequest, tokens.TOKENIZE_NEUTRAL),
        ("Tokens back", tokens.DETOKENIZE_ROUTE, tokens.DetokenizeRequest, {}),
    ):
        kept = ", ".join(f"`{name}`" for name in shape.model_fields)
        rows = [
            (f"`{name}`", ", ".join(f"`{json.dumps(value)}`" for value in values))
            for name, values in neutral.items()
        ]
        parts.append(f"## {title}: `POST {path}`\n\nKept: {kept}.\n")
        if rows:
            parts.append(
                "Refused by name, unless the value asks for nothing; so is every name that stands in "
                "neither list:\n\n" + _table(("parameter", "may be"), rows)
            )
    statuses = [
        (str(status), f"`{messages.error_type(status)}`", meaning)
        for status, meaning in STATUS_MEANINGS.items()
    ]
    parts.append("## Errors\n\n" + _table(("status", "type in messages", "meaning"), statuses))
    results = ROOT / "benchmarks" / "results" / "server.json"
    parts.append("## Under load\n\n" + page(json.loads(results.read_text(encoding="utf-8"))))
    costs = json.loads(results.with_name("hostile.json").read_text(encoding="utf-8"))
    parts.append("## Hostile schemas\n\n" + hostile.page(costs))
    return "\n".join(parts)


SETTINGS = """# Settings

This page is written by `docs/generate.py` from the program itself; do not edit it by hand.

A setting means the same everywhere. In Python, settings of the first table are fields of `DecodingConfig`
(`Caller(..., decoding=DecodingConfig(...))`; `max_tokens` also stands on its own), those of the second are
fields of `GroundingConfig`, those of the third are arguments of `Caller`. The columns of commands show the
option and its default; *request* is the parameter of a chat request to the server. An empty cell: the
default of Python holds, and cannot be changed there.

"""
#: Where an option or a parameter of a request has another name than in Python.
OPTION_NAMES = {
    "call_logprobs": ("logprobs",), "logprobs": (), "format": ("format_",),
    "max_tokens": ("max_tokens", "default_tokens"),
}  # fmt: skip
REQUEST_NAMES = {
    "max_tokens": "max_completion_tokens", "trace": "callmemaybe", "order": "", "choose": "",
    "no_call": "tool_choice",
}  # fmt: skip


def settings() -> str:
    """Return all settings side by side: in Python, in the commands, in requests to the server."""
    from callmemaybe.generation.config import DEFAULT_DECODING
    from callmemaybe.server.request_models import ChatRequest
    from callmemaybe.wire.grounding import GroundingConfig

    group: Any = typer.main.get_command(app)
    commands = {name: group.commands[name].params for name in ("run", "eval", "chat", "serve")}
    head = ("setting", "Python", *(f"`{name}`" for name in commands), "request")
    parts = [SETTINGS]
    for title, defaults in (
        ("How tokens are chosen", vars(DEFAULT_DECODING)),
        (
            "Which values arguments may have",
            {"ground": "off", **{one.name: one.default for one in fields(GroundingConfig)[1:]}},
        ),
        ("What is generated", {"format": None, "no_call": False}),
    ):
        rows = []
        for name, default in defaults.items():
            cells = [
                _option_cell(OPTION_NAMES.get(name, (name,)), params)
                for params in commands.values()
            ]
            parameter = REQUEST_NAMES.get(name, name)
            request = f"`{parameter}`" if parameter in ChatRequest.model_fields else ""
            shown = "" if default is None else f"`{default!r}`"
            rows.append((f"`{name}`", shown, *cells, request))
        parts.append(f"## {title}\n\n" + _table(head, rows) + "\n")
    return "".join(parts).rstrip("\n") + "\n"


def _option_cell(names: tuple[str, ...], params: list[Any]) -> str:
    found = next((one for one in params if one.name in names), None)
    if found is None:
        return ""
    option, default, _ = _option(found)
    return f"{option.split(', ')[0]} {default}".rstrip()


CONVERSATION = """# The life of a conversation

This page is written by `docs/generate.py` from `callmemaybe.conversation.state.TRANSITIONS`; do not edit
it by hand. What is not in the table is refused with a `ConversationError`, and changes nothing.

```mermaid
{diagram}
```

| state | meaning | what may happen, and what it leads to |
|---|---|---|
{rows}
Where an event may lead to several states, the conversation's data decide: a turn that stopped by itself
leads to *awaiting_results* if it has calls, else to *idle*; one that was cut short leads back to
*awaiting_model*. Each result leads to *awaiting_results* until every call has its own.
"""


def conversation() -> str:
    """Return the states and events of a conversation, from their table."""
    rows = []
    for state in ConversationState:
        moves = [
            f"{event.__name__}: {', '.join(target.value for target in TRANSITIONS[state, event])}"
            for event in may_follow(state)
        ]
        meaning = state.meaning.rstrip(".")
        rows.append(f"| {state.value} | {meaning} | {'<br>'.join(moves)} |\n")
    return CONVERSATION.format(diagram=diagram(), rows="".join(rows))


ARCHITECTURE = """# The house

This page is written by `docs/generate.py` from `.importlinter`, the docstrings of the rooms and the names in the code;
do not edit it by hand. It is for whoever works on Call Me Maybe: read it once from top to bottom.

## What problem the house is built around

A small language model writes a valid function call about one time in three. It is not asked to do better: at every step
the tokens that cannot lead to a valid call are masked. So the text is right by construction, and what is left to do is to
make that exact, fast, and safe where a call becomes an effect.

Three times over, that is the same shape: a **programme** that is frozen data, a pure **cursor** over it that can be forked
and owns no clock and no IO, and a **driver**, the only part that waits, draws at random or reads a clock.

| programme (frozen data) | cursor (pure) | driver (waits) |
|---|---|---|
{triples}
Whoever looks for a bug in *what may happen* reads a programme; in *where we stand*, a cursor; in *when and how long*, a
driver. Tests of the first two need no model, no time and no thread.

## The floors

A folder of `src/callmemaybe/` is a room. A room imports only rooms on lower floors, never a neighbour, and no two files
import each other; `make contract` checks it.

```mermaid
flowchart TB
{mermaid}
```

| floor | room | what it is for |
|---|---|---|
{floors}
Beside the package stand `training/` (how the embedded model is made; it imports the package, never the reverse),
`benchmarks/`, `ratchets/` (outside suites whose results may only improve), `docs/`, `examples/` and `home_assistant/` (a component of Home
Assistant that uses the package; its tests run in Home Assistant, those of its pure parts in `tests/home_agent`).

## What each room does not know

Not knowing is what keeps a room small. Each line is a contract in `.importlinter`, checked by machine.

| rooms | must not import |
|---|---|
{contracts}
## The walk of one request

`Caller(load_model("nano"), tools).call("A table for four at Luigi's")`, and `Caller.run` where tools run. Every name below
exists; the page is not written otherwise.

| where | what happens |
|---|---|
{walk}
Values go down, values come up: no room calls back into a higher one. What a higher room wants to see on the way (steps,
events) it gets by iterating; a single request also takes an `on_step`.

## One vocabulary of stream events

`tools.events.StreamEvent` is what a model writes, as it is written: text, thought, a call that starts, more of its
arguments, its end. The reader makes them, generation passes them on, a conversation takes them, the server sends them.
A call is committed only when its turn has ended by itself: until then every event is provisional. `decoding.Step` is no
event of this kind: it is about tokens, which no room above generation knows.

## Who is to blame

`callmemaybe.errors` draws the tree of exceptions. An `InputError` is the caller's (what, where, what to do), a
`ModelOutputError` the model's, a `ModelError` that of the model or store behind us, a `DecodingError` ours. A tool's failure
is no exception but a result that the model reads.

## Where to add what

See [CONTRIBUTING.md](../CONTRIBUTING.md).
"""

#: Programme, cursor, driver: three times the same shape.
TRIPLES = (
    ("grammar.automaton:Automaton", "matching.matcher:Matcher", "decoding.decoder:Decoder"),
    (
        "conversation.state:TRANSITIONS",
        "conversation.conversation:Conversation",
        "agent.runner:AgentRunner",
    ),
    ("gateway.lifecycle:TABLE", "gateway.lifecycle:CallRecord", "gateway.gateway:Gateway"),
)
TRIPLE_MEANINGS = (
    "a language over bytes",
    "the states of a conversation",
    "the life of one tool call",
)

#: The walk of one request: names of the code, and what happens there.
WALK = (
    (
        "caller:Caller.call",
        "chooses the tools (all, or those that a `ToolIndex` finds) and asks its generator for one call",
    ),
    ("retrieval:ToolIndex.search", "only where there are more tools than a prompt can hold"),
    (
        "generation.local:LocalGenerator.stream_call",
        "puts the turn together: prompt, constraint, budget, session",
    ),
    (
        "generation.constraint:Constraint.of",
        "once for each list of tools: the constraint of a turn, compiled and cached",
    ),
    (
        "wire.format:Format.output_grammar",
        "what this family of models may write, as a grammar; JSON Schemas of the arguments included",
    ),
    (
        "grammar:json_schema_node",
        "a JSON Schema as a language over bytes; a keyword is exact, checked afterwards, an annotation, or an error",
    ),
    (
        "grammar:compile",
        "grammar -> `Automaton`: deterministic, expanded where it is visited, states interned",
    ),
    ("wire.format:Format.prompt", "the prompt's text; control tokens apart from text"),
    ("generation.config:encode", "text -> token ids"),
    (
        "decoding.prefix_cache:PrefixCache.fork",
        "a session that has read instructions and tools already",
    ),
    (
        "decoding.strategy:decode",
        "decoded once, drawn several times (`best_of`) or searched for (`beam`)",
    ),
    (
        "decoding.decoder:Decoder.steps",
        "the loop: forced tokens are accepted without a forward pass, others chosen under the mask",
    ),
    (
        "matching.matcher:Matcher.mask",
        "the tokens that keep a valid end within reach, from the automaton's state; cached by state",
    ),
    (
        "decoding.name_choice:NameChoices.at",
        "at a function's name: the probabilities of all names, exactly",
    ),
    ("models.base:Session.feed", "token ids -> logits"),
    (
        "generation.turn:TurnReader.end",
        "what was written, read by the format's own reader into events and calls",
    ),
    (
        "generation.validation:CallValidator.check",
        "the finished call against its schema, by a validator of another make",
    ),
    ("generation.result:CallResult.of", "the call, its probability, what it took"),
    (
        "agent.runner:AgentRunner.run",
        "in a conversation: turn after turn, until there is an answer",
    ),
    (
        "conversation.loop:conversation_loop",
        "which of the two comes next: a turn of the model, or calls to run",
    ),
    ("agent.executors:PythonExecutor.execute", "calls run as Python functions; or"),
    (
        "agent.executors:GatewayExecutor.execute",
        "through the gateway, where intent is recorded before effect",
    ),
)


def architecture() -> str:
    """Return the page for developers: floors, contracts and the walk of a request."""
    import ast
    import configparser

    parser = configparser.ConfigParser()
    parser.read(ROOT / ".importlinter")
    layers = [
        [room.strip(" ()") for room in re.split("[|:]", line)]
        for line in parser["importlinter:contract:rooms"]["layers"].split("\n")
        if line.strip()
    ]

    def purpose(room: str) -> str:
        folder = ROOT / "src" / "callmemaybe" / room
        file = folder / "__init__.py" if folder.is_dir() else folder.with_suffix(".py")
        text = ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or ""
        return text.split("\n\n")[0].replace("\n", " ").replace("``", "`")

    rows, drawn = [], []
    for number, rooms in zip(range(len(layers), 0, -1), layers, strict=True):
        rows += [(str(number), f"`{room}`", purpose(room)) for room in rooms]
        names = " · ".join(room.strip("_") for room in rooms)
        drawn.append(f'    F{number}["{number}: {names}"]')
    drawn += [f"    F{number} --> F{number - 1}" for number in range(len(layers), 1, -1)]
    contracts = []
    for section in parser.sections():
        table = parser[section]
        if table.get("type") == "forbidden" and section.rsplit(":", 1)[1] not in ("heavy", "http"):
            sources, forbidden = (
                ", ".join(f"`{one.removeprefix('callmemaybe.')}`" for one in table[key].split())
                for key in ("source_modules", "forbidden_modules")
            )
            contracts.append((sources, forbidden))
    contracts.append(
        (
            "every file but the one named after it",
            "`torch`, `onnxruntime`, `llama_cpp`, `vllm`, `ray`, ...",
        )
    )
    triples = [
        tuple(
            f"`{_exists(name)}`" + (f", {about}" if at == 0 else "")
            for at, name in enumerate(names)
        )
        for names, about in zip(TRIPLES, TRIPLE_MEANINGS, strict=True)
    ]
    walk = [(f"`{_exists(name)}`", about) for name, about in WALK]
    return ARCHITECTURE.format(
        triples=_rows(triples), mermaid="\n".join(drawn), floors=_rows(rows),
        contracts=_rows(contracts), walk=_rows(walk),
    )  # fmt: skip


def _exists(name: str) -> str:
    """Return a name as the page writes it; raise if the package has no such thing."""
    module, _, path = name.partition(":")
    found: Any = import_module(f"callmemaybe.{module}")
    for part in path.split("."):
        found = getattr(found, part)
    return f"{module}.{path}"


def _rows(rows: list[Any]) -> str:
    return "".join(f"| {' | '.join(cells)} |\n" for cells in rows)


#: Every page that is written here, and by what.
PAGES = {
    "reference/masks.md": masks,
    "reference/command-line.md": command_line,
    "reference/gateway.md": gateway,
    "how-to/scale.md": scale,
    "reference/nano.md": embedded_model,
    "reference/confidence.md": confidence,
    "reference/agentdojo.md": agentdojo,
    "reference/retrieval.md": retrieval,
    "reference/conversation.md": conversation,
    "reference/server.md": server,
    "reference/settings.md": settings,
    "reference/decoding.md": decoding,
    "reference/suites.md": suites,
    "reference/clients.md": clients,
    "reference/home.md": home,
    "reference/tune.md": tuning,
    "architecture.md": architecture,
}


if __name__ == "__main__":
    for name, write in PAGES.items():
        (ROOT / "docs" / name).write_text(write(), encoding="utf-8")
