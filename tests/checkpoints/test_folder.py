"""Checkpoints of every engine: which one is used, which are kept, and what a kill leaves."""

import os
import pathlib
import shutil
import threading
import time
from types import SimpleNamespace

import numpy as np
import pytest

from albert_tf import files
from albert_tf.checkpoints import FOLDERS, check_engine, orbax
from albert_tf.checkpoints import folder as policy
from albert_tf.checkpoints import tensorflow as tensorflow_folder
from albert_tf.checkpoints.saving import latest_for_all
from albert_tf.engines.workers import Workers
from albert_tf.errors import InputError
from albert_tf.interop.loading import open_weights
from albert_tf.training import restoring
from tests.support.checkpoints import BIAS, WEIGHT, Kind, jax, tensorflow


@pytest.fixture(scope="module", params=[tensorflow, jax])
def kind(request) -> Kind:
    return request.param()


@pytest.fixture(scope="module")
def three_steps(kind, tmp_path_factory) -> pathlib.Path:
    folder = tmp_path_factory.mktemp("checkpoints")
    kind.save(folder, (1, 2, 3))
    return folder


@pytest.fixture
def trained(three_steps, tmp_path) -> pathlib.Path:
    """Return a folder with checkpoints of three steps."""
    return shutil.copytree(three_steps, tmp_path / "trained")


@pytest.fixture
def best(tmp_path) -> pathlib.Path:
    (tmp_path / "best").mkdir()
    return tmp_path / "best"


def file_of(kind: Kind, folder: pathlib.Path, step: int) -> pathlib.Path:
    """Return the file of a checkpoint without which it is damaged."""
    name = "manifest.ocdbt" if kind.kind.engine == "jax" else None
    path = folder / f"model.ckpt-{step}"
    return path / name if name else path.with_name(f"{path.name}.data-00000-of-00001")


def test_nothing_to_resume(kind, tmp_path):
    assert not kind.checkpoints(tmp_path, kind.state(0)).restore_latest()
    assert kind.folder(tmp_path).all() == []
    assert [*kind.folder(tmp_path).valid()] == []


def test_everything_comes_back(kind, tmp_path):
    kind.save(tmp_path, (5,))
    assert kind.restored(tmp_path) == 5
    path, folder = f"{tmp_path}/model.ckpt-5", kind.folder(tmp_path)
    assert folder.all() == [*folder.valid()] == [path]
    assert folder.find() == folder.listed() == folder.latest() == path
    assert kind.folder(path).find() == path
    weights = open_weights(str(tmp_path))
    assert weights.step == 5
    assert set(weights.tensors) == {WEIGHT, BIAS}
    assert set(weights.optimizer) == {f"lamb/{path}_m" for path in weights.tensors}
    np.testing.assert_array_equal(weights.read(WEIGHT), np.full((4, 3), 5.0))


@pytest.mark.integration
def test_what_is_written_are_the_values_at_the_time_of_saving(kind, tmp_path, monkeypatch):
    """Training continues while they are written."""
    training = kind.state(5, width=500_000)
    checkpoints = kind.checkpoints(tmp_path, training)
    is_jax = kind.kind is orbax.OrbaxFolder
    module, name = (orbax, "complete") if is_jax else (tensorflow_folder, "_write")
    proceed, write = threading.Event(), getattr(module, name)

    def late(*arguments):
        assert proceed.wait(30)
        write(*arguments)

    monkeypatch.setattr(module, name, late)
    checkpoints.save()
    for _ in range(3):
        training.tree = kind.next_tree(training.tree)
    assert not kind.steps_in(tmp_path), "training does not wait for the disk"
    checkpoints.check()
    proceed.set()
    checkpoints.wait()
    assert checkpoints.latest == f"{tmp_path}/model.ckpt-5"
    weights = open_weights(str(tmp_path))
    assert weights.step == 5
    for path in weights.tensors:
        assert np.unique(weights.read(path)).tolist() == [5.0]
        assert np.unique(weights.optimizer[f"lamb/{path}_m"].read()).tolist() == [5.5]


def test_only_the_newest_are_kept(kind, tmp_path):
    for steps in ((1, 2, 3), (4,)):
        kind.save(tmp_path, steps, keep=2)
        assert kind.steps_in(tmp_path) == list(range(steps[-1] - 1, steps[-1] + 1))
        listed = kind.folder(tmp_path).read_list()
        assert list(listed.saved) == [f"model.ckpt-{step}" for step in kind.steps_in(tmp_path)]
        assert listed.latest == f"model.ckpt-{steps[-1]}"
    assert {name.split("-")[0] for name in os.listdir(tmp_path)} == {
        "model.ckpt",
        kind.kind.list_file,
    }


