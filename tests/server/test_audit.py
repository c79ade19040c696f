"""The pages of the audit: who may decide, what is recorded, and that nothing shown is obeyed."""

from __future__ import annotations

import asyncio
import json
import os
import re
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import httpx2
import pytest

pytest.importorskip("starlette", reason="the extra server is not installed")
pytest.importorskip("uvicorn", reason="the extra server is not installed")

from callmemaybe.cli.main import main
from callmemaybe.errors import InputError
from callmemaybe.gateway import Gateway, open_ledger
from callmemaybe.gateway.audit.verify import verify_ledger
from callmemaybe.gateway.ledger import Ledger
from callmemaybe.server.audit_app import MOST_WAITING, AuditApp
from callmemaybe.server.config import ServerConfig
from callmemaybe.server.page.audit import shown
from callmemaybe.server.persons import Persons, set_password
from callmemaybe.server.serving import make_server
from callmemaybe.server.sockets import bind, url_of
from callmemaybe.tools import ToolCall, tool

PASSWORD = "correct horse battery"
HOSTILE = (
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "'><svg/onload=alert(1)>",
    "</code></pre></td><form action=//evil.example><button name=decision value=approved>",
    "&lt;b&gt;&#60;script&#62;",
    "javascript:alert(1)",
    "@@BODY@@@@STYLE@@",
    "pay \u202eeve\u202c \u200bnow\u2066\x00\x1b[31m\x7f\x85",
    "\ud83d half",
    "</style><script>",
    "line\nbreak\r\nSet-Cookie: a=b",
)


@tool(effect="once", writes="money", approval="always")
async def pay(to: str) -> str:
    """Pay.

    Args:
        to: who
    """
    return f"paid {to}"


@tool(effect="once", writes="money")
async def lose(to: str) -> str:
    """Pay, perhaps.

    Args:
        to: who
    """
    raise ConnectionResetError(f"gone before {to}")


@tool(effect="once", writes="money", approval="always")
async def lost(to: str) -> str:
    """Act with a tool that the pages do not have.

    Args:
        to: who
    """
    return to


