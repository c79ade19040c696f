"""Train the embedded model further on a user's functions: ``tune``.

The problem: the embedded model is general and small, and whoever has ten functions of their own wants them right nearly
always. What it lacks there is little: which of them is meant, where their values begin and end, what they call things. So all
of its weights are moved a little, on requests for these functions (the user's examples, varied, and requests made up from
the definitions) and on what it was trained on before, so that nothing is forgotten.

The weights are read from the graph of the model's folder and written back into a copy of it, rounded to eight bits as before;
the network in between is that of ``training/``. Only that part needs PyTorch. Everything is drawn from the seed, so a run of
so many steps (not minutes) with the same number of threads gives the same weights again.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from hashlib import sha256
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any, Literal

from callmemaybe.errors import InputError, WriteError
from callmemaybe.tools import ToolLike, ToolSpec, check_distinct, tool_specs
from callmemaybe.tuning.examples import Example, check_examples
from callmemaybe.tuning.tuned_folder import add_report, is_complete, is_tuned, write_folder

if TYPE_CHECKING:
    from callmemaybe.evals.report import Judged
    from callmemaybe.tuning.graph_weights import GraphWeights
    from callmemaybe.tuning.network.fitting import Fitting
    from callmemaybe.tuning.packing import EncodedBlock

#: Steps after which the time of one is known.
_TRIAL = 5
#: How often held-out requests are looked at while training, and most of them then.
LOOKS, LOOK_CASES = 8, 96
#: Looks without a gain after which training stops early.
PATIENCE = 4
#: Of the user's examples of a function every so many is held out, where there are as many.
HELD_OUT_EVERY = 5
#: Share of the steps that rehearse a list of training beside the user's.
REHEARSED = 0.3
#: Requests for other functions by which forgetting is measured, and made-up ones where no examples are held out.
GENERAL_CASES, MADE_UP_CASES = 300, 120
#: Seconds after which the state is saved.
SAVE_SECONDS = 30
#: Most functions that can be tuned on: the network tells no more apart.
MOST_TOOLS = 64
_STATE = "state.pt"


@dataclass(frozen=True, slots=True)
class TuneProgress:
    """How far tuning is: ``phase`` is "trains", "looks" or "measures"; ``of`` counts steps, or requests that are measured.

    After a look, ``own`` and ``general`` are the shares of held-out requests answered rightly, without a grammar.
    """

    phase: Literal["trains", "looks", "measures"]
    done: int
    of: int
    seconds: float
    loss: float | None = None
    own: float | None = None
    general: float | None = None


@dataclass(frozen=True, slots=True)
class TuneResult:
    """A tuned model: its folder, and what ``tuning.json`` in it says."""

    folder: Path
    report: dict[str, Any]


@dataclass(frozen=True, slots=True)
class TuneSettings:
    """What determines the weights, beside the functions and the examples."""

    minutes: float = 10.0
    steps: int | None = None
    seed: int = 0
    threads: int = 0
    holds_out: bool = True

    def checked(self) -> TuneSettings:
        """Return the settings with the threads of this machine; raise InputError for a wrong one."""
        if not 0 < self.minutes <= 100_000:
            raise InputError("the minutes must be more than 0", where="minutes")
        if self.steps is not None and self.steps < 1:
            raise InputError("at least one step must be taken", where="steps")
        threads = self.threads or min(2, os.cpu_count() or 1)
        return TuneSettings(self.minutes, self.steps, self.seed, threads, self.holds_out)


def tune(
    tools: Iterable[ToolLike],
    examples: Iterable[Example] = (),
    *,
    output: str | Path,
    model: str | Path = "nano",
    settings: TuneSettings | None = None,
    resume: bool = False,
    progress: Callable[[TuneProgress], None] = lambda _: None,
    watched: Iterable[Example] = (),
) -> TuneResult:
    """Train ``model`` (nano, or what was tuned from it) further on ``tools``, and write the folder ``output``.

    ``tools`` are those that a ``Caller`` takes. ``progress`` is told of every step. What was done is saved beside ``output`` (``<output>.tuning``) and kept when an exception,
    KeyboardInterrupt too, ends the training; ``resume`` goes on from there. ``watched`` are examples that measure in place of
    those held out, and decide nothing; with them, and only to measure it, there may be no examples. Raises InputError for functions, examples or settings
    that cannot be used, ImportError without the extra ``tune``, and WriteError.
    """
    plan = (settings or TuneSettings()).checked()
    run = _TuningRun(tool_specs(tools), list(examples), Path(output), model, plan, progress)
    run.watched = list(watched)
    run.check(resume=resume)
    run.prepare()
    run.train()
    return run.finish()


def split_examples(
    examples: Sequence[Example], *, holds_out: bool
) -> tuple[list[Example], list[Example]]:
    """Return the examples to train on and those to measure with: of each function every `HELD_OUT_EVERY`-th."""
    seen: dict[str, int] = {}
    trained, held_out = [], []
    for example in examples:
        key = " ".join(call.name for call in example.calls)
        seen[key] = seen.get(key, 0) + 1
        if holds_out and seen[key] % HELD_OUT_EVERY == 0:
            held_out.append(example)
        else:
            trained.append(example)
    return trained, held_out


class _TuningRun:
    """One tuning from the folder it begins with to the folder it writes."""

    fitting: Fitting
    graph: GraphWeights

    def __init__(
        self, tools: tuple[ToolSpec, ...], examples: list[Example], output: Path, model: str | Path,
        plan: TuneSettings, progress: Callable[[TuneProgress], None],
    ) -> None:  # fmt: skip
        self.tools, self.examples, self.plan, self.say = tools, examples, plan, progress
        self.output, self.source = output, _folder_of(model)
        self.state = output.with_name(f"{output.name}.tuning")
        self.trained, self.held_out = split_examples(examples, holds_out=plan.holds_out)
        self.made_up = not self.held_out
        self.watched: list[Example] = []
        self.steps = plan.steps
        self.history: list[dict[str, Any]] = []
        self.begun = time.monotonic()
        self.saved = self.begun

    def check(self, *, resume: bool) -> None:
        """Raise InputError where tuning cannot begin, or go on."""
        if not self.tools:
            raise InputError("there are no functions to tune on", where="tools")
        if len(self.tools) > MOST_TOOLS:
            raise InputError(
                f"{len(self.tools)} functions are too many: the embedded model tells {MOST_TOOLS} apart", where="tools",
                hint="tune on those that are confused, with --only",
            )  # fmt: skip
        check_distinct(self.tools)
        check_examples(self.examples, self.tools)
        if self.output.exists() and not is_tuned(self.output):
            raise InputError(
                "this is there, and no model that was tuned", where=str(self.output),
                hint="name a folder that is new",
            )  # fmt: skip
        is_there = (self.state / _STATE).exists()
        if is_there and not resume:
            raise InputError(
                "a tuning that was broken off is there", where=str(self.state),
                hint="go on with --resume, or remove the folder",
            )  # fmt: skip
        if resume and not is_there:
            raise InputError("there is no tuning to go on with", where=str(self.state))
        if not self.examples and not self.watched:
            raise InputError(
                "there are no examples, and made-up requests alone make it worse on what people say", where="examples",
                hint="give some; write down what people say",
            )  # fmt: skip

    def prepare(self) -> None:
        """Load the network and the requests, and the state of a tuning that was broken off."""
        from tokenizers import Tokenizer

        from callmemaybe.tuning.graph_weights import GraphWeights
        from callmemaybe.tuning.lists import RequestLists, own_lists, rehearsal_lists
        from callmemaybe.tuning.network.fitting import Fitting
        from callmemaybe.tuning.network.restored import restored
        from callmemaybe.tuning.packing import Encoder
        from callmemaybe.tuning.rehearsal import TRAIN

        encoder = Encoder(Tokenizer.from_file(str(self.source / "tokenizer.json")))
        self.graph = GraphWeights.load(self.source)
        network = restored(self.graph, encoder)
        self.fitting = Fitting(network, self.graph.none_bias, self.plan.threads)
        self.lists = RequestLists(self.tools, self.trained, encoder, self.plan.seed)
        self.rehearsed = list(rehearsal_lists(TRAIN, encoder))
        if self.made_up:
            self.held_out = self._made_up_requests()
        if not self.held_out:
            raise InputError(
                "no requests can be made up for these functions",
                where="tools",
                hint="give examples",
            )
        shown = self.watched or self.held_out
        shown = shown[:: max(1, len(shown) // LOOK_CASES)][:LOOK_CASES]
        self.looked_at = list(own_lists(self.tools, shown, encoder))
        general = [*rehearsal_lists("function", encoder), *rehearsal_lists("domain", encoder)]
        self.general = general[:: max(1, len(general) * 8 // LOOK_CASES)]
        self._go_on()

    def _made_up_requests(self) -> list[Example]:
        from callmemaybe.tuning.requests import RequestWriter

        writer, rng = RequestWriter(self.tools), Random(f"{self.plan.seed} held out")
        found: list[Example] = []
        for number in range(MADE_UP_CASES * 2):
            made = writer.request(self.tools[number % len(self.tools)], rng)
            if made is not None and len(found) < MADE_UP_CASES:
                found.append(made)
        return found

    def _fingerprint(self) -> str:
        """Return what a state must have been saved with, to be gone on from."""
        told = [tool.as_openai() for tool in self.tools], [one.as_json() for one in self.examples]
        plan = {k: v for k, v in asdict(self.plan).items() if k not in ("minutes", "steps")}
        text = json.dumps([told, plan], sort_keys=True, default=str)
        return sha256(text.encode(errors="surrogatepass")).hexdigest()

    def _go_on(self) -> None:
        """Read the state of a tuning that was broken off, if there is one."""
        file = self.state / _STATE
        if not file.exists():
            return
        try:
            more = self.fitting.load(file)
        except Exception as error:  # whatever PyTorch's reader says of a damaged file
            raise InputError(
                "the state of the tuning that was broken off cannot be read", where=str(file),
                hint="remove its folder, and begin again",
            ) from error  # fmt: skip
        if more["fingerprint"] != self._fingerprint():
            raise InputError(
                "the tuning that was broken off had other functions, examples or settings", where=str(self.state),
                hint="name the same again, or remove the folder",
            )  # fmt: skip
        self.history = json.loads(more["history"])
        self.steps = self.steps or more["steps"]

    def _save(self, *, at_once: bool = False) -> None:
        if not at_once and time.monotonic() - self.saved < SAVE_SECONDS:
            return
        more = {"fingerprint": self._fingerprint(), "history": json.dumps(self.history), "steps": self.steps}  # fmt: skip
        try:
            self.state.mkdir(parents=True, exist_ok=True)
            self.fitting.save(self.state / _STATE, more)
        except (OSError, RuntimeError) as error:
            raise WriteError(
                f"{self.state}: {getattr(error, 'strerror', None) or error}"
            ) from error
        self.saved = time.monotonic()

    def train(self) -> None:
        """Take all steps, look at held-out requests now and then, and keep the best weights."""
        fitting = self.fitting
        if not self.history:
            self._look()
        self.begun = time.monotonic() - fitting.seconds / self.plan.threads
        try:
            while self.steps is None or fitting.step < self.steps:
                if self._gains_no_more():
                    break
                loss = fitting.advance(self._rows(fitting.step), self.steps or 1_000_000)
                if self.plan.steps is None and fitting.step >= _TRIAL:
                    self.steps = self._steps_for_time()
                self._tell("trains", loss=loss)
                if self.steps and fitting.step * LOOKS >= len(self.history) * self.steps:
                    self._look()
                self._save()
        except BaseException:
            self._save(at_once=True)
            raise
        if self.history[-1]["step"] != fitting.step:
            self._look()
        fitting.restore_best()

    def _rows(self, step: int) -> list[EncodedBlock]:
        """Return the lists of one step: the user's, and sometimes one that is rehearsed."""
        rng = Random(f"{self.plan.seed} step {step}")
        rows = [self.lists.draw(step)]
        if rng.random() < REHEARSED:
            rows.append(rng.choice(self.rehearsed))
        return rows

    def _steps_for_time(self) -> int:
        """Return how many steps fit into the minutes, as fast as the steps so far were."""
        per_step = (time.monotonic() - self.begun) / self.fitting.step
        return max(self.fitting.step, int(60 * self.plan.minutes / per_step))

    def _gains_no_more(self) -> bool:
        """Whether all held-out examples are right, or the last looks found nothing better."""
        if (
            self.plan.steps is not None
            or self.made_up
            or self.watched
            or len(self.history) <= PATIENCE
        ):
            return False
        own = [float(look["own"]) for look in self.history]
        return own[-1] == own[-2] == 1.0 or max(own[-PATIENCE:]) < max(own[:-PATIENCE])

    def _look(self) -> None:
        from callmemaybe.tuning.network.scoring import share_right

        fitting = self.fitting
        _, own = share_right(fitting.model, self.looked_at, fitting.excess)
        _, general = share_right(fitting.model, self.general, fitting.excess)
        best = max((look["own"] for look in self.history), default=-1.0)
        # Requests that are made up, or only watched, do not tell which weights are best.
        if own >= best or self.made_up or self.watched:
            fitting.keep()
        self.history.append({"step": fitting.step, "seconds": round(fitting.seconds, 1), "own": own, "general": general})  # fmt: skip
        self._tell("looks", own=own, general=general)

    def _tell(self, phase: Literal["trains", "looks", "measures"], **more: Any) -> None:
        self.say(TuneProgress(phase, self.fitting.step, self.steps or 0, self.fitting.seconds, **more))  # fmt: skip

    def finish(self) -> TuneResult:
        """Write the folder, measure before and after in use, and remove the state."""
        import shutil

        from callmemaybe.tuning.network.restored import weights_of

        about = {
            "functions": [tool.name for tool in self.tools], "examples": len(self.examples),
            "steps": self.fitting.step, "seed": self.plan.seed, "threads": self.plan.threads,
            "minutes": round(self.fitting.seconds / 60, 2), "too_long": self.lists.too_long,
        }  # fmt: skip
        weights = weights_of(self.fitting.model)
        write_folder(self.source, self.output, lambda file: self.graph.write(weights, file), about)
        report = self._report(about)
        add_report(self.output, report)
        shutil.rmtree(self.state, ignore_errors=True)
        return TuneResult(self.output, report)

    def _report(self, about: dict[str, Any]) -> dict[str, Any]:
        from callmemaybe.tuning import measuring

        own = measuring.own_cases(self.tools, self.watched or self.held_out)
        general = measuring.general_cases(GENERAL_CASES)
        total, done = 2 * (len(own) + len(general)), 0
        found: list[list[Judged]] = []
        for cases in (own, general):
            for folder in (self.source, self.output):
                say = partial(self._measured, done, total)
                found.append(measuring.judged(folder, cases, say))
                done += len(cases)
        own_before, own_after, general_before, general_after = found
        return {
            "name": self.output.name,
            **about,
            "tools": len(self.tools),
            "own": {
                "made_up": self.made_up and not self.watched,
                **measuring.compared(own_before, own_after),
                "by_tool": measuring.by_tool(own_before, own_after),
                "by_argument": measuring.by_argument(own_before, own_after),
            },
            "general": measuring.compared(general_before, general_after),
            "history": self.history,
        }

    def _measured(self, before: int, of: int, done: int) -> None:
        self.say(TuneProgress("measures", before + done, of, self.fitting.seconds))


def _folder_of(model: str | Path) -> Path:
    """Return the folder of a model that can be tuned; raise InputError for another."""
    if str(model) == "nano":
        return Path(__file__).parents[1] / "data" / "nano"
    folder = Path(model).expanduser()
    if not is_complete(folder):
        raise InputError(
            "this is no folder of the embedded model", where=str(model),
            hint="tune nano, or a model that was tuned from it",
        )  # fmt: skip
    return folder
