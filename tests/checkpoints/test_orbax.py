"""Checkpoints of the JAX engine: atomic, complete to the byte, and what does not fit."""

import json
import os
import pathlib
import resource
import shutil
import signal

import pytest

os.environ.setdefault("JAX_PLATFORMS", "cpu")
jax = pytest.importorskip("jax", reason="JAX is not installed")
pytest.importorskip("orbax.checkpoint", reason="orbax-checkpoint is not installed")

from albert_tf import files  # noqa: E402
from albert_tf.checkpoints import orbax  # noqa: E402
from albert_tf.errors import InputError  # noqa: E402
from albert_tf.interop.loading import open_weights  # noqa: E402
from tests.support.checkpoints import BIAS, Kind  # noqa: E402
from tests.support.checkpoints import jax as jax_kind  # noqa: E402


@pytest.fixture(scope="module")
def kind() -> Kind:
    return jax_kind()


@pytest.fixture(scope="module")
def three_steps(kind, tmp_path_factory):
    folder = tmp_path_factory.mktemp("checkpoints")
    kind.save(folder, (1, 2, 3))
    return folder


def damage_of(checkpoint: pathlib.Path) -> str | None:
    return orbax.OrbaxFolder(str(checkpoint.parent)).damage_of(str(checkpoint))


def files_of(checkpoint: pathlib.Path) -> list[pathlib.Path]:
    return sorted(path for path in checkpoint.rglob("*") if path.is_file())


@pytest.mark.integration
def test_every_byte_counts(tmp_path, three_steps):
    copy = tmp_path / "model.ckpt-3"
    shutil.copytree(three_steps / "model.ckpt-3", copy)
    assert damage_of(copy) is None
    for path in files_of(copy):
        content = path.read_bytes()
        for place in range(0, len(content), 7):
            changed = bytearray(content)
            changed[place] ^= 1 << place % 8
            path.write_bytes(changed)
            assert damage_of(copy) is not None, (path, place)
        for damaged in (content[:-1], content + b"\n", b""):
            path.write_bytes(damaged)
            assert damage_of(copy) is not None, path
        path.unlink()
        assert f"{path.name} is missing" in damage_of(copy)
        path.write_bytes(content)
    assert damage_of(copy) is None


def test_bytes_are_verified_once_unless_they_change(kind, tmp_path, three_steps, monkeypatch):
    shutil.copytree(three_steps, tmp_path, dirs_exist_ok=True)
    path, verified, checksums = tmp_path / "model.ckpt-3", [], files.checksums
    monkeypatch.setattr(files, "checksums", lambda path: verified.append(path) or checksums(path))
    for each in files_of(path):
        os.utime(each, (1e9, 1e9))
    for _ in range(2):
        open_weights(str(tmp_path))
        assert kind.restored(tmp_path) == 3
    assert verified == [str(path)]
    data = max(files_of(path), key=lambda each: each.stat().st_size)
    data.write_bytes(data.read_bytes()[::-1])
    with pytest.raises(InputError, match=r"model.ckpt-3: cannot be read \("):
        open_weights(str(path))
    assert kind.restored(tmp_path) == 2


@pytest.mark.integration
def test_a_full_disk_is_an_os_error_of_one_line_and_leaves_nothing(kind, tmp_path, capfd):
    checkpoints = kind.checkpoints(tmp_path, kind.state(1, width=10_000))
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, limits[1]))
    try:
        checkpoints.save()
        with pytest.raises(OSError, match="File too large: .*model.ckpt-1'$"):
            checkpoints.wait()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, ignored)
    assert list(tmp_path.iterdir()) == []
    assert capfd.readouterr() == ("", "")
    checkpoints.save()
    checkpoints.wait()
    assert kind.steps_in(tmp_path) == [1]


def test_metadata_does_not_decide_how_much_memory_is_taken(kind, tmp_path, three_steps):
    """A checkpoint that was made to do harm, with right checksums."""
    import tensorstore

    shutil.copytree(three_steps, tmp_path, dirs_exist_ok=True)
    path = f"{tmp_path}/model.ckpt-3"
    base = {"driver": "file", "path": f"{path}/"}
    values = tensorstore.KvStore.open({"driver": "ocdbt", "base": base}).result()
    key = f"params.{BIAS}/.zarray"
    array = json.loads(values.read(key).result().value)
    array["shape"] = [1 << 40]
    values.write(key, json.dumps(array)).result()
    orbax.write_checksums(path)
    weights = open_weights(path)
    with pytest.raises(InputError, match=f"{BIAS} cannot be read .larger than the checkpoint"):
        weights.read(BIAS)
    with pytest.raises(InputError, match="shape"):
        kind.checkpoints(tmp_path, kind.state(0)).restore_latest()
