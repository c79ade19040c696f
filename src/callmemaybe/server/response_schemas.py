"""JSON Schemas of all responses, for the OpenAPI document: whole answers, and the events of streams.

OpenAPI 3.2 describes one event of a stream as an object of the event's fields, whose ``data`` is text
that contains JSON (``contentSchema``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

Schema = dict[str, Any]

#: The reference to a schema by its name.
REF = "#/components/schemas/{model}"
TEXT: Schema = {"type": "string"}
_COUNT: Schema = {"type": "integer", "minimum": 0}
_MAYBE: Schema = {"type": ["string", "null"]}
_NULL: Schema = {"type": "null"}


def ref(name: str) -> Schema:
    """Return a reference to the schema of this name."""
    return {"$ref": REF.format(model=name)}


def schemas() -> dict[str, Schema]:
    """Return the schemas by their names."""
    model = _object({"id": TEXT, "object": {"const": "model"}, "created": _COUNT,
                     "owned_by": TEXT})  # fmt: skip
    error = _object({"message": TEXT, "type": TEXT, "param": _MAYBE, "code": _MAYBE})
    return {
        "Error": _object({"error": error}),
        "Health": _object({"status": {"const": "ok"}}),
        "Model": model,
        "ModelList": _object({"object": {"const": "list"}, "data": _list(ref("Model"))}),
        "Logprob": _logprob(),
        **_chat(),
        **_chat_stream(),
        **_response(),
        **_response_stream(),
        **_message(),
        **_message_stream(),
        **_completion(),
        **_tokens(),
    }


def _object(properties: Mapping[str, Schema], *optional: str) -> Schema:
    return {
        "type": "object",
        "properties": dict(properties),
        "required": [name for name in properties if name not in optional],
    }


def _list(items: Schema) -> Schema:
    return {"type": "array", "items": items}


def _or_null(schema: Schema) -> Schema:
    return {"anyOf": [schema, _NULL]}


def _logprob() -> Schema:
    token = {"token": TEXT, "logprob": {"type": "number", "maximum": 0}, "bytes": _list(_COUNT)}
    return _object({**token, "top_logprobs": _list(_object(token))})


# -- chat -----------------------------------------------------------------------------------------


def _chat() -> dict[str, Schema]:
    call = _object({
        "id": TEXT, "type": {"const": "function"},
        "function": _object({"name": TEXT, "arguments": TEXT}),
    })  # fmt: skip
    message = _object(
        {"role": {"const": "assistant"}, "content": _MAYBE, "refusal": _NULL,
         "annotations": _list({}), "tool_calls": {**_list(call), "minItems": 1}},
        "tool_calls",
    )  # fmt: skip
    choice = _object({
        "index": _COUNT, "message": message, "logprobs": _chat_logprobs(),
        "finish_reason": {"enum": ["stop", "length", "tool_calls"]},
    })  # fmt: skip
    nothing: Schema = {"const": 0}
    usage = _object({
        "prompt_tokens": _COUNT, "completion_tokens": _COUNT, "total_tokens": _COUNT,
        "prompt_tokens_details": _object({
            "cached_tokens": _COUNT, "cache_write_tokens": nothing, "audio_tokens": nothing,
        }),
        "completion_tokens_details": _object({
            "reasoning_tokens": _COUNT, "audio_tokens": nothing,
            "accepted_prediction_tokens": nothing, "rejected_prediction_tokens": nothing,
        }),
    })  # fmt: skip
    return {
        "ChatUsage": usage,
        "ChatCompletion": _object({
            **_chat_head("chat.completion"), "choices": {**_list(choice), "minItems": 1},
            "usage": ref("ChatUsage"),
        }),
    }  # fmt: skip


def _chat_head(kind: str) -> Schema:
    return {
        "id": TEXT, "object": {"const": kind}, "created": _COUNT, "model": TEXT,
        "system_fingerprint": TEXT, "service_tier": {"const": "default"},
    }  # fmt: skip


def _chat_logprobs() -> Schema:
    return _or_null(_object({"content": _list(ref("Logprob")), "refusal": _NULL}))


def _chat_stream() -> dict[str, Schema]:
    call = _object(
        {"index": _COUNT, "id": TEXT, "type": {"const": "function"},
         "function": _object({"name": TEXT, "arguments": TEXT}, "name")},
        "id", "type",
    )  # fmt: skip
    delta = _object(
        {"role": {"const": "assistant"}, "content": _MAYBE, "refusal": _NULL,
         "tool_calls": {**_list(call), "minItems": 1, "maxItems": 1}},
        "role", "content", "refusal", "tool_calls",
    )  # fmt: skip
    choice = _object({
        "index": _COUNT, "delta": delta, "logprobs": _chat_logprobs(),
        "finish_reason": {"enum": ["stop", "length", "tool_calls", None]},
    })  # fmt: skip
    chunk = _object(
        {**_chat_head("chat.completion.chunk"), "choices": {**_list(choice), "maxItems": 1},
         "usage": _or_null(ref("ChatUsage")), "callmemaybe": {"type": "object"}},
        "usage", "callmemaybe",
    )  # fmt: skip
    data: Schema = {
        "anyOf": [{"const": "[DONE]"}, _json(ref("ChatCompletionChunk")), _json(ref("Error"))]
    }
    return {
        "ChatCompletionChunk": chunk,
        # These events have no type of their own, so readers take them for "message".
        "ChatCompletionEvent": _object({"event": {"const": "message"}, "data": data}, "event"),
    }


def _json(schema: Schema) -> Schema:
    """Return the schema of text that contains JSON of a schema."""
    return {"type": "string", "contentMediaType": "application/json", "contentSchema": schema}


# -- completions and tokens -----------------------------------------------------------------------


def _completion() -> dict[str, Schema]:
    logprob: Schema = {"type": ["number", "null"], "maximum": 0}
    tops: Schema = {"type": ["object", "null"], "additionalProperties": logprob}
    logprobs = _object({
        "tokens": _list(TEXT), "token_logprobs": _list(logprob), "top_logprobs": _list(tops),
        "text_offset": _list(_COUNT),
    })  # fmt: skip
    usage = _object({
        "prompt_tokens": _COUNT, "completion_tokens": _COUNT, "total_tokens": _COUNT,
        "prompt_tokens_details": _object({"cached_tokens": _COUNT}),
    })  # fmt: skip
    head: Schema = {
        "id": TEXT, "object": {"const": "text_completion"}, "created": _COUNT, "model": TEXT,
        "system_fingerprint": TEXT,
    }  # fmt: skip
    choice = {"index": _COUNT, "text": TEXT, "logprobs": _or_null(logprobs)}
    over = _object({**choice, "finish_reason": {"enum": ["stop", "length"]}})
    open_ = _object({**choice, "finish_reason": {"enum": ["stop", "length", None]}})
    data: Schema = {
        "anyOf": [{"const": "[DONE]"}, _json(ref("CompletionChunk")), _json(ref("Error"))]
    }
    return {
        "CompletionUsage": usage,
        "Completion": _object({
            **head, "choices": {**_list(over), "minItems": 1}, "usage": ref("CompletionUsage"),
        }),
        "CompletionChunk": _object(
            {**head, "choices": {**_list(open_), "maxItems": 1},
             "usage": _or_null(ref("CompletionUsage"))},
            "usage",
        ),
        "CompletionEvent": _object({"event": {"const": "message"}, "data": data}, "event"),
    }  # fmt: skip


def _tokens() -> dict[str, Schema]:
    ids = _list(_COUNT)
    piece = _object({"id": _COUNT, "piece": {"anyOf": [TEXT, ids]}})
    return {
        "Tokens": {"anyOf": [
            _object({"count": _COUNT, "max_model_len": {"type": ["integer", "null"]}, "tokens": ids,
                     "token_strs": _or_null(_list(TEXT))}),
            {**_object({"tokens": {"anyOf": [ids, _list(piece)]}}), "additionalProperties": False},
        ]},
        "TokensText": _object({"prompt": TEXT, "content": TEXT}),
    }  # fmt: skip


# -- responses ------------------------------------------------------------------------------------


def _response() -> dict[str, Schema]:
    part = _object({
        "type": {"const": "output_text"}, "text": TEXT, "annotations": _list({}),
        "logprobs": _list(ref("Logprob")),
    })  # fmt: skip
    usage = _object({
        "input_tokens": _COUNT, "output_tokens": _COUNT, "total_tokens": _COUNT,
        "input_tokens_details": _object({"cached_tokens": _COUNT, "cache_write_tokens": {"const": 0}}),
        "output_tokens_details": _object({"reasoning_tokens": _COUNT}),
    })  # fmt: skip
    details = _object({"reason": {"const": "max_output_tokens"}})
    over = {"status": {"enum": ["completed", "incomplete"]}}
    response = _object({
        "id": TEXT, "object": {"const": "response"}, "created_at": _COUNT, **over, "model": TEXT,
        "error": _NULL, "incomplete_details": _or_null(details),
        "output": _list(ref("OutputItem")), "usage": usage,
        "store": {"const": False}, "parallel_tool_calls": {"type": "boolean"},
        "tools": _list({"type": "object"}), "metadata": {"type": "object"},
        "temperature": {"type": "number"}, "top_p": {"type": "number"},
    })  # fmt: skip
    problem = _object({"code": TEXT, "message": TEXT})
    # A response that has not ended, or has failed, has no usage.
    open_ = {**response["properties"], "error": _or_null(problem), "incomplete_details": _NULL,
             "status": {"enum": ["in_progress", "failed"]}, "usage": _NULL,
             "output": {"maxItems": 0}}  # fmt: skip
    return {
        "OutputText": part, "OutputItem": _item(["completed", "incomplete"], ["completed"]), "Response": response,
        "OpenResponse": _object(open_),
    }  # fmt: skip


def _item(message: Sequence[str], call: Sequence[str]) -> Schema:
    """Return the schema of an item of the output, whose status is one of these."""
    return {"anyOf": [
        _object({"id": TEXT, "type": {"const": "message"}, "status": {"enum": message},
                 "role": {"const": "assistant"}, "content": _list(ref("OutputText"))}),
        _object({"id": TEXT, "type": {"const": "function_call"}, "status": {"enum": call},
                 "arguments": TEXT, "call_id": TEXT, "name": TEXT}),
    ]}  # fmt: skip


def _response_stream() -> dict[str, Schema]:
    at = {"item_id": TEXT, "output_index": _COUNT}
    inside = {**at, "content_index": {"const": 0}}
    tokens = {"logprobs": _list(ref("Logprob"))}
    begun, over = ["in_progress"], ["completed", "incomplete"]
    kinds: dict[str, dict[str, Schema]] = {
        "created": {"response": ref("OpenResponse")},
        "in_progress": {"response": ref("OpenResponse")},
        "failed": {"response": ref("OpenResponse")},
        "completed": {"response": ref("Response")},
        "incomplete": {"response": ref("Response")},
        "output_item.added": {"output_index": _COUNT, "item": _item(begun, begun)},
        "output_item.done": {"output_index": _COUNT, "item": _item(over, over)},
        "content_part.added": {**inside, "part": ref("OutputText")},
        "content_part.done": {**inside, "part": ref("OutputText")},
        "output_text.delta": {**inside, "delta": TEXT, **tokens},
        "output_text.done": {**inside, "text": TEXT, **tokens},
        "function_call_arguments.delta": {**at, "delta": TEXT},
        "function_call_arguments.done": {**at, "name": TEXT, "arguments": TEXT},
    }
    events = [_typed(f"response.{kind}", members) for kind, members in kinds.items()]
    return {"ResponseEvent": {"anyOf": events}}


def _typed(kind: str, members: Mapping[str, Schema]) -> Schema:
    """Return the schema of an event that has its type twice, as in OpenAI's API."""
    data = _object({"type": {"const": kind}, "sequence_number": _COUNT, **members})
    return _object({"event": {"const": kind}, "data": _json(data)})


