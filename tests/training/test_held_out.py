"""What is held out is measured with the same requests for ever."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from training import recipe
from training.cases import cases
from training.data.tasks import TASKS, read_file, read_tasks

# SHA-256 of the first 240 cases of each part, one line of JSON each. Published figures were measured on these requests:
# a change of the digests makes them incomparable with all that follow.
DIGESTS = {
    "function": "0baa4b7ed1c59a60fe443517a531b4548d77587bb4dd2c7a6d1f4c5eb391f093",
    "domain": "243d53d2d49b9f0862a943ffc359dddba6931bfa8724317508f0d78c96db0c9b",
}


@pytest.mark.parametrize("part", DIGESTS)
def test_held_out_requests_stay_byte_for_byte(part: str) -> None:
    """Neither the order of files nor a change of a generator changes a held-out request, its tools or its calls."""
    run = recipe.load(recipe.ROOT / "training/runs/nano-2.toml")
    digest = hashlib.sha256()
    for case in cases(run, part, 240):
        digest.update(json.dumps(case, ensure_ascii=False).encode() + b"\n")
    assert digest.hexdigest() == DIGESTS[part]


def test_the_order_names_every_function_once() -> None:
    """A domain that is listed in two parts loses none of its functions and repeats none."""
    written = [f.key for file in TASKS.glob("*/*.txt") for f in read_file(file)]
    assert sorted(written) == sorted(function.key for function in read_tasks())


def test_a_domain_without_a_place_comes_last(tmp_path: Path) -> None:
    """A new domain needs no line in the order; one that is listed without a file, or has two files, is refused."""
    for name in ("city/b", "city/a", "home/c"):
        file = tmp_path / f"{name}.txt"
        file.parent.mkdir(exist_ok=True)
        file.write_text("# f\n: Do it.\n> do it\n# g\n: Do it.\n> do it\n", "utf-8")
    order = tmp_path / "order.txt"
    order.write_text("# why\nc[:1] b\nc[1:]\n", "utf-8")
    keys = [function.key for function in read_tasks(tmp_path)]
    assert keys == ["c/f", "b/f", "b/g", "c/g", "a/f", "a/g"]
    order.write_text("d\n", "utf-8")
    with pytest.raises(ValueError, match=r"order\.txt names d, of which there is no file"):
        read_tasks(tmp_path)
    (tmp_path / "home" / "a.txt").touch()
    with pytest.raises(ValueError, match="another file of the domain a"):
        read_tasks(tmp_path)
