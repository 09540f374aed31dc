"""What models accept as input, by any of its names, and how they refuse the rest."""

import keras
import numpy as np
import pytest

from albert_tf.errors import InputError
from albert_tf.modeling.encoder import AlbertEncoder
from albert_tf.modeling.heads import (
    AlbertForMultipleChoice,
    AlbertForPreTraining,
    AlbertForSequenceClassification,
)
from albert_tf.modeling.question_answering import AlbertForConditionalQuestionAnswering
from tests.conftest import refusal
from tests.support.backends import as_numpy
from tests.support.tiny import CONFIG, LENGTH, VOCAB, batch

INPUTS = ("input_ids", "input_mask", "segment_ids")
PLAIN = {name: batch(3)[name] for name in INPUTS}
CHOICES = {name: values[None] for name, values in PLAIN.items()}
OTHER_NAMES = (
    ("input_ids", "attention_mask", "token_type_ids"),
    ("input_word_ids", "input_mask", "input_type_ids"),
)


@pytest.fixture(scope="module")
def encoder():
    return AlbertEncoder(CONFIG)


def named(names, features=PLAIN):
    return dict(zip(names, features.values(), strict=True))


# The same features as others write them; the last is a whole batch of training.
SAME = {
    **dict(zip(("transformers", "model_garden"), map(named, OTHER_NAMES), strict=True)),
    **{
        convert.__name__: {name: convert(values) for name, values in PLAIN.items()}
        for convert in (np.ndarray.tolist, np.uint8, np.uint64, np.int16, np.int64)
    },
    "boolean mask": {**PLAIN, "input_mask": PLAIN["input_mask"] > 0},
    "batch": {**batch(3), "label_ids": np.zeros(3, "int32"), "example_number": np.arange(3)},
}


@pytest.mark.parametrize("name", SAME)
def test_the_same_features_are_written_in_many_ways(encoder, name):
    expected = as_numpy(encoder(PLAIN)["pooled_output"])
    np.testing.assert_array_equal(encoder(SAME[name])["pooled_output"], expected)


@pytest.mark.parametrize("names", OTHER_NAMES, ids=["transformers", "model_garden"])
def test_features_have_other_names_without_state_too(encoder, names):
    expected = as_numpy(encoder(PLAIN)["pooled_output"])
    variables = (encoder.trainable_variables, encoder.non_trainable_variables)
    outputs, _ = encoder.stateless_call(
        *([v.value for v in part] for part in variables), named(names)
    )
    np.testing.assert_array_equal(outputs["pooled_output"], expected)


def test_they_have_them_at_a_few_positions_too(encoder):
    positions = np.array([[1, 2]] * 3)
    expected = as_numpy(encoder.encode_at(PLAIN, positions)["sequence_output"])
    outputs = encoder.encode_at(named(OTHER_NAMES[0]), positions)
    np.testing.assert_array_equal(outputs["sequence_output"], expected)


@pytest.mark.integration
def test_so_have_those_of_heads():
    for names, model, features in (
        (OTHER_NAMES[0], AlbertForSequenceClassification(CONFIG, 2), PLAIN),
        (OTHER_NAMES[1], AlbertForMultipleChoice(CONFIG), CHOICES),
    ):
        expected = as_numpy(model(features)["logits"])
        actual = model(named(names, features))["logits"]
        np.testing.assert_array_equal(actual, expected)


IDS = PLAIN["input_ids"]
LONG = np.ones((1, LENGTH + 1), "int32")

# Features, and what the one line of the error must contain.
INVALID = {
    "unknown": ({**PLAIN, "atention_mask": IDS}, ["'atention_mask'", "input_mask", "token_type"]),
    "two names": ({**PLAIN, "attention_mask": IDS}, ["input_mask and attention_mask"]),
    "no dictionary": (IDS, ["dictionary", "ndarray"]),
    "no ids": ({"input_mask": IDS}, ["has no input_ids"]),
    "float": ({**PLAIN, "input_ids": IDS.astype("float32")}, ["input_ids", "float32", "integers"]),
    "strings": ({"input_ids": [["a", "b"]]}, ["input_ids", "<U1", "integers"]),
    "boolean ids": ({"input_ids": IDS > 0}, ["input_ids", "bool"]),
    "ragged": ({"input_ids": [[1, 2], [3]]}, ["input_ids is no array"]),
    "rank": ({"input_ids": IDS[0]}, ["input_ids", f"[{LENGTH}]", "[batch, seq]"]),
    "shape": ({**PLAIN, "segment_ids": IDS[:2]}, ["segment_ids", "[2, 16]", "[3, 16]"]),
    "too long": ({"input_ids": LONG}, ["[1, 17]", "at most 16"]),
    "id": ({"input_ids": [[1, VOCAB]]}, ["input_ids contains 60", "[0, 59]", "vocab_size"]),
    "negative id": ({"input_ids": [[1, -1]]}, ["input_ids contains -1", "[0, 59]"]),
    "mask": ({"input_ids": [[1]], "attention_mask": [[2]]}, ["input_mask contains 2", "[0, 1]"]),
    "segment": ({"input_ids": [[1]], "segment_ids": [[2]]}, ["segment_ids contains 2"]),
}


@pytest.mark.parametrize("case", INVALID)
def test_invalid_features_are_one_line(encoder, case):
    features, parts = INVALID[case]
    message = refusal(encoder, features)
    assert message.startswith("`features`: ")
    assert [part for part in parts if part not in message] == []


@pytest.mark.integration
def test_heads_name_their_own_features():
    model = AlbertForPreTraining(CONFIG)
    with pytest.raises(InputError, match="unknown key 'positions'.*masked_lm_positions"):
        model({**PLAIN, "positions": IDS})
    with pytest.raises(InputError, match=r"masked_lm_positions contains 16.*\[0, 15\]"):
        model({**PLAIN, "masked_lm_positions": [[LENGTH]] * 3})
    with pytest.raises(InputError, match=r"input_ids has shape \[3, 16\].*\[batch, choices, seq\]"):
        AlbertForMultipleChoice(CONFIG)(PLAIN)
    with pytest.raises(InputError, match="has no segment_ids"):
        AlbertForConditionalQuestionAnswering(CONFIG)({"input_ids": IDS, "input_mask": IDS > 0})


@pytest.mark.integration
def test_symbolic_features_are_accepted(encoder):
    names = ("input_ids", "attention_mask")
    inputs = {name: keras.Input((LENGTH,), dtype="int32", name=name) for name in names}
    model = keras.Model(inputs, encoder(inputs)["pooled_output"])
    features = {"input_ids": PLAIN["input_ids"], "attention_mask": PLAIN["input_mask"]}
    np.testing.assert_allclose(
        model(features), encoder(features)["pooled_output"], rtol=0, atol=1e-6
    )
    assert "input_ids has dtype float32" in refusal(encoder, {"input_ids": keras.Input((LENGTH,))})
