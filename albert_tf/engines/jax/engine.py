"""The JAX engine: one compiled program over the CPUs, GPUs or TPUs of all processes."""

from __future__ import annotations

import collections
import random
from collections.abc import Iterator

import jax
import numpy as np
from jax.sharding import NamedSharding

from albert_tf.engines.base import Engine
from albert_tf.engines.device_options import DeviceOptions
from albert_tf.engines.jax.batches import PrefetchedBatches
from albert_tf.engines.jax.checkpoints import Checkpoints
from albert_tf.engines.jax.devices import JaxDevices, create_devices
from albert_tf.engines.jax.forward import EvaluationStep, PredictionStep
from albert_tf.engines.jax.step import SPLIT, TrainingStep
from albert_tf.input.streams import BatchStream, Shard


class JaxEngine(Engine):
    """JAX on the devices of a mesh."""

    name = "jax"
    checks_lengths = True
    devices: JaxDevices
    training_step = TrainingStep
    evaluation_step = EvaluationStep
    prediction_step = PredictionStep
    checkpoints = Checkpoints

    @classmethod
    def create(cls, options: DeviceOptions) -> JaxEngine:
        return cls(create_devices(options))

    def set_random_seed(self, seed: int) -> None:
        # Initializers take their seeds from here. `keras.utils.set_random_seed` does the same, and
        # imports TensorFlow wherever it is installed.
        random.seed(seed)
        np.random.seed(seed % 2**32)

    def iterate(self, stream: BatchStream, first_step: int = 0) -> Iterator:
        """Yield global batches, each copied to the devices while the one before is computed."""
        source = stream.batches(Shard(self.workers.index, self.workers.count))
        sharding = NamedSharding(self.devices.mesh, SPLIT)

        def copy(rows: dict[str, np.ndarray]) -> dict[str, jax.Array]:
            return {
                name: jax.make_array_from_process_local_data(sharding, value)
                for name, value in rows.items()
            }

        with PrefetchedBatches(source, first_step) as iterator:
            waiting: collections.deque = collections.deque()
            for rows in iterator:
                waiting.append(copy(rows))
                if len(waiting) > 1:
                    yield waiting.popleft()
            yield from waiting
