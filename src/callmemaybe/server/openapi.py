"""The OpenAPI document: drawn from the shapes that requests are checked by, so it cannot differ."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic.json_schema import models_json_schema

from callmemaybe import __version__
from callmemaybe.server import chat, responses
from callmemaybe.server.common import Served
from callmemaybe.server.problems import STATUSES
from callmemaybe.server.shapes import (
    CHAT_NEUTRAL,
    RESPONSES_NEUTRAL,
    ChatRequest,
    ResponsesRequest,
)

_REF = "#/components/schemas/{model}"
Schema = dict[str, Any]

_TEXT: Schema = {"type": "string"}
_COUNT: Schema = {"type": "integer", "minimum": 0}
_MAYBE: Schema = {"type": ["string", "null"]}


def document(served: Served) -> dict[str, Any]:
    """Return the document of a server of this model."""
    _, defined = models_json_schema(
        [(ChatRequest, "validation"), (ResponsesRequest, "validation")], ref_template=_REF
    )
    schemas = {**defined["$defs"], **_answers()}
    _add_neutral(schemas["ChatRequest"], CHAT_NEUTRAL)
    _add_neutral(schemas["ResponsesRequest"], RESPONSES_NEUTRAL)
    for name in ("ChatRequest", "ResponsesRequest"):
        schemas[name]["properties"]["model"]["examples"] = [served.name]
    found: dict[str, Any] = {
        "openapi": "3.1.0",
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
    model = {"name": "model", "in": "path", "required": True, "schema": _TEXT}
    return {
        chat.ROUTE: {"post": _operation(
            "createChatCompletion", "Answer a conversation, or call functions.",
            answer="ChatCompletion", body="ChatRequest", streams=True,
            errors=(400, 401, 403, 404, 408, 413, 415, 429, 500, 503, 504),
        )},
        responses.ROUTE: {"post": _operation(
            "createResponse", "Answer a conversation, or call functions; nothing is stored.",
            answer="Response", body="ResponsesRequest", streams=True,
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
    streams: bool = False,
    errors: Sequence[int] = (),
) -> dict[str, Any]:
    content: dict[str, Any] = {media: {"schema": _ref(answer) if answer else _TEXT}}
    if streams:
        content["text/event-stream"] = {"schema": _TEXT}
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
            "required": True, "content": {"application/json": {"schema": _ref(body)}},
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
        "content": {"application/json": {"schema": _ref("Error")}},
    }


def _headers() -> dict[str, Any]:
    return {
        "x-request-id": {"description": "The request's id, as in the log.", "schema": _TEXT},
        "openai-processing-ms": {
            "description": "Milliseconds until the answer began.", "schema": {"type": "integer"},
        },
    }  # fmt: skip


def _ref(name: str) -> Schema:
    return {"$ref": _REF.format(model=name)}


def _add_neutral(schema: Schema, neutral: Mapping[str, Sequence[Any]]) -> None:
    """Add the parameters that are known and not done, with the values that ask for nothing."""
    for name, values in neutral.items():
        schema["properties"][name] = {
            "enum": list(values), "description": "Not done here; only what asks for nothing.",
        }  # fmt: skip


# -- answers --------------------------------------------------------------------------------------


def _object(properties: Schema, *optional: str) -> Schema:
    return {
        "type": "object",
        "properties": properties,
        "required": [name for name in properties if name not in optional],
    }


def _list(items: Schema) -> Schema:
    return {"type": "array", "items": items}


def _answers() -> dict[str, Schema]:
    """Return the schemas of what the server answers."""
    model = _object({"id": _TEXT, "object": {"const": "model"}, "created": _COUNT,
                     "owned_by": _TEXT})  # fmt: skip
    error = _object({"message": _TEXT, "type": _TEXT, "param": _MAYBE, "code": _MAYBE})
    return {
        "Error": _object({"error": error}),
        "Health": _object({"status": {"const": "ok"}}),
        "Model": model,
        "ModelList": _object({"object": {"const": "list"}, "data": _list(_ref("Model"))}),
        **_chat_answers(),
        **_response_answers(),
    }


def _chat_answers() -> dict[str, Schema]:
    token = {"token": _TEXT, "logprob": {"type": "number", "maximum": 0}, "bytes": _list(_COUNT)}
    call = _object({
        "id": _TEXT, "type": {"const": "function"},
        "function": _object({"name": _TEXT, "arguments": _TEXT}),
    })  # fmt: skip
    message = _object(
        {"role": {"const": "assistant"}, "content": _MAYBE, "refusal": {"type": "null"},
         "annotations": _list({}), "tool_calls": {**_list(call), "minItems": 1}},
        "tool_calls",
    )  # fmt: skip
    logprobs = _object({
        "content": _list(_object({**token, "top_logprobs": _list(_object(token))})),
        "refusal": {"type": "null"},
    })  # fmt: skip
    choice = _object({
        "index": _COUNT, "message": message,
        "logprobs": {"anyOf": [logprobs, {"type": "null"}]},
        "finish_reason": {"enum": ["stop", "length", "tool_calls"]},
    })  # fmt: skip
    usage = _object({
        "prompt_tokens": _COUNT, "completion_tokens": _COUNT, "total_tokens": _COUNT,
        "prompt_tokens_details": {"type": "object"},
        "completion_tokens_details": {"type": "object"},
    })  # fmt: skip
    return {
        "ChatCompletion": _object({
            "id": _TEXT, "object": {"const": "chat.completion"}, "created": _COUNT,
            "model": _TEXT, "system_fingerprint": _TEXT, "service_tier": {"const": "default"},
            "choices": {**_list(choice), "minItems": 1}, "usage": usage,
        }),
    }  # fmt: skip


def _response_answers() -> dict[str, Schema]:
    call = _object({
        "id": _TEXT, "type": {"const": "function_call"}, "status": {"const": "completed"},
        "arguments": _TEXT, "call_id": _TEXT, "name": _TEXT,
    })  # fmt: skip
    part = _object({
        "type": {"const": "output_text"}, "text": _TEXT, "annotations": _list({}),
        "logprobs": _list({}),
    })  # fmt: skip
    message = _object({
        "id": _TEXT, "type": {"const": "message"},
        "status": {"enum": ["completed", "incomplete"]},
        "role": {"const": "assistant"}, "content": _list(part),
    })  # fmt: skip
    usage = _object({
        "input_tokens": _COUNT, "output_tokens": _COUNT, "total_tokens": _COUNT,
        "input_tokens_details": {"type": "object"}, "output_tokens_details": {"type": "object"},
    })  # fmt: skip
    details = _object({"reason": {"const": "max_output_tokens"}})
    return {
        "Response": _object({
            "id": _TEXT, "object": {"const": "response"}, "created_at": _COUNT,
            "status": {"enum": ["completed", "incomplete"]}, "model": _TEXT,
            "error": {"type": "null"}, "incomplete_details": {"anyOf": [details, {"type": "null"}]},
            "output": _list({"anyOf": [message, call]}), "usage": usage,
            "store": {"const": False}, "parallel_tool_calls": {"type": "boolean"},
            "tools": _list({"type": "object"}), "metadata": {"type": "object"},
            "temperature": {"type": "number"}, "top_p": {"type": "number"},
        }),
    }  # fmt: skip
