"""The OpenAPI document, generated from the models that requests are validated by."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.metadata import version
from typing import Any

from pydantic.json_schema import models_json_schema

from callmemaybe.server import chat, completions, messages, responses
from callmemaybe.server import response_schemas as answers
from callmemaybe.server.common import ServedModel
from callmemaybe.server.completions import COMPLETION_NEUTRAL, CompletionRequest
from callmemaybe.server.http_errors import STATUS_MEANINGS
from callmemaybe.server.message_models import (
    COUNT_NEUTRAL,
    MESSAGES_NEUTRAL,
    CountTokensRequest,
    MessagesRequest,
)
from callmemaybe.server.request_models import (
    CHAT_NEUTRAL,
    RESPONSES_NEUTRAL,
    ChatRequest,
    RequestObject,
    ResponsesRequest,
)
from callmemaybe.server.response_schemas import REF, TEXT, Schema, ref
from callmemaybe.server.tokens import (
    DETOKENIZE_ROUTE,
    TOKENIZE_NEUTRAL,
    TOKENIZE_ROUTE,
    DetokenizeRequest,
    TokenizeRequest,
)

#: What is asked for, with the known parameters that are not supported.
_REQUESTS: Sequence[tuple[type[RequestObject], Mapping[str, Sequence[Any]]]] = (
    (ChatRequest, CHAT_NEUTRAL),
    (ResponsesRequest, RESPONSES_NEUTRAL),
    (MessagesRequest, MESSAGES_NEUTRAL),
    (CountTokensRequest, COUNT_NEUTRAL),
    (CompletionRequest, COMPLETION_NEUTRAL),
    (TokenizeRequest, TOKENIZE_NEUTRAL),
    (DetokenizeRequest, {}),
)


def document(served: ServedModel) -> dict[str, Any]:
    """Return the document of a server of this model."""
    _, defined = models_json_schema(
        [(model, "validation") for model, _ in _REQUESTS], ref_template=REF
    )
    schemas = {**defined["$defs"], **answers.schemas()}
    for model, neutral in _REQUESTS:
        schema = schemas[model.__name__]
        _add_neutral(schema, neutral)
        schema["properties"]["model"]["examples"] = [served.name]
    found: dict[str, Any] = {
        "openapi": "3.2.0",
        "info": {
            "title": "Call Me Maybe",
            "version": version("callmemaybe"),
            "description": "Reliable function calls, in the interfaces of OpenAI's API and Anthropic's. "
            f"The model is {served.name!r}.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "paths": _paths(),
        "components": {"schemas": schemas},
    }
    if served.config.keys:
        found["components"]["securitySchemes"] = {
            "key": {"type": "http", "scheme": "bearer"},
            "x-api-key": {"type": "apiKey", "in": "header", "name": "x-api-key"},
        }
        found["security"] = [{"key": []}, {"x-api-key": []}]
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
        messages.ROUTE: {"post": _operation(
            "createMessage", "Answer a conversation, or call functions, in Anthropic's form.",
            answer="Message", body="MessagesRequest", event="MessagesEvent", error="MessagesError",
            errors=(400, 401, 403, 404, 408, 413, 415, 429, 500, 503, 504),
        )},
        messages.COUNT_ROUTE: {"post": _operation(
            "countTokens", "Count the tokens of a conversation's prompt, in Anthropic's form.",
            answer="TokenCount", body="CountTokensRequest", error="MessagesError",
            errors=(400, 401, 403, 404, 408, 413, 415, 429, 500, 503, 504),
        )},
        completions.ROUTE: {"post": _operation(
            "createCompletion", "Continue texts, under a grammar where one is given.",
            answer="Completion", body="CompletionRequest", event="CompletionEvent",
            errors=(400, 401, 403, 404, 408, 413, 415, 429, 500, 503, 504),
        )},
        TOKENIZE_ROUTE: {"post": _operation(
            "tokenize", "Return the tokens of a text, or of a conversation as the model gets it.",
            answer="Tokens", body="TokenizeRequest",
            errors=(400, 401, 403, 404, 408, 413, 415, 429, 500, 503, 504),
        )},
        DETOKENIZE_ROUTE: {"post": _operation(
            "detokenize", "Return the text of tokens.", answer="TokensText",
            body="DetokenizeRequest",
            errors=(400, 401, 403, 404, 408, 413, 415, 429, 500, 503, 504),
        )},
        "/v1/models": {"get": _operation(
            "listModels", "List the model that is served.", answer="ModelList", errors=(401, 403),
        )},
        "/v1/models/{model}": {"get": {
            **_operation("retrieveModel", "Describe a model.", answer="Model",
                         errors=(401, 403, 404)),
            "parameters": [model],
        }},
        "/healthz": {"get": {
            **_operation("health", "Return whether the server takes requests.", answer="Health",
                         errors=(403, 503)),
            "security": [],
        }},
        "/metrics": {"get": _operation(
            "metrics", "Return metrics for Prometheus.", media="text/plain", errors=(401, 403)
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
    error: str = "Error",
) -> dict[str, Any]:
    content: dict[str, Any] = {media: {"schema": ref(answer) if answer else TEXT}}
    if event is not None:
        # The schema of one event, which OpenAPI has had since version 3.2.
        content["text/event-stream"] = {"itemSchema": ref(event)}
    found: dict[str, Any] = {
        "operationId": name,
        "summary": summary,
        "responses": {
            "200": {"description": "The answer.", "headers": _headers(), "content": content},
            **{str(status): _error(status, error) for status in errors},
        },
    }
    if body is not None:
        found["requestBody"] = {
            "required": True, "content": {"application/json": {"schema": ref(body)}},
        }  # fmt: skip
    return found


def _error(status: int, error: str) -> dict[str, Any]:
    headers = _headers()
    if status in (429, 503):
        headers["Retry-After"] = {
            "description": "Seconds after which to try again.", "schema": {"type": "integer"},
        }  # fmt: skip
    return {
        "description": STATUS_MEANINGS[status],
        "headers": headers,
        "content": {"application/json": {"schema": ref(error)}},
    }


def _headers() -> dict[str, Any]:
    return {
        "x-request-id": {"description": "The request's id, as in the log.", "schema": TEXT},
        "openai-processing-ms": {
            "description": "Milliseconds until the answer began.", "schema": {"type": "integer"},
        },
    }  # fmt: skip


def _add_neutral(schema: Schema, neutral: Mapping[str, Sequence[Any]]) -> None:
    """Add the known parameters that are not supported, with the values that ask for nothing."""
    for name, values in neutral.items():
        schema["properties"][name] = {
            "enum": list(values), "description": "Not supported; only values that ask for nothing.",
        }  # fmt: skip
