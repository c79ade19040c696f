"""Natural language in, function calls one can rely on out.

The names below are what users need; each is imported when it is first used, so ``import callmemaybe``
costs nothing. The parts of the engine are imported from their rooms, for example
``from callmemaybe.grammar import json_schema`` or ``from callmemaybe.matching import Matcher``.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from callmemaybe.agent.executors import GatewayExecutor as GatewayExecutor
    from callmemaybe.agent.executors import PythonExecutor as PythonExecutor
    from callmemaybe.agent.runner import AgentRunner as AgentRunner
    from callmemaybe.agent.runner import RunConfig as RunConfig
    from callmemaybe.agent.runner import RunResult as RunResult
    from callmemaybe.caller import Caller as Caller
    from callmemaybe.caller import load_model as load_model
    from callmemaybe.conversation import Conversation as Conversation
    from callmemaybe.errors import BudgetError as BudgetError
    from callmemaybe.errors import CallMeMaybeError as CallMeMaybeError
    from callmemaybe.errors import ConversationError as ConversationError
    from callmemaybe.errors import DecodingError as DecodingError
    from callmemaybe.errors import DuplicateKeyError as DuplicateKeyError
    from callmemaybe.errors import GrammarError as GrammarError
    from callmemaybe.errors import GroundingError as GroundingError
    from callmemaybe.errors import InputError as InputError
    from callmemaybe.errors import LedgerError as LedgerError
    from callmemaybe.errors import LongNumber as LongNumber
    from callmemaybe.errors import ModelError as ModelError
    from callmemaybe.errors import ModelOutputError as ModelOutputError
    from callmemaybe.errors import NotExecuted as NotExecuted
    from callmemaybe.errors import NoValue as NoValue
    from callmemaybe.errors import SchemaViolationError as SchemaViolationError
    from callmemaybe.errors import StoreError as StoreError
    from callmemaybe.errors import StoreFull as StoreFull
    from callmemaybe.errors import StoreTransient as StoreTransient
    from callmemaybe.errors import TransientError as TransientError
    from callmemaybe.errors import UnsupportedSchema as UnsupportedSchema
    from callmemaybe.errors import UpstreamError as UpstreamError
    from callmemaybe.errors import VocabularyError as VocabularyError
    from callmemaybe.errors import WriteError as WriteError
    from callmemaybe.gateway import Gateway as Gateway
    from callmemaybe.generation.config import DecodingConfig as DecodingConfig
    from callmemaybe.generation.result import CallResult as CallResult
    from callmemaybe.retrieval import ToolIndex as ToolIndex
    from callmemaybe.sources import LoadedTools as LoadedTools
    from callmemaybe.sources import load_tools as load_tools
    from callmemaybe.tools import ToolCall as ToolCall
    from callmemaybe.tools import ToolResult as ToolResult
    from callmemaybe.tools import ToolSpec as ToolSpec
    from callmemaybe.tools import tool as tool
    from callmemaybe.tuning.tuner import tune as tune
    from callmemaybe.wire.grounding import GroundingConfig as GroundingConfig

__version__ = "0.2.0"

#: Public name -> the module it comes from.
_MODULES = {
    # a model and tools: requests in, calls out
    "Caller": "caller",
    "load_model": "caller",
    "tune": "tuning.tuner",
    "tool": "tools",
    "load_tools": "sources",
    "CallResult": "generation.result",
    "DecodingConfig": "generation.config",
    "GroundingConfig": "wire.grounding",
    # conversations
    "AgentRunner": "agent.runner",
    "RunConfig": "agent.runner",
    "RunResult": "agent.runner",
    "PythonExecutor": "agent.executors",
    "GatewayExecutor": "agent.executors",
    "Conversation": "conversation",
    "ToolIndex": "retrieval",
    # effects that must not happen twice
    "Gateway": "gateway",
    # tools as values
    "ToolSpec": "tools",
    "ToolCall": "tools",
    "ToolResult": "tools",
    "LoadedTools": "sources",
    # what can go wrong, by who is to blame (see ``callmemaybe.errors``)
    **dict.fromkeys((
        "CallMeMaybeError", "InputError", "UnsupportedSchema", "GrammarError", "GroundingError",
        "BudgetError", "ConversationError", "ModelOutputError", "DuplicateKeyError", "SchemaViolationError",
        "ModelError", "UpstreamError", "VocabularyError", "DecodingError",
        "NoValue", "LongNumber", "StoreError", "StoreFull", "StoreTransient",
        "LedgerError", "WriteError", "NotExecuted", "TransientError",
    ), "errors"),
}  # fmt: skip

__all__ = ["__version__", *_MODULES]  # noqa: PLE0604 - built from the one table


def __getattr__(name: str) -> object:
    """Import a public name on first use (PEP 562)."""
    module = _MODULES.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{module}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
