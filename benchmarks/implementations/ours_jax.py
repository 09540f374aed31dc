"""albert_tf on Keras's JAX backend: a pretraining step as one compiled function, no TensorFlow."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import keras
import numpy as np
from keras import ops

from albert_tf.config import AlbertConfig
from albert_tf.errors import InputError
from albert_tf.modeling.attention import dot_product_attention
from albert_tf.modeling.heads import AlbertForPreTraining
from albert_tf.modeling.losses import PretrainingObjective
from albert_tf.optimization import create_optimizer
from benchmarks.implementations import matrix_products_jax
from benchmarks.implementations.workload import Workload

device = matrix_products_jax.device

_POLICIES = {"float32": "float32", "bfloat16": "mixed_bfloat16"}
_CLIP_NORM = 1.0


def flash_attention(query, key, value, attention_mask, dropout=None):
    """Attention that never writes the scores to memory: cuDNN's on a GPU (arXiv 2205.14135).

    Padding must be at the end of the sequence, as it is in all data of this project. It is left
    out, whereas the plain form adds -10000 to its scores. On other devices XLA computes the same.
    Where only a few positions attend, as in the last layer, the plain form is used.
    """
    if dropout is not None:
        raise InputError("`attention_probs_dropout_prob`: flash attention has no dropout here")
    if query.shape[2] != key.shape[2]:
        return dot_product_attention(query, key, value, attention_mask)
    # JAX expects positions before heads; the compiler removes the double transposition.
    query, key, value = (ops.transpose(each, (0, 2, 1, 3)) for each in (query, key, value))
    context = jax.nn.dot_product_attention(
        query,
        key,
        value,
        key_value_seq_lengths=ops.sum(ops.cast(attention_mask, "int32"), axis=-1),
        implementation="cudnn" if jax.default_backend() == "gpu" else "xla",
    )
    return ops.transpose(context, (0, 2, 1, 3))


# `attention` of the benchmark -> `attention` of the model.
ATTENTION = {"plain": "dot_product", "flash": flash_attention}


def clip_by_global_norm(gradients: list, clip_norm: float) -> list:
    """Gradients scaled so that their global norm is at most `clip_norm`."""
    norm = jnp.sqrt(sum(jnp.sum(jnp.square(gradient)) for gradient in gradients))
    factor = clip_norm / jnp.maximum(norm, clip_norm)
    return [gradient * factor for gradient in gradients]


class Pretraining:
    """Pretrains a model on the same batch over and over.

    Weights and moments are in `state` only: each step reuses the memory of the one before, so the
    Keras variables are invalid after the first step.

    Args:
        config: shape of the model.
        batch: by the names of the TFRecord features, NumPy.
        dtype: "float32", or "bfloat16" for computing in it with weights in float32.
        attention: a key of `ATTENTION`.
    """

    def __init__(
        self,
        config: AlbertConfig,
        batch: dict[str, np.ndarray],
        dtype: str = "float32",
        attention: str = "plain",
    ):
        model = AlbertForPreTraining(config, attention=ATTENTION[attention], dtype=_POLICIES[dtype])
        optimizer, objective = create_optimizer("lamb", 1e-4), PretrainingObjective()
        optimizer.build(model.trainable_variables)
        groups = model.trainable_variables, model.non_trainable_variables, optimizer.variables
        self.paths = [variable.path for variable in model.trainable_variables]
        self.state = tuple([variable.value for variable in group] for group in groups)
        self.batch = jax.device_put(batch)

        def step(state, batch):
            weights, others, moments = state

            def loss_of(weights):
                outputs, changed = model.stateless_call(
                    weights, others, batch, training=True, heads_only=True
                )
                sums = objective.sums(outputs, batch)
                return objective.loss(sums, objective.weights(batch)), changed

            (loss, others), gradients = jax.value_and_grad(loss_of, has_aux=True)(weights)
            gradients = clip_by_global_norm(gradients, _CLIP_NORM)
            weights, moments = optimizer.stateless_apply(moments, gradients, weights)
            return (weights, others, moments), loss

        self._step = jax.jit(step, donate_argnums=0)

    def run(self, steps: int) -> float:
        """Runs steps and waits for them; returns the loss before the last update."""
        for _ in range(steps):
            self.state, loss = self._step(self.state, self.batch)
        jax.block_until_ready(self.state)
        return float(loss)

    def weights(self) -> dict[str, np.ndarray]:
        """The current weights by path."""
        return dict(zip(self.paths, map(np.array, self.state[0]), strict=True))


def prepare(workload: Workload, attention: str):
    """Returns a function that runs a number of steps."""
    if workload.task != "pretraining":
        raise InputError(f"task {workload.task!r}: only pretraining is available on JAX")
    keras.utils.set_random_seed(0)
    config = AlbertConfig(**workload.config)
    return Pretraining(config, workload.batch(), workload.dtype, attention).run
