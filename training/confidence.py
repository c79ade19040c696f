"""How likely an answer of the embedded model is right as a whole: `python -m training.confidence [--write]`.

Asks the model held-out requests (functions, domains, the same as training varies them, sentences and intents of the natural corpora,
requests in other languages, SGD dev: all drawn apart from those that are measured) and fits two logistic regressions to what became
of them, for answers with a call and without (`callmemaybe.generation.confidence` says over what). Every set weighs the same. Prints for
each set how often answers were right, what is stated on average and the expected calibration error; and the same for a fit
without that set, which tells what to expect of requests of another kind. With `--write` the fit goes into `confidence.json` beside
the model, and its digest into the manifest. To be run again for every new weights, before or after they are released.
"""

from __future__ import annotations

import argparse
import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from callmemaybe import models
from callmemaybe.errors import CallMeMaybeError
from callmemaybe.evals.case import Case
from callmemaybe.evals.score import score
from callmemaybe.evals.statistics import calibration
from callmemaybe.generation.confidence import (
    CALL_FEATURES,
    FILE,
    NO_CALL_FEATURES,
    call_features,
    no_call_features,
)
from callmemaybe.generation.local import LocalGenerator
from callmemaybe.models.base import Model
from callmemaybe.tools import ToolCall, ToolSpec
from callmemaybe.wire.output_grammar import OutputSpec
from training import recipe as recipes
from training.calibrate import dialogues
from training.cases import cases
from training.recipe import RELEASE, ROOT

STREAM = "confidence"
PENALTY = 30.0  # of squared weights, against fits that only hold for these requests
SET_WEIGHT = 1000.0  # of each set, in requests
Floats = NDArray[np.float64]


class Row(NamedTuple):
    """An answer: which set its request is of, whether it has a call, whether it is right, and its features."""

    name: str
    has_call: bool
    right: bool
    features: Mapping[str, float]


class Fit(NamedTuple):
    """A logistic regression over shifted and scaled features; the bias is the last weight."""

    names: tuple[str, ...]
    means: Floats
    scales: Floats
    weights: Floats

    def probabilities(self, features: Floats) -> Floats:
        total = _with_one((features - self.means) / self.scales) @ self.weights
        return np.asarray(1 / (1 + np.exp(-np.clip(total, -30, 30))))

    def as_json(self) -> dict[str, Any]:
        columns = zip(self.means, self.scales, self.weights, strict=False)
        rows = ([round(float(one), 6) for one in row] for row in columns)
        return {
            "bias": round(float(self.weights[-1]), 6),
            "features": dict(zip(self.names, rows, strict=True)),
        }


class FeatureRecorder:
    """In place of a model's confidence: keeps the features of the last answer."""

    def __init__(self) -> None:
        self.features: dict[str, float] | None = None

    def of(
        self,
        request: str,
        tools: Sequence[ToolSpec],
        call: ToolCall | None,
        distribution: Mapping[str | None, float],
        logprobs: Sequence[float],
    ) -> float | None:
        if not distribution:
            return None
        self.features = (
            no_call_features(request, tools, distribution)
            if call is None
            else call_features(request, tools, call, distribution, logprobs)
        )
        return None


def sets(data: Path, count: int) -> Iterator[tuple[str, Callable[[], list[Case]]]]:
    """Yield the sets by name, and what draws them; those whose files are missing are empty."""
    recipe = recipes.load(recipes.DEFAULT)

    def draw(part: str, *, varied: bool) -> list[Case]:
        try:
            found = cases(recipe, part, count, stream=STREAM, varied=varied)
            return [*map(Case.from_json, found)]
        except LookupError:  # a corpus is not at hand
            return []

    for part in ("function", "domain", "natural", "intent", "foreign"):
        yield part, partial(draw, part, varied=False)
        if part in ("function", "domain"):
            yield f"{part}, varied", partial(draw, part, varied=True)
    yield "SGD dev", partial(dialogues, data, count)


def answers(model: Model, name: str, asked: Sequence[Case]) -> Iterator[Row]:
    """Ask all cases; those that fail have no row."""
    recorder = FeatureRecorder()
    generator = LocalGenerator(model, confidence=recorder)
    for case in asked:
        recorder.features = None
        try:
            turn = generator.stream_call(
                case.prompt, case.tools, OutputSpec(no_call=True)
            ).run_to_end()
        except CallMeMaybeError:
            continue
        if recorder.features is not None:
            call = turn.calls[0] if turn.calls else None
            yield Row(name, call is not None, score(case, call).exact, recorder.features)


