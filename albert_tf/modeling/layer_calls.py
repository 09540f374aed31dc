"""How the layers of a model are called, which a training engine may decide.

Plainly, by itself. `rematerializing` computes layers again in the backward pass: of a layer only
its input and output stay in memory (arXiv 1604.06174), for the price of a second forward pass.
Dropout draws the same elements again, since its mask is a function of the seed alone.
`calling_through` puts a function of the engine between, such as one that traces a layer once for
all of its uses. `pruning` leaves out what only outputs need that an engine does not look at.
"""

from __future__ import annotations

import contextlib
import contextvars
from collections.abc import Callable, Iterator, Sequence

import keras

# (layer, *tensors, **options) -> what the layer gives for them.
Caller = Callable

_prunes: contextvars.ContextVar[bool] = contextvars.ContextVar("prunes", default=False)
_rematerializes: contextvars.ContextVar[bool] = contextvars.ContextVar("remat", default=False)
_caller: contextvars.ContextVar[Caller] = contextvars.ContextVar(
    "caller", default=lambda layer, *tensors, **options: layer(*tensors, **options)
)


@contextlib.contextmanager
def rematerializing(active: bool = True) -> Iterator[None]:
    """Computes layers again for the gradients that are taken inside the block."""
    token = _rematerializes.set(active)
    try:
        yield
    finally:
        _rematerializes.reset(token)


@contextlib.contextmanager
def pruning() -> Iterator[None]:
    """Computes, inside the block, the last layer only where a model's head looks at it.

    That is at the masked positions and `[CLS]` in pretraining, at `[CLS]` alone in classification
    and multiple choice. Their outputs lack `sequence_output` and `encoder_outputs` then.
    """
    token = _prunes.set(True)
    try:
        yield
    finally:
        _prunes.reset(token)


def prunes() -> bool:
    """Whether `pruning` is in place here."""
    return _prunes.get()


@contextlib.contextmanager
def calling_through(caller: Caller) -> Iterator[None]:
    """Calls layers as `caller(layer, *tensors, **options)` inside the block."""
    token = _caller.set(caller)
    try:
        yield
    finally:
        _caller.reset(token)


def call_layer(layer: keras.layers.Layer, hidden, mask_scores, kernels: Sequence, **options):
    """`layer(hidden, mask_scores, kernels, **options)`.

    Args:
        layer: draws nothing at random but from a seed in its options, and changes no variable.
        hidden: tensor.
        mask_scores: tensor.
        kernels: tensors.
        **options: tensors that no gradient is asked of, or None.
    """

    def call(hidden, mask_scores, *kernels):
        return _caller.get()(layer, hidden, mask_scores, list(kernels), **options)

    call = keras.remat(call) if _rematerializes.get() else call
    return call(hidden, mask_scores, *kernels)
