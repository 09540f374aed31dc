"""A server of archives, as the hosts of published weights answer: ranges, tags, checksums."""

import base64
import contextlib
import http.server
import threading
import time
from collections.abc import Callable, Iterator

import google_crc32c

from tests.conftest import refusal


def error_of(fetch: Callable[[str], object], name: str) -> str:
    """Return the one line in which a name for `init_checkpoint` is refused."""
    message = refusal(fetch, name)
    assert message.startswith(f"`init_checkpoint`={name}: ")
    return message


class Archives(http.server.ThreadingHTTPServer):
    """Serves files under `/HOST/PATH`, for the environment variable `ALBERT_TF_MIRROR`.

    Attributes:
        files: "host/path" -> content.
        address: of the server.
        requests: the path and the `Range` of every request.
        break_after: number of bytes after which `breaks` answers break off; 0 for never.
        pause_after: number of bytes after which an answer pauses; `paused` is set then.
        ranges: whether parts of files are served.
        tag: the `ETag` of all files.
        checksum: the CRC-32C of all files; "" for the right one.
    """

    def __init__(self, files: dict[str, bytes]):
        super().__init__(("127.0.0.1", 0), _Handler)
        self.files = files
        self.address = f"http://127.0.0.1:{self.server_port}"
        self.requests: list[tuple[str, str | None]] = []
        self.break_after = self.pause_after = 0
        self.breaks = 1
        self.paused = threading.Event()
        self.ranges = True
        self.tag = '"one"'
        self.checksum = ""


class _Handler(http.server.BaseHTTPRequestHandler):
    server: Archives

    def log_message(self, *arguments) -> None:
        pass

    def do_GET(self) -> None:
        server = self.server
        name, wanted = self.path.lstrip("/"), self.headers["Range"]
        server.requests.append((name, wanted))
        content = server.files.get(name)
        if content is None:
            self.send_error(404)
            return
        start = 0
        if wanted and server.ranges and self.headers["If-Range"] in (None, server.tag):
            start = int(wanted.removeprefix("bytes=").partition("-")[0])
        self.send_response(206 if start else 200)
        if start:
            self.send_header("Content-Range", f"bytes {start}-{len(content) - 1}/{len(content)}")
        crc = google_crc32c.Checksum(content).digest()
        self.send_header(
            "x-goog-hash", f"crc32c={server.checksum or base64.b64encode(crc).decode()}"
        )
        self.send_header("ETag", server.tag)
        self.send_header("Content-Length", str(len(content) - start))
        self.end_headers()
        part = content[start:]
        if server.break_after and server.breaks:
            part = part[: server.break_after]
            server.breaks -= 1
        with contextlib.suppress(ConnectionError):
            if server.pause_after:
                self.wfile.write(part[: server.pause_after])
                self.wfile.flush()
                server.paused.set()
                while server.pause_after:
                    time.sleep(0.01)
                return
            self.wfile.write(part)


@contextlib.contextmanager
def serving(files: dict[str, bytes]) -> Iterator[Archives]:
    """Serve files until the block ends."""
    with Archives(files) as server:
        threading.Thread(target=server.serve_forever, args=[0.02], daemon=True).start()
        yield server
        server.pause_after = 0
        server.shutdown()
