"""Checkpoints: flat names, resuming, and what does not fit."""

from __future__ import annotations

import dataclasses
import functools
import shutil
import threading
import time

import keras
import numpy as np
import pytest
import tensorflow as tf

from albert_tf.engines.tensorflow.checkpoints import Checkpoints, latest_valid
from albert_tf.errors import InputError
from albert_tf.interop.formats import load_weights, open_weights
from albert_tf.modeling.heads import AlbertForPreTraining, AlbertForSequenceClassification
from albert_tf.optimization import create_optimizer
from tests.support.tiny import CONFIG


def saved(folder, optimizer_name="lamb", step=5):
    """A checkpoint of a model with random weights; returns both."""
    keras.utils.set_random_seed(3)
    model = AlbertForPreTraining(CONFIG)
    optimizer = create_optimizer(optimizer_name, 0.1)
    optimizer.build(model.trainable_weights)
    optimizer.iterations.assign(step)
    for number, variable in enumerate(optimizer.variables):
        if variable.shape:
            variable.assign(variable + number)
    with Checkpoints(str(folder), model, optimizer) as checkpoints:
        checkpoints.save()
    return model, optimizer


def fresh(optimizer_name="lamb", config=CONFIG):
    keras.utils.set_random_seed(4)
    model = AlbertForPreTraining(config)
    optimizer = create_optimizer(optimizer_name, 0.1)
    optimizer.build(model.trainable_weights)
    return model, optimizer


@pytest.mark.integration
def test_everything_comes_back(tmp_path):
    model, optimizer = saved(tmp_path)
    other, other_optimizer = fresh()
    checkpoints = Checkpoints(str(tmp_path), other, other_optimizer)
    assert checkpoints.restore_latest()
    assert checkpoints.latest.endswith("model.ckpt-5")
    assert int(other_optimizer.iterations.numpy()) == 5
    for one, two in zip(
        model.weights + optimizer.variables, other.weights + other_optimizer.variables, strict=True
    ):
        np.testing.assert_array_equal(one.numpy(), two.numpy())


def test_names_are_the_originals(tmp_path):
    saved(tmp_path)
    weights = open_weights(str(tmp_path))
    assert weights.step == 5
    shapes = {path: list(tensor.shape) for path, tensor in weights.tensors.items()}
    layer = "bert/encoder/transformer/group_0/inner_group_0"
    assert shapes[f"{layer}/attention_1/self/query/kernel"] == [16, 16]
    assert shapes[f"{layer}/ffn_1/intermediate/output/dense/kernel"] == [32, 16]
    assert shapes["cls/seq_relationship/output_weights"] == [2, 16]
    assert shapes["bert/embeddings/word_embeddings"] == [60, 8]


@functools.cache
def shared_model():
    """A model and optimizer that tests share whose subject is the files."""
    return fresh()


def fill(model, optimizer, step) -> None:
    optimizer.iterations.assign(step)
    for weight in model.weights:
        weight.assign(tf.fill(weight.shape, tf.cast(step, weight.dtype)))


def save_steps(folder, steps, **options):
    """A checkpoint for every step; in step N every weight is N."""
    model, optimizer = shared_model()
    with Checkpoints(str(folder), model, optimizer, **options) as checkpoints:
        for step in steps:
            fill(model, optimizer, step)
            checkpoints.save()


def steps_in(folder) -> list[int]:
    return sorted(int(path.stem.split("-")[1]) for path in folder.glob("model.ckpt-*.index"))


def restored(folder) -> tuple[int, float]:
    """Step and value of the weights that a new process would resume from."""
    model, optimizer = shared_model()
    fill(model, optimizer, 77)
    assert Checkpoints(str(folder), model, optimizer).restore_latest()
    (value,) = {float(x) for weight in model.weights for x in np.ravel(weight.numpy())}
    return int(optimizer.iterations.numpy()), value


def test_nothing_to_resume(tmp_path):
    assert not Checkpoints(str(tmp_path), *shared_model()).restore_latest()


def test_only_the_newest_are_kept(tmp_path):
    save_steps(tmp_path, (1, 2, 3), keep=2)
    assert steps_in(tmp_path) == [2, 3]


@pytest.mark.integration
def test_one_in_so_many_hours_stays_for_good(tmp_path, monkeypatch):
    model, optimizer = shared_model()
    for step in range(1, 13):
        hours = step  # one between two checkpoints
        monkeypatch.setattr(time, "time", lambda hours=hours: 1.7e9 + 3600 * hours)
        with Checkpoints(str(tmp_path), model, optimizer, 2, keep_every_n_hours=4) as checkpoints:
            optimizer.iterations.assign(step)
            checkpoints.save()
    assert steps_in(tmp_path) == [5, 9, 11, 12]


