"""What is public is complete, importable, documented and typed."""

from __future__ import annotations

import inspect
from pathlib import Path

import pytest

import callmemaybe
from callmemaybe import errors

REFERENCE = (Path(__file__).parent.parent / "docs" / "reference" / "python.md").read_text("utf-8")
PUBLIC = [name for name in callmemaybe.__all__ if name != "__version__"]


@pytest.mark.parametrize("name", PUBLIC)
def test_every_public_name_is_documented(name: str) -> None:
    """A public name resolves, says what it is for, and stands in the reference."""
    value = getattr(callmemaybe, name)
    assert inspect.getdoc(value), f"{name} has no docstring"
    assert f"`{name}`" in REFERENCE, f"{name} is missing in docs/reference/python.md"


@pytest.mark.parametrize("name", PUBLIC)
def test_every_public_method_is_documented(name: str) -> None:
    """What a public class defines itself and does not hide has a docstring."""
    value = getattr(callmemaybe, name)
    if not inspect.isclass(value):
        return
    for attribute, member in vars(value).items():
        # The default of a field may be a function, too; it carries another name.
        is_method = inspect.isfunction(member) and member.__name__ == attribute
        if attribute.startswith("_") or not (is_method or isinstance(member, property)):
            continue
        assert inspect.getdoc(member), f"{name}.{attribute} has no docstring"


def test_the_list_is_complete() -> None:
    """The public names are without twins, shown by dir(), and nothing else resolves."""
    assert len(callmemaybe.__all__) == len(set(callmemaybe.__all__))
    assert set(callmemaybe.__all__) <= set(dir(callmemaybe))
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        callmemaybe.nonsense  # noqa: B018 - the access is the test


def test_every_exception_is_public() -> None:
    """Whatever the package raises on purpose can be caught by a name of the package."""
    defined = {
        name
        for name, value in vars(errors).items()
        if inspect.isclass(value) and issubclass(value, Exception)
    }
    assert defined <= set(callmemaybe.__all__)
    assert errors.__doc__ is not None
    assert all(name in errors.__doc__ for name in defined), "the tree in errors.py is incomplete"
