"""The training step of the JAX engine, compiled for TPU slices without a TPU.

And that of the TensorFlow engine where it uses the kernels of the JAX engine.
"""

import dataclasses
import importlib.util

import pytest

from albert_tf.hardware.slices import GIB, parse_slice
from albert_tf.tpu.costs import KERNELS
from albert_tf.tpu.preflight import Compiler
from albert_tf.tpu.preflight_options import PreflightOptions
from tests.support.tiny import CONFIG, PREDICTIONS

MISSING = [
    name
    for name in ("jax", "grain", "orbax.checkpoint", "libtpu")
    if importlib.util.find_spec(name.split(".")[0]) is None
]
# Compiling for each takes a minute.
OTHERS = ("v4:2x2x1", "v5p:2x2x1", "v6e:2x2", "tpu7x:2x2x1")

pytestmark = [
    pytest.mark.integration,
    pytest.mark.slow,
    pytest.mark.skipif(bool(MISSING), reason=f"{' and '.join(MISSING)} not installed"),
]
# Heads of a size, and sequences of a length, that the attention kernel supports.
LENGTH, MICRO, TRIPS = 128, 4, 2
TWO_LAYERS = dataclasses.replace(
    CONFIG,
    hidden_size=32,
    num_attention_heads=2,
    num_hidden_layers=2,
    max_position_embeddings=LENGTH,
    hidden_dropout_prob=0.0,
    attention_probs_dropout_prob=0.0,
)
DIRECTIONS = ("forward", "backward")


@pytest.fixture(scope="module")
def compile_step(tmp_path_factory):
    folder = tmp_path_factory.mktemp("preflight")

    def compile_for(name, attention, dropout=0.0, engine="jax"):
        config = folder / "albert_config.json"
        shape = dataclasses.replace(TWO_LAYERS, attention_probs_dropout_prob=dropout)
        config.write_text(shape.to_json())
        where = parse_slice(name)
        batch = where.replicas * MICRO * TRIPS
        options = PreflightOptions(
            engine=engine,
            attention=attention,
            albert_config_file=str(config),
            topology=name,
            max_seq_length=LENGTH,
            max_predictions_per_seq=PREDICTIONS,
            train_batch_size=batch,
            dtype="bfloat16",
        )
        return Compiler(options).compile(where, batch, MICRO, False)

    return compile_for


@pytest.mark.parametrize(
    "name",
    ["v5e:2x2", *(pytest.param(n, marks=pytest.mark.manual) for n in OTHERS)],
)
def test_the_step_compiles_for_each_generation(compile_step, name):
    fused, plain = compile_step(name, "auto"), compile_step(name, "plain")
    for result in (fused, plain):
        assert result.error is None
        assert result.fits
        assert 0 < result.memory < 0.1 * GIB
        assert result.cycles > result.update_cycles > 0
        # Every gradient is all-reduced once, not once per micro-batch; a few may go as bfloat16.
        assert result.reduced_bytes == pytest.approx(4 * parameters(), rel=0.02)
    # The model's operations are the same but for sums of rows that the kernel leaves to a product.
    assert fused.flops == pytest.approx(plain.flops, rel=1e-3)
    assert fused.kernel_cycles == pytest.approx(1.3 * bundles("short_attention", name))
    assert plain.kernel_cycles == 0


@pytest.mark.parametrize(
    ("engine", "name"),
    [("jax", "v5e:2x2"), pytest.param("tensorflow", "v4:2x2x1", marks=pytest.mark.manual)],
)
def test_attention_with_dropout_is_fused(compile_step, engine, name):
    fused = compile_step(name, "auto", dropout=0.1, engine=engine)
    assert fused.error is None
    assert fused.kernel_cycles == pytest.approx(1.3 * bundles("dropout_attention", name))


def bundles(kernel, name):
    """Of the layer that is computed everywhere, forward and backward."""
    generation = parse_slice(name).generation
    cores = 2 if generation in ("v4", "v5p") else 1
    heads = MICRO * TRIPS * TWO_LAYERS.num_attention_heads / cores
    of_head = sum(KERNELS[f"{kernel}_{way}"].bundles[generation] for way in DIRECTIONS)
    return heads * (LENGTH / 512) ** 2 * of_head


def parameters():
    """Of the encoder and both heads, by formula."""
    e, h = TWO_LAYERS.embedding_size, TWO_LAYERS.hidden_size
    return TWO_LAYERS.parameter_count() + h * e + 3 * e + TWO_LAYERS.vocab_size + 2 * h + 2