def fit(rows: Sequence[Row], names: Sequence[str]) -> Fit:
    """Fit a regression by Newton's method; every set weighs the same."""
    features, right = _arrays(rows, names)
    counts = {name: sum(row.name == name for row in rows) for name in {row.name for row in rows}}
    weights = np.array([SET_WEIGHT / counts[row.name] for row in rows])
    means = np.average(features, axis=0, weights=weights)
    scales = np.sqrt(np.average((features - means) ** 2, axis=0, weights=weights))
    scales[scales < 1e-6] = 1.0
    scaled = _with_one((features - means) / scales)
    penalty = np.diag([PENALTY] * len(names) + [0.0])
    found = np.zeros(len(names) + 1)
    for _ in range(50):
        chances = 1 / (1 + np.exp(-scaled @ found))
        slope = scaled.T @ (weights * (right - chances)) - penalty @ found
        bend = (scaled * (weights * chances * (1 - chances))[:, None]).T @ scaled + penalty
        step = np.linalg.solve(bend + 1e-9 * np.eye(len(bend)), slope)
        found = found + step
        if np.abs(step).max() < 1e-8:
            break
    return Fit(tuple(names), means, scales, found)


def table(rows: Sequence[Row], names: Sequence[str], found: Fit) -> Iterator[str]:
    """Yield the lines of a table of the sets."""
    yield "| set | answers | right | stated | ECE | stated, fitted without | ECE |"
    yield "|---|---|---|---|---|---|---|"
    for name in dict.fromkeys(row.name for row in rows):
        inside = [row for row in rows if row.name == name]
        others = [row for row in rows if row.name != name]
        features, right = _arrays(inside, names)
        cells = []
        for one in (found, fit(others, names) if others else None):
            stated = one.probabilities(features) if one else np.array([])
            error = calibration([*zip(stated.tolist(), right == 1, strict=False)])["ece"]
            cells += [
                f"{100 * stated.mean():.1f}" if one else "",
                "" if error is None else f"{error:.3f}",
            ]
        yield f"| {name} | {len(inside)} | {100 * right.mean():.1f} | {' | '.join(cells)} |"


def write(folder: Path, call: Fit, no_call: Fit, requests: int) -> None:
    """Write the file beside the model, and its digest into the manifest."""
    found = {"requests": requests, "call": call.as_json(), "no_call": no_call.as_json()}
    text = json.dumps(found, indent=1) + "\n"
    (folder / FILE).write_text(text, "utf-8")
    manifest = folder / "manifest.json"
    if manifest.is_file():
        told = json.loads(manifest.read_text("utf-8"))
        data = text.encode()
        told["files"][FILE] = {"sha256": hashlib.sha256(data).hexdigest(), "bytes": len(data)}
        manifest.write_text(json.dumps(told, indent=2, ensure_ascii=False) + "\n", "utf-8")


def _arrays(rows: Sequence[Row], names: Sequence[str]) -> tuple[Floats, Floats]:
    features = np.array([[row.features[name] for name in names] for row in rows], np.float64)
    return features, np.array([row.right for row in rows], np.float64)


def _with_one(features: Floats) -> Floats:
    return np.concatenate([features, np.ones((len(features), 1))], axis=1)


def gathered(folder: Path, data: Path, count: int, kept: Path | None) -> list[Row]:
    """Ask all sets; those of which the file ``kept`` holds answers are not asked again, others are added to it."""
    rows: list[Row] = []
    if kept and kept.is_file():
        rows = [Row(*json.loads(line)) for line in kept.read_text("utf-8").splitlines()]
    known = {row.name for row in rows}
    model = models.load(str(folder), threads=1)
    for name, draw in sets(data, count):
        if name in known:
            continue
        asked = draw()
        found = [*answers(model, name, asked)]
        print(f"{name}: {len(found)} of {len(asked)} requests answered", flush=True)
        rows += found
        if kept:
            with kept.open("a", encoding="utf-8") as file:
                file.writelines(json.dumps(row) + "\n" for row in found)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--model", type=Path, default=RELEASE, help="its folder")
    parser.add_argument("--data", type=Path, default=ROOT / "../shared/data")
    parser.add_argument("--cases", type=int, default=600, help="of each set")
    parser.add_argument(
        "--rows", type=Path, help="keep answers in this file, and take those that it has"
    )
    parser.add_argument("--write", action="store_true", help="beside the model")
    arguments = parser.parse_args()
    rows = gathered(arguments.model, arguments.data, arguments.cases, arguments.rows)
    fits = []
    for has_call, names in ((True, CALL_FEATURES), (False, NO_CALL_FEATURES)):
        some = [row for row in rows if row.has_call == has_call]
        fits.append(fit(some, names))
        print("answers with a call" if has_call else "answers without one")
        print("\n".join(table(some, names, fits[-1])))
    if arguments.write:
        write(arguments.model, *fits, len(rows))
        print(f"{arguments.model / FILE} is written")


if __name__ == "__main__":
    main()
