"""Turns of a model and results of tools, until there is an answer.

The problem: a model asks for calls, somebody runs them, the model reads the results and goes on; and a run
must end, whatever the model does. The loop is pure (:mod:`callmemaybe.conversation.loop`): it yields what has
to happen next. ``AgentRunner`` is its driver, the only part that waits: it lets a generator take a turn, and
lets an executor run the calls: plain Python functions (``PythonExecutor``), or a gateway
(``GatewayExecutor``), where nothing happens twice.

A model that reads one request, and no conversation, is led through the same loop by ``single_request``: what it cannot
write is made by rules.

What the room does not know: tokens, masks, how a wire format writes a call, and how a gateway keeps its
promises.
"""

from callmemaybe.agent.executors import GatewayExecutor, PythonExecutor
from callmemaybe.agent.runner import AgentRunner, Executor, RunConfig, RunResult, ToolProvider

__all__ = [
    "AgentRunner",
    "Executor",
    "GatewayExecutor",
    "PythonExecutor",
    "RunConfig",
    "RunResult",
    "ToolProvider",
]
