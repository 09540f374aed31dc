"""Checkpoints of the JAX engine: atomic, complete to the byte, and what does not fit."""

from __future__ import annotations

import json
import os
import pathlib
import random
import re
import resource
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
import types

import numpy as np
import pytest

os.environ.setdefault("JAX_PLATFORMS", "cpu")
jax = pytest.importorskip("jax", reason="JAX is not installed")
pytest.importorskip("orbax.checkpoint", reason="orbax-checkpoint is not installed")

from albert_tf.engines.jax import checkpoints as jax_checkpoints  # noqa: E402
from albert_tf.engines.jax.checkpoints import Checkpoints  # noqa: E402
from albert_tf.engines.workers import Workers  # noqa: E402
from albert_tf.errors import InputError  # noqa: E402
from albert_tf.interop.checkpoint_folders import read_list, write_checksums  # noqa: E402
from albert_tf.interop.formats import open_weights  # noqa: E402
from tests.conftest import KERAS_ON_JAX, ROOT  # noqa: E402

WEIGHT, BIAS = "bert/pooler/dense/kernel", "bert/pooler/dense/bias"
WORKER = pathlib.Path(__file__).parent / "checkpoint_worker.py"


def state(step: int, width: int = 3, optimizer: str = "lamb"):
    """A training state in which every value is the step."""
    numpy = jax.numpy
    params = {WEIGHT: numpy.full((4, width), float(step)), BIAS: numpy.full((width,), float(step))}
    moments = {f"{optimizer}/{path}_m": value + 0.5 for path, value in params.items()}
    tree = {"params": params, "optimizer": moments, "step": numpy.int32(step)}
    return types.SimpleNamespace(tree=tree)


def save_steps(folder, steps, **options) -> None:
    """A checkpoint for every step; in step N every weight is N."""
    training = state(0)
    with Checkpoints(str(folder), training, **options) as checkpoints:
        for step in steps:
            training.tree = state(step).tree
            checkpoints.save()


def steps_in(folder) -> list[int]:
    return sorted(int(path.name.split("-")[1]) for path in folder.glob("model.ckpt-*"))


def restored(folder, width: int = 3) -> tuple[int, float]:
    """Step and value of the weights that a new process would resume from."""
    training = state(77, width)
    assert Checkpoints(str(folder), training).restore_latest()
    (value,) = {float(x) for array in training.tree["params"].values() for x in np.ravel(array)}
    (moment,) = {float(x) for array in training.tree["optimizer"].values() for x in np.ravel(array)}
    assert moment == value + 0.5
    return int(training.tree["step"]), value


def test_nothing_to_resume(tmp_path):
    assert not Checkpoints(str(tmp_path), state(0)).restore_latest()
    assert jax_checkpoints.list_checkpoints(str(tmp_path)) == []


def test_everything_comes_back(tmp_path):
    save_steps(tmp_path, (5,))
    assert restored(tmp_path) == (5, 5.0)
    assert jax_checkpoints.list_checkpoints(str(tmp_path))
    assert jax_checkpoints.find_checkpoint(str(tmp_path)) == f"{tmp_path}/model.ckpt-5"
    assert jax_checkpoints.listed_checkpoint(str(tmp_path)) == f"{tmp_path}/model.ckpt-5"
    weights = open_weights(str(tmp_path))
    assert weights.step == 5
    assert set(weights.tensors) == {WEIGHT, BIAS}
    assert set(weights.optimizer) == {f"lamb/{path}_m" for path in weights.tensors}
    np.testing.assert_array_equal(weights.read(WEIGHT), np.full((4, 3), 5.0))


def test_shardings_and_types_are_those_of_the_state(tmp_path):
    save_steps(tmp_path, (5,))
    training = state(0)
    expected = jax.tree.map(lambda array: (array.sharding, array.dtype), training.tree)
    Checkpoints(str(tmp_path), training).restore_latest()
    assert jax.tree.map(lambda array: (array.sharding, array.dtype), training.tree) == expected


def test_only_the_newest_are_kept(tmp_path):
    save_steps(tmp_path, (1, 2, 3), keep=2)
    assert steps_in(tmp_path) == [2, 3]
    assert sorted(os.listdir(tmp_path)) == ["checkpoints.json", "model.ckpt-2", "model.ckpt-3"]


