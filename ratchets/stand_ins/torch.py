"""Stands in for PyTorch, the hub and tokenizers where tests of masks import them."""

from xgrammar import __getattr__ as __getattr__
