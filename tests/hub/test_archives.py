"""Untrusted archives: unpacked as they are, or refused before anything is written."""

import gzip
import io
import os
import pathlib
import stat
import tarfile
import zipfile

import pytest

from albert_tf.errors import InputError
from albert_tf.hub import archives
from albert_tf.hub.archives import unpack

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
    "content",
    [
        GOOD_TAR,
        gzip.compress(GOOD_TAR),
        zipped(*FILES.items(), ("__MACOSX/._x", b"y")),
    ],
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
    with pytest.raises(InputError) as raised:
        unpack(str(tmp_path / "archive"), str(out), largest_size=4_000_000)
    assert str(raised.value).startswith(f"{tmp_path}/archive: ")
    assert message in str(raised.value)
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
