"""What a client is told when something is wrong: a status and OpenAI's error body."""

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
    VocabularyError,
)

#: Every status that an error may have, and what it says about who should do what.
STATUSES = {
    400: "The request is wrong, or asks for what this server does not do.",
    401: "The key is missing or wrong.",
    403: "A page or a name that is not let in.",
    404: "There is no such model or address.",
    405: "The address does not take this method.",
    408: "The request was sent too slowly.",
    413: "The request is too large.",
    415: "The request is not JSON.",
    429: "Too many requests wait already; try again after Retry-After seconds.",
    500: "A bug in this server, or the model failed: it wrote what its schema forbids and no "
    "grammar can, a key of an object twice, say.",
    503: "The server is stopping, or stuck.",
    504: "The answer took too long.",
}


class Problem(Exception):
    """An error as OpenAI's clients understand it.

    ``param`` names the parameter that is to blame; ``retry_after`` is in seconds.
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
        """Return the body that tells of it."""
        return {
            "error": {
                "message": self.message,
                "type": self.kind,
                "param": self.param,
                "code": self.code,
            }
        }


def unsupported(param: str, message: str) -> Problem:
    """Return the refusal of a parameter that this server knows, and does not do."""
    return Problem(400, message, param=param, code="unsupported_parameter")


def invalid(param: str | None, message: str) -> Problem:
    """Return the refusal of a value."""
    return Problem(400, message, param=param, code="invalid_value")


def translated(error: BaseException) -> Problem:
    """Return what a client is told of an error from below."""
    if isinstance(error, Problem):
        return error
    if isinstance(error, GroundingError):
        return Problem(400, str(error), param="messages", code="nothing_to_call")
    if isinstance(error, BudgetError):
        return invalid("max_tokens", str(error))
    if isinstance(error, InputError):
        return invalid(error.where, str(error))
    if isinstance(error, VocabularyError):
        return Problem(400, str(error), code="invalid_value")
    if isinstance(error, ModelError):
        return _of_model(str(error))
    if isinstance(error, DuplicateKeyError):
        return Problem(500, str(error), code="repeated_key")
    if isinstance(error, SchemaViolationError):
        return Problem(500, str(error), code="unmet_schema")
    if isinstance(error, CallMeMaybeError):
        return Problem(500, str(error), code="engine_error")
    return Problem(500, "The server had an error; its log says which.", code="internal_error")


def _of_model(message: str) -> Problem:
    """Tell what a request asked too much of from what is wrong with the model."""
    if "context" in message:
        return Problem(400, message, param="messages", code="context_length_exceeded")
    if "chat template failed" in message:
        # Templates refuse conversations in their own words: roles that do not alternate, say.
        return Problem(400, message, param="messages", code="invalid_value")
    return Problem(500, "The model failed; the server's log says how.", code="model_error")
