"""Evaluation and prediction: a model without dropout, on batches split over the devices."""

from __future__ import annotations

import abc
from collections.abc import Sequence
from typing import Any, ClassVar

import jax
import keras
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from albert_tf.engines.jax.devices import DATA
from albert_tf.engines.jax.step import REPLICATED, SPLIT, Batch, Values, place
from albert_tf.engines.steps import accepted_arguments
from albert_tf.modeling.execution import Execution
from albert_tf.modeling.inputs import model_features
from albert_tf.modeling.losses import Objective


class ForwardStep(abc.ABC):
    """Runs a model on global batches, compiled for every length of them.

    Args:
        model: the model, whose current weights are used.
        mesh: the devices, along the axis `DATA`.
        execution: how the model's layers are executed.
    """

    # Of the results of the devices: `SPLIT`, or `REPLICATED` where all have the same.
    _results_on_devices: ClassVar[PartitionSpec]

    def __init__(self, model: keras.Model, mesh: Mesh, execution: Execution):
        self.model = model
        self.mesh = mesh
        self._execution = execution
        self._replicated = NamedSharding(mesh, REPLICATED)
        # In the end, every process has all of the results.
        self._run = jax.jit(self._on_all_devices, out_shardings=self._replicated)

    def __call__(self, batch: Batch) -> Any:
        """The results for a global batch, as arrays on the devices."""
        params = {v.path: place(v, self._replicated) for v in self.model.weights}
        return self._run(params, batch)

    def _on_all_devices(self, params: Values, batch: Batch) -> Any:
        local = jax.shard_map(
            self._on_one_device,
            mesh=self.mesh,
            in_specs=(REPLICATED, SPLIT),
            out_specs=self._results_on_devices,
            check_vma=False,
        )
        return local(params, batch)

    def _on_one_device(self, params: Values, batch: Batch) -> Any:
        mapping = [(weight, params[weight.path]) for weight in self.model.weights]
        how = accepted_arguments(self.model.call, heads_only=True, execution=self._execution)
        with keras.StatelessScope(state_mapping=mapping):
            outputs = self.model(model_features(self.model, batch), training=False, **how)
            return self._results(outputs, batch)

    @abc.abstractmethod
    def _results(self, outputs: dict[str, jax.Array], batch: Batch) -> Any:
        """The results of a device, from the model's outputs for its share of the batch."""


class EvalStep(ForwardStep):
    """Sums and weights of an objective over a global batch.

    Args:
        model, mesh, execution: as in `ForwardStep`.
        objective: what is summed up.
    """

    _results_on_devices = REPLICATED

    def __init__(self, model: keras.Model, objective: Objective, mesh: Mesh, execution: Execution):
        super().__init__(model, mesh, execution)
        self.objective = objective

    def _results(self, outputs, batch):
        results = {
            "sums": self.objective.sums(outputs, batch),
            "weights": self.objective.weights(batch),
        }
        return jax.lax.psum(results, DATA)


class PredictStep(ForwardStep):
    """`example_number` and some outputs of a model, `[batch, ...]`.

    Args:
        model, mesh, execution: as in `ForwardStep`.
        outputs: names of the model's outputs that are returned.
    """

    _results_on_devices = SPLIT

    def __init__(
        self, model: keras.Model, outputs: Sequence[str], mesh: Mesh, execution: Execution
    ):
        super().__init__(model, mesh, execution)
        self.outputs = tuple(outputs)

    def _results(self, outputs, batch):
        return batch["example_number"], {name: outputs[name] for name in self.outputs}
