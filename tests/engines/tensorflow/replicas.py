"""Run by a test: the same steps on 1 and 2 parts of the CPU end in the same weights.

The same holds with 1, 2 or 4 micro-batches on each, where XLA compiles layers that are computed
again, and when a run is resumed with another number of parts. Masks and lengths are uneven: whole
micro-batches have almost none. One of the steps is not finite on one replica; all skip it.
"""

import dataclasses
import tempfile

import keras
import numpy as np

from albert_tf.engines.device_options import DeviceOptions
from albert_tf.engines.steps import StepOptions
from albert_tf.engines.tensorflow.engine import TensorFlowEngine
from albert_tf.engines.tensorflow.step import TrainingStep
from albert_tf.modeling.heads import AlbertForPreTraining
from albert_tf.modeling.losses import PretrainingObjective
from albert_tf.optimization import create_optimizer
from tests.support.batches import ListStream
from tests.support.pretraining import train_on
from tests.support.tiny import PREDICTIONS, WITHOUT_DROPOUT, batch

STEPS, BATCH = 9, 16

# Replicas, micro-batches on each, whether layers are computed again, and whether XLA compiles it.
SPLITS = ((1, 1, False, False), (2, 2, False, False), (1, 4, True, True))
# Tracing and compiling more layers is what takes long; `test_step.py` has more.
ONE_LAYER = dataclasses.replace(WITHOUT_DROPOUT, num_hidden_layers=1)


def main() -> None:
    data = uneven_data()
    steps = [create_step(*split) for split in SPLITS]
    initial = keras.tree.map_structure(lambda value: value.numpy(), steps[0].tree)
    results = []
    for step in steps:
        batches = TensorFlowEngine(step.devices).iterate(ListStream(data))
        history = step(batches, STEPS).history
        assert history["finite"].tolist() == [1, 0] + [1] * (STEPS - 2)
        results.append(final_values(step))
    results.append(final_values(resumed([steps[number] for number in (0, 1, 0)], initial, data)))
    assert all(np.isfinite(values).all() for values in results[0])
    for result in results[1:]:
        for values, expected in zip(result, results[0], strict=True):
            # Second moments are so small that a fixed limit would let anything pass.
            limit = 1e-5 * min(1.0, np.abs(expected).max())
            np.testing.assert_allclose(values, expected, rtol=0, atol=limit)


def uneven_data() -> list[dict[str, np.ndarray]]:
    """Return batches in which no two shares weigh the same, as the end of a corpus makes them."""
    data = [batch(BATCH, seed=number) for number in range(STEPS)]
    for number, examples in enumerate(data):
        # The last of a document is a few tokens and padding; some shares have no other examples.
        for row in range(BATCH // 4 * (number % 4), BATCH // 4 * (number % 4 + 1)):
            shorten(examples, row, length=4, predictions=row % 2)
    data[1]["masked_lm_weights"][0] = np.nan  # in the share of one replica only
    return data


def shorten(examples: dict[str, np.ndarray], row: int, length: int, predictions: int) -> None:
    """Make an example of so many tokens and predictions of one that has more."""
    for name in ("input_ids", "input_mask", "segment_ids", "token_boundary"):
        examples[name][row, length:] = 0
    examples["masked_lm_positions"][row] %= length
    for name in ("masked_lm_positions", "masked_lm_ids", "masked_lm_weights"):
        examples[name][row, predictions:] = 0
    assert predictions <= PREDICTIONS


def create_step(replicas: int, micro_batches: int, remat: bool, jit_compile: bool) -> TrainingStep:
    options = DeviceOptions(strategy="mirrored", num_replicas=replicas, jit_compile=jit_compile)
    engine = TensorFlowEngine.create(options)
    assert engine.devices.num_replicas == replicas
    keras.utils.set_random_seed(7)
    with engine.devices.scope():
        model = AlbertForPreTraining(ONE_LAYER)
        optimizer = create_optimizer("lamb", 0.01)
    return engine.training_step(
        model,
        optimizer,
        PretrainingObjective(),
        engine.devices,
        StepOptions(micro_batches=micro_batches, remat=remat),
    )


def final_values(step: TrainingStep) -> list[np.ndarray]:
    """Return weights, first moments and second moments, which every replica has alike."""
    moments = step.optimizer.variables[2:]
    kinds = step.model.weights, moments[::2], moments[1::2]
    for weight in [weight for kind in kinds for weight in kind]:
        first, *others = step.strategy.experimental_local_results(weight.value)
        for other in others:
            np.testing.assert_array_equal(first.numpy(), other.numpy())
    return [np.concatenate([v.numpy().ravel() for v in variables]) for variables in kinds]


def resumed(steps: list[TrainingStep], initial: dict, data: list[dict]) -> TrainingStep:
    """Train with one step after the other, from the initial values on; return the last step.

    All have been trained: what a process starts from must not matter once there is a checkpoint.
    """
    steps[0].tree = initial
    with tempfile.TemporaryDirectory() as folder:
        for number, step in enumerate(steps, 1):
            engine = TensorFlowEngine(step.devices)
            until = STEPS * number // len(steps)
            assert train_on(data, engine, step, folder, num_train_steps=until) == (number > 1)
    assert step.step == STEPS
    return step
