"""How a family of models writes calls: one tree for each family, and three readings of it.

The problem: every family writes calls in its own way, and three pieces of code must agree on it: what
writes earlier calls into a prompt, the grammar that constrains the model, and the parser of its output.
Here a format is one value, a tree of nodes (:mod:`~callmemaybe.wire.format_nodes`), and there is no code
per format. The tree has three readings: :mod:`~callmemaybe.wire.rendering` walks it to write calls,
:mod:`~callmemaybe.wire.output_grammar` replaces its leaves by the tools' names and schemas to say what a
model may write, and :mod:`~callmemaybe.wire.reader` follows all paths through it (an NFA simulation) to
turn what was written into the events of :mod:`callmemaybe.tools.events`. Where arguments are not JSON,
``arg_syntax``, ``arg_grammar`` and ``arg_parser`` are the same three readings of a table of marks;
``element_args``, ``element_grammar`` and ``element_parser``, where values are elements inside of elements.
Prompts (:mod:`~callmemaybe.wire.prompt`) are tuples of plain text and control tokens, so text that looks
like a control token stays text.

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
