"""The training step executes layers in its own way, with the same results."""

import dataclasses

import keras
import numpy as np
import pytest
import tensorflow as tf

from albert_tf.engines.tensorflow.cpu_kernels import CPU_KERNELS, copies_in_groups
from albert_tf.engines.tensorflow.step import TrainingExecution
from albert_tf.modeling.encoder import AlbertEncoder
from albert_tf.modeling.heads import AlbertForPreTraining
from albert_tf.modeling.kernels import PLAIN_KERNELS
from tests.support.tiny import CONFIG, batch

# Few layers: tracing them is what takes long.
CONFIGS = {
    # More uses of a kernel than are added up at once.
    "shared": dataclasses.replace(CONFIG, num_hidden_layers=4),
    # Two blocks that take turns, with two uses each.
    "inner groups": dataclasses.replace(CONFIG, inner_group_num=2),
    # Two groups of their own kernels, and of common ones.
    "attention shared": dataclasses.replace(
        CONFIG, parameter_sharing="attention", num_hidden_groups=None
    ),
}


def same_tensor(kernel, count):
    return [kernel] * count


EXECUTIONS = {
    "fused and traced": lambda: TrainingExecution(CPU_KERNELS, copies_in_groups, traced=True),
    "fused, traced and computed again": lambda: TrainingExecution(
        CPU_KERNELS, copies_in_groups, traced=True, remat=True
    ),
    "plain": lambda: TrainingExecution(PLAIN_KERNELS, same_tensor, traced=False),
    "plain and computed again": lambda: TrainingExecution(
        PLAIN_KERNELS, same_tensor, traced=False, remat=True
    ),
}


@pytest.mark.integration
@pytest.mark.parametrize(
    ("config", "executions"),
    [
        ("shared", ["fused, traced and computed again"]),
        pytest.param(
            "inner groups",
            ["fused and traced", "plain and computed again"],
            marks=pytest.mark.slow,
        ),
    ],
)
def test_outputs_and_gradients_are_those_of_the_plain_layers(config, executions):
    keras.utils.set_random_seed(0)
    model = AlbertForPreTraining(CONFIGS[config])
    weights = [weight.value for weight in model.trainable_weights]

    # A function, as the training step is: eager gradients of traced layers with remat are wrong.
    @tf.function(autograph=False)
    def outputs_and_gradients(**options):
        model.encoder.seed_generator.state.assign([3, 4])
        with tf.GradientTape() as tape:
            outputs = model(batch(4), training=True, heads_only=True, **options)
            logits = outputs["masked_lm_logits"], outputs["sentence_order_logits"]
            loss = sum(tf.reduce_sum(tf.square(each)) for each in logits)
        return (*logits, *map(tf.convert_to_tensor, tape.gradient(loss, weights)))

    plain = outputs_and_gradients()
    names = ["masked_lm_logits", "sentence_order_logits"]
    names += [weight.path for weight in model.trainable_weights]
    for execution in executions:
        other = outputs_and_gradients(execution=EXECUTIONS[execution]())
        for path, one, two in zip(names, plain, other, strict=True):
            # Relative to the largest element, as sums over many elements are.
            scale = max(np.abs(one).max(), 1e-2)
            np.testing.assert_allclose(
                two / scale, one / scale, rtol=0, atol=5e-5, err_msg=f"{execution}: {path}"
            )


@pytest.mark.integration
def test_matrices_are_cast_once_for_all_uses_of_a_layer():
    encoder = AlbertEncoder(CONFIGS["shared"], dtype="mixed_bfloat16")
    execution = TrainingExecution(CPU_KERNELS, copies_in_groups, traced=True)

    @tf.function
    def encode():
        return encoder(batch(4), execution=execution)["pooled_output"]

    graph = encode.get_concrete_function().graph
    (block,) = encoder.blocks
    shapes = [tuple(kernel.shape) for kernel in block.matrices]
    casts = [
        tuple(operation.outputs[0].shape)
        for operation in graph.get_operations()
        if operation.type == "Cast" and operation.outputs[0].dtype == tf.bfloat16
    ]
    for shape in set(shapes):
        expected = shapes.count(shape) + (shape == (16, 16))  # the pooler's kernel
        assert casts.count(shape) == expected
    nodes = [node for part in graph.as_graph_def().library.function for node in part.node_def]
    assert not any(node.op == "ReadVariableOp" and "kernel" in node.input[0] for node in nodes)
