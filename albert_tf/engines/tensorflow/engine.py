"""The TensorFlow engine: `tf.distribute` strategies over CPUs, GPUs, TPUs and several machines."""

from collections.abc import Iterator

import keras
import tensorflow as tf

from albert_tf.engines.base import Engine
from albert_tf.engines.device_options import DeviceOptions
from albert_tf.engines.tensorflow.batches import BatchIterator, dataset
from albert_tf.engines.tensorflow.devices import TensorFlowDevices, create_devices
from albert_tf.engines.tensorflow.forward import EvaluationStep, PredictionStep
from albert_tf.engines.tensorflow.step import TrainingStep
from albert_tf.input.memory_batches import MemoryStream
from albert_tf.input.record_batches import RecordStream
from albert_tf.input.streams import BatchStream, Shard

# A pipeline takes longer to create than so many batches to make.
_FEW_BATCHES = 4


class TensorFlowEngine(Engine):
    """TensorFlow on the devices of a strategy."""

    name = "tensorflow"
    devices: TensorFlowDevices
    training_step = TrainingStep
    evaluation_step = EvaluationStep
    prediction_step = PredictionStep

    @classmethod
    def create(cls, options: DeviceOptions) -> "TensorFlowEngine":
        return cls(create_devices(options))

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
