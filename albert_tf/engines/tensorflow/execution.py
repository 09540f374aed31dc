"""Executes the layers of a model in TensorFlow's training step."""

from __future__ import annotations

import collections
from collections.abc import Callable, Iterator, Sequence

import keras
import tensorflow as tf

from albert_tf.modeling.execution import Execution, rematerialize
from albert_tf.modeling.kernels import Kernels


class TrainingExecution(Execution):
    """Casts the kernels of a shared layer once per forward pass, and traces the layer once.

    The layer itself does not know: it is called as `layer(hidden, attention_mask)` and reads its
    variables, for which Keras's `StatelessScope` substitutes the cast kernels during the call.

    Args:
        kernels: plain or fused kernels.
        copies: `copies(kernel, count)` returns `count` tensors with the value of `kernel`, one per
            use, and so determines how the gradients of the uses are added up.
        traced: whether each layer becomes a TensorFlow function. Not allowed inside XLA, which
            would treat the variables that nested functions read as constants.
        remat: whether the backward pass computes layers a second time. With `traced`, gradients are
            correct only inside a TensorFlow function, as those of a training step are.
    """

    def __init__(
        self,
        kernels: Kernels,
        copies: Callable[[tf.Tensor, int], Sequence[tf.Tensor]],
        traced: bool,
        remat: bool = False,
    ):
        super().__init__(kernels, remat)
        self.copies = copies
        self.traced = traced
        self._functions: dict[keras.layers.Layer, Callable] = {}

    def layer_calls(self, layers):
        kernels = {
            layer: self._cast_kernels(layer, uses)
            for layer, uses in collections.Counter(layers).items()
        }
        return [self._call(layer, next(kernels[layer])) for layer in layers]

    def _cast_kernels(self, layer, uses: int) -> Iterator[tuple[tf.Tensor, ...]]:
        """The kernels of each use of a layer, in the dtype in which it computes."""
        cast = [keras.ops.cast(kernel, layer.compute_dtype) for kernel in layer.matrices]
        return zip(*(self.copies(kernel, uses) for kernel in cast), strict=True)

    def _call(self, layer, kernels: Sequence[tf.Tensor]) -> Callable:
        function = self._function(layer)
        if self.remat:
            function = rematerialize(function)

        def call(hidden, attention_mask, **options):
            return function(hidden, attention_mask, *kernels, **options)

        return call

    def _function(self, layer) -> Callable:
        """The layer as a function of its inputs and kernels."""
        if layer not in self._functions:

            def function(hidden, attention_mask, *kernels, **options):
                with keras.StatelessScope() as scope:
                    # The scope's constructor would cast them back to float32.
                    for variable, kernel in zip(layer.matrices, kernels, strict=True):
                        scope.add_update((variable, kernel))
                    return layer(hidden, attention_mask, kernels=self.kernels, **options)

            self._functions[layer] = (
                tf.function(function, autograph=False) if self.traced else function
            )
        return self._functions[layer]
