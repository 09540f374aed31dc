"""albert_tf: the training step and the model as the commands run them."""

import keras
import tensorflow as tf

from albert_tf.config import AlbertConfig
from albert_tf.engines.device_options import DTYPE_POLICIES
from albert_tf.engines.tensorflow.devices import TensorFlowDevices
from albert_tf.engines.tensorflow.engine import TensorFlowEngine
from albert_tf.modeling.heads import AlbertForPreTraining, AlbertForSequenceClassification
from albert_tf.modeling.losses import ClassificationObjective, PretrainingObjective
from albert_tf.optimization import create_optimizer
from benchmarks.implementations.workload import Workload


def prepare(workload: Workload, jit_compile: bool | None = None):
    """Return a function that runs a number of steps; `jit_compile` is that of `DeviceOptions`."""
    keras.utils.set_random_seed(0)
    config = AlbertConfig(**workload.config)
    engine = TensorFlowEngine(TensorFlowDevices(jit_compile=jit_compile))
    batch = {**workload.batch(), "example_number": tf.range(workload.batch_size)}
    batches = iter(tf.data.Dataset.from_tensors(batch).repeat())
    dtype = DTYPE_POLICIES[workload.dtype]
    if workload.task == "pretraining":
        model, objective = AlbertForPreTraining(config, dtype=dtype), PretrainingObjective()
    else:
        model = AlbertForSequenceClassification(config, 2, 0.0, dtype=dtype)
        objective = ClassificationObjective()
    if workload.task == "inference":
        predict = engine.prediction_step(model, ("logits",), engine.devices)

        def infer(count: int) -> None:
            for _ in range(count):
                predict(batches)

        return infer
    optimizer = create_optimizer("lamb" if workload.task == "pretraining" else "adamw", 1e-4)
    step = engine.training_step(model, optimizer, objective, engine.devices)
    return lambda count: step(batches, count)
