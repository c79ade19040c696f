"""The addresses of the server, and what every request goes through."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from callmemaybe.generation.result import TurnResult
from callmemaybe.server import chat, responses
from callmemaybe.server.common import Served, new_id
from callmemaybe.server.engine import Engine, Ticket
from callmemaybe.server.http import (
    EventStream,
    Gone,
    Handler,
    Json,
    check_origin,
    client_of,
    cors,
    json_bytes,
    read_json,
    until_gone,
)
from callmemaybe.server.http_errors import Problem, translated
from callmemaybe.server.metrics import Metrics
from callmemaybe.server.observe import Facts, Observer
from callmemaybe.server.openapi import document
from callmemaybe.server.page import playground
from callmemaybe.server.turns import TurnUpdate, finish_reason

#: nginx's number for a client that closed the request; for logs and metrics only.
CLIENT_GONE = 499
_LONGEST_ID = 128


@dataclass
class App:
    """The server's addresses over one engine.

    ``engine`` is made when the event loop runs. ``clock`` returns seconds, ``now`` those since 1970.
    """

    served: Served
    make_engine: Callable[[], Engine]
    observers: Sequence[Observer] = ()
    clock: Callable[[], float] = time.perf_counter
    now: Callable[[], float] = time.time

    def __post_init__(self) -> None:
        self._settings = self.served.settings
        self._engine: Engine | None = None
        self._stopping: asyncio.Task[None] | None = None
        self._metrics = Metrics(lambda: self.engine.waiting, lambda: self.engine.running)
        self._observers = [self._metrics, *self.observers]
        self._document = json_bytes(document(self.served))
        self._page = playground(self.served.name, needs_key=bool(self._settings.keys))

    @property
    def engine(self) -> Engine:
        """The engine, once the server runs."""
        assert self._engine is not None, "the server has not started"
        return self._engine

    def asgi(self) -> Starlette:
        """Return the application for an ASGI server."""
        table: list[tuple[str, str, Handler, bool]] = [
            ("GET", "/", self._show_page, True),
            ("GET", "/openapi.json", self._show_document, True),
            ("GET", "/healthz", self._show_health, True),
            ("GET", "/metrics", self._show_metrics, False),
            ("GET", "/v1/models", self._list_models, False),
            ("GET", "/v1/models/{model:path}", self._show_model, False),
            ("POST", chat.ROUTE, self._complete(chat), False),
            ("POST", responses.ROUTE, self._complete(responses), False),
        ]
        routes = [
            Route(path, self._guarded(path, handler, is_open), methods=[method, "OPTIONS"])
            for method, path, handler, is_open in table
        ]
        nowhere = self._guarded("", self._nowhere, True)
        app = _Addresses(
            routes=routes,
            lifespan=self._life,
            exception_handlers={404: _handled(nowhere), 405: _handled(nowhere)},
        )
        app.router.redirect_slashes = False
        return app

    def begin_to_stop(self) -> None:
        """Take nothing new, and let what runs finish; call it on the event loop's thread."""
        engine = self._engine
        if engine is not None and not engine.is_stopping:
            engine.is_stopping = True
            loop = asyncio.get_running_loop()
            self._stopping = loop.create_task(engine.stop(self._settings.grace_seconds))

    @asynccontextmanager
    async def _life(self, _app: Starlette) -> AsyncIterator[None]:
        self._engine = self.make_engine()
        watching = asyncio.create_task(self._engine.watch())
        try:
            yield
        finally:
            await self._engine.stop(self._settings.grace_seconds)
            await self._engine.close()
            watching.cancel()

    # -- what every request goes through ----------------------------------------------------------

    def _guarded(self, route: str, handler: Handler, is_open: bool) -> Handler:
        async def guarded(request: Request) -> Response:
            began = self.clock()
            facts = Facts(_id_of(request), request.method, route or "other", "")
            facts.trace = request.headers.get("traceparent")
            request.state.facts, request.state.began = facts, began
            try:
                check_origin(request, self._settings)
                if request.method == "OPTIONS":
                    response = Response(status_code=204, headers={"allow": "GET, POST"})
                else:
                    keys = self._settings.keys
                    facts.client = client_of(request, keys, is_open=is_open)
                    for observer in self._observers:
                        observer.started(facts)
                    response = await handler(request)
            except Gone:
                facts.is_dropped = True
                response = Response(status_code=CLIENT_GONE)
            except Exception as error:
                response = self._refusal(error, facts)
            if not isinstance(response, EventStream):
                self._over(facts, began, response.status_code)
            response.headers.update(cors(request, self._settings))
            response.headers["x-request-id"] = facts.id
            response.headers["openai-processing-ms"] = str(round((self.clock() - began) * 1000))
            return response

        return guarded

    def _refusal(self, error: Exception, facts: Facts) -> Json:
        problem = translated(error)
        if facts.route == responses.ROUTE:
            problem.param = responses.name_of(problem.param)
        facts.code = problem.code
        if problem.status == 500:
            facts.error = error
        return Json(problem.body, problem.status, problem.headers)

    def _over(self, facts: Facts, began: float, status: int) -> None:
        facts.status = status
        facts.seconds = self.clock() - began
        for observer in self._observers:
            observer.finished(facts)

    # -- the two interfaces -----------------------------------------------------------------------

    def _complete(self, interface: ModuleType) -> Handler:
        async def complete(request: Request) -> Response:
            facts: Facts = request.state.facts
            asked = interface.read(await read_json(request, self._settings))
            facts.model, facts.is_stream = self.served.name, bool(asked.stream)
            asks = interface.asks(asked, self.served)
            ticket = self.engine.submit(facts.client, asks)
            answer = interface.Answer(asked, self.served, int(self.now()))
            receive = request.receive
            try:
                if not asked.stream:
                    whole = await until_gone(receive, _whole(ticket, answer))
                    return Json(whole)
                # The first update decides between an error and a stream.
                updates = ticket.__aiter__()
                first = await until_gone(receive, anext(updates))
            except BaseException:
                self.engine.drop(ticket)
                raise
            finally:
                if not asked.stream:
                    self._note(facts, ticket, answer.results)
                    self.engine.drop(ticket)

            def over(is_gone: bool) -> None:
                self.engine.drop(ticket)
                self._note(facts, ticket, answer.results)
                facts.is_dropped = is_gone
                self._over(facts, request.state.began, CLIENT_GONE if is_gone else 200)

            return EventStream(self._events(answer, first, updates, facts), over, {})

        return complete

    def _note(self, facts: Facts, ticket: Ticket, results: Sequence[TurnResult]) -> None:
        facts.waited = ticket.waited
        if ticket.first is not None:
            facts.first = ticket.first - ticket.created
        facts.finish = tuple(map(finish_reason, results))
        facts.prompt_tokens = max((result.prompt_tokens for result in results), default=0)
        facts.tokens = sum(result.tokens for result in results)
        facts.passes = sum(result.passes for result in results)

    async def _events(
        self,
        answer: Any,
        first: tuple[int, TurnUpdate],
        updates: AsyncIterator[tuple[int, TurnUpdate]],
        facts: Facts,
    ) -> AsyncIterator[bytes]:
        """Yield server-sent events: of the chat interface, or (those have a type) of the other."""
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
            problem = translated(error)
            facts.code, facts.failed = problem.code, problem.status
            if problem.status == 500:
                facts.error = error
            for event in answer.failed(problem):
                yield _event(event)

    # -- everything else --------------------------------------------------------------------------

    async def _show_page(self, _request: Request) -> Response:
        return HTMLResponse(self._page.text, headers=self._page.headers)

    async def _show_document(self, _request: Request) -> Response:
        return Response(self._document, media_type="application/json")

    async def _show_health(self, _request: Request) -> Response:
        self.engine.check()
        return Json({"status": "ok"})

    async def _show_metrics(self, _request: Request) -> Response:
        return Response(self._metrics.text(), media_type=self._metrics.content_type)

    async def _list_models(self, _request: Request) -> Response:
        return Json({"object": "list", "data": [self.served.as_json]})

    async def _show_model(self, request: Request) -> Response:
        self.served.check_name(request.path_params["model"])
        return Json(self.served.as_json)

    async def _nowhere(self, request: Request) -> Response:
        error: HTTPException = request.state.error
        where = f"{request.method} {request.url.path}"
        if error.status_code == 405:
            headers = dict(error.headers or {})
            raise Problem(405, f"Not allowed to {where}.", code="method_not_allowed",
                          headers=headers)  # fmt: skip
        raise Problem(
            404,
            f"Invalid URL ({where}): this server has POST {chat.ROUTE}, POST {responses.ROUTE} and "
            "GET /v1/models; the base URL of a client ends in /v1.",
            code="unknown_url",
        )


class _Addresses(Starlette):
    """Takes a slash too many for none.

    Base URLs are written with one at their end, and clients put one in front of what they add. A
    redirect would not do: few follow one with a body, and it says nothing of a request's id.
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


def _id_of(request: Request) -> str:
    """Return the id the client gave the request, if it is one that logs can bear; or a fresh one."""
    given = request.headers.get("x-request-id", "")
    is_good = 0 < len(given) <= _LONGEST_ID and all("!" <= char <= "~" for char in given)
    return given if is_good else new_id("req_", 32)


async def _whole(ticket: Ticket, answer: Any) -> dict[str, Any]:
    async for index, update in ticket:
        answer.take(index, update)
    whole: dict[str, Any] = answer.whole()
    return whole


def _event(told: dict[str, Any]) -> bytes:
    name = f"event: {told['type']}\n".encode() if "type" in told else b""
    return name + b"data: " + json_bytes(told) + b"\n\n"
