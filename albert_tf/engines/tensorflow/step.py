"""One training step, the same on one device, several GPUs and TPU.

The loss is (sum of losses over the global batch) / (weight of the global batch). Weights are
all-reduced before the forward pass, gradients are summed over micro-batches and all-reduced as
sums, and the global gradient is clipped once. So the result depends neither on the number of
replicas nor on the micro-batch.
"""

import collections
import contextlib
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from albert_tf.engines import steps
from albert_tf.engines.steps import HISTORY, StepResults, accepted_arguments
from albert_tf.engines.tensorflow.batches import BatchIterator, errors_in_one_line
from albert_tf.engines.tensorflow.cpu_kernels import CPU_KERNELS, copies_in_groups
from albert_tf.engines.tensorflow.devices import TensorFlowDevices, has_any
from albert_tf.modeling.kernels import PLAIN_KERNELS, Execution, Kernels, rematerialize
from albert_tf.modeling.model import model_features
from albert_tf.optimization.optimizers import Muon

# Parameters from which compiling the update, in a second or more, pays within a hundred steps.
_FUSED_FROM = 2**22


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
        return lambda hidden, mask, **options: function(hidden, mask, *matrices, **options)

    def _function(self, layer) -> Callable:
        def function(hidden, attention_mask, *matrices, **options):
            with keras.StatelessScope() as scope:
                # The scope's constructor would cast them back to float32.
                for variable, matrix in zip(layer.matrices, matrices, strict=True):
                    scope.add_update((variable, matrix))
                return layer(hidden, attention_mask, kernels=self.kernels, **options)

        return tf.function(function, autograph=False) if self.traced else function


def clip_by_global_norm(gradients: list[tf.Tensor], clip_norm: float):
    """Scale gradients to a global norm of at most `clip_norm`, to zeros if it is not finite.

    The norm before clipping is returned, too.
    """
    norm = tf.linalg.global_norm(gradients)
    factor = clip_norm / tf.maximum(norm, clip_norm) if clip_norm else tf.ones([])
    factor = tf.where(tf.math.is_finite(norm), factor, 0.0)
    # Zero times infinity is zero here, and clipping needs this pass over memory anyway.
    return [tf.math.multiply_no_nan(gradient, factor) for gradient in gradients], norm


@contextlib.contextmanager
def _unoptimized_graphs() -> Iterator[None]:
    """Disable TensorFlow's graph optimizer (Grappler).

    When memory is short, it sums gradients in temporary variables, which a loop inside a loop
    leaves behind, so that the next call fails with an AlreadyExistsError.
    """
    option = "disable_meta_optimizer"
    before = tf.config.optimizer.get_experimental_options().get(option, False)
    tf.config.optimizer.set_experimental_options({option: True})
    try:
        yield
    finally:
        tf.config.optimizer.set_experimental_options({option: before})


def through_xla(function: Callable, compiled: bool) -> Callable:
    """Return the function, compiled into one program per shape of its arguments if asked for.

    AutoGraph, which takes seconds for a model, is off everywhere: models and objectives run on
    every backend, so they have no loops or branches for it to convert.
    """
    return tf.function(function, autograph=False, jit_compile=True) if compiled else function


def gather_in_order(strategy: tf.distribute.Strategy, value) -> tf.Tensor:
    """Return the replicas' values `[rows, ...]` in the order of their numbers, `[all rows, ...]`.

    To be called inside of a `tf.function`. `gather` alone follows the links between GPUs, and sorts
    worker 10 before worker 2.
    """
    if strategy.num_replicas_in_sync == 1:
        return strategy.gather(value, axis=0)

    def own_number():
        replica = tf.distribute.get_replica_context().replica_id_in_sync_group
        return tf.reshape(tf.cast(replica, tf.float32), [1])  # every device sends float32

    numbers = strategy.gather(strategy.run(own_number), axis=0)
    gathered = strategy.gather(value, axis=0)
    of_row = tf.shape(gathered)[1:]
    shape = tf.concat([[strategy.num_replicas_in_sync, -1], of_row], axis=0)
    parts = tf.gather(tf.reshape(gathered, shape), tf.argsort(numbers))
    return tf.reshape(parts, tf.concat([[-1], of_row], axis=0))


def _zeros(names: Sequence[str]) -> dict[str, tf.Tensor]:
    return {name: tf.zeros([]) for name in names}


def _shape(tensor: tf.Tensor) -> list:
    """Return the shape: static sizes as numbers, dynamic ones as scalar tensors."""
    dynamic = tf.shape(tensor)
    return [dynamic[axis] if size is None else size for axis, size in enumerate(tensor.shape)]


