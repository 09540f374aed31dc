"""LAMB and AdamW against their formulas in NumPy and float64, clipping and schedule included."""

import numpy as np
import pytest

from albert_tf.optimization import create_optimizer
from albert_tf.optimization.schedules import WarmupPolynomialDecay
from tests.support.backends import update_function, variable

SHAPES = {
    "embeddings/word_embeddings": (3000, 24),
    "dense/kernel": (7, 5),
    "dense/bias": (5,),
    "LayerNorm/gamma": (5,),
    "seq_relationship/output_weights": (2, 7),
    "predictions/output_bias": (31,),
}
RATE, TOTAL, WARMUP, CLIP = 0.02, 9, 3, 1.0


def formula(name, values, gradients, bias_correction, decay=0.01):
    """Return float64 values after one update for each of `gradients`."""
    values = {path: np.asarray(value, "float64") for path, value in values.items()}
    m, v = dict.fromkeys(values, 0.0), dict.fromkeys(values, 0.0)
    for step, of_step in enumerate(gradients):
        rate = RATE * (step / WARMUP if step < WARMUP else 1 - step / TOTAL)
        norm = np.sqrt(sum((np.float64(g) ** 2).sum() for g in of_step.values()))
        for path, gradient in of_step.items():
            gradient = np.float64(gradient) * min(1.0, CLIP / norm)
            m[path] = 0.9 * m[path] + 0.1 * gradient
            v[path] = 0.999 * v[path] + 0.001 * gradient**2
            corrections = (1 - 0.9 ** (step + 1), 1 - 0.999 ** (step + 1))
            first, second = corrections if bias_correction else (1.0, 1.0)
            update = (m[path] / first) / (np.sqrt(v[path] / second) + 1e-6)
            if path.endswith(("kernel", "embeddings", "output_weights")):
                update = update + decay * values[path]
                if name == "lamb":
                    update *= np.linalg.norm(values[path]) / np.linalg.norm(update)
            values[path] = values[path] - rate * update
    return values


@pytest.mark.integration
@pytest.mark.parametrize("scale", [1e-4, 10.0])
@pytest.mark.parametrize("bias_correction", [False, True])
@pytest.mark.parametrize("name", ["lamb", "adamw"])
def test_updates_are_those_of_the_formula(name, bias_correction, scale):
    random = np.random.default_rng(0)
    values = {path: random.normal(size=s).astype("float32") for path, s in SHAPES.items()}
    gradients = [
        {path: (scale * random.normal(size=s)).astype("float32") for path, s in SHAPES.items()}
        for _ in range(6)
    ]
    norms = [np.sqrt(sum((g**2).sum() for g in each.values())) for each in gradients]
    assert all((norm > CLIP) == (scale > 1) for norm in norms)
    variables = [variable(path, value) for path, value in values.items()]
    schedule = WarmupPolynomialDecay(RATE, TOTAL, WARMUP)
    optimizer = create_optimizer(
        name, schedule, bias_correction=bias_correction, global_clipnorm=CLIP
    )
    update = update_function(optimizer, variables)
    for each in gradients:
        update(list(each.values()))
    expected = formula(name, values, gradients, bias_correction)
    for each in variables:
        wanted = expected[each.path]
        size = np.abs(wanted).max()
        assert np.abs(wanted - values[each.path]).max() > 1e-3
        np.testing.assert_allclose(
            each.numpy(), wanted, rtol=0, atol=1e-5 * size, err_msg=each.path
        )
