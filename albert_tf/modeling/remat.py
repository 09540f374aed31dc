"""Layers that are computed again in the backward pass, so that less is kept from the forward one.

Of a layer only its input and output stay in memory (arXiv 1604.06174), for the price of a second
forward pass. Dropout draws the same elements again, since its mask is a function of the seed alone.
"""

from __future__ import annotations

import contextlib
import contextvars
from collections.abc import Iterator

import keras

_active: contextvars.ContextVar[bool] = contextvars.ContextVar("remat", default=False)


@contextlib.contextmanager
def rematerializing(active: bool = True) -> Iterator[None]:
    """Computes layers again for the gradients that are taken inside the block."""
    token = _active.set(active)
    try:
        yield
    finally:
        _active.reset(token)


def call_layer(layer: keras.layers.Layer, *inputs, seed=None):
    """`layer(*inputs, seed=seed)`, computed again in the backward pass inside `rematerializing`.

    Args:
        layer: draws nothing at random but from `seed`, and changes no variable.
        *inputs: tensors.
        seed: `[2]` seed of the dropout, None in inference.
    """

    def call(*inputs):
        return layer(*inputs, seed=seed)

    return keras.remat(call)(*inputs) if _active.get() else call(*inputs)