def test_one_that_is_not_good_replaces_no_good_one(kind, tmp_path):
    kind.save(tmp_path, (1, 2, 3), keep=2)
    kind.save(tmp_path, (4, 5, 6), is_good=False, keep=2)
    assert kind.steps_in(tmp_path) == [2, 3, 6]
    assert kind.restored(tmp_path) == 6
    kind.save(tmp_path, (7,), keep=2)
    assert kind.steps_in(tmp_path) == [6, 7]


@pytest.mark.integration
def test_one_in_so_many_hours_stays_for_good(kind, tmp_path, monkeypatch):
    for step in range(1, 8):
        monkeypatch.setattr(time, "time", lambda hours=step: 1.7e9 + 3600 * hours)
        kind.save(tmp_path, (step,), keep=2, keep_every_n_hours=2)
    assert kind.steps_in(tmp_path) == [3, 5, 6, 7]


@pytest.mark.integration
def test_listed_steps_stay_for_good_besides_the_latest(kind, tmp_path):
    for steps in ((1,), (2, 3, 4, 5), (6, 7, 8)):
        kind.save(tmp_path, steps, keep=2, kept_steps=(1, 3, 7))
        assert kind.restored(tmp_path) == steps[-1]
    assert kind.steps_in(tmp_path) == [1, 3, 6, 7, 8], "two more than the three"
    kind.save(tmp_path, (9, 10, 11), is_good=False, keep=2, kept_steps=(1, 3, 7, 9))
    assert kind.steps_in(tmp_path) == [1, 3, 6, 7, 8, 9, 11], "one of a run that has diverged, too"
    kind.save(tmp_path, (12, 13, 14), keep=2)
    assert kind.steps_in(tmp_path) == [1, 3, 7, 9, 13, 14], "without the flag"


def test_what_a_kill_left_to_remove_is_removed_after_the_next_save(kind, tmp_path, monkeypatch):
    def kill(self, path):
        if kind.kind.is_checkpoint(path):
            raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(kind.kind, "remove", kill)
        with pytest.raises(KeyboardInterrupt):
            kind.save(tmp_path, (1, 2), keep=1)
    assert kind.restored(tmp_path) == 2
    assert kind.steps_in(tmp_path) == [1, 2]
    kind.save(tmp_path, (3,), keep=1)
    assert kind.steps_in(tmp_path) == [3]


def test_a_damaged_latest_is_skipped_in_favor_of_the_one_before(kind, trained, caplog):
    file_of(kind, trained, 3).unlink()
    assert kind.restored(trained) == 2
    (reason,) = caplog.messages
    assert reason.startswith(f"{trained}/model.ckpt-3 is damaged and skipped: ")
    valid = [*kind.folder(trained).valid()]
    assert valid == [f"{trained}/model.ckpt-{step}" for step in (2, 1)]
    caplog.clear()
    kind.save(trained, (3,))
    assert kind.restored(trained) == 3
    assert caplog.messages == []


def test_training_never_starts_from_scratch_over_damaged_checkpoints(kind, trained):
    for step in (1, 2, 3):
        file_of(kind, trained, step).write_bytes(b"")
    message = r"no checkpoint .* \(model.ckpt-3, model.ckpt-2, model.ckpt-1\)"
    with pytest.raises(InputError, match=message):
        kind.checkpoints(trained, kind.state(0)).restore_latest()
    with pytest.raises(InputError, match=message):
        list(kind.folder(trained).valid())
    for path in kind.folder(trained).all():
        kind.folder(trained).remove(path)
    with pytest.raises(InputError, match=r"no checkpoint in it can be read \(model.ckpt-3\)"):
        kind.checkpoints(trained, kind.state(0)).restore_latest()


