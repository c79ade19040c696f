"""A recipe: one TOML file that says everything about a run."""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from functools import cached_property
from math import log
from pathlib import Path
from typing import Any
from zlib import crc32

from training import recipe_schema
from training.data import dialogues
from training.data.leak_filter import Guard, build_guard
from training.data.mixture import BlockMaker, Mix, Sources
from training.data.tasks import Function, read_tasks

ROOT = Path(__file__).parents[1]


@dataclass(frozen=True)
class Recipe:
    """The table of a run with what is derived from it."""

    path: Path
    table: dict[str, Any]

    @property
    def seed(self) -> str:
        return str(self.table["seed"])

    @property
    def out(self) -> Path:
        return ROOT / str(self.table["out"])

    @property
    def shown(self) -> str:
        """Where it lies: in the repository, or else on this machine."""
        path = self.path.resolve()
        return (path.relative_to(ROOT) if path.is_relative_to(ROOT) else path).as_posix()

    @cached_property
    def _guard(self) -> Guard:
        return build_guard(ROOT / self.table["evaluation"], ROOT / self.table["examples"])

    def guard(self) -> Guard:
        return self._guard

    def is_held_out(self, function: Function) -> str:
        """ "" for training functions, else why it is held out ("aside": from measuring too)."""
        rule = self.table["held_out"]
        if function.key in rule.get("aside", ()):
            return "aside"
        if function.domain in rule["domains"]:
            return "domain"
        if function.domain in rule.get("trained", ()):
            return ""
        if crc32(function.key.encode()) % rule["every"] == 0:
            return "function"
        return ""

    def functions(self, part: str) -> list[Function]:
        """`train`, `function` (held out in a known domain) or `domain` (a whole domain held out)."""
        wanted = "" if part == "train" else part
        found = [f for f in read_tasks() if self.is_held_out(f) == wanted]
        return [f for f in found if self.is_shared(f.key)] if part == "train" else found

    def is_shared(self, key: str) -> bool:
        """Whether a training function is among the `share` of them that this run learns from.

        Smaller shares are parts of larger ones.
        """
        return crc32(f"share {key}".encode()) < self.table["training"].get("share", 1) * 2**32

    def dialogues(self, part: str) -> dialogues.Dialogues | None:
        """SGD requests; training drops what comes near dev or test, dev keeps unseen services."""
        folder = ROOT / self.table["sgd"]
        if not folder.is_dir():
            return None
        loaded = dialogues.load(
            folder, part, turns=2 if part == "train" else 1, strict=part == "train"
        )
        if part == "train":
            guard = self.guard()
            kept = {
                name: [e for e in examples if guard.allows_prompt(e[0])]
                for name, examples in loaded.examples.items()
                if self.is_shared(name)
            }
        else:
            trained = dialogues.load(folder, "train", turns=99, strict=False).tools
            kept = {n: e for n, e in loaded.examples.items() if n not in trained}
        kept = {name: examples for name, examples in kept.items() if examples}
        return dialogues.Dialogues({n: loaded.tools[n] for n in kept}, kept)

    @property
    def excess(self) -> float:
        """How much likelier training makes it that nothing fits than what is held out does, in log-odds."""
        usual = self.table["mix"]["none"]
        drawn = self.table["mix"].get("training", {}).get("none", usual)
        return log(drawn / (1 - drawn)) - log(usual / (1 - usual)) if drawn != usual else 0.0

    def maker(self, part: str, kinds: dict[str, float] | None = None) -> BlockMaker:
        """A source of blocks: `train`, or one of the held-out parts (`function`, `domain`, `dev`)."""
        table = self.table["mix"]
        guard = self.guard()
        with_dialogue = part in ("train", "dev")
        sources = Sources(
            self.functions("train" if part == "dev" else part),
            self.dialogues(part) if with_dialogue else None,
            guard.allows_tool if part == "train" else lambda tool: True,
            guard.allows_prompt if part == "train" else lambda prompt: True,
            dress=part == "train",
        )
        held = {"dev": "dialogue", "function": "tasks", "domain": "tasks"}
        kinds = kinds or ({held[part]: 1.0} if part in held else table["kinds"])
        if part == "train":
            strays = {"none": table["none"]} | table.get("training", {})
            return BlockMaker(sources, Mix(kinds, two=table["two"], **strays))
        return BlockMaker(sources, Mix(kinds, table["none"], 0.0))


def load(path: Path) -> Recipe:
    """Read a recipe; raises SystemExit with one sentence for a file that is none."""
    return Recipe(path, recipe_schema.read(path))


def from_arguments(about: str) -> Recipe:
    """The recipe named on the command line."""
    parser = argparse.ArgumentParser(description=about.split("\n", maxsplit=1)[0])
    parser.add_argument("--run", type=Path, default=ROOT / "training/runs/nano-2.toml")
    return load(parser.parse_args().run)
