"""Checkpoints: flat names, resuming, and what does not fit."""

from __future__ import annotations

import dataclasses

import keras
import numpy as np
import pytest
import tensorflow as tf

from albert_tf.errors import InputError
from albert_tf.interop.formats import load_weights, open_weights
from albert_tf.modeling.heads import AlbertForPreTraining, AlbertForSequenceClassification
from albert_tf.optimization import create_optimizer
from albert_tf.training.checkpoints import Checkpoints
from tests.tiny import CONFIG


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
    Checkpoints(str(folder), model, optimizer).save()
    return model, optimizer


def fresh(optimizer_name="lamb", config=CONFIG):
    keras.utils.set_random_seed(4)
    model = AlbertForPreTraining(config)
    optimizer = create_optimizer(optimizer_name, 0.1)
    optimizer.build(model.trainable_weights)
    return model, optimizer


def test_everything_comes_back(tmp_path):
    model, optimizer = saved(tmp_path)
    other, other_optimizer = fresh()
    checkpoints = Checkpoints(str(tmp_path), other, other_optimizer)
    assert checkpoints.latest.endswith("model.ckpt-5")
    assert checkpoints.restore_latest()
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


def test_nothing_to_resume(tmp_path):
    assert not Checkpoints(str(tmp_path), *fresh()).restore_latest()


def test_only_the_newest_are_kept(tmp_path):
    model, optimizer = fresh()
    checkpoints = Checkpoints(str(tmp_path), model, optimizer, keep=2)
    for step in (1, 2, 3):
        optimizer.iterations.assign(step)
        checkpoints.save()
    assert sorted(path.stem for path in tmp_path.glob("*.index")) == [
        "model.ckpt-2",
        "model.ckpt-3",
    ]


def test_a_checkpoint_of_another_config_is_refused(tmp_path):
    saved(tmp_path)
    other = fresh(config=dataclasses.replace(CONFIG, intermediate_size=48))
    with pytest.raises(InputError, match=r"ffn_1/intermediate/dense.*\[16, 32\].*\[16, 48\]"):
        Checkpoints(str(tmp_path), *other).restore_latest()
    with pytest.raises(InputError, match="ffn_1/intermediate/dense"):
        load_weights(other[0], str(tmp_path))


def test_a_checkpoint_of_another_optimizer_is_refused(tmp_path):
    saved(tmp_path, "lamb")
    with pytest.raises(InputError, match="--optimizer"):
        Checkpoints(str(tmp_path), *fresh("adamw")).restore_latest()


def test_a_shallower_encoder_does_not_pass_for_a_deeper_one(tmp_path):
    saved(tmp_path)
    deeper = fresh(config=dataclasses.replace(CONFIG, num_hidden_groups=2))[0]
    with pytest.raises(InputError, match="lacks bert/encoder/transformer/group_1"):
        load_weights(deeper, str(tmp_path))


def test_a_deeper_model_can_start_from_the_first_group(tmp_path):
    saved(tmp_path)
    deeper = fresh(config=dataclasses.replace(CONFIG, num_hidden_groups=2, inner_group_num=2))[0]
    matched = load_weights(deeper, str(tmp_path), init_from_group0=True)
    assert not matched.fresh
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
    assert matched.fresh == ["classifier/output_weights", "classifier/output_bias"]
    assert all(name.startswith("cls/") for name in matched.unused)
    assert matched.unused
    for one, two in zip(pretrained.encoder.weights, classifier.encoder.weights, strict=True):
        np.testing.assert_array_equal(one.numpy(), two.numpy())
    np.testing.assert_array_equal(classifier.classifier.output_weights.numpy(), before)


def test_places_without_a_checkpoint_are_named(tmp_path):
    with pytest.raises(InputError, match=r"--init_checkpoint=.*nowhere: no checkpoint"):
        open_weights(str(tmp_path / "nowhere"))
    (tmp_path / "broken.index").write_bytes(b"not a checkpoint")
    with pytest.raises(InputError, match=r"broken: cannot be read"):
        open_weights(str(tmp_path / "broken"))


def test_a_full_disk_is_an_os_error_and_leaves_nothing_half_written(tmp_path, monkeypatch):
    model, optimizer = fresh()
    checkpoints = Checkpoints(str(tmp_path), model, optimizer)

    def fill_up(checkpoint_number):
        half = tmp_path / f"model.ckpt-{checkpoint_number}_temp"
        half.mkdir()
        (half / "part").write_text("half")
        raise tf.errors.ResourceExhaustedError(None, None, "{{node x}} p; No space left on device")

    monkeypatch.setattr(checkpoints._manager, "save", fill_up)
    with pytest.raises(OSError, match="^p; No space left on device$"):
        checkpoints.save()
    assert list(tmp_path.iterdir()) == []
