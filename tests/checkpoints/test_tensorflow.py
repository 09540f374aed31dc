"""Checkpoints of the TensorFlow engine: damage, kills, and their list."""

import pathlib

import pytest
import tensorflow as tf

from albert_tf.checkpoints import tensorflow as tensorflow_checkpoints
from albert_tf.engines.workers import Workers
from albert_tf.errors import InputError
from tests.support.checkpoints import tensorflow

KIND = tensorflow()


def cut(path, share):
    path.write_bytes(path.read_bytes()[: int(share * path.stat().st_size)])


def flip(path):
    raw = bytearray(path.read_bytes())
    raw[len(raw) // 3] ^= 1
    path.write_bytes(raw)


@pytest.mark.parametrize("ending", ["data-00000-of-00001", "index"])
@pytest.mark.parametrize(
    "damage",
    [lambda path: cut(path, 0.6), lambda path: cut(path, 0), pathlib.Path.unlink, flip],
    ids=["cut", "empty", "missing", "changed"],
)
def test_damage_is_found(tmp_path, damage, ending):
    KIND.save(tmp_path, (3,))
    path = f"{tmp_path}/model.ckpt-3"
    assert KIND.folder(tmp_path).damage_of(path) is None
    damage(pathlib.Path(f"{path}.{ending}"))
    assert KIND.folder(tmp_path).damage_of(path) is not None


def test_what_a_kill_left_half_written_is_removed(tmp_path):
    KIND.save(tmp_path, (1,))
    before = {path.name for path in tmp_path.iterdir()}
    (tmp_path / "model.ckpt-2_temp").mkdir()
    (tmp_path / "model.ckpt-2_temp" / "part").write_text("half")
    KIND.folder(tmp_path).remove_unfinished()
    assert {path.name for path in tmp_path.iterdir()} == before


@pytest.mark.parametrize("share", [0, 0.5])
def test_a_first_checkpoint_with_a_half_written_index_counts_as_none(tmp_path, share):
    KIND.save(tmp_path, (1,))
    folder = KIND.folder(tmp_path)
    cut(tmp_path / "model.ckpt-1.index", share)
    with pytest.raises(InputError, match="no checkpoint in it can be read"):
        folder.latest()  # It is listed, so it was complete.
    (tmp_path / "checkpoint").unlink()
    assert folder.latest() is None
    folder.remove_unfinished()
    assert list(tmp_path.iterdir()) == []


def test_the_list_is_that_of_tensorflow(tmp_path):
    """Folders of earlier versions are resumed, and other programs find the latest checkpoint."""
    checkpoint = tf.train.Checkpoint(step=tf.Variable(0))
    manager = tf.train.CheckpointManager(
        checkpoint, str(tmp_path), max_to_keep=2, checkpoint_name="model.ckpt"
    )
    for step in (1, 2, 3):
        manager.save(checkpoint_number=step)
    listed = KIND.folder(tmp_path).read_list()
    assert (listed.latest, list(listed.saved)) == ("model.ckpt-3", ["model.ckpt-2", "model.ckpt-3"])
    KIND.folder(tmp_path).add(f"{tmp_path}/model.ckpt-3", 1, 0)
    assert KIND.steps_in(tmp_path) == [3]
    state = tf.train.get_checkpoint_state(str(tmp_path))
    assert state.model_checkpoint_path == f"{tmp_path}/model.ckpt-3"
    assert list(state.all_model_checkpoint_paths) == [f"{tmp_path}/model.ckpt-3"]
    assert len(state.all_model_checkpoint_timestamps) == 1
    assert state.last_preserved_timestamp > 1.7e9


def test_a_list_may_name_another_folder(tmp_path):
    folder = tmp_path / 'Mänz "1"'
    folder.mkdir()
    KIND.save(folder, (3,))
    tf.compat.v1.train.update_checkpoint_state(str(tmp_path), f"{folder}/model.ckpt-3")
    assert tf.train.latest_checkpoint(str(tmp_path)) == f"{folder}/model.ckpt-3"
    assert KIND.folder(tmp_path).find() == f"{folder}/model.ckpt-3"


def test_a_full_disk_is_an_os_error_of_one_line(tmp_path, monkeypatch):
    checkpoints = KIND.checkpoints(tmp_path, KIND.state(1))

    def fill_up(*arguments):
        raise tf.errors.ResourceExhaustedError(None, None, "{{node x}} p; No space left on device")

    monkeypatch.setattr(tensorflow_checkpoints, "_write", fill_up)
    checkpoints.save()
    with pytest.raises(OSError, match="^p; No space left on device$"):
        checkpoints.wait()


def test_a_folder_may_be_named_like_a_file_of_a_checkpoint(tmp_path):
    folder = tmp_path / "out.meta"
    folder.mkdir()
    KIND.save(folder, (1,))
    assert KIND.steps_in(folder) == [1]
    assert not (tmp_path / "out").exists()
    path = str(folder / "model.ckpt-1")
    assert KIND.folder(f"{path}.data-00000-of-00001").find() == path


def test_only_the_chief_changes_the_list(tmp_path):
    second = Workers(("a:1", "b:1"), 1, lambda values: values)
    checkpoints = KIND.checkpoints(tmp_path, KIND.state(1), second)
    checkpoints.save()
    checkpoints.wait()
    assert checkpoints.latest == f"{tmp_path}/model.ckpt-1"
    assert list(tmp_path.iterdir()) == []
