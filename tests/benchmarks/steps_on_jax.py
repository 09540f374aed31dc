"""Runs pretraining steps on JAX; started by `test_accelerator.py` with the peers' Python.

    KERAS_BACKEND=jax python -m tests.benchmarks.steps_on_jax CONFIG FILE STEPS

For each kind of attention, FILE gets the weights before and after and the loss of every step, on a
batch of `tests.tiny`, which has padding.
"""

from __future__ import annotations

import sys

import keras
import numpy as np

from albert_tf.config import AlbertConfig
from benchmarks.implementations.ours_jax import ATTENTION, Pretraining
from tests import tiny


def main(config: str, path: str, steps: str) -> None:
    arrays = {}
    for attention in ATTENTION:
        keras.utils.set_random_seed(0)
        model = AlbertConfig.from_json_file(config)
        pretraining = Pretraining(model, tiny.batch(4), "float32", attention)
        for name, weight in pretraining.weights().items():
            arrays[f"{attention}/before/{name}"] = weight
        arrays[f"{attention}/losses"] = [pretraining.run(1) for _ in range(int(steps))]
        for name, weight in pretraining.weights().items():
            arrays[f"{attention}/after/{name}"] = weight
    np.savez(path, **arrays)


if __name__ == "__main__":
    main(*sys.argv[1:])