@pytest.mark.integration
def test_one_in_so_many_hours_stays_for_good(tmp_path, monkeypatch):
    for step in range(1, 13):
        hours = step  # one between two checkpoints
        monkeypatch.setattr(
            jax_checkpoints, "time", types.SimpleNamespace(time=lambda h=hours: 1.7e9 + 3600 * h)
        )
        save_steps(tmp_path, (step,), keep=2, keep_every_n_hours=4)
    assert steps_in(tmp_path) == [5, 9, 11, 12]


def test_what_a_kill_left_to_remove_is_removed_after_the_next_save(tmp_path, monkeypatch):
    def kill(path):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(jax_checkpoints, "discard", kill)
        with pytest.raises(KeyboardInterrupt):
            save_steps(tmp_path, (1, 2), keep=1)
    assert restored(tmp_path) == (2, 2.0)
    assert steps_in(tmp_path) == [1, 2]
    save_steps(tmp_path, (3,), keep=1)
    assert steps_in(tmp_path) == [3]


def test_what_is_written_are_the_values_at_the_time_of_saving(tmp_path, monkeypatch):
    """The arrays are donated to the next step while they are written."""
    training = state(5, width=500_000)
    checkpoints = Checkpoints(str(tmp_path), training)
    proceed, complete = threading.Event(), jax_checkpoints.checkpoint_folders.complete

    def late(path):
        assert proceed.wait(30)
        complete(path)

    monkeypatch.setattr(jax_checkpoints.checkpoint_folders, "complete", late)
    next_step = jax.jit(lambda tree: jax.tree.map(lambda x: x * 3, tree), donate_argnums=0)
    checkpoints.save()
    for _ in range(3):
        training.tree = jax.block_until_ready(next_step(training.tree))
    assert not steps_in(tmp_path), "training does not wait for the disk"
    checkpoints.check()
    proceed.set()
    checkpoints.wait()
    assert checkpoints.latest == f"{tmp_path}/model.ckpt-5"
    weights = open_weights(str(tmp_path))
    assert weights.step == 5
    for path in weights.tensors:
        assert np.unique(weights.read(path)).tolist() == [5.0]
        assert np.unique(weights.optimizer[f"lamb/{path}_m"].read()).tolist() == [5.5]


@pytest.fixture(scope="module")
def three_steps(tmp_path_factory):
    folder = tmp_path_factory.mktemp("checkpoints")
    save_steps(folder, (1, 2, 3))
    return folder


def files_of(checkpoint: pathlib.Path) -> list[pathlib.Path]:
    return sorted(path for path in checkpoint.rglob("*") if path.is_file())


@pytest.mark.integration
def test_every_byte_counts(tmp_path, three_steps):
    copy = tmp_path / "model.ckpt-3"
    shutil.copytree(three_steps / "model.ckpt-3", copy)
    assert jax_checkpoints.damage_of(str(copy)) is None
    for path in files_of(copy):
        content = path.read_bytes()
        for place in range(0, len(content), 7):
            changed = bytearray(content)
            changed[place] ^= 1 << place % 8
            path.write_bytes(changed)
            assert jax_checkpoints.damage_of(str(copy)) is not None, (path, place)
        for damaged in (content[:-1], content + b"\n", b""):
            path.write_bytes(damaged)
            assert jax_checkpoints.damage_of(str(copy)) is not None, path
        path.unlink()
        assert f"{path.name} is missing" in jax_checkpoints.damage_of(str(copy))
        path.write_bytes(content)
    assert jax_checkpoints.damage_of(str(copy)) is None


def test_a_damaged_latest_is_skipped_in_favor_of_the_one_before(tmp_path, caplog, three_steps):
    shutil.copytree(three_steps, tmp_path, dirs_exist_ok=True)
    (tmp_path / "model.ckpt-3" / "manifest.ocdbt").unlink()
    assert restored(tmp_path) == (2, 2.0)
    reason, choice = caplog.messages
    assert reason == f"{tmp_path}/model.ckpt-3 is damaged and skipped: manifest.ocdbt is missing"
    assert choice == f"using {tmp_path}/model.ckpt-2 instead"
    valid = list(jax_checkpoints.valid_checkpoints(str(tmp_path)))
    assert valid == [f"{tmp_path}/model.ckpt-{step}" for step in (1, 2)]
    caplog.clear()
    save_steps(tmp_path, (3,))
    assert restored(tmp_path) == (3, 3.0)
    assert caplog.messages == []


