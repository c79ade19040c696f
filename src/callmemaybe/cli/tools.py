"""``--tools`` and what belongs to it, for every command: loaded, with a line for what is left out."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import typer

from callmemaybe.cli.process import printable
from callmemaybe.errors import InputError

if TYPE_CHECKING:
    from callmemaybe.retrieval import ToolIndex
    from callmemaybe.sources import LoadedTools, SkippedTool
    from callmemaybe.tools import ToolSpec

#: How many lines about tools that are left out are printed at once.
_MAX_LINES = 5
#: From how many tools on a model is shown only those that fit a request, and how many of them.
MANY_TOOLS, CHOSEN_TOOLS = 32, 16


@dataclass(frozen=True, slots=True)
class ToolChoice:
    """The options that name tools."""

    sources: Sequence[str]
    only: Sequence[str] = ()
    skip: Sequence[str] = ()
    allow_private: bool = False
    base_url: str | None = None

    def __bool__(self) -> bool:
        return bool(self.sources)

    def load(self, *, quiet: bool = False) -> LoadedTools:
        """Return the tools, after a line on standard error for each that is left out.

        Raises InputError if none is named or one cannot be read.
        """
        from callmemaybe.sources import load_tools

        if not self.sources:
            raise InputError(
                "no functions are named", where="--tools",
                hint="name a JSON or Python file, an OpenAPI document or an MCP server",
            )  # fmt: skip
        loaded = load_tools(
            *self.sources, only=self.only, skip=self.skip, allow_private=self.allow_private,
            base_url=self.base_url,
        )  # fmt: skip
        if not quiet:
            _say_skipped(loaded.skipped)
        return loaded

    def load_runnable(self) -> LoadedTools:
        """Return the tools as :meth:`load` does; raise InputError if one of them is defined only."""
        loaded = self.load()
        try:
            loaded.check_runnable()
        except InputError:
            loaded.close()
            raise
        return loaded

    def as_options(self) -> str:
        """Return the options as text, for a command to type."""
        words = [("--tools", one) for one in self.sources]
        words += [("--only", one) for one in self.only] + [("--skip", one) for one in self.skip]
        words += [("--base-url", self.base_url)] if self.base_url else []
        text = " ".join(f"{name} {shlex.quote(value)}" for name, value in words)
        return text + " --allow-private" * self.allow_private


def _say_skipped(skipped: Sequence[SkippedTool]) -> None:
    for one in skipped[:_MAX_LINES]:
        typer.echo(printable(str(one)), err=True)
    if len(skipped) > _MAX_LINES:
        more = len(skipped) - _MAX_LINES
        typer.echo(f"{more:,} more are left out; `callmemaybe check --tools` lists all", err=True)


def shown_to_model(specs: Sequence[ToolSpec]) -> Sequence[ToolSpec] | ToolIndex:
    """Return what a Caller takes: the tools, or where they are many, an index that chooses among them."""
    if len(specs) <= MANY_TOOLS:
        return specs
    from callmemaybe.retrieval import ToolIndex

    return ToolIndex(specs, k=CHOSEN_TOOLS)
