"""Which parameters a model has, which layers share, which training keeps; that all are saved."""

import dataclasses
import functools
import itertools
import json

import keras
import numpy as np
import pytest

from albert_tf.errors import InputError
from albert_tf.modeling.encoder import AlbertEncoder
from albert_tf.modeling.heads import (
    AlbertForMultipleChoice,
    AlbertForPreTraining,
    AlbertForSequenceClassification,
    AlbertForTokenClassification,
)
from albert_tf.modeling.losses import PretrainingObjective
from albert_tf.modeling.model import freeze
from albert_tf.modeling.question_answering import (
    AlbertForConditionalQuestionAnswering,
    AlbertForQuestionAnswering,
)
from tests.support.backends import as_numpy, gradient_function
from tests.support.tiny import CONFIG, batch

ATTENTION = (
    *(f"attention_1/self/{name}/{leaf}" for name in ("query", "key", "value") for leaf in "kb"),
    *(f"attention_1/output/dense/{leaf}" for leaf in "kb"),
    "LayerNorm/gamma",
    "LayerNorm/beta",
)
FFN = (
    *(f"ffn_1/intermediate/dense/{leaf}" for leaf in "kb"),
    *(f"ffn_1/intermediate/output/dense/{leaf}" for leaf in "kb"),
    "LayerNorm_1/gamma",
    "LayerNorm_1/beta",
)

MODELS = {
    "encoder": AlbertEncoder,
    "pretraining": AlbertForPreTraining,
    "classifier": functools.partial(
        AlbertForSequenceClassification, num_labels=3, classifier_dropout=0.2
    ),
    "span": AlbertForQuestionAnswering,
    "conditional_span": functools.partial(
        AlbertForConditionalQuestionAnswering, start_n_top=3, end_n_top=2, classifier_dropout=0.4
    ),
    "choice": functools.partial(AlbertForMultipleChoice, classifier_dropout=0.3),
    "tagger": functools.partial(AlbertForTokenClassification, num_labels=5, classifier_dropout=0.2),
}


def sharing(which, **fields):
    changes = {"num_hidden_layers": 3, "inner_group_num": 2, "num_hidden_groups": None, **fields}
    return dataclasses.replace(CONFIG, parameter_sharing=which, **changes)


def own_paths(half, groups):
    """Return the paths of half a block in both inner groups of some groups."""
    leaves = {"k": "kernel", "b": "bias"}
    return {
        f"group_{group}/inner_group_{inner}/{scope}/{leaves.get(leaf, leaf)}"
        for group in groups
        for inner in range(2)
        for scope, _, leaf in (path.rpartition("/") for path in half)
    }


@pytest.mark.parametrize(
    ("which", "attention_groups", "ffn_groups"),
    [("all", 1, 1), ("attention", 1, 3), ("ffn", 3, 1), ("none", 3, 3)],
)
def test_groups_have_what_they_do_not_share(which, attention_groups, ffn_groups):
    encoder = AlbertEncoder(sharing(which))
    prefix = "bert/encoder/transformer/"
    paths = [w.path.removeprefix(prefix) for w in encoder.weights if w.path.startswith(prefix)]
    expected = own_paths(ATTENTION, range(attention_groups)) | own_paths(FFN, range(ffn_groups))
    assert sorted(paths) == sorted(expected)


def gradients_by_path(model, features):
    objective = PretrainingObjective()

    def loss(outputs, batch):
        value = objective.loss(objective.sums(outputs, batch), objective.weights(batch))
        return value, {"loss": value}

    values, gradients = as_numpy(gradient_function(model, loss)(features))
    paths = [weight.path for weight in model.trainable_variables]
    return values["loss"], dict(zip(paths, gradients, strict=True))


@pytest.mark.integration
@pytest.mark.parametrize("which", ["attention", "ffn"])
def test_the_gradient_of_what_is_shared_is_the_sum_over_those_who_share_it(which):
    changes = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    changes.update(num_hidden_layers=2, inner_group_num=1, initializer_range=0.3)
    keras.utils.set_random_seed(1)
    model = AlbertForPreTraining(sharing(which, **changes))
    apart = AlbertForPreTraining(sharing("none", **changes))
    values = {weight.path: weight.numpy() for weight in model.trainable_variables}

    def owner(path):
        return path if path in values else path.replace("group_1/inner", "group_0/inner")

    for weight in apart.trainable_variables:
        weight.assign(values[owner(weight.path)])
    loss, gradients = gradients_by_path(model, batch(4))
    expected_loss, parts = gradients_by_path(apart, batch(4))
    assert loss == pytest.approx(expected_loss, rel=1e-6)
    sums = dict.fromkeys(values, 0.0)
    for path, gradient in parts.items():
        sums[owner(path)] = sums[owner(path)] + gradient
    for path, gradient in gradients.items():
        size = np.abs(sums[path]).max()
        assert size > 1e-6 or "key/bias" in path, f"nothing reaches {path}"
        np.testing.assert_allclose(
            gradient, sums[path], rtol=0, atol=1e-5 * max(size, 1e-2), err_msg=path
        )


@pytest.mark.parametrize("name", MODELS)
def test_models_come_back_from_their_config(name):
    config = sharing("ffn", num_hidden_layers=2, inner_group_num=1)
    model = MODELS[name](config, dtype="mixed_bfloat16", name="another_name")
    text = json.dumps(keras.saving.serialize_keras_object(model))
    again = keras.saving.deserialize_keras_object(json.loads(text))
    assert type(again) is type(model)
    assert again.config == config
    assert again.name == "another_name"
    assert [w.path for w in again.weights] == [w.path for w in model.weights]
    assert again.dtype_policy.name == "mixed_bfloat16"
    assert again.get_config() == model.get_config()


@pytest.mark.integration
@pytest.mark.parametrize(
    ("name", "which"), [*zip(MODELS, itertools.cycle(["all", "none", "attention", "ffn"]))]
)
def test_keras_saves_every_weight_and_loads_it_again(tmp_path, name, which):
    keras.utils.set_random_seed(0)
    model, again = (MODELS[name](sharing(which, num_hidden_layers=2)) for _ in range(2))
    random = np.random.default_rng(0)
    for weight in model.weights:
        weight.assign(random.normal(size=weight.shape))
    path = str(tmp_path / "model.weights.h5")
    model.save_weights(path)
    again.load_weights(path)
    np.testing.assert_equal(again.get_weights(), model.get_weights())


def test_patterns_that_match_nothing_or_everything_are_errors():
    model = AlbertForSequenceClassification(CONFIG, num_labels=2)
    with pytest.raises(InputError, match="`patterns`=bert/embedding: matches no.*bert/embeddings/"):
        freeze(model, ["classifier/*", "bert/embedding"])
    with pytest.raises(InputError, match="leaves no variable to train"):
        freeze(model, ["bert/*", "classifier/*"])
    assert len(model.trainable_weights) == len(model.weights)
