"""The JAX engine: one compiled program over the CPUs, GPUs or TPUs of all processes."""

import collections
import contextlib
import os
import random
from collections.abc import Generator, Iterator

import grain
import jax
import numpy as np
from jax.sharding import NamedSharding

from albert_tf.engines.base import Engine
from albert_tf.engines.device_options import DeviceOptions
from albert_tf.engines.jax.devices import JaxDevices, create_devices
from albert_tf.engines.jax.forward import EvaluationStep, PredictionStep
from albert_tf.engines.jax.step import SPLIT, TrainingStep
from albert_tf.input.streams import Batch, BatchSource, BatchStream, Shard

# More threads than this fight for the lock of the interpreter.
_MOST_THREADS = 16
# Batches beyond those that threads work on: enough for a step that takes less time than others.
_READY = 4


def prefetched(source: BatchSource, first: int = 0) -> Generator[Batch, None, None]:
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

    @classmethod
    def create(cls, options: DeviceOptions) -> "JaxEngine":
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

        waiting: collections.deque = collections.deque()
        with contextlib.closing(prefetched(source, first_step)) as batches:
            for rows in batches:
                waiting.append(copy(rows))
                if len(waiting) > 1:
                    yield waiting.popleft()
        yield from waiting
