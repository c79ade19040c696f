"""Every model obeys the laws of sessions."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

import pytest

from callmemaybe import models
from callmemaybe.models.onnx import OnnxModel
from callmemaybe.models.scripted import ScriptedModel
from callmemaybe.testing.sessions import LAWS, ModelUnderTest
from tests.models.conftest import Maker

# Where activations are rounded to 8 bits, the last bit of a sum over attention now and then flips a
# rounding; "optimum" + int8 rounds all rows of a pass with one scale, so neighbours matter as well.
TOLERANCE = {"fp32": 1e-5, "fp16": 1e-2, "int8": 2e-2, "int4": 2e-2, "q4f16": 2e-2}
NANO = Path(str(files("callmemaybe"))) / "data" / "nano"


@pytest.mark.parametrize("law", LAWS)
def test_scripted(law: str) -> None:
    """The shipped fake obeys the laws exactly."""
    LAWS[law](ModelUnderTest(ScriptedModel(size=40, context=70)))


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("keep", [False, True], ids=["all-logits", "num_logits_to_keep"])
@pytest.mark.parametrize("precision", TOLERANCE)
@pytest.mark.parametrize("layout", ["genai", "optimum"])
def test_onnx(tiny: Maker, law: str, layout: str, precision: str, keep: bool) -> None:
    """ONNX graphs of each layout and precision obey the laws, long inputs going in chunks."""
    model = models.load(tiny(layout, precision, keep))
    assert isinstance(model, OnnxModel)
    assert model.shares == (layout == "genai")
    model.limit_chunks(16)
    tolerance = 0.2 if (layout, precision) == ("optimum", "int8") else TOLERANCE[precision]
    LAWS[law](ModelUnderTest(model, tolerance=tolerance))


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("keep", [False, True], ids=["all-logits", "num_logits_to_keep"])
def test_placed(tiny: Maker, law: str, keep: bool) -> None:
    """A graph that writes by position, with states of another rank than keys', obeys the laws."""
    model = models.load(tiny("placed", keep=keep))
    assert isinstance(model, OnnxModel)
    assert model.shares
    assert model.batches
    model.limit_chunks(16)
    LAWS[law](ModelUnderTest(model, tolerance=TOLERANCE["fp32"]))


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("precision", ["fp32", "fp16", "int4"])
def test_fused_graph_without_sharing(tiny: Maker, law: str, precision: str) -> None:
    """A graph that could share its cache obeys the laws when it may not."""
    folder = tiny("genai", precision)
    model = OnnxModel(folder / "model.onnx", folder, share=False)
    assert not model.shares
    LAWS[law](ModelUnderTest(model, tolerance=TOLERANCE[precision]))


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize(("layout", "precision"), [("genai", "int8"), ("optimum", "fp32")])
def test_long_sequences(tiny: Maker, law: str, layout: str, precision: str) -> None:
    """Sequences that outgrow a buffer and a chunk of the default size obey the laws."""
    model = models.load(tiny(layout, precision, max_position_embeddings=1000))
    LAWS[law](ModelUnderTest(model, tolerance=TOLERANCE[precision], longest=700))


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.skipif(
    not (NANO / "model.onnx").is_file(), reason="the embedded model is not in this checkout"
)
def test_nano(law: str) -> None:
    """The embedded model obeys the laws."""
    LAWS[law](ModelUnderTest(models.load("nano"), tolerance=TOLERANCE["int8"], longest=120))
