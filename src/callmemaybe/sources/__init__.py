"""Where tools come from: one text names a source, and one table says what it may be.

The problem: functions are defined in JSON, in Python, by an OpenAPI document or by an MCP server, and every
command and every program should name them in the same way. :data:`callmemaybe.sources.kinds.KINDS` is the table
of kinds; :func:`load_tools` reads sources into :class:`LoadedTools`, a sequence of tools that a ``Caller`` and a
``Gateway`` take.

A source that a text of the user names is trusted as far as its kind goes: a Python file and the command of an MCP
server run with the user's rights; a document from the network only defines requests, which go to public addresses
unless ``allow_private`` says otherwise. What of a document cannot be a tool is left out and listed, with the reason.

This room knows no model and prints nothing.
"""

from callmemaybe.sources.loading import LoadedTools, load_tools
from callmemaybe.sources.source import SkippedTool

__all__ = ["LoadedTools", "SkippedTool", "load_tools"]
