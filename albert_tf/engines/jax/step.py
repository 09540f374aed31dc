"""One training step, the same on one device, several GPUs and TPU slices.

The loss is (sum of losses over the global batch) / (weight of the global batch). Weights are
all-reduced before the forward pass, gradients are summed over micro-batches and all-reduced as
sums, and the global gradient is clipped once. So the result depends neither on the number of
devices nor on the micro-batch.

The gradients of a device's share are a program of their own (`jax.shard_map`), in which kernels
such as those of attention run as they are. The update follows in the same compiled program, where
the compiler distributes it as the moments are.
"""

import contextlib
import time
from collections.abc import Iterator
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
import keras
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec

from albert_tf.engines import steps
from albert_tf.engines.jax.devices import DATA, JaxDevices
from albert_tf.engines.jax.kernels import create_kernels
from albert_tf.engines.steps import HISTORY, StepResults, accepted_arguments
from albert_tf.engines.workers import Workers
from albert_tf.errors import InputError
from albert_tf.modeling.kernels import Execution
from albert_tf.modeling.model import model_features

Batch: TypeAlias = dict[str, jax.Array]
# Values of variables by path.
Values: TypeAlias = dict[str, jax.Array]
# "params" and "optimizer", values by path, and "step": what a checkpoint contains.
State: TypeAlias = dict[str, Any]

# Steps that are started before the results of the first of them are there: enough to keep the
# device busy, few enough that their batches do not fill its memory.
_STEPS_IN_FLIGHT = 2

# How arrays are on the devices: whole on each of them, or with their first axis split over them.
REPLICATED = PartitionSpec()
SPLIT = PartitionSpec(DATA)


def clip_by_global_norm(gradients: list[jax.Array], clip_norm: float):
    """Scale gradients to a global norm of at most `clip_norm`, to zeros if it is not finite.

    The norm before clipping is returned, too.
    """
    norm = _global_norm(gradients)
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


@contextlib.contextmanager
def errors_in_one_line(kind: str, workers: Workers) -> Iterator[None]:
    """Report errors of a step of some kind, whose own messages have many lines.

    Those about lost workers are left to `workers`.

    Raises:
        InputError: If the memory does not suffice, or the step fails.
    """
    try:
        yield
    except jax.errors.JaxRuntimeError as error:
        if workers.count > 1 and workers.lost_by(error) is not None:
            raise
        reason = str(error).strip().splitlines()[0]
        if "RESOURCE_EXHAUSTED" in reason:
            raise InputError(
                f"out of memory in {kind} ({reason}); a smaller batch needs less memory, and in "
                "pretraining, so do `micro_batch_size` and `remat`"
            ) from None
        raise InputError(f"the {kind} step failed: {reason}") from None


def create_execution(devices: JaxDevices, remat: bool = False) -> Execution:
    """Return how layers are executed: with fused operations where the devices have them."""
    return Execution(create_kernels(devices.attention, devices.platform, devices.kind), remat)


