"""The pages of the audit: runs, approvals, calls and the chain as HTML without scripts. Pure.

Names, arguments and results come from models and services: :func:`shown` is the only way into a page.
"""

from __future__ import annotations

import html
import json
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from urllib.parse import quote, urlencode

from callmemaybe.gateway.audit.verify import LedgerReport
from callmemaybe.gateway.store import Approval, CallRow
from callmemaybe.server.page import Page, sheet

#: Characters of arguments in a list; the page of one call shows them all.
_IN_LIST = 160


def shown(text: object, most: int | None = None) -> str:
    """Return ``text`` as HTML that shows it: no markup, and no character that hides or turns others."""
    told = str(text)
    if most is not None and len(told) > most:
        told = told[: most - 1] + "…"
    return html.escape("".join(c if c.isprintable() else _code(c) for c in told))


def _code(char: str) -> str:
    # As JSON writes it, so that arguments stay JSON.
    return "\\u007f" if char == "\x7f" else json.dumps(char)[1:-1]


class AuditPages:
    """Makes the pages for one person: ``person`` is the name, ``token`` stands in every form."""

    def __init__(self, person: str, token: str, now: float) -> None:
        self._person = person
        self._token = token
        self._now = now

    def overview(
        self, calls: Sequence[CallRow], approvals: Sequence[Approval], unknown: Sequence[CallRow],
        chain: str, limit: int,
    ) -> Page:  # fmt: skip
        """Return the first page: what waits for a person, the last runs, the state of the chain."""
        waiting = [one for one in approvals if one.decision is None and one.expires > self._now]
        body = [
            f"<h2>Waiting for approval ({len(waiting)})</h2>",
            _table(
                ("asked", "run", "tool", "arguments", ""),
                (
                    (_time(one.created), self._run(one.tenant, one.run), shown(one.tool),
                     f"<code>{shown(one.arguments, _IN_LIST)}</code>",
                     f'<a href="/approvals/{quote(one.id, safe="")}">look and decide</a>')
                    for one in waiting[:limit]
                ),
                "Nothing waits.",
            ),
            _more(len(waiting), limit),
            f"<h2>Unknown outcome ({_count(unknown, limit)})</h2>",
            self._calls(unknown[:limit], "Nothing is unknown."),
            "<h2>Audit chain</h2>",
            chain,
            self._form("/verify", '<button type="submit">Verify now</button>'),
            "<h2>Last runs</h2>",
            self._runs(calls),
        ]  # fmt: skip
        return self._page("Audit", body, refresh=True)

    def approval(self, one: Approval) -> Page:
        """Return the page of one approval: all that is known of it, and the decision."""
        if one.decision is not None:
            when = _time(one.decided) if one.decided is not None else ""
            state = f"{one.decision} by {one.by or 'nobody'}, {when}"
        else:
            state = "expired" if one.expires <= self._now else "waits for a person"
        facts = [
            ("state", shown(state)), ("run", self._run(one.tenant, one.run)),
            ("tool", f"<b>{shown(one.tool)}</b>"), ("arguments", f"<pre>{shown(one.arguments)}</pre>"),
            ("why a person is asked", shown(one.reason)), ("asked", _time(one.created)),
            ("expires", _time(one.expires)), ("call", self._call(one.key)),
        ]  # fmt: skip
        body = ["<h2>Approval</h2>", _facts(facts)]
        if one.decision is None and one.expires > self._now:
            body.append(
                self._form(
                    f"/approvals/{quote(one.id, safe='')}",
                    '<p class="buttons"><button class="main" name="decision" value="approved">'
                    'Approve this call</button><button name="decision" value="denied">Deny it'
                    "</button></p>",
                )
            )
        elif one.decision == "approved":
            body.append(
                "<p>If it has not run yet, it does where its turn is delivered again, or with <code>callmemaybe "
                f"approvals approve {shown(one.id)} --tools FILE</code>.</p>"
            )
        return self._page("Approval", body)

    def run(self, tenant: str, run: str, calls: Sequence[CallRow], limit: int) -> Page:
        """Return the page of one run, newest call first."""
        name = f"{shown(run)} <small>{shown(tenant)}</small>"
        body = [
            f"<h2>Run {name}</h2>",
            self._calls(calls[:limit], "None of its calls was admitted."),
        ]
        return self._page("Run", [*body, _more(len(calls), limit)])

    def call(self, row: CallRow, settled: tuple[str, str] | None) -> Page:
        """Return the page of one call; ``settled``: how its unknown outcome was reconciled."""
        facts = [
            ("key", f"<code>{shown(row.key)}</code>"), ("run", self._run(row.tenant, row.run)),
            ("place", f"turn {row.turn}, call {row.ordinal}"), ("tool", f"<b>{shown(row.tool)}</b>"),
            ("effect class", shown(row.effect)), ("state", shown(row.state)),
            ("arguments", f"<pre>{shown(row.arguments)}</pre>"),
            ("answer", f"<pre>{shown(row.content or '')}</pre>"), ("admitted", _time(row.created)),
            ("ended", _time(row.ended) if row.ended is not None else "not yet"),
        ]  # fmt: skip
        if settled is not None:
            facts.append(("reconciled", f"{shown(settled[0])} <pre>{shown(settled[1])}</pre>"))
        body = ["<h2>Call</h2>", _facts(facts)]
        if row.state == "unknown" and settled is None:
            body.append(
                self._form(
                    f"/calls/{quote(row.key, safe='')}",
                    "<p>Find out at the service whether it happened. What you say here is what the "
                    "model is told from now on.</p>"
                    '<label for="result">What it returned, as JSON (only if it was done)</label>'
                    '<input type="text" id="result" name="result" autocomplete="off">'
                    '<p class="buttons"><button name="outcome" value="done">It was done</button>'
                    '<button name="outcome" value="not_done">It was not done</button></p>',
                )
            )
        return self._page("Call", body)

    def _page(self, title: str, body: Iterable[str], *, refresh: bool = False) -> Page:
        out = self._form(
            "/logout",
            f'<p>{shown(self._person)} <button type="submit">Sign out</button></p>',
            kind="person",
        )
        return sheet(
            title, "".join(['<nav><a href="/">All</a></nav>', out, *body]), refresh=refresh
        )

    def _form(self, action: str, inner: str, kind: str = "") -> str:
        token = f'<input type="hidden" name="token" value="{html.escape(self._token)}">'
        return f'<form class="{kind}" method="post" action="{html.escape(action)}">{token}{inner}</form>'

    def _runs(self, calls: Sequence[CallRow]) -> str:
        runs: dict[tuple[str, str], list[CallRow]] = {}
        for row in calls:
            runs.setdefault((row.tenant, row.run), []).append(row)
        return _table(
            ("last call", "run", "tenant", "calls shown", "states"),
            (
                (_time(rows[0].created), self._run(*name), shown(name[0]), str(len(rows)),
                 shown(", ".join(sorted({row.state for row in rows}))))
                for name, rows in runs.items()
            ),
            "There are no runs.",
        )  # fmt: skip

    def _calls(self, rows: Iterable[CallRow], none: str) -> str:
        return _table(
            ("admitted", "run", "state", "tool", "arguments", "call"),
            (
                (_time(row.created), f"{self._run(row.tenant, row.run)}/{row.turn}/{row.ordinal}",
                 shown(row.state), shown(row.tool),
                 f"<code>{shown(row.arguments, _IN_LIST)}</code>", self._call(row.key))
                for row in rows
            ),
            none,
        )  # fmt: skip

    def _run(self, tenant: str, run: str) -> str:
        # Names may hold halves of pairs, which no address can.
        asked = urlencode({"tenant": tenant, "run": run}, errors="replace")
        return f'<a href="/run?{html.escape(asked)}">{shown(run, 60) or "(no name)"}</a>'

    def _call(self, key: str) -> str:
        return f'<a href="/calls/{quote(key, safe="")}"><code>{shown(key[:16])}</code></a>'


