"""The audit as web pages: runs, approvals and unknown calls, decided on by persons who signed in.

Every page but the one to sign in needs a session: a random token in a cookie that no script reads and no
other site's page sends. Whatever changes something is a form with a second token of the session. The name of
the person is what the ledger records.
"""

from __future__ import annotations

import asyncio
import functools
import hashlib
import hmac
import json
import logging
import secrets
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route

from callmemaybe.errors import CallMeMaybeError, InputError, StoreError
from callmemaybe.gateway import Gateway
from callmemaybe.gateway.audit.verify import LedgerReport
from callmemaybe.gateway.ledger import Ledger
from callmemaybe.gateway.store import DecideApproval
from callmemaybe.jsonio import read
from callmemaybe.server.config import ServerConfig
from callmemaybe.server.http import ClientGone, Handler, check_origin, read_body
from callmemaybe.server.http_errors import ApiError
from callmemaybe.server.observability import JsonLog, library_logs
from callmemaybe.server.page import Page
from callmemaybe.server.page.audit import AuditPages, chain_state, refusal, sign_in
from callmemaybe.server.persons import Persons
from callmemaybe.server.serving import make_server
from callmemaybe.server.sockets import bind, url_of

_LOG = logging.getLogger("callmemaybe.server")
#: Seconds of a session, sessions, and sign-ins that may wait for the one that is being checked.
SESSION_SECONDS, MOST_SESSIONS, MOST_WAITING = 8 * 3600.0, 100, 10
#: Seconds that a page waits for the call that it approved.
_PATIENCE = 5.0
#: Rows of a list.
_LIMIT = 200


@dataclass(frozen=True)
class PersonSession:
    """Who signed in, until when, and the token of the session's forms."""

    person: str
    mark: str
    token: str
    until: float


