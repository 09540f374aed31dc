"""Executes the layers of a model in TensorFlow's training step."""

from __future__ import annotations

import collections
from collections.abc import Callable, Iterator, Sequence

import keras
import tensorflow as tf

from albert_tf.modeling.execution import Execution, rematerialize
from albert_tf.modeling.ops import Ops


class TrainingExecution(Execution):
    """Casts the kernels of a shared layer once per forward pass, and traces the layer once.

    A layer itself is called as ever, `layer(hidden, attention_mask)`. The cast kernels take the
    place of its variables for the duration of this call, through Keras's `StatelessScope`.

    Args:
        ops: operations, plain or fused.
        copies: `copies(kernel, count)`, `count` tensors with the value of `kernel`, one for each
            use; so the gradients of the uses can be added up in another way than by TensorFlow.
        traced: whether each layer becomes a TensorFlow function. XLA must not be used then: it
            would take the weights that functions inside of others read for constants.
        remat: whether layers are computed a second time in the backward pass.
    """

    def __init__(
        self,
        ops: Ops,
        copies: Callable[[tf.Tensor, int], Sequence[tf.Tensor]],
        traced: bool,
        remat: bool = False,
    ):
        super().__init__(ops, remat)
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
        """For each use of a layer, its kernels in the dtype that it computes in."""
        cast = [keras.ops.cast(kernel, layer.compute_dtype) for kernel in layer.kernels]
        return zip(*(self.copies(kernel, uses) for kernel in cast), strict=True)

    def _call(self, layer, kernels: Sequence[tf.Tensor]) -> Callable:
        function = self._function(layer)
        if self.remat:
            function = rematerialize(function)

        def call(hidden, attention_mask, **options):
            return function(hidden, attention_mask, *kernels, **options)

        return call

    def _function(self, layer) -> Callable:
        """`layer` as a function of its inputs and kernels."""
        if layer not in self._functions:

            def function(hidden, attention_mask, *kernels, **options):
                with keras.StatelessScope() as scope:
                    # Not through the scope's constructor, which would cast them to float32.
                    for variable, kernel in zip(layer.kernels, kernels, strict=True):
                        scope.add_update((variable, kernel))
                    return layer(hidden, attention_mask, ops=self.ops, **options)

            self._functions[layer] = (
                tf.function(function, autograph=False) if self.traced else function
            )
        return self._functions[layer]
