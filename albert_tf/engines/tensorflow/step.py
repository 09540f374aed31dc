"""One training step, the same on one device, several GPUs and TPU.

The loss is (sum of losses over the global batch) / (weight of the global batch). Weights are
all-reduced before the forward pass, gradients are summed over micro-batches and all-reduced as
sums, and the global gradient is clipped once. So the result depends neither on the number of
replicas nor on the micro-batch.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import keras
import tensorflow as tf

from albert_tf.engines.steps import HISTORY, accepted_arguments
from albert_tf.engines.tensorflow.cpu_kernels import CPU_KERNELS, copies_in_groups
from albert_tf.engines.tensorflow.execution import TrainingExecution
from albert_tf.engines.tensorflow.replicas import gather_in_order
from albert_tf.modeling.inputs import model_features
from albert_tf.modeling.kernels import PLAIN_KERNELS
from albert_tf.modeling.losses import Objective
from albert_tf.optimization.optimizers import AdamW


def clip_by_global_norm(gradients: list[tf.Tensor], clip_norm: float):
    """Scales gradients to a global norm of at most `clip_norm`.

    Returns:
        The gradients, zeros if their norm is not finite, and the norm before clipping.
    """
    norm = tf.linalg.global_norm(gradients)
    factor = clip_norm / tf.maximum(norm, clip_norm) if clip_norm else tf.ones([])
    factor = tf.where(tf.math.is_finite(norm), factor, 0.0)
    # Zero times infinity is zero here, and clipping needs this pass over memory anyway.
    return [tf.math.multiply_no_nan(gradient, factor) for gradient in gradients], norm


@contextlib.contextmanager
def _unoptimized_graphs() -> Iterator[None]:
    """Disables TensorFlow's graph optimizer (Grappler).

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


def _has_any(*kinds: str) -> bool:
    return any(tf.config.list_logical_devices(kind) for kind in kinds)


def _needs_xla(jit_compile: bool | None) -> bool:
    if _has_any("TPU"):  # everything is compiled there
        return False
    # On CPUs, bfloat16 takes twice as long with XLA: docs/performance.md.
    return _has_any("GPU") if jit_compile is None else jit_compile


def _through_xla(function: Callable, compiled: bool) -> Callable:
    """The function, compiled into one program per shape of its arguments if asked for.

    AutoGraph, which takes seconds for a model, is off everywhere: models and objectives run on
    every backend, so they have no loops or branches for it to convert.
    """
    return tf.function(function, autograph=False, jit_compile=True) if compiled else function


def _zeros(names: Sequence[str]) -> dict[str, tf.Tensor]:
    return {name: tf.zeros([]) for name in names}


def _shape(tensor: tf.Tensor) -> list:
    """The shape: static sizes as numbers, dynamic ones as scalar tensors."""
    dynamic = tf.shape(tensor)
    return [dynamic[axis] if size is None else size for axis, size in enumerate(tensor.shape)]


def _training_execution(in_xla: bool, remat: bool) -> TrainingExecution:
    if in_xla or _has_any("GPU"):  # XLA fuses the plain operations by itself
        return TrainingExecution(PLAIN_KERNELS, _same_tensor, traced=not in_xla, remat=remat)
    return TrainingExecution(CPU_KERNELS, copies_in_groups, traced=not in_xla, remat=remat)


def _same_tensor(weight: tf.Tensor, count: int) -> list[tf.Tensor]:
    return [weight] * count


