"""One training step, the same on one device, several GPUs and TPU slices.

The loss is (sum of losses over the global batch) / (weight of the global batch). Weights are
all-reduced before the forward pass, gradients are summed over micro-batches and all-reduced as
sums, and the global gradient is clipped once. So the result depends neither on the number of
devices nor on the micro-batch.

The gradients of a device's share are a program of their own (`jax.shard_map`), in which kernels
such as those of attention run as they are. The update follows in the same compiled program, where
the compiler distributes it as the moments are.
"""

from __future__ import annotations

import functools
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
import keras
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from albert_tf.engines.jax.devices import DATA
from albert_tf.engines.steps import HISTORY, accepted_arguments
from albert_tf.modeling.execution import Execution
from albert_tf.modeling.inputs import model_features
from albert_tf.modeling.losses import Objective
from albert_tf.optimization.optimizers import AdamW

Batch: TypeAlias = dict[str, jax.Array]
# Values of variables by path.
Values: TypeAlias = dict[str, jax.Array]
# "params" and "optimizer", values by path, and "step": what a checkpoint contains.
State: TypeAlias = dict[str, Any]

# How arrays are on the devices: whole on each of them, or with their first axis split over them.
REPLICATED = PartitionSpec()
SPLIT = PartitionSpec(DATA)


def clip_by_global_norm(gradients: list[jax.Array], clip_norm: float):
    """Scales gradients to a global norm of at most `clip_norm`.

    Returns:
        The gradients, zeros if their norm is not finite, and the norm before clipping.
    """
    norm = jnp.sqrt(sum(jnp.sum(jnp.square(gradient)) for gradient in gradients))
    factor = clip_norm / jnp.maximum(norm, clip_norm) if clip_norm else jnp.ones([])
    finite = jnp.isfinite(norm)
    return [jnp.where(finite, gradient * factor, 0.0) for gradient in gradients], norm


def place(variable: keras.Variable, sharding: NamedSharding, value: Any = None) -> jax.Array:
    """Return the value of a variable on all devices, or another one; the variable keeps it."""
    value = variable.value if value is None else value
    if getattr(value, "sharding", None) != sharding:
        local = np.asarray(value, variable.dtype)
        value = jax.make_array_from_callback(local.shape, sharding, lambda index: local[index])
    if value is not variable.value:
        variable.assign(value)
    return value


