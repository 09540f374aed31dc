"""The JAX engine: one compiled program over the CPUs, GPUs or TPUs of all processes."""

from __future__ import annotations

import collections
import contextlib
import random
import time
from collections.abc import Iterator, Sequence
from typing import Any

import jax
import keras
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from albert_tf.engines import base, steps
from albert_tf.engines.device_options import DeviceOptions
from albert_tf.engines.jax.batches import PrefetchedBatches
from albert_tf.engines.jax.checkpoints import Checkpoints
from albert_tf.engines.jax.devices import DATA, Devices, create_devices, describe, precision_of
from albert_tf.engines.jax.forward import EvalStep, PredictStep
from albert_tf.engines.jax.kernels import create_kernels
from albert_tf.engines.jax.replicas import check_replicas
from albert_tf.engines.jax.step import TrainStep
from albert_tf.engines.workers import Workers
from albert_tf.errors import InputError
from albert_tf.hardware.peaks import gpu_peak, tpu_peak_flops
from albert_tf.input.streams import BatchSource, BatchStream, Shard
from albert_tf.modeling.execution import Execution
from albert_tf.modeling.losses import Objective
from albert_tf.optimization.optimizers import AdamW

# Steps that are started before the results of the first of them are there: enough to keep the
# device busy, few enough that their batches do not fill its memory.
_STEPS_IN_FLIGHT = 2


class JaxEngine(base.Engine):
    """JAX on the devices of a mesh.

    Args:
        devices: of this process, or of several.
        attention: "auto", "plain" or "fused" (see `albert_tf.engines.jax.attention`).
        shard_optimizer_state: whether every device keeps only its part of the moments.
    """

    name = "jax"
    checks_lengths = True
    _checkpoints = Checkpoints

    def __init__(
        self, devices: Devices, attention: str = "auto", shard_optimizer_state: bool = False
    ):
        self.mesh: Mesh = devices.mesh
        self.workers: Workers = devices.workers
        self._attention = attention
        self._shards_optimizer_state = shard_optimizer_state

    @classmethod
    def create(cls, options: DeviceOptions) -> JaxEngine:
        return cls(create_devices(options), options.attention, options.shard_optimizer_state)

    # Devices

    @property
    def num_replicas(self) -> int:
        return self.mesh.size

    @property
    def _platform(self) -> str:
        return self.mesh.devices[0].platform

    @property
    def is_tpu(self) -> bool:
        return self._platform == "tpu"

    def describe(self) -> str:
        return describe(Devices(self.mesh, self.workers))

    def peak_flops(self, peak_tflops: float = 0.0) -> float | None:
        kind = self.mesh.devices[0].device_kind
        peak = peak_tflops * 1e12 or (tpu_peak_flops(kind) if self.is_tpu else None)
        if not peak and self._platform == "gpu":
            peak = (gpu_peak(kind) or 0.0) * 1e12
        return peak * self.num_replicas if peak else None

    def preferred_dtype(self) -> tuple[str, str]:
        return precision_of(self.mesh.devices[0])

    def device_memory_peak(self) -> int | None:
        statistics = [device.memory_stats() for device in self.mesh.local_devices]
        peaks = [each["peak_bytes_in_use"] for each in statistics if each]
        return max(peaks, default=None)

    # Model and steps

    def set_random_seed(self, seed: int) -> None:
        # Initializers take their seeds from here. `keras.utils.set_random_seed` does the same, and
        # imports TensorFlow wherever it is installed.
        random.seed(seed)
        np.random.seed(seed % 2**32)

    def scope(self) -> contextlib.AbstractContextManager:
        return contextlib.nullcontext()

    def create_training_step(
        self,
        model: keras.Model,
        optimizer: AdamW,
        objective: Objective,
        *,
        micro_batches: int = 1,
        clip_norm: float = 1.0,
        seed: int = 0,
        remat: bool = False,
    ) -> TrainingStep:
        step = TrainStep(
            model,
            optimizer,
            objective,
            self.mesh,
            self._execution(remat),
            micro_batches=micro_batches,
            clip_norm=clip_norm,
            seed=seed,
            shard_optimizer_state=self._shards_optimizer_state,
        )
        return TrainingStep(step, self.workers)

    def create_evaluation_step(self, model: keras.Model, objective: Objective) -> EvaluationStep:
        step = EvalStep(model, objective, self.mesh, self._execution())
        return EvaluationStep(step, self.workers)

    def create_prediction_step(self, model: keras.Model, outputs: Sequence[str]) -> PredictionStep:
        step = PredictStep(model, outputs, self.mesh, self._execution())
        return PredictionStep(step, self.workers)

    def _execution(self, remat: bool = False) -> Execution:
        return Execution(create_kernels(self._attention, self._platform), remat)

    # Input

    def iterate(self, stream: BatchStream, first_step: int = 0) -> Iterator:
        source = stream.batches(Shard(self.workers.index, self.workers.count))
        return _on_devices(source, first_step, NamedSharding(self.mesh, PartitionSpec(DATA)))


