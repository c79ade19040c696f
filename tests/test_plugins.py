"""The folder is the registry."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from callmemaybe import plugins
from callmemaybe.errors import InputError


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A folder with two entries and a helper that is none."""
    folder = tmp_path / "registry_of_test"
    folder.mkdir()
    (folder / "__init__.py").touch()
    (folder / "one.py").write_text("THING = 1")
    (folder / "two.py").write_text("raise RuntimeError('imported too early')")
    (folder / "_helper.py").touch()
    monkeypatch.syspath_prepend(tmp_path)
    plugins.refresh()
    yield folder.name
    plugins.refresh()
    for name in [name for name in sys.modules if name.startswith(folder.name)]:
        del sys.modules[name]


def test_files_are_entries(package: str) -> None:
    """Every public module of the folder is an entry, listed without being imported."""
    assert plugins.names(package) == ("one", "two")
    assert plugins.load(package, "one", "THING") == 1


def test_a_wrong_name_lists_the_right_ones(package: str) -> None:
    """Asking for what is not there names what is."""
    with pytest.raises(InputError, match="there is no 'three'; use one of one, two"):
        plugins.load(package, "three", "THING")


def test_third_parties_add_entries(package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """An entry point of the folder's name is an entry; a file of ours wins over it."""
    points = [
        EntryPoint("pi", "math:pi", package),
        EntryPoint("whole", "math", package),
        EntryPoint("one", "math:e", package),
    ]
    plugins.refresh()
    monkeypatch.setattr(plugins, "entry_points", lambda group: points if group == package else [])
    assert plugins.names(package) == ("one", "pi", "two", "whole")
    assert plugins.load(package, "pi", "THING") == pytest.approx(3.14159, abs=1e-4)
    assert plugins.load(package, "whole", "tau") == pytest.approx(6.28318, abs=1e-4)
    assert plugins.load(package, "one", "THING") == 1
