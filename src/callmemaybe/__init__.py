"""Natural language in, function calls one can rely on out.

The names below are the public ones and nothing else is. Each is imported when it is first used, so
``import callmemaybe`` costs nothing; the rooms behind them may be imported directly as well, for
example ``from callmemaybe.grammar import json_schema``.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from callmemaybe.agent.executors import functions as functions
    from callmemaybe.agent.runner import RunResult as RunResult
    from callmemaybe.agent.runner import through as through
    from callmemaybe.caller import Caller as Caller
    from callmemaybe.caller import CallResult as CallResult
    from callmemaybe.caller import load_model as load_model
    from callmemaybe.conversation import Conversation as Conversation
    from callmemaybe.decoding import Decoder as Decoder
    from callmemaybe.decoding import Step as Step
    from callmemaybe.errors import BudgetError as BudgetError
    from callmemaybe.errors import CallMeMaybeError as CallMeMaybeError
    from callmemaybe.errors import ConversationError as ConversationError
    from callmemaybe.errors import DecodingError as DecodingError
    from callmemaybe.errors import DuplicateKeyError as DuplicateKeyError
    from callmemaybe.errors import GrammarError as GrammarError
    from callmemaybe.errors import GroundingError as GroundingError
    from callmemaybe.errors import InputError as InputError
    from callmemaybe.errors import ModelError as ModelError
    from callmemaybe.errors import SchemaViolationError as SchemaViolationError
    from callmemaybe.errors import UnsupportedSchema as UnsupportedSchema
    from callmemaybe.errors import VocabularyError as VocabularyError
    from callmemaybe.generation.local import DecodingConfig as DecodingConfig
    from callmemaybe.grammar import Automaton as Automaton
    from callmemaybe.grammar import Grammar as Grammar
    from callmemaybe.matching import Matcher as Matcher
    from callmemaybe.models import Model as Model
    from callmemaybe.models import Session as Session
    from callmemaybe.retrieval import ToolIndex as ToolIndex
    from callmemaybe.tools import ToolCall as ToolCall
    from callmemaybe.tools import ToolResult as ToolResult
    from callmemaybe.tools import ToolSpec as ToolSpec
    from callmemaybe.vocabulary import Vocabulary as Vocabulary

__version__ = "0.1.0"

#: Public name -> the room it comes from.
_ROOMS = {
    "Automaton": "grammar",
    "BudgetError": "errors",
    "CallMeMaybeError": "errors",
    "Caller": "caller",
    "ToolIndex": "retrieval",
    "Conversation": "conversation",
    "ConversationError": "errors",
    "Decoder": "decoding",
    "DecodingError": "errors",
    "Grammar": "grammar",
    "GrammarError": "errors",
    "GroundingError": "errors",
    "InputError": "errors",
    "Matcher": "matching",
    "Model": "models",
    "ModelError": "errors",
    "DecodingConfig": "generation.local",
    "CallResult": "caller",
    "RunResult": "agent.runner",
    "DuplicateKeyError": "errors",
    "Session": "models",
    "Step": "decoding",
    "ToolCall": "tools",
    "ToolResult": "tools",
    "ToolSpec": "tools",
    "SchemaViolationError": "errors",
    "UnsupportedSchema": "errors",
    "Vocabulary": "vocabulary",
    "VocabularyError": "errors",
    "functions": "agent.executors",
    "load_model": "caller",
    "through": "agent.runner",
}

__all__ = ["__version__", *_ROOMS]  # noqa: PLE0604 - built from the one table


def __getattr__(name: str) -> object:
    """Import a public name on first use (PEP 562)."""
    room = _ROOMS.get(name)
    if room is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{room}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
