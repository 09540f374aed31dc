"""Parts of a batch that go through the layers apart come to what the whole batch comes to."""

from __future__ import annotations

import dataclasses

import keras
import numpy as np
import pytest
from keras import ops

from albert_tf.modeling.encoder import AlbertEncoder
from albert_tf.modeling.heads import AlbertForPreTraining
from albert_tf.modeling.kernels import PLAIN, using
from albert_tf.modeling.layer_calls import (
    join,
    pruning,
    rematerializing,
    side_by_side,
    split,
)
from albert_tf.training.cpu_kernels import CPU_KERNELS
from tests.backends import as_numpy, gradient_function
from tests.tiny import CONFIG, batch

WITHOUT_DROPOUT = dataclasses.replace(
    CONFIG, initializer_range=0.3, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0
)
GROUPS = dataclasses.replace(
    WITHOUT_DROPOUT, num_hidden_layers=4, num_hidden_groups=2, inner_group_num=2
)


def loss_of(outputs, batch):
    loss = ops.mean(ops.square(outputs["masked_lm_logits"]))
    return loss + ops.mean(ops.square(outputs["sentence_order_logits"])), outputs


@pytest.mark.parametrize("kernels", [PLAIN, CPU_KERNELS], ids=["plain", "fused"])
@pytest.mark.parametrize(
    ("config", "examples", "parts"),
    [(WITHOUT_DROPOUT, 4, 2), (WITHOUT_DROPOUT, 5, 3), (GROUPS, 3, 2), (WITHOUT_DROPOUT, 1, 2)],
    ids=["halves", "uneven", "groups", "too few"],
)
def test_outputs_and_gradients_are_the_same(config, examples, parts, kernels):
    keras.utils.set_random_seed(0)
    model = AlbertForPreTraining(config)
    differentiate = gradient_function(model, loss_of, training=True)
    results = []
    for count in (1, parts):
        with using(kernels), pruning(), side_by_side(count), rematerializing(config is GROUPS):
            results.append(as_numpy(differentiate(batch(examples))))
    (whole, gradients), (outputs, others) = results
    assert outputs.keys() == whole.keys()
    for name, values in outputs.items():
        np.testing.assert_allclose(values, whole[name], rtol=0, atol=2e-5, err_msg=name)
    largest = max(np.abs(gradient).max() for gradient in gradients)
    for weight, one, other in zip(model.trainable_weights, gradients, others, strict=True):
        np.testing.assert_allclose(
            other, one, rtol=0, atol=1e-5 * largest, err_msg=weight.path, strict=True
        )


@pytest.mark.parametrize(
    ("examples", "parts", "sizes"), [(8, 2, [4, 4]), (5, 3, [1, 2, 2]), (1, 2, [1]), (3, 1, [3])]
)
def test_no_part_is_empty(examples, parts, sizes):
    tensor = ops.reshape(ops.arange(2 * examples), (examples, 2))
    with side_by_side(parts):
        found = split(tensor)
    assert [part.shape[0] for part in found] == sizes
    np.testing.assert_array_equal(join(found), tensor)


def test_all_outputs_of_all_layers_are_there():
    encoder = AlbertEncoder(GROUPS)
    features = {name: batch(5)[name] for name in ("input_ids", "input_mask", "segment_ids")}
    whole = as_numpy(encoder(features))
    with side_by_side(2):
        outputs = as_numpy(encoder(features))
    assert len(outputs["encoder_outputs"]) == 8
    keras.tree.map_structure(
        lambda one, other: np.testing.assert_allclose(one, other, rtol=0, atol=2e-5),
        outputs,
        whole,
    )


def test_each_part_has_dropout_of_its_own():
    # Of the layers alone: what comes in is alike for all examples.
    encoder = AlbertEncoder(dataclasses.replace(CONFIG, initializer_range=0.3))
    encoder.embeddings = lambda ids, segments, seed: ops.ones((*ids.shape, CONFIG.embedding_size))
    features = {"input_ids": np.zeros((4, 16), "int32")}
    with side_by_side(4):
        outputs = as_numpy(encoder(features, training=True)["sequence_output"])
        alike = as_numpy(encoder(features)["sequence_output"])
    assert np.ptp(alike, axis=0).max() < 1e-6
    for one in range(4):
        for other in range(one):
            assert np.abs(outputs[one] - outputs[other]).max() > 0.1