class TrainingStep(steps.TrainingStep[JaxDevices]):
    """A training step, compiled into one program for every length of its batches."""

    def __post_init__(self):
        super().__post_init__()
        self.mesh = self.devices.mesh
        self._execution = create_execution(self.devices, self.options.remat)
        self._moment_paths = {moment.path for moment in self.moments}
        # Arguments of the program, which would otherwise contain their values.
        constants = enumerate(getattr(self.model, "constants", ()))
        self._constants = {f"constants/{number}": variable for number, variable in constants}
        # What one step returns, as a row of numbers.
        self._columns = (
            *(f"sums/{name}" for name in self.objective.quantities),
            *(f"weights/{name}" for name in self.objective.parts),
            *(f"measures/{name}" for name in self.optimizer.measures),
            *HISTORY,
            "learning_rate",
        )
        self.shardings = self._mapped(self._sharding_of)
        # Its first argument is the state before the step, whose memory is reused.
        self.program = jax.jit(self._step, donate_argnums=0, out_shardings=(self.shardings, None))
        self._norm = jax.jit(_global_norm)

    def _sharding_of(self, variable: keras.Variable) -> NamedSharding:
        """Return where a variable is: a moment may be split along its longest possible axis."""
        sizes = [size if size % self.mesh.size == 0 else 0 for size in variable.shape]
        is_split = self.devices.shard_optimizer_state and variable.path in self._moment_paths
        if not is_split or not any(sizes):
            return NamedSharding(self.mesh, REPLICATED)
        axis = int(np.argmax(sizes))
        return NamedSharding(self.mesh, PartitionSpec(*[None] * axis, DATA))

    def _value(self, variable: keras.Variable) -> jax.Array:
        return place(variable, self._sharding_of(variable))

    def _assign(self, variable: keras.Variable, value: Any) -> None:
        place(variable, self._sharding_of(variable), value)

    def __call__(self, batches: Iterator, count: int) -> StepResults:
        state, wait = self.tree, 0.0
        constants = {name: self._value(each) for name, each in self._constants.items()}
        rows: list[jax.Array] = []
        with errors_in_one_line("training", self.devices.workers):
            for _ in range(count):
                # The device waits for data if it has nothing left to do.
                idle = not rows or rows[-1].is_ready()
                begin = time.monotonic()
                batch = next(batches)
                wait += idle * (time.monotonic() - begin)
                state, row = self.program(state, batch, constants)
                rows.append(row)
                if len(rows) > _STEPS_IN_FLIGHT:
                    rows[-1 - _STEPS_IN_FLIGHT].block_until_ready()
            self.tree = state
            weights = [state["params"][v.path] for v in self.model.trainable_weights]
            norm = float(self._norm(weights))
            table = dict(zip(self._columns, np.stack(jax.device_get(rows)).T, strict=True))
        return self._results(table, norm, wait)

    def _results(self, table: dict[str, np.ndarray], norm: float, wait: float) -> StepResults:
        """Return the results of some steps, from their columns `[steps]`."""

        def of_kind(kind: str) -> dict[str, np.ndarray]:
            names = [name for name in table if name.startswith(f"{kind}/")]
            return {name.removeprefix(f"{kind}/"): table[name] for name in names}

        history = {name: table[name] for name in HISTORY}
        finite = np.flatnonzero(history["finite"])
        measures = {
            name: float(values[finite[-1]]) if len(finite) else 0.0
            for name, values in of_kind("measures").items()
        }
        scalars = {
            "learning_rate": float(table["learning_rate"][-1]),
            "gradient_norm": float(history["gradient_norm"][-1]),
            **measures,
            "parameter_norm": norm,
            "input_wait_seconds": wait,
        }
        sums, weights = (
            {name: float(values.sum()) for name, values in of_kind(kind).items()}
            for kind in ("sums", "weights")
        )
        return StepResults(sums, weights, scalars, history)

    def _checksums(self) -> tuple[list[str], np.ndarray]:
        state = self.tree
        values = {**state["params"], **state["optimizer"]}
        copies = {path: v for path, v in values.items() if v.sharding.is_fully_replicated}

        def of_device(copies):
            bits = [jax.lax.bitcast_convert_type(value, jnp.int32) for value in copies.values()]
            return jnp.stack([jnp.sum(each) for each in bits])[None]

        of_all = jax.shard_map(
            of_device, mesh=self.mesh, in_specs=REPLICATED, out_specs=SPLIT, check_vma=False
        )
        everywhere = NamedSharding(self.mesh, REPLICATED)
        return list(copies), np.asarray(jax.jit(of_all, out_shardings=everywhere)(copies))

    def _step(
        self, state: State, batch: Batch, constants: Values | None = None
    ) -> tuple[State, jax.Array]:
        """Return the state after a step on a global batch, and a row of `_columns`, float32.

        `constants` are the values of `_constants`. Sums and weights of a step that is not finite
        are 0.
        """
        local = jax.shard_map(
            self._local_gradients,
            mesh=self.mesh,
            in_specs=(REPLICATED, SPLIT, REPLICATED),
            out_specs=REPLICATED,
            # Otherwise, JAX all-reduces the gradients of every micro-batch by itself.
            check_vma=False,
        )
        params = state["params"] | (constants or {})
        gradients, sums, weights = local(params, batch, state["step"])
        gradients, norm = clip_by_global_norm(gradients, self.options.clip_norm)
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
        optimizer, params = self.optimizer, state["params"]
        values = [(v, params[v.path]) for v in self.model.weights]
        values += [(v, state["optimizer"][v.path]) for v in self.moments]
        values += [(optimizer.iterations, state["step"])]
        with keras.StatelessScope(state_mapping=values) as scope:
            learning_rate = jnp.asarray(keras.ops.convert_to_tensor(optimizer.learning_rate))
            measures = optimizer.update(gradients, finite)
        new = scope.get_current_value
        new_state = {
            "params": {v.path: new(v) for v in self.model.weights},
            "optimizer": {v.path: new(v) for v in self.moments},
            "step": state["step"] + 1,
        }
        return new_state, measures, learning_rate

    def _local_gradients(self, params: Values, batch: Batch, step):
        """Return gradients, sums and weights of the global batch from this device's shard."""
        weights = jax.lax.psum(self.objective.weights(batch), DATA)
        first = jax.lax.axis_index(DATA) * self.options.micro_batches

        def of_part(number, part):
            return self._gradients(params, part, weights, step, first + number)

        if self.options.micro_batches == 1:
            gradients, sums = of_part(0, batch)
        else:
            parts = {
                name: value.reshape(self.options.micro_batches, -1, *value.shape[1:])
                for name, value in batch.items()
            }

            def add(total, numbered):
                return jax.tree.map(jnp.add, total, of_part(*numbered)), None

            shapes = jax.eval_shape(of_part, 0, jax.tree.map(lambda part: part[0], parts))
            nothing = jax.tree.map(lambda each: jnp.zeros(each.shape, each.dtype), shapes)
            numbered = jnp.arange(self.options.micro_batches), parts
            (gradients, sums), _ = jax.lax.scan(add, nothing, numbered)
        gradients, sums = jax.lax.psum((gradients, sums), DATA)
        return gradients, sums, weights

    def _gradients(self, params: Values, batch: Batch, weights, step, number):
        """Return gradients and sums of one micro-batch, the `number`th of the global batch."""
        # Dropout depends only on seed, step and place in the batch: a restart needs no state.
        state = self.model.encoder.seed_generator.state
        seed = jnp.stack([self.options.seed + step * 1_000_003, number * 2]).astype(state.dtype)
        accepted = accepted_arguments(self.model.call, heads_only=True, execution=self._execution)
        fused = accepted_arguments(self.objective.sums, kernels=self._execution.kernels)

        def loss_of(trainable: Values):
            given = params | trainable
            mapping = [(weight, given[weight.path]) for weight in self.model.weights]
            mapping += [(variable, given[name]) for name, variable in self._constants.items()]
            with keras.StatelessScope(state_mapping=[*mapping, (state, seed)]):
                outputs = self.model(model_features(self.model, batch), training=True, **accepted)
                sums = self.objective.sums(outputs, batch, **fused)
                return self.objective.loss(sums, weights), sums

        paths = [weight.path for weight in self.model.trainable_weights]
        differentiate = jax.value_and_grad(loss_of, has_aux=True)
        (_, sums), gradients = differentiate({path: params[path] for path in paths})
        return [gradients[path] for path in paths], sums


def _global_norm(values: list[jax.Array]) -> jax.Array:
    return jnp.sqrt(sum(jnp.sum(jnp.square(value)) for value in values))
