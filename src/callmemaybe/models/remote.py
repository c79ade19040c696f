"""Models on servers with OpenAI's HTTP protocol that can constrain their output by a grammar.

Servers return text, not logits; so the grammar is sent to the server, in a notation that it supports.
The fields for this differ between servers and are listed in :data:`DIALECTS`. Where no notation can say what
is allowed, the functions are sent as functions (:data:`TOOLS_WAY`). Nothing here parses a grammar, or checks
that the answer matches it: that is done by the caller.

The packages are not among the core dependencies: ``pip install 'callmemaybe[remote]'``.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from callmemaybe.errors import InputError, ModelError, UpstreamError, UpstreamFailure
from callmemaybe.models._exchange import HttpExchange, ReplyHead, load_httpx, waiting
from callmemaybe.models._replies import AnswerReader, reason_of, reply_json

#: Environment variable of the key; not a provider's own, whose key must not go to another server.
KEY = "CALLMEMAYBE_API_KEY"
#: Statuses by which a server says that it has no room, and those that mean that it does not work.
_BUSY = frozenset((408, 425, 429, 503))
#: The longest pause between two tries, in seconds; a server that asks for a longer one is not asked again.
LONGEST_PAUSE = 20.0
_SCHEMA_NAME = "call"


@dataclass(frozen=True)
class StructuredOutput:
    """One language in the notations that servers support; None where a notation cannot express it."""

    gbnf: str | None = None
    ebnf: str | None = None
    regex: str | None = None
    schema: Mapping[str, Any] | None = None
    #: The request's own messages, with its functions and the choice among them, as fields of a request.
    functions: Mapping[str, Any] | None = None


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
#: The way for what no notation can say: the server's own calling of functions, which enforces little.
TOOLS_WAY = "tools"
_NATIVELY: Way = (TOOLS_WAY, lambda constraint: dict(constraint.functions or {}) or None)
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
class Sampling:
    """How a server is to draw tokens; what is None is left to it."""

    max_tokens: int
    temperature: float = 0.0
    seed: int | None = None
    top_p: float | None = None
    top_k: int | None = None
    min_p: float | None = None
    frequency_penalty: float | None = None
    presence_penalty: float | None = None
    repetition_penalty: float | None = None
    logit_bias: Mapping[str, float] | None = None

    @property
    def fields(self) -> Body:
        """The fields of a request but ``max_tokens``, whose name differs."""
        found = {"temperature": self.temperature, "seed": self.seed, "top_p": self.top_p,
                 "top_k": self.top_k, "min_p": self.min_p, "frequency_penalty": self.frequency_penalty,
                 "presence_penalty": self.presence_penalty, "repetition_penalty": self.repetition_penalty,
                 "logit_bias": self.logit_bias}  # fmt: skip
        return {name: value for name, value in found.items() if value is not None}


@dataclass(frozen=True)
class Completion:
    """What a server wrote, how it was constrained, and how it ended ("stop", "length", or another word).

    ``calls`` are the names and arguments of calls that it made by itself; the counts are of tokens, 0 where the
    server does not tell.
    """

    text: str
    way: str
    finish: str
    tries: int
    seconds: float
    calls: tuple[tuple[str, str], ...] = ()
    prompt_tokens: int = 0
    cached_tokens: int = 0
    tokens: int = 0


@dataclass(frozen=True)
class Fragment:
    """A piece of an answer's text as it comes, often empty, and the way in which the server was asked."""

    text: str
    way: str


