"""Stands in for vLLM while its tests of tool parsers run: its names on this package's formats.

Every module below ``vllm`` (and ``openai``, whose types some tests take) has the names of :data:`NAMES`, and a
parser for every name that ends in ``ToolParser``. Whatever else a test asks for leaves it out, with what it asked.
"""

# ruff: noqa: D102 - the names of another's interface

from __future__ import annotations

import importlib.abc
import importlib.machinery
import sys
from types import ModuleType
from typing import Any

import pytest


def left_out(name: str) -> Any:
    """Leave the running test out, since it asks for this."""
    if name.rpartition(".")[2].startswith("__"):
        raise AttributeError(name)
    pytest.skip(f"left out: asks for {name}")


class Missing:
    """A name without a counterpart: a test that uses it is left out."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __call__(self, *parts: Any, **options: Any) -> Any:
        return left_out(self._name)

    def __getattr__(self, name: str) -> Any:
        return left_out(f"{self._name}.{name}")

    def __format__(self, spec: str) -> str:
        return str(left_out(self._name))

    def __mro_entries__(self, bases: Any) -> tuple[type, ...]:
        return (_LeftOut,)


class _LeftOut:
    """The base of a test's own class where it has none here."""

    def __init__(self, *parts: Any, **options: Any) -> None:
        left_out(f"{type(self).__name__}, a class made from one of vLLM's")


class _Names(ModuleType):
    """A module with the names of :data:`NAMES`."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        from vllm_names import NAMES, parser_class

        if name.endswith("ToolParser"):
            return parser_class(name)
        return NAMES.get(name) or Missing(name)


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds every module below the packages that are stood in for."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        """Return where a module comes from."""
        if name.partition(".")[0] not in ("vllm", "openai", "partial_json_parser"):
            return None
        return importlib.machinery.ModuleSpec(name, self, is_package=True)

    def create_module(self, spec: Any) -> ModuleType:
        """Return the module."""
        return _Names(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        """Do nothing: the names are looked up when they are asked for."""


sys.meta_path.insert(0, _Finder())


def __getattr__(name: str) -> Any:
    return Missing(name)