def test_training_never_starts_from_scratch_over_damaged_checkpoints(tmp_path):
    save_steps(tmp_path, (2, 3))
    for path in tmp_path.glob("*/manifest.ocdbt"):
        path.write_bytes(b"")
    with pytest.raises(InputError, match=r"no checkpoint .* \(model.ckpt-3, model.ckpt-2\)"):
        Checkpoints(str(tmp_path), state(0)).restore_latest()
    for path in tmp_path.glob("model.ckpt*"):
        shutil.rmtree(path)
    with pytest.raises(InputError, match="no checkpoint in it can be read"):
        Checkpoints(str(tmp_path), state(0)).restore_latest()


@pytest.mark.parametrize("content", [None, "", "{", '{"latest": "../model.ckpt-9"}'])
def test_without_the_list_of_checkpoints_the_highest_step_is_taken(tmp_path, content, three_steps):
    shutil.copytree(three_steps, tmp_path, dirs_exist_ok=True)
    (tmp_path / "checkpoints.json").unlink()
    if content is not None:
        (tmp_path / "checkpoints.json").write_text(content)
    assert restored(tmp_path) == (3, 3.0)


def test_the_list_can_be_set_back_to_an_older_one(tmp_path, three_steps):
    shutil.copytree(three_steps, tmp_path, dirs_exist_ok=True)
    (tmp_path / "checkpoints.json").write_text('{"latest": "model.ckpt-2"}')
    assert restored(tmp_path) == (2, 2.0)
    (tmp_path / "model.ckpt-2" / "checksums.txt").unlink()
    assert restored(tmp_path) == (1, 1.0)


def test_checkpoints_of_another_model_or_optimizer_are_refused(tmp_path):
    save_steps(tmp_path, (5,))
    with pytest.raises(InputError, match=r"pooler/dense/kernel has shape \[4, 3\], but \[4, 2\]"):
        Checkpoints(str(tmp_path), state(0, width=2)).restore_latest()
    with pytest.raises(InputError, match="`optimizer`"):
        Checkpoints(str(tmp_path), state(0, optimizer="adamw")).restore_latest()


@pytest.mark.parametrize("name", ["checkpoint", "model.ckpt-3.index"])
def test_checkpoints_of_tensorflow_are_not_resumed(tmp_path, name):
    (tmp_path / name).touch()
    with pytest.raises(InputError, match="of engine tensorflow; resume with.*--to=jax$"):
        Checkpoints(str(tmp_path), state(0)).restore_latest()
    with pytest.raises(InputError, match="of engine tensorflow"):
        list(jax_checkpoints.valid_checkpoints(str(tmp_path)))


def test_the_best_checkpoint_is_replaced_in_one_step(tmp_path, three_steps, monkeypatch):
    best = tmp_path / "best"
    best.mkdir()
    for step in (1, 3):
        path = jax_checkpoints.copy_checkpoint(f"{three_steps}/model.ckpt-{step}", str(best))
        assert path == f"{best}/model.ckpt-{step}"
        listed = jax_checkpoints.listed_checkpoint(str(best))
        assert listed == (None if step == 1 else f"{best}/model.ckpt-1")
        pathlib.Path(f"{path}.json").write_text("{}")
        jax_checkpoints.keep_only_checkpoint(path)
        names = ["checkpoints.json", f"model.ckpt-{step}", f"model.ckpt-{step}.json"]
        assert sorted(os.listdir(best)) == names
        assert restored(best) == (step, float(step))
    monkeypatch.setattr(jax_checkpoints, "replacing", None)  # the copy is complete already
    assert jax_checkpoints.copy_checkpoint(f"{three_steps}/model.ckpt-3", str(best))


def test_what_a_kill_left_of_a_best_checkpoint_is_removed(tmp_path, three_steps, monkeypatch):
    def keep(step: int) -> None:
        path = jax_checkpoints.copy_checkpoint(f"{three_steps}/model.ckpt-{step}", str(tmp_path))
        jax_checkpoints.keep_only_checkpoint(path)

    def kill(path):
        if os.path.exists(path):
            raise KeyboardInterrupt

    keep(1)
    with monkeypatch.context() as patched:
        patched.setattr(jax_checkpoints.checkpoint_folders, "remove", kill)
        with pytest.raises(KeyboardInterrupt):
            keep(2)
    keep(2)
    assert sorted(os.listdir(tmp_path)) == ["checkpoints.json", "model.ckpt-2"]


def test_a_checkpoint_of_the_same_step_from_another_run_is_no_longer_listed(tmp_path, three_steps):
    best = tmp_path / "best"
    best.mkdir()
    jax_checkpoints.keep_only_checkpoint(
        jax_checkpoints.copy_checkpoint(f"{three_steps}/model.ckpt-3", str(best))
    )
    save_steps(tmp_path, (3,))
    jax_checkpoints.copy_checkpoint(f"{tmp_path}/model.ckpt-3", str(best))
    assert jax_checkpoints.listed_checkpoint(str(best)) is None
    assert read_list(str(best)) is None


