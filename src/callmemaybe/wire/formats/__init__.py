"""The registry of wire formats: each file of this folder is one, in its constant ``FORMAT``.

To add a family, add a file here and its golden transcript in ``tests/wire/golden``; the laws of
``tests/wire/test_laws.py`` find it. Packages of others register formats by an entry point of the group
``callmemaybe.wire.formats``. A file whose name begins with an underscore is shared by several formats.
"""

from __future__ import annotations

from callmemaybe import plugins
from callmemaybe.errors import ModelError
from callmemaybe.wire.format import Format


def names() -> tuple[str, ...]:
    """Return the names of all formats, sorted."""
    return plugins.names(__name__)


def get(name: str) -> Format:
    """Return a format by name. Raises InputError with the names there are."""
    found = plugins.load(__name__, name, "FORMAT")
    assert isinstance(found, Format)
    return found


def detect(template: str | None, controls: frozenset[str]) -> Format:
    """Return the format a model uses, detected by its chat template and its control tokens.

    Raises ModelError if no format fits.
    """
    fitting = [found for found in map(get, names()) if found.matches(template, controls)]
    if not fitting:
        raise ModelError(
            f"cannot tell how this model writes calls; choose a format: {', '.join(names())}"
        )
    return max(fitting, key=lambda found: found.priority)
