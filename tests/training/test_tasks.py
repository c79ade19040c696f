"""The functions and requests written for training are sound."""

from __future__ import annotations

import re
from pathlib import Path
from random import Random

import pytest

from training.data.generators.synthetic import draw_function
from training.data.mixture import BlockMaker, Mix, Sources
from training.data.requests import draw_request, expand
from training.data.tasks import TaskFunction, check, read_file, read_tasks
from training.data.variants import BlockStyle, draw_variant, write_poles


def test_every_function_is_complete() -> None:
    """Functions have descriptions, three requests, and names of their own within a domain."""
    functions = read_tasks()
    keys = [function.key for function in functions]
    assert len(keys) == len(set(keys))
    for function in functions:
        check(function)
        assert len(function.requests) >= 3, function.key


@pytest.mark.parametrize("request_", ["do {what", "do {what}}", "do {what:this {what}/that}"])
def test_a_brace_too_many_is_told_with_its_line(request_: str, tmp_path: Path) -> None:
    """What the reader cannot fill is refused where it stands."""
    file = tmp_path / "a.txt"
    file.write_text(f"\n# do\n: Do it.\n- what string word : What\n> {request_}\n", "utf-8")
    with pytest.raises(ValueError, match=r"a\.txt:2: a/do: .*brace"):
        read_file(file)


def test_requests_have_no_template_left() -> None:
    """Filling a template leaves no slot, and required arguments are all there."""
    rng = Random("tasks")
    for function in read_tasks():
        variant = draw_variant(function, rng, BlockStyle.draw(rng))
        for _ in range(3):
            prompt, arguments = draw_request(function, variant, rng)
            assert prompt.strip()
            assert set(variant.tool["parameters"]["required"]) <= set(arguments)
        for request in function.requests:
            plain = re.sub(r"\{[^}]*\}", "", expand(request, rng))
            assert "{" not in plain


def test_made_up_functions_are_sound() -> None:
    """The synthetic family obeys the rules of written functions."""
    rng = Random("synthetic")
    for _ in range(200):
        function = draw_function(rng)
        check(function)
        variant = draw_variant(function, rng, BlockStyle.draw(rng))
        assert draw_request(function, variant, rng)[0]


def test_the_same_seed_draws_the_same_block() -> None:
    """Data is a function of sources and seed."""

    def draw() -> object:
        maker = BlockMaker(Sources(read_tasks(), None), Mix({"tasks": 0.5, "synthetic": 0.5}))
        rng = Random("same")
        block, offers = maker.start(rng)
        return block.tools, [maker.pair(block, offers, rng) for _ in range(20)]

    assert draw() == draw()


def test_poles_say_which_wording_is_true() -> None:
    """However the two values of a switch are described, each stands beside its own wording."""
    function = TaskFunction(
        "home", ("switch_fan",), requests=["{on:, spin it up/ and let it rest} please"]
    )
    for seed in range(200):
        told = write_poles(function, "on", Random(seed))
        first, second = (told.index(words) for words in ("spin it up", "let it rest"))
        true, false = (told.find(word) for word in ("true", "false"))
        if min(true, false) >= 0:
            assert (first < second) == (true < false), told
        assert not told.startswith(",")
        assert "and let" not in told
    assert (
        write_poles(TaskFunction("home", ("f",), requests=["{on:only true}"]), "on", Random(0))
        == ""
    )
