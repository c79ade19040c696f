"""The loop: one mixture, a schedule that follows the clock, checkpoints that resume."""

from __future__ import annotations

import json
import queue
import signal
import threading
import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as functional

from training.checkpoint import complete
from training.data import tokenizer as tokenizers
from training.data.mixture import BlockMaker
from training.data.packing import CHOICES, Batch, Encoder, Limits, draw_batch
from training.data.rendering import Choice
from training.nn.batch_tensors import places
from training.nn.growth import grow_momenta, grown
from training.nn.model import Nano, Shape
from training.nn.word_vectors import meanings
from training.optim.allocator import let_go
from training.optim.data_parallel import Crew
from training.optim.muon import build
from training.recipe import Recipe
from training.scoring import brief, evaluate, fixed_set

MEANT = 0.5  # what a place of a form counts, beside 1 for a token of a value
FOUND = 0.5  # what the end of a form's line counts that is to find its value
STOP = 0.5  # what a token counts that may end the answer, beside 1 for a token of a value
OF_WORDS = (
    "words",
    "associations",
)  # sizes of what is known of words, which the network need not know
OURS = ("full", "weight_decay")  # of an optimizer's settings: those of the recipe
LET_GO = 150  # steps after which freed memory goes back to the system
SWITCH = 3.0  # what true and false count: one token, and nothing to copy it from


class Prefetch:
    """Draws batches ahead of the model, in order: every `by`-th from `at` on."""

    def __init__(
        self, maker: BlockMaker, encoder: Encoder, seed: str, limits: Limits, at: int, by: int = 1
    ) -> None:
        self.maker, self.encoder, self.seed, self.limits = maker, encoder, seed, limits
        self.at, self.by = at, by
        self.ready: queue.Queue[Batch | Exception] = queue.Queue(4)
        threading.Thread(target=self.work, daemon=True).start()

    def work(self) -> None:
        while True:
            seed = f"{self.seed}:{self.at}"
            try:
                self.ready.put(draw_batch(self.maker, self.encoder, seed, self.limits))
            except Exception as problem:
                problem.add_note(f"drawing the batch {seed!r}")
                self.ready.put(problem)
                return
            self.at += self.by

    def get(self) -> Batch:
        """The next batch; raises what drawing it raised."""
        found = self.ready.get()
        if isinstance(found, Exception):
            raise found
        return found


def new_model(recipe: Recipe) -> tuple[Nano, Encoder]:
    """A fresh network over the recipe's tokenizer."""
    tokenizer = tokenizers.load(recipe.out / "tokenizer.json")
    bases, *tables = tokenizers.forms(tokenizer)
    sizes = {name: size for name, size in recipe.table["model"].items() if name not in OF_WORDS}
    shape = Shape(len(bases), **sizes)
    vectors, whole = meanings(recipe, tokenizer, shape.lexicon)
    torch.manual_seed(0)
    return Nano(shape, vectors, *map(torch.from_numpy, tables), wholes=whole), Encoder(tokenizer)


def weights(batch: Batch) -> np.ndarray:
    """What each graded token counts. float64 [G]."""
    kinds = [placed.kinds for row in batch.rows for placed in row.pairs]
    switch = [
        argument > 0 and kinds[pair][argument - 1] == "boolean"
        for pair, argument in zip(batch.graded_pair, batch.graded_argument, strict=True)
    ]
    weight = np.where(batch.graded_kind == CHOICES.index(Choice.STOP), STOP, 1.0)
    return np.where(switch, SWITCH, weight)


def drawn_odds(odds: torch.Tensor, excess: float) -> torch.Tensor:
    """Log-odds [calls, J + 1] of tools and of none where none (the last) is likelier by `excess` than in use.

    What fits nothing is to be learnt from more often than it is met. The network learns the odds of use, because what
    training adds is added outside of it (logit adjustment: Menon et al., 2021).
    """
    return torch.cat((odds[:, :-1], odds[:, -1:] + excess), 1) if excess else odds


def count(groups: list[dict[str, Any]]) -> int:
    """How many weights an optimizer moves."""
    return sum(len(group["params"]) for group in groups)


def store(state: dict[str, Any], file: Path) -> None:
    """Write a checkpoint, complete or not at all."""
    with complete(file) as part:
        torch.save(state, part)


