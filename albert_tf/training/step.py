"""One training step, the same on one device, several GPUs and TPU.

The gradient is that of (sum of losses over the global batch) / (weight of the global batch): the
weights are all-reduced before the forward pass, gradients are added up over micro-batches and
all-reduced as sums, and the global gradient is clipped once. So neither the number of replicas nor
the micro-batch changes what is computed.
"""

from __future__ import annotations

from collections.abc import Sequence

import keras
import tensorflow as tf

from albert_tf.modeling.kernels import PLAIN, Kernels, using
from albert_tf.modeling.losses import Objective
from albert_tf.optimization.adamw import AdamW
from albert_tf.training.cpu_kernels import CPU_KERNELS


def clip_by_global_norm(gradients: list[tf.Tensor], clip_norm: float):
    """Gradients scaled so that their global norm is at most `clip_norm`; and the norm before."""
    norm = tf.linalg.global_norm(gradients)
    if not clip_norm:
        return gradients, norm
    factor = clip_norm / tf.maximum(norm, clip_norm)
    return [gradient * factor for gradient in gradients], norm


def _zeros(names: Sequence[str]) -> dict[str, tf.Tensor]:
    return {name: tf.zeros([]) for name in names}


class TrainStep:
    """Runs training steps inside the graph.

    Args:
        model: a model with an `encoder` that holds the dropout's `seed_generator`.
        optimizer: built here, on the model's trainable weights.
        objective: what is minimised.
        strategy: where the steps run; model and optimizer were made under its scope.
        micro_batches: parts into which each replica's share of a batch is split.
        clip_norm: global norm to clip to, 0 for no clipping.
        seed: seed of the dropout.
        kernels: forms of pointwise chains; None for those that suit the devices at hand.
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
        kernels: Kernels | None = None,
    ):
        self.model = model
        self.optimizer = optimizer
        self.objective = objective
        self.strategy = strategy
        self.micro_batches = micro_batches
        self.clip_norm = clip_norm
        self.seed = seed
        has_accelerator = any(tf.config.list_logical_devices(kind) for kind in ("GPU", "TPU"))
        self._kernels = kernels or (PLAIN if has_accelerator else CPU_KERNELS)
        with strategy.scope():
            optimizer.build(model.trainable_weights)

    @tf.function(reduce_retracing=True)
    def __call__(self, iterator, steps: tf.Tensor) -> dict[str, tf.Tensor]:
        """Takes `steps` global batches from a distributed iterator, one update each.

        Returns:
            Sums and weights of the objective over all steps (`sums`, `weights`), and of the last
            step `learning_rate` and `gradient_norm`, before clipping. Float32 scalars.
        """
        totals = {
            "sums": _zeros(self.objective.quantities),
            "weights": _zeros(self.objective.parts),
        }
        last = _zeros(("learning_rate", "gradient_norm"))
        for _ in tf.range(steps):
            results, last = self._one_step(next(iterator))
            totals = tf.nest.map_structure(tf.add, totals, results)
        return {**totals, **last}

    def _one_step(self, batch):
        learning_rate = tf.convert_to_tensor(self.optimizer.learning_rate)
        results = self.strategy.run(self._replica_step, args=(batch,))
        # Every replica returns what was all-reduced, so any of them will do.
        results = tf.nest.map_structure(
            lambda value: self.strategy.experimental_local_results(value)[0], results
        )
        self.optimizer.iterations.assign_add(1)
        totals = {name: results[name] for name in ("sums", "weights")}
        return totals, {"learning_rate": learning_rate, "gradient_norm": results["gradient_norm"]}

    def _replica_step(self, batch):
        replica = tf.distribute.get_replica_context()
        weights = replica.all_reduce(tf.distribute.ReduceOp.SUM, self.objective.weights(batch))
        gradients, sums = self._accumulate(batch, weights, replica.replica_id_in_sync_group)
        gradients, sums = replica.all_reduce(tf.distribute.ReduceOp.SUM, (gradients, sums))
        gradients, norm = clip_by_global_norm(gradients, self.clip_norm)
        self.optimizer.update(gradients)
        return {"sums": sums, "weights": weights, "gradient_norm": norm}

    def _accumulate(self, batch, weights, replica_id):
        """Gradients and sums of a replica's share, one micro-batch at a time."""
        # Dropout depends on seed, step and place in the batch only: a restart needs no state.
        step = tf.cast(self.optimizer.iterations.value, tf.int64)
        first = tf.cast(replica_id, tf.int64) * self.micro_batches
        if self.micro_batches == 1:
            return self._gradients(batch, weights, step, first)
        parts = {
            name: tf.reshape(value, [self.micro_batches, -1, *value.shape[1:]])
            for name, value in batch.items()
        }
        gradients = [tf.zeros(weight.shape) for weight in self.model.trainable_weights]
        sums = _zeros(self.objective.quantities)
        for number in tf.range(self.micro_batches):
            micro_batch = {name: value[number] for name, value in parts.items()}
            more = self._gradients(micro_batch, weights, step, first + tf.cast(number, tf.int64))
            gradients, sums = tf.nest.map_structure(tf.add, (gradients, sums), more)
        return gradients, sums

    def _gradients(self, batch, weights, step, number):
        state = self.model.encoder.seed_generator.state
        state.assign(tf.stack([self.seed + step * 1_000_003, number * 2]))
        with using(self._kernels), tf.GradientTape() as tape:
            outputs = self.model(batch, training=True)
            sums = self.objective.sums(outputs, batch)
            loss = self.objective.loss(sums, weights)
        variables = [weight.value for weight in self.model.trainable_weights]
        # Without pairs nothing is asked of the sentence-order head.
        gradients = tape.gradient(
            loss, variables, unconnected_gradients=tf.UnconnectedGradients.ZERO
        )
        # Repeated rows of an IndexedSlices must be added up before moments and norms are taken.
        return [tf.convert_to_tensor(gradient) for gradient in gradients], sums


class EvalStep:
    """Runs a model without dropout and adds up its objective; arguments as in `TrainStep`."""

    def __init__(self, model: keras.Model, objective: Objective, strategy: tf.distribute.Strategy):
        self.model = model
        self.objective = objective
        self.strategy = strategy

    @tf.function(reduce_retracing=True)
    def __call__(self, batch) -> dict[str, dict[str, tf.Tensor]]:
        """Sums and weights of one global batch of a distributed dataset."""
        results = self.strategy.run(self._replica_step, args=(batch,))
        return tf.nest.map_structure(
            lambda value: self.strategy.reduce(tf.distribute.ReduceOp.SUM, value, axis=None),
            results,
        )

    def _replica_step(self, batch):
        outputs = self.model(batch, training=False)
        return {
            "sums": self.objective.sums(outputs, batch),
            "weights": self.objective.weights(batch),
        }


class PredictStep:
    """Runs a model without dropout and hands out its logits; arguments as in `TrainStep`."""

    def __init__(self, model: keras.Model, strategy: tf.distribute.Strategy):
        self.model = model
        self.strategy = strategy

    @tf.function(reduce_retracing=True)
    def __call__(self, batch) -> tuple[tf.Tensor, tf.Tensor]:
        """`is_real_example` `[batch]` and logits `[batch, labels]` of one global batch."""
        results = self.strategy.run(self._replica_step, args=(batch,))
        return tuple(self.strategy.gather(value, axis=0) for value in results)

    def _replica_step(self, batch):
        return batch["is_real_example"], self.model(batch, training=False)["logits"]
