"""Stands in for xgrammar.structural_tag, which has no counterpart as text."""

from xgrammar import __getattr__ as __getattr__
