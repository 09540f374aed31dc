"""The JAX engine: one compiled program over the CPUs, GPUs or TPUs of all processes.

Here are its evaluation and prediction steps, which run a model without dropout, and its input.
"""

import collections
import contextlib
import functools
import os
import random
from collections.abc import Callable, Generator, Iterator, Sequence
from typing import Any

import grain
import jax
import keras
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec

from albert_tf.engines.base import Engine
from albert_tf.engines.jax.devices import DATA, JaxDevices, create_devices
from albert_tf.engines.jax.step import (
    REPLICATED,
    SPLIT,
    Batch,
    TrainingStep,
    Values,
    create_execution,
    errors_in_one_line,
    place,
)
from albert_tf.engines.steps import accepted_arguments
from albert_tf.input.streams import BatchSource, BatchStream, Shard
from albert_tf.modeling.losses import Objective
from albert_tf.modeling.model import model_features


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

        super().__init__(model, devices, "evaluation", results, (REPLICATED, REPLICATED, SPLIT))

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


# More threads than this fight for the lock of the interpreter.
_MOST_THREADS = 16
# Batches beyond those that threads work on: enough for a step that takes less time than others.
_READY = 4


def prefetched(source: BatchSource, first: int = 0) -> Generator[dict[str, np.ndarray], None, None]:
    """Yield the batches of a source from one on, in order, which threads of grain prepare ahead.

    The threads start with the first batch. They end, after what they are working on, with the
    iterator: at its end, after an error of the source, or when it is closed or dropped.
    """
    threads = min(os.cpu_count() or 1, _MOST_THREADS)
    options = grain.ReadOptions(num_threads=threads, prefetch_buffer_size=threads + _READY)
    iterator = iter(grain.MapDataset.source(source).to_iter_dataset(options))
    iterator.set_state({"next_index": min(first, len(source))})
    with contextlib.closing(iterator):
        yield from iterator


class JaxEngine(Engine):
    """JAX on the devices of a mesh."""

    name = "jax"
    checks_lengths = True
    devices: JaxDevices
    training_step = TrainingStep
    evaluation_step = EvaluationStep
    prediction_step = PredictionStep
    create_devices = staticmethod(create_devices)

    def set_random_seed(self, seed: int) -> None:
        # Initializers take their seeds from here. `keras.utils.set_random_seed` does the same, and
        # imports TensorFlow wherever it is installed.
        random.seed(seed)
        np.random.seed(seed % 2**32)

    def iterate(self, stream: BatchStream, first_step: int = 0) -> Iterator:
        """Yield global batches, each copied to the devices while the one before is computed."""
        source = stream.batches(Shard(self.workers.index, self.workers.count))
        sharding = NamedSharding(self.devices.mesh, SPLIT)
        copy = functools.partial(jax.make_array_from_process_local_data, sharding)
        waiting: collections.deque = collections.deque()
        with contextlib.closing(prefetched(source, first_step)) as batches:
            for rows in batches:
                waiting.append(jax.tree.map(copy, rows))
                if len(waiting) > 1:
                    yield waiting.popleft()
        yield from waiting
