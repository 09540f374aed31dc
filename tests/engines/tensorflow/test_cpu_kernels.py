"""The fused operations compute the same values and gradients as the plain ones."""

import functools

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.engines.tensorflow import cpu_kernels
from albert_tf.engines.tensorflow.cpu_kernels import CPU_KERNELS, copies_in_groups
from albert_tf.modeling.attention import DEFAULT
from albert_tf.modeling.encoder import AlbertEncoder
from albert_tf.modeling.kernels import PLAIN_KERNELS
from tests.modeling.test_rows import ROWS, WIDE, assert_all_equal, model_inputs

DTYPES = pytest.mark.parametrize(("dtype", "tolerance"), [("float32", 5e-6), ("bfloat16", 3e-2)])


def value_and_gradients(function, *inputs):
    """Return the function's value, and gradients of a weighted sum of it."""
    with tf.GradientTape() as tape:
        tape.watch(inputs)
        y = function(*inputs)
        weights = tf.reshape(tf.linspace(-1.0, 1.0, tf.size(y)), tf.shape(y))
        total = tf.reduce_sum(tf.cast(y, tf.float32) * weights)
    return y, *tape.gradient(total, inputs)


def assert_close(function, inputs, tolerance, dtype):
    """Compare `function(kernels, *inputs)`, whose value has a dtype, with float32; return both."""
    fused = value_and_gradients(functools.partial(function, CPU_KERNELS), *inputs)
    wide = [tf.cast(x, tf.float32) for x in inputs]
    exact = value_and_gradients(functools.partial(function, PLAIN_KERNELS), *wide)
    for one, other, like in zip(fused, exact, [dtype, *(x.dtype for x in inputs)], strict=True):
        assert one.dtype == like
        # Sums over many rows are as far off as the largest of them.
        scale = np.abs(other).max()
        np.testing.assert_allclose(
            tf.cast(one, tf.float32) / scale, other / scale, rtol=tolerance, atol=tolerance
        )
    return fused


def assert_like_plain(name, inputs, dtype, tolerance, vectors=(), further=()):
    """Compare the operation in `dtype` with the plain one in float32."""
    inputs = [tf.cast(x, "float32" if at in vectors else dtype) for at, x in enumerate(inputs)]

    def computed(kernels, *each):
        return getattr(kernels, name)(*each, *further)

    assert_close(computed, inputs, tolerance, dtype)


def draw(*shapes):
    random = np.random.default_rng(0)
    return [tf.constant(random.normal(size=shape), tf.float32) for shape in shapes]


@pytest.mark.integration
@DTYPES
@pytest.mark.parametrize(
    ("name", "limit", "shapes"), [("gelu", 12.0, [12]), ("feed_forward", 4.0, [(12, 9), 9, (9, 7)])]
)
def test_gelu_and_feed_forward(name, limit, shapes, dtype, tolerance):
    x = tf.reshape(tf.linspace(-limit, limit, 960), [8, 10, 12])
    assert_like_plain(name, [x, *draw(*shapes)], dtype, tolerance)


@pytest.mark.integration
@DTYPES
@pytest.mark.parametrize("width", [12, 40])
def test_add_norm(dtype, tolerance, width):
    shape = (3, 5, width)
    inputs = draw(shape, width, shape, width, width)
    # Large means with small deviations reveal an inaccurate variance.
    inputs[2] += 30.0 if dtype == "float32" else 1.0
    assert_like_plain("add_norm", inputs, dtype, 2 * tolerance, vectors=(3, 4), further=(1e-3,))


@pytest.mark.integration
@DTYPES
@pytest.mark.parametrize("length", [7, 64])
def test_attention(dtype, tolerance, length):
    inputs = draw((2, 3, 5, 8), (2, 3, length, 8), (2, 3, length, 8))
    # Of larger scores, rounding to bfloat16 alone changes the results by more than the tolerance.
    inputs = [tf.cast(2 * x, dtype) for x in inputs]
    mask = tf.constant([[1] * 4 + [0] * (length - 4), [1] * length])
    dropped = (1, 5)

    def drop(weights):
        kept = [0.0 if at in dropped else 1.25 for at in range(weights.shape[-1])]
        return weights * tf.constant(kept, weights.dtype)

    def attention(kernels, *inputs):
        return kernels.attention[DEFAULT](*inputs, mask, drop)

    fused = assert_close(attention, inputs, tolerance, dtype)
    # Neither padding nor dropped positions have any influence.
    value_gradient = tf.cast(fused[3], "float32").numpy()
    assert value_gradient.any()
    assert not value_gradient[0, :, 4:].any()
    assert not value_gradient[:, :, dropped].any()


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("count", [1, 3, 5, 13])
def test_gradients_of_copies_are_added_up_before_they_are_rounded(dtype, count):
    (weight,) = draw((8,))
    weight = tf.cast(weight, dtype)
    factors = [256.0] + [1.0] * (count - 1)  # in bfloat16, 256 + 1 is 256
    with tf.GradientTape() as tape:
        tape.watch(weight)
        copies = copies_in_groups(weight, len(factors))
        total = tf.add_n([factor * copy for factor, copy in zip(factors, copies, strict=True)])
    for copy in copies:
        np.testing.assert_array_equal(tf.cast(copy, "float32"), tf.cast(weight, "float32"))
    gradient = tape.gradient(total, weight)
    assert gradient.dtype == dtype
    exact = tf.cast(tf.cast(256.0 + count - 1, dtype), "float32")
    np.testing.assert_array_equal(tf.cast(gradient, "float32"), exact)


