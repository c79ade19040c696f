"""The command ``check``: what the engine promises for a schema, keyword by keyword."""

from __future__ import annotations

import json
import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from callmemaybe.cli.exits import Exit
from callmemaybe.cli.limits import Order, OrderOption
from callmemaybe.errors import InputError

_COLOURS = {"masked": "green", "annotation": "dim", "checked": "yellow", "refused": "bold red"}


class Spacing(StrEnum):
    """The styles of :func:`callmemaybe.grammar.json_schema`."""

    SPACED = "spaced"
    COMPACT = "compact"
    FLEXIBLE = "flexible"


def check(
    schema: Annotated[Path, typer.Argument(help='A JSON Schema, or "-" for standard input.')],
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
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

    And how large the language is. Exits with 2 if a keyword is refused or the file is no schema.
    """
    from callmemaybe.grammar import Ground
    from callmemaybe.grammar.schema.certificate import certificate

    said = Ground("", is_known=False) if ground is None else Ground(ground)
    document = _read(schema)
    found = certificate(
        document, style=style.value, order=order.value, additional=not closed, ground=said
    )
    data: dict[str, Any] = {"keywords": [row._asdict() for row in found.keywords]}
    if found.grammar is not None:
        data |= {k: v for k, v in found.grammar.report().to_json().items() if k != "keywords"}
        if vocabulary is not None:
            data["tokens"] = _tokens(found.grammar, vocabulary, data["bytes"]["most"])
    if as_json:
        typer.echo(json.dumps(data, ensure_ascii=False, indent=2))
    else:
        _show(data)
    raise typer.Exit(Exit.DONE if found.grammar is not None else Exit.BAD_INPUT)


def register(app: typer.Typer) -> None:
    """Add the command to the program."""
    app.command()(check)


def _read(path: Path) -> Any:
    from callmemaybe.cli.jsonread import read, read_text

    if str(path) == "-":
        text, source = sys.stdin.read(), "standard input"
    else:
        text, source = read_text(path), str(path)
    document = read(text, source=source)
    if not isinstance(document.value, dict | bool):
        raise InputError(
            "a schema is an object, true or false",
            where=document.place(),
            hint="see json-schema.org",
        )
    return document.value


def _tokens(grammar: Any, path: Path, most: int | str | None) -> dict[str, Any]:
    from callmemaybe.grammar import compile as compile_grammar
    from callmemaybe.matching.measure import tokens_of
    from callmemaybe.vocabulary import Vocabulary

    tokens = tokens_of(compile_grammar(grammar), Vocabulary.from_file(path))
    # Every token is at least one byte.
    return {"fewest": tokens.fewest, "forced": tokens.forced, "most": most}


def _show(data: dict[str, Any]) -> None:
    from rich.table import Table
    from rich.text import Text

    from callmemaybe.cli.show import console, printable

    out = console(sys.stdout)
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("keyword", overflow="fold")
    table.add_column("becomes", no_wrap=True)
    table.add_column("why", overflow="fold")
    for row in data["keywords"]:
        how = Text(row["how"], _COLOURS[row["how"]])
        table.add_row(Text(printable(row["pointer"] or "/")), how, Text(printable(row["why"])))
    out.print(table)
    for line in _figures(data):
        out.print(Text(line), soft_wrap=True)


def _figures(data: dict[str, Any]) -> list[str]:
    counts = {how: sum(row["how"] == how for row in data["keywords"]) for how in _COLOURS}
    lines = [
        "",
        ", ".join(f"{count} {how}" for how, count in counts.items() if count) or "anything",
    ]
    if "automaton" not in data:
        return [*lines, "No grammar: something is refused."]
    automaton, size, forced = data["automaton"], data["bytes"], data["forced"]
    more = "" if automaton["complete"] else "more than "
    lines.append(f"automaton: {more}{automaton['states']:,} states")
    lines.append(f"bytes of an output: {size['fewest']:,} to {_most(size['most'])}")
    lines.append(
        f"of a shortest output {forced['bytes']:,} of {forced['of']:,} bytes are forced "
        f"({forced['share']:.0%})"
    )
    if "tokens" in data:
        tokens = data["tokens"]
        lines.append(
            f"tokens of an output: {tokens['fewest']:,} to {_most(tokens['most'])}; "
            f"{tokens['forced']:,} of the fewest are forced"
        )
    return lines


def _most(most: int | str | None) -> str:
    return "no limit" if most is None else most if isinstance(most, str) else f"{most:,}"