def _training_execution(devices: TensorFlowDevices, remat: bool) -> TrainingExecution:
    in_xla = devices.needs_xla or devices.within_xla or has_any("TPU")
    kernels, copies = CPU_KERNELS, copies_in_groups
    # XLA fuses the plain operations by itself.
    if in_xla or has_any("GPU") or devices.plain:
        kernels, copies = PLAIN_KERNELS, lambda weight, count: [weight] * count
        if devices.jax_kernels:
            from albert_tf.engines.tensorflow.tpu_kernels import TPU_KERNELS as kernels
    return TrainingExecution(kernels, copies, traced=not in_xla, remat=remat)


class TrainingStep(steps.TrainingStep[TensorFlowDevices]):
    """A training step inside the graph, which also takes its batches there."""

    def __post_init__(self):
        super().__post_init__()
        devices = self.devices
        self.strategy = devices.strategy
        self._compiled_gradients = through_xla(self._gradients, devices.needs_xla)
        self._compiled_update = through_xla(self._update, devices.needs_xla or self._fuses_update)
        self._execution = _training_execution(devices, self.options.remat)

    @property
    def _fuses_update(self) -> bool:
        """Whether XLA compiles the update even where it compiles nothing else: on a CPU.

        The update, bound by memory, becomes one pass over it. Muon's products would be slower, and
        threads of several replicas might crash (see `cpu_kernels`).
        """
        devices, weights = self.devices, self.model.trainable_weights
        return (
            sum(math.prod(weight.shape) for weight in weights) >= _FUSED_FROM
            and devices.num_replicas == 1
            and devices.jit_compile is not False
            and not (devices.within_xla or has_any("TPU") or isinstance(self.optimizer, Muon))
        )

    def __call__(self, batches: Iterator, count: int) -> StepResults:
        stream = batches.stream if isinstance(batches, BatchIterator) else None
        distributed = batches.distributed if isinstance(batches, BatchIterator) else batches
        several = self.options.micro_batches > 1
        graphs = _unoptimized_graphs() if several else contextlib.nullcontext()
        with errors_in_one_line("training", stream), graphs:
            results = self._steps(distributed, tf.constant(count))
        results = tf.nest.map_structure(lambda value: value.numpy(), results)
        sums, weights, history = (results.pop(name) for name in ("sums", "weights", "history"))
        scalars = {name: float(value) for name, value in results.items()}
        return StepResults(sums, weights, scalars, history)

    def _checksums(self) -> tuple[list[str], np.ndarray]:
        variables = [*self.model.weights, *self.moments]
        return [variable.path for variable in variables], self._sums_of_bits().numpy()

    @tf.function(autograph=False)
    def _sums_of_bits(self) -> tf.Tensor:
        def of_replica():
            values = [variable.value for variable in (*self.model.weights, *self.moments)]
            bits = [tf.cast(tf.bitcast(value, tf.int32), tf.int64) for value in values]
            return tf.stack([tf.reduce_sum(each) for each in bits])[tf.newaxis]

        return gather_in_order(self.strategy, self.strategy.run(of_replica))

    @tf.function(reduce_retracing=True, autograph=False)
    def _steps(self, iterator, count: tf.Tensor) -> dict[str, Any]:
        """Return the fields of `StepResults`, the scalars among them, as tensors."""

        def take(number, totals, last, measures, history, wait, free):
            batch = next(iterator)
            arrival = self._time_after(batch)
            wait += tf.maximum(arrival - free, 0.0)
            # Otherwise a single thread might read the clock after the step.
            with tf.control_dependencies([arrival]):
                results = self._one_step(batch)
            free = self._time_after(results["done"])
            finite = results["history"]["finite"] > 0
            totals = tf.nest.map_structure(tf.add, totals, results["totals"])
            measures = tf.nest.map_structure(
                lambda new, old: tf.where(finite, new, old), results["measures"], measures
            )
            history = history.write(
                number, tf.stack([results["history"][name] for name in HISTORY])
            )
            return number + 1, totals, results["last"], measures, history, wait, free

        start = (
            0,
            {"sums": _zeros(self.objective.quantities), "weights": _zeros(self.objective.parts)},
            _zeros(("learning_rate", "gradient_norm")),
            _zeros(self.optimizer.measures),
            tf.TensorArray(tf.float32, count, element_shape=[len(HISTORY)]),
            tf.zeros([], tf.float64),
            tf.timestamp(),
        )
        _, totals, last, measures, history, wait, _ = tf.while_loop(
            lambda number, *_: number < count,
            take,
            start,
            # A step must not use memory while the previous one is still running.
            parallel_iterations=1,
        )
        history = dict(zip(HISTORY, tf.unstack(history.stack(), axis=1), strict=True))
        norms = self.strategy.run(self._parameter_norm)
        return {
            **totals,
            **last,
            **measures,
            "history": history,
            "parameter_norm": self.strategy.experimental_local_results(norms)[0],
            "input_wait_seconds": wait,
        }

    def _time_after(self, tensors) -> tf.Tensor:
        """Wait until all of these are available, and return the time in seconds."""
        tensors = tf.nest.flatten(tensors)
        local = [t for each in tensors for t in self.strategy.experimental_local_results(each)]
        with tf.control_dependencies(local):
            return tf.timestamp()

    def _one_step(self, batch):
        learning_rate = tf.convert_to_tensor(self.optimizer.learning_rate)
        results = self.strategy.run(self._replica_step, args=(batch,))
        # The results are all-reduced, so all replicas have the same.
        results = tf.nest.map_structure(
            lambda value: self.strategy.experimental_local_results(value)[0], results
        )
        self.optimizer.iterations.assign_add(1)
        # On the host, so that it is available only when the device has finished the step.
        with tf.device("CPU:0"):
            done = tf.identity(results["done"])
        gradient_norm = results["history"]["gradient_norm"]
        last = {"learning_rate": learning_rate, "gradient_norm": gradient_norm}
        return {**results, "last": last, "done": done}

    def _replica_step(self, batch):
        replica = tf.distribute.get_replica_context()
        weights = replica.all_reduce(tf.distribute.ReduceOp.SUM, self.objective.weights(batch))
        gradients, sums = self._accumulate(batch, weights, replica.replica_id_in_sync_group)
        gradients, sums = replica.all_reduce(tf.distribute.ReduceOp.SUM, (gradients, sums))
        results = self._compiled_update(gradients, sums, weights)
        results["history"]["length"] = tf.cast(tf.shape(batch["input_ids"])[-1], tf.float32)
        # This weight is updated last, so its value implies that the update is done.
        done = tf.reshape(self.model.trainable_weights[-1].value, [-1])[0]
        return {**results, "done": done}

    def _update(self, gradients, sums, weights):
        """Apply the update if gradients and sums over the global batch are finite."""
        gradients, norm = clip_by_global_norm(gradients, self.options.clip_norm)
        loss = self.objective.loss(sums, weights)
        # Everything is all-reduced, so all replicas take the same decision.
        finite = tf.math.is_finite(norm) & tf.math.is_finite(loss)
        measures = self.optimizer.update(gradients, finite)
        totals = tf.nest.map_structure(
            lambda value: tf.where(finite, value, 0.0), {"sums": sums, "weights": weights}
        )
        history = {
            "loss": loss,
            "gradient_norm": norm,
            "finite": tf.cast(finite, tf.float32),
        }
        return {"totals": totals, "measures": measures, "history": history}

    def _parameter_norm(self):
        return tf.linalg.global_norm([weight.value for weight in self.model.trainable_weights])

    def _accumulate(self, batch, weights, replica_id):
        """Return gradients and sums of a replica's share, one micro-batch at a time."""
        # Dropout depends only on seed, step and place in the batch: a restart needs no state.
        step = tf.cast(self.optimizer.iterations.value, tf.int64)
        first = tf.cast(replica_id, tf.int64) * self.options.micro_batches
        if self.options.micro_batches == 1:
            return self._compiled_gradients(batch, weights, step, first)
        parts = {
            name: tf.reshape(value, [self.options.micro_batches, -1, *_shape(value)[1:]])
            for name, value in batch.items()
        }
        gradients = [tf.zeros(weight.shape) for weight in self.model.trainable_weights]
        sums = _zeros(self.objective.quantities)

        def add(number, gradients, sums):
            micro_batch = {name: value[number] for name, value in parts.items()}
            first_of_micro_batch = first + tf.cast(number, tf.int64)
            more = self._compiled_gradients(micro_batch, weights, step, first_of_micro_batch)
            return number + 1, *tf.nest.map_structure(tf.add, (gradients, sums), more)

        _, gradients, sums = tf.while_loop(
            lambda number, *_: number < self.options.micro_batches,
            add,
            (0, gradients, sums),
            # In parallel, micro-batches would use the memory that they are meant to save.
            parallel_iterations=1,
        )
        return gradients, sums

    def _gradients(self, batch, weights, step, number):
        state = self.model.encoder.seed_generator.state
        state.assign(tf.stack([self.options.seed + step * 1_000_003, number * 2]))
        variables = [weight.value for weight in self.model.trainable_weights]
        execution = self._execution
        accepted = accepted_arguments(self.model.call, heads_only=True, execution=execution)
        fused = accepted_arguments(self.objective.sums, kernels=execution.kernels)
        with tf.GradientTape() as tape:
            outputs = self.model(model_features(self.model, batch), training=True, **accepted)
            if not fused:
                outputs = tf.nest.map_structure(tf.convert_to_tensor, outputs)
            sums = self.objective.sums(outputs, batch, **fused)
            loss = self.objective.loss(sums, weights)
        # Without sentence pairs, the loss does not depend on the sentence-order head.
        gradients = tape.gradient(
            loss, variables, unconnected_gradients=tf.UnconnectedGradients.ZERO
        )
        # Repeated rows of an IndexedSlices must be summed before moments and norms are computed.
        return [tf.convert_to_tensor(gradient) for gradient in gradients], sums
