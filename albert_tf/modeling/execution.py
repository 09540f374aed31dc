"""How a forward pass is executed: what an engine may do differently without changing the results.

Models take an `Execution` as an argument of the call and use `PLAIN` without one:

    outputs = model(features)                                        # notebooks, exports
    outputs = model(features, training=True, execution=execution)    # the training step
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

import keras

from albert_tf.modeling.kernels import PLAIN_KERNELS, Kernels


class Execution:
    """Executes layers one after the other, with the kernels and memory use asked for.

    Engines that do more, such as tracing a shared layer once, override `layer_calls`.

    Args:
        kernels: plain or fused kernels, for the layers and heads.
        remat: whether the backward pass computes layers a second time instead of keeping their
            activations in memory (arXiv 1604.06174). Dropout drops the same elements both times.
    """

    def __init__(self, kernels: Kernels = PLAIN_KERNELS, remat: bool = False):
        self.kernels = kernels
        self.remat = remat

    def layer_calls(self, layers: Sequence[keras.layers.Layer]) -> list[Callable]:
        """Prepare the transformer layers for one forward pass.

        Args:
            layers: in the order of use. A layer that shares its parameters over the depth of the
                model occurs once per use.

        Returns:
            One function per use, called as `layer(hidden, attention_mask, **options)`.
        """
        calls: list[Callable] = [functools.partial(layer, kernels=self.kernels) for layer in layers]
        return [rematerialize(call) for call in calls] if self.remat else calls


PLAIN = Execution()


def rematerialize(call: Callable) -> Callable:
    """Wrap a layer's call so that the backward pass computes it a second time.

    Args:
        call: `call(hidden, attention_mask, *weights, **options)`. Gradients flow to `hidden`, to
            the `weights` that are passed as tensors, and to the variables that the layer reads.
            The call must change no variable and draw random numbers only from a seed among its
            options.
    """

    def rematerialized(hidden, attention_mask, *weights, **options):
        def of_tensors(hidden, *weights):
            return call(hidden, attention_mask, *weights, **options)

        return keras.remat(of_tensors)(hidden, *weights)

    return rematerialized
