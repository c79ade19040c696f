"""The loop: copying first, then the mixture, on a schedule that follows the clock."""

from __future__ import annotations

import json
import queue
import signal
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as functional
from torch import Tensor

from training.pieces import induction
from training.pieces import tokenizer as tokenizers
from training.pieces.evaluate import brief, evaluate, fixed_set, inputs
from training.pieces.export import save_hf
from training.pieces.model import Nano, Shape
from training.pieces.optimizer import build
from training.pieces.packing import CHOICES, WEIGHTS, Batch, Encoder, draw_batches, draw_copies
from training.pieces.recipe import Recipe
from training.pieces.rendering import CONTROL_TOKENS, Choice

WEIGHT = np.array([WEIGHTS[choice] for choice in CHOICES], np.float32)
FIRST = 5.0  # how much more the first token of a name counts: it decides, the rest is copied


def weights(batch: Batch) -> np.ndarray:
    """What each token counts in the loss. float32 [rows, length]."""
    name = batch.choices == CHOICES.index(Choice.NAME)
    first = name & ~np.roll(name, 1, axis=1)
    return WEIGHT[batch.choices] * np.where(first, np.float32(FIRST), np.float32(1))


class Prefetch:
    """Draws groups of batches ahead of the model, in order."""

    def __init__(self, draw: Callable[[int], list[Batch]], start: int) -> None:
        self.draw, self.next = draw, start
        self.ready: queue.Queue[Batch] = queue.Queue(8)
        threading.Thread(target=self.work, daemon=True).start()

    def work(self) -> None:
        while True:
            for batch in self.draw(self.next):
                self.ready.put(batch)
            self.next += 1

    def get(self) -> Batch:
        return self.ready.get()


