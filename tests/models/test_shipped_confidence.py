"""The embedded model's files tell how likely its answers are right."""

from __future__ import annotations

import shutil
from pathlib import Path

from callmemaybe.caller import Caller, load_model
from callmemaybe.generation import confidence
from callmemaybe.tools import tool_specs


def get_weather(city: str, days: int = 1) -> None:
    """Get the weather in a city."""


TOOLS = tool_specs([get_weather])


def test_the_embedded_model_states_it_and_others_do_not(tmp_path: Path) -> None:
    """A clear request gets a higher probability than one that no call can be right for; without the file there is none."""
    model = load_model("nano")
    caller = Caller(model, TOOLS)
    clear = caller.call("What's the weather in Paris?").confidence
    unclear = caller.call("Compose a limerick about the seven dwarfs and their taxes").confidence
    assert clear is not None
    assert unclear is not None
    assert clear > 0.7 > unclear
    folder = tmp_path / "other"
    shutil.copytree(model.files.folder, folder)  # type: ignore[union-attr]
    (folder / confidence.FILE).unlink()
    bare = Caller(load_model(str(folder)), TOOLS).call("What's the weather in Paris?")
    assert bare.confidence is None
    assert bare.call is not None
