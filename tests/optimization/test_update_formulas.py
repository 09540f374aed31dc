"""Muon, and bias correction, against their formulas; test_original_updates.py has the rest."""

import numpy as np
import pytest

from albert_tf.optimization import create_optimizer
from albert_tf.optimization.optimizers import Muon, orthogonalize
from albert_tf.optimization.schedules import WarmupPolynomialDecay
from tests.support.backends import as_numpy, update_function, variable


def test_adamw_with_bias_correction_makes_steps_of_the_rate():
    """While the gradient is the same, its first moment is the root of the second."""
    kernel = variable("dense/kernel", np.zeros(3, "float32"))
    settings = {"bias_correction": True, "weight_decay_rate": 0.0}
    update = update_function(create_optimizer("adamw", 0.1, **settings), [kernel])
    for step in range(1, 4):
        update([np.float32([1.0, -20.0, 0.5])])
        np.testing.assert_allclose(kernel.numpy(), -0.1 * step * np.float32([1, -1, 1]), rtol=1e-4)


MUON_SHAPES = {
    "bert/embeddings/word_embeddings": (31, 8),
    "bert/encoder/transformer/group_0/query/kernel": (12, 12),
    "bert/encoder/transformer/group_0/query/bias": (12,),
    "bert/encoder/transformer/group_0/intermediate/kernel": (12, 40),
    "bert/encoder/transformer/group_0/output/kernel": (40, 12),
    "bert/encoder/embedding_hidden_mapping_in/kernel": (8, 12),
    "cls/seq_relationship/output_weights": (2, 12),
}


def drawn(shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype("float32")


def newton_schulz(matrix):
    """Return the orthogonalized matrix, float64."""
    x = np.float64(matrix) / np.linalg.norm(matrix)
    for _ in range(5):
        x = 3.4445 * x - 4.7750 * x @ x.T @ x + 2.0315 * x @ x.T @ x @ x.T @ x
    return x


@pytest.mark.parametrize("shape", [(9, 9), (5, 20), (20, 5), (1, 7)])
@pytest.mark.parametrize(("dtype", "digits"), [("float32", 1e-4), ("bfloat16", 0.08)])
def test_singular_vectors_stay_and_singular_values_are_near_1(shape, dtype, digits):
    matrix = 1e-6 * drawn(shape)
    result = np.float64(as_numpy(orthogonalize(matrix, dtype)).astype("float32"))
    left, _, right = np.linalg.svd(np.float64(matrix), full_matrices=False)
    values = left.T @ result @ right.T
    assert ((np.diag(values) > 0.6) & (np.diag(values) < 1.3)).all()
    np.testing.assert_allclose(values, np.diag(np.diag(values)), atol=digits)
    np.testing.assert_allclose(result, newton_schulz(matrix), atol=digits)


def test_updates_of_muon_are_those_of_its_formula():
    rate, beta, decay = 0.1, 0.95, 0.01
    values = {path: drawn(shape, 1) for path, shape in MUON_SHAPES.items()}
    gradients = [{p: drawn(s, 2 + step) for p, s in MUON_SHAPES.items()} for step in range(4)]
    variables = [variable(path, value) for path, value in values.items()]
    update = update_function(
        Muon(WarmupPolynomialDecay(rate, 4), weight_decay_rate=decay), variables
    )
    adamw_variables = [variable(path, value) for path, value in values.items()]
    adamw = create_optimizer(
        "adamw", WarmupPolynomialDecay(rate, 4), beta_1=beta, beta_2=0.98, bias_correction=True
    )
    adamw_update = update_function(adamw, adamw_variables)
    moments = dict.fromkeys(values, 0.0)
    for step, of_step in enumerate(gradients):
        update(list(of_step.values()))
        adamw_update(list(of_step.values()))
        for path, gradient in of_step.items():
            moments[path] = beta * moments[path] + (1 - beta) * gradient
            size = 0.2 * max(gradient.shape) ** 0.5
            nesterov = beta * moments[path] + (1 - beta) * gradient
            if gradient.ndim == 2:
                moved = size * newton_schulz(nesterov) + decay * values[path]
                values[path] = values[path] - rate * (1 - step / 4) * moved
    for ours, adams in zip(variables, adamw_variables, strict=True):
        if ours.path.endswith("kernel"):
            expected = values[ours.path]
            assert np.abs(expected - adams.numpy()).max() > 0.05
            np.testing.assert_allclose(ours.numpy(), expected, atol=1e-5)
        else:
            np.testing.assert_array_equal(ours.numpy(), adams.numpy())


def test_a_matrix_without_gradient_is_only_decayed():
    kernel = variable("bert/encoder/transformer/group_0/query/kernel", drawn((4, 6)))
    Muon(0.1, weight_decay_rate=0.5).apply([None], [kernel])
    np.testing.assert_allclose(kernel.numpy(), 0.95 * drawn((4, 6)), rtol=1e-6)


def test_orthogonalized_matrices_have_no_second_moment():
    variables = [variable(path, drawn(shape)) for path, shape in MUON_SHAPES.items()]
    optimizer = Muon(0.1)
    optimizer.build(variables)
    with_variance = [v.path for v in optimizer.variables if v.path.endswith("adam_v")]
    assert len(with_variance) == 3
    assert not any("kernel" in path for path in with_variance)