class Structure(HTMLParser):
    """The elements and attributes of a page, and its text."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data


@dataclass
class Desk:
    """A running server of the pages, and its ledger."""

    url: str
    ledger: Ledger
    persons: Path

    def client(self) -> httpx2.Client:
        return httpx2.Client(base_url=self.url, timeout=600)

    def signed_in(self, name: str = "ada") -> httpx2.Client:
        client = self.client()
        answer = client.post("/login", data={"name": name, "password": PASSWORD})
        assert (answer.status_code, answer.headers["location"]) == (303, "/")
        return client


def token(page: str) -> str:
    found = re.search(r'name="token" value="([^"]+)"', page)
    assert found
    return found[1]


@pytest.fixture
def persons(tmp_path: Path) -> Path:
    path = tmp_path / "persons"
    for name in ("ada", "bob"):
        set_password(path, name, PASSWORD)
    return path


@contextmanager
def serving(ledger: Ledger, persons: Path, **options: Any) -> Iterator[Desk]:
    opened = bind(ServerConfig(port=0))
    config = ServerConfig(port=opened.getsockname()[1], body_bytes=1 << 16)
    app = AuditApp(
        ledger,
        Persons(persons),
        config,
        lambda: verify_ledger(ledger.backend),
        penalty=0,
        **options,
    )
    server = make_server(app.asgi(), config, lambda: None)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [opened]})
    thread.start()
    try:
        yield Desk(url_of(opened), ledger, persons)
    finally:
        server.should_exit = True
        thread.join()


@pytest.fixture
def desk(tmp_path: Path, persons: Path) -> Iterator[Desk]:
    ledger = open_ledger(str(tmp_path / "ledger.db"), reserve=0)
    with serving(ledger, persons) as made:
        yield made
    ledger.close()


def ask(
    ledger: Ledger, *names: str, run: str = "r", acting: Any = pay, keys: Any = ()
) -> list[Any]:
    """Deliver a turn of calls, one to each name."""

    async def go() -> list[Any]:
        async with Gateway([acting], store=ledger, guard_repeats=False) as gateway:
            calls = [ToolCall(acting.name, json.dumps({"to": to})) for to in names]
            return list(await gateway.run(calls, run=run, turn=0, keys=keys))

    return asyncio.run(go())


def until(look: Callable[[], Any]) -> Any:
    end = time.monotonic() + 600
    while not (found := look()):
        assert time.monotonic() < end
        time.sleep(0.01)
    return found


def test_a_person_approves_and_the_call_runs_once(desk: Desk) -> None:
    """What waits is listed; the decision is recorded under the name of who signed in; the call then runs."""
    (answer,) = ask(desk.ledger, "landlord")
    assert answer.code == "approval_pending"
    client = desk.signed_in()
    page = client.get("/").text
    where = f"/approvals/{answer.approval}"
    assert "Waiting for approval (1)" in page
    assert where in page
    page = client.get(where).text
    assert "landlord" in page
    done = client.post(where, data={"token": token(page), "decision": "approved", "by": "eve"})
    assert (done.status_code, done.headers["location"]) == (303, where)
    assert "approved by ada" in client.get(where).text
    assert desk.ledger.backend.read_approval(answer.approval).by == "ada"
    (again,) = ask(desk.ledger, "landlord")
    assert again.ok
    again = client.post(where, data={"token": token(page), "decision": "denied"})
    assert again.status_code == 409
    assert "approved by ada already" in again.text
    assert "Waiting for approval (0)" in client.get("/").text


def test_what_is_approved_runs_at_once_where_the_tools_are(tmp_path: Path, persons: Path) -> None:
    """With tools the page runs what a person approved, once, under the run's policy, or says why not."""
    ledger = open_ledger(str(tmp_path / "ledger.db"), reserve=0)

    def go_on() -> Gateway:
        return Gateway([pay], store=ledger, guard_values=False, guard_repeats=False)

    (answer,) = ask(ledger, "landlord")
    (foreign,) = ask(ledger, "someone", run="other", acting=lost)
    (named,) = ask(ledger, "landlord", run="named", keys=["order:17"])
    with serving(ledger, persons, go_on=go_on) as desk:
        client = desk.signed_in()
        where = f"/approvals/{answer.approval}"
        form = {"token": token(client.get(where).text), "decision": "approved"}
        assert client.post(where, data=form).status_code == 303
        until(lambda: "paid landlord" in client.get(f"/calls/{answer.key}").text)
        assert client.post(f"/approvals/{foreign.approval}", data=form).status_code == 303
        assert ledger.backend.read_call(foreign.key) is None
        refused = client.post(f"/approvals/{named.approval}", data=form)
        assert (refused.status_code, "a key of its own" in refused.text) == (500, True)
        assert ledger.backend.read_approval(named.approval).decision == "approved"
    assert ask(ledger, "landlord")[0].replayed
    ledger.close()


def test_a_person_denies(desk: Desk) -> None:
    """A denied call is told so, and by whom the audit says."""
    (answer,) = ask(desk.ledger, "eve")
    client = desk.signed_in("bob")
    page = client.get(f"/approvals/{answer.approval}").text
    client.post(f"/approvals/{answer.approval}", data={"token": token(page), "decision": "denied"})
    (again,) = ask(desk.ledger, "eve")
    assert again.code == "denied"
    records = [json.loads(row[3]) for row in desk.ledger.backend.read_audit(key=answer.key)]
    assert [one["by"] for one in records if one.get("event") == "denied"] == ["bob"]


def test_a_person_reconciles_an_unknown_call(desk: Desk) -> None:
    """Unknown calls are listed until a person says what happened; the first word stands."""
    (answer,) = ask(desk.ledger, "x", acting=lose)
    assert answer.code == "unknown_outcome"
    client = desk.signed_in()
    assert "Unknown outcome (1)" in client.get("/").text
    where = f"/calls/{answer.key}"
    form = {"token": token(client.get(where).text)}
    for wrong in (
        {"outcome": "perhaps"},
        {"outcome": "done", "result": "{"},
        {"outcome": "not_done", "result": "1"},
    ):
        assert client.post(where, data={**form, **wrong}).status_code == 400
    assert (
        client.post(where, data={**form, "outcome": "done", "result": '"paid"'}).status_code == 303
    )
    assert client.post(where, data={**form, "outcome": "not_done"}).status_code == 409
    page = client.get(where).text
    assert "done" in page
    assert "outcome" not in [
        name for _, attributes in Structure(page).tags for name in attributes.values()
    ]
    assert "Unknown outcome (0)" in client.get("/").text
    (again,) = ask(desk.ledger, "x", acting=lose)
    assert (again.ok, again.value) == (True, "paid")
    records = [json.loads(row[3]) for row in desk.ledger.backend.read_audit(key=answer.key)]
    assert [one["by"] for one in records if one.get("event") == "reconcile"] == ["ada"]


