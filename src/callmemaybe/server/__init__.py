"""An HTTP server with OpenAI's chat and responses interfaces, and Anthropic's messages, over one model.

The problem is sharing: many clients, one model. A request becomes one or more turns (``chat``,
``responses`` and ``messages`` translate, ``request_models`` and ``message_models`` validate); the ``scheduler`` queues turns fairly among
clients and runs as many as there are slots in one batch, on threads that only wait for forward passes;
their updates come back to the event loop, where an answer is built from them, streamed or whole, so
that the two cannot differ. ``app`` and ``http`` know HTTP, ``serving`` knows sockets and uvicorn; log,
metrics and spans are observers of requests (``observability``).

Rules: a parameter that is not supported is refused, never ignored; a call that was cut off is never sent
as a call; no client can slow down or break the requests of another by what it sends or does not read.

The server does not know what tools do: calls are sent to the client, which runs them.
"""
