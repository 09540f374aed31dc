"""A server with the part of the Hugging Face Hub's interface that reading files takes."""

import contextlib
import hashlib
import http.server
import json
import pathlib
import threading
import time
import urllib.parse
from collections.abc import Iterator

import pyarrow
from pyarrow import parquet

COMMIT = "a" * 40
BRANCHES = ("main", "refs/pr/1", "refs/convert/parquet")


class Hub(http.server.ThreadingHTTPServer):
    """Serves the files of a folder as one repository, at its only commit.

    Attributes:
        endpoint: its address, for the environment variable `HF_ENDPOINT`.
        served: bytes of files that have been sent.
        requests: number of requests for parts of files; `on_request` is called at each.
        pause_after: number of bytes after which an answer with part of a file breaks off, once this
            is 0 again; `paused` is set before.
        commit: the newest one, of all branches.
        refusal: code and `X-Error-Code` of all answers; None to serve.
    """

    def __init__(self, folder: pathlib.Path, repository: str):
        super().__init__(("127.0.0.1", 0), _Handler)
        self.folder = folder
        self.repository = repository
        self.endpoint = f"http://127.0.0.1:{self.server_port}"
        self.served = self.requests = 0
        self.on_request = lambda number: None
        self.pause_after = 0
        self.paused = threading.Event()
        self.commit = COMMIT
        self.refusal: tuple[int, str] | None = None

    @property
    def files(self) -> str:
        """The start of the paths of files; that of models has no kind."""
        return f"/{self.repository.removeprefix('models/')}/resolve/"

    def entry(self, path: pathlib.Path) -> dict:
        name = str(path.relative_to(self.folder))
        if path.is_dir():
            return {"type": "directory", "oid": "d" * 40, "size": 0, "path": name}
        content = path.read_bytes()
        lfs = {"oid": hashlib.sha256(content).hexdigest(), "size": len(content), "pointerSize": 130}
        return {"type": "file", "oid": "f" * 40, "size": len(content), "path": name, "lfs": lfs}

    def entries(self, folder: pathlib.Path, recursive: bool) -> list[dict]:
        paths = folder.rglob("*") if recursive else folder.iterdir()
        return [self.entry(path) for path in sorted(paths)]


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Hub

    def log_message(self, *arguments) -> None:
        pass

    def do_GET(self) -> None:
        address = urllib.parse.urlparse(self.path)
        path, query = urllib.parse.unquote(address.path), urllib.parse.parse_qs(address.query)
        api = f"/api/{self.server.repository}"
        if self.server.refusal:
            code, reason = self.server.refusal
            self._send_json({"error": reason}, code, {"X-Error-Code": reason})
        elif path.startswith(f"{api}/tree/"):
            _, _, below = path.removeprefix(f"{api}/tree/").partition("/")
            folder = self.server.folder / below
            if folder.is_dir():
                self._send_json(self.server.entries(folder, "recursive" in query))
            else:
                self._send_json({"error": "no such folder"}, 404)
        elif path.startswith(revision := f"{api}/revision/") and (
            path.removeprefix(revision) not in (*BRANCHES, self.server.commit)
        ):
            self._send_json({"error": "revision"}, 404, {"X-Error-Code": "RevisionNotFound"})
        elif path == api or path.startswith(f"{api}/"):
            self._send_json({
                "id": self.server.repository.partition("/")[2], "sha": self.server.commit,
                "private": False, "tags": [], "siblings": [{"rfilename": each["path"]} for each in
                self.server.entries(self.server.folder, True) if each["type"] == "file"],
            })  # fmt: skip
        elif path.startswith(self.server.files):
            _, _, name = path.removeprefix(self.server.files).partition("/")
            self._send_file(self.server.folder / name)
        else:
            self._send_json({"error": "not found"}, 404, {"X-Error-Code": "RepoNotFound"})

    do_HEAD = do_GET

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        paths = urllib.parse.parse_qs(body).get("paths", [])
        found = [self.server.folder / path for path in paths]
        self._send_json([self.server.entry(path) for path in found if path.exists()])

    def _send_file(self, path: pathlib.Path) -> None:
        content = path.read_bytes()
        first, _, last = self.headers.get("Range", "bytes=0-").removeprefix("bytes=").partition("-")
        part = content[int(first) : int(last) + 1 if last else len(content)]
        if self.command == "GET":
            self.server.requests += 1
            self.server.on_request(self.server.requests)
        self.send_response(206 if "Range" in self.headers else 200)
        self.send_header("ETag", f'"{hashlib.sha256(content).hexdigest()}"')
        self.send_header("X-Repo-Commit", self.server.commit)
        end = int(first) + len(part) - 1
        self.send_header("Content-Range", f"bytes {first}-{end}/{len(content)}")
        self.send_header("Content-Length", str(len(part)))
        self.end_headers()
        if self.command == "GET":
            with contextlib.suppress(ConnectionError):
                self._write(part)

    def _write(self, part: bytes) -> None:
        if 0 < self.server.pause_after < len(part):
            self.server.served += self.server.pause_after
            self.wfile.write(part[: self.server.pause_after])
            self.server.paused.set()
            while self.server.pause_after:
                time.sleep(0.01)
            self.close_connection = True
            return
        self.server.served += len(part)
        self.wfile.write(part)

    def _send_json(self, value, code: int = 200, headers: dict | None = None) -> None:
        content = json.dumps(value).encode()
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        for name, text in (headers or {}).items():
            self.send_header(name, text)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)


@contextlib.contextmanager
def serving(folder: pathlib.Path, repository: str = "datasets/org/name") -> Iterator[Hub]:
    """Serve a folder as a repository, such as "models/org/name", until the block ends."""
    with Hub(folder, repository) as hub:
        threading.Thread(target=hub.serve_forever, args=[0.02], daemon=True).start()
        yield hub
        hub.shutdown()


def write_parquet(path: pathlib.Path, rows: list[dict], **types: pyarrow.DataType) -> None:
    """Write rows as a Parquet file; `types` are those of some columns."""
    path.parent.mkdir(parents=True, exist_ok=True)
    table = pyarrow.Table.from_pylist(rows)
    for name, type in types.items():
        index = table.column_names.index(name)
        table = table.set_column(index, name, table[name].cast(type))
    parquet.write_table(table, path)