def test_a_checkpoint_that_a_run_replaces_is_not_damaged(kind, trained, monkeypatch, caplog):
    folder, damage_of, next_step = kind.folder(trained), kind.kind.damage_of, [4]

    def replaced(self, path):
        if next_step:
            kind.save(trained, (next_step.pop(),), keep=1)
        return damage_of(self, path)

    monkeypatch.setattr(kind.kind, "damage_of", replaced)
    assert folder.latest() == f"{trained}/model.ckpt-4"
    next_step.append(5)
    assert [*folder.valid()] == [f"{trained}/model.ckpt-5"]
    next_step.append(6)

    def load(model, path):
        if not kind.kind.is_checkpoint(path):
            raise FileNotFoundError(path)
        if next_step:
            kind.save(trained, (next_step.pop(),), keep=1)
            raise InputError("a value cannot be read")
        return SimpleNamespace(missing=[], loaded=[WEIGHT], source=path)

    monkeypatch.setattr(kind.kind, "damage_of", damage_of)
    monkeypatch.setattr(restoring, "load_weights", load)
    engine = SimpleNamespace(workers=Workers(), checkpoints_in=kind.folder)
    assert restoring.restore_trained(engine, None, str(trained)) == f"{trained}/model.ckpt-6"
    gone = f"{trained}/model.ckpt-5 is no longer there: training has replaced it"
    said = f"{trained}/model.ckpt-6: all 1 variables loaded"
    assert caplog.messages == [gone, said]
    kind.save(trained, (6, 7), keep=2)
    caplog.clear()
    next_step.append(8)
    restored = restoring.iter_checkpoints(engine, None, str(trained))
    assert list(restored) == [f"{trained}/model.ckpt-8"], "one that replaces all"
    assert len(caplog.messages) == 3
    next_step.append(9)
    paths = kind.folder(trained).all()
    kind.save(trained, (10,), keep=2)
    restored = restoring.iter_checkpoints(engine, None, str(trained), [*paths, "no"])
    assert list(restored) == [f"{trained}/model.ckpt-9"], "there is no list"


@pytest.mark.parametrize(
    "content",
    [None, "", "{", "model_checkpoint_pa", '{"latest": "../model.ckpt-9"}', '{"latest": 3}'],
)
def test_without_the_list_of_checkpoints_the_highest_step_is_taken(kind, trained, content):
    (trained / kind.kind.list_file).unlink()
    if content is not None:
        (trained / kind.kind.list_file).write_text(content)
    assert kind.restored(trained) == 3


def test_the_list_can_be_set_back_to_an_older_one(kind, trained):
    kind.folder(trained).list_only(f"{trained}/model.ckpt-2")
    assert kind.restored(trained) == 2
    file_of(kind, trained, 2).unlink()
    assert kind.restored(trained) == 1


def test_what_only_a_user_has_listed_is_never_removed(kind, trained):
    kind.folder(trained).list_only(f"{trained}/model.ckpt-2")
    kind.save(trained, (4, 5), keep=1)
    assert kind.steps_in(trained) == [1, 2, 3, 5]


def test_checkpoints_of_another_model_or_optimizer_are_refused(kind, tmp_path):
    kind.save(tmp_path, (5,))
    with pytest.raises(InputError, match=r"`output_dir`.*kernel has shape \[4, 3\], but \[4, 2\]"):
        kind.checkpoints(tmp_path, kind.state(0, width=2)).restore_latest()
    for change in ("optimizer", "missing", "more"):
        state = kind.state(0, optimizer="adamw" if change == "optimizer" else "lamb")
        if change == "missing":
            del state.tree["params"][BIAS]
        elif change == "more":
            state.tree["params"]["cls/new"] = state.tree["params"][BIAS]
        before = dict(state.tree)
        with pytest.raises(InputError, match="another optimizer or other heads; .* `optimizer`"):
            kind.checkpoints(tmp_path, state).restore_latest()
        assert state.tree == before


def test_checkpoints_of_another_engine_are_not_resumed(kind, tmp_path):
    (other,) = (each for each in FOLDERS.values() if each is not kind.kind)
    check_engine(f"{tmp_path}/missing", kind.kind.engine)
    (tmp_path / other.list_file).touch()
    check_engine(str(tmp_path), other.engine)
    message = f"of engine {other.engine}; resume with.*--to={kind.kind.weights_format}$"
    with pytest.raises(InputError, match=message):
        check_engine(str(tmp_path), kind.kind.engine)


def test_the_best_checkpoint_is_replaced_in_one_step(kind, three_steps, best):
    folder = kind.folder(best)
    for step in (1, 3):
        path = folder.copy(f"{three_steps}/model.ckpt-{step}")
        assert path == f"{best}/model.ckpt-{step}"
        assert folder.listed() == (None if step == 1 else f"{best}/model.ckpt-1")
        pathlib.Path(f"{path}.json").write_text("{}")
        folder.keep_only(path)
        assert kind.steps_in(best) == [step]
        assert [file.name for file in best.glob("*.json*") if file.name.startswith("model")] == [
            f"model.ckpt-{step}.json"
        ]
        assert kind.restored(best) == step


