"""Files in a bucket, through a server that speaks the protocol of Google Cloud Storage."""

import contextlib
import functools
import logging
import os
import random
import re
import threading

import pytest

from albert_tf import files
from albert_tf.checkpoints import check_engine
from albert_tf.errors import InputError, StorageUnavailable
from albert_tf.files import remote
from tests.conftest import run_python
from tests.support.bucket import Bucket, error

FOLDER = "gs://bucket/run"
DENIED = "a@b.iam.gserviceaccount.com does not have storage.objects.create access to the object."


def test_files_are_written_found_and_read(bucket, tmp_path):
    files.make_folder(FOLDER)
    assert not files.exists(f"{FOLDER}/a.txt")
    files.write_text(f"{FOLDER}/a.txt", "one\r\nzwei ü\n")
    files.write_bytes(f"{FOLDER}/deep/b.bin", b"\x00\x01\r\n")
    assert files.read_text(f"{FOLDER}/a.txt") == "one\r\nzwei ü\n"
    assert list(files.read_lines(f"{FOLDER}/a.txt")) == ["one", "zwei ü"]
    assert files.matches(f"{FOLDER}/*.txt") == [f"{FOLDER}/a.txt"]
    assert files.matches(f"{FOLDER}/deep") == [f"{FOLDER}/deep"]
    assert files.is_folder(f"{FOLDER}/deep")
    assert not files.is_folder(f"{FOLDER}/a.txt")
    assert sorted(files.names_in(FOLDER)) == ["a.txt", "deep"]
    assert files.sizes(FOLDER) == {"a.txt": 13, "deep/b.bin": 4}
    (tmp_path / "b.bin").write_bytes(b"\x00\x01\r\n")
    assert files.checksums(f"{FOLDER}/deep") == files.checksums(str(tmp_path))
    before = files.file_identity(f"{FOLDER}/a.txt")
    assert before == files.file_identity(f"{FOLDER}/a.txt")
    files.write_text(f"{FOLDER}/a.txt", "one\r\nzwei Ü\n")
    assert files.file_identity(f"{FOLDER}/a.txt") != before


def test_files_are_copied_renamed_and_removed(bucket, tmp_path):
    files.write_text(f"{FOLDER}/a", "a")
    files.write_text(f"{FOLDER}/b", "b")
    files.copy_file(f"{FOLDER}/a", f"{FOLDER}/c/d")
    files.rename(f"{FOLDER}/a", f"{FOLDER}/b")
    assert files.sizes(FOLDER) == {"b": 1, "c/d": 1}
    assert files.read_text(f"{FOLDER}/b") == "a"
    files.copy_file(f"{FOLDER}/b", str(tmp_path / "b"))
    files.copy_file(str(tmp_path / "b"), f"{FOLDER}/back")
    assert files.read_text(f"{FOLDER}/back") == "a"
    files.remove(f"{FOLDER}/c")
    files.remove(f"{FOLDER}/b")
    files.remove(f"{FOLDER}/missing")
    assert files.sizes(FOLDER) == {"back": 1}


def test_a_part_of_a_file_takes_one_request(bucket):
    content = os.urandom(100_000)
    files.write_bytes(f"{FOLDER}/a", content)
    bucket.requests.clear()
    assert files.read_bytes(f"{FOLDER}/a", 5_000, 70_000) == content[5_000:70_000]
    assert bucket.requests == [("GET", "run/a", 65_000, 206)]


def test_a_folder_appears_with_what_makes_it_complete_last(bucket):
    with files.replacing(f"{FOLDER}/export") as partial:
        for name, size in {"config.json": 10, "model.bin": 1000, "variables/0": 5}.items():
            os.makedirs(os.path.dirname(f"{partial}/{name}"), exist_ok=True)
            with open(f"{partial}/{name}", "wb") as file:
                file.write(bytes(size))
        assert not bucket.objects
    names = [f"run/export/{name}" for name in ("variables/0", "model.bin", "config.json")]
    assert sorted(bucket.objects, key=lambda name: bucket.objects[name].generation) == names


def test_what_fails_before_its_end_does_not_appear(bucket):
    files.write_text(f"{FOLDER}/a", "before")

    def replace(fails: bool) -> None:
        with files.replacing(f"{FOLDER}/a") as partial, open(partial, "w") as file:
            file.write("half")
            if fails:
                raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        replace(fails=True)
    bucket.fault = lambda method, address: error(403, DENIED) if method == "POST" else None
    with pytest.raises(OSError, match="does not have"):
        replace(fails=False)
    assert [found.content for found in bucket.objects.values()] == [b"before"]


