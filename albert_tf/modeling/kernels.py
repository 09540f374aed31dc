"""Chains of pointwise operations that a training engine may compute in one pass over memory.

The plain forms are what XLA (TPU, JAX) fuses by itself. TensorFlow on a CPU does not, and spends as
long on them as on the matrix products; its training step puts fused forms in their place with
`using`. Exports and everything else keep the plain forms.
"""

from __future__ import annotations

import contextlib
import contextvars
from collections.abc import Callable, Iterator
from typing import NamedTuple

from keras import ops


class Kernels(NamedTuple):
    """One implementation of each chain.

    Attributes:
        gelu: tanh-approximated GELU of a tensor of any shape, in the tensor's dtype.
        cross_entropy: negative log-likelihood `[...]`, float32, of integer labels `[...]` under
            float32 logits `[..., classes]`.
    """

    gelu: Callable
    cross_entropy: Callable


PLAIN = Kernels(
    gelu=lambda x: ops.gelu(x, approximate=True),
    cross_entropy=lambda logits, labels: ops.sparse_categorical_crossentropy(
        labels, logits, from_logits=True
    ),
)

_active: contextvars.ContextVar[Kernels] = contextvars.ContextVar("kernels", default=PLAIN)


@contextlib.contextmanager
def using(kernels: Kernels) -> Iterator[None]:
    """Computes with `kernels` what is traced or called inside the block."""
    token = _active.set(kernels)
    try:
        yield
    finally:
        _active.reset(token)


def gelu(x):
    """x * Phi(x) with Phi approximated by tanh, as the original does."""
    return _active.get().gelu(x)


def cross_entropy(logits, labels):
    """Negative log-likelihood of integer `labels` `[...]` under `logits` `[..., classes]`."""
    return _active.get().cross_entropy(logits, labels)
