"""One step is the same step, however it is split and however its layers are executed."""

import dataclasses
import functools
import json

import keras
import numpy as np
import pytest
import tensorflow as tf

from albert_tf.config import AlbertConfig
from albert_tf.engines.steps import StepOptions
from albert_tf.engines.tensorflow import step as step_module
from albert_tf.engines.tensorflow.batches import ending_at_once
from albert_tf.engines.tensorflow.cpu_kernels import CPU_KERNELS, copies_in_groups
from albert_tf.engines.tensorflow.devices import TensorFlowDevices
from albert_tf.engines.tensorflow.engine import EvaluationStep, PredictionStep
from albert_tf.engines.tensorflow.step import TrainingExecution, TrainingStep, clip_by_global_norm
from albert_tf.modeling.encoder import AlbertEncoder
from albert_tf.modeling.heads import AlbertForPreTraining
from albert_tf.modeling.kernels import rematerialize
from albert_tf.modeling.layers import SelfAttention
from albert_tf.modeling.losses import PretrainingObjective, means
from albert_tf.optimization import create_optimizer
from albert_tf.optimization.optimizers import Lamb
from albert_tf.optimization.schedules import WarmupPolynomialDecay
from tests.conftest import GOLDEN, slow
from tests.support.backends import variable
from tests.support.tiny import CONFIG, LENGTH, PREDICTIONS, WITHOUT_DROPOUT, batch

pytestmark = pytest.mark.integration

# Where the number of layers makes no difference: tracing them is what takes long.
ONE_LAYER = dataclasses.replace(CONFIG, num_hidden_layers=1)


def create_step(
    config=CONFIG, optimizer="lamb", learning_rate=0.01, jit_compile=None, **options
) -> TrainingStep:
    keras.utils.set_random_seed(7)
    return TrainingStep(
        AlbertForPreTraining(config),
        create_optimizer(optimizer, learning_rate),
        PretrainingObjective(),
        TensorFlowDevices(jit_compile=jit_compile),
        StepOptions(**options),
    )


def trained(step: TrainingStep, steps=3, count=4) -> np.ndarray:
    """Return weights after some steps on the same batches."""
    batches = [batch(count, seed=number) for number in range(steps)]
    stacked = {name: np.stack([b[name] for b in batches]) for name in batches[0]}
    step(iter(ending_at_once(tf.data.Dataset.from_tensor_slices(stacked))), steps)
    return np.concatenate([weight.numpy().ravel() for weight in step.model.weights])


@pytest.mark.parametrize("remat", [False, True])
def test_a_layer_is_traced_once_and_computed_again_if_asked_for(monkeypatch, remat):
    traced, again = [], []
    call = SelfAttention.call

    def counting(self, hidden, attention_mask, queries=None, seed=None, kernels=None):
        traced.append(queries.shape[1])
        return call(self, hidden, attention_mask, queries, seed, kernels)

    monkeypatch.setattr(SelfAttention, "call", counting)
    monkeypatch.setattr(
        step_module, "rematerialize", lambda call: again.append(call) or rematerialize(call)
    )
    step = create_step(dataclasses.replace(CONFIG, num_hidden_layers=3), remat=remat)
    forward = tf.function(step.model, autograph=False)
    forward.get_concrete_function(batch(4), heads_only=True, execution=step._execution)
    # In the last layer, only the masked positions and [CLS] attend.
    assert sorted(traced) == [1 + PREDICTIONS, LENGTH]
    assert len(again) == 3 * remat


@pytest.mark.slow
def test_micro_batches_go_on_where_memory_is_short():
    # TensorFlow takes it to be short on a CPU from some 200 MB on, and rewrites the graph.
    config = dataclasses.replace(WITHOUT_DROPOUT, intermediate_size=4096)
    step = create_step(config, "adamw", learning_rate=0.001, micro_batches=2)
    large = batch(512)
    batches = iter(ending_at_once(tf.data.Dataset.from_tensors(large).repeat()))
    losses = [step(batches, 2).history["loss"][-1] for _ in range(2)]
    assert losses[1] < losses[0]


@functools.cache
def step_graph(
    jit_compile: bool | None, micro_batches: int, is_large=False, optimizer="lamb"
) -> tf.compat.v1.GraphDef:
    """Return what a step with these settings is traced into; for several tests."""
    with pytest.MonkeyPatch.context() as patch:
        if is_large:
            patch.setattr(step_module, "_FUSED_FROM", 0)
        step = create_step(
            ONE_LAYER, optimizer, jit_compile=jit_compile, micro_batches=micro_batches
        )
    batches = iter(ending_at_once(tf.data.Dataset.from_tensors(batch(8)).repeat()))
    return step._steps.get_concrete_function(batches, tf.constant(1)).graph.as_graph_def()


