"""A server on 127.0.0.1 with one bucket in memory, in the JSON protocol of Google Cloud Storage.

It knows what gcsfs and tensorstore use: ranges, listings in pages, uploads of three kinds, copies,
generations and preconditions. Source: https://cloud.google.com/storage/docs/json_api/v1/objects.

    with Bucket() as bucket:
        subprocess.run([...], env={**os.environ, "STORAGE_EMULATOR_HOST": bucket.address})

    python -m tests.support.bucket 9000          # until it is interrupted
"""

import asyncio
import base64
import hashlib
import importlib
import importlib.util
import itertools
import json
import re
import sys
import threading
from collections.abc import Callable, Coroutine
from typing import Any, NamedTuple
from urllib.parse import unquote

import google_crc32c
import pytest

if importlib.util.find_spec("gcsfs") is None:  # with which aiohttp comes
    pytest.skip("gcsfs is not installed (the extra `gcs`)", allow_module_level=True)
web = importlib.import_module("aiohttp.web")

_NAME = "bucket"
_PATH = re.compile(r"(?:/download|(/upload))?/storage/v1/b/([^/]+)(/o)?(?:/([^/]+)(?:/(.+))?)?")


class Object(NamedTuple):
    content: bytes
    generation: int


class Request(NamedTuple):
    """What arrived: `name` is that of the object, or the prefix of a listing."""

    method: str
    name: str
    sent: int
    status: int


def error(status: int, message: str) -> web.Response:
    return web.json_response({"error": {"code": status, "message": message}}, status=status)


class Bucket:
    """The bucket `gs://bucket`.

    Attributes:
        objects: by name.
        requests: what arrived so far.
        fault: called with method and address of a request; an answer takes the place of its own.
    """

    def __init__(self, port: int = 0):
        self.objects: dict[str, Object] = {}
        self.requests: list[Request] = []
        self.fault: Callable[[str, str], web.Response | None] = lambda method, address: None
        self._port = port
        self._generations = itertools.count(1)
        self._uploads: dict[str, tuple[dict[str, str], bytearray]] = {}
        self._loop = asyncio.new_event_loop()

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    def __enter__(self) -> "Bucket":
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._run(self._start())
        return self

    def __exit__(self, *exception: object) -> None:
        self._run(self._runner.cleanup())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _run(self, action: Coroutine) -> None:
        asyncio.run_coroutine_threadsafe(action, self._loop).result()

    async def _start(self) -> None:
        self._runner = web.ServerRunner(web.Server(self._serve, access_log=None))
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", self._port).start()
        self._port = self._runner.addresses[0][1]

    def put(self, name: str, content: bytes) -> None:
        self.objects[name] = Object(content, next(self._generations))

    async def _serve(self, request: web.BaseRequest) -> web.Response:
        body = await request.read()
        answer = self.fault(request.method, unquote(request.raw_path))
        answer = answer or self._answer(request, body)
        found = re.search(r"/o/([^/?]+)|[?&](?:name|prefix)=([^&]*)", request.raw_path)
        name = unquote(found[1] or found[2] or "") if found else ""
        sent = len(answer.body or b"")
        self.requests.append(Request(request.method, name, sent, answer.status))
        return answer

    def _answer(self, request: web.BaseRequest, body: bytes) -> web.Response:
        query = dict(request.query)
        upload, bucket, objects, name, action = _PATH.fullmatch(request.rel_url.raw_path).groups()
        if bucket != _NAME:
            return error(404, "The specified bucket does not exist.")
        if upload:
            return self._upload(query, request.headers, body)
        if name is None:
            return self._listing(query) if objects else web.json_response({"name": bucket})
        name = unquote(name)
        found = self.objects.get(name)
        if found is None:
            return error(404, f"No such object: {bucket}/{name}")
        if action:
            copied = self._put(unquote(action.rpartition("/o/")[2]), found.content, query)
            return web.json_response({"done": True, "resource": json.loads(copied.text)})
        if int(query.get("ifGenerationMatch", found.generation)) != found.generation:
            return error(412, "At least one of the pre-conditions did not hold.")
        if request.method == "DELETE":
            del self.objects[name]
            return web.Response(status=204)
        if query.get("ifGenerationNotMatch") == str(found.generation):
            return web.Response(status=304)
        if query.get("alt") != "media":
            return web.json_response(self._description(name))
        headers, size = {"x-goog-generation": str(found.generation)}, len(found.content)
        if "Range" not in request.headers:
            return web.Response(body=found.content, headers=headers)
        start, end, _ = request.http_range.indices(size)
        if start >= size:
            return web.Response(status=416)
        headers["Content-Range"] = f"bytes {start}-{end - 1}/{size}"
        return web.Response(status=206, body=found.content[start:end], headers=headers)

    def _description(self, name: str) -> dict[str, str]:
        content, generation = self.objects[name]
        crc = google_crc32c.value(content).to_bytes(4, "big")
        return {
            "name": name,
            "bucket": _NAME,
            "size": str(len(content)),
            "generation": str(generation),
            "metageneration": "1",
            "crc32c": base64.b64encode(crc).decode(),
            "md5Hash": base64.b64encode(hashlib.md5(content).digest()).decode(),
            "etag": str(generation),
        }

    def _listing(self, query: dict[str, str]) -> web.Response:
        prefix, delimiter = query.get("prefix", ""), query.get("delimiter")
        begin, end = query.get("startOffset", ""), query.get("endOffset", "\U0010ffff")
        entries: dict[str, dict[str, str] | None] = {}  # None for a folder
        for name in sorted(self.objects):
            if name.startswith(prefix) and begin <= name < end:
                folder, found, _ = name[len(prefix) :].partition(delimiter or "\0")
                if found:
                    entries[f"{prefix}{folder}{delimiter}"] = None
                else:
                    entries[name] = self._description(name)
        rest = [entry for entry in entries if entry > query.get("pageToken", "")]
        page = rest[: int(query.get("maxResults", 1000))]
        return web.json_response(
            {
                "items": [entries[name] for name in page if entries[name]],
                "prefixes": [name for name in page if not entries[name]],
                **({"nextPageToken": page[-1]} if len(page) < len(rest) else {}),
            }
        )

    def _upload(self, query: dict[str, str], headers: Any, body: bytes) -> web.Response:
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
            place = f"/upload/storage/v1/b/{_NAME}/o?uploadType=resumable&upload_id={number}"
            return web.Response(headers={"Location": self.address + place})
        described, content = self._uploads[query["upload_id"]]
        first, total = re.match(r"bytes (\d+|\*).*/(.+)", headers["Content-Range"]).groups()
        if first != "*":
            content[int(first) :] = body
        if str(len(content)) == total:
            return self._put(described["name"], bytes(content), described)
        received = {"Range": f"bytes=0-{len(content) - 1}"} if content else {}
        return web.Response(status=308, headers=received)

    def _put(self, name: str, content: bytes, query: dict[str, str]) -> web.Response:
        found = self.objects.get(name)
        generation = found.generation if found else 0
        if int(query.get("ifGenerationMatch", generation)) != generation:
            return error(412, "At least one of the pre-conditions did not hold.")
        self.put(name, content)
        return web.json_response(self._description(name))


if __name__ == "__main__":
    with Bucket(port=int(sys.argv[1])):
        threading.Event().wait()
