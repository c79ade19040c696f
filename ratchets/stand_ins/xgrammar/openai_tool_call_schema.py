"""Stands in for xgrammar.openai_tool_call_schema, which has no counterpart."""

from xgrammar import __getattr__ as __getattr__
