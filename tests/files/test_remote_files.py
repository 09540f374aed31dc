"""Remote files in a process on JAX: through fsspec, here in memory, without TensorFlow."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys

import pytest
from fsspec.implementations.memory import MemoryFileSystem
from fsspec.registry import _registry as registered

from albert_tf import files
from albert_tf.errors import InputError
from tests.conftest import ROOT


class Bucket(MemoryFileSystem):
    """Files in memory under gs://."""

    protocol = ("gs",)
    store: dict = {}
    pseudo_dirs = [""]

    @classmethod
    def _strip_protocol(cls, path):
        return super()._strip_protocol(path.removeprefix("gs://"))


@pytest.fixture
def bucket(monkeypatch):
    monkeypatch.setenv("KERAS_BACKEND", "jax")
    monkeypatch.setattr(Bucket, "store", {})
    monkeypatch.setattr(Bucket, "pseudo_dirs", [""])
    # The public `fsspec.register_implementation` cannot be undone.
    monkeypatch.setitem(registered, "gs", Bucket)
    return "gs://bucket"


def test_files_are_written_found_and_read(bucket):
    folder = f"{bucket}/run"
    files.make_folder(folder)
    assert not files.exists(f"{folder}/a.txt")
    files.write_text(f"{folder}/a.txt", "one\r\nzwei ü\n")
    files.write_bytes(f"{folder}/deep/b.bin", b"\x00\x01")
    assert files.read_text(f"{folder}/a.txt") == "one\r\nzwei ü\n"
    assert list(files.read_lines(f"{folder}/a.txt")) == ["one", "zwei ü"]
    assert files.matches(f"{folder}/*.txt") == [f"{folder}/a.txt"]
    assert files.is_folder(f"{folder}/deep")
    assert not files.is_folder(f"{folder}/a.txt")
    assert sorted(files.names_in(folder)) == ["a.txt", "deep"]
    assert files.sizes(folder) == {"a.txt": 13, "deep/b.bin": 2}
    assert files.file_identity(f"{folder}/a.txt") == [13]


def test_a_log_is_extended_and_visible_after_each_flush(bucket):
    path = f"{bucket}/log.jsonl"
    for line in ("1\n", "2\n"):
        with files.open_file(path, "a") as file:
            file.write(line)
            file.flush()
            assert files.read_text(path).endswith(line)
    assert files.read_text(path) == "1\n2\n"


def test_files_and_folders_are_copied_renamed_and_removed(bucket, tmp_path):
    files.write_text(f"{bucket}/a", "a")
    files.write_text(f"{bucket}/b", "b")
    files.copy_file(f"{bucket}/a", f"{bucket}/c/d")
    files.rename(f"{bucket}/a", f"{bucket}/b")
    assert files.sizes(bucket) == {"b": 1, "c/d": 1}
    assert files.read_text(f"{bucket}/b") == "a"
    files.rename(f"{bucket}/c", f"{bucket}/e")
    assert files.read_text(f"{bucket}/e/d") == "a"
    files.copy_file(f"{bucket}/b", str(tmp_path / "b"))
    files.copy_file(str(tmp_path / "b"), f"{bucket}/back")
    assert files.read_text(f"{bucket}/back") == "a"
    files.remove(f"{bucket}/e")
    files.remove(f"{bucket}/b")
    files.remove(f"{bucket}/missing")
    assert files.sizes(bucket) == {"back": 1}


def test_training_lists_its_checkpoints_there(bucket):
    from albert_tf.interop import checkpoint_folders as folders

    path = f"{bucket}/run/model.ckpt-5"
    files.write_text(f"{path}/_METADATA", "{}")
    assert folders.unfinished_path(path) == path
    folders.complete(path)
    assert folders.damage_of(path) is None
    folders.write_list(f"{bucket}/run", folders.CheckpointList("model.ckpt-5"))
    files.write_text(f"{bucket}/run/model.ckpt-6/_METADATA", "{}")
    assert folders.listed_checkpoint(f"{bucket}/run") == path
    assert folders.newest_first(f"{bucket}/run") == [path]
    assert sorted(folders.checkpoints_in(f"{bucket}/run").values()) == [5, 6]
    folders.remove_unfinished(f"{bucket}/run")
    assert list(folders.checkpoints_in(f"{bucket}/run").values()) == [5]
    files.write_text(f"{path}/_METADATA", "[]")
    assert folders.damage_of(path) == "the checksum of _METADATA does not match"


CODE = """
import sys
from albert_tf import files
from albert_tf.errors import InputError
try:
    files.exists("gs://bucket/file")
except (InputError, OSError) as error:
    print(error)
sys.exit("tensorflow" in sys.modules)
"""


@pytest.mark.integration
def test_tensorflow_is_not_imported_and_the_package_for_a_bucket_is_named():
    environment = {
        **os.environ,
        "KERAS_BACKEND": "jax",
        "STORAGE_EMULATOR_HOST": "http://0.0.0.0:1",
    }
    done = subprocess.run(
        [sys.executable, "-c", CODE], cwd=ROOT, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    if importlib.util.find_spec("gcsfs") is None:
        assert "pip install 'fsspec[gs]'" in done.stdout


def test_unknown_schemes_are_refused_as_before(bucket):
    with pytest.raises(InputError, match="can only be read"):
        files.make_folder("s3://bucket/run")
