"""Run by a test: a replica that goes its own way ends the training before anything is saved.

On two parts of the CPU, every evaluation moves one weight of the second part a little. Predictions
of both come in the order of the examples.
"""

import pathlib
import tempfile

import keras
import pytest
import tensorflow as tf

from albert_tf.engines.tensorflow.engine import TensorFlowEngine
from albert_tf.engines.tensorflow.step import TrainingStep
from albert_tf.errors import InputError
from albert_tf.modeling.heads import AlbertForSequenceClassification
from albert_tf.training.evaluation import PeriodicEvaluation
from tests.engines.tensorflow import replicas, worker_checks
from tests.support.pretraining import train_on
from tests.support.tiny import batch

STEPS = 6


def main() -> None:
    step = replicas.create_step(2, 1, remat=False, jit_compile=False)
    engine = TensorFlowEngine(step.devices)
    predictions(engine)
    initial = keras.tree.map_structure(lambda value: value.numpy(), step.tree)
    for every, noticed in ((2, 4), (4, STEPS), (STEPS + 1, None)):
        step.tree = initial  # on both replicas; traced once
        with tempfile.TemporaryDirectory() as folder:
            if noticed is None:
                train_with_drift(engine, step, folder, every)
                assert saved(folder) == [STEPS]
                step.check_replicas()
                continue
            with pytest.raises(InputError) as error:
                train_with_drift(engine, step, folder, every)
            message = f"after step {noticed}, replica 1 of 2 has other values than replica 0"
            assert str(error.value).startswith(message), str(error.value)
            assert saved(folder) == []


def train_with_drift(engine: TensorFlowEngine, step: TrainingStep, folder: str, every: int) -> None:
    weight = step.model.weights[0].value

    def drift() -> dict[str, float]:
        second = engine.devices.strategy.experimental_local_results(weight)[1]
        value = second.numpy()
        value.flat[0] += 0.001  # more than the rounding of an update
        second.assign(value)
        return {}

    evaluation = PeriodicEvaluation(engine.workers, drift, every, folder)
    train_on([batch(4)] * STEPS, engine, step, folder, evaluation)


def saved(folder: str) -> list[int]:
    return [int(path.stem.split("-")[1]) for path in pathlib.Path(folder).glob("*.index")]


def predictions(engine: TensorFlowEngine) -> None:
    keras.utils.set_random_seed(1)
    with engine.devices.scope():
        model = AlbertForSequenceClassification(replicas.ONE_LAYER, 3)
    worker_checks.predictions(engine, model)
    gather = engine.devices.strategy.gather

    def by_links(value, axis):
        """As among workers whose GPUs are linked in another order than they are numbered."""
        return tf.concat(tf.split(gather(value, axis), 2)[::-1], axis)

    engine.devices.strategy.gather = by_links
    worker_checks.predictions(engine, model)
    engine.devices.strategy.gather = gather
