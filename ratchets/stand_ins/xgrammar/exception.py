"""Stands in for xgrammar.exception, which has no counterpart."""

from xgrammar import __getattr__ as __getattr__
