"""Errors as clients get them: a status and OpenAI's error body."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from callmemaybe.errors import (
    BudgetError,
    CallMeMaybeError,
    DuplicateKeyError,
    GroundingError,
    InputError,
    ModelError,
    SchemaViolationError,
    UpstreamError,
    VocabularyError,
)

#: The statuses of errors, and what each means for the client.
STATUS_MEANINGS = {
    400: "The request is wrong, or asks for what this server does not do.",
    401: "The key is missing or wrong.",
    403: "The origin of the page or the host name is not allowed.",
    404: "There is no such model or route.",
    405: "The route does not have this method.",
    408: "The request was sent too slowly.",
    413: "The request is too large.",
    415: "The request is not JSON.",
    429: "Too many requests are waiting; try again after Retry-After seconds.",
    500: "A bug in this server, or the model failed: it wrote what its schema forbids but no "
    "grammar can prevent, such as a duplicate key.",
    502: "The server of the model, behind this one, cannot be reached, refuses this one, or did not answer "
    "what it was asked for.",
    503: "The server is stopping, a turn is stuck, or the server of the model has no room (then try again "
    "after Retry-After seconds).",
    504: "The answer took too long.",
}


class ApiError(Exception):
    """An error in the form of OpenAI's API.

    ``param`` is the parameter at fault; ``retry_after`` is in seconds.
    """

    def __init__(
        self,
        status: int,
        message: str,
        *,
        param: str | None = None,
        code: str | None = None,
        retry_after: float | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.param = param
        self.code = code
        self.headers = dict(headers or {})
        if retry_after is not None:
            self.headers["retry-after"] = str(max(1, math.ceil(retry_after)))

    @property
    def kind(self) -> str:
        """OpenAI's ``type`` of the error."""
        if self.status == 429:
            return "rate_limit_error"
        return "server_error" if self.status >= 500 else "invalid_request_error"

    @property
    def body(self) -> dict[str, Any]:
        """The body of the response, in the form of OpenAI's API."""
        return {
            "error": {
                "message": self.message,
                "type": self.kind,
                "param": self.param,
                "code": self.code,
            }
        }


def unsupported(param: str, message: str) -> ApiError:
    """Return the error for a known parameter that this server does not support."""
    return ApiError(400, message, param=param, code="unsupported_parameter")


def invalid_value(param: str | None, message: str) -> ApiError:
    """Return the error for a value that is not allowed."""
    return ApiError(400, message, param=param, code="invalid_value")


def api_error(error: BaseException) -> ApiError:
    """Translate an error of the layers below into one for the client."""
    if isinstance(error, ApiError):
        return error
    if isinstance(error, GroundingError):
        return ApiError(400, str(error), param="messages", code="nothing_to_call")
    # Subclasses come first: BudgetError is an InputError, VocabularyError a ModelError.
    if isinstance(error, BudgetError):
        return invalid_value("max_tokens", str(error))
    if isinstance(error, InputError):
        return invalid_value(error.where, str(error))
    if isinstance(error, VocabularyError):
        return ApiError(400, str(error), code="invalid_value")
    if isinstance(error, UpstreamError):
        return _upstream_error(error)
    if isinstance(error, ModelError):
        return _model_error(str(error))
    if isinstance(error, DuplicateKeyError):
        return ApiError(500, str(error), code="repeated_key")
    if isinstance(error, SchemaViolationError):  # of a schema that no grammar can hold to
        return ApiError(400, str(error), code="unmet_schema")
    if isinstance(error, CallMeMaybeError):
        return ApiError(500, str(error), code="engine_error")
    return ApiError(500, "The server had an error; its log says which.", code="internal_error")


#: The status and the code of each failure of the server of the model.
_UPSTREAM = {
    "away": (502, "upstream_unreachable"),
    "late": (504, "upstream_timeout"),
    "busy": (503, "upstream_busy"),
    "key": (502, "upstream_refused_key"),
    "broken": (502, "upstream_failed"),
    "answer": (502, "upstream_answer"),
}


def _upstream_error(error: UpstreamError) -> ApiError:
    """Return the error for what went wrong behind this server, without the address of what stands there."""
    if error.kind == "request":
        message = f"The server of the model {error.problem}{error.quoted}"
        is_long = "context" in message
        code = "context_length_exceeded" if is_long else "upstream_refused_request"
        return ApiError(400, message, param="messages", code=code)
    status, code = _UPSTREAM[error.kind]
    after = error.retry_after
    if error.kind == "busy" and after is None:
        after = 1.0
    return ApiError(
        status, f"The server of the model {error.problem}.", code=code, retry_after=after
    )


def _model_error(message: str) -> ApiError:
    """Distinguish requests that the model cannot serve from failures of the model."""
    if "context" in message:
        return ApiError(400, message, param="messages", code="context_length_exceeded")
    if "chat template failed" in message:
        # Templates refuse conversations themselves, for example roles that do not alternate.
        return ApiError(400, message, param="messages", code="invalid_value")
    return ApiError(500, "The model failed; the server's log says how.", code="model_error")