def _on_devices(source: BatchSource, first_step: int, sharding: NamedSharding) -> Iterator:
    """Yield global batches on the devices, each copied there while the one before is computed."""

    def copy(rows: dict[str, np.ndarray]) -> dict[str, jax.Array]:
        return {
            name: jax.make_array_from_process_local_data(sharding, value)
            for name, value in rows.items()
        }

    with PrefetchedBatches(source, first_step) as iterator:
        waiting: collections.deque = collections.deque()
        for rows in iterator:
            waiting.append(copy(rows))
            if len(waiting) > 1:
                yield waiting.popleft()
        yield from waiting


class TrainingStep(steps.TrainingStep):
    """A `TrainStep` behind the protocol.

    Attributes:
        program: the step.
    """

    def __init__(self, program: TrainStep, workers: Workers):
        self.program = program
        self._workers = workers

    @property
    def step(self) -> int:
        return int(self.program.optimizer.iterations.value)

    def __call__(self, batches: Iterator, count: int) -> steps.StepResults:
        state, wait = self.program.tree, 0.0
        rows: list[jax.Array] = []
        with _errors_in_one_line("training", self._workers):
            for _ in range(count):
                # The device waits for data if it has nothing left to do.
                idle = not rows or rows[-1].is_ready()
                begin = time.monotonic()
                batch = next(batches)
                wait += idle * (time.monotonic() - begin)
                state, row = self.program(state, batch)
                rows.append(row)
                if len(rows) > _STEPS_IN_FLIGHT:
                    rows[-1 - _STEPS_IN_FLIGHT].block_until_ready()
            self.program.tree = state
            norm = float(self.program.parameter_norm(state))
            table = dict(zip(self.program.columns, np.stack(jax.device_get(rows)).T, strict=True))
        return self._results(table, norm, wait)

    def _results(self, table: dict[str, np.ndarray], norm: float, wait: float) -> steps.StepResults:
        """The results of some steps, from their columns `[steps]`."""

        def of_kind(kind: str) -> dict[str, np.ndarray]:
            names = [name for name in table if name.startswith(f"{kind}/")]
            return {name.removeprefix(f"{kind}/"): table[name] for name in names}

        history = {name: table[name] for name in steps.HISTORY}
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
        return steps.StepResults(sums, weights, scalars, history)

    def check_replicas(self) -> None:
        check_replicas(self.program, self.step, self._workers)


class EvaluationStep(steps.EvaluationStep):
    """An `EvalStep` behind the protocol."""

    def __init__(self, program: EvalStep, workers: Workers):
        self._program, self._workers = program, workers

    def __call__(self, batch: Any) -> tuple[dict[str, float], dict[str, float]]:
        with _errors_in_one_line("evaluation", self._workers):
            results = jax.device_get(self._program(batch))
        sums, weights = (
            {name: float(value) for name, value in results[kind].items()}
            for kind in ("sums", "weights")
        )
        return sums, weights


class PredictionStep(steps.PredictionStep):
    """A `PredictStep` behind the protocol."""

    def __init__(self, program: PredictStep, workers: Workers):
        self._program, self._workers = program, workers
        self.outputs = program.outputs

    def __call__(self, batches: Iterator) -> tuple[np.ndarray, dict[str, np.ndarray]]:
        with _errors_in_one_line("prediction", self._workers):
            return jax.device_get(self._program(next(batches)))


@contextlib.contextmanager
def _errors_in_one_line(kind: str, workers: Workers) -> Iterator[None]:
    """Reports errors of a step, whose own messages have many lines.

    Args:
        kind: what the step is for.
        workers: that take the step; their own losses are left as they are.

    Raises:
        InputError: the memory does not suffice, or the step fails.
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