@pytest.mark.parametrize("spelling", ["a/../link/", "q[lr=3] *#\xe9"])
def test_the_best_checkpoint_is_kept_however_the_folder_is_spelled(
    kind, three_steps, tmp_path, monkeypatch, spelling
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "best").mkdir()
    (tmp_path / "link").symlink_to("best")
    if ".." not in spelling:
        (tmp_path / spelling).mkdir()
    for step in (1, 3):
        folder = kind.folder(spelling)
        path = folder.copy(f"{three_steps}//model.ckpt-{step}")
        folder.keep_only(path)
        assert folder.listed() == folder.latest() == path
        assert kind.steps_in(folder.path) == [step]
        assert kind.restored(folder.path) == step
        kind.save(spelling, (4, 5), keep=1)  # removes only what a run has saved
        assert kind.steps_in(folder.path) == [step, 5]
        assert kind.restored(spelling) == 5


@pytest.mark.parametrize("moment", ["copy_file", "write_text", "remove"])
def test_a_kill_leaves_a_whole_best_checkpoint(kind, three_steps, best, monkeypatch, moment):
    folder = kind.folder(best)

    def keep(step: int) -> None:
        folder.keep_only(folder.copy(f"{three_steps}/model.ckpt-{step}"))

    def kill(path, *arguments):
        if moment != "remove" or os.path.exists(path):
            raise KeyboardInterrupt

    keep(1)
    with monkeypatch.context() as patched:
        for module in (policy, tensorflow_folder, files):
            patched.setattr(module, moment, kill, raising=False)
        with pytest.raises(KeyboardInterrupt):
            keep(2)
    assert kind.restored(best) == (2 if moment == "remove" else 1)
    keep(2)
    assert kind.steps_in(best) == [2]
    assert not folder.unfinished()


def test_a_checkpoint_of_the_same_step_from_another_run_is_no_longer_listed(
    kind, three_steps, best, tmp_path
):
    folder = kind.folder(best)
    folder.keep_only(folder.copy(f"{three_steps}/model.ckpt-3"))
    kind.save(tmp_path, (3,))
    folder.copy(f"{tmp_path}/model.ckpt-3")
    assert folder.listed() is None
    assert kind.folder(best).read_list() is None


def test_a_save_that_fails_is_reported_once(kind, tmp_path, monkeypatch):
    checkpoints = kind.checkpoints(tmp_path, kind.state(1))

    def fill_up(path, *arguments):
        for name in ("model.ckpt-1_temp", ".model.ckpt-1.unfinished.orbax"):
            if name.startswith(".") == (kind.kind is orbax.OrbaxFolder):
                (tmp_path / name).mkdir(exist_ok=True)
        raise OSError(28, "No space left on device", path)

    with monkeypatch.context() as patched:
        patched.setattr(tensorflow_folder, "_write", fill_up)
        patched.setattr(orbax, "complete", fill_up)
        checkpoints.save()
        with pytest.raises(OSError, match="No space left on device"):
            checkpoints.wait()
        assert list(tmp_path.iterdir()) == []
        checkpoints.wait()
        checkpoints.save()
        with pytest.raises(OSError, match="No space left"):
            checkpoints.save()
        with pytest.raises(OSError, match="No space left"), checkpoints:
            checkpoints.save()
        checkpoints.save()
        with pytest.raises(ValueError, match="the first error"), checkpoints:
            raise ValueError("the first error is the one that is reported")
    checkpoints.save()
    checkpoints.wait()
    assert kind.steps_in(tmp_path) == [1]


def test_the_log_comes_before_the_checkpoint(kind, tmp_path):
    checkpoints = kind.checkpoints(tmp_path, kind.state(1))
    seen: list[list[int]] = []
    checkpoints.before_listing = lambda: seen.append(kind.steps_in(tmp_path))
    with checkpoints:
        checkpoints.save()
    assert seen == [[]]
    assert checkpoints.latest == f"{tmp_path}/model.ckpt-1"


def test_workers_need_one_shared_folder(kind, tmp_path):
    kind.save(tmp_path, (1,))

    class Elsewhere(Workers):
        def from_chief(self, work):
            return f"{tmp_path}/model.ckpt-2"

    with pytest.raises(InputError, match="all workers need one shared folder"):
        latest_for_all(kind.folder(tmp_path), Elsewhere(("a:1", "b:1"), 1, lambda values: values))
