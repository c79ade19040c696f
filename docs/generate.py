"""Write the pages that are drawn from the program itself: `python docs/generate.py`."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterator
from enum import Enum
from importlib import import_module
from pathlib import Path
from typing import Any

import typer

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


def command_line() -> str:
    """Return the reference of all commands, their options, and the exit codes."""
    group: Any = typer.main.get_command(app)
    parts = [HEAD]
    for name, command in sorted(_commands(group)):
        parts.append(f"## callmemaybe {name}\n\n{command.help}\n")
        if rows := [_option(parameter) for parameter in command.params]:
            parts.append(_table(("option", "default", "what it does"), rows))
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


def retrieval() -> str:
    """Return how well retrieval finds a tool, from the results of its benchmark."""
    return measured("retrieval", "retrieval")


def gateway() -> str:
    """Return what a call through the gateway costs, from the results of its benchmark."""
    return measured("gateway", "gateway")


def decoding() -> str:
    """Return what a call costs with each engine and rival, from the results of the benchmark."""
    return measured("decodepage", "decode")


def masks() -> str:
    """Return what masks cost beside other engines, from the results of their benchmark."""
    return measured("maskpage", "masks")


SUITES = """# Outside suites

This page is written by `docs/generate.py` from the results in `ratchets/`; do not edit it by hand.

How the language of a schema fares on the official JSON Schema test suite (drafts 7 and 2020-12, with
its optional parts and formats) and on a sample of MaskBench. A case is a schema or one of its
instances, written as `json.dumps` does with its keys in schema order and whole numbers as integers.
*checked*: something the schema asks is left to a validator, and said so, or it takes that to tell
whether the instance is valid; *wrong reject*: a valid instance cannot be written; *wrong accept*: an
invalid one can. `python ratchets/run.py` measures again, and fails if any case got worse.

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
    return "".join(parts)


SERVER = """# The server's interfaces

This page is written by `docs/generate.py` from the program itself; do not edit it by hand. How to run
the server is told in [Serve a model](../how-to/serve.md). The whole document in OpenAPI's form is at
`/openapi.json` of a running server.
"""


def server() -> str:
    """Return the reference of the server: addresses, parameters, statuses, and what it carries."""
    sys.path.insert(0, str(ROOT / "benchmarks"))
    from server import page

    from callmemaybe.server import request_models
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
    ):
        kept = ", ".join(f"`{name}`" for name in shape.model_fields)
        rows = [
            (f"`{name}`", ", ".join(f"`{json.dumps(value)}`" for value in values))
            for name, values in neutral.items()
        ]
        parts.append(f"## {title}: `POST {path}`\n\nKept: {kept}.\n")
        parts.append(
            "Refused by name, unless the value asks for nothing; so is every name that stands in "
            "neither list:\n\n" + _table(("parameter", "may be"), rows)
        )
    statuses = [(str(status), meaning) for status, meaning in STATUS_MEANINGS.items()]
    parts.append("## Errors\n\n" + _table(("status", "meaning"), statuses))
    results = ROOT / "benchmarks" / "results" / "server.json"
    parts.append("## Under load\n\n" + page(json.loads(results.read_text(encoding="utf-8"))))
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
            {"ground": "off", "ground_in": GroundingConfig().ground_in},
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


#: Every page that is written here, and by what.
PAGES = {
    "masks.md": masks,
    "command-line.md": command_line,
    "gateway.md": gateway,
    "nano.md": embedded_model,
    "retrieval.md": retrieval,
    "conversation.md": conversation,
    "server.md": server,
    "settings.md": settings,
    "decoding.md": decoding,
    "suites.md": suites,
}


if __name__ == "__main__":
    for name, write in PAGES.items():
        (ROOT / "docs" / "reference" / name).write_text(write(), encoding="utf-8")