class Run:
    """One training run with everything a checkpoint must hold."""

    def __init__(self, recipe: Recipe, *, resume: bool) -> None:
        self.recipe, self.plan = recipe, recipe.table["training"]
        torch.set_num_threads(1)
        self.pool = ThreadPoolExecutor(
            self.plan["threads"], initializer=torch.set_num_threads, initargs=(1,)
        )
        torch.manual_seed(0)
        self.encoder = Encoder(tokenizers.load(recipe.out / "tokenizer.json"))
        size = self.encoder.tokenizer.get_vocab_size()
        self.model = Nano(Shape(size, **recipe.table["model"]))
        induction.copying(self.model)
        self.optimizers = build(self.model, self.plan["lr_muon"], self.plan["lr_adam"])
        self.step, self.tokens, self.elapsed, self.copied = 0, 0, 0.0, False
        self.stopped = False
        if resume:
            self.restore()
        elif (start := recipe.out / self.plan.get("start", "")).is_file():
            self.model.load_state_dict(torch.load(start, weights_only=True)["model"])
            print(f"starting from the weights of {start}", flush=True)
        self.tick = time.monotonic()

    @property
    def file(self) -> Path:
        return self.recipe.out / "checkpoint.pt"

    def save(self) -> None:
        """Checkpoint and Hugging Face folder, each complete or not at all."""
        state = {
            "model": self.model.state_dict(),
            "optimizers": [optimizer.state_dict() for optimizer in self.optimizers],
            "counters": (self.step, self.tokens, self.elapsed, self.copied),
        }
        part = self.file.with_suffix(".part")
        torch.save(state, part)
        part.replace(self.file)
        save_hf(self.model, self.encoder, self.recipe.out)

    def restore(self) -> None:
        state = torch.load(self.file, weights_only=True)
        self.model.load_state_dict(state["model"])
        for optimizer, saved in zip(self.optimizers, state["optimizers"], strict=True):
            optimizer.load_state_dict(saved)
        self.step, self.tokens, self.elapsed, self.copied = state["counters"]

    def rate(self) -> float:
        """Share of the full learning rate at this moment."""
        done = min(1.0, self.elapsed / (60 * self.plan["minutes"]))
        start = self.plan["decay_from"]
        return min(1.0, (self.step + 1) / 30) * min(1.0, (1 - done) / (1 - start))

    def grade(self, batch: Batch, total: float) -> tuple[list[Tensor], dict[str, np.ndarray]]:
        """Gradients of one piece of a step, and sums for the report."""
        ids, positions, sight = inputs(batch)
        with torch.autocast("cpu", torch.bfloat16):
            hidden = self.model(ids, positions, sight)
            rows, places = np.nonzero(batch.choices)
            logits = self.model.logits(hidden[rows, places - 1])
        choices = torch.from_numpy(batch.choices[rows, places]).long()
        targets = ids[rows, places]
        losses = functional.cross_entropy(logits.float(), targets, reduction="none")
        weight = torch.from_numpy(weights(batch)[rows, places])
        loss = (losses * weight).sum() / total
        gradients = torch.autograd.grad(loss, list(self.model.parameters()))
        right = logits.argmax(-1) == targets
        report = {"loss": np.array((loss.item(), 1.0))}
        for choice in (Choice.CONTROL, Choice.NAME, Choice.VALUE, Choice.KEY):
            chosen = choices == CHOICES.index(choice)
            report[choice.value] = np.array((right[chosen].sum().item(), chosen.sum().item()))
        return list(gradients), report

    def learn(self, batches: list[Batch]) -> dict[str, float]:
        """One step; returns loss and share of right choices.

        The batches of a step are graded by independent threads of one core each: on a machine that
        others use too, threads that share every product spend their time waiting for each other.
        """
        total = float(sum(weights(batch).sum() for batch in batches))
        done = list(self.pool.map(lambda batch: self.grade(batch, total), batches))
        for number, weight in enumerate(self.model.parameters()):
            weight.grad = torch.stack([gradients[number] for gradients, _ in done]).sum(0)
        scale = self.rate()
        for optimizer in self.optimizers:
            for group in optimizer.param_groups:
                group["lr"] = group["full"] * scale
            optimizer.step()
        sums = {key: sum(report[key] for _, report in done) for key in done[0][1]}
        sums["loss"][1] = 1.0
        self.step += 1
        self.tokens += sum(int((batch.segments >= 0).sum()) for batch in batches)
        now = time.monotonic()
        self.elapsed += now - self.tick
        self.tick = now
        return {key: float(value[0] / value[1]) for key, value in sums.items() if value[1]}

    def say(self, text: str) -> None:
        print(f"{self.elapsed / 60:6.1f} min step {self.step:5d} {text}", flush=True)

    def copying(self) -> None:
        """Repeat random spans, growing, until that works."""
        table = self.recipe.table["copying"]
        size, control = self.encoder.tokenizer.get_vocab_size(), len(CONTROL_TOKENS)
        level, smooth = 0, 0.0
        while not self.stopped and self.elapsed < 60 * table["minutes"]:
            span = tuple(table["spans"][level])
            seed = f"{self.recipe.seed}:copy:{self.step}"
            report = self.learn([draw_copies(seed, size, control, table["tokens"], span)])
            smooth = 0.9 * smooth + 0.1 * report["value"]
            if self.step % self.plan["report_steps"] == 0:
                self.say(f"copying {span} loss {report['loss']:.3f} right {smooth:.3f}")
            if smooth > table["accuracy"]:
                level, smooth = level + 1, 0.0
                self.say(f"copied {span}")
                if level == len(table["spans"]):
                    break
        self.copied = not self.stopped

    def held_out(self) -> dict[str, list[Batch]]:
        """Fixed sets, small enough to look at every few minutes."""
        sets = {}
        for part in ("train", "function", "domain", "dev"):
            if part in ("train", "dev") or self.recipe.functions(part):
                kinds = {"tasks": 1.0} if part == "train" else None
                maker = self.recipe.maker(part, kinds)
                sets[part] = fixed_set(maker, self.encoder, f"held-out:{part}", 150)
        return sets

    def sizes(self) -> tuple[int, ...]:
        """How many tools a block may have by now: few at first, so that choosing is found."""
        done = self.elapsed / (60 * self.plan["minutes"])
        stages = self.recipe.table["mix"]["sizes"]
        return next(tuple(sizes) for until, sizes in stages if done <= until or until == 1)

    def mixture(self) -> None:
        """The real thing."""
        maker = self.recipe.maker("train")
        maker.sizes = self.sizes()
        shapes = [tuple(shape) for shape in self.plan["shapes"]]
        seed = self.recipe.seed
        feed = Prefetch(
            lambda n: draw_batches(maker, self.encoder, f"{seed}:{n}", shapes), self.step
        )
        sets = self.held_out()
        recent: dict[str, float] = {}
        saved = looked = self.elapsed
        since = (self.tokens, self.elapsed)
        while not self.stopped and self.elapsed < 60 * self.plan["minutes"]:
            maker.sizes = self.sizes()
            for key, value in self.learn([feed.get() for _ in range(self.plan["batches"])]).items():
                recent[key] = 0.95 * recent.get(key, value) + 0.05 * value
            if self.step % self.plan["report_steps"] == 0:
                speed = (self.tokens - since[0]) / max(1e-9, self.elapsed - since[1])
                since = (self.tokens, self.elapsed)
                figures = " ".join(f"{key} {value:.3f}" for key, value in recent.items())
                self.say(
                    f"{speed:6.0f} tok/s {self.tokens / 1e6:.2f}M {figures} rate {self.rate():.2f}"
                )
            if self.elapsed - looked > 60 * self.plan["evaluate_minutes"]:
                looked = self.elapsed
                for part, batches in sets.items():
                    self.say(
                        f"held out {part}: {brief(evaluate(self.model, self.encoder, batches))}"
                    )
            if self.elapsed - saved > 60 * self.plan["checkpoint_minutes"]:
                saved = self.elapsed
                self.save()
        self.finish(sets)

    def finish(self, sets: dict[str, list[Batch]]) -> None:
        self.save()
        if not self.stopped:
            scores = {part: evaluate(self.model, self.encoder, b) for part, b in sets.items()}
            report: dict[str, Any] = {"steps": self.step, "tokens": self.tokens, "scores": scores}
            (self.recipe.out / "last.json").write_text(json.dumps(report, indent=1))
            for part, item in scores.items():
                self.say(f"final {part}: {brief(item)}")

    def stop(self, *_: object) -> None:
        """Finish the step, save, leave."""
        self.stopped = True

    def go(self) -> None:
        signal.signal(signal.SIGINT, self.stop)
        signal.signal(signal.SIGTERM, self.stop)
        if not self.copied:
            self.copying()
            self.save()
        if not self.stopped:
            self.mixture()
