"""A recipe: the TOML file that determines a run."""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from functools import cached_property
from math import log
from pathlib import Path
from typing import Any
from zlib import crc32

from training import recipe_schema
from training.data import dialogues, foreign, natural, seal_tools
from training.data.leak_filter import LeakFilter, build_leak_filter
from training.data.mixture import CORPORA, SEAL, BlockMaker, Mix, Sources
from training.data.tasks import TaskFunction, read_tasks

ROOT = Path(__file__).parents[1]
DEFAULT = ROOT / "training/runs/nano-2.toml"
RELEASE = (
    ROOT / "src/callmemaybe/data/nano"
)  # the shipped model; only `training.export --release` writes there


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
    def exported(self) -> Path:
        """Folder of the exported model, which git ignores."""
        return self.out / "export"

    @property
    def shown(self) -> str:
        """Its path in the repository, or else on this machine."""
        path = self.path.resolve()
        return (path.relative_to(ROOT) if path.is_relative_to(ROOT) else path).as_posix()

    @cached_property
    def leak_filter(self) -> LeakFilter:
        """What training must not draw, because an evaluation set holds it."""
        return build_leak_filter(ROOT / self.table["evaluation"], ROOT / self.table["examples"])

    def is_held_out(self, function: TaskFunction) -> str:
        """Why a function is held out: "function", "domain", "aside" (from measuring too), or "" for training functions."""
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

    def functions(self, part: str) -> list[TaskFunction]:
        """`train`, `function` (held out in a known domain) or `domain` (a whole domain held out)."""
        reason = "" if part == "train" else part
        return [function for function in read_tasks() if self.is_held_out(function) == reason]

    def dialogues(self, part: str) -> dialogues.Dialogues | None:
        """Requests of SGD: in training without any that overlap dev or test, in dev of unseen services alone."""
        folder = ROOT / self.table["sgd"]
        if not folder.is_dir():
            return None
        loaded = dialogues.load(
            folder, part, turns=2 if part == "train" else 1, strict=part == "train"
        )
        if part == "train":
            leaks = self.leak_filter
            kept = {
                name: [e for e in examples if leaks.allows_prompt(e[0])]
                for name, examples in loaded.examples.items()
            }
        else:
            trained = dialogues.load(folder, "train", turns=99, strict=False).tools
            kept = {n: e for n, e in loaded.examples.items() if n not in trained}
        kept = {name: examples for name, examples in kept.items() if examples}
        return dialogues.Dialogues({n: loaded.tools[n] for n in kept}, kept)

    @cached_property
    def corpora(self) -> dict[str, natural.NaturalCorpus]:
        """Natural requests by corpus, without any that overlap an evaluation set."""
        folder = ROOT / str(self.table.get("natural", ""))
        allows = self.leak_filter.allows_prompt
        return {
            name: natural.load(folder, name, allows)
            for name in CORPORA
            if "natural" in self.table and name != SEAL and (folder / name).is_dir()
        }

    def natural(self, part: str) -> dict[str, natural.NaturalCorpus]:
        """`train`, `natural` or `intent` (see `natural.part_of`) of each corpus that has any."""
        unseen = self.table["held_out"].get("intents", ())
        parts = {name: natural.part_of(c, part, unseen) for name, c in self.corpora.items()}
        return {name: corpus for name, corpus in parts.items() if corpus.functions}

    def seal(self, part: str) -> seal_tools.SealTools | None:
        """`train` or `natural` of Seal-Tools, where it is at hand."""
        folder = ROOT / str(self.table.get("natural", "")) / SEAL
        if "natural" not in self.table or not folder.is_dir() or part == "intent":
            return None
        return seal_tools.part_of(seal_tools.load(folder), part)

    @property
    def excess(self) -> float:
        """How much likelier than in use it is in training that no tool fits, in log-odds."""
        usual = self.table["mix"]["none"]
        drawn = self.table["mix"].get("training", {}).get("none", usual)
        return log(drawn / (1 - drawn)) - log(usual / (1 - usual)) if drawn != usual else 0.0

    def maker(
        self, part: str, kinds: dict[str, float] | None = None, *, varied: bool = False
    ) -> BlockMaker:
        """A source of blocks: `train`, or one of the held-out parts (`function`, `domain`, `dev`, `natural`, `intent`,
        and `foreign`: held-out functions and domains, asked for in other languages). `varied`: as training varies its own.
        """
        table = self.table["mix"]
        leaks = self.leak_filter
        with_dialogue = part in ("train", "dev")
        functions = (
            self.functions("function") + self.functions("domain")
            if part == "foreign"
            else self.functions("train" if part in ("dev", "natural", "intent") else part)
        )
        sources = Sources(
            functions,
            self.dialogues(part) if with_dialogue else None,
            leaks.allows_tool if part == "train" else lambda tool: True,
            leaks.allows_prompt if part == "train" else lambda prompt: True,
            augment=varied or part == "train",
        )
        natural_too = part in ("train", "natural", "intent")
        if natural_too:
            sources.natural, sources.seal = self.natural(part), self.seal(part)
        if part in ("train", "foreign"):
            sources.foreign = foreign.read(functions)
        held = {"dev": "dialogue", "function": "tasks", "domain": "tasks"}
        held |= {"natural": "natural", "intent": "natural", "foreign": "foreign"}
        kinds = kinds or ({held[part]: 1.0} if part in held else table["kinds"])
        if part == "train":
            strays = {"none": table["none"]} | table.get("training", {})
            return BlockMaker(sources, Mix(kinds, two=table["two"], **strays))
        return BlockMaker(sources, Mix(kinds, table["none"], 0.0))


def load(path: Path) -> Recipe:
    """Read a recipe; raises SystemExit with one sentence for an invalid file."""
    return Recipe(path, recipe_schema.read(path))


def from_arguments(about: str) -> Recipe:
    """The recipe named on the command line."""
    parser = argparse.ArgumentParser(description=about.split("\n", maxsplit=1)[0])
    parser.add_argument("--run", type=Path, default=DEFAULT)
    return load(parser.parse_args().run)
