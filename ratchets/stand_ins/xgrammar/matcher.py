"""Stands in for xgrammar.matcher, which has no counterpart."""

from xgrammar import __getattr__ as __getattr__
