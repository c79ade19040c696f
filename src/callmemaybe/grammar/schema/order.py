"""Values with their keys in schema order, as the grammar of the schema wants them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from callmemaybe.grammar.schema.judge import covers
from callmemaybe.grammar.schema.normalise import Normaliser
from callmemaybe.grammar.schema.references import Document, ScopeNeeded
from callmemaybe.grammar.schema.shapes import ARRAY, OBJECT, Array, Need, Object
from callmemaybe.grammar.schema.strings import matches


def in_schema_order(schema: Any, value: Any, *, remotes: Mapping[str, Any] | None = None) -> Any:
    """Return ``value`` with the keys of every object in the order of the schema, others last.

    The order is that of the first way in which the value meets the schema; a value that does not
    meet it comes back as it is. Raises UnsupportedSchema as json_schema does.
    """
    try:
        return _sorted(value, Document(schema, remotes, checks=[]))
    except ScopeNeeded:
        return _sorted(value, Document(schema, remotes, scoped=True, checks=[]))


def _sorted(value: Any, document: Document) -> Any:
    return _Sorter(Normaliser(document)).sort(value, ((document.root, True),))


class _Sorter:
    def __init__(self, normaliser: Normaliser) -> None:
        self._normaliser = normaliser

    def sort(self, value: Any, need: Need) -> Any:
        """Sort a value that must meet a need."""
        if not isinstance(value, dict | list):
            return value
        accepts = self._normaliser.judge.accepts
        for shape in self._normaliser.shapes(need):
            if accepts(shape, value):
                if shape.among is not None:
                    return next(v for v in shape.among.values() if v == value)
                if isinstance(value, list):
                    return self._array(value, shape.facets.get(ARRAY) or Array())
                return self._object(value, shape.facets.get(OBJECT) or Object())
        return value

    def _array(self, value: list[Any], facet: Array) -> list[Any]:
        return [self.sort(item, facet.item(index)) for index, item in enumerate(value)]

    def _object(self, value: dict[str, Any], facet: Object) -> dict[str, Any]:
        declared = dict.fromkeys((*facet.properties, *facet.required))
        names = [name for name in declared if name in value]
        others = [name for name in value if name not in declared]
        for member in facet.extra:  # it must come last
            meets = self._normaliser.judge.meets
            fit = [
                name
                for name in others
                if covers(member, name, self._normaliser.judge) and meets(value[name], member.need)
            ]
            others = [name for name in others if name not in fit[:1]] + fit[:1]
        names += others
        return {name: self.sort(value[name], facet.need_of(name, matches)) for name in names}
