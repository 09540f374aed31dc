"""Input pipelines: which rows of every global batch each of them makes.

A pipeline feeds the replicas of one machine. It makes as many rows as they need, in the order of
the replicas, so all pipelines together make exactly the batch that one device would see.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np


class Share(NamedTuple):
    """The part of every global batch that one of several input pipelines makes.

    Attributes:
        pipeline: number of the pipeline, from 0.
        pipelines: number of pipelines.
        replicas: number of replicas that each of them feeds, one after the other.
    """

    pipeline: int = 0
    pipelines: int = 1
    replicas: int = 1

    def rows(self, batch_size: int) -> slice:
        """The rows of a global batch; the batch divides by all replicas."""
        count = batch_size // self.pipelines
        return slice(self.pipeline * count, (self.pipeline + 1) * count)

    def count(self, batch_size: int) -> int:
        """Number of these rows."""
        return batch_size // self.pipelines

    def per_replica(self, batch_size: int) -> int:
        """Number of rows of one replica."""
        return batch_size // self.pipelines // self.replicas

    def of(self, batches: np.ndarray) -> np.ndarray:
        """The batches of the replicas, `[batches * replicas, rows]`, of `[batches, batch_size]`."""
        batch_size = batches.shape[1]
        return batches[:, self.rows(batch_size)].reshape(-1, self.per_replica(batch_size))

    def repeated(self, values: np.ndarray) -> np.ndarray:
        """What is the same for all replicas, `[batches * replicas]`, of `[batches]`."""
        return np.repeat(values, self.replicas)


WHOLE = Share()
