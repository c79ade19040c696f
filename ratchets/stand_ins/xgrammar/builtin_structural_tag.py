"""Stands in for xgrammar.builtin_structural_tag, which has no counterpart."""

from xgrammar import __getattr__ as __getattr__