class Run:
    """One training run with everything a checkpoint must hold."""

    def __init__(self, recipe: Recipe, *, resume: bool, crew: Crew | None = None) -> None:
        self.recipe, self.plan, self.crew = recipe, recipe.table["training"], crew or Crew()
        torch.set_num_threads(self.plan.get("threads", 1))
        self.device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        self.model, self.encoder = new_model(recipe)
        self.model.to(self.device)
        self.average = {k: v.clone() for k, v in self.model.state_dict().items()}
        rates = self.plan["lr_muon"], self.plan["lr_adam"]
        self.optimizers = build(self.model, *rates, self.plan.get("weight_decay", 0.01))
        self.step, self.tokens, self.pairs, self.elapsed = 0, 0, 0, 0.0
        self.together = self.plan.get("together", 1) if self.crew.size > 1 else 1
        self.fresh = np.zeros(2, np.int64)  # tokens and requests since all met
        self.stopped = self.finished = False
        if resume:
            self.restore()
        self.first = self.step
        self.tick = time.monotonic()
        self.history = self.past() if resume else []

    @property
    def file(self) -> Path:
        return self.recipe.out / "checkpoint.pt"

    def save(self) -> None:
        """Write the checkpoint."""
        state = {
            "model": self.model.state_dict(),
            "average": self.average,
            "optimizers": [optimizer.state_dict() for optimizer in self.optimizers],
            "counters": (self.step, self.tokens, self.pairs, self.elapsed),
        }
        store(state, self.file)

    def keep(self) -> None:
        """Write the checkpoint if that is possible: a disk that is full now may have room at the next."""
        try:
            self.save()
        except (OSError, RuntimeError) as problem:  # the latter of PyTorch's own writer
            why = str(problem).partition("\n")[0]
            self.say(f"could not write {self.file} ({why}); goes on without")

    def past(self) -> list[dict[str, Any]]:
        """The scores of the run until its checkpoint; none where they cannot be read."""
        try:
            told = json.loads((self.recipe.out / "history.json").read_text("utf-8"))
        except (OSError, ValueError):
            return []
        return [one for one in told if one["pairs"] <= self.pairs]

    def restore(self) -> None:
        state = torch.load(self.file, map_location=self.device, weights_only=True)
        self.model.load_state_dict(grown(state["model"], self.average))
        self.average = grown(state["average"], self.average)
        for optimizer, saved in zip(self.optimizers, state["optimizers"], strict=True):
            if count(saved["param_groups"]) != count(optimizer.param_groups):
                continue  # a network with more weights: all momenta begin anew
            mine = [{key: group[key] for key in OURS} for group in optimizer.param_groups]
            optimizer.load_state_dict(saved)
            grow_momenta(optimizer)
            for group, told in zip(optimizer.param_groups, mine, strict=True):
                group.update(told)  # the recipe's, which may have changed
        self.step, self.tokens, self.pairs, self.elapsed = state["counters"]

    def rate(self) -> float:
        """Share of the full learning rate at this moment."""
        done = min(1.0, self.done())
        start = self.plan["decay_from"]
        begun = min(1.0, (self.step - self.first + 1) / 40)  # momenta may begin anew
        return begun * min(1.0, max(0.02, (1 - done) / (1 - start)))

    def done(self) -> float:
        """Share of the run that is behind: by requests if the recipe counts them, else by the clock."""
        if most := self.plan.get("requests"):
            return self.pairs / float(most)
        return self.elapsed / float(60 * self.plan["minutes"])

    def learn(self, batch: Batch) -> dict[str, float]:
        """One step; returns loss and share of right choices."""
        p = places(batch, self.device)
        targets = p.ids[p.graded + 1]
        here = partial(torch.as_tensor, device=self.device)
        # In use all words are known; so the fewer are forgotten, the smaller the steps.
        scale = self.rate()
        self.model.forgets = scale * self.plan.get("forgets", 0.0)
        with torch.autocast(self.device.type, torch.bfloat16):
            x, own, odds, last = self.model.read(p)
            likely = self.model.tokens(x, own, p, targets)
            found = -self.model.finds(last, x, own, p).sum()
            meaning = self.model.means(last, p)
        odds = drawn_odds(odds, self.recipe.excess)
        choice = functional.cross_entropy(odds, here(batch.call_right))
        weight = here(weights(batch))
        pairs = len(batch.pair_pad)
        values = -(likely * weight).sum() / pairs
        meant = functional.binary_cross_entropy_with_logits(
            meaning,
            here(batch.marks_true).float(),
            reduction="sum",
        )
        loss = self.plan.get("choice", 2.0) * choice + values
        (loss + (MEANT * meant + FOUND * found) / pairs).backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 20.0)
        for optimizer in self.optimizers:
            for group in optimizer.param_groups:
                group["lr"] = group["full"] * scale
            optimizer.step()
            optimizer.zero_grad()
        self.step += 1
        self.fresh += np.array([len(batch.ids), pairs])
        if self.step % self.together == 0:
            self.meet()
        if self.step % LET_GO == 0:
            let_go()
        now = time.monotonic()
        self.elapsed += now - self.tick
        self.tick = now
        right = odds.argmax(-1).cpu().numpy() == batch.call_right
        none = batch.call_right == batch.row_tools.shape[1]
        sure = (likely > np.log(0.5)).cpu().numpy()
        value = batch.graded_argument > 0
        return {
            "choice": choice.item(),
            "values": values.item(),
            "meant": meant.item() / max(1, len(batch.marks)),
            "found": found.item() / max(1, len(batch.found)),
            "name": float(right[~none].mean()),
            "none": float(right[none].mean()) if none.any() else 1.0,
            "token": float(sure[value].mean()),
            "other": float(sure[~value].mean()),
        }

    def meet(self) -> None:
        """Take the mean of all processes' weights, and agree on what must be the same for all."""
        leads = self.crew.leads
        told = [*self.fresh, self.stopped, leads * self.elapsed, leads * (self.done() >= 1)]
        sums = self.crew.meet(self.model.parameters(), [float(each) for each in told])
        self.tokens += int(sums[0])
        self.pairs += int(sums[1])
        self.elapsed = sums[3]
        self.finished = bool(sums[2] or sums[4])
        self.fresh[:] = 0
        if leads:
            self.follow()

    def follow(self) -> None:
        """Let the averaged weights follow the weights."""
        keep = min(0.995, 1 - 1 / (1 + self.step / 4)) ** self.together
        with torch.no_grad():
            for name, value in self.model.state_dict().items():
                if value.is_floating_point():
                    self.average[name].lerp_(value, 1 - keep)

    def stop(self, *_: Any) -> None:
        """Stop when the processes meet next."""
        self.stopped = True
        if self.crew.leads:
            self.say(f"stops and saves within {self.together} steps")

    def say(self, text: str) -> None:
        print(f"{self.elapsed / 60:6.1f} min step {self.step:5d} {text}", flush=True)

    def judge(self, sets: dict[str, list[Batch]]) -> None:
        """Score the averaged weights on the held-out sets."""
        began = time.monotonic()
        current = {k: v.clone() for k, v in self.model.state_dict().items()}
        self.model.load_state_dict(self.average)
        for part, batches in sets.items():
            scores = evaluate(self.model, batches)
            self.history.append({"pairs": self.pairs, "part": part, "scores": scores})
            self.say(f"-- {part}: {brief(scores)}")
        self.model.load_state_dict(current)
        with complete(self.recipe.out / "history.json") as file:
            file.write_text(json.dumps(self.history), "utf-8")
        self.tick += time.monotonic() - began  # looking is not learning

    def train(self, *, judged: bool = True) -> None:
        """Train until the plan is fulfilled or a signal asks to stop; score now and then if `judged`."""
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self.stop)
        plan = self.plan
        limits = Limits(plan["blocks"], plan["pairs"], plan["longest_tool"], plan["longest_pair"])
        maker = self.recipe.maker("train")
        seed, crew = self.recipe.seed, self.crew
        first = self.step * crew.size + crew.rank
        source = Prefetch(maker, self.encoder, seed, limits, first, crew.size)
        sets = {
            part: fixed_set(self.recipe.maker(part), self.encoder, f"look:{part}", 380)
            for part in ("function", "domain", "dev")
            if judged and crew.leads
        }
        saved = looked = self.elapsed
        sums: dict[str, float] = {}
        self.tick = time.monotonic()
        self.finished = self.done() >= 1
        while not self.finished:
            for key, value in self.learn(source.get()).items():
                sums[key] = sums.get(key, 0.0) + value
            if not crew.leads:
                continue
            if self.step % plan["report_steps"] == 0:
                shown = {key: value / plan["report_steps"] for key, value in sums.items()}
                speed = f"{self.pairs / 1000:.1f}k requests, {self.tokens / 1e6:.2f}M tokens"
                self.say(" ".join(f"{k} {v:.3f}" for k, v in shown.items()) + f" | {speed}")
                sums = {}
            if self.elapsed - saved > 60 * plan["checkpoint_minutes"]:
                saved = self.elapsed
                self.keep()
            if self.elapsed - looked > 60 * plan["evaluate_minutes"]:
                looked = self.elapsed
                self.judge(sets)
        if crew.leads:
            self.save()
            self.judge(sets)
