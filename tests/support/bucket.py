"""A server on 127.0.0.1 with one bucket in memory, in the JSON protocol of Google Cloud Storage.

It knows what gcsfs and tensorstore use: ranges, listings in pages, uploads of three kinds, copies,
generations and preconditions. Source: https://cloud.google.com/storage/docs/json_api/v1/objects.

    with Bucket() as bucket:
        subprocess.run([...], env={**os.environ, **bucket.environment})

    python -m tests.support.bucket 9000          # until it is interrupted; prints the environment
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import itertools
import json
import re
import sys
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, unquote, urlsplit

import google_crc32c


class Object(NamedTuple):
    content: bytes
    generation: int


class Request(NamedTuple):
    """What arrived: `name` is that of the object, or the prefix of a listing."""

    method: str
    name: str
    sent: int
    received: int
    status: int


class Answer(NamedTuple):
    status: int
    body: bytes = b""
    headers: dict[str, str] = {}


def _json(value: Any, status: int = 200) -> Answer:
    return Answer(status, json.dumps(value).encode(), {"Content-Type": "application/json"})


def error(status: int, message: str) -> Answer:
    return _json({"error": {"code": status, "message": message}}, status)


class Bucket:
    """A bucket `gs://NAME`.

    Attributes:
        objects: by name.
        requests: what arrived so far.
        fault: called with method and address of a request; an answer takes the place of its own.
        delay: seconds by which answers come later.
    """

    def __init__(self, name: str = "bucket", port: int = 0):
        self.name = name
        self.objects: dict[str, Object] = {}
        self.requests: list[Request] = []
        self.fault: Callable[[str, str], Answer | None] = lambda method, address: None
        self.delay = 0.0
        self._lock = threading.Lock()
        self._generations = itertools.count(1)
        self._uploads: dict[str, tuple[dict[str, str], bytearray]] = {}
        self._server = _Server(("127.0.0.1", port), type("Handler", (_Handler,), {"bucket": self}))
        self.address = f"http://127.0.0.1:{self._server.server_port}"

    @property
    def environment(self) -> dict[str, str]:
        """What programs need to know of it."""
        return {"STORAGE_EMULATOR_HOST": self.address}

    def __enter__(self) -> Bucket:
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def put(self, name: str, content: bytes) -> None:
        self.objects[name] = Object(content, next(self._generations))

    def answer(self, method: str, address: str, headers: Any, body: bytes) -> Answer:
        url = urlsplit(address)
        query = dict(parse_qsl(url.query, keep_blank_values=True))
        upload, bucket, name, action = re.fullmatch(
            r"(?:/download|(/upload))?/storage/v1/b/([^/]+)(?:/o(?:/([^/]+)(?:/(.+))?)?)?", url.path
        ).groups()
        if bucket != self.name:
            return error(404, "The specified bucket does not exist.")
        with self._lock:
            if upload:
                return self._upload(query, headers, body)
            if name is None:
                is_listing = url.path.endswith("/o")
                return self._listing(query) if is_listing else _json({"name": bucket})
            name = unquote(name)
            found = self.objects.get(name)
            if found is None:
                return error(404, f"No such object: {bucket}/{name}")
            if action:
                target = unquote(action.rpartition("/o/")[2])
                copied = self._put(target, found.content, query)
                return _json({"done": True, "resource": json.loads(copied.body)})
            if int(query.get("ifGenerationMatch", found.generation)) != found.generation:
                return error(412, "At least one of the pre-conditions did not hold.")
            if method == "DELETE":
                del self.objects[name]
                return Answer(204)
            if query.get("ifGenerationNotMatch") == str(found.generation):
                return Answer(304)
            if query.get("alt") != "media":
                return _json(self._description(name, found))
            return self._content(found, headers.get("Range"))

    def _description(self, name: str, found: Object) -> dict[str, str]:
        crc = google_crc32c.value(found.content).to_bytes(4, "big")
        return {
            "name": name,
            "bucket": self.name,
            "size": str(len(found.content)),
            "generation": str(found.generation),
            "metageneration": "1",
            "crc32c": base64.b64encode(crc).decode(),
            "md5Hash": base64.b64encode(hashlib.md5(found.content).digest()).decode(),
            "etag": str(found.generation),
        }

    def _content(self, found: Object, wanted: str | None) -> Answer:
        size = len(found.content)
        headers = {"x-goog-generation": str(found.generation)}
        if wanted is None:
            return Answer(200, found.content, headers)
        first, last = re.fullmatch(r"bytes=(\d*)-(\d*)", wanted).groups()
        start = int(first) if first else max(0, size - int(last))
        end = min(int(last), size - 1) if first and last else size - 1
        if start >= size:
            return Answer(416)
        headers["Content-Range"] = f"bytes {start}-{end}/{size}"
        return Answer(206, found.content[start : end + 1], headers)

    def _listing(self, query: dict[str, str]) -> Answer:
        prefix, delimiter = query.get("prefix", ""), query.get("delimiter")
        begin, end = query.get("startOffset", ""), query.get("endOffset", "\U0010ffff")
        entries: dict[str, dict[str, str] | None] = {}  # None for a folder
        for name in sorted(self.objects):
            if name.startswith(prefix) and begin <= name < end:
                folder, found, _ = name[len(prefix) :].partition(delimiter or "\0")
                if found:
                    entries[f"{prefix}{folder}{delimiter}"] = None
                else:
                    entries[name] = self._description(name, self.objects[name])
        rest = [entry for entry in entries if entry > query.get("pageToken", "")]
        page = rest[: int(query.get("maxResults", 1000))]
        return _json(
            {
                "items": [entries[name] for name in page if entries[name]],
                "prefixes": [name for name in page if not entries[name]],
                **({"nextPageToken": page[-1]} if len(page) < len(rest) else {}),
            }
        )

    def _upload(self, query: dict[str, str], headers: Any, body: bytes) -> Answer:
        kind = query["uploadType"]
        if kind == "media":
            return self._put(query["name"], body, query)
        if kind == "multipart":
            boundary = re.search(r'boundary="?([^";]+)', headers["Content-Type"])[1].encode()
            newline = b"\r\n" if body.startswith(b"--" + boundary + b"\r\n") else b"\n"
            _, *parts, _ = (newline + body).split(newline + b"--" + boundary)
            description, content = (part.split(2 * newline, maxsplit=1)[1] for part in parts)
            return self._put(json.loads(description)["name"], content, query)
        if "upload_id" not in query:
            number = str(next(self._generations))
            name = query.get("name") or json.loads(body)["name"]
            self._uploads[number] = ({**query, "name": name}, bytearray())
            place = f"/upload/storage/v1/b/{self.name}/o?uploadType=resumable&upload_id={number}"
            return Answer(200, b"", {"Location": self.address + place})
        described, content = self._uploads[query["upload_id"]]
        first, total = re.match(r"bytes (\d+|\*).*/(.+)", headers["Content-Range"]).groups()
        if first != "*":
            content[int(first) :] = body
        if str(len(content)) == total:
            return self._put(described["name"], bytes(content), described)
        return Answer(308, b"", {"Range": f"bytes=0-{len(content) - 1}"} if content else {})

    def _put(self, name: str, content: bytes, query: dict[str, str]) -> Answer:
        found = self.objects.get(name)
        generation = found.generation if found else 0
        if int(query.get("ifGenerationMatch", generation)) != generation:
            return error(412, "At least one of the pre-conditions did not hold.")
        self.put(name, content)
        return _json(self._description(name, self.objects[name]))


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 256

    def handle_error(self, request: object, client_address: object) -> None:
        """Prints nothing of clients that were killed."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1  # one packet for an answer
    bucket: Bucket

    def _answer(self) -> None:
        body = self._body()
        time.sleep(self.bucket.delay)
        answer = self.bucket.fault(self.command, unquote(self.path))
        answer = answer or self.bucket.answer(self.command, self.path, self.headers, body)
        found = re.search(r"/o/([^/?]+)|[?&](?:name|prefix)=([^&]*)", self.path)
        name = unquote(found[1] or found[2] or "") if found else ""
        received = Request(self.command, name, len(answer.body), len(body), answer.status)
        self.bucket.requests.append(received)
        with contextlib.suppress(ConnectionError):
            self.send_response_only(answer.status)
            for key, value in {**answer.headers, "Content-Length": str(len(answer.body))}.items():
                self.send_header(key, value)
            self.end_headers()
            self.wfile.write(answer.body)
            self.wfile.flush()

    def _body(self) -> bytes:
        if self.headers.get("Transfer-Encoding") != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length", 0)))
        content = bytearray()
        while size := int(self.rfile.readline(), 16):
            content += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return bytes(content)

    do_GET = do_POST = do_PUT = do_DELETE = _answer

    def log_message(self, *arguments: object) -> None:
        """Prints nothing."""


if __name__ == "__main__":
    with Bucket(port=int(sys.argv[1])) as bucket:
        print(*(f"{name}={value}" for name, value in bucket.environment.items()), flush=True)
        threading.Event().wait()
