"""The batches of the commands as data sets for Keras' `fit`, for either backend."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import keras
import numpy as np

from albert_tf.errors import InputError
from albert_tf.input.examples import Features
from albert_tf.input.memory_batches import MemoryStream

if TYPE_CHECKING:
    import tensorflow as tf

# What evaluation batches contain besides the examples.
_BOOKKEEPING = ("example_number", "is_real_example")


class KerasData(NamedTuple):
    """How batches reach `fit` on a backend.

    Attributes:
        training: endless shuffled batches, from features, maximum length, batch size and seed.
        evaluation: all examples once, from features, maximum length and batch size.
    """

    training: Callable[[Features, int, int, int], Any]
    evaluation: Callable[[Features, int, int], Any]


def keras_data() -> KerasData:
    """Return the data sets for Keras' backend.

    Raises:
        InputError: If keras runs on another backend.
    """
    backend = keras.backend.backend()
    if backend not in _KERAS_DATA:
        raise InputError(f"KERAS_BACKEND={backend}: must be one of {', '.join(_KERAS_DATA)}")
    return _KERAS_DATA[backend]


# A generator of NumPy batches would work on TensorFlow too, but Keras fixes the length of all
# batches to that of the first ones there.
def _training_pipeline(features: Features, length: int, size: int, seed: int) -> tf.data.Dataset:
    from albert_tf.engines.tensorflow.batches import dataset

    return dataset(MemoryStream(features, length, size, seed))


def _evaluation_pipeline(features: Features, length: int, size: int) -> tf.data.Dataset:
    import tensorflow as tf

    from albert_tf.engines.tensorflow.batches import dataset

    def real(batch: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        chosen = batch["is_real_example"] > 0
        return {
            name: tf.boolean_mask(value, chosen)
            for name, value in batch.items()
            if name not in _BOOKKEEPING
        }

    return dataset(MemoryStream(features, length, size)).map(real)


def _training_generator(
    features: Features, length: int, size: int, seed: int
) -> Iterator[tuple[dict[str, np.ndarray]]]:
    batches = MemoryStream(features, length, size, seed).batches()
    return ((batches[step],) for step in range(len(batches)))


class _EvaluationSequence(keras.utils.PyDataset):
    """The batches of an evaluation without what pads the last one."""

    def __init__(self, features: Features, length: int, size: int):
        super().__init__()
        self._batches = MemoryStream(features, length, size).batches()

    def __len__(self) -> int:
        return len(self._batches)

    def __getitem__(self, index: int) -> tuple[dict[str, np.ndarray]]:
        batch = self._batches[index]
        chosen = batch["is_real_example"] > 0
        return ({name: value[chosen] for name, value in batch.items() if name not in _BOOKKEEPING},)


_KERAS_DATA = {
    "tensorflow": KerasData(_training_pipeline, _evaluation_pipeline),
    "jax": KerasData(_training_generator, _EvaluationSequence),
}