# What is done to files, with a function for each.
DEEDS = {
    "exists": lambda: files.exists(f"{FOLDER}/a"),
    "folder": lambda: files.is_folder(f"{FOLDER}/a"),
    "make": lambda: files.make_folder(FOLDER),
    "list": lambda: files.matches(f"{FOLDER}/*"),
    "names": lambda: files.names_in(FOLDER),
    "sizes": lambda: files.sizes(FOLDER),
    "read": lambda: files.read_text(f"{FOLDER}/a"),
    "lines": lambda: list(files.read_lines(f"{FOLDER}/a")),
    "part": lambda: files.read_bytes(f"{FOLDER}/a", 0, 1),
    "write": lambda: files.write_text(f"{FOLDER}/a", "a"),
    "copy": lambda: files.copy_file(f"{FOLDER}/a", f"{FOLDER}/b"),
    "remove": lambda: files.remove(f"{FOLDER}/a"),
}


@pytest.mark.integration
@pytest.mark.parametrize("deed", DEEDS)
@pytest.mark.parametrize("status", [429, 503])
def test_what_may_pass_is_tried_again(bucket, deed, status, monkeypatch):
    monkeypatch.setattr(remote, "PATIENCE", 20.0)
    files.write_text(f"{FOLDER}/a", "a")
    faults = (error(status, "Later, please.") for _ in range(3))
    bucket.fault = lambda method, address: next(faults, None)
    state = random.getstate()
    DEEDS[deed]()
    assert next(faults, None) is None
    assert random.getstate() == state  # or a run would not repeat


@pytest.mark.integration
@pytest.mark.parametrize("deed", DEEDS)
def test_a_long_outage_is_reported_once_and_is_no_missing_file(bucket, deed, caplog, monkeypatch):
    monkeypatch.setattr(remote.Patience, "_last_outage", float("-inf"))
    files.write_text(f"{FOLDER}/a", "a")
    bucket.fault = lambda method, address: error(503, "Service Unavailable")
    with pytest.raises(StorageUnavailable, match=r"^gs://bucket.*\(Service Unavailable \(503\)\)"):
        DEEDS[deed]()
    assert StorageUnavailable.exit_code == 75
    (record,) = (r for r in caplog.records if r.levelno >= logging.WARNING)
    assert "Service Unavailable (503); trying again for up to" in record.getMessage()


def test_a_server_that_starts_late_is_waited_for(bucket, monkeypatch):
    monkeypatch.setattr(remote, "PATIENCE", 20.0)
    with contextlib.ExitStack() as stack:
        with Bucket() as other:
            monkeypatch.setenv("STORAGE_EMULATOR_HOST", other.address)
        late = functools.partial(Bucket, port=int(other.address.rpartition(":")[2]))
        timer = threading.Timer(0.3, lambda: stack.enter_context(late()))
        timer.start()
        files.write_text(f"{FOLDER}/a", "a")
        timer.join()
        assert files.read_text(f"{FOLDER}/a") == "a"


@pytest.mark.parametrize("deed", DEEDS)
@pytest.mark.parametrize("status", [401, 403])
def test_what_will_not_pass_ends_at_once_with_the_explanation(bucket, deed, status):
    files.write_text(f"{FOLDER}/a", "a")
    bucket.requests.clear()
    bucket.fault = lambda method, address: error(status, DENIED)
    with pytest.raises(OSError, match=r"^gs://bucket/run.*: a@b\S* does not have") as caught:
        DEEDS[deed]()
    assert "\n" not in str(caught.value)
    assert len(bucket.requests) <= 2


@pytest.mark.parametrize("deed", DEEDS)
def test_a_bucket_that_does_not_exist_is_no_missing_file(bucket, deed, monkeypatch):
    monkeypatch.setitem(globals(), "FOLDER", "gs://nowhere/run")
    with pytest.raises(OSError, match="gs://nowhere.*The specified bucket does not exist"):
        DEEDS[deed]()


def test_checkpoints_are_on_servers_that_engines_reach():
    for folder in ("s3://b/run", "gs://b/q[1]"):
        message = re.escape(f"`output_dir`={folder}: checkpoints are kept in local folders, and on")
        with pytest.raises(InputError, match=message):
            check_engine(folder, "jax")


def test_files_that_can_only_be_read(bucket):
    with pytest.raises(InputError, match="`output_file`: https://a/out can only be read"):
        files.make_folder("https://a/out", "output_file")
    with pytest.raises(ValueError, match="cannot be opened with mode 'w'"):
        files.open_file(f"{FOLDER}/a", "w")


CODE = """
import sys
sys.modules["gcsfs"] = None
from albert_tf import errors, files
try:
    files.exists("gs://bucket/file")
except errors.InputError as error:
    print(error)
"""


@pytest.mark.integration
def test_what_to_install_is_named():
    done = run_python("-c", CODE)
    assert "pip install 'albert-tf[gcs]'" in done.stdout, done.stderr
    assert not done.stderr
