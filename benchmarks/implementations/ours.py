"""albert_tf: the training step and the model as the commands run them."""

from __future__ import annotations

import keras
import tensorflow as tf

from albert_tf.config import AlbertConfig
from albert_tf.engines.device_options import DTYPE_POLICIES
from albert_tf.engines.tensorflow.step import PredictStep, TrainStep
from albert_tf.modeling.heads import AlbertForPreTraining, AlbertForSequenceClassification
from albert_tf.modeling.losses import ClassificationObjective, PretrainingObjective
from albert_tf.optimization import create_optimizer
from benchmarks.implementations.workload import Workload


def prepare(workload: Workload, jit_compile: bool | None = None):
    """Returns a function that runs a number of steps; `jit_compile` is that of `TrainStep`."""
    keras.utils.set_random_seed(0)
    config, strategy = AlbertConfig(**workload.config), tf.distribute.get_strategy()
    dtype, batch = DTYPE_POLICIES[workload.dtype], workload.batch()
    if workload.task == "pretraining":
        model, objective = AlbertForPreTraining(config, dtype=dtype), PretrainingObjective()
    else:
        model = AlbertForSequenceClassification(config, 2, 0.0, dtype=dtype)
        objective = ClassificationObjective()
    batch["example_number"] = tf.range(workload.batch_size)
    batches = iter(tf.data.Dataset.from_tensors(batch).repeat())
    if workload.task == "inference":
        predict = PredictStep(model, strategy, ("logits",), jit_compile)

        def infer(count: int) -> None:
            for _ in range(count):
                predict(batches)[1]["logits"].numpy()

        return infer
    optimizer = create_optimizer("lamb" if workload.task == "pretraining" else "adamw", 1e-4)
    step = TrainStep(model, optimizer, objective, strategy, jit_compile=jit_compile)
    return lambda count: step(batches, tf.constant(count))["parameter_norm"].numpy()
