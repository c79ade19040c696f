"""Plain text, for prompts that are the whole input of a model: no roles, no instructions, no calls.

Not in the registry of formats: any model that writes text can continue one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from callmemaybe.tools import ToolSpec
from callmemaybe.wire.format_nodes import ChoiceNode, Controls, FreeTextNode, PromptParts
from callmemaybe.wire.plain_json import CALL_FORMAT
from callmemaybe.wire.prompt import split_controls


def _nothing(_tools: Sequence[ToolSpec], _controls: Controls) -> PromptParts:
    return ()


def _texts(
    messages: Sequence[Mapping[str, Any]], _tools: Sequence[ToolSpec], controls: Controls
) -> PromptParts:
    """Write the texts one behind the other; who writes a whole prompt spells its control tokens out."""
    return split_controls("".join(message["content"] for message in messages), controls)


TEXT_FORMAT = replace(
    CALL_FORMAT,
    name="text",
    summary="plain text, continued: no roles and no calls",
    tree=ChoiceNode(CALL_FORMAT.tree.calls, no_call=FreeTextNode()),  # type: ignore[union-attr]
    prefix=_nothing,
    request=_texts,
)
