"""The OpenAPI document says what the server does: asked by schemathesis, and by a checker of schemas."""

from __future__ import annotations

from typing import Any

import jsonschema
import pytest
from hypothesis import HealthCheck, given, settings

from tests.server.conftest import (
    ANTHROPIC_WEATHER,
    FLAT_WEATHER,
    PATIENCE,
    USER,
    WEATHER,
    Running,
)

schemathesis = pytest.importorskip("schemathesis", reason="the extra clients is not installed")
from schemathesis import GenerationMode  # noqa: E402 - it may be missing
from schemathesis.checks import not_a_server_error  # noqa: E402
from schemathesis.core.failures import FailureGroup  # noqa: E402
from schemathesis.specs.openapi.checks import (  # noqa: E402
    content_type_conformance,
    negative_data_rejection,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
]
OPERATIONS = [
    ("POST", "/v1/chat/completions"),
    ("POST", "/v1/responses"),
    ("POST", "/v1/messages"),
    ("POST", "/v1/messages/count_tokens"),
    ("POST", "/v1/completions"),
    ("POST", "/tokenize"),
    ("POST", "/detokenize"),
    ("GET", "/v1/models"),
    ("GET", "/v1/models/{model}"),
    ("GET", "/healthz"),
    ("GET", "/metrics"),
]
#: What each stream is asked at least, and the function that it may be offered.
ASKED: dict[str, dict[str, Any]] = {
    "/v1/chat/completions": {"messages": USER},
    "/v1/responses": {"input": "x"},
    "/v1/messages": {"messages": USER, "max_tokens": 60},
    "/v1/completions": {"prompt": ["x", "y"], "max_tokens": 9},
}
TOOLS = {
    "/v1/chat/completions": WEATHER,
    "/v1/responses": FLAT_WEATHER,
    "/v1/messages": ANTHROPIC_WEATHER,
}
LOGPROBS: dict[str, dict[str, Any]] = {
    "/v1/chat/completions": {"logprobs": True, "top_logprobs": 1},
    "/v1/responses": {"top_logprobs": 1},
    "/v1/messages": {},
    "/v1/completions": {"logprobs": 1, "echo": True},
}
STREAMS = [*ASKED]

#: Against a test that hangs: how fast the machine is must not matter.
pytestmark = pytest.mark.timeout(3600)


@pytest.fixture(scope="module")
def document(shared: Running) -> Any:
    found = schemathesis.openapi.from_url(f"{shared.url}/openapi.json", timeout=PATIENCE)
    found.config.update(request_timeout=PATIENCE)
    return found


@pytest.mark.parametrize(("method", "path"), OPERATIONS)
def test_what_fits_is_answered_as_told(document: Any, method: str, path: str) -> None:
    """Whatever fits the document gets an answer that fits it, too."""
    ask(document[path][method], is_good=True, examples=25)


@pytest.mark.parametrize("path", [path for method, path in OPERATIONS if method == "POST"])
def test_what_does_not_fit_is_refused(document: Any, path: str) -> None:
    """A body that the document rules out is refused, in the shape of an error."""
    ask(document[path]["POST"], is_good=False, examples=25)


@pytest.mark.slow
@pytest.mark.parametrize("path", [path for method, path in OPERATIONS if method == "POST"])
@pytest.mark.parametrize("is_good", [True, False])
def test_the_document_holds_for_many(document: Any, path: str, is_good: bool) -> None:
    """The same, for more requests."""
    ask(document[path]["POST"], is_good=is_good, examples=500)


