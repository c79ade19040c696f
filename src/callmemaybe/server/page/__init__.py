"""The playground, the viewer of traces and the audit: pages without build step, each one text.

``view.js`` shows a run, ``playground.js`` makes one on the server, ``viewer.js`` takes those of a
trace file; a page is its HTML with the style and the scripts put in. A page asks for nothing but
the server it came from, and its security policy says so.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

_POLICY = (
    "default-src 'none'; script-src {scripts}; style-src {style}; img-src data:; "
    "connect-src {connect}; base-uri 'none'; form-action 'none'"
)
_HEADERS = {"x-content-type-options": "nosniff", "cache-control": "no-store"}


@dataclass(frozen=True)
class Page:
    """A page and the headers it is to be sent with."""

    text: str
    headers: Mapping[str, str]


def playground(
    model: str, *, needs_key: bool, has_steps: bool = True, reads_images: bool = False
) -> Page:
    """Return the playground of a server; ``has_steps``: it can tell the tokens of its model."""
    told = {"model": model, "needsKey": needs_key, "steps": has_steps, "pictures": reads_images}
    text, policy = _assemble("playground.html", ["view.js", "playground.js"], told, "'self'", {})
    headers = {
        **_HEADERS,
        "content-security-policy": policy + "; frame-ancestors 'none'",
        "referrer-policy": "no-referrer",
    }
    return Page(text, headers)


def viewer(runs: Sequence[Mapping[str, Any]], *, title: str) -> str:
    """Return a page that shows the runs of a trace; it stands alone, in one file.

    Each run has ``request``, ``steps`` (as traces write them) and ``end`` (None where there is none).
    """
    names = {"title": title}
    return _assemble("viewer.html", ["view.js", "viewer.js"], {"runs": runs}, "'none'", names)[0]


def sheet(title: str, body: str, *, refresh: bool = False) -> Page:
    """Return a page without scripts; ``body`` is HTML, and its forms may go to the server it came from.

    ``refresh``: the browser loads it again every 30 s.
    """
    style = _read("view.css") + _read("audit.css")
    policy = (
        f"default-src 'none'; style-src {_digest(style)}; img-src data:; base-uri 'none'; "
        "form-action 'self'; frame-ancestors 'none'"
    )
    marks = {
        "TITLE": html.escape(title), "STYLE": style, "BODY": body,
        "REFRESH": '<meta http-equiv="refresh" content="30">' if refresh else "",
    }  # fmt: skip
    # With "no-referrer" a browser would not say where a form comes from.
    headers = {
        **_HEADERS, "content-security-policy": policy, "referrer-policy": "same-origin",
        "x-frame-options": "DENY", "cross-origin-opener-policy": "same-origin",
    }  # fmt: skip
    return Page(_filled("audit.html", marks), headers)


def _filled(name: str, marks: Mapping[str, str]) -> str:
    # One pass, so that nothing that is put in is taken for a mark.
    parts = _read(name).split("@@")
    parts[1::2] = [marks[part] for part in parts[1::2]]
    return "".join(parts)


def _assemble(
    name: str, scripts: Sequence[str], told: Any, connect: str, names: Mapping[str, str]
) -> tuple[str, str]:
    """Return a page with everything in it, and the policy that lets in exactly that."""
    style = _read("view.css")
    code = "\n".join(map(_read, scripts))
    policy = _POLICY.format(scripts=_digest(code), style=_digest(style), connect=connect)
    marks = {
        "POLICY": policy, "STYLE": style, "SCRIPT": code, "DATA": _embedded(told),
        **{key.upper(): html.escape(value) for key, value in names.items()},
    }  # fmt: skip
    return _filled(name, marks), policy


def _embedded(value: Any) -> str:
    """Write JSON that can stand inside a script element, whatever strings it holds."""
    text = json.dumps(value, ensure_ascii=True, allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _digest(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _read(name: str) -> str:
    return files(__name__).joinpath(name).read_text(encoding="utf-8")