# -- messages -------------------------------------------------------------------------------------

_MESSAGE_HEAD: dict[str, Schema] = {
    "id": TEXT, "type": {"const": "message"}, "role": {"const": "assistant"}, "model": TEXT,
}  # fmt: skip


def _message() -> dict[str, Schema]:
    stops = ["end_turn", "max_tokens", "stop_sequence", "tool_use"]
    error = _object(
        {"type": TEXT, "message": TEXT, "details": _object({"error_code": TEXT})}, "details"
    )
    return {
        "MessagesError": _object(
            {"type": {"const": "error"}, "error": error, "request_id": TEXT}, "request_id"
        ),
        "MessagesUsage": _object({
            "input_tokens": _COUNT, "cache_creation_input_tokens": {"const": 0},
            "cache_read_input_tokens": _COUNT, "output_tokens": _COUNT,
        }),
        "MessagesBlock": {"anyOf": [
            _object({"type": {"const": "text"}, "text": TEXT}),
            _object({"type": {"const": "tool_use"}, "id": TEXT, "name": TEXT,
                     "input": {"type": "object"}}),
        ]},
        "MessagesStop": _object({"stop_reason": {"enum": stops}, "stop_sequence": _MAYBE}),
        "Message": _object({
            **_MESSAGE_HEAD, "content": _list(ref("MessagesBlock")), "stop_reason": {"enum": stops},
            "stop_sequence": _MAYBE, "usage": ref("MessagesUsage"),
        }),
        "TokenCount": _object({"input_tokens": _COUNT}),
    }  # fmt: skip


def _message_stream() -> dict[str, Schema]:
    start = _object({
        **_MESSAGE_HEAD, "content": {"maxItems": 0}, "stop_reason": _NULL, "stop_sequence": _NULL,
        "usage": ref("MessagesUsage"),
    })  # fmt: skip
    delta = {"anyOf": [
        _object({"type": {"const": "text_delta"}, "text": TEXT}),
        _object({"type": {"const": "input_json_delta"}, "partial_json": TEXT}),
    ]}  # fmt: skip
    kinds: dict[str, dict[str, Schema]] = {
        "message_start": {"message": start},
        "content_block_start": {"index": _COUNT, "content_block": ref("MessagesBlock")},
        "content_block_delta": {"index": _COUNT, "delta": delta},
        "content_block_stop": {"index": _COUNT},
        "message_delta": {"delta": ref("MessagesStop"), "usage": ref("MessagesUsage")},
        "message_stop": {},
        "ping": {},
        "error": {"error": {"type": "object"}},
    }
    events = []
    for kind, members in kinds.items():
        data = _object({"type": {"const": kind}, **members})
        events.append(_object({"event": {"const": kind}, "data": _json(data)}))
    return {"MessagesEvent": {"anyOf": events}}
