"""JSON Schema -> Grammar, in layers: what keywords say, the shapes it comes down to, their texts.

``references.py`` finds places in a document; ``keywords.py`` turns each keyword into a formula;
``normalise.py`` turns conjunctions of formulas into unions of ``shapes.py``; ``emit.py`` writes
shapes as nodes, with ``strings.py``, ``numeric.py``, ``arrays.py`` and ``objects.py`` for the kinds.
This room knows no wire format and no tool.

The law: a text in the grammar is a valid value; every valid value, as ``json.dumps`` writes it in the
chosen style with its keys in schema order, is in the grammar.
"""

from callmemaybe.grammar.json_schema.document import DeferredCheck
from callmemaybe.grammar.json_schema.entry import json_schema, json_schema_node
from callmemaybe.grammar.json_schema.grounding import GroundingSource

__all__ = ["DeferredCheck", "GroundingSource", "json_schema", "json_schema_node"]
