"""Layer-wise decay of the learning rate: by how much each variable moves."""

import dataclasses

import numpy as np
import pytest

from albert_tf.errors import InputError
from albert_tf.modeling.heads import AlbertForSequenceClassification
from albert_tf.optimization import create_optimizer
from albert_tf.optimization.variables import layer_decay_scales
from tests.support.backends import as_numpy, update_function, variable
from tests.support.tiny import CONFIG

GROUPS = dataclasses.replace(CONFIG, num_hidden_layers=12, num_hidden_groups=12)
RATE, DECAY = 0.01, 0.5

# Distances from the head, in layers, by a part of a variable's path.
HEADS = {"classifier/": 0, "bert/pooler/": 1}
ONE_GROUP = HEADS | {"transformer/group_0/": 1, "mapping_in/": 2, "embeddings/": 2}
TWELVE = {f"transformer/group_{group}/": 12 - group for group in (11, 10, 1, 0)}
TWELVE_GROUPS = HEADS | TWELVE | {"mapping_in/": 13, "bert/embeddings/": 13}


def paths_of(config):
    encoder = [
        "embeddings/word_embeddings",
        "encoder/embedding_hidden_mapping_in/kernel",
        *(
            f"encoder/transformer/group_{group}/inner_group_0/ffn_1/intermediate/dense/kernel"
            for group in range(config.num_hidden_groups)
        ),
        "pooler/dense/kernel",
    ]
    return [*(f"bert/{path}" for path in encoder), "classifier/output_weights"]


def moved(name, paths, **arguments):
    """By how much one update of equal gradients moves each variable."""
    values = np.random.default_rng(0).normal(size=(len(paths), 3)).astype("float32")
    variables = [variable(path, value) for path, value in zip(paths, values, strict=True)]
    optimizer = create_optimizer(name, RATE, weight_decay_rate=0.0, **arguments)
    update_function(optimizer, variables)([np.full(3, 0.5, "float32")] * len(paths))
    return {v.path: as_numpy(v.value) - value for v, value in zip(variables, values, strict=True)}


@pytest.mark.parametrize(
    ("config", "distances"),
    [(CONFIG, ONE_GROUP), (GROUPS, TWELVE_GROUPS)],
    ids=["one group", "twelve groups"],
)
@pytest.mark.parametrize("name", ["adamw", "lamb"])
def test_updates_shrink_with_the_distance_from_the_head(name, config, distances):
    paths = paths_of(config)
    plain = moved(name, paths)
    decayed = moved(name, paths, learning_rate_scales=layer_decay_scales(config, DECAY))
    for part, distance in distances.items():
        (path,) = (path for path in paths if part in path)
        expected = plain[path] * DECAY**distance
        np.testing.assert_allclose(decayed[path], expected, rtol=2e-3, atol=2e-7, err_msg=path)
        assert np.abs(decayed[path]).max() > 0


def test_without_decay_the_bits_are_the_same():
    paths = paths_of(CONFIG)
    plain = moved("adamw", paths)
    same = moved("adamw", paths, learning_rate_scales=layer_decay_scales(CONFIG, 1.0))
    ones = moved("adamw", paths, learning_rate_scales=[(".", 1.0)])
    np.testing.assert_equal(same, plain)
    np.testing.assert_equal(ones, plain)


def test_every_variable_of_the_encoder_has_a_distance():
    config = dataclasses.replace(CONFIG, num_hidden_groups=2)
    scales = layer_decay_scales(config, DECAY)
    optimizer = create_optimizer("adamw", RATE, learning_rate_scales=scales)
    optimizer.build(AlbertForSequenceClassification(config, 2).trainable_weights)
    pairs = zip(optimizer._trainable_variables, optimizer._rate_scales, strict=True)
    full_rate = [variable.path for variable, scale in pairs if scale.factor == 1.0]
    assert full_rate == ["classifier/output_weights", "classifier/output_bias"]
    again = type(optimizer).from_config(optimizer.get_config())
    assert again.learning_rate_scales == optimizer.learning_rate_scales


@pytest.mark.parametrize("name", ["adamw", "lamb", "muon"])
def test_variables_stay_until_their_start(name):
    random = np.random.default_rng(0)
    paths = ["bert/embeddings/word_embeddings", "bert/pooler/dense/kernel", "bert/LayerNorm/gamma"]
    gradients = random.normal(size=(4, 3, 5, 4)).astype("float32")
    values, moments = {}, {}
    for start in (0, 3):
        random = np.random.default_rng(1)
        variables = [variable(p, random.normal(size=(5, 4)).astype("float32")) for p in paths]
        scales = [("/word_embeddings$", 1.0), ("", 1.0, start)]
        optimizer = create_optimizer(name, RATE, learning_rate_scales=scales)
        update, values[start] = update_function(optimizer, variables), []
        for each in gradients:
            values[start].append([as_numpy(v.value) for v in variables])
            update(list(each))
        values[start].append([as_numpy(v.value) for v in variables])
        moments[start] = [as_numpy(v.value) for v in optimizer.variables if "adam" in v.path]
    for step in range(5):
        np.testing.assert_array_equal(values[3][step][0], values[0][step][0])
        for one, first in zip(values[3][step][1:], values[3][0][1:], strict=True):
            assert (step < 4) == np.array_equal(one, first), step
    np.testing.assert_equal(moments[3], moments[0])


@pytest.mark.parametrize("decay", [0.0, -0.5, 1.5])
def test_a_decay_out_of_range_is_an_error(decay):
    with pytest.raises(InputError, match=f"`layer_decay`={decay}: must be above 0 and at most 1"):
        layer_decay_scales(CONFIG, decay)
