"""What the JAX engine's kernels compute, and where that of the feed-forward network applies."""

import importlib.util
import json
import os

import pytest

from tests.conftest import KERAS_ON_JAX, run_python

# Before JAX loads: where the TPU compiler is installed, JAX would look for a TPU.
os.environ["JAX_PLATFORMS"] = "cpu"
try:
    import jax
    import jax.numpy as jnp
except ImportError:
    pytest.skip("JAX is not installed (the extra `jax`)", allow_module_level=True)

from albert_tf.engines.jax import tpu_feed_forward
from albert_tf.engines.jax.kernels import create_kernels
from albert_tf.modeling.kernels import PLAIN_KERNELS

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
@pytest.mark.skipif(
    importlib.util.find_spec("jax") is None, reason="JAX is not installed (the extra `jax`)"
)
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