class TrainStep:
    """Runs training steps inside the graph.

    Args:
        model: a model with an `encoder` that has the dropout's `seed_generator`.
        optimizer: built here, on the model's trainable weights.
        objective: what is minimized.
        strategy: where the steps run; model and optimizer were created in its scope.
        micro_batches: parts into which each replica's share of a batch is split.
        clip_norm: global norm to clip to, 0 for no clipping.
        seed: seed of the dropout.
        remat: whether layers are recomputed in the backward pass, to save memory.
        jit_compile: whether XLA compiles each part of the step between communications with other
            replicas into one program; None: on GPUs. TPUs compile everything anyway.
        within_xla: whether the caller has XLA compile the whole step.
    """

    def __init__(
        self,
        model: keras.Model,
        optimizer: AdamW,
        objective: Objective,
        strategy: tf.distribute.Strategy,
        micro_batches: int = 1,
        clip_norm: float = 1.0,
        seed: int = 0,
        remat: bool = False,
        jit_compile: bool | None = None,
        within_xla: bool = False,
    ):
        self.model = model
        self.optimizer = optimizer
        self.objective = objective
        self.strategy = strategy
        self.micro_batches = micro_batches
        self.clip_norm = clip_norm
        self.seed = seed
        self.remat = remat
        compiled = not within_xla and _needs_xla(jit_compile)
        self._compiled_gradients = _through_xla(self._gradients, compiled)
        self._compiled_update = _through_xla(self._update, compiled)
        in_xla = compiled or within_xla or _has_any("TPU")
        self._execution = _training_execution(in_xla, remat)
        with strategy.scope():
            optimizer.build(model.trainable_weights)

    @property
    def variables(self) -> list[keras.Variable]:
        """Weights and moments, which all replicas hold alike."""
        return [
            *self.model.weights,
            *(v for v in self.optimizer.variables if v is not self.optimizer.iterations),
        ]

    @property
    def tree(self) -> dict[str, Any]:
        """What a checkpoint contains: values by path."""
        moments = [v for v in self.optimizer.variables if v is not self.optimizer.iterations]
        return {
            "params": {variable.path: variable.value for variable in self.model.weights},
            "optimizer": {variable.path: variable.value for variable in moments},
            "step": self.optimizer.iterations.value,
        }

    @tree.setter
    def tree(self, values: dict[str, Any]) -> None:
        for variable in self.model.weights:
            variable.assign(values["params"][variable.path])
        for variable in self.optimizer.variables:
            if variable is not self.optimizer.iterations:
                variable.assign(values["optimizer"][variable.path])
        self.optimizer.iterations.assign(values["step"])

    def __call__(self, iterator, steps: tf.Tensor) -> dict[str, Any]:
        """Takes `steps` global batches from a distributed iterator, one update each.

        A step whose loss or gradient is not finite leaves weights, moments and sums unchanged. It
        counts as a step all the same: data, dropout and learning rate move on.

        Returns:
            Sums and weights of the objective over the finite steps (`sums`, `weights`);
            `history`, float32 `[steps]` of every step by the names in `HISTORY`; `learning_rate`
            and `gradient_norm`, before clipping, of the last step; the optimizer's `measures` of
            the last finite step; `parameter_norm` after all steps; and `input_wait_seconds`
            (float64), the total time that batches arrived after the end of the previous step.
            Scalars are float32 unless stated otherwise.
        """
        with _unoptimized_graphs() if self.micro_batches > 1 else contextlib.nullcontext():
            return self._steps(iterator, steps)

    @tf.function(reduce_retracing=True, autograph=False)
    def _steps(self, iterator, steps: tf.Tensor) -> dict[str, Any]:
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
            {
                "sums": _zeros(self.objective.quantities),
                "weights": _zeros(self.objective.parts),
            },
            _zeros(("learning_rate", "gradient_norm")),
            _zeros(self.optimizer.measures),
            tf.TensorArray(tf.float32, steps, element_shape=[len(HISTORY)]),
            tf.zeros([], tf.float64),
            tf.timestamp(),
        )
        _, totals, last, measures, history, wait, _ = tf.while_loop(
            lambda number, *_: number < steps,
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
        """The time, in seconds, at which all of these are available; nothing else waits for it."""
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
        """Applies the update if gradients and sums over the global batch are finite."""
        gradients, norm = clip_by_global_norm(gradients, self.clip_norm)
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
        """Gradients and sums of a replica's share, one micro-batch at a time."""
        # Dropout depends only on seed, step and place in the batch: a restart needs no state.
        step = tf.cast(self.optimizer.iterations.value, tf.int64)
        first = tf.cast(replica_id, tf.int64) * self.micro_batches
        if self.micro_batches == 1:
            return self._compiled_gradients(batch, weights, step, first)
        parts = {
            name: tf.reshape(value, [self.micro_batches, -1, *_shape(value)[1:]])
            for name, value in batch.items()
        }
        gradients = [tf.zeros(weight.shape) for weight in self.model.trainable_weights]
        sums = _zeros(self.objective.quantities)

        def add(number, gradients, sums):
            micro_batch = {name: value[number] for name, value in parts.items()}
            place = first + tf.cast(number, tf.int64)
            more = self._compiled_gradients(micro_batch, weights, step, place)
            return number + 1, *tf.nest.map_structure(tf.add, (gradients, sums), more)

        _, gradients, sums = tf.while_loop(
            lambda number, *_: number < self.micro_batches,
            add,
            (0, gradients, sums),
            # In parallel, micro-batches would use the memory that they are meant to save.
            parallel_iterations=1,
        )
        return gradients, sums

    def _gradients(self, batch, weights, step, number):
        state = self.model.encoder.seed_generator.state
        state.assign(tf.stack([self.seed + step * 1_000_003, number * 2]))
        variables = [weight.value for weight in self.model.trainable_weights]
        execution = self._execution
        how = accepted_arguments(self.model.call, heads_only=True, execution=execution)
        fused = accepted_arguments(self.objective.sums, kernels=execution.kernels)
        with tf.GradientTape() as tape:
            outputs = self.model(model_features(self.model, batch), training=True, **how)
            sums = self.objective.sums(outputs, batch, **fused)
            loss = self.objective.loss(sums, weights)
        # Without sentence pairs, the loss does not depend on the sentence-order head.
        gradients = tape.gradient(
            loss, variables, unconnected_gradients=tf.UnconnectedGradients.ZERO
        )
        # Repeated rows of an IndexedSlices must be summed before moments and norms are computed.
        return [tf.convert_to_tensor(gradient) for gradient in gradients], sums


class EvalStep:
    """Runs a model without dropout and sums its objective; arguments as in `TrainStep`."""

    def __init__(
        self,
        model: keras.Model,
        objective: Objective,
        strategy: tf.distribute.Strategy,
        jit_compile: bool | None = None,
    ):
        self.model = model
        self.objective = objective
        self.strategy = strategy
        self._compiled_sums = _through_xla(self._sums, _needs_xla(jit_compile))

    @tf.function(reduce_retracing=True, autograph=False)
    def __call__(self, batch) -> dict[str, dict[str, tf.Tensor]]:
        """Sums and weights of one global batch of a distributed dataset."""
        results = self.strategy.run(self._compiled_sums, args=(batch,))
        return tf.nest.map_structure(
            lambda value: self.strategy.reduce(tf.distribute.ReduceOp.SUM, value, axis=None),
            results,
        )

    def _sums(self, batch):
        heads_only = accepted_arguments(self.model.call, heads_only=True)
        outputs = self.model(model_features(self.model, batch), training=False, **heads_only)
        return {
            "sums": self.objective.sums(outputs, batch),
            "weights": self.objective.weights(batch),
        }


class PredictStep:
    """Runs a model without dropout and returns its outputs; arguments as in `TrainStep`.

    Args:
        outputs: names of the model's outputs that are returned.
    """

    def __init__(
        self,
        model: keras.Model,
        strategy: tf.distribute.Strategy,
        outputs: Sequence[str],
        jit_compile: bool | None = None,
    ):
        self.model = model
        self.strategy = strategy
        self.outputs = tuple(outputs)
        self._compiled_inference = _through_xla(self._inference, _needs_xla(jit_compile))

    @tf.function(reduce_retracing=True, autograph=False)
    def __call__(self, iterator) -> tuple[tf.Tensor, dict[str, tf.Tensor]]:
        """Takes a global batch of any sequence length from a distributed iterator.

        Returns:
            `example_number` `[batch]` and the outputs `[batch, ...]`.
        """
        numbers, outputs = self.strategy.run(self._replica_step, args=(next(iterator),))
        gathered = {name: gather_in_order(self.strategy, each) for name, each in outputs.items()}
        return gather_in_order(self.strategy, numbers), gathered

    def _replica_step(self, batch):
        return batch["example_number"], self._compiled_inference(batch)

    def _inference(self, batch):
        heads_only = accepted_arguments(self.model.call, heads_only=True)
        outputs = self.model(model_features(self.model, batch), training=False, **heads_only)
        return {name: outputs[name] for name in self.outputs}
