"""What families that write a list of JSON objects have in common."""

from __future__ import annotations

from callmemaybe.wire.format_nodes import Arguments, Calls, Chain, Name, Text, chain

CALLS = Calls(
    chain(Text('{"name": "'), Name(), Text('", "arguments": '), Arguments("spaced"), Text("}")),
    between=chain(Text(", ")),
)


def listed(*behind: Text) -> Chain:
    """Return the calls and the end of their list; the list is begun already."""
    return chain(CALLS, Text("]"), *behind)
