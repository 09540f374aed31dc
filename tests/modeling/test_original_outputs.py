"""The model against arrays that the original code produced."""

from typing import NamedTuple

import numpy as np
import pytest
from keras import ops

from albert_tf.config import AlbertConfig
from albert_tf.modeling.heads import AlbertForPreTraining
from albert_tf.modeling.losses import PretrainingObjective
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


class Original(NamedTuple):
    """A model with the original's weights: what it computes, and what the original computed."""

    model: AlbertForPreTraining
    inputs: dict[str, np.ndarray]
    outputs: dict
    losses: dict
    gradients: list
    expected_outputs: dict[str, np.ndarray]
    expected_gradients: dict[str, np.ndarray]


@pytest.fixture(scope="module", params=["tiny", "groups2", "nomap"])
def original(request) -> Original:
    folder = GOLDEN / f"google_tf1_{request.param}"
    model = AlbertForPreTraining(AlbertConfig.from_json_file(str(folder / "albert_config.json")))
    variables = dict(np.load(folder / "variables.npz"))
    for weight in model.weights:
        weight.assign(variables.pop(weight.path))
    assert not variables, "the original has variables that the model lacks"
    load = {
        name: dict(np.load(folder / f"{name}.npz")) for name in ("inputs", "outputs", "gradients")
    }
    # All at once, as compiling it takes long on JAX.
    values, gradients = gradient_function(model, losses)(load["inputs"])
    values = as_numpy(values)
    return Original(
        model,
        load["inputs"],
        values["outputs"],
        values["losses"],
        as_numpy(gradients),
        load["outputs"],
        load["gradients"],
    )


def test_outputs_equal_the_originals(original):
    outputs, expected = original.outputs, original.expected_outputs
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
        np.testing.assert_allclose(value, expected[name], rtol=0, atol=1e-5, err_msg=name)


def test_embeddings_equal_the_originals(original):
    model, inputs, expected = original.model, original.inputs, original.expected_outputs
    embeddings = model.encoder.embeddings
    words = embeddings.word_embeddings.numpy()[inputs["input_ids"]]
    np.testing.assert_array_equal(words, expected["word_embedding_output"])
    output = forward(model.encoder, inputs, output_embeddings=True)["embedding_output"]
    np.testing.assert_allclose(output, expected["embedding_output"], rtol=0, atol=1e-5)


def test_losses_and_gradients_equal_the_originals(original):
    model, expected = original.model, original.expected_gradients
    for name, value in original.losses.items():
        np.testing.assert_allclose(
            value, original.expected_outputs[name], rtol=0, atol=1e-5, err_msg=name
        )
    assert {weight.path for weight in model.trainable_variables} == set(expected)
    for weight, gradient in zip(model.trainable_variables, original.gradients, strict=True):
        np.testing.assert_allclose(
            gradient, expected[weight.path], rtol=0, atol=1e-5, err_msg=weight.path
        )
