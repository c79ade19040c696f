"""The routes of the server, and the steps that every request goes through."""

from __future__ import annotations

import asyncio
import logging
import re
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from callmemaybe.agent.single_request import read_conversation
from callmemaybe.errors import UpstreamError
from callmemaybe.generation.result import TurnResult
from callmemaybe.plugins import notify
from callmemaybe.server import chat, completions, messages, responses, tokens
from callmemaybe.server.common import AnswerBuilder, Interface, ServedModel, new_id
from callmemaybe.server.http import (
    UNREAD_HEADER,
    ClientGone,
    EventStream,
    Handler,
    JsonResponse,
    check_origin,
    client_id,
    cors,
    json_bytes,
    read_json,
    until_disconnect,
)
from callmemaybe.server.http_errors import ApiError, api_error
from callmemaybe.server.observability import RequestMetrics, RequestObserver, RequestSummary
from callmemaybe.server.openapi import document
from callmemaybe.server.page import playground
from callmemaybe.server.scheduler import PendingRequest, TurnScheduler
from callmemaybe.server.turns import TurnRequest, TurnUpdate, finish_reason

_LOG = logging.getLogger("callmemaybe.server")
#: nginx's status for a client that closed the connection; in logs and metrics only.
CLIENT_GONE = 499
_MAX_ID_LENGTH = 128
#: Bytes of a body from which on it is read beside what else the server does: it takes milliseconds.
LARGE_BODY = 32_768
INTERFACES = (
    chat.INTERFACE, responses.INTERFACE, completions.INTERFACE, messages.COUNT_INTERFACE,
    messages.INTERFACE, tokens.TOKENIZE_INTERFACE, tokens.DETOKENIZE_INTERFACE,
)  # fmt: skip


