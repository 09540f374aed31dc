"""What the JAX engine's kernels compute, interpreted, and where they apply."""

import functools
import json
import logging
import os

import numpy as np
import pytest

# Before JAX loads: where the TPU compiler is installed, JAX would look for a TPU.
os.environ["JAX_PLATFORMS"] = "cpu"
try:
    import jax
    import jax.numpy as jnp
except ImportError:
    pytest.skip("JAX is not installed (the extra `jax`)", allow_module_level=True)

from albert_tf.engines.jax import attention, tpu_feed_forward, triton_attention
from albert_tf.engines.jax.kernels import create_kernels
from albert_tf.modeling.attention import DEFAULT, MASKED_SCORE, ExampleIds, dot_product_attention
from albert_tf.modeling.kernels import PLAIN_KERNELS, WeightDropout
from tests.conftest import KERAS_ON_JAX, run_python, slow

BATCH, HEADS = 2, 2


def plain(query, key, value, attention_mask, kept=1.0):
    """Return the formula of `albert_tf.modeling.attention`, whose backend here is TensorFlow.

    Args:
        kept: factors of the attention weights, `[batch, heads, seq, seq]`.
    """
    scores = jnp.einsum("bhqk,bhsk->bhqs", query, key).astype(jnp.float32)
    scores = scores * query.shape[-1] ** -0.5
    if isinstance(attention_mask, ExampleIds):
        other = attention_mask.queries[:, :, None] != attention_mask.keys[:, None, :]
    else:
        other = 1 - attention_mask[:, None, :]
    scores += other.astype(jnp.float32)[:, None] * MASKED_SCORE
    weights = (jax.nn.softmax(scores) * kept).astype(query.dtype)
    return jnp.einsum("bhqs,bhsk->bhqk", weights, value)


def inputs(length, head_size, dtype="float32", count=3, heads=HEADS):
    generator = np.random.default_rng(0)
    shape = (BATCH, heads, length, head_size)
    return [jnp.asarray(generator.normal(size=shape), dtype) for _ in range(count)]


