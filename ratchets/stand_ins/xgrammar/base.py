"""Stands in for xgrammar.base, which has no counterpart."""

from xgrammar import __getattr__ as __getattr__
