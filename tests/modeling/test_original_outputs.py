"""The model against arrays that the original code produced."""

from __future__ import annotations

import numpy as np
import pytest
from keras import ops

from albert_tf.config import AlbertConfig
from albert_tf.modeling.heads import AlbertForPreTraining
from albert_tf.modeling.losses import PretrainingObjective


@pytest.fixture(params=["tiny", "groups2", "nomap"])
def original(request, shared):
    """Model with the original's weights, and its inputs, outputs and gradients."""
    folder = shared(f"golden/google_tf1_{request.param}")
    model = AlbertForPreTraining(AlbertConfig.from_json_file(str(folder / "albert_config.json")))
    variables = dict(np.load(folder / "variables.npz"))
    for weight in model.weights:
        weight.assign(variables.pop(weight.path))
    assert not variables, "the original has variables that the model lacks"
    load = {
        name: dict(np.load(folder / f"{name}.npz")) for name in ("inputs", "outputs", "gradients")
    }
    return model, load["inputs"], load["outputs"], load["gradients"]


def test_outputs_equal_the_originals(original):
    model, inputs, expected, _ = original
    outputs = model(inputs)

    def close(actual, name):
        np.testing.assert_allclose(
            ops.convert_to_numpy(actual), expected[name], rtol=0, atol=1e-5, err_msg=name
        )

    for number, layer in enumerate(outputs["encoder_outputs"]):
        close(layer, f"encoder_layer_{number:02d}")
    close(outputs["sequence_output"], "sequence_output")
    close(outputs["pooled_output"], "pooled_output")
    vocabulary = outputs["masked_lm_logits"].shape[-1]
    log_probs = ops.log_softmax(outputs["masked_lm_logits"])
    close(ops.reshape(log_probs, (-1, vocabulary)), "masked_lm_log_probs")
    close(ops.log_softmax(outputs["sentence_order_logits"]), "sentence_order_log_probs")

    objective = PretrainingObjective()
    sums, weights = objective.sums(outputs, inputs), objective.weights(inputs)
    close(sums["masked_lm_loss"] / (weights["masked_lm"] + 1e-5), "masked_lm_loss")
    close(sums["sentence_order_loss"] / weights["sentence_order"], "sentence_order_loss")
    close(objective.loss(sums, weights), "total_loss")


def test_gradients_equal_the_originals(original):
    tf = pytest.importorskip("tensorflow")
    model, inputs, _, expected = original
    objective = PretrainingObjective()
    with tf.GradientTape() as tape:
        outputs = model(inputs, training=False)
        loss = objective.loss(objective.sums(outputs, inputs), objective.weights(inputs))
    gradients = tape.gradient(loss, [weight.value for weight in model.weights])
    for weight, gradient in zip(model.weights, gradients, strict=True):
        np.testing.assert_allclose(
            tf.convert_to_tensor(gradient),
            expected[weight.path],
            rtol=0,
            atol=1e-5,
            err_msg=weight.path,
        )
