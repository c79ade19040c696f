"""What servers with OpenAI's protocol answer: completions as events, as lines of JSON, or in one piece."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from callmemaybe.errors import UpstreamError

#: The longest event of a stream, in bytes.
_MOST_EVENT_BYTES = 8 << 20
_EVENTS, _LINES = "text/event-stream", "application/x-ndjson"
_MOST_CALLS = 128


class AnswerReader:
    """Reads one answer, however it is cut into pieces. ``name`` is the server's, for errors."""

    def __init__(self, name: str) -> None:
        self._name = name
        self.clear()

    def clear(self) -> None:
        """Forget what was read, for another try."""
        self._kind = ""
        self._waiting = bytearray()
        self._is_over = False
        self._calls: dict[int, tuple[list[str], list[str]]] = {}
        self._texts: list[str] = []
        self.finish = ""
        self.prompt_tokens = self.cached_tokens = self.tokens = 0

    def begin(self, content_type: str) -> None:
        """Take the kind of the reply; what is no stream is read as one JSON object at its end."""
        self._kind = content_type

    @property
    def text(self) -> str:
        """The text so far."""
        return "".join(self._texts)

    @property
    def has_given(self) -> bool:
        """Whether there was any text."""
        return bool(self._texts)

    @property
    def calls(self) -> tuple[tuple[str, str], ...]:
        """The calls so far: names, and arguments as text."""
        return tuple(
            ("".join(name), "".join(arguments))
            for _, (name, arguments) in sorted(self._calls.items())
        )

    def feed(self, data: bytes) -> str:
        """Take more of the reply; return the text in it. Raises UpstreamError for what is no answer."""
        if self._kind not in (_EVENTS, _LINES):
            self._waiting += data
            return ""
        *lines, rest = data.split(b"\n")
        if not lines:
            self._waiting += rest
            self._check_size()
            return ""
        lines[0] = bytes(self._waiting) + lines[0]
        self._waiting = bytearray(rest)
        self._check_size()
        return "".join(map(self._line, lines))

    def end(self) -> str:
        """Take the end of the reply; return the text that had not been returned. Raises UpstreamError."""
        rest = bytes(self._waiting)
        self._waiting = bytearray()
        if self._kind in (_EVENTS, _LINES):
            text = self._line(rest)
            if not self.finish and not self._is_over:
                raise UpstreamError(
                    "broken", "broke off in the middle of its answer", address=self._name
                )
            return text
        try:
            return self._object(reply_json(rest), "message")
        except (ValueError, KeyError, IndexError, TypeError, AttributeError):
            quoted = f": {rest[:200].decode(errors='replace')!r}"
            raise self._wrong(quoted) from None

    def _check_size(self) -> None:
        if len(self._waiting) > _MOST_EVENT_BYTES:
            raise self._wrong(f": an event of more than {_MOST_EVENT_BYTES} bytes")

    def _line(self, line: bytes) -> str:
        line = line.strip()
        if self._kind == _EVENTS:
            if not line.startswith(b"data:"):
                return ""  # a comment, or the name of an event
            line = line[5:].strip()
        if not line or self._is_over:
            return ""
        if line == b"[DONE]":
            self._is_over = True
            return ""
        try:
            return self._object(reply_json(line), "delta")
        except (ValueError, KeyError, IndexError, TypeError, AttributeError):
            raise self._wrong(f": {line[:200].decode(errors='replace')!r}") from None

    def _object(self, found: Any, key: str) -> str:
        """Take a chunk, or a whole completion; return the text in it."""
        if not isinstance(found, dict):
            raise _NotACompletion
        if found.get("error"):
            said = reason_of(json.dumps(found).encode())
            raise UpstreamError(
                "broken", "failed in the middle of its answer", address=self._name,
                quoted=f": {said}",
            )  # fmt: skip
        self._take_usage(found)
        if "choices" not in found:  # Ollama's own form
            message = found["message"]
            if found.get("done", key == "message") or "done_reason" in found:
                self.finish = str(found.get("done_reason", "stop"))
                self.prompt_tokens = _count(found.get("prompt_eval_count"))
                self.tokens = _count(found.get("eval_count"))
        else:
            choices = found["choices"]
            if not choices and key == "delta":
                return ""
            message = choices[0].get(key) or {}
            if finish := choices[0].get("finish_reason"):
                self.finish = str(finish)
            elif key == "message":
                self.finish = "stop"
        for place, call in enumerate(message.get("tool_calls") or ()):
            self._take_call(place, call)
        text = message.get("content") or ""
        if not isinstance(text, str):
            raise _NotACompletion
        if text:
            self._texts.append(text)
        return text

    def _take_call(self, place: int, call: Mapping[str, Any]) -> None:
        index = call.get("index")
        number = index if isinstance(index, int) else place
        function = call.get("function") or {}
        name, arguments = self._calls.setdefault(number, ([], []))
        if len(self._calls) > _MOST_CALLS:
            raise self._wrong(f": more than {_MOST_CALLS} calls")
        name.append(str(function.get("name") or ""))
        given = function.get("arguments")
        arguments.append(given if isinstance(given, str) else json.dumps(given) if given else "")

    def _take_usage(self, found: Mapping[str, Any]) -> None:
        usage = found.get("usage")
        if not isinstance(usage, dict):
            return
        self.prompt_tokens = _count(usage.get("prompt_tokens"))
        self.tokens = _count(usage.get("completion_tokens"))
        details = usage.get("prompt_tokens_details")
        if isinstance(details, dict):
            self.cached_tokens = _count(details.get("cached_tokens"))

    def _wrong(self, quoted: str = "") -> UpstreamError:
        return UpstreamError(
            "answer", "answered something else than a completion", address=self._name,
            quoted=quoted,
        )  # fmt: skip


class _NotACompletion(ValueError):
    """JSON that is no completion."""


def _count(value: Any) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0


def reply_json(data: bytes) -> Any:
    """Return the JSON value of a reply. Raises ValueError for anything else, and for what nests too deep."""
    try:
        return json.loads(data)
    except RecursionError:
        raise ValueError("it nests too deep") from None


def reason_of(content: bytes) -> str:
    """Return the first line of a server's error message; "" if it says nothing."""
    text: object
    try:
        found = reply_json(content)
        error = found.get("error", found.get("detail", found.get("message", found)))
        text = error.get("message", error) if isinstance(error, dict) else error
    except (ValueError, AttributeError):
        text = content[:1000].decode(errors="replace")
    return (str(text).strip().split("\n", 1)[0])[:300]
