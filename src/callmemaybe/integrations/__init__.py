"""Adapters for foreign libraries: hosts that run the model, services that are called, telemetry.

Frameworks for agents (LangChain, pydantic-ai, llm, instructor) ask a model in this process for turns of a chat, through ``_chat``.
A host that generates text itself (vLLM, transformers) needs the mask of the next token for each of its
sequences, whatever order they come in; ``_constraint`` gives it one matcher per sequence. Others take a
whole call (Ray), offer or use tools (MCP), or collect spans and metrics (OpenTelemetry).

Each module is named after the library it adapts and is the only one that imports it. No other room knows
this one.
"""
