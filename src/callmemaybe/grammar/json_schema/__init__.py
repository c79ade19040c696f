"""JSON Schema -> Grammar, in three steps: keywords, normal form, text.

The problem: keywords combine freely (`allOf`, `anyOf`, `oneOf`, `not`, `$ref`), but a grammar needs one
description of the value that comes next. `keywords.py` is the table of all keywords; each becomes a formula
over facts about one type of value. `normalise.py` turns a conjunction of schemas into a union of `ValueShape`
(an analytic tableau, simplified by `choices.py` and `analysis.py`), and `emit.py` writes each shape as nodes,
with `strings.py`, `numbers.py`, `arrays.py` and `objects.py` for the types. `fast_path.py` writes common
schemas without these steps; the result is the same node.

The law: every text in the grammar is a valid value, and every valid value, as ``json.dumps`` writes it in the
chosen style with its keys in schema order, is in the grammar. A keyword is exact, deferred to a validator
(`DeferredCheck`), an annotation, or refused. The room does not know wire formats or tools.
"""

from callmemaybe.grammar.json_schema.document import DeferredCheck
from callmemaybe.grammar.json_schema.entry import json_schema, json_schema_node
from callmemaybe.grammar.json_schema.grounding import GroundingSource

__all__ = ["DeferredCheck", "GroundingSource", "json_schema", "json_schema_node"]
