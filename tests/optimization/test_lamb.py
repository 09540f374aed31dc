"""Optimizers by name, what LAMB measures, and updates that do not apply."""

import numpy as np
import pytest

from albert_tf.errors import InputError
from albert_tf.optimization import OPTIMIZERS, create_optimizer
from albert_tf.optimization.optimizers import Lamb
from albert_tf.optimization.schedules import WarmupPolynomialDecay
from albert_tf.training.options import TrainingOptions
from tests.support.backends import variable


def test_unknown_optimizer_names_the_known_ones():
    with pytest.raises(InputError, match=r"`optimizer`=lars.*lamb.*adamw"):
        create_optimizer("lars", 0.1)


def test_optimizer_survives_its_own_config():
    schedule = WarmupPolynomialDecay(0.1, 10, 2)
    for name in OPTIMIZERS:
        optimizer = create_optimizer(name, schedule, bias_correction=True, weight_decay_rate=0.2)
        again = type(optimizer).from_config(optimizer.get_config())
        assert again.get_config() == optimizer.get_config()


PATHS = ("embeddings/LayerNorm/gamma", "dense/kernel", "dense/bias")


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_patterns_may_be_a_single_string(name):
    optimizer = create_optimizer(name, 0.1, exclude_from_weight_decay="LayerNorm")
    variables = [variable(path, np.ones([2], "float32")) for path in PATHS]
    optimizer.build(variables)
    optimizer.update([np.zeros([2], "float32")] * 3)  # weight decay alone moves them
    moved = [each.path for each in variables if each.numpy()[0] != 1]
    assert moved == ["dense/kernel", "dense/bias"]
    for argument in {"exclude_from_layer_adaptation", "orthogonalized"} & {*optimizer.get_config()}:
        config = create_optimizer(name, 0.1, **{argument: "dense"}).get_config()
        assert config[argument] == ["dense"]


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_what_is_no_regular_expression_is_named(name):
    patterns = {"exclude_from_weight_decay", "exclude_from_layer_adaptation"}
    patterns |= {"orthogonalized", "learning_rate_scales"}
    for argument in patterns & {*create_optimizer(name, 0.1).get_config()}:
        value = [("a(", 1.0)] if argument == "learning_rate_scales" else ["bias", "a("]
        with pytest.raises(InputError, match=rf"^`{argument}`=a\(: must be .*unterminated"):
            create_optimizer(name, 0.1, **{argument: value})


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_the_decay_of_keras_is_refused_and_its_exclusions_are_heeded(name):
    with pytest.raises(InputError, match=r"`weight_decay`=0.0: use `weight_decay_rate`"):
        create_optimizer(name, 0.1, weight_decay=0.0)
    kernel = variable("kernel", np.ones([2], "float32"))
    for arguments in ({"var_list": [kernel]}, {"var_names": ["kernel"]}):
        optimizer = create_optimizer(name, 0.1)
        optimizer.exclude_from_weight_decay(**arguments)
        optimizer.build([kernel])
        optimizer.update([np.zeros([2], "float32")])
        assert kernel.numpy()[0] == 1


@pytest.mark.parametrize("given", [None, True, False])
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_commands_correct_bias_where_the_class_does(name, given):
    default = create_optimizer(name, 0.1).bias_correction
    options = TrainingOptions(output_dir="out", optimizer=name, bias_correction=given)
    optimizer = create_optimizer(name, 0.1, **options.optimizer_arguments(None))
    assert optimizer.bias_correction == (default if given is None else given)


def pair(count):
    """Return variables of uneven size, one of them excluded, and gradients for them."""
    random = np.random.default_rng(count)
    paths = [f"transformer/dense_{number}/kernel" for number in range(count)] + ["dense/bias"]
    values = [random.normal(size=(number + 2, 3)).astype("float32") for number in range(count + 1)]
    gradients = [random.normal(size=value.shape).astype("float32") for value in values]
    return [variable(*each) for each in zip(paths, values, strict=True)], values, gradients


@pytest.mark.parametrize("count", [1, 4, 5])
def test_trust_ratios_are_measured_over_the_adapted_variables(count):
    variables, values, gradients = pair(count)
    optimizer = Lamb(0.1)
    optimizer.build(variables)
    measured = optimizer.update(gradients)
    assert tuple(measured) == optimizer.measures
    ratios = []
    for value, gradient in zip(values[:-1], gradients, strict=False):
        update = 0.1 * gradient / (np.sqrt(0.001 * gradient**2) + 1e-6) + 0.01 * value
        ratios.append(np.linalg.norm(value) / np.linalg.norm(update))
    expected = (min(ratios), np.median(ratios), max(ratios))
    np.testing.assert_allclose([float(each) for each in measured.values()], expected, rtol=1e-5)


def test_nothing_is_measured_where_nothing_is_adapted():
    variables, _, gradients = pair(2)
    for optimizer in (
        Lamb(0.1, exclude_from_layer_adaptation=[""]),
        create_optimizer("adamw", 0.1),
    ):
        optimizer.build(variables)
        assert optimizer.measures == ()
        assert optimizer.update(gradients) == {}


@pytest.mark.parametrize("bias_correction", [False, True])
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_an_update_that_does_not_apply_changes_no_bit(name, bias_correction):
    def made():
        variables, _, gradients = pair(3)
        optimizer = create_optimizer(name, 0.1, bias_correction=bias_correction)
        optimizer.build(variables)
        optimizer.update(gradients)
        return optimizer, variables, gradients

    def values_of(optimizer, variables):
        return [each.numpy() for each in variables + optimizer.variables]

    optimizer, variables, gradients = made()
    before = values_of(optimizer, variables)
    optimizer.update(gradients, np.bool_(False))
    np.testing.assert_equal(before, values_of(optimizer, variables))

    plain, plain_variables, _ = made()
    plain.update(gradients)
    optimizer.update(gradients, np.bool_(True))
    np.testing.assert_equal(values_of(plain, plain_variables), values_of(optimizer, variables))
    assert not np.array_equal(variables[0].numpy(), before[0])
