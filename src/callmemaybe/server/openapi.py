"""The OpenAPI document: drawn from the shapes that requests are checked by, so it cannot differ."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic.json_schema import models_json_schema

from callmemaybe import __version__
from callmemaybe.server import answers, chat, responses
from callmemaybe.server.answers import REF, TEXT, Schema, ref
from callmemaybe.server.common import Served
from callmemaybe.server.http_errors import STATUSES
from callmemaybe.server.shapes import (
    CHAT_NEUTRAL,
    RESPONSES_NEUTRAL,
    ChatRequest,
    ResponsesRequest,
)


def document(served: Served) -> dict[str, Any]:
    """Return the document of a server of this model."""
    _, defined = models_json_schema(
        [(ChatRequest, "validation"), (ResponsesRequest, "validation")], ref_template=REF
    )
    schemas = {**defined["$defs"], **answers.schemas()}
    _add_neutral(schemas["ChatRequest"], CHAT_NEUTRAL)
    _add_neutral(schemas["ResponsesRequest"], RESPONSES_NEUTRAL)
    for name in ("ChatRequest", "ResponsesRequest"):
        schemas[name]["properties"]["model"]["examples"] = [served.name]
    found: dict[str, Any] = {
        "openapi": "3.2.0",
        "info": {
            "title": "Call Me Maybe",
            "version": __version__,
            "description": "Function calls one can rely on, in the interfaces of OpenAI's API. "
            f"The model is {served.name!r}.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "paths": _paths(),
        "components": {"schemas": schemas},
    }
    if served.settings.keys:
        found["components"]["securitySchemes"] = {"key": {"type": "http", "scheme": "bearer"}}
        found["security"] = [{"key": []}]
    return found


def _paths() -> dict[str, Any]:
    model = {"name": "model", "in": "path", "required": True, "schema": TEXT}
    return {
        chat.ROUTE: {"post": _operation(
            "createChatCompletion", "Answer a conversation, or call functions.",
            answer="ChatCompletion", body="ChatRequest", event="ChatCompletionEvent",
            errors=(400, 401, 403, 404, 408, 413, 415, 429, 500, 503, 504),
        )},
        responses.ROUTE: {"post": _operation(
            "createResponse", "Answer a conversation, or call functions; nothing is stored.",
            answer="Response", body="ResponsesRequest", event="ResponseEvent",
            errors=(400, 401, 403, 404, 408, 413, 415, 429, 500, 503, 504),
        )},
        "/v1/models": {"get": _operation(
            "listModels", "List the model that is served.", answer="ModelList", errors=(401, 403),
        )},
        "/v1/models/{model}": {"get": {
            **_operation("retrieveModel", "Tell of a model.", answer="Model",
                         errors=(401, 403, 404)),
            "parameters": [model],
        }},
        "/healthz": {"get": {
            **_operation("health", "Tell whether the server takes requests.", answer="Health",
                         errors=(403, 503)),
            "security": [],
        }},
        "/metrics": {"get": _operation(
            "metrics", "Tell Prometheus how it goes.", media="text/plain", errors=(401, 403)
        )},
    }  # fmt: skip


def _operation(
    name: str,
    summary: str,
    *,
    answer: str | None = None,
    body: str | None = None,
    media: str = "application/json",
    event: str | None = None,
    errors: Sequence[int] = (),
) -> dict[str, Any]:
    content: dict[str, Any] = {media: {"schema": ref(answer) if answer else TEXT}}
    if event is not None:
        # What one event is like; before OpenAPI 3.2 there was no way to say that.
        content["text/event-stream"] = {"itemSchema": ref(event)}
    found: dict[str, Any] = {
        "operationId": name,
        "summary": summary,
        "responses": {
            "200": {"description": "As asked.", "headers": _headers(), "content": content},
            **{str(status): _error(status) for status in errors},
        },
    }
    if body is not None:
        found["requestBody"] = {
            "required": True, "content": {"application/json": {"schema": ref(body)}},
        }  # fmt: skip
    return found


def _error(status: int) -> dict[str, Any]:
    headers = _headers()
    if status in (429, 503):
        headers["Retry-After"] = {
            "description": "Seconds after which to try again.", "schema": {"type": "integer"},
        }  # fmt: skip
    return {
        "description": STATUSES[status],
        "headers": headers,
        "content": {"application/json": {"schema": ref("Error")}},
    }


def _headers() -> dict[str, Any]:
    return {
        "x-request-id": {"description": "The request's id, as in the log.", "schema": TEXT},
        "openai-processing-ms": {
            "description": "Milliseconds until the answer began.", "schema": {"type": "integer"},
        },
    }  # fmt: skip


def _add_neutral(schema: Schema, neutral: Mapping[str, Sequence[Any]]) -> None:
    """Add the parameters that are known and not done, with the values that ask for nothing."""
    for name, values in neutral.items():
        schema["properties"][name] = {
            "enum": list(values), "description": "Not done here; only what asks for nothing.",
        }  # fmt: skip
