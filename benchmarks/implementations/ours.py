"""albert_tf: the training step and the model as the commands run them."""

from __future__ import annotations

import keras
import numpy as np
import tensorflow as tf

from albert_tf.config import AlbertConfig
from albert_tf.engines.device_options import DTYPE_POLICIES
from albert_tf.engines.tensorflow.batches import dataset
from albert_tf.engines.tensorflow.devices import TensorFlowDevices
from albert_tf.engines.tensorflow.engine import TensorFlowEngine
from albert_tf.input.examples import Features
from albert_tf.input.memory_batches import MemoryStream
from albert_tf.modeling.heads import AlbertForPreTraining, AlbertForSequenceClassification
from albert_tf.modeling.losses import ClassificationObjective, PretrainingObjective
from albert_tf.optimization import create_optimizer
from benchmarks.implementations.workload import Workload

# With dynamic padding, after which every length has been compiled.
_COMPILING_STEPS = 60


def prepare(workload: Workload, jit_compile: bool | None = None):
    """Return a function that runs a number of steps; `jit_compile` is that of `DeviceOptions`."""
    keras.utils.set_random_seed(0)
    config = AlbertConfig(**workload.config)
    engine = TensorFlowEngine(TensorFlowDevices(jit_compile=jit_compile))
    dtype, batches = DTYPE_POLICIES[workload.dtype], iter(_batches(workload))
    if workload.task == "pretraining":
        model, objective = AlbertForPreTraining(config, dtype=dtype), PretrainingObjective()
    else:
        model = AlbertForSequenceClassification(config, 2, 0.0, dtype=dtype)
        objective = ClassificationObjective()
    if workload.task == "inference":
        predict = engine.create_prediction_step(model, ("logits",))

        def infer(count: int) -> None:
            for _ in range(count):
                predict(batches)

        run = infer
    else:
        optimizer = create_optimizer("lamb" if workload.task == "pretraining" else "adamw", 1e-4)
        step = engine.create_training_step(model, optimizer, objective)

        def run(count: int) -> None:
            step(batches, count)

    if not workload.pad_to_max_length:
        run(_COMPILING_STEPS)
    return run


def _batches(workload: Workload) -> tf.data.Dataset:
    """Return endless batches."""
    if workload.sentences is None:
        batch = {**workload.batch(), "example_number": tf.range(workload.batch_size)}
        return tf.data.Dataset.from_tensors(batch).repeat()
    with np.load(workload.sentences) as file:
        features = Features.from_arrays(dict(file))
    length, size, pad = workload.length, workload.batch_size, workload.pad_to_max_length
    if workload.task == "inference":
        stream = MemoryStream(features, length, size, pad_to_max_length=pad)
        return dataset(stream).repeat()
    return dataset(MemoryStream(features, length, size, workload.seed, pad))
