"""Evaluation and prediction: a model without dropout, on batches split over the devices."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import keras
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec

from albert_tf.engines.jax.devices import DATA, JaxDevices
from albert_tf.engines.jax.step import (
    REPLICATED,
    SPLIT,
    Batch,
    Values,
    create_execution,
    errors_in_one_line,
    place,
)
from albert_tf.engines.steps import accepted_arguments
from albert_tf.modeling.inputs import model_features
from albert_tf.modeling.losses import Objective


class _ForwardStep:
    """Runs a model with its current weights on global batches, compiled for every length of them.

    `results` returns those of a device, from the model's outputs for its share of a batch and this
    share. They, or the parts of their tuple, are `on_devices` as `SPLIT`, or as `REPLICATED` where
    all have the same. Errors name the `kind` of step.
    """

    def __init__(
        self,
        model: keras.Model,
        devices: JaxDevices,
        kind: str,
        results: Callable[[dict[str, jax.Array], Batch], Any],
        on_devices: PartitionSpec | tuple[PartitionSpec, ...],
    ):
        self._model, self._devices, self._kind = model, devices, kind
        self._replicated = NamedSharding(devices.mesh, REPLICATED)
        execution = create_execution(devices)
        accepted = accepted_arguments(model.call, heads_only=True, execution=execution)

        def on_one_device(params: Values, batch: Batch) -> Any:
            mapping = [(weight, params[weight.path]) for weight in model.weights]
            with keras.StatelessScope(state_mapping=mapping):
                outputs = model(model_features(model, batch), training=False, **accepted)
                return results(outputs, batch)

        on_all = jax.shard_map(
            on_one_device,
            mesh=devices.mesh,
            in_specs=(REPLICATED, SPLIT),
            out_specs=on_devices,
            check_vma=False,
        )
        # In the end, every process has all of the results.
        self._run = jax.jit(on_all, out_shardings=self._replicated)

    def _results(self, batch: Batch) -> Any:
        """Return the results for a global batch, as arrays on the host."""
        params = {v.path: place(v, self._replicated) for v in self._model.weights}
        with errors_in_one_line(self._kind, self._devices.workers):
            return jax.device_get(self._run(params, batch))


class EvaluationStep(_ForwardStep):
    """Sums, weights and predictions of an objective on a global batch."""

    def __init__(self, model: keras.Model, objective: Objective, devices: JaxDevices):
        def results(outputs, batch):
            sums, weights = objective.sums(outputs, batch), objective.weights(batch)
            return (*jax.lax.psum((sums, weights), DATA), objective.predictions(outputs))

        on_devices = (REPLICATED, REPLICATED, SPLIT)
        super().__init__(model, devices, "evaluation", results, on_devices)

    def __call__(
        self, batch: Batch
    ) -> tuple[dict[str, float], dict[str, float], dict[str, np.ndarray]]:
        sums, weights, predictions = self._results(batch)
        return (*jax.tree.map(float, (sums, weights)), predictions)


class PredictionStep(_ForwardStep):
    """`example_number` and some outputs of a model, `[batch, ...]`."""

    def __init__(self, model: keras.Model, names: Sequence[str], devices: JaxDevices):
        def results(outputs, batch):
            return batch["example_number"], {name: outputs[name] for name in names}

        super().__init__(model, devices, "prediction", results, SPLIT)

    def __call__(self, batches: Iterator) -> tuple[np.ndarray, dict[str, np.ndarray]]:
        return self._results(next(batches))
