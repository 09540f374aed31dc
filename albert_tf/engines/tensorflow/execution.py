"""Executes the layers of a model in TensorFlow's training step."""

import collections
from collections.abc import Callable, Iterator, Sequence

import keras
import tensorflow as tf

from albert_tf.modeling.kernels import Execution, Kernels, rematerialize


class TrainingExecution(Execution):
    """Casts the matrices of a shared layer once per forward pass, and traces the layer once.

    A layer is called as ever, `layer(hidden, attention_mask)`. During the call, Keras's
    `StatelessScope` gives its variables the values of the cast matrices, as it does wherever Keras
    computes a model as a function of its weights.

    Args:
        kernels: plain or fused kernels.
        copies: `copies(matrix, count)` returns `count` tensors with the value of `matrix`, one per
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
        uses = collections.Counter(layers)
        copies = {layer: self._copies_by_use(layer, count) for layer, count in uses.items()}
        return [self._call(layer, next(copies[layer])) for layer in layers]

    def _copies_by_use(self, layer, uses: int) -> Iterator[tuple[tf.Tensor, ...]]:
        """Yield the matrices for each use of a layer, in the dtype in which it computes."""
        cast = [keras.ops.cast(matrix, layer.compute_dtype) for matrix in layer.matrices]
        return zip(*(self.copies(matrix, uses) for matrix in cast), strict=True)

    def _call(self, layer, matrices: Sequence[tf.Tensor]) -> Callable:
        if layer not in self._functions:
            self._functions[layer] = self._function(layer)
        function = self._functions[layer]
        if self.remat:
            function = rematerialize(function)

        def call(hidden, attention_mask, **options):
            return function(hidden, attention_mask, *matrices, **options)

        return call

    def _function(self, layer) -> Callable:
        def function(hidden, attention_mask, *matrices, **options):
            with keras.StatelessScope() as scope:
                # The scope's constructor would cast them back to float32.
                for variable, matrix in zip(layer.matrices, matrices, strict=True):
                    scope.add_update((variable, matrix))
                return layer(hidden, attention_mask, kernels=self.kernels, **options)

        return tf.function(function, autograph=False) if self.traced else function
