"""The command ``check``: which keywords of a schema the mask guarantees, and what it leaves to a validator."""

from __future__ import annotations

import json
import sys
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from callmemaybe.cli.options import (
    AllowPrivateOption,
    BaseUrlOption,
    KeyOrder,
    KeyOrderOption,
    OnlyOption,
    SkipOption,
    ToolsOption,
)
from callmemaybe.cli.process import ExitCode, printable
from callmemaybe.cli.tools import ToolChoice
from callmemaybe.errors import InputError

if TYPE_CHECKING:
    from rich.text import Text

    from callmemaybe.grammar import Grammar
    from callmemaybe.grammar.json_schema.certificate import Certificate

    _Counter = Callable[[Grammar], dict[str, Any]]

#: The column where the keywords of a schema node begin.
_INDENT = 14
_COLOURS = {"masked": "green", "annotation": "dim", "checked": "yellow", "refused": "bold red"}

_VALIDATOR_FAILED = "it can only be checked afterwards, but the validator cannot read this schema"


class Spacing(StrEnum):
    """The styles of :func:`callmemaybe.grammar.json_schema`."""

    SPACED = "spaced"
    COMPACT = "compact"
    FLEXIBLE = "flexible"


def check(
    schema: Annotated[
        Path | None,
        typer.Argument(help='A JSON Schema, or functions in JSON; "-": standard input.'),
    ] = None,
    tools: ToolsOption = [],  # noqa: B006 - typer copies it
    only: OnlyOption = [],  # noqa: B006 - typer copies it
    skip: SkipOption = [],  # noqa: B006 - typer copies it
    allow_private: AllowPrivateOption = False,
    base_url: BaseUrlOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    brief: Annotated[
        bool, typer.Option("--brief", "-b", help="List only keywords that are checked or refused.")
    ] = False,
    style: Annotated[Spacing, typer.Option(help="How the JSON is spaced.")] = Spacing.SPACED,
    order: KeyOrderOption = KeyOrder.SCHEMA,
    ground: Annotated[
        str | None,
        typer.Option(
            metavar="TEXT", help="The text that x-ground takes values from; without it, any text."
        ),
    ] = None,
    closed: Annotated[
        bool,
        typer.Option(
            "--closed",
            help="Allow only declared properties wherever properties are listed, as in tools.",
        ),
    ] = False,
    vocabulary: Annotated[
        Path | None,
        typer.Option(help="A tokenizer.json, a .gguf or a model's folder: also count tokens."),
    ] = None,
) -> None:
    """Report for every keyword whether it is masked, checked afterwards, an annotation or refused.

    Also reports how large the language is. For functions, the parameters of each are reported; they
    are always closed, and keywords are checked afterwards only where masking alone is impossible.
    Exits with 2 if a keyword is refused, or if the file is neither a schema nor functions.
    """
    from callmemaybe.grammar import GroundingSource

    text = GroundingSource("", is_known=False) if ground is None else GroundingSource(ground)
    tokens = None if vocabulary is None else _counter(vocabulary)
    reports: list[dict[str, Any]] = []
    choice = ToolChoice(tools, only, skip, allow_private, base_url)
    for name, one in _given(schema, choice):
        found = _certified(
            name, one, style=style.value, order=order.value, ground=text,
            additional=not closed and name is None,
        )  # fmt: skip
        reports.append(_data(name, found, tokens))
    _print_json(reports) if as_json else _show(reports, brief=brief)
    raise typer.Exit(
        ExitCode.DONE if all("automaton" in one for one in reports) else ExitCode.BAD_INPUT
    )


def register(app: typer.Typer) -> None:
    """Add the command to the program."""
    app.command()(check)


def _print_json(reports: Sequence[dict[str, Any]]) -> None:
    whole: Any = reports[0] if reports[0].get("function") is None else {"functions": reports}
    typer.echo(json.dumps(whole, ensure_ascii=False, indent=2))


def _given(schema: Path | None, tools: ToolChoice) -> list[tuple[str | None, Any]]:
    """Return the schemas of the file, or of the tools, each with the name of its function."""
    if (schema is None) == (not tools):
        raise InputError(
            "name a schema, or functions by --tools" if schema is None else "is given, too",
            where="SCHEMA" if schema is None else "--tools",
        )
    if schema is not None:
        return _schemas(schema)
    with tools.load(quiet=True) as loaded:
        for one in loaded.skipped:
            typer.echo(printable(str(one)), err=True)
        return [(spec.name, spec.schema) for spec in loaded.specs]


def _schemas(path: Path) -> list[tuple[str | None, Any]]:
    """Return the schemas of a file, each with the name of its function (None for a plain schema)."""
    from callmemaybe.jsonio import read
    from callmemaybe.sources.definitions import is_definition
    from callmemaybe.sources.texts import read_text, source_name
    from callmemaybe.tools import ToolSpec, check_distinct

    document = read(read_text(path), source=source_name(path))
    value = document.value
    alone = isinstance(value, dict) and is_definition(value)
    if alone:
        value = [value]
    if isinstance(value, dict | bool):
        return [(None, value)]
    if not isinstance(value, list) or not value:
        raise InputError(
            "neither a schema (an object, true or false) nor a list of functions",
            where=document.place(),
            hint="see json-schema.org",
        )
    try:
        tools = [
            ToolSpec.from_json(one, "" if alone else f"/{index}") for index, one in enumerate(value)
        ]
        check_distinct(tools)
    except InputError as error:
        where = document.place(error.where or "")
        raise InputError(error.message, where=where, hint=error.hint) from None
    return [(tool.name, tool.schema) for tool in tools]