def test_nobody_decides_who_did_not_sign_in(desk: Desk) -> None:
    """Without a session, or with a forged one, nothing is shown and nothing is changed."""
    (answer,) = ask(desk.ledger, "landlord")
    page = desk.signed_in().get("/").text
    port = desk.url.rpartition(":")[2]
    for cookies in ({}, {f"callmemaybe-audit-{port}": "x"}, {f"callmemaybe-audit-{port}": ""}):
        client = httpx2.Client(base_url=desk.url, cookies=cookies, timeout=600)
        for path in ("/", "/run?run=r", f"/approvals/{answer.approval}", f"/calls/{answer.key}"):
            shown_page = client.get(path)
            assert shown_page.status_code == (200 if path == "/" else 401)
            assert "landlord" not in shown_page.text
            assert "Sign in" in shown_page.text
        for path in (f"/approvals/{answer.approval}", f"/calls/{answer.key}", "/verify", "/logout"):
            form = {"token": token(page), "decision": "approved", "outcome": "done"}
            assert client.post(path, data=form).status_code == 401
    assert desk.ledger.backend.read_approval(answer.approval).decision is None


@pytest.mark.parametrize(
    ("name", "password"),
    [("ada", "wrong horse battery"), ("ada", ""), ("eve", PASSWORD), ("", ""), ("ada:", PASSWORD),
     ("ADA", PASSWORD), ("ada", PASSWORD + " "), ("\x00", "\ud83d")],
)  # fmt: skip
def test_a_wrong_password_opens_nothing(desk: Desk, name: str, password: str) -> None:
    """Whoever is not known, or has another password, gets no session, and is not told which it was."""
    client = desk.client()
    body = "&".join(
        f"{key}={''.join(f'%{byte:02x}' for byte in value.encode(errors='surrogatepass'))}"
        for key, value in (("name", name), ("password", password))
    )
    answer = client.post(
        "/login", content=body, headers={"content-type": "application/x-www-form-urlencoded"}
    )
    assert answer.status_code in {400, 401}
    assert "set-cookie" not in answer.headers
    if answer.status_code == 401:
        assert "This is no person, or another password." in answer.text


def test_other_pages_cannot_decide(desk: Desk) -> None:
    """A form of another page, session, origin or host name changes nothing (CSRF, DNS rebinding)."""
    (answer,) = ask(desk.ledger, "landlord")
    client, other = desk.signed_in(), desk.signed_in("bob")
    where = f"/approvals/{answer.approval}"
    own = token(client.get(where).text)
    foreign = token(other.get(where).text)
    assert own != foreign
    good = {"token": own, "decision": "approved"}
    for data, headers, status in (
        ({"decision": "approved"}, {}, 403),
        ({"token": "", "decision": "approved"}, {}, 403),
        ({"token": foreign, "decision": "approved"}, {}, 403),
        (good, {"origin": "https://evil.example"}, 403),
        (good, {"origin": "null"}, 403),
        (good, {"origin": "http://127.0.0.1:1"}, 403),
        (good, {"host": "evil.example"}, 403),
        ({**good, "decision": "maybe"}, {}, 400),
        ({"decision": "approved"}, {"content-type": "text/plain"}, 415),
    ):
        assert client.post(where, data=data, headers=headers).status_code == status
    twice = f"token={own}&decision=denied&decision=approved"
    kind = {"content-type": "application/x-www-form-urlencoded"}
    assert client.post(where, content=twice, headers=kind).status_code == 400
    assert client.post(where, content="a" * (1 << 17), headers=kind).status_code == 413
    assert client.get(f"{where}?decision=approved&token={own}").status_code == 200
    assert desk.ledger.backend.read_approval(answer.approval).decision is None


