"""Which variables `freeze` freezes; that training keeps them is in the tests of training."""

from __future__ import annotations

import pytest

from albert_tf.errors import InputError
from albert_tf.modeling.heads import AlbertForSequenceClassification
from albert_tf.modeling.model import freeze
from tests.support.tiny import CONFIG


def test_matching_variables_are_frozen():
    model = AlbertForSequenceClassification(CONFIG, num_labels=2)
    frozen = freeze(model, ["bert/embeddings/*", "*/pooler/dense/bias"])
    assert {path for path in frozen if not path.startswith("bert/embeddings/")} == {
        "bert/pooler/dense/bias"
    }
    assert len(frozen) == 6
    assert not {weight.path for weight in model.trainable_weights} & set(frozen)
    assert len(model.trainable_weights) + len(frozen) == len(model.weights)


def test_patterns_that_match_nothing_or_everything_are_errors():
    model = AlbertForSequenceClassification(CONFIG, num_labels=2)
    with pytest.raises(InputError, match="`patterns`=bert/embedding: matches no.*bert/embeddings/"):
        freeze(model, ["classifier/*", "bert/embedding"])
    with pytest.raises(InputError, match="leaves no variable to train"):
        freeze(model, ["bert/*", "classifier/*"])
    assert len(model.trainable_weights) == len(model.weights)
