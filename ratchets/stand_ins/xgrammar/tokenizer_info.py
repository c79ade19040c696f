"""Stands in for xgrammar.tokenizer_info, which has no counterpart."""

from xgrammar import __getattr__ as __getattr__
