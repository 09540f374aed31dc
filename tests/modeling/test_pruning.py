"""What no head looks at may be left out: what is left is the same."""

from __future__ import annotations

import dataclasses

import keras
import numpy as np
import pytest

from albert_tf.modeling.heads import (
    AlbertForMultipleChoice,
    AlbertForPreTraining,
    AlbertForQuestionAnswering,
    AlbertForSequenceClassification,
)
from albert_tf.modeling.layer_calls import pruning
from tests.backends import as_numpy
from tests.tiny import CONFIG, batch

# Large weights, so that what a position says depends on the others.
SHARED = dataclasses.replace(CONFIG, initializer_range=0.3)
GROUPS = dataclasses.replace(SHARED, num_hidden_layers=4, num_hidden_groups=2, inner_group_num=2)
INPUTS = ("input_ids", "input_mask", "segment_ids")


def features(*names):
    return {name: batch(6)[name] for name in names}


def choices():
    return {name: values.reshape(2, 3, -1) for name, values in features(*INPUTS).items()}


MODELS = {
    "pretraining": (AlbertForPreTraining, features(*INPUTS, "masked_lm_positions")),
    "pretraining without masks": (AlbertForPreTraining, features(*INPUTS)),
    "classification": (
        lambda config: AlbertForSequenceClassification(config, 3),
        features(*INPUTS),
    ),
    "multiple choice": (AlbertForMultipleChoice, choices()),
}


@pytest.mark.parametrize("config", [SHARED, GROUPS], ids=["shared", "groups"])
@pytest.mark.parametrize("name", MODELS)
def test_outputs_are_the_same(name, config):
    keras.utils.set_random_seed(0)
    make, inputs = MODELS[name]
    model = make(config)
    whole = as_numpy(model(inputs))
    with pruning():
        pruned = as_numpy(model(inputs))
    assert whole.keys() - pruned.keys() == {"sequence_output", "encoder_outputs"}
    for output, values in pruned.items():
        np.testing.assert_allclose(values, whole[output], rtol=0, atol=2e-5, err_msg=output)
        assert np.ptp(values) > 1e-3, output


def test_answers_in_the_text_need_all_positions():
    model = AlbertForQuestionAnswering(CONFIG)
    with pruning():
        assert model(features(*INPUTS))["start_logits"].shape == (6, 16)
