"""Evaluation and prediction: a model without dropout, on batches spread over the replicas."""

from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from albert_tf.engines.steps import accepted_arguments
from albert_tf.engines.tensorflow.batches import errors_in_one_line
from albert_tf.engines.tensorflow.devices import TensorFlowDevices
from albert_tf.engines.tensorflow.step import gather_in_order, through_xla
from albert_tf.modeling.inputs import model_features
from albert_tf.modeling.losses import Objective


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
