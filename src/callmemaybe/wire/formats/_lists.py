"""What families that write a list of JSON objects have in common."""

from __future__ import annotations

from callmemaybe.wire.format_nodes import (
    ArgumentsNode,
    CallsNode,
    NameNode,
    SequenceNode,
    TextNode,
    sequence,
)

CALLS = CallsNode(
    sequence(
        '{"name": "',
        NameNode(),
        '", "arguments": ',
        ArgumentsNode(),
        "}",
    ),
    between=sequence(", "),
)


def listed(*behind: TextNode) -> SequenceNode:
    """Return the calls and the end of their list; the list is begun already."""
    return sequence(CALLS, "]", *behind)