def ask(operation: Any, *, is_good: bool, examples: int) -> None:
    """Ask the server as schemathesis thinks up, and check each answer."""
    mode = GenerationMode.POSITIVE if is_good else GenerationMode.NEGATIVE
    checks = CHECKS if is_good else [*CHECKS, negative_data_rejection]

    @settings(
        max_examples=examples, deadline=None, database=None, derandomize=True,
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    @given(operation.as_strategy(generation_mode=mode))
    def one(case: Any) -> None:
        if is_good and isinstance(case.body, dict):
            # Any name fits the document, but only one model is served.
            case.body = {**case.body, "model": "talker"}
        case.validate_response(case.call(), checks=checks)

    one()


@pytest.mark.parametrize(
    "told",
    [
        {"tools": [True], "stream_options": True},
        {"limit": 4, "logprobs": True},
        {"limit": 3},
        {"tools": [True], "limit": 12},
    ],
)
@pytest.mark.parametrize("path", STREAMS)
def test_every_event_of_a_stream_fits_the_document(
    document: Any, path: str, told: dict[str, Any]
) -> None:
    """Text and calls, whole and cut off, with log-probabilities and usage: all events as told."""
    body: dict[str, Any] = {"model": "talker", "stream": True, **ASKED[path]}
    if "tools" in told and path in TOOLS:
        body["tools"] = [TOOLS[path]]
    if "limit" in told:
        body["max_output_tokens" if path.endswith("responses") else "max_tokens"] = told["limit"]
    if "logprobs" in told:
        body |= LOGPROBS[path]
    if path.endswith("completions") and "stream_options" in told:
        body["stream_options"] = {"include_usage": True}
    case = document[path]["POST"].Case(body=body, media_type="application/json")
    answer = case.call()
    assert answer.status_code == 200
    assert answer.headers["content-type"][0].startswith("text/event-stream")
    case.validate_response(answer, checks=CHECKS)


@pytest.mark.parametrize("path", STREAMS)
def test_an_event_that_differs_is_noticed(document: Any, path: str) -> None:
    """The check of events can fail: an index that is no number does not pass."""
    case = document[path]["POST"].Case(
        body={"model": "talker", "stream": True, **ASKED[path]}, media_type="application/json"
    )
    answer = case.call()
    number = b'"output_index":0' if path.endswith("responses") else b'"index":0'
    assert number in answer.content
    answer.content = answer.content.replace(number, number[:-1] + b'"none"', 1)
    with pytest.raises(FailureGroup) as failed:
        case.validate_response(answer, checks=CHECKS)
    assert all("violates" in failure.title for failure in failed.value.exceptions)


@pytest.mark.parametrize(
    ("path", "body", "name"),
    [
        ("/v1/chat/completions", {"messages": USER, "tools": [WEATHER]}, "ChatCompletion"),
        ("/v1/chat/completions", {"messages": USER, "max_tokens": 4, "logprobs": True,
                                  "top_logprobs": 1}, "ChatCompletion"),
        ("/v1/responses", {"input": "x", "tools": [FLAT_WEATHER]}, "Response"),
        ("/v1/responses", {"input": "x", "max_output_tokens": 4}, "Response"),
        ("/v1/messages", {"messages": USER, "max_tokens": 60, "tools": [ANTHROPIC_WEATHER]}, "Message"),
        ("/v1/messages", {"messages": USER, "max_tokens": 4}, "Message"),
        ("/v1/messages/count_tokens", {"messages": USER}, "TokenCount"),
        ("/v1/completions", {"prompt": ["x", "é"], "max_tokens": 4, "logprobs": 1, "echo": True}, "Completion"),
        ("/tokenize", {"prompt": "x é", "return_token_strs": True}, "Tokens"),
        ("/tokenize", {"content": "x é", "with_pieces": True}, "Tokens"),
        ("/tokenize", {"content": "x"}, "Tokens"),
        ("/detokenize", {"tokens": [65, 66]}, "TokensText"),
    ],
)  # fmt: skip
def test_good_answers_fit_the_document(
    shared: Running, path: str, body: dict[str, Any], name: str
) -> None:
    """Those that random requests seldom get."""
    told = shared.client.get("/openapi.json").json()
    answer = shared.post(path, {"model": "talker", **body})
    assert answer.status_code == 200
    schema = {"$ref": f"#/components/schemas/{name}", "components": told["components"]}
    jsonschema.Draft202012Validator(schema).validate(answer.json())