@pytest.mark.integration
@DTYPES
def test_score_of_vocabulary_logits(dtype, tolerance):
    hidden, table, bias = draw((3, 4, 8), (50, 8), 50)
    hidden, table = (tf.cast(x, dtype) for x in (3 * hidden, table))
    labels = PLAIN_KERNELS.vocabulary_logits(hidden, table, bias).numpy().argmax(axis=-1)
    labels[1:] = np.random.default_rng(0).integers(0, 50, labels[1:].shape)

    def losses(kernels, *factors):
        return kernels.score(kernels.vocabulary_logits(*factors), tf.constant(labels))[0]

    factors = hidden, table, bias
    assert_close(losses, factors, tolerance, tf.float32)
    logits = [each.vocabulary_logits(*factors) for each in (CPU_KERNELS, PLAIN_KERNELS)]
    np.testing.assert_array_equal(tf.convert_to_tensor(logits[0]), logits[1])
    correct = CPU_KERNELS.score(logits[0], labels)[1].numpy()
    assert correct[0].all()
    np.testing.assert_array_equal(correct, PLAIN_KERNELS.score(logits[1], labels)[1])


# Inputs as large as in training: XLA treats smaller ones in other ways.
COMPILED = {
    "_gelu_forward": [(8, 128, 512), (512,)],
    "_gelu_backward_and_outputs": [(8, 128, 512), (512,), (8, 128, 512)],
    "_add_norm_forward": [(8, 128, 512), (512,), (8, 128, 512), (512,), (512,), ()],
    "_add_norm_backward": [(8, 128, 512), (8, 128, 1), (512,), (8, 128, 512)],
    "_softmax_forward": [(4, 8, 128, 128), (4, 1, 1, 128), ()],
    "_softmax_backward": [(4, 8, 128, 128), (), (4, 8, 128, 128)],
    "_wide_sum": [[(512, 512)] * 3],
    "_vocabulary_score_forward": [(160, 3000), (3000,), "labels"],
}


def optimized(function, shapes):
    """Return the program that XLA compiles a function to, as text."""

    def zeros(shape):
        if isinstance(shape, list):
            return [zeros(each) for each in shape]
        return tf.zeros([160], tf.int32) if shape == "labels" else tf.zeros(shape)

    inputs = [zeros(shape) for shape in shapes]
    return function.experimental_get_compiler_ir(*inputs)(stage="optimized_hlo")


@pytest.fixture(scope="module")
def xla_calls_a_library():
    @tf.function(jit_compile=True)
    def largest(logits):
        return tf.reduce_max(logits, axis=-1)

    if "ynn" not in optimized(largest, [(160, 3000)]):
        pytest.skip("this XLA does not hand reductions to YNNPACK")


@pytest.mark.integration
@pytest.mark.usefixtures("xla_calls_a_library")
@pytest.mark.parametrize("name", COMPILED)
def test_no_operation_calls_a_library_that_is_not_thread_safe(name):
    assert "ynn" not in optimized(getattr(cpu_kernels, name), COMPILED[name])


@pytest.mark.parametrize("width", [1, 2, 7, 128, 3000])
def test_row_maxima(width):
    (x,) = draw((5, 3, width))
    np.testing.assert_array_equal(cpu_kernels._row_maxima(x), np.max(x, axis=-1, keepdims=True))
    x = tf.tensor_scatter_nd_update(x, [[1, 2, width // 2]], [float("nan")])
    assert np.isnan(cpu_kernels._row_maxima(x)[1, 2])


# A sequence of one token is one of the lengths.
@pytest.mark.integration
@pytest.mark.filterwarnings("ignore:You are using a softmax over axis:UserWarning")
def test_attention_over_lengths_as_they_come():
    def results_of(kernels):
        def results(*inputs):
            *inputs, mask = inputs
            return value_and_gradients(
                lambda *each: kernels.attention[DEFAULT](*each, mask), *inputs
            )

        return results

    signature = [tf.TensorSpec([None, 3, None, 8])] * 3 + [tf.TensorSpec([None, None])]
    fused = tf.function(results_of(CPU_KERNELS), input_signature=signature)
    for length in (1, 6, 33, 128):
        inputs = [*draw(*[(2, 3, length, 8)] * 3), tf.ones([2, length])]
        for one, other in zip(fused(*inputs), results_of(PLAIN_KERNELS)(*inputs), strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-5)


def test_all_compiled_operations_are_checked():
    compiled = {
        name for name, each in vars(cpu_kernels).items() if hasattr(each, "get_concrete_function")
    }
    assert compiled - {"_gelu_backward"} == set(COMPILED)  # the other one without outputs


@pytest.mark.integration
def test_rows_of_unknown_sizes_are_encoded_as_others():
    encoder = AlbertEncoder(WIDE)
    features, positions = model_inputs(ROWS), ROWS["masked_lm_positions"]

    def encode(features, positions):
        outputs = encoder(features), encoder.encode_at(features, positions)
        return [each[name] for each in outputs for name in ("sequence_output", "pooled_output")]

    unknown = tf.TensorSpec([None, None], tf.int32)
    traced = tf.function(encode, [dict.fromkeys(features, unknown), unknown], autograph=False)
    results = traced(features, positions), encode(features, positions)
    assert_all_equal(*(dict(enumerate(each)) for each in results))
