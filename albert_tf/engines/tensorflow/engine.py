"""The TensorFlow engine: `tf.distribute` strategies over CPUs, GPUs, TPUs and several machines.

Here are its evaluation and prediction steps, which run a model without dropout.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from albert_tf.engines.base import Engine
from albert_tf.engines.steps import accepted_arguments
from albert_tf.engines.tensorflow.batches import BatchIterator, dataset, errors_in_one_line
from albert_tf.engines.tensorflow.devices import TensorFlowDevices, create_devices
from albert_tf.engines.tensorflow.step import TrainingStep, gather_in_order, through_xla
from albert_tf.input.examples import MemoryStream
from albert_tf.input.record_batches import RecordStream
from albert_tf.input.streams import BatchStream, Shard
from albert_tf.modeling.losses import Objective
from albert_tf.modeling.model import model_features


def _outputs(model: keras.Model, batch) -> dict[str, tf.Tensor]:
    heads_only = accepted_arguments(model.call, heads_only=True)
    return model(model_features(model, batch), training=False, **heads_only)


class EvaluationStep:
    """Sums, weights and predictions of an objective on a global batch."""

    def __init__(self, model: keras.Model, objective: Objective, devices: TensorFlowDevices):
        strategy = devices.strategy

        def results(batch):
            outputs = _outputs(model, batch)
            sums, weights = objective.sums(outputs, batch), objective.weights(batch)
            return sums, weights, objective.predictions(outputs)

        compiled = through_xla(results, devices.needs_xla)

        @tf.function(reduce_retracing=True, autograph=False)
        def of_all(batch):
            sums, weights, predictions = strategy.run(compiled, args=(batch,))
            totals = tf.nest.map_structure(
                lambda value: strategy.reduce(tf.distribute.ReduceOp.SUM, value, axis=None),
                (sums, weights),
            )
            gathered = {name: gather_in_order(strategy, v) for name, v in predictions.items()}
            return (*totals, gathered)

        self._of_all = of_all

    def __call__(
        self, batch: Any
    ) -> tuple[dict[str, float], dict[str, float], dict[str, np.ndarray]]:
        with errors_in_one_line("evaluation"):
            sums, weights, predictions = self._of_all(batch)
        numbers = tf.nest.map_structure(lambda value: float(value.numpy()), (sums, weights))
        return (*numbers, {name: value.numpy() for name, value in predictions.items()})


class PredictionStep:
    """`example_number` and some outputs of a model, for batches of any sequence length."""

    def __init__(self, model: keras.Model, names: Sequence[str], devices: TensorFlowDevices):
        strategy = devices.strategy

        def results(batch):
            outputs = _outputs(model, batch)
            return {name: outputs[name] for name in names}

        compiled = through_xla(results, devices.needs_xla)

        def of_replica(batch):
            return batch["example_number"], compiled(batch)

        @tf.function(autograph=False)
        def of_all(batch):
            numbers, outputs = strategy.run(of_replica, args=(batch,))
            gathered = {name: gather_in_order(strategy, each) for name, each in outputs.items()}
            return gather_in_order(strategy, numbers), gathered

        self._of_all = of_all

    def __call__(self, batches: Any) -> tuple[np.ndarray, dict[str, np.ndarray]]:
        batch = next(batches)
        with errors_in_one_line("prediction"):
            results = self._of_all.get_concrete_function(batches.element_spec)(batch)
        return tf.nest.map_structure(lambda value: value.numpy(), results)


# A pipeline takes longer to create than so many batches to make.
_FEW_BATCHES = 4


class TensorFlowEngine(Engine):
    """TensorFlow on the devices of a strategy."""

    name = "tensorflow"
    devices: TensorFlowDevices
    training_step = TrainingStep
    evaluation_step = EvaluationStep
    prediction_step = PredictionStep
    create_devices = staticmethod(create_devices)

    def set_random_seed(self, seed: int) -> None:
        keras.utils.set_random_seed(seed)

    def iterate(self, stream: BatchStream, first_step: int = 0) -> Iterator:
        one_device = isinstance(self.devices.strategy, tf.distribute.OneDeviceStrategy)
        if one_device and isinstance(stream, MemoryStream):
            source = stream.batches()
            steps = range(first_step, len(source))
            if len(steps) <= _FEW_BATCHES:
                spec = {name: tf.TensorSpec(*each) for name, each in source.element_spec.items()}
                return BatchIterator((source[step] for step in steps), element_spec=spec)

        def pipeline(context: tf.distribute.InputContext) -> tf.data.Dataset:
            shard = Shard(context.input_pipeline_id, context.num_input_pipelines)
            replicas = context.num_replicas_in_sync // shard.count
            return dataset(stream, first_step, shard, replicas, self.devices.makes_batches_locally)

        distributed = iter(self.devices.strategy.distribute_datasets_from_function(pipeline))
        return BatchIterator(distributed, stream if isinstance(stream, RecordStream) else None)
