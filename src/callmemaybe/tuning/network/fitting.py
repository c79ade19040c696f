"""Steps of tuning: all weights move a little, by AdamW (Loshchilov & Hutter, 2019)."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import torch

from callmemaybe.tuning.network.loss import compute_loss
from callmemaybe.tuning.network.model import Nano
from callmemaybe.tuning.packing import EncodedBlock, stack

#: The highest rate; it rises over the first steps, and falls linearly to (nearly) nothing over all.
RATE, RISE, LEAST = 3e-4, 20, 0.02
BETAS, CLIP = (0.9, 0.98), 5.0
CHOICE_WEIGHT = 2.5  # of choosing a function, beside 1 for its arguments


class Fitting:
    """The network, its optimizer, and how many steps of how many it has taken."""

    def __init__(self, model: Nano, excess: float, threads: int) -> None:
        """``excess``: what the graph adds to the log-odds of calling nothing."""
        torch.set_num_threads(threads)
        self.model, self.excess = model, excess
        self.moved = [weight for weight in model.parameters() if weight.requires_grad]
        self.optimizer = torch.optim.AdamW(self.moved, lr=RATE, betas=BETAS, weight_decay=0.0)
        self.step = 0
        self.seconds = 0.0  # of processor time
        self.best: dict[str, Any] | None = None

    def rate(self, steps: int) -> float:
        """Return the share of the highest rate for this step of so many."""
        return min(1.0, (self.step + 1) / RISE) * max(LEAST, 1 - self.step / steps)

    def advance(self, rows: list[EncodedBlock], steps: int) -> float:
        """Take a step on some lists; return its loss."""
        begun = time.process_time()
        self.model.train()
        for group in self.optimizer.param_groups:
            group["lr"] = RATE * self.rate(steps)
        device = torch.device("cpu")
        loss, _ = compute_loss(self.model, stack(rows), device, choice_weight=CHOICE_WEIGHT, excess=self.excess)  # fmt: skip
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.moved, CLIP)
        self.optimizer.step()
        self.optimizer.zero_grad()
        self.step += 1
        self.seconds += time.process_time() - begun
        return float(loss.item())

    def keep(self) -> None:
        """Remember the weights as the best so far."""
        self.best = {name: value.clone() for name, value in self.model.state_dict().items()}

    def restore_best(self) -> None:
        """Go back to the best weights, if any were kept."""
        if self.best is not None:
            self.model.load_state_dict(self.best)

    def save(self, file: Path, more: dict[str, Any]) -> None:
        """Write everything that going on needs, complete or not at all."""
        state = {
            "model": self.model.state_dict(), "optimizer": self.optimizer.state_dict(), "best": self.best,
            "step": self.step, "seconds": self.seconds, "more": more,
        }  # fmt: skip
        part = file.with_name(f"{file.name}.part")
        torch.save(state, part)
        part.replace(file)

    def load(self, file: Path) -> Any:
        """Read what :meth:`save` wrote; return ``more``."""
        state = torch.load(file, map_location="cpu", weights_only=True)
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.best, self.step, self.seconds = state["best"], state["step"], state["seconds"]
        return state["more"]