class AuditApp:
    """The pages over an open ledger.

    - ``verify``: verifies the ledger, in a thread; at the start and when a person asks for it.
    - ``go_on``: makes a gateway that runs what is approved, for as long as the pages are served; without it, that
      goes on where its turn is delivered again.
    - ``penalty``: seconds for which nobody can sign in after a wrong password.
    - ``monotonic``: seconds.
    """

    def __init__(
        self,
        ledger: Ledger,
        persons: Persons,
        config: ServerConfig,
        verify: Callable[[], LedgerReport],
        *,
        go_on: Callable[[], Gateway] | None = None,
        penalty: float = 1.0,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._ledger = ledger
        self._persons = persons
        self._config = config
        self._verify = verify
        self._go_on = go_on
        self._gateway: Gateway | None = None
        self._going_on: dict[str, asyncio.Task[Any]] = {}
        self._penalty = penalty
        self._monotonic = monotonic
        self._sessions: dict[str, PersonSession] = {}
        self._cookie = f"callmemaybe-audit-{config.port}"
        self._signing_in = asyncio.Lock()
        self._waiting = 0
        self._checked: LedgerReport | str | None = None
        self._checked_at = 0.0
        self._checking: asyncio.Task[None] | None = None

    def asgi(self) -> Starlette:
        """Return the application for an ASGI server."""
        table: list[tuple[str, str, Callable[..., Awaitable[Response]]]] = [
            ("GET", "/", self._show_all),
            ("GET", "/run", self._show_run),
            ("GET", "/approvals/{id}", self._show_approval),
            ("POST", "/approvals/{id}", self._decide),
            ("GET", "/calls/{key}", self._show_call),
            ("POST", "/calls/{key}", self._reconcile),
            ("POST", "/verify", self._verify_again),
            ("POST", "/logout", self._sign_out),
        ]
        routes = [Route("/login", self._guarded(self._sign_in), methods=["POST"])]
        routes += [
            Route(path, self._guarded(self._signed_in(handler)), methods=[method])
            for method, path, handler in table
        ]
        return Starlette(routes=routes, lifespan=self._lifespan)

    @asynccontextmanager
    async def _lifespan(self, _app: Starlette) -> AsyncIterator[None]:
        self._begin_to_verify()
        if self._go_on is None:
            yield
            return
        async with self._go_on() as self._gateway:
            await self._gateway.recover()
            yield
            await asyncio.gather(*self._going_on.values(), return_exceptions=True)

    # -- the steps of every request ------------------------------------------------------------------

    def _guarded(self, handler: Handler) -> Handler:
        async def guarded(request: Request) -> Response:
            try:
                check_origin(request, self._config)
                return await handler(request)
            except ClientGone:
                return Response(status_code=400)
            except ApiError as error:
                return _html(refusal(error.message), error.status)
            except InputError as error:
                return _html(refusal(str(error)), 400)
            except StoreError as error:
                return _html(refusal(f"The ledger cannot be used: {error}"), 503)

        return guarded

    def _signed_in(self, handler: Callable[..., Awaitable[Response]]) -> Handler:
        """Return a handler that gets the session, and of a POST the fields of its form, too."""

        async def checked(request: Request) -> Response:
            session = self._session(request)
            if session is None:
                if request.method == "GET":
                    return _html(sign_in(), 200 if request.url.path == "/" else 401)
                raise ApiError(401, "Sign in first.")
            if request.method != "POST":
                return await handler(request, session)
            form = await self._form(request)
            if not _same(form.get("token", ""), session.token):
                raise ApiError(403, "The form is not of this session; load its page again.")
            return await handler(request, session, form)

        return checked

    def _session(self, request: Request) -> PersonSession | None:
        name = _digest(request.cookies.get(self._cookie, ""))
        session = self._sessions.get(name)
        if session is None:
            return None
        if session.until > self._monotonic() and self._persons.mark(session.person) == session.mark:
            return session
        del self._sessions[name]
        return None

    async def _form(self, request: Request) -> dict[str, str]:
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind != "application/x-www-form-urlencoded":
            raise ApiError(415, "Send the form of the page.")
        body = await read_body(request, self._config)
        try:
            pairs = parse_qsl(
                body.decode(), keep_blank_values=True, max_num_fields=10, errors="strict"
            )
        except ValueError:
            raise ApiError(400, "The form cannot be read.") from None
        if len(dict(pairs)) != len(pairs):
            raise ApiError(400, "The form has a field twice.")
        return dict(pairs)

    # -- persons -------------------------------------------------------------------------------------

    async def _sign_in(self, request: Request) -> Response:
        form = await self._form(request)
        name, password = form.get("name", ""), form.get("password", "")
        mark = await self._check(name, password)
        if mark is None:
            _LOG.warning("a sign-in failed at the audit page, as %.64r", name)
            return _html(sign_in("This is no person, or another password."), 401)
        now = self._monotonic()
        for key, one in list(self._sessions.items()):
            if one.until <= now:
                del self._sessions[key]
        if len(self._sessions) >= MOST_SESSIONS:
            del self._sessions[next(iter(self._sessions))]
        token = secrets.token_urlsafe(32)
        made = PersonSession(name, mark, secrets.token_urlsafe(32), now + SESSION_SECONDS)
        self._sessions[_digest(token)] = made
        answer = RedirectResponse("/", 303)
        is_secure = any(origin.startswith("https:") for origin in self._config.allowed_origins)
        answer.set_cookie(self._cookie, token, httponly=True, samesite="strict", secure=is_secure)
        return answer

    async def _check(self, name: str, password: str) -> str | None:
        """Return the mark of who this is, one after another, so that guessing is slow."""
        if self._waiting >= MOST_WAITING:
            raise ApiError(429, "Too many sign-ins are waiting; try again in a minute.")
        self._waiting += 1
        try:
            async with self._signing_in:
                mark = await asyncio.to_thread(self._persons.check, name, password)
                if mark is None:
                    await asyncio.sleep(self._penalty)
                return mark
        finally:
            self._waiting -= 1

    async def _sign_out(self, request: Request, *_: Any) -> Response:
        self._sessions.pop(_digest(request.cookies[self._cookie]), None)
        answer = RedirectResponse("/", 303)
        answer.delete_cookie(self._cookie, httponly=True, samesite="strict")
        return answer

    # -- pages ---------------------------------------------------------------------------------------

    def _pages(self, session: PersonSession) -> AuditPages:
        return AuditPages(session.person, session.token, self._ledger.backend.now())

    async def _show_all(self, _request: Request, session: PersonSession) -> Response:
        backend = self._ledger.backend
        calls = await self._ledger.read(lambda: backend.read_calls(run=None, limit=_LIMIT))
        asked = await self._ledger.read(lambda: backend.read_approvals(pending_only=True))
        unknown = await self._ledger.read(lambda: backend.read_unknown(_LIMIT + 1))
        chain = chain_state(self._checked, self._checked_at)
        return _html(self._pages(session).overview(calls, asked, unknown, chain, _LIMIT))

    async def _show_run(self, request: Request, session: PersonSession) -> Response:
        run, tenant = request.query_params.get("run", ""), request.query_params.get("tenant", "")
        read_calls = functools.partial(self._ledger.backend.read_calls, limit=_LIMIT + 1)
        calls = await self._ledger.read(lambda: read_calls(run=run, tenant=tenant))
        return _html(self._pages(session).run(tenant, run, calls, _LIMIT))

    async def _show_approval(self, request: Request, session: PersonSession) -> Response:
        backend, id_ = self._ledger.backend, request.path_params["id"]
        found = await self._ledger.read(lambda: backend.read_approval(id_))
        if found is None:
            raise ApiError(404, "There is no such approval.")
        return _html(self._pages(session).approval(found))

    async def _show_call(self, request: Request, session: PersonSession) -> Response:
        backend, key = self._ledger.backend, request.path_params["key"]
        row = await self._ledger.read(lambda: backend.read_call(key))
        if row is None:
            raise ApiError(404, "There is no such call, or it is not admitted yet.")
        settled = await self._ledger.read(lambda: backend.read_reconciliation(key))
        return _html(self._pages(session).call(row, settled))

    # -- what changes something ----------------------------------------------------------------------

    async def _decide(
        self, request: Request, session: PersonSession, form: dict[str, str]
    ) -> Response:
        id_, decision = request.path_params["id"], form.get("decision", "")
        if decision not in ("approved", "denied"):
            raise ApiError(400, "A decision is approved or denied.")
        now = self._ledger.backend.now()
        decided, stands = await self._ledger.send(
            DecideApproval(id_, decision, session.person, now)
        )
        if stands is None:
            raise ApiError(404, "There is no such approval.")
        if not decided:
            what = f"{stands.decision} by {stands.by}" if stands.decision else "expired"
            raise ApiError(409, f"Your decision was not recorded: it is {what} already.")
        if decision == "approved" and self._gateway is not None:
            going = asyncio.get_running_loop().create_task(self._resume(self._gateway, id_))
            self._going_on[id_] = going
            going.add_done_callback(lambda _: self._going_on.pop(id_))
            await asyncio.wait({going}, timeout=_PATIENCE)
            if going.done() and (why := going.result()):
                raise ApiError(500, f"It is approved, but its turn did not go on: {why}")
        return RedirectResponse(f"/approvals/{id_}", 303)

    async def _resume(self, gateway: Gateway, approval: str) -> str:
        """Deliver the turn of an approval again; return why that failed, if it did."""
        try:
            await gateway.resume(approval)
        except CallMeMaybeError as error:
            _LOG.warning("approval %s: its turn did not go on: %s", approval, error)
            return str(error)
        return ""

    async def _reconcile(
        self, request: Request, session: PersonSession, form: dict[str, str]
    ) -> Response:
        key, outcome, text = (
            request.path_params["key"], form.get("outcome", ""), form.get("result", "").strip()
        )  # fmt: skip
        if outcome not in ("done", "not_done"):
            raise ApiError(400, "An outcome is done or not_done.")
        if text and outcome == "not_done":
            raise ApiError(400, "A call that was not done has returned nothing.")
        result = read(text, source="What it returned").value if text else None
        async with Gateway([], store=self._ledger) as gateway:
            answer = await gateway.reconcile(key, outcome, by=session.person, result=result)
        if json.loads(answer.content).get("ok") != (outcome == "done"):
            raise ApiError(409, "Your outcome was not recorded: another one was recorded before.")
        return RedirectResponse(f"/calls/{key}", 303)

    async def _verify_again(self, *_: Any) -> Response:
        self._begin_to_verify()
        return RedirectResponse("/", 303)

    def _begin_to_verify(self) -> None:
        """Verify the ledger in a thread, unless that is being done."""
        if self._checking is None or self._checking.done():
            self._checked = None
            self._checking = asyncio.get_running_loop().create_task(self._verify_now())

    async def _verify_now(self) -> None:
        try:
            checked: LedgerReport | str = await asyncio.to_thread(self._verify)
        except CallMeMaybeError as error:
            checked = str(error)
        self._checked, self._checked_at = checked, self._ledger.backend.now()


def serve_audit(
    ledger: Ledger,
    persons: Persons,
    config: ServerConfig,
    verify: Callable[[], LedgerReport],
    say: Callable[[str], None] = print,
    *,
    go_on: Callable[[], Gateway] | None = None,
) -> None:
    """Serve the pages until a signal; ``say`` is called with the URL; the rest as for :class:`AuditApp`.

    Raises InputError for an address that cannot be bound.
    """
    opened = bind(config)
    try:
        say(f"the audit is served at {url_of(opened)} (Ctrl-C stops)")
        app = AuditApp(ledger, persons, config, verify, go_on=go_on)
        with library_logs(JsonLog(), logging.WARNING):
            make_server(app.asgi(), config, lambda: None).run(sockets=[opened])
    finally:
        opened.close()


def _html(page: Page, status: int = 200) -> Response:
    # Names of runs may hold halves of pairs; `shown` writes them as escapes.
    return HTMLResponse(page.text, status, dict(page.headers))


def _digest(token: str) -> str:
    return hashlib.sha256(token.encode(errors="surrogatepass")).hexdigest()


def _same(given: str, expected: str) -> bool:
    return hmac.compare_digest(given.encode(errors="surrogatepass"), expected.encode())