def test_a_full_disk_is_an_os_error_of_one_line_and_leaves_nothing(tmp_path, capfd):
    checkpoints = Checkpoints(str(tmp_path), state(1, width=10_000))
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, limits[1]))
    try:
        checkpoints.save()
        with pytest.raises(OSError, match="File too large: .*model.ckpt-1'$"):
            checkpoints.wait()
        checkpoints.wait()  # it is reported once
        checkpoints.save()
        with pytest.raises(ValueError, match="the first error"), checkpoints:
            raise ValueError("the first error is the one that is reported")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, ignored)
    assert list(tmp_path.iterdir()) == []
    assert capfd.readouterr() == ("", "")
    checkpoints.save()
    checkpoints.wait()
    assert steps_in(tmp_path) == [1]


@pytest.mark.integration
def test_nothing_is_printed_and_tensorflow_is_not_imported(tmp_path):
    done = run_worker(tmp_path, "steps=1,2,3", "keep=2").communicate()
    assert done == ("saved 1\nsaved 2\nsaved 3\n", "")


def run_worker(folder, *arguments: str, **environment: str) -> subprocess.Popen:
    """A process that saves checkpoints, and fails if it has imported TensorFlow."""
    return subprocess.Popen(
        [sys.executable, str(WORKER), f"folder={folder}", *arguments],
        cwd=ROOT,
        env={
            **os.environ,
            **KERAS_ON_JAX,
            "PYTHONPATH": str(ROOT),
            **environment,
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.integration
@pytest.mark.slow
def test_a_kill_at_any_moment_leaves_the_last_complete_checkpoint(tmp_path):
    generator = random.Random(0)
    step = 0
    for _ in range(5):
        steps = ",".join(map(str, range(step + 1, step + 1000)))
        process = run_worker(tmp_path, f"steps={steps}", "keep=2", "width=20000")
        process.stdout.readline()
        time.sleep(generator.uniform(0, 0.5))
        process.kill()
        lines, errors = process.communicate()
        assert errors == ""
        saved = int(lines.split()[-1]) if lines else step + 1
        assert restored(tmp_path, width=20_000) in [(n, float(n)) for n in (saved, saved + 1)]
        step = saved
        Checkpoints(str(tmp_path), state(0)).remove_unfinished()
        # Two to keep, one that was to be removed, and one that is complete but not listed yet.
        assert len(os.listdir(tmp_path)) <= 1 + 4


@pytest.mark.integration
@pytest.mark.slow
def test_two_processes_save_their_parts_and_restore_them(tmp_path):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    arguments = ("steps=1,2,3", "keep=2", f"coordinator=127.0.0.1:{port}")
    flags = {"XLA_FLAGS": "--xla_force_host_platform_device_count=2"}
    workers = [run_worker(tmp_path, *arguments, f"process={n}", **flags) for n in range(2)]
    outputs = [worker.communicate(timeout=120) for worker in workers]
    for output, errors in outputs:
        # JAX's collectives print lines of their own, which two threads may write into each other.
        lines = re.findall(r"(?:saved|restored) \d+", output)
        assert lines == ["saved 1", "saved 2", "saved 3", "restored 3"]
        assert errors == ""
    assert steps_in(tmp_path) == [2, 3]
    processes = {path.name for path in (tmp_path / "model.ckpt-3").glob("ocdbt.process_*")}
    assert len(processes) == 2, "both processes have written"
    assert restored(tmp_path) == (3, 3.0)  # by one process
    assert jax_checkpoints.damage_of(f"{tmp_path}/model.ckpt-3") is None


def test_workers_need_one_shared_folder(tmp_path):
    save_steps(tmp_path, (1,))

    class Elsewhere(Workers):
        def from_chief(self, work):
            return f"{tmp_path}/model.ckpt-2"

    with pytest.raises(InputError, match="all workers need one shared folder"):
        jax_checkpoints.latest_checkpoint(str(tmp_path), Elsewhere())


def test_metadata_does_not_decide_how_much_memory_is_taken(tmp_path, three_steps):
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
    write_checksums(path)
    weights = open_weights(path)
    with pytest.raises(InputError, match=f"{BIAS} cannot be read .larger than the checkpoint"):
        weights.read(BIAS)
    with pytest.raises(InputError, match="shape"):
        Checkpoints(str(tmp_path), state(0)).restore_latest()
