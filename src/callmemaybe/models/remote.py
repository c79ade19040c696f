"""Models on servers with OpenAI's HTTP protocol that can constrain their output by a grammar.

Servers return text, not logits; so the grammar is sent to the server, in a notation that it supports.
The fields for this differ between servers and are listed in :data:`DIALECTS`. Nothing here parses a
grammar, or checks that the answer matches it: that is done by the caller.

The packages are not among the core dependencies: ``pip install 'callmemaybe[remote]'``.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from callmemaybe.errors import ModelError
from callmemaybe.models.base import need_extra

#: Environment variable of the key; not a provider's own, whose key must not go to another server.
KEY = "CALLMEMAYBE_API_KEY"
_AGAIN = frozenset((408, 409, 425, 429, 500, 502, 503, 504))
_LONGEST_WAIT = 20.0
_SCHEMA_NAME = "call"


@dataclass(frozen=True)
class StructuredOutput:
    """One language in the notations that servers support; None where a notation cannot express it."""

    gbnf: str | None = None
    ebnf: str | None = None
    regex: str | None = None
    schema: Mapping[str, Any] | None = None


Body = dict[str, Any]
#: A name for reports, and a function from a constraint to request fields (None: not expressible).
Way = tuple[str, Callable[[StructuredOutput], Body | None]]


def _schema_format(constraint: StructuredOutput) -> Body | None:
    if constraint.schema is None:
        return None
    inner = {"name": _SCHEMA_NAME, "schema": constraint.schema, "strict": True}
    return {"response_format": {"type": "json_schema", "json_schema": inner}}


def _under(
    *path: str, text: Callable[[StructuredOutput], Any]
) -> Callable[[StructuredOutput], Body | None]:
    def put(constraint: StructuredOutput) -> Body | None:
        value = text(constraint)
        if value is None:
            return None
        for key in reversed(path[1:]):
            value = {key: value}
        return {path[0]: value}

    return put


def _gbnf(constraint: StructuredOutput) -> str | None:
    return constraint.gbnf


def _ebnf(constraint: StructuredOutput) -> str | None:
    return constraint.ebnf


def _regex(constraint: StructuredOutput) -> str | None:
    return constraint.regex


def _schema(constraint: StructuredOutput) -> Mapping[str, Any] | None:
    return constraint.schema


#: For each kind of server the ways to constrain it, the most exact first.
DIALECTS: Mapping[str, tuple[Way, ...]] = {
    "vllm": (
        ("structured_outputs.grammar", _under("structured_outputs", "grammar", text=_ebnf)),
        ("structured_outputs.json", _under("structured_outputs", "json", text=_schema)),
    ),
    "llama.cpp": (
        ("grammar", _under("grammar", text=_gbnf)),
        ("response_format", _schema_format),
    ),
    "sglang": (
        ("ebnf", _under("ebnf", text=_ebnf)),
        ("regex", _under("regex", text=_regex)),
        ("response_format", _schema_format),
    ),
    "ollama": (("format", _under("format", text=_schema)),),
    "openai": (("response_format", _schema_format),),
}
#: The way to request unconstrained text.
_FREELY: tuple[Way, ...] = (("no grammar", lambda _: {}),)
#: Dialects by the ``owned_by`` of the models that a server lists.
OWNERS: Mapping[str, str] = {
    "vllm": "vllm",
    "llamacpp": "llama.cpp",
    "me": "llama.cpp",  # llama-cpp-python's server
    "sglang": "sglang",
    "library": "ollama",
}
#: Ways in which the server chooses whitespace, key order and number formats itself.
LOOSE = frozenset(("structured_outputs.json", "response_format", "format"))


@dataclass(frozen=True)
class Completion:
    """What a server wrote, how it was constrained, and how it ended ("stop" or "length")."""

    text: str
    way: str
    finish: str
    tries: int
    seconds: float


@dataclass(frozen=True)
class RemoteModel:
    """A model on a server, named ``http(s)://host/v1[?dialect=NAME]#model``.

    The dialect is inferred from the server's list of models unless the address states it; without
    ``#model`` the first model of that list is meant. ``timeout`` (seconds) holds for each try, of
    which there are ``tries``, however slowly an answer drips. ``key`` goes before the environment
    variable CALLMEMAYBE_API_KEY. Usable from several threads at once.
    """

    address: str
    timeout: float = 120.0
    tries: int = 4
    key: str | None = field(default=None, repr=False)
    #: Another transport of httpx2, for tests.
    transport: Any = field(default=None, repr=False, compare=False)
    #: Seconds of the first pause between tries; it doubles, with chance.
    pause: float = 0.5

    @property
    def name(self) -> str:
        """The address, as it was given."""
        return self.address

    @cached_property
    def dialect(self) -> str:
        """What kind of server it is. Raises ModelError if that is stated wrongly."""
        stated = self._url.params.get("dialect")
        if stated is not None:
            if stated not in DIALECTS:
                raise ModelError(
                    f"{self.address}: there is no dialect {stated!r}; state one of "
                    f"{', '.join(sorted(DIALECTS))}"
                )
            return str(stated)
        owners = {str(entry.get("owned_by", "")).lower() for entry in self._listed}
        return next((OWNERS[owner] for owner in sorted(owners) if owner in OWNERS), "openai")

    @cached_property
    def model(self) -> str:
        """The name of the model on the server."""
        named = str(self._url.fragment)
        if named:
            return named
        if not self._listed:
            raise ModelError(f"{self.address}: the server lists no model; name one behind a #")
        return str(self._listed[0]["id"])

    def complete(
        self,
        messages: Sequence[Mapping[str, str]],
        constraint: StructuredOutput | None,
        *,
        max_tokens: int,
        temperature: float = 0.0,
        seed: int | None = None,
    ) -> Completion:
        """Return the model's answer to ``messages`` within the constraint (None: any text).

        Raises ModelError if the server cannot be reached, refuses, or supports no notation of it.
        """
        started = time.monotonic()
        refusals: list[str] = []
        ways = DIALECTS[self.dialect] if constraint is not None else _FREELY
        for way, put in ways:
            constrained = put(constraint or StructuredOutput())
            if constrained is None:
                refusals.append(f"{way} cannot say it")
                continue
            body = self._body(messages, max_tokens, temperature, seed) | constrained
            reply, tries = self._send("POST", self._path, body)
            if reply.status_code in (400, 422):
                # This server or version does not support this notation; try the next.
                refusals.append(f"{way}: {_reason(reply)}")
                continue
            text, finish = self._read(reply)
            return Completion(text, way, finish, tries, time.monotonic() - started)
        raise ModelError(
            f"{self.address} (as {self.dialect}) takes this grammar in no way: "
            f"{'; '.join(refusals)}. If it is another kind of server, state it as ?dialect=NAME"
        )

    def can_say(self, constraint: StructuredOutput) -> bool:
        """Whether the server should support a notation that expresses the constraint."""
        return any(put(constraint) is not None for _, put in DIALECTS[self.dialect])

    # -- one request --------------------------------------------------------------------------

    @property
    def _path(self) -> str:
        return "chat/completions" if self.dialect != "ollama" else "../api/chat"

    def _body(
        self,
        messages: Sequence[Mapping[str, str]],
        max_tokens: int,
        temperature: float,
        seed: int | None,
    ) -> Body:
        body: Body = {"model": self.model, "messages": list(messages), "stream": False}
        dice: Body = {"temperature": temperature} | ({} if seed is None else {"seed": seed})
        if self.dialect == "ollama":
            return body | {"options": dice | {"num_predict": max_tokens}}
        return body | dice | {"max_tokens": max_tokens}

    def _read(self, reply: Any) -> tuple[str, str]:
        try:
            found = reply.json()
            if self.dialect == "ollama":
                return str(found["message"]["content"]), str(found.get("done_reason", "stop"))
            choice = found["choices"][0]
            return str(choice["message"]["content"] or ""), str(choice.get("finish_reason"))
        except (ValueError, KeyError, IndexError, TypeError, RecursionError) as error:
            raise ModelError(
                f"{self.address} answered something else than a completion: {reply.text[:200]!r}"
            ) from error

    @cached_property
    def _listed(self) -> list[Mapping[str, Any]]:
        reply, _ = self._send("GET", "models", None)
        try:
            found = reply.json()["data"]
            return [entry for entry in found if isinstance(entry, dict) and "id" in entry]
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise ModelError(
                f"{self.address} does not list its models as OpenAI's protocol has it "
                f"({reply.status_code}); is the address right, up to and with /v1?"
            ) from error

    # -- the wire -----------------------------------------------------------------------------

    @cached_property
    def _url(self) -> Any:
        httpx = _httpx()
        try:
            url = httpx.URL(self.address)
        except Exception as error:
            raise ModelError(f"{self.address!r} is not an address: {error}") from error
        if not url.host:
            raise ModelError(f"{self.address!r} is not an address: it names no host")
        return url

    @property
    def _key(self) -> str | None:
        """The key, if there is one. Raises ModelError, without showing it, if it is malformed."""
        name = "the argument key" if self.key else KEY
        key = (self.key or os.environ.get(KEY) or "").strip()
        if not (key.isascii() and key.isprintable()):
            raise ModelError(
                f"{self.address}: {name} holds characters that are in no key, such as a line end or a "
                "typographic quote; copy the key again"
            )
        return key or None

    @cached_property
    def _client(self) -> Any:
        httpx = _httpx()
        key = self._key
        base = str(self._url.copy_with(query=None, fragment=None)).rstrip("/") + "/"
        return httpx.Client(
            base_url=base,
            timeout=httpx.Timeout(self.timeout, connect=min(10.0, self.timeout)),
            headers={"Authorization": f"Bearer {key}"} if key else {},
            transport=self.transport,
            limits=httpx.Limits(max_connections=64),
        )

    def _ask(self, method: str, url: Any, body: Body | None) -> Any:
        """Return the whole reply to one try; raises httpx's errors."""
        httpx = _httpx()
        until = time.monotonic() + self.timeout
        with self._client.stream(method, url, json=body) as reply:
            if reply.is_stream_consumed:  # a test transport returns the whole reply at once
                return reply
            content = bytearray()
            for piece in reply.iter_raw():
                # httpx's timeout is per read, so single bytes now and then would never time out.
                if time.monotonic() > until:
                    raise httpx.ReadTimeout("the answer is not whole", request=reply.request)
                content += piece
        return httpx.Response(
            reply.status_code, headers=reply.headers, content=bytes(content), request=reply.request
        )

    def _send(self, method: str, path: str, body: Body | None) -> tuple[Any, int]:
        """Return the reply and the number of tries; temporary errors are retried, with pauses."""
        httpx = _httpx()
        import tenacity

        url = self._client.base_url.join(path)
        retrying = tenacity.Retrying(
            stop=tenacity.stop_after_attempt(self.tries),
            wait=tenacity.wait_random_exponential(self.pause, max=_LONGEST_WAIT),
            retry=tenacity.retry_if_exception_type(httpx.TransportError)
            | tenacity.retry_if_result(lambda reply: reply.status_code in _AGAIN),
            retry_error_callback=lambda state: state.outcome.result(),  # type: ignore[union-attr]
        )
        try:
            reply = retrying(self._ask, method, url, body)
        except httpx.TimeoutException as error:
            raise ModelError(
                f"{self.address} did not answer within {self.timeout:g} s, {self.tries} times"
            ) from error
        except httpx.HTTPError as error:
            raise ModelError(f"{self.address} cannot be reached: {error}") from error
        if reply.status_code in (401, 403):
            raise ModelError(
                f"{self.address} refuses ({reply.status_code}); put its key into {KEY}"
            )
        if reply.status_code == 404 and method == "POST":
            raise ModelError(f"{self.address} has no model {self.model!r}: {_reason(reply)}")
        if reply.is_error and reply.status_code not in (400, 422):
            raise ModelError(f"{self.address} failed ({reply.status_code}): {_reason(reply)}")
        return reply, int(retrying.statistics.get("attempt_number", 1))


def _reason(reply: Any) -> str:
    """Return the first line of a server's error message."""
    try:
        found = reply.json()
        error = found.get("error", found.get("detail", found.get("message", found)))
        text = str(error.get("message", error)) if isinstance(error, dict) else str(error)
    except (ValueError, AttributeError, RecursionError):
        text = str(reply.text)
    return (text.strip() or f"status {reply.status_code}").split("\n", 1)[0][:300]


def _httpx() -> Any:
    try:
        import httpx2
        import tenacity  # noqa: F401 - both are needed; say so at once
    except ImportError as error:
        raise need_extra("servers", "remote", error) from error
    return httpx2
