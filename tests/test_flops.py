"""Operations by formula against those of the products in TensorFlow's own graphs."""

import dataclasses
import math

import pytest
import tensorflow as tf

from albert_tf.config import AlbertConfig
from albert_tf.flops import classification_flops, pretraining_flops
from albert_tf.modeling.heads import AlbertForPreTraining, AlbertForSequenceClassification
from albert_tf.modeling.losses import ClassificationObjective, PretrainingObjective
from tests.conftest import slow
from tests.support.tiny import CONFIG, LENGTH, PREDICTIONS, batch

EXAMPLES = 2

CONFIGS = {
    "tiny": CONFIG,
    "no projection": dataclasses.replace(CONFIG, embedding_size=16),
    "groups and inner groups": dataclasses.replace(
        CONFIG, num_hidden_layers=2, num_hidden_groups=2, inner_group_num=2
    ),
    "other widths": dataclasses.replace(
        CONFIG, vocab_size=97, hidden_size=24, num_attention_heads=3, intermediate_size=40
    ),
}


def counted(model, objective, features) -> float:
    """Return operations per example of all products that the gradients need."""

    @tf.function
    def step(features):
        with tf.GradientTape() as tape:
            outputs = model(features, training=True, heads_only=True)
            sums = objective.sums(outputs, features)
            loss = objective.loss(sums, objective.weights(features))
        gradients = tape.gradient(loss, [weight.value for weight in model.trainable_weights])
        return [tf.convert_to_tensor(each) for each in gradients if each is not None]

    graph = step.get_concrete_function(features).graph
    todo, needed = [tensor.op for tensor in graph.outputs], set()
    while todo:
        operation = todo.pop()
        if operation not in needed:
            needed.add(operation)
            todo += [tensor.op for tensor in operation.inputs]
    assert not {op.type for op in needed} & {"Einsum", "PartitionedCall", "StatefulPartitionedCall"}
    return sum(_product(op) for op in needed if "MatMul" in op.type) / EXAMPLES


def _product(operation) -> int:
    transposed = "adj_x" if operation.type.startswith("Batch") else "transpose_a"
    rows, columns = operation.inputs[0].shape[-2:]
    inner = rows if operation.get_attr(transposed) else columns
    return 2 * math.prod(operation.outputs[0].shape) * inner


def lookups(config: AlbertConfig) -> int:
    """Return the products with one-hot rows that look segments up, forward and backward."""
    return 2 * 2 * LENGTH * config.type_vocab_size * config.embedding_size


def selections(config: AlbertConfig, outputs: int) -> int:
    """Return the products with one-hot rows that select positions, forward and backward."""
    return 2 * 2 * outputs * LENGTH * config.hidden_size


@pytest.mark.integration
@pytest.mark.parametrize(
    ("name", "pairs"),
    [
        *(("groups and inner groups", "sop"), ("other widths", "none")),
        *slow(("tiny", "sop"), ("no projection", "sop")),
    ],
)
def test_pretraining(name, pairs):
    config = CONFIGS[name]
    features = {key: tf.constant(value) for key, value in batch(EXAMPLES).items()}
    graph = counted(AlbertForPreTraining(config), PretrainingObjective(pairs), features)
    predicted = selections(config, 1 + PREDICTIONS)
    formula = pretraining_flops(config, LENGTH, PREDICTIONS, pairs != "none")
    assert graph == formula + lookups(config) + predicted


@pytest.mark.integration
def test_classification():
    names = ("input_ids", "input_mask", "segment_ids")
    features = {key: tf.constant(batch(EXAMPLES)[key]) for key in names}
    features["label_ids"] = tf.constant([0, 2])
    graph = counted(AlbertForSequenceClassification(CONFIG, 3), ClassificationObjective(), features)
    assert graph == classification_flops(CONFIG, LENGTH, 3) + lookups(CONFIG) + selections(
        CONFIG, 1
    )
