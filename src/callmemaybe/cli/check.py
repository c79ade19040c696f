"""The command ``check``: what the engine promises for a schema, keyword by keyword."""

from __future__ import annotations

import json
import sys
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from callmemaybe.cli.exits import Exit
from callmemaybe.cli.limits import Order, OrderOption
from callmemaybe.errors import InputError

if TYPE_CHECKING:
    from rich.text import Text

    from callmemaybe.grammar import Grammar
    from callmemaybe.grammar.schema.certificate import Certificate

    _Counter = Callable[[Grammar], dict[str, Any]]

#: Where the keywords of a place begin in their line.
_INDENT = 14
_COLOURS = {"masked": "green", "annotation": "dim", "checked": "yellow", "refused": "bold red"}

_UNREAD = "it can only be checked afterwards, and the validator cannot read this schema"


class Spacing(StrEnum):
    """The styles of :func:`callmemaybe.grammar.json_schema`."""

    SPACED = "spaced"
    COMPACT = "compact"
    FLEXIBLE = "flexible"


def check(
    schema: Annotated[
        Path,
        typer.Argument(help='A JSON Schema, or functions as run takes them; "-": standard input.'),
    ],
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    brief: Annotated[
        bool, typer.Option("--brief", "-b", help="List only what is checked or refused.")
    ] = False,
    style: Annotated[Spacing, typer.Option(help="How the JSON is spaced.")] = Spacing.SPACED,
    order: OrderOption = Order.SCHEMA,
    ground: Annotated[
        str | None,
        typer.Option(metavar="TEXT", help="What was said, for x-ground; without it, any text."),
    ] = None,
    closed: Annotated[
        bool,
        typer.Option(
            "--closed", help="No undeclared properties where properties are listed, as in tools."
        ),
    ] = False,
    vocabulary: Annotated[
        Path | None,
        typer.Option(help="A tokenizer.json, a .gguf or a model's folder: count tokens, too."),
    ] = None,
) -> None:
    """Say for every keyword whether it is masked, checked afterwards, an annotation or refused.

    And how large the language is. Of functions, each one's parameters are told, which are always
    closed, and of which something is left to be checked only where not all can be masked. Exits with 2 if a
    keyword is refused or the file holds neither.
    """
    from callmemaybe.grammar import Ground

    said = Ground("", is_known=False) if ground is None else Ground(ground)
    tokens = None if vocabulary is None else _counter(vocabulary)
    told: list[dict[str, Any]] = []
    for name, one in _schemas(schema):
        found = _certified(
            name, one, style=style.value, order=order.value, ground=said,
            additional=not closed and name is None,
        )  # fmt: skip
        told.append(_data(name, found, tokens))
    if as_json:
        found_all: Any = told[0] if told[0].get("function") is None else {"functions": told}
        typer.echo(json.dumps(found_all, ensure_ascii=False, indent=2))
    else:
        _show(told, brief=brief)
    raise typer.Exit(Exit.DONE if all("automaton" in one for one in told) else Exit.BAD_INPUT)


def register(app: typer.Typer) -> None:
    """Add the command to the program."""
    app.command()(check)


def _schemas(path: Path) -> list[tuple[str | None, Any]]:
    """Return the schemas of a file, with the names of the functions they belong to (None: none)."""
    from callmemaybe.cli.files import read_text, source
    from callmemaybe.jsonio.reader import read
    from callmemaybe.tools import ToolSpec, check_distinct

    document = read(read_text(path), source=source(path))
    value = document.value
    alone = isinstance(value, dict) and _is_function(value)
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
    """Certify a schema; that of a function as calls are compiled, and checked where they are."""
    from callmemaybe.generation.validation import validator_of
    from callmemaybe.grammar.automaton import EXHAUSTED
    from callmemaybe.grammar.schema.certificate import CHECKED, REFUSED, certificate
    from callmemaybe.tools import ToolSpec

    if name is None:
        return certificate(schema, **options)
    found = certificate(schema, masked_alone=True, **options)
    # As calls are compiled: what took all the work allowed is not tried wider.
    if found.grammar is None and not any(row.why.startswith(EXHAUSTED) for row in found.keywords):
        found = certificate(schema, **options)
    if not found.count(CHECKED) or validator_of(ToolSpec(name, parameters=schema)) is not None:
        return found
    rows = (
        row._replace(how=REFUSED, why=_UNREAD) if row.how == CHECKED else row
        for row in found.keywords
    )
    return found._replace(keywords=tuple(rows), grammar=None)


def _is_function(value: dict[str, Any]) -> bool:
    """Whether an object is a function's definition, and no schema."""
    inner = value.get("function")
    if value.get("type") == "function" or (isinstance(inner, dict) and "name" in inner):
        return True
    schemas = {"parameters", "inputSchema", "input_schema"}
    return isinstance(value.get("name"), str) and bool(schemas & {*value})


def _data(name: str | None, found: Certificate, tokens: _Counter | None) -> dict[str, Any]:
    """Return what is told of one schema, as JSON."""
    data: dict[str, Any] = {} if name is None else {"function": name}
    data["keywords"] = [row._asdict() for row in found.keywords]
    if found.grammar is not None:
        data |= {k: v for k, v in found.grammar.report().to_json().items() if k != "keywords"}
        if tokens is not None:
            data["tokens"] = {**tokens(found.grammar), "most": data["bytes"]["most"]}
    return data


def _counter(path: Path) -> _Counter:
    """Return what counts the tokens of a grammar's outputs; every token is at least one byte."""
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

    from callmemaybe.cli.show import console, printable

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
    """Yield lines: each place of the schema, and below it its keywords by what becomes of them."""
    from rich.text import Text

    from callmemaybe.cli.show import printable

    places: dict[str, dict[tuple[str, str], list[str]]] = {}
    for row in rows:
        place = row["pointer"].rpartition("/")[0] if row["keyword"] else row["pointer"]
        fates = places.setdefault(place, {})
        fates.setdefault((row["how"], row["why"]), []).append(row["keyword"])
    for place, fates in places.items():
        # Not folded, so that a pointer can be copied.
        yield Text(printable(place or "/"), "bold")
        for (how, why), keywords in fates.items():
            said = printable(" ".join(keywords) + (": " if any(keywords) and why else "") + why)
            first, *others = textwrap.wrap(said, max(width - _INDENT, 20))
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
    """Return the fewest and the most of something."""
    fewest, most = size["fewest"], size["most"]
    if fewest == most:
        return f"{fewest:,}"
    end = "no limit" if most is None else most if isinstance(most, str) else f"{most:,}"
    return f"{fewest:,} to {end}"
