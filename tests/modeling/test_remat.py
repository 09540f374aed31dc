"""Layers that the backward pass computes a second time give the same gradients."""

import dataclasses

import keras
import numpy as np
import pytest
from keras import ops

from albert_tf.modeling.heads import AlbertForPreTraining
from albert_tf.modeling.kernels import Execution
from tests.support.backends import BACKEND, as_numpy, gradient_function, operations
from tests.support.tiny import CONFIG, batch

SOFTMAX = "Softmax" if BACKEND == "tensorflow" else "exp"


def loss_of(outputs, batch):
    loss = ops.mean(ops.square(outputs["masked_lm_logits"]))
    return loss + ops.mean(ops.square(outputs["sentence_order_logits"])), {}


def differentiated(model, remat):
    """Return a function of a batch that returns gradients."""
    return gradient_function(model, loss_of, training=True, execution=Execution(remat=remat))


def gradients_of(model, remat):
    """Return a function of the dropout's seed."""
    differentiate = differentiated(model, remat)

    def gradients(seed=(5, 40)):
        model.encoder.seed_generator.state.assign(seed)
        return as_numpy(differentiate(batch(8))[1])

    return gradients


@pytest.mark.integration
@pytest.mark.parametrize("fields", [{}, {"num_hidden_layers": 1, "inner_group_num": 2}])
def test_gradients_are_the_same_with_dropout(fields):
    keras.utils.set_random_seed(0)
    model = AlbertForPreTraining(dataclasses.replace(CONFIG, **fields))
    keeping, computing_again = gradients_of(model, False), gradients_of(model, True)
    kept, again = keeping(), computing_again()
    largest = max(np.abs(gradient).max() for gradient in kept)
    for weight, one, two in zip(model.trainable_weights, kept, again, strict=True):
        np.testing.assert_allclose(two, one, rtol=0, atol=1e-6 * largest, err_msg=weight.path)
    # Dropout acted: with another seed the gradients are others, by far more.
    other = computing_again((6, 40))
    assert max(np.abs(a - b).max() for a, b in zip(again, other, strict=True)) > 0.01 * largest


def test_gradients_are_nearly_the_same_in_bfloat16():
    keras.utils.set_random_seed(0)
    model = AlbertForPreTraining(CONFIG, dtype="mixed_bfloat16")
    kept, again = gradients_of(model, False)(), gradients_of(model, True)()
    largest = max(np.abs(gradient).max() for gradient in kept)
    for weight, one, two in zip(model.trainable_weights, kept, again, strict=True):
        np.testing.assert_allclose(two, one, rtol=0, atol=0.01 * largest, err_msg=weight.path)


@pytest.mark.integration
def test_every_layer_is_computed_again_and_only_where_it_is_asked_for():
    model = AlbertForPreTraining(dataclasses.replace(CONFIG, num_hidden_layers=2))
    for remat, count in ((False, 2), (True, 4)):
        assert operations(differentiated(model, remat), batch(8)).count(SOFTMAX) == count