def test_one_micro_batch_is_in_memory_at_a_time():
    graph = step_graph(None, 4)
    nodes = [*graph.node, *(node for part in graph.library.function for node in part.node_def)]
    loops = [node for node in nodes if node.op in ("While", "StatelessWhile")]
    assert [loop.attr["parallel_iterations"].i for loop in loops] == [1, 1]


@pytest.mark.parametrize(
    ("expected", "settings"),
    [
        *[((), (None, 4)), (("gradients", "update"), (True, 1))],
        *slow((("update",), (None, 1, True)), ((), (False, 1, True))),
        *slow(((), (None, 1, True, "muon"))),
    ],
)
def test_xla_compiles_what_it_is_asked_to_and_large_updates(expected, settings):
    graph = step_graph(*settings)
    compiled = [
        part.signature.name for part in graph.library.function if part.attr["_XlaMustCompile"].b
    ]
    for name in ("gradients", "update"):
        assert any(f"_{name}_" in function for function in compiled) == (name in expected)
    assert any("softmax_forward" in function for function in compiled) == (not settings[0])


@pytest.mark.slow
def test_xla_does_not_change_what_is_computed():
    model = AlbertForPreTraining(ONE_LAYER)
    examples = batch(6)
    plain, compiled = (
        EvaluationStep(model, PretrainingObjective(), TensorFlowDevices(jit_compile=jit_compile))(
            examples
        )
        for jit_compile in (False, True)
    )
    np.testing.assert_array_equal(plain[2]["masked_lm_ids"], compiled[2]["masked_lm_ids"])
    plain, compiled = plain[:2], compiled[:2]
    for one, other in zip(tf.nest.flatten(plain), tf.nest.flatten(compiled), strict=True):
        assert float(one) == pytest.approx(float(other), rel=1e-5)
    examples["example_number"] = np.arange(6)
    plain, compiled = (
        PredictionStep(
            model, ("sentence_order_logits",), TensorFlowDevices(jit_compile=jit_compile)
        )(iter(tf.data.Dataset.from_tensors(examples)))
        for jit_compile in (False, True)
    )
    for one, other in zip(tf.nest.flatten(plain), tf.nest.flatten(compiled), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-6)


@pytest.mark.slow
def test_dropout_is_drawn_from_the_seed_and_acts():
    step = create_step(ONE_LAYER, seed=5)
    start = keras.tree.map_structure(lambda value: value.numpy(), step.tree)
    first = trained(step, steps=3)
    seeds = step.model.encoder.seed_generator.state
    assert seeds.numpy()[0] == 5 + 2 * 1_000_003
    step.tree = start
    assert np.array_equal(first, trained(step))
    # The same but for the number of the first step, on which only dropout depends.
    step.tree = {**start, "step": 1}
    assert not np.array_equal(first, trained(step))


@pytest.mark.parametrize("clip", [0.0, 0.5, 100.0])
def test_clipping_is_by_the_norm_of_all_gradients(clip):
    gradients = [tf.constant([3.0, 0.0]), tf.constant([[4.0]])]
    clipped, norm = clip_by_global_norm(gradients, clip)
    assert float(norm) == pytest.approx(5.0)
    expected = 1.0 if clip in (0.0, 100.0) else clip / 5.0
    for gradient, before in zip(clipped, gradients, strict=True):
        np.testing.assert_allclose(gradient, before * expected, rtol=1e-6)


def test_filled_up_examples_count_for_nothing():
    model = AlbertForPreTraining(ONE_LAYER)
    step = EvaluationStep(model, PretrainingObjective(), TensorFlowDevices())
    examples = batch(6)
    real = step({**examples, "is_real_example": np.ones(6, "int32")})
    padded = {name: np.concatenate([v, v[:2]]) for name, v in examples.items()}
    filled = step({**padded, "is_real_example": np.array([1] * 6 + [0] * 2, "int32")})
    for one, other in zip(tf.nest.flatten(real[:2]), tf.nest.flatten(filled[:2]), strict=True):
        assert float(one) == pytest.approx(float(other), rel=1e-5)


