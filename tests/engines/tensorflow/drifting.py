"""Run by a test: a replica that goes its own way ends the training before anything is saved.

On two parts of the CPU, every evaluation moves one weight of the second part a little. Predictions
of both come in the order of the examples.
"""

import os
import pathlib
import tempfile

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import keras
import numpy as np
import pytest
import tensorflow as tf

from albert_tf.engines.tensorflow.batches import evaluation_batches
from albert_tf.engines.tensorflow.checkpoints import Checkpoints
from albert_tf.engines.tensorflow.iterators import ending_at_once
from albert_tf.engines.tensorflow.replicas import check_replicas
from albert_tf.engines.tensorflow.step import PredictStep, TrainStep
from albert_tf.engines.tensorflow.strategy import create_strategy
from albert_tf.errors import InputError
from albert_tf.modeling.heads import AlbertForPreTraining, AlbertForSequenceClassification
from albert_tf.modeling.losses import PretrainingObjective
from albert_tf.optimization import create_optimizer
from albert_tf.training.evaluation import PeriodicEvaluation
from albert_tf.training.health import Health, Workload
from albert_tf.training.loop import predict, train
from albert_tf.training.options import DeviceOptions
from tests.tiny import CONFIG, LENGTH, batch, in_memory

STEPS = 6


def main() -> None:
    strategy = create_strategy(DeviceOptions(strategy="mirrored", num_replicas=2))
    examples = tf.data.Dataset.from_tensor_slices(batch(4)).repeat()
    examples = ending_at_once(examples.batch(4, drop_remainder=True))
    predictions(strategy)
    for every, noticed in ((2, 4), (4, STEPS), (STEPS + 1, None)):
        with strategy.scope():
            model = AlbertForPreTraining(CONFIG)
            optimizer = create_optimizer("lamb", 0.01)
        step = TrainStep(model, optimizer, PretrainingObjective(), strategy)
        with tempfile.TemporaryDirectory() as folder:
            if noticed is None:
                go(step, examples, folder, every)
                assert saved(folder) == [STEPS]
                check_replicas(strategy, step.variables, STEPS)
                continue
            with pytest.raises(InputError) as error:
                go(step, examples, folder, every)
            message = f"after step {noticed}, replica 1 of 2 has other values than replica 0"
            assert str(error.value).startswith(message), str(error.value)
            assert saved(folder) == []


def go(step: TrainStep, examples: tf.data.Dataset, folder: str, every: int) -> None:
    weight = step.model.weights[0].value

    def drift() -> dict[str, float]:
        second = step.strategy.experimental_local_results(weight)[1]
        value = second.numpy()
        value.flat[0] += 0.001  # more than the rounding of an update
        second.assign(value)
        return {}

    train(
        step,
        lambda first: examples,
        Checkpoints(folder, step.model, step.optimizer),
        folder,
        Health(step.objective, max_nonfinite_steps=10, what_to_try=""),
        Workload(batch_size=4, tokens_per_example=LENGTH, flops_per_example=1.0),
        num_train_steps=STEPS,
        save_checkpoints_steps=STEPS,
        iterations_per_loop=STEPS,
        evaluation=PeriodicEvaluation(drift, every, folder),
    )


def saved(folder: str) -> list[int]:
    return [int(path.stem.split("-")[1]) for path in pathlib.Path(folder).glob("*.index")]


def predictions(strategy: tf.distribute.Strategy) -> None:
    keras.utils.set_random_seed(1)
    with strategy.scope():
        model = AlbertForSequenceClassification(CONFIG, 3)
    examples = batch(13)
    step = PredictStep(model, strategy, ["logits"])
    expected = model({name: tf.constant(value) for name, value in examples.items()})["logits"]
    logits = predict(step, evaluation_batches(in_memory(examples), LENGTH, 4))["logits"]
    np.testing.assert_allclose(logits, expected, rtol=0, atol=1e-5)
    gather = strategy.gather

    def by_links(value, axis):
        """As among workers whose GPUs are linked in another order than they are numbered."""
        return tf.concat(tf.split(gather(value, axis), 2)[::-1], axis)

    strategy.gather = by_links
    logits = predict(step, evaluation_batches(in_memory(examples), LENGTH, 4))["logits"]
    np.testing.assert_allclose(logits, expected, rtol=0, atol=1e-5)
    strategy.gather = gather
    assert len(np.unique(logits, axis=0)) == len(logits)  # so that another order would show


if __name__ == "__main__":
    main()
