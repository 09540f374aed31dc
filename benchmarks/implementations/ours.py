"""albert_tf: the training step and the model as the commands run them."""

from __future__ import annotations

import keras
import numpy as np
import tensorflow as tf

from albert_tf.config import AlbertConfig
from albert_tf.engines.device_options import DTYPE_POLICIES
from albert_tf.engines.tensorflow.batches import dataset
from albert_tf.engines.tensorflow.step import PredictStep, TrainStep
from albert_tf.input.examples import Features
from albert_tf.input.memory_batches import MemoryStream
from albert_tf.modeling.heads import AlbertForPreTraining, AlbertForSequenceClassification
from albert_tf.modeling.losses import ClassificationObjective, PretrainingObjective
from albert_tf.optimization import create_optimizer
from benchmarks.implementations.workload import Workload

# With dynamic padding, after which every length has been compiled.
_COMPILING_STEPS = 60


def prepare(workload: Workload, jit_compile: bool | None = None):
    """Returns a function that runs a number of steps; `jit_compile` is that of `TrainStep`."""
    keras.utils.set_random_seed(0)
    config, strategy = AlbertConfig(**workload.config), tf.distribute.get_strategy()
    dtype, batches = DTYPE_POLICIES[workload.dtype], iter(_batches(workload))
    if workload.task == "pretraining":
        model, objective = AlbertForPreTraining(config, dtype=dtype), PretrainingObjective()
    else:
        model = AlbertForSequenceClassification(config, 2, 0.0, dtype=dtype)
        objective = ClassificationObjective()
    if workload.task == "inference":
        predict = PredictStep(model, strategy, ("logits",), jit_compile)

        def infer(count: int) -> None:
            for _ in range(count):
                predict(batches)[1]["logits"].numpy()

        run = infer
    else:
        optimizer = create_optimizer("lamb" if workload.task == "pretraining" else "adamw", 1e-4)
        step = TrainStep(model, optimizer, objective, strategy, jit_compile=jit_compile)

        def run(count: int) -> None:
            step(batches, tf.constant(count))["parameter_norm"].numpy()

    if not workload.pad_to_max_length:
        run(_COMPILING_STEPS)
    return run


def _batches(workload: Workload) -> tf.data.Dataset:
    """Endless batches."""
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