@dataclass(frozen=True)
class RemoteModel:
    """A model on a server, named ``http(s)://host/v1[?dialect=NAME]#model``.

    The dialect is inferred from the server's list of models unless the address states it; without
    ``#model`` the first model of that list is meant. ``timeout`` (seconds) holds for each try, of
    which there are ``tries``, however slowly an answer drips; between them the pause that the server asks
    for (Retry-After) is kept, up to 20 s. ``key`` goes before the environment variable CALLMEMAYBE_API_KEY;
    "" is none. Usable from several threads at once.
    """

    address: str
    timeout: float = 120.0
    tries: int = 4
    key: str | None = field(default=None, repr=False)
    #: Where a key is to be put, for messages.
    key_name: str = KEY
    #: Seconds of the first pause between tries; it doubles, with chance.
    pause: float = 0.5

    @property
    def name(self) -> str:
        """The address, as it was given, but for a password in it."""
        head, at, rest = self.address.partition("//")
        host, slash, path = rest.partition("/")
        return f"{head}{at}{host.rpartition('@')[2]}{slash}{path}"

    @cached_property
    def dialect(self) -> str:
        """What kind of server it is. Raises ModelError if that is stated wrongly."""
        stated = self._url.params.get("dialect")
        if stated is not None:
            if stated not in DIALECTS:
                raise ModelError(
                    f"{self.name}: there is no dialect {stated!r}; state one of "
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
            raise ModelError(f"{self.name}: the server lists no model; name one behind a #")
        return str(self._listed[0]["id"])

    def check(self) -> None:
        """Raise UpstreamError if the server cannot be reached or does not accept the key, and ModelError for a wrong address.

        Whether it has the model shows with the first answer: not every server lists what it has.
        """
        try:
            _ = self._listed
        except UpstreamError as error:
            if error.kind != "answer":
                raise

    def complete(
        self,
        messages: Sequence[Mapping[str, Any]],
        constraint: StructuredOutput | None,
        sampling: Sampling,
    ) -> Completion:
        """Return the model's answer to ``messages`` within the constraint (None: any text).

        Raises UpstreamError if the server cannot be reached, refuses, or supports no notation of it.
        """
        answer = self.stream(messages, constraint, sampling, is_streamed=False)
        while True:
            try:
                next(answer)
            except StopIteration as ended:
                completion: Completion = ended.value
                return completion

    def stream(
        self,
        messages: Sequence[Mapping[str, Any]],
        constraint: StructuredOutput | None,
        sampling: Sampling,
        *,
        is_streamed: bool = True,
    ) -> Generator[Fragment | None, None, Completion]:
        """Yield the fragments of an answer as they come, None while waiting for one; return it whole.

        The first fragment tells that the server has taken the request. Closing the generator ends the
        request. ``is_streamed`` False asks for the answer in one piece. Raises UpstreamError.
        """
        started = time.monotonic()
        refusals: list[str] = []
        ways = (*DIALECTS[self.dialect], _NATIVELY) if constraint is not None else _FREELY
        for way, put in ways:
            constrained = put(constraint or StructuredOutput())
            if constrained is None:
                if way != TOOLS_WAY:
                    refusals.append(f"{way} cannot say it")
                continue
            body = self._body(messages, sampling, way, is_streamed=is_streamed) | constrained
            reader = AnswerReader(self.name)
            try:
                tries = yield from self._answer(body, way, reader)
            except UpstreamError as error:
                if error.kind != "request":
                    raise
                # This server or version does not support this notation; try the next.
                refusals.append(f"{way}: {error.quoted.removeprefix(': ').removesuffix('.')}")
                continue
            return Completion(
                reader.text, way, reader.finish, tries, time.monotonic() - started, reader.calls,
                reader.prompt_tokens, reader.cached_tokens, reader.tokens,
            )  # fmt: skip
        if constraint is None:
            said = refusals[0].partition(": ")[2]
            raise UpstreamError(
                "request", "refuses the request", address=self.name, quoted=f": {said}"
            )
        raise UpstreamError(
            "request",
            f"(as {self.dialect}) takes this grammar in no way",
            address=self.name,
            quoted=f": {'; '.join(refusals)}. If it is another kind of server, state it as "
            "?dialect=NAME",
        )

    # -- one request --------------------------------------------------------------------------

    def _is_ollamas(self, way: str) -> bool:
        """Whether a request is in Ollama's own form, which alone takes a schema of any shape."""
        return self.dialect == "ollama" and way != TOOLS_WAY

    def _body(
        self,
        messages: Sequence[Mapping[str, Any]],
        sampling: Sampling,
        way: str,
        *,
        is_streamed: bool,
    ) -> Body:
        body: Body = {"model": self.model, "stream": is_streamed}
        if self._is_ollamas(way):
            options = sampling.fields | {"num_predict": sampling.max_tokens}
            return body | {"messages": [_for_ollama(one) for one in messages], "options": options}
        if is_streamed:
            body["stream_options"] = {"include_usage": True}
        return (
            body
            | {"messages": list(messages)}
            | sampling.fields
            | {"max_tokens": sampling.max_tokens}
        )

    def _answer(
        self, body: Body, way: str, reader: AnswerReader
    ) -> Generator[Fragment | None, None, int]:
        """Yield the fragments of one answer, tried again where that may help; return the number of tries.

        What has been given of an answer cannot be taken back, so behind the first text nothing is.
        """
        path = "../api/chat" if self._is_ollamas(way) else "chat/completions"
        for number in range(1, self.tries + 1):
            reader.clear()
            try:
                for part in self._parts("POST", path, body):
                    if isinstance(part, ReplyHead):
                        reader.begin(part.content_type)
                        yield Fragment("", way)
                        continue
                    text = reader.feed(part) if part else ""
                    yield Fragment(text, way) if text else None
                text = reader.end()
                if text:
                    yield Fragment(text, way)
                return number
            except UpstreamError as error:
                if reader.has_given or not error.may_pass:
                    raise
                yield from waiting(self._pause_behind(error, number))
        raise AssertionError("the last try returns or raises")

    def _pause_behind(self, error: UpstreamError, number: int) -> float:
        """Return how long to wait after try ``number``; raise its error if it was the last one."""
        asked = error.retry_after
        if number == self.tries or (asked is not None and asked > LONGEST_PAUSE):
            times = f", {number} times" if number > 1 or error.kind == "late" else ""
            raise UpstreamError(error.kind, f"{error.problem}{times}", address=self.name,
                                quoted=error.quoted, retry_after=asked) from error  # fmt: skip
        longest = min(LONGEST_PAUSE, self.pause * 2 ** (number - 1))
        return asked if asked is not None else random.uniform(0, longest)  # noqa: S311 - no secret

    @cached_property
    def _listed(self) -> list[Mapping[str, Any]]:
        for number in range(1, self.tries + 1):
            content = bytearray()
            try:
                for part in self._parts("GET", "models", None):
                    if isinstance(part, bytes):
                        content += part
                break
            except UpstreamError as error:
                if not error.may_pass:
                    raise
                for _ in waiting(self._pause_behind(error, number)):
                    pass
        try:
            found = reply_json(bytes(content))["data"]
            return [entry for entry in found if isinstance(entry, dict) and "id" in entry]
        except (ValueError, KeyError, TypeError):
            raise UpstreamError(
                "answer",
                "does not list its models as OpenAI's protocol has it; is the address right, up to and "
                "with /v1?",
                address=self.name,
            ) from None

    # -- the wire -----------------------------------------------------------------------------

    @cached_property
    def _url(self) -> Any:
        httpx = load_httpx()
        try:
            url = httpx.URL(self.address)
        except Exception as error:
            raise ModelError(f"{self.name!r} is not an address: {error}") from error
        if not url.host:
            raise ModelError(f"{self.name!r} is not an address: it names no host")
        return url

    @property
    def _key(self) -> str | None:
        """The key, if there is one. Raises ModelError, without showing it, if it is malformed."""
        name = "the argument key" if self.key is not None else KEY
        key = (os.environ.get(KEY, "") if self.key is None else self.key).strip()
        if not (key.isascii() and key.isprintable()):
            raise ModelError(
                f"{self.name}: {name} holds characters that are in no key, such as a line end or a "
                "typographic quote; copy the key again"
            )
        return key or None

    @cached_property
    def _exchange(self) -> HttpExchange:
        base = str(self._url.copy_with(query=None, fragment=None)).rstrip("/") + "/"
        return HttpExchange(base, name=self.name, key=self._key, timeout=self.timeout)

    def _parts(self, method: str, path: str, body: Body | None) -> Iterator[ReplyHead | bytes]:
        """Yield the head and the content of a reply to one try. Raises UpstreamError for any but a success."""
        sent = self._exchange.send(method, path, body)
        refusal: ReplyHead | None = None
        content = bytearray()
        try:
            for part in sent:
                if isinstance(part, ReplyHead) and part.is_error:
                    refusal = part
                elif refusal is not None and isinstance(part, bytes):
                    content += part
                    yield b""
                else:
                    yield part
        finally:
            sent.close()  # type: ignore[attr-defined]
        if refusal is not None:
            raise self._refused(method, refusal, bytes(content))

    def _refused(self, method: str, head: ReplyHead, content: bytes) -> UpstreamError:
        """Return the error that a status means."""
        reason = self._without_secrets(reason_of(content) or f"status {head.status}")
        status, after = head.status, head.retry_after
        if status in (401, 403):
            problem, reason = f"refuses ({status}); put its key into {self.key_name}", ""
            kind: UpstreamFailure = "key"
        elif status in (400, 409, 413, 422) and method == "POST":
            kind, problem = "request", "refuses the request"
        elif status == 404 and method == "POST":
            kind, problem = "key", f"has no model {self.model!r}"
        else:
            kind = "busy" if status in _BUSY else "broken" if status >= 500 else "answer"
            problem = f"failed ({status})"
        quoted = f": {reason}" if reason else ""
        return UpstreamError(kind, problem, address=self.name, quoted=quoted, retry_after=after)

    def _without_secrets(self, text: str) -> str:
        """Return what a server said without our key, which some repeat."""
        for secret in (self._key, self._url.password):
            if secret:
                text = text.replace(secret, "***")
        return text


def _for_ollama(message: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a message with its pictures where Ollama has them."""
    content = message.get("content")
    if not isinstance(content, list):
        return message
    texts, images = [], []
    for part in content:
        if part["type"] == "text":
            texts.append(part["text"])
            continue
        head, comma, data = part["image_url"]["url"].partition(",")
        if not comma or not head.startswith("data:"):
            raise InputError("Ollama reads pictures in the request only", where="messages",
                             hint="send data:image/png;base64,... as the URL")  # fmt: skip
        images.append(data)
    return {**message, "content": "\n".join(texts), "images": images}
