"""Layers that are computed again in the backward pass, so that less is kept from the forward one.

Of a layer only its input and output stay in memory (arXiv 1604.06174), for the price of a second
forward pass. Dropout draws the same elements again, since its mask is a function of the seed alone.
"""

from __future__ import annotations

import contextlib
import contextvars
from collections.abc import Callable, Iterator, Sequence

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


def call_recomputed(layer: Callable, hidden, mask_scores, kernels: Sequence):
    """`layer(hidden, mask_scores, kernels)`, computed again for gradients in `rematerializing`.

    Args:
        layer: draws nothing at random but from a seed that it holds, and changes no variable.
        hidden: tensor.
        mask_scores: tensor.
        kernels: tensors.
    """

    def call(hidden, mask_scores, *kernels):
        return layer(hidden, mask_scores, list(kernels))

    call = keras.remat(call) if _active.get() else call
    return call(hidden, mask_scores, *kernels)