def sign_in(message: str = "") -> Page:
    """Return the page that asks who it is."""
    told = f'<p class="status bad" role="alert">{shown(message)}</p>' if message else ""
    return sheet(
        "Sign in",
        f'<form method="post" action="/login"><h2>Sign in</h2>{told}'
        '<label for="name">Name</label><input type="text" id="name" name="name" '
        'autocomplete="username" required><label for="password">Password</label>'
        '<input type="password" id="password" name="password" autocomplete="current-password" '
        'required><p class="buttons"><button class="main" type="submit">Sign in</button></p></form>',
    )


def refusal(message: str) -> Page:
    """Return a page that says why a request was not carried out."""
    told = f'<p class="status bad" role="alert">{shown(message)}</p>'
    return sheet("Not done", f'{told}<nav><a href="/">All</a></nav>')


def chain_state(checked: LedgerReport | str | None, at: float) -> str:
    """Return the state of the audit chain as HTML; ``checked`` is why it could not be verified, if a text."""
    if checked is None:
        return '<p class="status">It is being verified.</p>'
    if isinstance(checked, str):
        return f'<p class="status bad" role="alert">{_time(at)}: not verified: {shown(checked)}</p>'
    about = f"{checked.records} records in {len(checked.heads)} chains, {checked.calls} calls"
    if not checked.breaks:
        more = f"; {checked.archived} more are in archives" if checked.archived else ""
        return f'<p class="status">{_time(at)}: it holds ({about}{more}).</p>'
    listed = "".join(f"<li>{shown(one)}</li>" for one in checked.breaks[:100])
    return (
        f'<p class="status bad" role="alert">{_time(at)}: {len(checked.breaks)} problems ({about})</p>'
        f"<ul>{listed}</ul>"
    )


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]], none: str) -> str:
    lines = ["<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>" for row in rows]
    if not lines:
        return f"<p>{shown(none)}</p>"
    top = "".join(f"<th>{shown(head)}</th>" for head in heads)
    return f"<table><thead><tr>{top}</tr></thead><tbody>{''.join(lines)}</tbody></table>"


def _facts(facts: Iterable[tuple[str, str]]) -> str:
    rows = "".join(f"<tr><th>{shown(name)}</th><td>{value}</td></tr>" for name, value in facts)
    return f'<table class="facts">{rows}</table>'


def _count(rows: Sequence[object], limit: int) -> str:
    return str(len(rows)) if len(rows) <= limit else f"more than {limit}"


def _more(count: int, limit: int) -> str:
    return f"<p>{limit} are shown.</p>" if count > limit else ""


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
