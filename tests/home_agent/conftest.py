"""The pure parts of the component, which Home Assistant imports and this project does not."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

FOLDER = Path(__file__).parents[2] / "home_assistant/custom_components/callmemaybe"


def part(name: str) -> ModuleType:
    """Return a module of the component."""
    if "home_agent" not in sys.modules:
        spec = importlib.util.spec_from_file_location(
            "home_agent", FOLDER / "__init__.py", submodule_search_locations=[str(FOLDER)]
        )
        assert spec is not None
        sys.modules["home_agent"] = importlib.util.module_from_spec(spec)
    return importlib.import_module(f"home_agent.{name}")


@pytest.fixture(scope="session")
def home() -> ModuleType:
    """The module of homes and functions."""
    return part("home")


@pytest.fixture(scope="session")
def intents() -> ModuleType:
    """The module of intents."""
    return part("intents")


@pytest.fixture(scope="session")
def words() -> ModuleType:
    """The module of words."""
    return part("words")


@pytest.fixture(scope="session")
def reading() -> ModuleType:
    """The module that reads requests."""
    return part("reading")