def test_cookie_and_headers_keep_others_out(desk: Desk) -> None:
    """No script reads the cookie, no other site sends it; a page runs no script and stands in no frame."""
    client = desk.client()
    answer = client.post("/login", data={"name": "ada", "password": PASSWORD})
    cookie = answer.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=strict" in cookie
    for page in (client.get("/"), desk.client().get("/"), client.get("/approvals/none")):
        policy = page.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "frame-ancestors 'none'" in policy
        assert "form-action 'self'" in policy
        assert "script-src" not in policy
        assert "unsafe" not in policy
        assert page.headers["cache-control"] == "no-store"
        assert page.headers["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize("text", HOSTILE)
def test_what_is_shown_is_not_obeyed(desk: Desk, text: str) -> None:
    """Arguments, run names and results make no element, no attribute and no hidden character of a page."""
    harmless = ask(desk.ledger, "name", run="plain")
    client = desk.signed_in()

    def skeleton(path: str) -> tuple[list[Any], str]:
        page = client.get(path)
        assert page.status_code == 200
        assert not [c for c in page.text if not c.isprintable() and c != "\n"]
        found = Structure(page.text)
        assert "script" not in [tag for tag, _ in found.tags]
        kept = {"class", "type", "name", "value", "method", "src", "onerror", "onload", "role"}
        return [
            (
                tag,
                sorted(
                    (k, v)
                    for k, v in had.items()
                    if (k in kept and k != "value")
                    or (k == "value" and v in {"approved", "denied"})
                ),
            )
            for tag, had in found.tags
        ], found.text

    plain = skeleton(f"/approvals/{harmless[0].approval}")
    run = re.sub("[\ud800-\udfff\x00]", "", text)
    (asked,) = ask(desk.ledger, text, run=run)
    if asked.approval:
        tags, told = skeleton(f"/approvals/{asked.approval}")
        assert tags == plain[0]
        if text.isprintable() and '"' not in text:
            assert text in told
    skeleton("/")
    skeleton(f"/run?{httpx2.QueryParams({'run': run, 'tenant': ''})}")
    skeleton(
        f"/run?{httpx2.QueryParams({'run': text.encode('utf-8', 'replace').decode(), 'tenant': text.encode('utf-8', 'replace').decode()})}"
    )


def test_whatever_is_shown_is_readable_as_it_is() -> None:
    """Characters that hide or turn text are written as escapes; markup is text."""
    assert shown("a\u202eb\u200b\n\x7f\ud83d") == "a\\u202eb\\u200b\\n\\u007f\\ud83d"
    assert shown("<a href=\"x\" id='y'>&") == "&lt;a href=&quot;x&quot; id=&#x27;y&#x27;&gt;&amp;"
    assert shown("abcdef", 4) == "abc…"


def test_who_is_taken_out_is_out_at_once(desk: Desk) -> None:
    """A session ends when its person leaves the file, has another password, or signs out."""
    ada, bob = desk.signed_in(), desk.signed_in("bob")
    lines = desk.persons.read_text().splitlines(keepends=True)
    desk.persons.write_text("".join(line for line in lines if not line.startswith("bob:")))
    assert "Sign in" in bob.get("/").text
    assert "Waiting for approval" in ada.get("/").text
    set_password(desk.persons, "ada", "another password")
    assert "Sign in" in ada.get("/").text
    set_password(desk.persons, "ada", PASSWORD)
    ada = desk.signed_in()
    page = ada.get("/").text
    cookies = dict(ada.cookies)
    assert ada.post("/logout", data={"token": token(page)}).status_code == 303
    late = httpx2.Client(base_url=desk.url, cookies=cookies, timeout=600)
    assert "Sign in" in late.get("/").text


def test_a_session_ends_after_eight_hours(persons: Path) -> None:
    """Who forgets to sign out is signed out."""
    now = [0.0]
    ledger = open_ledger(":memory:")
    with serving(ledger, persons, monotonic=lambda: now[0]) as desk:
        client = desk.signed_in()
        now[0] = 8 * 3600 - 1
        assert "Waiting for approval" in client.get("/").text
        now[0] = 8 * 3600
        assert "Sign in" in client.get("/").text
    ledger.close()


def test_guessing_is_slow(persons: Path) -> None:
    """Passwords are checked one after another with a pause after a wrong one; too many that wait are refused."""
    ledger = open_ledger(":memory:")
    app = AuditApp(
        ledger, Persons(persons), ServerConfig(), lambda: verify_ledger(ledger.backend), penalty=0.2
    )

    async def go() -> list[int]:
        transport = httpx2.ASGITransport(app.asgi())
        async with httpx2.AsyncClient(
            transport=transport, base_url="http://127.0.0.1:8080"
        ) as client:
            sent = [
                client.post("/login", data={"name": "ada", "password": f"guess {number}"})
                for number in range(MOST_WAITING + 5)
            ]
            return [answer.status_code for answer in await asyncio.gather(*sent)]

    began = time.monotonic()
    statuses = asyncio.run(go())
    assert (statuses.count(401), statuses.count(429)) == (MOST_WAITING, 5)
    assert time.monotonic() - began >= MOST_WAITING * 0.2
    ledger.close()


def test_the_state_of_the_chain_is_shown(desk: Desk) -> None:
    """The page says whether the ledger verifies, at the start and when it is asked again."""
    client = desk.signed_in()
    until(lambda: "it holds" in client.get("/").text)
    ask(desk.ledger, "landlord")
    with closing(sqlite3.connect(desk.ledger.backend.path)) as other, other:  # type: ignore[attr-defined]
        other.execute("update audit set record = record || ' '")
    page = client.get("/").text
    assert client.post("/verify", data={"token": token(page)}).status_code == 303
    until(lambda: "problems" in client.get("/").text)
    assert "the record was changed" in client.get("/").text


def test_the_file_of_persons_is_checked(tmp_path: Path) -> None:
    """A file that others can write, that is empty or damaged, and impossible names and passwords are refused."""
    path = tmp_path / "persons"
    with pytest.raises(InputError, match="cannot be read"):
        Persons(path)
    assert set_password(path, "ada", PASSWORD)
    assert not set_password(path, "ada", PASSWORD)
    assert path.stat().st_mode & 0o777 == 0o600
    assert PASSWORD not in path.read_text()
    assert Persons(path).check("ada", PASSWORD)
    for name, password in (("a:b", PASSWORD), ("", PASSWORD), ("a\nb", PASSWORD), ("ada", "short")):
        with pytest.raises(InputError):
            set_password(path, name, password)
    path.chmod(0o622)
    with pytest.raises(InputError, match="others"):
        Persons(path)
    path.chmod(0o600)
    path.write_text(path.read_text() * 2)
    with pytest.raises(InputError, match=":2"):
        Persons(path)
    path.write_text("")
    with pytest.raises(InputError, match="nobody"):
        Persons(path)


def test_the_pages_are_for_this_machine(tmp_path: Path, persons: Path, capsys: Any) -> None:
    """An address that other machines reach, a file that is missing and a wrong origin are refused in a sentence."""
    ledger = tmp_path / "x.db"
    open_ledger(str(ledger), reserve=0).close()
    base = ["audit", "serve", "--db", str(ledger)]
    for more, said in (
        (["--persons", str(persons), "--host", "0.0.0.0"], "other machines"),
        (["--persons", str(tmp_path / "none")], "cannot be read"),
        (["--persons", str(persons), "--origin", "audit"], "not an origin"),
    ):
        with pytest.raises(SystemExit) as stop:
            main([*base, *more])
        assert stop.value.code == 2
        assert said in capsys.readouterr().err


def test_the_command_serves_until_a_signal(tmp_path: Path) -> None:
    """`audit person` reads a password; `audit serve` says its address, lets that person in, and stops."""
    ledger, persons = tmp_path / "x.db", tmp_path / "persons"
    open_ledger(str(ledger), reserve=0).close()
    command = [sys.executable, "-m", "callmemaybe", "audit"]
    subprocess.run(
        [*command, "person", "ada", "--persons", str(persons)],
        input=PASSWORD + "\n", text=True, check=True, capture_output=True,
    )  # fmt: skip
    with subprocess.Popen(
        [*command, "serve", "--persons", str(persons), "--db", str(ledger), "--port", "0"],
        stderr=subprocess.PIPE, text=True, env=os.environ,
    ) as process:  # fmt: skip
        try:
            assert process.stderr
            found = re.search(r"http://\S+", process.stderr.readline())
            assert found
            client = httpx2.Client(base_url=found[0], timeout=600)
            client.post("/login", data={"name": "ada", "password": PASSWORD})
            assert "Waiting for approval (0)" in client.get("/").text
        finally:
            process.terminate()
        assert process.wait(600) == 0