def masks(kind, length):
    """`[batch, seq]`; the first sequence has no padding except in the last kind."""
    mask = np.ones((BATCH, length), np.int32)
    if kind == "rows":
        mask[:, length // 3 :] = 2
        mask[1, length // 2 :] = 0
        return ExampleIds(jnp.asarray(mask), jnp.asarray(mask))
    if kind == "at the end":
        mask[1, length // 3 :] = 0
    elif kind == "in the middle":
        mask[1, 5 : length // 2] = 0
    elif kind == "all but one":
        mask[1] = 0
        mask[1, length - 2] = 1
    return jnp.asarray(mask)


@functools.partial(jax.jit, static_argnums=0)  # compiled once for all inputs
def output_and_gradients(function, tensors, mask, upstream):
    output, pullback = jax.vjp(lambda *each: function(*each, mask), *tensors)
    return output, *pullback(upstream)


def fused(*arguments):
    return attention.tpu_attention(*arguments, interpret=True)


@pytest.mark.integration
@pytest.mark.parametrize(
    ("padding", "length", "head_size", "heads", "rate"),
    [
        ("at the end", 128, 64, 2, 0.0),
        *slow(("all but one", 128, 64, 2, 0.0), ("at the end", 640, 16, 2, 0.0)),
        *slow(("in the middle", 384, 16, 3, 0.0)),
        ("in the middle", 128, 64, 4, 0.1),
        ("rows", 128, 64, 2, 0.0),
        *slow(("rows", 128, 64, 2, 0.1), ("rows", 640, 16, 2, 0.0)),
        *slow(("in the middle", 384, 16, 3, 0.1)),
    ],
)
def test_the_tpu_kernels_compute_plain_attention(padding, length, head_size, heads, rate):
    """With dropout, plain attention has the same mask of dropout."""
    *tensors, upstream = inputs(length, head_size, count=4, heads=heads)
    mask, dropout, kept = masks(padding, length), None, 1.0
    if rate:
        dropout = WeightDropout(rate, jnp.asarray(SEED), PLAIN_KERNELS)
        kept = kept_by_the_kernel(rate, length, heads=BATCH * heads)
    expected = output_and_gradients(lambda *each: plain(*each, kept), tensors, mask, upstream)
    ours = output_and_gradients(lambda *each: fused(*each, dropout), tensors, mask, upstream)
    # Relative to the largest: gradients of a query that sees a single key are rounding alone.
    atol = 2e-6 * max(np.abs(each).max() for each in expected)
    for one, other in zip(ours, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=0, atol=atol)


SEED = np.array([7, 2**32 - 5], np.uint32)


def kept_by_the_kernel(rate, length, seed=SEED, heads=BATCH * HEADS):
    """Return the factors of the attention weights, `[batch, heads, seq, seq]`."""
    below = attention.thresholds(jnp.asarray(seed), rate, heads)
    words = jax.lax.bitcast_convert_type(jnp.asarray(seed), jnp.int32)

    def of_head(each):
        head, threshold = each
        drawn = attention.random_bytes((words[0], words[1]), head, length)
        drawn = drawn.T
        return jnp.where(drawn < threshold.astype(jnp.int32), 0.0, 1 / (1 - rate))

    factors = jax.lax.map(of_head, (jnp.arange(heads, dtype=jnp.int32), below))
    return factors.reshape(BATCH, -1, length, length)


def kept_on_gpus(rate, length, seed=SEED, heads=BATCH * HEADS):
    """Return what `kept_by_the_kernel` does, for the kernel of GPUs."""
    place = jnp.arange(length)
    bits = jax.vmap(
        lambda words: triton_attention.random_bits(words, place[:, None], place, length)
    )(triton_attention.words_of_heads(jnp.asarray(seed), heads))
    factors = jnp.where(bits < jnp.uint32(rate * 2**32), 0.0, 1 / (1 - rate))
    return factors.reshape(BATCH, -1, length, length)


@pytest.mark.integration
@pytest.mark.parametrize(
    ("padding", "length", "head_size"),
    [("rows", 128, 32), *slow(("in the middle", 128, 16), ("at the end", 192, 64))],
)
def test_the_gpu_kernel_computes_plain_attention_with_dropout(padding, length, head_size):
    *tensors, upstream = inputs(length, head_size, count=4)
    mask, kept = masks(padding, length), kept_on_gpus(0.1, length)

    def ours(*arguments):
        ids = jnp.stack(attention._example_ids(arguments[3]), axis=1)
        drawn = 0.1, jnp.asarray(SEED)
        return triton_attention.dropout_attention(*arguments[:3], ids, *drawn, interpret=True)

    expected = output_and_gradients(lambda *each: plain(*each, kept), tensors, mask, upstream)
    atol = 2e-6 * max(np.abs(each).max() for each in expected)
    for one, other in zip(
        output_and_gradients(ours, tensors, mask, upstream), expected, strict=True
    ):
        np.testing.assert_allclose(one, other, rtol=0, atol=atol)


@pytest.mark.integration
@pytest.mark.parametrize("words", [([4, 1], [4, 2]), ([4, 1], [5, 1])])
def test_either_word_of_a_head_changes_all_random_bits(words):
    place = jnp.arange(128)
    one, other = (
        triton_attention.random_bits(jnp.array(each, jnp.uint32), place[:, None], place, 128)
        for each in words
    )
    assert not (one == other).any()


@pytest.mark.integration
@pytest.mark.parametrize("kept", [kept_by_the_kernel, kept_on_gpus])
def test_the_mask_of_dropout_is_random(kept):
    rate, length, heads = 0.1, 128, 512
    dropped = np.asarray(kept(rate, length, heads=heads) == 0)
    dropped = dropped.reshape(heads, length, length)
    # The rate of all, of each row and column over the heads, and of each head. The last has the
    # chance of its threshold, too: 25 or 26 of 256.
    assert abs(dropped.mean() - rate) < 5 * (0.3 / 256 + 0.3 / length) / heads**0.5
    for axes in ((0, 1), (0, 2)):
        assert np.abs(dropped.mean(axes) - rate).max() < 5 * 0.3 / (heads * length) ** 0.5
    assert np.abs(dropped.mean((1, 2)) - rate).max() < 0.6 / 256 + 5 * 0.3 / length
    # No head, row, column, or byte of a word follows another, and no seed another seed.
    other = np.asarray(kept(rate, length, SEED + np.uint32(1), heads) == 0)
    other = other.reshape(dropped.shape)
    pairs = [(dropped, other), (dropped[1:], dropped[:-1])]
    pairs += [(dropped[:, step:], dropped[:, :-step]) for step in (1, length // 8)]
    pairs += [(dropped[:, :, 1:], dropped[:, :, :-1])]
    for one, another in pairs:
        both = (one & another).mean()
        assert abs(both - rate**2) < 5 * 0.1 / one.size**0.5
    # The same seed always drops the same.
    again = kept(rate, length, heads=heads) == 0
    np.testing.assert_array_equal(again.reshape(dropped.shape), dropped)


@pytest.mark.integration
@pytest.mark.slow
def test_in_bfloat16_it_is_as_close_as_plain_attention_is():
    exact = inputs(256, 64, count=4)
    mask = masks("in the middle", 256)
    expected = output_and_gradients(plain, exact[:3], mask, exact[3])
    *tensors, upstream = inputs(256, 64, "bfloat16", count=4)

    def errors(function):
        results = output_and_gradients(function, tensors, mask, upstream)
        return [
            float(jnp.linalg.norm(ours.astype(jnp.float32) - theirs) / jnp.linalg.norm(theirs))
            for ours, theirs in zip(results, expected, strict=True)
        ]

    for of_fused, of_plain in zip(errors(fused), errors(plain), strict=True):
        assert of_fused < 1.2 * of_plain + 1e-4


@pytest.mark.integration
def test_padding_influences_nothing():
    *tensors, upstream = inputs(128, 16, count=4)
    mask = masks("in the middle", 128)
    is_token = mask[:, None, :, None]
    # As in training, where no loss depends on the output at padding.
    upstream *= is_token
    query, key, value = tensors
    changed = [query, *(jnp.where(is_token, each, 7.0) for each in (key, value))]
    before = output_and_gradients(fused, tensors, mask, upstream)
    after = output_and_gradients(fused, changed, mask, upstream)
    for one, other in zip(before, after, strict=True):
        np.testing.assert_array_equal(one, other)
    for gradient in before[1:]:
        assert not np.any(gradient * (1 - is_token))
    without_tokens = output_and_gradients(fused, tensors, jnp.zeros_like(mask), upstream)
    assert all(np.isfinite(each).all() for each in without_tokens)


@pytest.mark.integration
def test_more_examples_than_a_row_may_have_are_noticed():
    numbers = jnp.stack([jnp.arange(128) // 16 + 1, jnp.arange(128) // 8 + 1])
    context = fused(*inputs(128, 16), ExampleIds(numbers, numbers))
    assert np.isfinite(context[0]).all()
    assert np.isnan(context[1]).all()


class Recorder:
    """Stands in for plain attention, which Keras computes on another backend here."""

    def __init__(self, monkeypatch):
        self.calls = []
        monkeypatch.setattr(attention, "dot_product_attention", self)

    def __call__(self, *arguments):
        self.calls.append(arguments)
        return "plain"


@pytest.mark.parametrize(
    ("function", "length", "head_size", "dtype"),
    [
        *((attention.tpu_attention, *shape, "bfloat16") for shape in ((128, 12), (77, 64))),
        *((attention.gpu_attention, *shape, "bfloat16") for shape in ((128, 12), (77, 64))),
        (attention.gpu_attention, 128, 64, "float32"),
    ],
)
def test_other_shapes_are_left_to_plain_attention(monkeypatch, function, length, head_size, dtype):
    recorder = Recorder(monkeypatch)
    tensors = inputs(length, head_size, dtype)
    mask = masks("none", length)
    assert function(*tensors, mask) == "plain"
    assert recorder.calls == [(*tensors, mask, None)]


@pytest.mark.parametrize(
    ("function", "length"), [(attention.tpu_attention, 640), (attention.gpu_attention, 96)]
)
def test_fewer_queries_and_dropout_are_left_to_plain_attention(
    monkeypatch, caplog, function, length
):
    recorder = Recorder(monkeypatch)
    attention._log_dropout.cache_clear()
    query, key, value = inputs(length, 64, "bfloat16")
    mask = masks("none", length)
    assert function(query[:, :, :5], key, value, mask) == "plain"
    with caplog.at_level(logging.INFO):
        for _ in range(2):
            assert function(query, key, value, mask, abs) == "plain"
    assert recorder.calls[1] == (query, key, value, mask, abs)
    assert (
        caplog.text.count("attention: plain, since there is no fused attention with dropout") == 1
    )


@pytest.mark.parametrize(
    ("padding", "dropout"),
    [
        ("at the end", None),
        ("rows", None),
        pytest.param(
            "rows", WeightDropout(0.1, SEED, PLAIN_KERNELS), marks=pytest.mark.integration
        ),
    ],
)
def test_the_gpu_program_calls_kernels_forward_and_backward(monkeypatch, padding, dropout):
    from jax._src.cudnn import fused_attention_stablehlo as cudnn
    from jax.export import DisabledSafetyCheck, export

    monkeypatch.setattr(cudnn, "check_cudnn_version", lambda: 91000)  # as on a GPU machine

    def loss(*arguments):
        return attention.gpu_attention(*arguments, dropout).astype(jnp.float32).sum()

    kernels = ["__cudnn$fmhaScaleBiasSoftmax", "__cudnn$fmhaScaleBiasSoftmaxBackward"]
    if dropout:
        kernels = ["__gpu$xla.gpu.triton"]
    program = export(
        jax.jit(jax.grad(loss, argnums=(0, 1, 2))),
        platforms=["cuda"],
        disabled_checks=[DisabledSafetyCheck.custom_call(kernel) for kernel in kernels],
    )(*inputs(128, 64, "bfloat16"), masks(padding, 128))
    for kernel in kernels:
        assert f'@"{kernel}"' in program.mlir_module() or f"@{kernel}(" in program.mlir_module()


def test_attention_by_name_and_platform():
    def find(name, platform):
        return create_kernels(name, platform).attention[DEFAULT]

    assert find("auto", "tpu") is find("fused", "tpu") is attention.tpu_attention
    assert find("auto", "gpu") is find("fused", "gpu") is attention.gpu_attention
    for name, platform in [("plain", "tpu"), ("plain", "gpu"), ("auto", "cpu"), ("fused", "cpu")]:
        assert find(name, platform) is dot_product_attention


BASE, LARGE, XLARGE = (768, 3072), (1024, 4096), (2048, 8192)


def network(width, inner, tokens=(32, 512), dtype=jnp.bfloat16):
    shapes = (*tokens, width), (width, inner), (inner,), (inner, width)
    return [jax.ShapeDtypeStruct(shape, dtype) for shape in shapes]


@pytest.mark.parametrize("kind", ["TPU v6 lite", "TPU7x"])
def test_a_network_is_one_kernel_in_each_direction(kind):
    feed_forward = create_kernels("auto", "tpu", kind).feed_forward

    def gradient(hidden, *weights):
        return jax.grad(lambda x: feed_forward(x, *weights).astype(jnp.float32).sum())(hidden)

    program = str(jax.make_jaxpr(gradient)(*network(*BASE)))
    assert program.count("name=feed_forward_forward") == 1
    assert program.count("name=feed_forward_backward") == 1


@pytest.mark.parametrize(
    ("attention", "kind"), [("plain", "TPU v6 lite"), ("auto", "TPU v5 lite"), ("auto", "TPU v4")]
)
def test_elsewhere_there_is_none(attention, kind):
    kernels = create_kernels(attention, "tpu", kind)
    assert kernels.feed_forward is PLAIN_KERNELS.feed_forward


@pytest.mark.parametrize(
    ("generation", "fitting", "too_large"), [("v6e", LARGE, XLARGE), ("tpu7x", BASE, LARGE)]
)
def test_the_memory_of_a_core_decides(generation, fitting, too_large):
    memory = tpu_feed_forward.MEMORY[generation]
    assert tpu_feed_forward.applies(*network(*fitting)[:2], memory)
    assert not tpu_feed_forward.applies(*network(*too_large)[:2], memory)


@pytest.mark.parametrize(
    "changes",
    # The last layer of pretraining computes a few positions.
    [{"tokens": (32, 21)}, {"width": 760}, {"inner": 3000}, {"dtype": jnp.float32}],
    ids=str,
)
def test_other_shapes_are_left_to_the_compiler(changes):
    hidden, kernel, *_ = network(**{"width": 768, "inner": 3072, **changes})
    assert not tpu_feed_forward.applies(hidden, kernel, tpu_feed_forward.MEMORY["v6e"])


@pytest.mark.slow
def test_they_compute_what_the_plain_ones_do_and_dropout_is_random():
    # In a process of its own, whose Keras uses JAX and compiles as users do: without optimizations,
    # XLA's tanh is off by 2e-7 near 1, where the gradient of the GELU is 3e-6 from that in float64.
    variables = {**KERAS_ON_JAX, "JAX_DISABLE_MOST_OPTIMIZATIONS": "0"}
    process = run_python("-m", "tests.engines.jax.compare_kernels", **variables)
    assert process.returncode == 0, process.stderr
    measured = json.loads(process.stdout)
    for name, errors in measured["float32"].items():
        assert max(errors["engine"]) < 1e-6, name
    for name, errors in measured["bfloat16"].items():
        for ours, plain in zip(errors["engine"], errors["plain"], strict=True):
            assert ours < 1.5 * plain + 1e-6, name
    masks = measured["dropout"]
    assert masks["again"]
    assert masks["gradient"]
    assert masks["kept"] == pytest.approx(1 / 0.9)
    # Of 512,000 elements: within five standard deviations.
    assert masks["dropped"] == pytest.approx(0.1, abs=0.0021)
    assert masks["next site"] == pytest.approx(0.01, abs=0.0007)
    assert masks["next step"] == pytest.approx(0.01, abs=0.0007)
