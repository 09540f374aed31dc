"""States of training of every engine, and folders with their checkpoints."""

import os
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest

from albert_tf.checkpoints import CheckpointFolder, OrbaxFolder, TensorFlowFolder, step_of
from albert_tf.checkpoints.saving import Checkpoints
from albert_tf.engines.workers import Workers

WEIGHT, BIAS = "bert/pooler/dense/kernel", "bert/pooler/dense/bias"


class State:
    """A state of training, without a model."""

    def __init__(self, tree: dict[str, Any]):
        self.tree = tree

    @property
    def step(self) -> int:
        return int(np.asarray(self.tree["step"]))


class Kind(NamedTuple):
    """The folders of an engine, how it stores a value, and what a step makes of the values."""

    kind: type[CheckpointFolder]
    value: Callable[[np.ndarray], Any]
    next_tree: Callable[[dict[str, Any]], dict[str, Any]]

    def folder(self, path) -> CheckpointFolder:
        return self.kind(str(path))

    def checkpoints(self, folder, state, workers=None, **options) -> Checkpoints:
        return Checkpoints(self.folder(folder), state, workers or Workers(), **options)

    def state(self, step: int, width: int = 3, optimizer: str = "lamb"):
        """Return a state of training in which every weight is the step."""
        params = {WEIGHT: np.full((4, width), step), BIAS: np.full(width, step)}
        params = {path: values.astype(np.float32) for path, values in params.items()}
        moments = {f"{optimizer}/{path}_m": values + 0.5 for path, values in params.items()}
        tree = {
            kind: {path: self.value(values) for path, values in arrays.items()}
            for kind, arrays in (("params", params), ("optimizer", moments))
        }
        return State({**tree, "step": self.value(np.int32(step))})

    def save(self, folder, steps, is_good=True, **options) -> None:
        state = self.state(0)
        with self.checkpoints(folder, state, **options) as checkpoints:
            for step in steps:
                state.tree = self.state(step).tree
                checkpoints.save(is_good)

    def restored(self, folder, width: int = 3) -> int:
        """Return the step that a new process would resume from, after a look at the values."""
        state = self.state(77, width)
        assert self.checkpoints(folder, state).restore_latest()
        step = int(state.tree["step"])
        for kind, added in (("params", 0.0), ("optimizer", 0.5)):
            for values in state.tree[kind].values():
                np.testing.assert_array_equal(values, np.full_like(values, step + added))
        return step

    def steps_in(self, folder) -> list[int]:
        return [step_of(path) for path in self.folder(folder).all()]


def tensorflow() -> Kind:
    import tensorflow as tf

    def in_place(tree: dict[str, Any]) -> dict[str, Any]:
        for variable in tf.nest.flatten(tree):
            variable.assign_add(variable * 2)
        return tree

    return Kind(TensorFlowFolder, tf.Variable, in_place)


def jax() -> Kind:
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    pytest.importorskip("orbax.checkpoint", reason="orbax-checkpoint is not installed")
    import jax.numpy

    def donated(tree: dict[str, Any]) -> dict[str, Any]:
        step = jax.jit(lambda values: jax.tree.map(lambda x: x * 3, values), donate_argnums=0)
        return jax.block_until_ready(step(tree))

    return Kind(OrbaxFolder, jax.numpy.asarray, donated)
