"""The JAX engine's kernels, called from TensorFlow: values and gradients of the plain ones."""

import functools

import numpy as np
import pytest
import tensorflow as tf

pytest.importorskip("jax", reason="JAX is not installed (the extra `jax`)")

from albert_tf.engines.jax.attention import tpu_attention
from albert_tf.engines.tensorflow import tpu_kernels
from albert_tf.engines.tensorflow.tpu_kernels import TPU_KERNELS
from albert_tf.modeling.attention import DEFAULT, ExampleIds
from albert_tf.modeling.kernels import PLAIN_KERNELS, WeightDropout
from tests.engines.jax.compare_kernels import CASES as COMPARED
from tests.engines.tensorflow.test_cpu_kernels import draw, value_and_gradients

pytestmark = pytest.mark.integration

MASK = np.ones((2, 128), "int32")
MASK[0, 100:] = 0
ROWS = MASK * (1 + (np.arange(128, dtype="int32") > 40))
# Name -> shapes of the tensors, and further arguments.
CASES = {name: COMPARED[name] for name in ("add_norm", "project_heads", "merge_heads", "score")}
CASES["attention"] = ([(2, 3, 128, 8)] * 3, (MASK,))
CASES["attention of rows"] = ([(2, 3, 128, 8)] * 3, (ExampleIds(ROWS, ROWS),))


@pytest.fixture(autouse=True)
def interpreted(monkeypatch):
    """Have the kernels of TPUs run on a CPU."""
    interpreted = functools.partial(tpu_attention, interpret=True)
    monkeypatch.setattr(tpu_kernels, "tpu_attention", interpreted)


def kernel_of(kernels, name):
    is_attention = name.startswith("attention")
    return kernels.attention[DEFAULT] if is_attention else getattr(kernels, name)


def by_xla(function):
    return tf.function(function, autograph=False, jit_compile=True)


@pytest.mark.parametrize("name", CASES)
def test_they_compute_what_the_plain_ones_do(name):
    shapes, further = CASES[name]

    def results(kernels):
        def first_output(*inputs):
            outputs = kernel_of(kernels, name)(*inputs, *further)
            return outputs[0] if isinstance(outputs, tuple) else outputs

        return by_xla(functools.partial(value_and_gradients, first_output))(*draw(*shapes))

    for ours, plain in zip(results(TPU_KERNELS), results(PLAIN_KERNELS), strict=True):
        np.testing.assert_allclose(ours, plain, rtol=0, atol=2e-6 * np.abs(plain).max())


def test_hits_are_those_of_the_plain_score():
    ((logits,), (labels,)) = draw((2, 3, 7)), CASES["score"][1]
    labels = labels.copy()
    labels[0, 1] = np.argmax(logits[0, 1])
    ours, plain = (by_xla(each.score)(logits, labels)[1] for each in (TPU_KERNELS, PLAIN_KERNELS))
    np.testing.assert_array_equal(ours, plain)
    assert 0 < np.sum(plain) < np.size(plain)


@pytest.mark.parametrize("seed", [[3, 1], [2**40 + 3, 1]])
def test_the_mask_of_dropout_depends_on_the_seed_alone(seed):
    ones = tf.ones((4, 128, 64))

    def drop(seed):
        dropped = functools.partial(TPU_KERNELS.dropout, rate=0.25, seed=tf.constant(seed, "int64"))
        return by_xla(functools.partial(value_and_gradients, dropped))(ones)

    (first, gradient), (again, _), (other, _) = drop(seed), drop(seed), drop([seed[0], 2])
    np.testing.assert_array_equal(first, again)
    assert set(np.unique(first)) == {0, np.float32(4 / 3)}
    # Of 32,768 elements: within five standard deviations.
    assert np.mean(first == 0) == pytest.approx(1 / 4, abs=0.012)
    assert np.mean((first == 0) & (other == 0)) == pytest.approx(1 / 16, abs=0.0067)
    np.testing.assert_array_equal(np.equal(gradient, 0) & (first != 0), np.zeros(first.shape, bool))


def test_attention_drops_weights():
    query, key = draw(*[(1, 2, 128, 8)] * 2)
    drop = WeightDropout(0.5, tf.constant([3, 1], "int64"), TPU_KERNELS)

    def sums_of_weights(dropout):
        attend = kernel_of(TPU_KERNELS, "attention")
        return by_xla(lambda: attend(query, key, tf.ones_like(key), MASK[1:], dropout))().numpy()

    np.testing.assert_allclose(sums_of_weights(None), 1, rtol=1e-5)
    dropped = sums_of_weights(drop)
    assert dropped.std() > 0.01
    assert dropped.mean() == pytest.approx(1, abs=0.1)


def test_other_lengths_are_left_to_plain_attention():
    inputs, mask = draw(*[(2, 3, 100, 8)] * 3), MASK[:, :100]
    ours, plain = (
        kernel_of(each, "attention")(*inputs, mask) for each in (TPU_KERNELS, PLAIN_KERNELS)
    )
    np.testing.assert_array_equal(ours, plain)
