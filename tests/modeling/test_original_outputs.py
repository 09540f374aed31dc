"""The models against arrays that the original code and Hugging Face produced."""

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
from albert_tf.modeling.losses import PretrainingObjective
from albert_tf.modeling.question_answering import AlbertForQuestionAnswering
from tests.conftest import GOLDEN
from tests.support.backends import as_numpy, forward, gradient_function


def losses(outputs, batch):
    """Return the training loss; outputs, and all losses under the original's names."""
    objective = PretrainingObjective()
    sums, weights = objective.sums(outputs, batch), objective.weights(batch)
    total = objective.loss(sums, weights)
    return total, {
        "outputs": outputs,
        "losses": {
            "masked_lm_loss": sums["masked_lm_loss"] / (weights["masked_lm"] + 1e-5),
            "sentence_order_loss": sums["sentence_order_loss"] / weights["sentence_order"],
            "total_loss": total,
        },
    }


def close(actual, expected, name, atol=1e-5):
    np.testing.assert_allclose(actual, expected, rtol=0, atol=atol, err_msg=name)


@pytest.fixture(scope="module", params=["tiny", "groups2", "nomap"])
def original(request):
    """Return a model with the original's weights, its arrays, our values and gradients."""
    folder = GOLDEN / f"google_tf1_{request.param}"
    model = AlbertForPreTraining(AlbertConfig.from_json_file(str(folder / "albert_config.json")))
    variables = dict(np.load(folder / "variables.npz"))
    for weight in model.weights:
        weight.assign(variables.pop(weight.path))
    assert not variables, "the original has variables that the model lacks"
    golden = {
        name: dict(np.load(folder / f"{name}.npz")) for name in ("inputs", "outputs", "gradients")
    }
    # All at once, as compiling it takes long on JAX.
    values, gradients = gradient_function(model, losses)(golden["inputs"])
    return model, golden, as_numpy(values), as_numpy(gradients)


def test_outputs_equal_the_originals(original):
    _, golden, values, _ = original
    outputs, expected = values["outputs"], golden["outputs"]
    actual = {
        f"encoder_layer_{number:02d}": layer
        for number, layer in enumerate(outputs["encoder_outputs"])
    }
    assert len(actual) == sum(name.startswith("encoder_layer") for name in expected)
    for name in ("sequence_output", "pooled_output"):
        actual[name] = outputs[name]
    log_probs = ops.log_softmax(outputs["masked_lm_logits"])
    actual["masked_lm_log_probs"] = ops.reshape(log_probs, (-1, log_probs.shape[-1]))
    actual["sentence_order_log_probs"] = ops.log_softmax(outputs["sentence_order_logits"])
    for name, value in as_numpy(actual).items():
        close(value, expected[name], name)


def test_losses_and_gradients_equal_the_originals(original):
    model, golden, values, gradients = original
    for name, value in values["losses"].items():
        close(value, golden["outputs"][name], name)
    expected = golden["gradients"]
    assert {weight.path for weight in model.trainable_variables} == set(expected)
    for weight, gradient in zip(model.trainable_variables, gradients, strict=True):
        close(gradient, expected[weight.path], weight.path)


# Of Hugging Face.
FEATURES = {
    "input_ids": "input_ids", "attention_mask": "input_mask", "token_type_ids": "segment_ids"
}  # fmt: skip

# Model, Hugging Face's logits by our name, and our logits by the labels that they learn from.
MODELS = {
    "pretraining": (
        AlbertForPreTraining,
        {
            "prediction_logits": "masked_lm_logits",
            "sop_logits": "sentence_order_logits",
            "seq_relationship_logits": "sentence_order_logits",
        },
        {
            "labels": "masked_lm_logits",
            "sentence_order_label": "sentence_order_logits",
            "next_sentence_label": "sentence_order_logits",
        },
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


@pytest.fixture(params=[f"{family}_{name}" for family in ("tiny", "bert") for name in MODELS])
def theirs(request):
    """Name and model with their weights, its inputs and outputs."""
    folder = GOLDEN / f"hf_{request.param}"
    name = request.param.partition("_")[2]
    create, _, _ = MODELS[name]
    model = create(AlbertConfig.from_json_file(str(folder / "config.json")))
    load_weights(model, str(folder))
    inputs, outputs = (dict(np.load(folder / f"{each}.npz")) for each in ("inputs", "outputs"))
    return name, model, inputs, outputs


def run(model, inputs, names, **options):
    """Our outputs for some of their inputs; predictions at every position."""
    features = {FEATURES[name]: inputs[name] for name in names}
    ids = inputs["input_ids"]
    if isinstance(model, AlbertForPreTraining):
        features["masked_lm_positions"] = np.broadcast_to(np.arange(ids.shape[-1]), ids.shape)
    return forward(model, features, **options)


def mean_loss(logits, labels):
    """Return the mean over the labels that are not -100."""
    kept = labels != -100
    losses = ops.convert_to_numpy(PLAIN_KERNELS.score(logits, np.where(kept, labels, 0))[0])
    return losses[kept].mean()


def test_outputs_and_loss_equal_theirs(theirs):
    name, model, inputs, expected = theirs
    _, logits, labels = MODELS[name]
    outputs = run(model, inputs, FEATURES, output_hidden_states=True)
    losses = [
        mean_loss(outputs[ours], inputs[key]) for key, ours in labels.items() if key in inputs
    ]
    actual = {
        # Start and end of a span are averaged, the two losses of pretraining added up.
        "loss": np.mean(losses) if name == "qa" else np.sum(losses),
        "last_hidden_state": outputs["sequence_output"],
        **{key: outputs[ours] for key, ours in logits.items() if key in expected},
    }
    if "pooler_output" in expected:
        actual["pooler_output"] = outputs["pooled_output"]
    if "hidden_state_00" in expected:
        for number, hidden in enumerate(outputs["hidden_states"]):
            actual[f"hidden_state_{number:02d}"] = hidden
    assert set(actual) == {key for key in expected if "ids_only/" not in key}
    for key, value in actual.items():
        close(value, expected[key], key, atol=5e-6)


@pytest.mark.parametrize("theirs", ["tiny_pretraining", "bert_pretraining"], indirect=True)
def test_mask_and_segments_may_be_left_out_as_theirs_may(theirs):
    name, model, inputs, expected = theirs
    outputs = run(model, inputs, ["input_ids"])
    for key, ours in MODELS[name][1].items():
        if key in expected:
            close(outputs[ours], expected[f"ids_only/{key}"], key)
