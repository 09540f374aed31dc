"""The TensorFlow engine: `tf.distribute` strategies over CPUs, GPUs, TPUs and several machines."""

from __future__ import annotations

from collections.abc import Iterator

import keras
import tensorflow as tf

from albert_tf.engines.base import Engine, Parts
from albert_tf.engines.tensorflow.batches import dataset
from albert_tf.engines.tensorflow.checkpoints import Checkpoints
from albert_tf.engines.tensorflow.devices import TensorFlowDevices, create_devices
from albert_tf.engines.tensorflow.forward import EvaluationStep, PredictionStep
from albert_tf.engines.tensorflow.reading import BatchIterator
from albert_tf.engines.tensorflow.step import TrainingStep
from albert_tf.input.record_batches import RecordStream
from albert_tf.input.streams import BatchStream, Shard


class TensorFlowEngine(Engine):
    """TensorFlow on the devices of a strategy."""

    name = "tensorflow"
    devices: TensorFlowDevices
    parts = Parts(create_devices, TrainingStep, EvaluationStep, PredictionStep, Checkpoints)

    def set_random_seed(self, seed: int) -> None:
        keras.utils.set_random_seed(seed)

    def iterate(self, stream: BatchStream, first_step: int = 0) -> Iterator:
        def pipeline(context: tf.distribute.InputContext) -> tf.data.Dataset:
            shard = Shard(context.input_pipeline_id, context.num_input_pipelines)
            replicas = context.num_replicas_in_sync // shard.count
            return dataset(stream, first_step, shard, replicas, self.devices.makes_batches_locally)

        distributed = iter(self.devices.strategy.distribute_datasets_from_function(pipeline))
        return BatchIterator(
            distributed, stream.index if isinstance(stream, RecordStream) else None
        )
