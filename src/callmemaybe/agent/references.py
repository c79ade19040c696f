"""What of a request waits for a result: "find out in which city Ada lives, then tell me the weather there".

A model that reads one request has no value for such a call and takes a word of the part itself for one ("tell"). So a call waits
if the last part of its request says *there* (of a place, not as in "is there") and all its values stand in that part alone. Behind
the results the part is asked about by itself, with what was found (:func:`callmemaybe.agent.several_calls.follow_up`).
"""

from __future__ import annotations

import json
import re

from callmemaybe.generation.compound import referring_part
from callmemaybe.tools import ToolCall

_THERE = re.compile(
    r"(?<!\bis )(?<!\bare )(?<!\bwas )(?<!\bwere )\bthere\b(?!'s|,?\s+(?:is|are|was|were|will)\b)",
    re.IGNORECASE,
)


def is_waiting(call: ToolCall, text: str) -> bool:
    """Say whether a call has nothing but words of a part that refers to what is not known yet."""
    part = referring_part(text)
    if part == text or not _THERE.search(part):
        return False
    before, here = text[: text.rindex(part)].casefold(), part.casefold()
    values = [str(one).casefold() for one in json.loads(call.arguments).values()]
    return bool(values) and all(one in here and one not in before for one in values)
