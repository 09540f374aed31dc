"""What an engine reads batches from: a stream, which makes a source for each input pipeline.

A pipeline feeds the devices of one machine. It makes their rows of every global batch, so all
pipelines together make exactly the batch that one device would see.
"""

import dataclasses
import sys
from typing import Protocol

import numpy as np

# The length of sources whose batches never end.
ENDLESS = sys.maxsize

Batch = dict[str, np.ndarray]


@dataclasses.dataclass(frozen=True)
class Shard:
    """One of `count` input pipelines; `index` is its number, from 0."""

    index: int = 0
    count: int = 1

    def rows(self, batch_size: int) -> slice:
        """Return its rows of a global batch, which divides by the number of pipelines."""
        size = batch_size // self.count
        return slice(self.index * size, (self.index + 1) * size)


WHOLE = Shard()


class BatchSource(Protocol):
    """The batches of a pipeline by number, from 0; several threads ask for them at once."""

    def __len__(self) -> int: ...

    def __getitem__(self, step: int, /) -> Batch: ...


class BatchStream(Protocol):
    """Global batches, as a function of what they are made of and how."""

    def batches(self, shard: Shard, /) -> BatchSource: ...
