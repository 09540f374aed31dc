"""A server with the part of the Hugging Face Hub's interface that reading files takes."""

from __future__ import annotations

import contextlib
import hashlib
import http.server
import json
import pathlib
import threading
import urllib.parse
from collections.abc import Iterator

_API, _FILES = "/api/datasets/org/name", "/datasets/org/name/resolve/main/"


class Hub(http.server.ThreadingHTTPServer):
    """Serves the files of a folder as the data set `org/name`.

    Attributes:
        endpoint: its address, for the environment variable `HF_ENDPOINT`.
        served: bytes of files that have been sent.
        requests: number of requests for parts of files; `on_request` is called at each.
    """

    def __init__(self, folder: pathlib.Path):
        super().__init__(("127.0.0.1", 0), _Handler)
        self.folder = folder
        self.endpoint = f"http://127.0.0.1:{self.server_port}"
        self.served = self.requests = 0
        self.on_request = lambda number: None

    def entry(self, path: pathlib.Path) -> dict:
        name = str(path.relative_to(self.folder))
        if path.is_dir():
            return {"type": "directory", "oid": "d" * 40, "size": 0, "path": name}
        content = path.read_bytes()
        lfs = {"oid": hashlib.sha256(content).hexdigest(), "size": len(content), "pointerSize": 130}
        return {"type": "file", "oid": "f" * 40, "size": len(content), "path": name, "lfs": lfs}


class _Handler(http.server.BaseHTTPRequestHandler):
    server: Hub

    def log_message(self, *arguments) -> None:
        pass

    def do_GET(self) -> None:
        path = urllib.parse.unquote(urllib.parse.urlparse(self.path).path)
        if path.startswith(f"{_API}/tree/main"):
            folder = self.server.folder / path.removeprefix(f"{_API}/tree/main").strip("/")
            if folder.is_dir():
                self._send_json([self.server.entry(each) for each in sorted(folder.iterdir())])
            else:
                self._send_json({"error": "no such folder"}, 404)
        elif path.startswith(_API):
            self._send_json({"id": "org/name", "sha": "a" * 40, "private": False, "tags": []})
        elif path.startswith(_FILES):
            self._send_file(self.server.folder / path.removeprefix(_FILES))
        else:
            self._send_json({"error": "not found"}, 404)

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        paths = urllib.parse.parse_qs(body).get("paths", [])
        found = [self.server.folder / path for path in paths]
        self._send_json([self.server.entry(path) for path in found if path.exists()])

    def _send_file(self, path: pathlib.Path) -> None:
        content = path.read_bytes()
        first, last = self.headers["Range"].removeprefix("bytes=").split("-")
        part = content[int(first) : int(last) + 1]
        self.server.requests += 1
        self.server.served += len(part)
        self.server.on_request(self.server.requests)
        self.send_response(206)
        self.send_header("Content-Range", f"bytes {first}-{last}/{len(content)}")
        self.send_header("Content-Length", str(len(part)))
        self.end_headers()
        with contextlib.suppress(ConnectionError):
            self.wfile.write(part)

    def _send_json(self, value, code: int = 200) -> None:
        content = json.dumps(value).encode()
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)


@contextlib.contextmanager
def serving(folder: pathlib.Path) -> Iterator[Hub]:
    """Serves a folder until the block ends."""
    with Hub(folder) as hub:
        threading.Thread(target=hub.serve_forever, daemon=True).start()
        yield hub
        hub.shutdown()