@dataclass
class ServerApp:
    """The routes over one scheduler, which is created once the event loop runs.

    ``cached_bytes`` returns the bytes of prompts that are kept, ``clock`` seconds, ``now`` those since 1970.
    """

    served: ServedModel
    make_scheduler: Callable[[], TurnScheduler]
    observers: Sequence[RequestObserver] = ()
    cached_bytes: Callable[[], int] = int
    metrics: RequestMetrics = field(default_factory=RequestMetrics)
    clock: Callable[[], float] = time.perf_counter
    now: Callable[[], float] = time.time

    def __post_init__(self) -> None:
        self._config = self.served.config
        self._scheduler: TurnScheduler | None = None
        self._stopping: asyncio.Task[None] | None = None
        #: Whether the connection of an answer ends with it, so that the client's next goes elsewhere.
        self.sheds_connection: Callable[[], bool] = lambda: False
        self._logged_unread: set[str] = set()
        self._observers = [self.metrics, *self.observers]
        self._document = json_bytes(document(self.served))
        self._page = playground(
            self.served.name, needs_key=bool(self._config.keys), has_steps=self.served.has_steps,
            reads_images=self.served.reads_images,
        )  # fmt: skip

    @property
    def scheduler(self) -> TurnScheduler:
        """The scheduler, once the server runs."""
        assert self._scheduler is not None, "the server has not started"
        return self._scheduler

    def asgi(self) -> Starlette:
        """Return the application for an ASGI server."""
        table: list[tuple[str, str, Handler, bool]] = [
            ("GET", "/", self._show_page, True),
            ("GET", "/openapi.json", self._show_document, True),
            ("GET", "/healthz", self._show_health, True),
            ("GET", "/metrics", self._show_metrics, False),
            ("GET", "/v1/models", self._list_models, False),
            ("GET", "/v1/models/{model:path}", self._show_model, False),
            *(("POST", one.route, self._complete(one), False) for one in INTERFACES),
        ]
        routes = [
            Route(path, self._guarded(path, handler, is_open), methods=[method, "OPTIONS"])
            for method, path, handler, is_open in table
        ]
        unknown_route = self._guarded("", self._unknown_route, True)
        app = _SlashTolerantApp(
            routes=routes,
            lifespan=self._lifespan,
            exception_handlers={404: _handled(unknown_route), 405: _handled(unknown_route)},
        )
        app.router.redirect_slashes = False
        return app

    def measure(self) -> None:
        """Set the gauges of the metrics to what is so now."""
        self.metrics.measure(self.scheduler.waiting, self.scheduler.running, self.cached_bytes())

    def begin_to_stop(self) -> None:
        """Refuse new requests, and let the others finish; call it on the event loop's thread."""
        scheduler = self._scheduler
        if scheduler is not None and not scheduler.is_stopping:
            scheduler.is_stopping = True
            loop = asyncio.get_running_loop()
            self._stopping = loop.create_task(scheduler.stop(self._config.grace_seconds))

    @asynccontextmanager
    async def _lifespan(self, _app: Starlette) -> AsyncIterator[None]:
        self._scheduler = self.make_scheduler()
        watcher = asyncio.create_task(self._scheduler.watch())
        try:
            yield
        finally:
            await self._scheduler.stop(self._config.grace_seconds)
            await self._scheduler.close()
            watcher.cancel()

    # -- the steps of every request --------------------------------------------------------------

    def _guarded(self, route: str, handler: Handler, is_open: bool) -> Handler:
        async def guarded(request: Request) -> Response:
            began = self.clock()
            summary = RequestSummary(_request_id(request), request.method, route or "other", "")
            summary.traceparent = request.headers.get("traceparent")
            request.state.summary, request.state.began = summary, began
            try:
                check_origin(request, self._config)
                if request.method == "OPTIONS":
                    response = Response(status_code=204, headers={"allow": "GET, POST"})
                else:
                    keys = self._config.keys
                    summary.client = client_id(request, keys, is_open=is_open)
                    for observer in self._observers:
                        notify(observer.started, summary)
                    response = await handler(request)
            except ClientGone:
                summary.is_dropped = True
                response = Response(status_code=CLIENT_GONE)
            except Exception as error:
                response = self._error_response(error, summary, request.url.path)
            if not isinstance(response, EventStream):
                self._finish(summary, began, response.status_code)
            response.headers.update(cors(request, self._config))
            response.headers["x-request-id"] = summary.id
            response.headers["request-id"] = summary.id  # its name for Anthropic's clients
            if unread := getattr(request.state, "unread", ()):
                response.headers[UNREAD_HEADER] = ", ".join(unread)
            if self.sheds_connection():
                response.headers["connection"] = "close"
            response.headers["openai-processing-ms"] = str(round((self.clock() - began) * 1000))
            return response

        return guarded

    def _error_response(self, error: Exception, summary: RequestSummary, path: str) -> JsonResponse:
        refusal = api_error(error)
        summary.code = refusal.code
        _record(summary, error, refusal.status)
        # What a route does not have is told in the form of the interface above it, too.
        form = next((one for one in INTERFACES if path.startswith(one.route)), chat.INTERFACE)
        return JsonResponse(form.error_body(refusal, summary.id), refusal.status, refusal.headers)

    def _finish(self, summary: RequestSummary, began: float, status: int) -> None:
        summary.status = status
        summary.seconds = self.clock() - began
        for observer in self._observers:
            notify(observer.finished, summary)

    # -- the interfaces -----------------------------------------------------------------------

    def _complete(self, interface: Interface) -> Handler:
        async def complete(request: Request) -> Response:
            summary: RequestSummary = request.state.summary
            data = await read_json(request, self._config)

            def read() -> tuple[Any, Sequence[TurnRequest]]:
                body = interface.parse(data)
                return body, interface.turn_requests(body, self.served)

            is_large = request.state.body_size > LARGE_BODY
            body, turns = await asyncio.to_thread(read) if is_large else read()
            summary.model, summary.is_stream = self.served.name, bool(body.stream)
            if self.served.is_single_request and turns[0].messages:
                request.state.unread = self._unread(turns[0].messages)
            pending = self.scheduler.submit(summary.client, turns)
            answer = interface.builder(body, self.served, int(self.now()))
            receive = request.receive
            try:
                if not body.stream:
                    whole = await until_disconnect(receive, _run_to_end(pending, answer))
                    return JsonResponse(whole)
                # The first update decides between an error and a stream.
                updates = pending.__aiter__()
                first = await until_disconnect(receive, anext(updates))
            except BaseException:
                self.scheduler.cancel(pending)
                raise
            finally:
                if not body.stream:
                    self._summarize(summary, pending, answer.results)
                    self.scheduler.cancel(pending)

            def on_end(is_gone: bool) -> None:
                self.scheduler.cancel(pending)
                self._summarize(summary, pending, answer.results)
                summary.is_dropped = is_gone
                self._finish(summary, request.state.began, CLIENT_GONE if is_gone else 200)

            events = self._events(answer, first, updates, summary)
            return EventStream(events, on_end, {}, interface.idle)

        return complete

    def _unread(self, messages: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
        """Return what of a conversation the model does not read; log each kind once."""
        unread = read_conversation(messages).unread
        for what in unread:
            if what not in self._logged_unread:
                self._logged_unread.add(what)
                _LOG.warning(
                    "the model %s does not read %s; answers name what was left out in the header %s",
                    self.served.name, what, UNREAD_HEADER,
                )  # fmt: skip
        return unread

    def _summarize(
        self, summary: RequestSummary, pending: PendingRequest, results: Sequence[TurnResult]
    ) -> None:
        summary.waited = pending.waited
        if pending.first is not None:
            summary.first = pending.first - pending.created
        summary.finish = tuple(map(finish_reason, results))
        summary.prompt_tokens = max((result.prompt_tokens for result in results), default=0)
        summary.tokens = sum(result.tokens for result in results)
        summary.passes = sum(result.passes for result in results)

    async def _events(
        self,
        answer: AnswerBuilder,
        first: tuple[int, TurnUpdate],
        updates: AsyncIterator[tuple[int, TurnUpdate]],
        summary: RequestSummary,
    ) -> AsyncIterator[bytes]:
        """Yield the answer as server-sent events."""
        try:
            for event in answer.begin():
                yield _event(event)
            for event in answer.take(*first):
                yield _event(event)
            async for index, update in updates:
                for event in answer.take(index, update):
                    yield _event(event)
            for event in answer.last():
                yield _event(event)
            if answer.closing:
                yield answer.closing
        except Exception as error:
            failure = api_error(error)
            summary.code, summary.failed_status = failure.code, failure.status
            _record(summary, error, failure.status)
            for event in answer.failed(failure):
                yield _event(event)

    # -- other routes -----------------------------------------------------------------------------

    async def _show_page(self, _request: Request) -> Response:
        return HTMLResponse(self._page.text, headers=self._page.headers)

    async def _show_document(self, _request: Request) -> Response:
        return Response(self._document, media_type="application/json")

    async def _show_health(self, _request: Request) -> Response:
        self.scheduler.check()
        return JsonResponse({"status": "ok"})

    async def _show_metrics(self, _request: Request) -> Response:
        self.measure()
        return Response(self.metrics.text(), media_type=self.metrics.content_type)

    async def _list_models(self, _request: Request) -> Response:
        return JsonResponse({"object": "list", "data": [self.served.as_json]})

    async def _show_model(self, request: Request) -> Response:
        self.served.check_name(request.path_params["model"])
        return JsonResponse(self.served.as_json)

    async def _unknown_route(self, request: Request) -> Response:
        error: HTTPException = request.state.error
        where = f"{request.method} {request.url.path}"
        if error.status_code == 405:
            headers = dict(error.headers or {})
            raise ApiError(405, f"Not allowed to {where}.", code="method_not_allowed",
                          headers=headers)  # fmt: skip
        raise ApiError(
            404,
            f"Invalid URL ({where}): this server has POST {chat.ROUTE}, POST {responses.ROUTE}, POST "
            f"{messages.ROUTE}, POST {completions.ROUTE} and GET /v1/models; the base URL of a client ends in /v1, that of Anthropic's in front of it.",
            code="unknown_url",
        )


class _SlashTolerantApp(Starlette):
    """Ignores repeated and trailing slashes in paths.

    Base URLs often end in a slash, and clients add paths that begin with one. A redirect would not
    help: few clients follow one with a body, and it would lose the id of the request.
    """

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            scope["path"] = re.sub("/+", "/", scope["path"]).rstrip("/") or "/"
        await super().__call__(scope, receive, send)


def _handled(handler: Handler) -> Callable[[Request, Exception], Any]:
    async def handled(request: Request, error: Exception) -> Response:
        request.state.error = error
        return await handler(request)

    return handled


def _request_id(request: Request) -> str:
    """Return the id that the client gave the request, if it is short and printable; else a fresh one."""
    given = request.headers.get("x-request-id", "")
    is_valid = 0 < len(given) <= _MAX_ID_LENGTH and all("!" <= char <= "~" for char in given)
    return given if is_valid else new_id("req_", 32)


def _record(summary: RequestSummary, error: Exception, status: int) -> None:
    """Note the error behind a failure for the log: all of ours, of the server of the model what may be told."""
    cause = error if isinstance(error, UpstreamError) else error.__cause__
    if isinstance(cause, UpstreamError):
        summary.upstream = f"{cause.address} {cause.problem}"
    elif status == 500:
        summary.error = error


async def _run_to_end(pending: PendingRequest, answer: AnswerBuilder) -> dict[str, Any] | bytes:
    async for index, update in pending:
        answer.take(index, update)
    return answer.whole()


def _event(data: dict[str, Any]) -> bytes:
    name = f"event: {data['type']}\n".encode() if "type" in data else b""
    return name + b"data: " + json_bytes(data) + b"\n\n"