@pytest.mark.integration
def test_what_is_written_are_the_values_at_the_time_of_saving(tmp_path):
    model, optimizer = saved(tmp_path / "other")
    expected = [weight.numpy() for weight in model.weights]
    checkpoints = Checkpoints(str(tmp_path), model, optimizer)
    go_on, write = threading.Event(), checkpoints._manager.save

    def late(checkpoint_number, options):
        assert go_on.wait(30)
        return write(checkpoint_number=checkpoint_number, options=options)

    checkpoints._manager.save = late
    checkpoints.save()
    assert not list(tmp_path.glob("*.index")), "nothing waits for the disk"
    step = tf.function(lambda: [weight.value.assign_add(weight.value * 2) for weight in weights])
    weights = [weight for weight in model.weights if weight.dtype == "float32"]
    step()
    optimizer.iterations.assign(9)
    go_on.set()
    checkpoints.wait()
    assert checkpoints.latest.endswith("model.ckpt-5")
    other, other_optimizer = fresh()
    Checkpoints(str(tmp_path), other, other_optimizer).restore_latest()
    assert int(other_optimizer.iterations.numpy()) == 5
    for weight, value in zip(other.weights, expected, strict=True):
        np.testing.assert_array_equal(weight.numpy(), value)


def cut(path, share):
    path.write_bytes(path.read_bytes()[: int(share * path.stat().st_size)])


