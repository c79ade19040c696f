"""What grounding costs: the same call, free and grounded, everything of the request for the first time.

    python benchmarks/grounding.py FOLDER       # with a tokenizer.json, say of Qwen3

The vocabulary and what all requests share is there already, as in a server that has answered before. Each
figure is the median of CPU times; free and grounded take turns, so that both see the same machine. Every
round has a text of its own.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from callmemaybe.generation.constraint import Constraint
from callmemaybe.grammar.nodes import Control
from callmemaybe.tools import ToolCall, ToolSpec
from callmemaybe.vocabulary import Vocabulary
from callmemaybe.wire import formats
from callmemaybe.wire.grounding import GroundingConfig
from callmemaybe.wire.output_grammar import OutputSpec

FORM = formats.get("hermes")
ROUNDS = 40
LONG = " Please note that the office is closed on Mondays and that nobody can be reached by phone."


def tools(count: int) -> list[ToolSpec]:
    """Return functions as people have them; the first one is called."""
    parameters = {
        "type": "object",
        "properties": {
            "city": {"type": "string"},
            "days": {"type": "integer"},
            "unit": {"enum": ["celsius", "fahrenheit"]},
        },
        "required": ["city", "days", "unit"],
        "additionalProperties": False,
    }
    return [ToolSpec(f"get_weather_{number}", parameters=parameters) for number in range(count)]


def ids_of(call: ToolCall, vocabulary: Vocabulary) -> list[int]:
    """Return the tokens of a call."""
    found: list[int] = []
    for part in FORM.render([call]):
        if isinstance(part, Control):
            found.append(vocabulary.controls[part.text])
        else:
            found += vocabulary.encode(part.encode())
    return found


def first_mask(vocabulary: Vocabulary, specs: list[ToolSpec], wish: OutputSpec) -> Constraint:
    """Make the language of a request and its first mask."""
    language = Constraint.of(
        FORM, tuple(specs), wish, vocabulary, is_grounded=True, is_shared=False
    )
    language.matcher.mask()
    return language


def whole_call(language: Constraint, ids: list[int]) -> None:
    """Work out the mask in front of every token of a call."""
    matcher = language.matcher.fork()
    for index in ids:
        matcher.mask()
        matcher.accept(index)


def timed(work: Callable[[], Any]) -> tuple[float, Any]:
    """Return the CPU seconds that ``work`` takes, and what it returns."""
    started = time.process_time()
    found = work()
    return time.process_time() - started, found


def measure(vocabulary: Vocabulary, count: int, length: int) -> dict[str, tuple[float, float]]:
    """Return, for free and grounded, the medians of compiling with the first mask, and of the call."""
    specs, figures = tools(count), {"free": ([], []), "grounded": ([], [])}
    for number in range(ROUNDS + 3):
        text = (f"Weather in Port Moresby {number} for 3 days?" + LONG * 40)[:length]
        ids = ids_of(
            ToolCall("get_weather_0", '{"city": "Port Moresby", "days": 3, "unit": "celsius"}'),
            vocabulary,
        )
        # most=number keeps the grammar from being found in the cache.
        for name, ground in (("free", None), ("grounded", "prompt")):
            wish = GroundingConfig(ground=ground).for_messages(
                OutputSpec(most=number + 1), [{"role": "user", "content": text}]
            )
            made, language = timed(lambda wish=wish: first_mask(vocabulary, specs, wish))
            called, _ = timed(lambda language=language, ids=ids: whole_call(language, ids))
            if number >= 3:
                figures[name][0].append(made)
                figures[name][1].append(called)
    return {
        name: (statistics.median(one), statistics.median(other))
        for name, (one, other) in figures.items()
    }


def main() -> None:
    """Print a table in milliseconds."""
    vocabulary = Vocabulary.from_file(Path(sys.argv[1]))
    print("| tools | characters of text | | compiling and first mask | masks of the call |")
    print("|---|---|---|---|---|")
    for count in (1, 10):
        for length in (60, 2000):
            for name, (made, called) in measure(vocabulary, count, length).items():
                print(
                    f"| {count} | {length} | {name} | {made * 1e3:.2f} ms | {called * 1e3:.2f} ms |"
                )


if __name__ == "__main__":
    main()
