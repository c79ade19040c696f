"""How a family of models writes a call: one tree per family, three readings of it.

The tree (:mod:`callmemaybe.wire.format`) is data. From it derive what a call looks like
(``render``), what a model may write (``grammar``) and what was written (``reader``); there is no
parser per format. Prompts (:mod:`callmemaybe.wire.prompt`) are tuples of plain text and control
tokens, so text that looks like a control token stays text.

This room knows no token ids, no vocabulary, no model, no array, no clock and no file.
"""

from callmemaybe.wire.format import Format
from callmemaybe.wire.format_nodes import PromptPart
from callmemaybe.wire.formats import detect, get, names
from callmemaybe.wire.reader import OutputReader

__all__ = [
    "Format",
    "OutputReader",
    "PromptPart",
    "detect",
    "get",
    "names",
]