class TrainStep:
    """A training step, compiled into one program for every length of its batches.

    Between steps, the variables of model and optimizer have the current values.

    Args:
        model: a model with an `encoder` that has the dropout's `seed_generator`.
        optimizer: built here, on the model's trainable weights.
        objective: what is minimized.
        mesh: the devices, along the axis `DATA`.
        execution: how the model's layers are executed.
        micro_batches: parts into which each device's share of a batch is split.
        clip_norm: global norm to clip to, 0 for no clipping.
        seed: seed of the dropout.
        shard_optimizer_state: whether every device keeps only its part of the moments.
    """

    def __init__(
        self,
        model: keras.Model,
        optimizer: AdamW,
        objective: Objective,
        mesh: Mesh,
        execution: Execution,
        micro_batches: int = 1,
        clip_norm: float = 1.0,
        seed: int = 0,
        shard_optimizer_state: bool = False,
    ):
        self.model = model
        self.optimizer = optimizer
        self.objective = objective
        self.mesh = mesh
        self.micro_batches = micro_batches
        self.clip_norm = clip_norm
        self.seed = seed
        self._execution = execution
        self._shards_moments = shard_optimizer_state
        optimizer.build(model.trainable_weights)
        self._moments = [v for v in optimizer.variables if v is not optimizer.iterations]
        # What one step returns, as a row of numbers.
        self.columns = (
            *(f"sums/{name}" for name in objective.quantities),
            *(f"weights/{name}" for name in objective.parts),
            *(f"measures/{name}" for name in optimizer.measures),
            *HISTORY,
            "learning_rate",
        )
        self._run = jax.jit(self.step, donate_argnums=0, out_shardings=(self.shardings, None))
        self._norm = jax.jit(_global_norm)

    @functools.cached_property
    def shardings(self) -> dict[str, Any]:
        """Where the values of the state are, in its structure."""
        replicated = NamedSharding(self.mesh, REPLICATED)
        return {
            "params": {weight.path: replicated for weight in self.model.weights},
            "optimizer": {moment.path: self._of_moment(moment) for moment in self._moments},
            "step": replicated,
        }

    def _of_moment(self, moment: keras.Variable) -> NamedSharding:
        """A moment is split along its longest axis of those that the devices divide."""
        sizes = [size if size % self.mesh.size == 0 else 0 for size in moment.shape]
        if not self._shards_moments or not any(sizes):
            return NamedSharding(self.mesh, REPLICATED)
        axis = int(np.argmax(sizes))
        return NamedSharding(self.mesh, PartitionSpec(*[None] * axis, DATA))

    @property
    def tree(self) -> State:
        """The current state, on all devices."""
        where = self.shardings
        return {
            "params": {v.path: place(v, where["params"][v.path]) for v in self.model.weights},
            "optimizer": {v.path: place(v, where["optimizer"][v.path]) for v in self._moments},
            "step": place(self.optimizer.iterations, where["step"]),
        }

    @tree.setter
    def tree(self, state: State) -> None:
        where = self.shardings
        for kind, variables in (("params", self.model.weights), ("optimizer", self._moments)):
            for variable in variables:
                place(variable, where[kind][variable.path], state[kind][variable.path])
        place(self.optimizer.iterations, where["step"], state["step"])

    def __call__(self, state: State, batch: Batch) -> tuple[State, jax.Array]:
        """Starts a step, and returns before it is done.

        A step whose loss or gradient is not finite leaves weights and moments unchanged. It counts
        as a step all the same.

        Args:
            state: as from `tree`; its memory is reused.
            batch: a global batch, split over the devices.

        Returns:
            The state after the step, and float32 `[columns]`: the quantities in `columns`. Sums and
            weights of a step that is not finite are 0.
        """
        return self._run(state, batch)

    def lower(self, state: State, batch: Batch) -> jax.stages.Lowered:
        """The program of a step, not compiled; arguments may be `jax.ShapeDtypeStruct`s."""
        return self._run.lower(state, batch)

    def parameter_norm(self, state: State) -> jax.Array:
        """The global norm of the trainable weights."""
        return self._norm([state["params"][v.path] for v in self.model.trainable_weights])

    def step(self, state: State, batch: Batch) -> tuple[State, jax.Array]:
        """What is compiled."""
        local = jax.shard_map(
            self._local_gradients,
            mesh=self.mesh,
            in_specs=(REPLICATED, SPLIT, REPLICATED),
            out_specs=REPLICATED,
            # Otherwise, JAX all-reduces the gradients of every micro-batch by itself.
            check_vma=False,
        )
        gradients, sums, weights = local(state["params"], batch, state["step"])
        gradients, norm = clip_by_global_norm(gradients, self.clip_norm)
        loss = self.objective.loss(sums, weights)
        finite = jnp.isfinite(norm) & jnp.isfinite(loss)
        new_state, measures, learning_rate = self._update(state, gradients, finite)
        history = {
            "loss": loss,
            "gradient_norm": norm,
            "finite": finite,
            "length": batch["input_ids"].shape[-1],
        }
        row = [jnp.where(finite, sums[name], 0.0) for name in self.objective.quantities]
        row += [jnp.where(finite, weights[name], 0.0) for name in self.objective.parts]
        row += [measures[name] for name in self.optimizer.measures]
        row += [history[name] for name in HISTORY]
        row = jnp.stack([jnp.asarray(value, jnp.float32) for value in (*row, learning_rate)])
        return new_state, jax.lax.with_sharding_constraint(row, self.shardings["step"])

    def _update(self, state: State, gradients, finite):
        """Applies an update that is finite."""
        optimizer, params = self.optimizer, state["params"]
        values = [(v, params[v.path]) for v in self.model.weights]
        values += [(v, state["optimizer"][v.path]) for v in self._moments]
        values += [(optimizer.iterations, state["step"])]
        with keras.StatelessScope(state_mapping=values) as scope:
            learning_rate = jnp.asarray(keras.ops.convert_to_tensor(optimizer.learning_rate))
            measures = optimizer.update(gradients, finite)
        new = scope.get_current_value
        new_state = {
            "params": {v.path: new(v) for v in self.model.weights},
            "optimizer": {v.path: new(v) for v in self._moments},
            "step": state["step"] + 1,
        }
        return new_state, measures, learning_rate

    def _local_gradients(self, params: Values, batch: Batch, step):
        """Gradients, sums and weights of the global batch, from this device's share of it."""
        weights = jax.lax.psum(self.objective.weights(batch), DATA)
        first = jax.lax.axis_index(DATA) * self.micro_batches

        def of_part(number, part):
            return self._gradients(params, part, weights, step, first + number)

        if self.micro_batches == 1:
            gradients, sums = of_part(0, batch)
        else:
            parts = {
                name: value.reshape(self.micro_batches, -1, *value.shape[1:])
                for name, value in batch.items()
            }

            def add(total, numbered):
                return jax.tree.map(jnp.add, total, of_part(*numbered)), None

            shapes = jax.eval_shape(of_part, 0, jax.tree.map(lambda part: part[0], parts))
            nothing = jax.tree.map(lambda each: jnp.zeros(each.shape, each.dtype), shapes)
            numbered = jnp.arange(self.micro_batches), parts
            (gradients, sums), _ = jax.lax.scan(add, nothing, numbered)
        gradients, sums = jax.lax.psum((gradients, sums), DATA)
        return gradients, sums, weights

    def _gradients(self, params: Values, batch: Batch, weights, step, number):
        """Gradients and sums of one micro-batch, the `number`th of the global batch."""
        # Dropout depends only on seed, step and place in the batch: a restart needs no state.
        state = self.model.encoder.seed_generator.state
        seed = jnp.stack([self.seed + step * 1_000_003, number * 2]).astype(state.dtype)
        how = accepted_arguments(self.model.call, heads_only=True, execution=self._execution)
        fused = accepted_arguments(self.objective.sums, kernels=self._execution.kernels)

        def loss_of(trainable: Values):
            given = params | trainable
            mapping = [(weight, given[weight.path]) for weight in self.model.weights]
            with keras.StatelessScope(state_mapping=[*mapping, (state, seed)]):
                outputs = self.model(model_features(self.model, batch), training=True, **how)
                sums = self.objective.sums(outputs, batch, **fused)
                return self.objective.loss(sums, weights), sums

        paths = [weight.path for weight in self.model.trainable_weights]
        differentiate = jax.value_and_grad(loss_of, has_aux=True)
        (_, sums), gradients = differentiate({path: params[path] for path in paths})
        return [gradients[path] for path in paths], sums


def _global_norm(values: list[jax.Array]) -> jax.Array:
    return jnp.sqrt(sum(jnp.sum(jnp.square(value)) for value in values))
