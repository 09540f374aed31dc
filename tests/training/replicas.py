"""Run by a test: the same steps on 1, 2 and 4 parts of the CPU end in the same weights."""

import dataclasses
import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import keras
import numpy as np
import tensorflow as tf

from albert_tf.modeling.heads import AlbertForPreTraining
from albert_tf.modeling.losses import PretrainingObjective
from albert_tf.optimization import create_optimizer
from albert_tf.training.options import DeviceOptions
from albert_tf.training.step import TrainStep
from albert_tf.training.strategy import create_strategy
from tests.tiny import CONFIG, batch

STEPS = 4


def main() -> None:
    tf.config.set_logical_device_configuration(
        tf.config.list_physical_devices("CPU")[0], [tf.config.LogicalDeviceConfiguration()] * 4
    )
    config = dataclasses.replace(CONFIG, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
    data = [batch(8, seed=number) for number in range(STEPS)]
    stacked = {name: np.concatenate([b[name] for b in data]) for name in data[0]}
    results = []
    for replicas, micro_batches, remat in (
        (1, 1, False),
        (2, 1, False),
        (2, 2, True),
        (4, 1, False),
    ):
        strategy = create_strategy(DeviceOptions(strategy="mirrored", num_replicas=replicas))
        assert strategy.num_replicas_in_sync == replicas
        keras.utils.set_random_seed(7)
        with strategy.scope():
            model = AlbertForPreTraining(config)
            optimizer = create_optimizer("lamb", 0.01)
        step = TrainStep(
            model,
            optimizer,
            PretrainingObjective(),
            strategy,
            micro_batches=micro_batches,
            remat=remat,
        )
        dataset = tf.data.Dataset.from_tensor_slices(stacked).batch(8)
        iterator = iter(strategy.experimental_distribute_dataset(dataset))
        step(iterator, tf.constant(STEPS))
        for weight in model.weights:  # every replica holds the same
            first, *others = strategy.experimental_local_results(weight.value)
            for other in others:
                np.testing.assert_array_equal(first.numpy(), other.numpy())
        results.append(np.concatenate([weight.numpy().ravel() for weight in model.weights]))
    for result in results[1:]:
        np.testing.assert_allclose(result, results[0], rtol=0, atol=1e-5)


if __name__ == "__main__":
    main()
