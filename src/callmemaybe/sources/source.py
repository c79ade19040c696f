"""What is asked of a source, and what comes of it: tools, and what was left out and why."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from callmemaybe.errors import InputError

if TYPE_CHECKING:
    from callmemaybe.tools import ToolSpec
    from callmemaybe.tools.declare import Tool


@dataclass(frozen=True)
class SkippedTool:
    """A tool of a source that was left out, and why."""

    name: str
    source: str
    reason: str

    def __str__(self) -> str:
        return f"{self.source}: {self.name} is left out: {self.reason}"


class NameFilter:
    """The names that are wanted: those of ``only`` (all, if it is empty) without those of ``skip``.

    Both hold names or patterns with ``*``, ``?`` and ``[...]``. The filter remembers what it was asked for, so that
    :meth:`check` finds patterns that fit nothing.
    """

    def __init__(self, only: Iterable[str] = (), skip: Iterable[str] = ()) -> None:
        self._only, self._skip = tuple(only), tuple(skip)
        self._unused = {*self._only, *self._skip}
        self._seen: list[str] = []

    def wants(self, name: str) -> bool:
        """Whether a tool of this name is wanted."""
        self._seen.append(name)
        only = self._fitting(name, self._only)
        skipped = self._fitting(name, self._skip)
        return not skipped and bool(only or not self._only)

    def _fitting(self, name: str, patterns: Sequence[str]) -> list[str]:
        found = [one for one in patterns if name == one or fnmatchcase(name, one)]
        self._unused.difference_update(found)
        return found

    def check(self) -> None:
        """Raise InputError for a pattern that fits no tool of any source."""
        for option, patterns in (("--only", self._only), ("--skip", self._skip)):
            for pattern in patterns:
                if pattern in self._unused:
                    close = difflib.get_close_matches(pattern, self._seen, n=3, cutoff=0.5)
                    names = close or self._seen[:3]
                    raise InputError(
                        f"no tool is called {pattern!r}", where=option,
                        hint=f"there is {', '.join(names)}" if names else None,
                    )  # fmt: skip


@dataclass(frozen=True)
class LoadOptions:
    """How sources are read: which tools are wanted, and what documents may lead to."""

    names: NameFilter = field(default_factory=NameFilter)
    allow_private: bool = False
    base_url: str | None = None


@dataclass(frozen=True)
class LoadedSource:
    """What came of one source: definitions or runnable tools, what was left out, and how to let go of it."""

    tools: Sequence[ToolSpec | Tool]
    skipped: Sequence[SkippedTool] = ()
    close: Callable[[], None] | None = None