def flip(path):
    raw = bytearray(path.read_bytes())
    raw[len(raw) // 3] ^= 1
    path.write_bytes(raw)


DAMAGE = {
    "data cut": lambda folder: cut(folder / "model.ckpt-3.data-00000-of-00001", 0.6),
    "data empty": lambda folder: cut(folder / "model.ckpt-3.data-00000-of-00001", 0),
    "data missing": lambda folder: (folder / "model.ckpt-3.data-00000-of-00001").unlink(),
    "data changed": lambda folder: flip(folder / "model.ckpt-3.data-00000-of-00001"),
    "index cut": lambda folder: cut(folder / "model.ckpt-3.index", 0.5),
    "index empty": lambda folder: cut(folder / "model.ckpt-3.index", 0),
    "index missing": lambda folder: (folder / "model.ckpt-3.index").unlink(),
}


@pytest.fixture(scope="module")
def three_steps(tmp_path_factory):
    folder = tmp_path_factory.mktemp("checkpoints")
    save_steps(folder, (1, 2, 3))
    return folder


@pytest.mark.integration
@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_latest_is_skipped_in_favor_of_the_one_before(
    tmp_path, caplog, damage, three_steps
):
    shutil.copytree(three_steps, tmp_path, dirs_exist_ok=True)
    DAMAGE[damage](tmp_path)
    assert restored(tmp_path) == (2, 2.0)
    warning, choice = caplog.messages
    assert warning.startswith(f"{tmp_path}/model.ckpt-3 is damaged and skipped: ")
    assert choice == f"using {tmp_path}/model.ckpt-2 instead"
    caplog.clear()
    save_steps(tmp_path, (3,))
    assert restored(tmp_path) == (3, 3.0)
    assert caplog.messages == []


@pytest.mark.integration
def test_training_never_starts_anew_over_damaged_checkpoints(tmp_path):
    save_steps(tmp_path, (2, 3))
    for path in tmp_path.glob("*.data*"):
        cut(path, 0.5)
    with pytest.raises(InputError, match=r"no checkpoint .* \(model.ckpt-3, model.ckpt-2\)"):
        Checkpoints(str(tmp_path), *shared_model()).restore_latest()
    for path in tmp_path.glob("model.ckpt*"):
        path.unlink()
    with pytest.raises(InputError, match="no checkpoint in it can be read"):
        Checkpoints(str(tmp_path), *shared_model()).restore_latest()


@pytest.mark.integration
@pytest.mark.parametrize("content", [None, "", "model_checkpoint_pa"])
def test_without_the_list_of_checkpoints_the_highest_step_is_taken(tmp_path, content):
    save_steps(tmp_path, (9, 10))
    (tmp_path / "checkpoint").unlink()
    if content is not None:
        (tmp_path / "checkpoint").write_text(content)
    assert restored(tmp_path) == (10, 10.0)


@pytest.mark.integration
def test_the_list_can_be_set_back_to_an_older_one(tmp_path):
    save_steps(tmp_path, (1, 2, 3))
    (tmp_path / "checkpoint").write_text('model_checkpoint_path: "model.ckpt-2"\n')
    assert restored(tmp_path) == (2, 2.0)
    cut(tmp_path / "model.ckpt-2.data-00000-of-00001", 0.5)
    assert restored(tmp_path) == (1, 1.0)


@pytest.mark.integration
def test_what_a_kill_left_half_written_is_removed(tmp_path):
    save_steps(tmp_path, (1,))
    before = {path.name for path in tmp_path.iterdir()}
    (tmp_path / "model.ckpt-2_temp").mkdir()
    (tmp_path / "model.ckpt-2_temp" / "part").write_text("half")
    Checkpoints(str(tmp_path), *shared_model()).remove_unfinished()
    assert {path.name for path in tmp_path.iterdir()} == before


@pytest.mark.integration
@pytest.mark.parametrize("share", [0, 0.5])
def test_a_first_checkpoint_with_a_half_written_index_counts_as_none(tmp_path, share):
    save_steps(tmp_path, (1,))
    cut(tmp_path / "model.ckpt-1.index", share)
    with pytest.raises(InputError, match="no checkpoint in it can be read"):
        restored(tmp_path)  # It is listed, so it was complete.
    (tmp_path / "checkpoint").unlink()
    assert latest_valid(str(tmp_path)) is None
    Checkpoints(str(tmp_path), *shared_model()).remove_unfinished()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.integration
def test_a_checkpoint_of_another_config_is_refused(tmp_path):
    saved(tmp_path)
    other = fresh(config=dataclasses.replace(CONFIG, intermediate_size=48))
    with pytest.raises(InputError, match=r"ffn_1/intermediate/dense.*\[16, 32\].*\[16, 48\]"):
        Checkpoints(str(tmp_path), *other).restore_latest()
    with pytest.raises(InputError, match="ffn_1/intermediate/dense"):
        load_weights(other[0], str(tmp_path))


@pytest.mark.integration
def test_a_checkpoint_of_another_optimizer_is_refused(tmp_path):
    saved(tmp_path, "lamb")
    with pytest.raises(InputError, match="`optimizer`"):
        Checkpoints(str(tmp_path), *fresh("adamw")).restore_latest()


@pytest.mark.integration
def test_a_shallower_encoder_does_not_pass_for_a_deeper_one(tmp_path):
    saved(tmp_path)
    deeper = fresh(config=dataclasses.replace(CONFIG, num_hidden_groups=2))[0]
    with pytest.raises(InputError, match="lacks bert/encoder/transformer/group_1"):
        load_weights(deeper, str(tmp_path))


@pytest.mark.integration
def test_a_deeper_model_can_start_from_the_first_group(tmp_path):
    saved(tmp_path)
    deeper = fresh(config=dataclasses.replace(CONFIG, num_hidden_groups=2, inner_group_num=2))[0]
    matched = load_weights(deeper, str(tmp_path), init_from_group0=True)
    assert not matched.missing
    assert not matched.unused
    blocks = [block.weights for block in deeper.encoder.blocks]
    assert len(blocks) == 4
    for block in blocks[1:]:
        for one, other in zip(blocks[0], block, strict=True):
            np.testing.assert_array_equal(one.numpy(), other.numpy())


def test_a_classifier_takes_the_encoder_and_keeps_its_own_head(tmp_path):
    pretrained, _ = saved(tmp_path)
    classifier = AlbertForSequenceClassification(CONFIG, num_labels=3)
    before = classifier.classifier.output_weights.numpy().copy()
    matched = load_weights(classifier, str(tmp_path / "model.ckpt-5"))
    assert matched.missing == ["classifier/output_weights", "classifier/output_bias"]
    assert all(name.startswith("cls/") for name in matched.unused)
    assert matched.unused
    for one, two in zip(pretrained.encoder.weights, classifier.encoder.weights, strict=True):
        np.testing.assert_array_equal(one.numpy(), two.numpy())
    np.testing.assert_array_equal(classifier.classifier.output_weights.numpy(), before)


def test_places_without_a_checkpoint_are_named(tmp_path):
    with pytest.raises(InputError, match=r"`path`=.*nowhere: contains no checkpoint"):
        open_weights(str(tmp_path / "nowhere"))
    (tmp_path / "broken.index").write_bytes(b"not a checkpoint")
    with pytest.raises(InputError, match=r"broken: cannot be read"):
        open_weights(str(tmp_path / "broken"))


def test_a_full_disk_is_an_os_error_and_leaves_nothing_half_written(tmp_path, monkeypatch):
    model, optimizer = fresh()
    checkpoints = Checkpoints(str(tmp_path), model, optimizer)

    def fill_up(checkpoint_number, options):
        half = tmp_path / f"model.ckpt-{checkpoint_number}_temp"
        half.mkdir()
        (half / "part").write_text("half")
        raise tf.errors.ResourceExhaustedError(None, None, "{{node x}} p; No space left on device")

    monkeypatch.setattr(checkpoints._manager, "save", fill_up)
    failure = pytest.raises(OSError, match="^p; No space left on device$")
    checkpoints.save()
    with failure:
        checkpoints.wait()
    assert list(tmp_path.iterdir()) == []
    checkpoints.wait()  # it is reported once
    checkpoints.save()
    with pytest.raises(OSError, match="No space left"):
        checkpoints.save()
    with pytest.raises(OSError, match="No space left"), checkpoints:
        checkpoints.save()
    checkpoints.save()
    with pytest.raises(ValueError, match="the first error"), checkpoints:
        raise ValueError("the first error is the one that is reported")


def test_the_state_of_an_optimizer_is_two_moments_per_weight(tmp_path):
    model, _ = saved(tmp_path)
    names = tf.train.load_checkpoint(str(tmp_path)).get_variable_to_shape_map()
    state = [name for name in names if name.startswith("optimizer/")]
    moments = [name for name in state if "adam_" in name]
    assert len(moments) == 2 * len(model.trainable_weights)
    assert all("learning_rate" in name for name in set(state) - set(moments))