def _certified(name: str | None, schema: Any, **options: Any) -> Certificate:
    """Certify a schema; that of a function as calls are compiled and checked."""
    from callmemaybe.generation.validation import validator_of
    from callmemaybe.grammar.automaton import BUDGET_EXCEEDED
    from callmemaybe.grammar.json_schema.certificate import CHECKED, REFUSED, certificate
    from callmemaybe.tools import ToolSpec

    if name is None:
        return certificate(schema, **options)
    found = certificate(schema, masked_alone=True, **options)
    # As calls are compiled: an exhausted work budget is not followed by a wider grammar.
    if found.grammar is None and not any(
        row.why.startswith(BUDGET_EXCEEDED) for row in found.keywords
    ):
        found = certificate(schema, **options)
    if not found.count(CHECKED) or validator_of(ToolSpec(name, parameters=schema)) is not None:
        return found
    rows = (
        row._replace(how=REFUSED, why=_VALIDATOR_FAILED) if row.how == CHECKED else row
        for row in found.keywords
    )
    return found._replace(keywords=tuple(rows), grammar=None)


def _data(name: str | None, found: Certificate, tokens: _Counter | None) -> dict[str, Any]:
    """Return the report on one schema as JSON."""
    data: dict[str, Any] = {} if name is None else {"function": name}
    data["keywords"] = [row._asdict() for row in found.keywords]
    if found.grammar is not None:
        data |= {k: v for k, v in found.grammar.report().to_json().items() if k != "keywords"}
        if tokens is not None:
            data["tokens"] = {**tokens(found.grammar), "most": data["bytes"]["most"]}
    return data


def _counter(path: Path) -> _Counter:
    """Return a function that counts the tokens of a grammar's outputs."""
    from callmemaybe.grammar import compile as compile_grammar
    from callmemaybe.matching.matcher import shortest_output
    from callmemaybe.vocabulary import Vocabulary

    known = Vocabulary.from_file(path)

    def count(grammar: Grammar) -> dict[str, Any]:
        tokens = shortest_output(compile_grammar(grammar), known)
        return {"fewest": tokens.tokens, "forced": tokens.forced}

    return count


def _show(told: Sequence[dict[str, Any]], *, brief: bool) -> None:
    from rich.text import Text

    from callmemaybe.cli.display import console

    out = console(sys.stdout)
    for number, data in enumerate(told):
        if (name := data.get("function")) is not None:
            out.print(Text(f"{chr(10) * bool(number)}{printable(name)}", "bold"))
        rows = [
            row for row in data["keywords"] if not brief or row["how"] in ("checked", "refused")
        ]
        for line in _listed(rows, out.width):
            out.print(line, soft_wrap=True)
        if rows:
            out.print()
        for figure in _figures(data):
            out.print(Text(figure), soft_wrap=True)


def _listed(rows: Sequence[Mapping[str, str]], width: int) -> Iterator[Text]:
    """Yield lines: each node of the schema, and below it its keywords by how they are handled."""
    from rich.text import Text

    nodes: dict[str, dict[tuple[str, str], list[str]]] = {}
    for row in rows:
        node = row["pointer"].rpartition("/")[0] if row["keyword"] else row["pointer"]
        groups = nodes.setdefault(node, {})
        groups.setdefault((row["how"], row["why"]), []).append(row["keyword"])
    for node, groups in nodes.items():
        # Not wrapped, so that the pointer can be copied.
        yield Text(printable(node or "/"), "bold")
        for (how, why), keywords in groups.items():
            text = printable(" ".join(keywords) + (": " if any(keywords) and why else "") + why)
            first, *others = textwrap.wrap(text, max(width - _INDENT, 20))
            yield Text("  ").append(f"{how:<{_INDENT - 2}}", _COLOURS[how]).append(first)
            yield from (Text(" " * _INDENT + line) for line in others)


def _figures(data: dict[str, Any]) -> list[str]:
    counts = {how: sum(row["how"] == how for row in data["keywords"]) for how in _COLOURS}
    lines = [", ".join(f"{count} {how}" for how, count in counts.items() if count) or "anything"]
    if "automaton" not in data:
        return [*lines, "No grammar: something is refused."]
    if not counts["masked"] and counts["annotation"]:
        lines.append("No keyword of JSON Schema limits anything here: every JSON value fits.")
    automaton, size, forced = data["automaton"], data["bytes"], data["forced"]
    more = "" if automaton["complete"] else "more than "
    lines.append(f"automaton: {more}{automaton['states']:,} states")
    lines.append(f"bytes of an output: {_between(size)}")
    lines.append(
        f"of a shortest output {forced['bytes']:,} of {forced['of']:,} "
        f"{'byte is' if forced['of'] == 1 else 'bytes are'} forced ({forced['share']:.0%})"
    )
    if "tokens" in data:
        tokens = data["tokens"]
        lines.append(
            f"tokens of an output: {_between(tokens)}; "
            f"{tokens['forced']:,} of the fewest are forced"
        )
    return lines


def _between(size: Mapping[str, Any]) -> str:
    """Return a range as text."""
    fewest, most = size["fewest"], size["most"]
    if fewest == most:
        return f"{fewest:,}"
    end = "no limit" if most is None else most if isinstance(most, str) else f"{most:,}"
    return f"{fewest:,} to {end}"
