"""A hub of our own: the few routes that huggingface_hub asks, served from memory.

Run as a program by the tests, because huggingface_hub reads its address once, when imported.
"""

from __future__ import annotations

import hashlib
import json
import sys
import threading
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

COMMIT = "0123456789abcdef0123456789abcdef01234567"


class Hub:
    """Serves one repository ``org/tiny``; ``org/gated`` is gated, all else unknown."""

    def __init__(self, folder: Path) -> None:
        self.files = {
            path.relative_to(folder).as_posix(): path.read_bytes()
            for path in folder.rglob("*")
            if path.is_file()
        }
        self.downloaded: list[str] = []
        hub = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                hub.answer(self, body=True)

            def do_HEAD(self) -> None:
                hub.answer(self, body=False)

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self.server.server_port}"

    def answer(self, request: BaseHTTPRequestHandler, *, body: bool) -> None:
        """Answer one request of the client."""
        path = request.path.split("?")[0]
        if "/org/gated" in path:
            self.send(request, 403, b"{}", {"X-Error-Code": "GatedRepo"}, body=body)
        elif path.startswith("/api/models/org/tiny"):
            siblings = [{"rfilename": name} for name in self.files]
            info: object = {"id": "org/tiny", "sha": COMMIT, "siblings": siblings}
            if "/tree/" in path:
                info = [
                    {"type": "file", "path": name, "size": len(data), "oid": COMMIT}
                    for name, data in self.files.items()
                ]
            self.send(request, 200, json.dumps(info).encode(), {}, body=body)
        elif path.startswith("/org/tiny/resolve/"):
            name = path.split("/", 5)[5]
            data = self.files[name]
            if body:
                self.downloaded.append(name)
            tag = hashlib.sha256(data).hexdigest()
            self.send(request, 200, data, {"ETag": f'"{tag}"', "X-Repo-Commit": COMMIT}, body=body)
        else:
            self.send(request, 404, b"{}", {"X-Error-Code": "RepoNotFound"}, body=body)

    def send(
        self,
        request: BaseHTTPRequestHandler,
        status: int,
        data: bytes,
        headers: Mapping[str, str],
        *,
        body: bool,
    ) -> None:
        """Write a response."""
        request.send_response(status)
        for name, value in {"Content-Type": "application/json", **headers}.items():
            request.send_header(name, value)
        request.send_header("Content-Length", str(len(data)))
        request.end_headers()
        if body:
            request.wfile.write(data)


def main() -> None:
    """Load each argument, a name or the arguments of ``load`` as JSON; print a JSON object a line."""
    from callmemaybe import models
    from callmemaybe.errors import ModelError

    for argument in sys.argv[1:]:
        options = json.loads(argument) if argument.startswith("{") else {"name": argument}
        try:
            model = models.load(**options)
        except ModelError as error:
            print(json.dumps({"error": str(error)}))
        else:
            logits = model.open().feed([1, 2, 3])
            print(json.dumps({"size": model.size, "logits": logits.sum().item()}))


if __name__ == "__main__":
    main()
