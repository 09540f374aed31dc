"""Archives by name: fetched once, resumed, checked, and errors that name the way around.

Untrusted ones are unpacked as they are, or refused before anything is written.
"""

import concurrent.futures
import gzip
import io
import json
import logging
import os
import pathlib
import stat
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterator

import pytest

from albert_tf.errors import InputError
from albert_tf.files import sha256_of
from albert_tf.hub import archives
from albert_tf.hub.archives import unpack
from albert_tf.hub.names import Origin, find_archive, local_weights, source_of
from tests.conftest import ROOT, refusal
from tests.support.servers import Archives, error_of, serving

FILES = {"albert_base/albert_config.json": b"{}", "albert_base/model.ckpt": os.urandom(100_000)}


def tar(*members: tuple[tarfile.TarInfo, bytes]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for info, content in members:
            info.size = info.size or len(content)
            archive.addfile(info, io.BytesIO(content))
    return buffer.getvalue()


def member(name: str, kind: bytes = tarfile.REGTYPE, link: str = "") -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, link
    return info


def zipped(*members: tuple[str | zipfile.ZipInfo, bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members:
            archive.writestr(name, content)
    return buffer.getvalue()


def zip_link() -> bytes:
    info = zipfile.ZipInfo("a/link")
    info.external_attr = (stat.S_IFLNK | 0o777) << 16
    return zipped((info, b"/etc/passwd"))


GOOD_TAR = tar(
    (member(".", tarfile.DIRTYPE), b""), *((member(f"./{n}"), c) for n, c in FILES.items())
)


@pytest.mark.parametrize(
    "content", [GOOD_TAR, gzip.compress(GOOD_TAR), zipped(*FILES.items(), ("__MACOSX/._x", b"y"))]
)
def test_files_are_unpacked(content, tmp_path):
    (tmp_path / "archive").write_bytes(content)
    unpack(str(tmp_path / "archive"), str(tmp_path / "out"), {"note": "text"})
    found = {
        str(path.relative_to(tmp_path / "out")): path.read_bytes()
        for path in (tmp_path / "out").rglob("*")
        if path.is_file()
    }
    assert found == {**FILES, "note": b"text"}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["archive", "out"]


STORED_ZIP = zipped((zipfile.ZipInfo("a"), b"text"))  # not compressed
BIG_HEADER = tar((member("x" * 3_000_000), b""))
HOSTILE = {
    "slip": (tar((member("../x"), b"y")), "'../x', which is not a name inside"),
    "deep slip": (tar((member("a/../../x"), b"y")), "not a name inside"),
    "absolute": (tar((member("/tmp/x"), b"y")), "not a name inside"),
    "control": (tar((member("a\x1b[2J"), b"y")), "not a name inside"),
    "symlink": (tar((member("a", tarfile.SYMTYPE, "/etc"), b"")), "'a', a link"),
    "hard link": (tar((member("a", tarfile.LNKTYPE, "/etc/passwd"), b"")), "'a', a link"),
    "device": (tar((member("a", tarfile.CHRTYPE), b"")), "a link, a device"),
    "twice": (tar((member("a"), b"1"), (member("a"), b"2")), "'a' twice"),
    "file as folder": (tar((member("a"), b"1"), (member("a/b"), b"2")), "'a/b' twice"),
    "many": (tar(*((member(f"{n}"), b"") for n in range(1001))), "more than 1,000 files"),
    "bomb": (gzip.compress(tar((member("a"), bytes(5_000_000)))), "more than 4,000,000 bytes"),
    "long header": (gzip.compress(BIG_HEADER), "header of more than"),
    "empty": (tar(), "contains no files"),
    "no archive": (b"<html>Not found</html>" * 100, "damaged"),
    "cut tar": (GOOD_TAR[:60_000], "damaged"),
    "cut gzip": (gzip.compress(GOOD_TAR)[:-4], "damaged"),
    "changed gzip": (gzip.compress(GOOD_TAR)[:-8] + bytes(8), "damaged"),
    "zip slip": (zipped(("../x", b"y")), "not a name inside"),
    "zip link": (zip_link(), "'a/link', a link"),
    "zip bomb": (zipped(("a", bytes(5_000_000))), "more than 4,000,000 bytes"),
    "cut zip": (zipped(*FILES.items())[:-10], "damaged"),
    "changed zip": (STORED_ZIP.replace(b"text", b"TEXT"), "damaged"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_or_damaged_archive_leaves_nothing(name, tmp_path):
    content, message = HOSTILE[name]
    (tmp_path / "archive").write_bytes(content)
    out = tmp_path / "inner" / "out"
    out.parent.mkdir()
    found = refusal(unpack, str(tmp_path / "archive"), str(out), largest_size=4_000_000)
    assert found.startswith(f"{tmp_path}/archive: ")
    assert message in found
    assert not list(out.parent.iterdir())
    assert sorted(path.name for path in tmp_path.iterdir()) == ["archive", "inner"]


def test_a_full_disk_is_noticed_before_anything_is_written(tmp_path, monkeypatch):
    (tmp_path / "archive").write_bytes(GOOD_TAR)
    usage = archives.shutil.disk_usage(tmp_path)._replace(free=99_999)
    monkeypatch.setattr(archives.shutil, "disk_usage", lambda path: usage)
    with pytest.raises(InputError, match="unpacks to 100,002 bytes, but only 99,999 are free"):
        unpack(str(tmp_path / "archive"), str(tmp_path / "out"))
    assert [path.name for path in tmp_path.iterdir()] == ["archive"]


def test_what_follows_the_files_is_not_read_to_its_end(tmp_path, monkeypatch):
    """40 KB of gzip for 40 MB of zeros after the last file, where a reader expects a few."""
    monkeypatch.setattr(archives, "MOST_FILES", 1)
    path = pathlib.Path(tmp_path / "archive")
    path.write_bytes(gzip.compress(tar((member("a"), b"b")) + bytes(40_000_000)))
    with pytest.raises(InputError, match=r"unpacks to more than 1,049,\d\d\d bytes"):
        unpack(str(path), str(tmp_path / "out"), largest_size=1000)
    assert [path.name for path in tmp_path.iterdir()] == ["archive"]


WEIGHTS = os.urandom(3_000_000)
NAME = "albert_base_v2"
ADDRESS = "storage.googleapis.com/albert_models/albert_base_v2.tar.gz"


def archive(*files: tuple[str, bytes]) -> bytes:
    return gzip.compress(tar(*((member(name), content) for name, content in files)), 1)


ARCHIVE = archive(("albert_base/albert_config.json", b"{}"), ("albert_base/model", WEIGHTS))


@pytest.fixture
def server(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Archives]:
    """Yield a mirror with one archive, and an empty cache, which is the current folder too."""
    monkeypatch.setenv("ALBERT_TF_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    monkeypatch.chdir(tmp_path)
    with serving({ADDRESS: ARCHIVE}) as server:
        monkeypatch.setenv("ALBERT_TF_MIRROR", server.address)
        yield server


def fetch(name: str = NAME) -> pathlib.Path:
    return pathlib.Path(local_weights(name, argument="init_checkpoint"))


def names_in(folder: pathlib.Path) -> list[str]:
    return sorted(p.name for p in folder.iterdir() if not p.name.endswith(".lock"))


@pytest.mark.parametrize("name", ["albert_base_v2", "albert_base_v2.tar.gz", f"https://{ADDRESS}"])
def test_an_archive_is_fetched_once(server, name, tmp_path, caplog):
    caplog.set_level(logging.INFO)
    folder = fetch(name)
    assert folder == tmp_path / "cache" / "albert_base_v2" / "albert_base"
    assert (folder / "model").read_bytes() == WEIGHTS
    assert fetch(name) == folder
    assert len(server.requests) == 1
    assert names_in(tmp_path / "cache") == ["albert_base_v2"]
    (tmp_path / "a").write_bytes(ARCHIVE)
    revision = f"SHA-256 {sha256_of(str(tmp_path / 'a'))}"
    source = Origin(name, f"https://{ADDRESS}", revision)
    assert source_of(str(folder / "model.ckpt-best")) == source
    assert f"{name}: https://{ADDRESS}, {revision}, in " in caplog.text


def test_a_local_path_wins(server, caplog):
    caplog.set_level(logging.INFO)
    os.mkdir("albert_base_v2")
    assert fetch() == pathlib.Path("albert_base_v2")
    assert "albert_base_v2: the local path, not the published weights" in caplog.text
    assert server.requests == []


@pytest.mark.parametrize("ranges", [True, False])
def test_a_connection_that_breaks_is_resumed(server, ranges):
    server.break_after, server.ranges = 1_000_000, ranges
    assert (fetch() / "model").read_bytes() == WEIGHTS
    assert [wanted for _, wanted in server.requests] == [None, "bytes=1000000-"]


def test_a_server_that_always_breaks_off_is_left_for_later(server, monkeypatch):
    monkeypatch.setattr(archives, "_PAUSE_SECONDS", 0)
    server.break_after, server.breaks = 500_000, 3
    message = error_of(fetch, NAME)
    assert f"broke after 1,500,000 of {len(ARCHIVE):,} bytes; what was received is kept" in message
    assert (fetch() / "model").read_bytes() == WEIGHTS
    assert server.requests[-1][1] == "bytes=1500000-"


@pytest.mark.integration
def test_a_killed_process_leaves_what_the_next_one_resumes(server, tmp_path):
    server.pause_after = 2_000_000
    program = (
        "from albert_tf.hub.names import local_weights; "
        "local_weights('albert_base_v2', argument='path')"
    )
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    process = subprocess.Popen([sys.executable, "-c", program], env=environment)
    assert server.paused.wait(60)
    partial = tmp_path / "cache" / ".albert_base_v2.tar.gz.download"
    while not partial.exists() or partial.stat().st_size < 1_000_000:
        assert process.poll() is None
    process.kill()
    process.wait()
    server.pause_after = 0
    received = partial.stat().st_size
    assert all(name.startswith(".") for name in names_in(tmp_path / "cache"))
    assert (fetch() / "model").read_bytes() == WEIGHTS
    assert server.requests[1][1] == f"bytes={received}-"
    assert names_in(tmp_path / "cache") == ["albert_base_v2"]


def test_two_processes_fetch_once(server):
    with concurrent.futures.ThreadPoolExecutor() as threads:
        folders = list(threads.map(fetch, ["albert_base_v2"] * 4))
    assert len(set(folders)) == 1
    assert len(server.requests) == 1


def test_a_full_disk_is_noticed_before_anything_is_fetched(server, monkeypatch, tmp_path):
    usage = archives.shutil.disk_usage(tmp_path)._replace(free=1000)
    monkeypatch.setattr(archives.shutil, "disk_usage", lambda path: usage)
    assert f"{len(ARCHIVE):,} bytes are needed, but only 1,000 are free" in error_of(fetch, NAME)
    assert names_in(tmp_path / "cache") == []


def test_an_archive_that_changed_in_between_starts_again(server):
    server.break_after = 1_000_000

    server.files = _ChangesAfterOne(server, archive(("albert_base/model", WEIGHTS[::-1])))
    assert (fetch() / "model").read_bytes() == WEIGHTS[::-1]


class _ChangesAfterOne(dict):
    """Files of which the first request gets the old version and others the new one."""

    def __init__(self, server: Archives, newer: bytes):
        super().__init__(server.files)
        self.server, self.newer = server, newer

    def get(self, name, default=None):
        if len(self.server.requests) > 1:
            self.server.tag = '"two"'
            return self.newer
        return super().get(name, default)


def test_a_wrong_checksum_leaves_nothing(server, tmp_path):
    server.checksum = "AAAAAA=="
    assert "the checksum does not match" in error_of(fetch, NAME)
    assert names_in(tmp_path / "cache") == []


@pytest.mark.parametrize(
    "content", [ARCHIVE[:-1000], b"<html>Sign in</html>", archive(("../x", b""))]
)
def test_what_is_no_archive_is_removed(server, content, tmp_path):
    server.files[ADDRESS] = content
    error_of(fetch, NAME)
    assert names_in(tmp_path / "cache") == []
    assert names_in(tmp_path) == ["cache"]
    server.files[ADDRESS] = ARCHIVE
    assert (fetch() / "model").read_bytes() == WEIGHTS


def test_without_the_network_the_error_names_address_and_place(server, monkeypatch, tmp_path):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    message = error_of(fetch, NAME)
    assert f"https://{ADDRESS} (HF_HUB_OFFLINE is set)" in message
    place = tmp_path / "cache" / "albert_base_v2.tar.gz"
    assert f"put it here as {place}" in message
    place.write_bytes(ARCHIVE)
    assert (fetch() / "model").read_bytes() == WEIGHTS
    assert place.exists()
    assert server.requests == []


def test_no_server_and_no_file_are_one_line(server, monkeypatch):
    assert f"{ADDRESS.replace('base_v2', 'large_zh')} (HTTP 404 Not Found)" in error_of(
        fetch, "albert_large_zh"
    )
    monkeypatch.setenv("ALBERT_TF_MIRROR", "http://127.0.0.1:9")
    assert "(Connection refused)" in error_of(fetch, NAME)


HANDLES = {
    "https://tfhub.dev/google/albert_base/1": (
        "tfhub.dev/google/albert_base/1?tf-hub-format=compressed",
        "www.kaggle.com/api/v1/models/google/albert/tensorFlow1/base/1/download",
        "storage.googleapis.com/tfhub-modules/google/albert_base/1.tar.gz",
    ),
    "https://tfhub.dev/tensorflow/albert_en_xlarge/3": (
        "tfhub.dev/tensorflow/albert_en_xlarge/3?tf-hub-format=compressed",
        "www.kaggle.com/api/v1/models/tensorflow/albert/tensorFlow2/en-xlarge/3/download",
        "storage.googleapis.com/tfhub-modules/tensorflow/albert_en_xlarge/3.tar.gz",
    ),
    "google/albert/tensorFlow1/base/1": (
        "www.kaggle.com/api/v1/models/google/albert/tensorFlow1/base/1/download",
    ),
    "https://www.kaggle.com/models/google/albert/frameworks/TensorFlow1/variations/xxlarge/versions/2":
    ("www.kaggle.com/api/v1/models/google/albert/tensorFlow1/xxlarge/2/download",),
    "https://storage.googleapis.com/albert_zh/albert_tiny.zip": (
        "storage.googleapis.com/albert_zh/albert_tiny.zip",
    ),
}  # fmt: skip


@pytest.mark.parametrize("handle", HANDLES)
def test_a_handle_is_fetched_from_the_first_address_that_has_it(server, handle):
    addresses = HANDLES[handle]
    server.files[addresses[-1]] = archive(("./saved_model.pb", b"a"), ("./variables/x", b"b"))
    folder = fetch(handle)
    assert names_in(folder) == ["albert_tf_source.json", "saved_model.pb", "variables"]
    assert [path for path, _ in server.requests] == list(addresses)
    assert json.loads((folder / "albert_tf_source.json").read_text())["name"] == handle


def test_names():
    for name in ("albert_base", "albert_small_v2", "base_v2", "a/b", "gs://x/a.tar.gz", "/a/b.zip"):
        assert find_archive(name) is None
    for name in ("out/model.ckpt-100", "out/x.weights.h5", "a/b.safetensors", "/a/b", "gs://a/b"):
        assert local_weights(name, argument="init_checkpoint") == name