def test_means_of_nothing_are_zero():
    assert means({"masked_lm_loss": 0.0}, {"masked_lm": 0.0}) == {"masked_lm_loss": 0.0}


def test_outputs_and_gradients_are_those_of_the_plain_layers():
    keras.utils.set_random_seed(0)
    # Two blocks that take turns, with two uses each.
    model = AlbertForPreTraining(dataclasses.replace(CONFIG, inner_group_num=2))
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

    execution = TrainingExecution(CPU_KERNELS, copies_in_groups, traced=True, remat=True)
    plain = outputs_and_gradients.python_function()  # takes less time than to trace it
    other = outputs_and_gradients(execution=execution)
    names = ["masked_lm_logits", "sentence_order_logits"]
    names += [weight.path for weight in model.trainable_weights]
    for path, one, two in zip(names, plain, other, strict=True):
        # Relative to the largest element, as sums over many elements are.
        scale = max(np.abs(one).max(), 1e-2)
        np.testing.assert_allclose(two / scale, one / scale, rtol=0, atol=5e-5, err_msg=path)


def test_matrices_are_cast_once_for_all_uses_of_a_layer():
    encoder = AlbertEncoder(CONFIG, dtype="mixed_bfloat16")
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


START = GOLDEN / "google_tf1_tiny"


def at_the_start(optimizer_name: str, settings: dict, micro_batches: int) -> TrainingStep:
    """Return a step with the original's initial weights."""
    config = AlbertConfig.from_json_file(str(START / "albert_config.json"))
    schedule = WarmupPolynomialDecay(
        settings["init_lr"], settings["num_train_steps"], settings["num_warmup_steps"]
    )
    options = {"micro_batches": micro_batches, "clip_norm": settings["clip_norm"]}
    step = create_step(config, optimizer_name, schedule, **options)
    variables = np.load(START / "variables.npz")
    for weight in step.model.weights:
        weight.assign(variables[weight.path])
    return step


@pytest.mark.parametrize(
    ("optimizer_name", "micro_batches", "is_large"),
    [("lamb", 1, False), *slow(("adamw", 2, False), ("lamb", 1, True), ("adamw", 2, True))],
)
def test_eight_steps_equal_the_originals(optimizer_name, micro_batches, is_large, monkeypatch):
    if is_large:
        monkeypatch.setattr(step_module, "_FUSED_FROM", 0)
    folder = GOLDEN / f"google_{optimizer_name}_tiny"
    settings = json.loads((folder / "run.json").read_text())
    step = at_the_start(optimizer_name, settings, micro_batches)
    batches = dict(np.load(folder / "batches.npz"))
    expected = dict(np.load(folder / "trajectory.npz"))
    iterator = iter(ending_at_once(tf.data.Dataset.from_tensor_slices(batches)))
    for number in range(settings["steps"]):
        results = step(iterator, 1)
        assert results.scalars["learning_rate"] == pytest.approx(
            expected["learning_rate"][number], 1e-6
        )
        assert results.scalars["gradient_norm"] == pytest.approx(
            expected["grad_global_norm"][number], 1e-5
        )
        loss = step.objective.loss(results.sums, results.weights)
        assert float(loss) == pytest.approx(expected["loss"][number], 1e-5)

    final, slots = np.load(folder / "final_variables.npz"), np.load(folder / "final_slots.npz")
    for weight, moment, variance in zip(
        step.model.weights, step.optimizer._moments, step.optimizer._variances, strict=True
    ):
        # Relative to the variable's own size: single values may be near zero.
        for actual, wanted in (
            (weight, final[weight.path]),
            (moment, slots[f"{weight.path}/adam_m"]),
            (variance, slots[f"{weight.path}/adam_v"]),
        ):
            tolerance = 1e-5 * max(np.abs(wanted).max(), 1e-3)
            np.testing.assert_allclose(
                actual.numpy(), wanted, rtol=1e-5, atol=tolerance, err_msg=actual.path
            )


def test_repeated_rows_of_a_sparse_gradient_are_added_up_first():
    value = np.ones((4, 2), "float32")
    sparse = tf.IndexedSlices(tf.constant([[1.0, 2.0], [3.0, 4.0]]), tf.constant([2, 2]), (4, 2))
    results = []
    for gradient in (sparse, tf.convert_to_tensor(sparse)):
        weight = variable("embedding", value)
        Lamb(0.1).apply([gradient], [weight])
        results.append(weight.numpy())
    np.testing.assert_allclose(results[0], results[1], rtol=1e-6)
