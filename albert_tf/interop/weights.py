"""Weights that some file holds, under the names that this project's variables have.

Every format is read into the same `Weights`: nothing but names and shapes until a value is asked
for. Models are loaded from them, other formats are written from them.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from albert_tf.config import AlbertConfig
from albert_tf.errors import InputError

Shape = tuple[int, ...]

# Heads of one task. One of another shape (other labels) is not loaded; the encoder still is.
TASK_HEADS = ("classifier/", "cls/squad/")


class Tensor(NamedTuple):
    """One weight in a file.

    Attributes:
        name: what the file calls it.
        stored: its shape there.
        shape: its shape as a variable here.
        read: its value, of `shape`, as the file has it or float32.
    """

    name: str
    stored: Shape
    shape: Shape
    read: Callable[[], np.ndarray]


@dataclasses.dataclass(frozen=True)
class Weights:
    """The weights of a model in a file.

    Attributes:
        path: the file, or the folder.
        format: its key in `albert_tf.interop.formats.FORMATS`.
        tensors: by the path of the variable here.
        unknown: shapes of what has no counterpart here, by the name there.
        skipped: shapes of what is no weight of the model, such as optimizer slots.
        config: of the model, where it stands beside the weights.
        step: training steps behind the weights, where it is known.
    """

    path: str
    format: str
    tensors: dict[str, Tensor]
    unknown: dict[str, Shape] = dataclasses.field(default_factory=dict)
    skipped: dict[str, Shape] = dataclasses.field(default_factory=dict)
    config: AlbertConfig | None = None
    step: int | None = None

    def read(self, name: str) -> np.ndarray:
        """The value of a variable, by its path here."""
        value = self.tensors[name].read()
        return value if value.dtype == np.float32 else value.astype(np.float32)
