"""The models against outputs and losses of Hugging Face's, with the weights read from its files."""

import numpy as np
import pytest
from keras import ops

from albert_tf import load_weights
from albert_tf.config import AlbertConfig
from albert_tf.modeling.heads import (
    AlbertForMultipleChoice,
    AlbertForPreTraining,
    AlbertForSequenceClassification,
    AlbertForTokenClassification,
)
from albert_tf.modeling.kernels import PLAIN_KERNELS
from albert_tf.modeling.question_answering import AlbertForQuestionAnswering
from tests.conftest import GOLDEN
from tests.support.backends import forward

FEATURES = {
    "input_ids": "input_ids",
    "attention_mask": "input_mask",
    "token_type_ids": "segment_ids",
}

# Model, their logits by our name, and our logits by the labels that they learn from.
MODELS = {
    "pretraining": (
        AlbertForPreTraining,
        {"prediction_logits": "masked_lm_logits", "sop_logits": "sentence_order_logits"},
        {"labels": "masked_lm_logits", "sentence_order_label": "sentence_order_logits"},
    ),
    "seqcls": (
        lambda config: AlbertForSequenceClassification(config, num_labels=3),
        {"logits": "logits"},
        {"labels": "logits"},
    ),
    "tokcls": (
        lambda config: AlbertForTokenClassification(config, num_labels=5),
        {"logits": "logits"},
        {"labels": "logits"},
    ),
    "qa": (
        AlbertForQuestionAnswering,
        {"start_logits": "start_logits", "end_logits": "end_logits"},
        {"start_positions": "start_logits", "end_positions": "end_logits"},
    ),
    "mc": (AlbertForMultipleChoice, {"logits": "logits"}, {"labels": "logits"}),
}


@pytest.fixture(params=MODELS)
def theirs(request):
    """Name and model with their weights, its inputs and outputs."""
    folder = GOLDEN / f"hf_tiny_{request.param}"
    create, _, _ = MODELS[request.param]
    model = create(AlbertConfig.from_json_file(str(folder / "config.json")))
    load_weights(model, str(folder))
    return (
        request.param,
        model,
        dict(np.load(folder / "inputs.npz")),
        dict(np.load(folder / "outputs.npz")),
    )


def run(model, inputs, names, **options):
    """Our outputs for some of their inputs; predictions at every position."""
    features = {FEATURES[name]: inputs[name] for name in names}
    ids = inputs["input_ids"]
    if isinstance(model, AlbertForPreTraining):
        features["masked_lm_positions"] = np.broadcast_to(np.arange(ids.shape[-1]), ids.shape)
    return forward(model, features, **options)


def close(actual, expected, name):
    np.testing.assert_allclose(actual, expected, rtol=0, atol=1e-5, err_msg=name)


def mean_loss(logits, labels):
    """Return the mean over the labels that are not -100."""
    kept = labels != -100
    losses = ops.convert_to_numpy(PLAIN_KERNELS.score(logits, np.where(kept, labels, 0))[0])
    return losses[kept].mean()


def test_outputs_and_loss_equal_theirs(theirs):
    name, model, inputs, expected = theirs
    _, logits, labels = MODELS[name]
    outputs = run(model, inputs, FEATURES, output_hidden_states=True)
    losses = [mean_loss(outputs[ours], inputs[key]) for key, ours in labels.items()]
    actual = {
        # Start and end of a span are averaged, the two losses of pretraining added up.
        "loss": np.mean(losses) if name == "qa" else np.sum(losses),
        "last_hidden_state": outputs["sequence_output"],
        **{key: outputs[ours] for key, ours in logits.items()},
    }
    if "pooler_output" in expected:
        actual["pooler_output"] = outputs["pooled_output"]
    if "hidden_state_00" in expected:
        for number, hidden in enumerate(outputs["hidden_states"]):
            actual[f"hidden_state_{number:02d}"] = hidden
    assert set(actual) == {key for key in expected if "ids_only/" not in key}
    for key, value in actual.items():
        close(value, expected[key], key)


@pytest.mark.parametrize("theirs", ["pretraining"], indirect=True)
def test_mask_and_segments_may_be_left_out_as_theirs_may(theirs):
    name, model, inputs, expected = theirs
    outputs = run(model, inputs, ["input_ids"])
    for key, ours in MODELS[name][1].items():
        close(outputs[ours], expected[f"ids_only/{key}"], key)
