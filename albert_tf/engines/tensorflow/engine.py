"""The TensorFlow engine: `tf.distribute` strategies over CPUs, GPUs, TPUs and several machines."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from albert_tf.engines import base, steps
from albert_tf.engines.device_options import DeviceOptions
from albert_tf.engines.tensorflow.batches import dataset
from albert_tf.engines.tensorflow.checkpoints import Checkpoints
from albert_tf.engines.tensorflow.reading import BatchIterator, errors_in_one_line
from albert_tf.engines.tensorflow.replicas import check_replicas
from albert_tf.engines.tensorflow.step import EvalStep, PredictStep, TrainStep
from albert_tf.engines.tensorflow.strategy import create_devices, describe, makes_batches_locally
from albert_tf.engines.tensorflow.workers import TensorFlowWorkers
from albert_tf.engines.workers import Workers
from albert_tf.hardware.peaks import gpu_peak, local_tpu_peak_flops
from albert_tf.hardware.precision import (
    cpu_precision,
    gpu_precision,
    tpu_precision,
    xla_cpu_precision,
)
from albert_tf.input.record_batches import RecordStream
from albert_tf.input.streams import BatchStream, Shard
from albert_tf.modeling.losses import Objective
from albert_tf.optimization.optimizers import AdamW


class TensorFlowEngine(base.Engine):
    """TensorFlow on the devices of a strategy.

    Args:
        strategy: how a batch is spread over devices.
        workers: the processes that train together; this one alone by default.
        jit_compile: whether XLA compiles each step; None: on GPUs only. TPUs always do.
        within_xla: whether the caller has XLA compile the whole training step.
    """

    name = "tensorflow"
    _checkpoints = Checkpoints

    def __init__(
        self,
        strategy: tf.distribute.Strategy,
        workers: Workers | None = None,
        jit_compile: bool | None = None,
        within_xla: bool = False,
    ):
        self.strategy = strategy
        self.workers = workers or TensorFlowWorkers()
        self._jit_compile = jit_compile
        self._within_xla = within_xla

    @classmethod
    def create(cls, options: DeviceOptions) -> TensorFlowEngine:
        strategy, workers = create_devices(options)
        return cls(strategy, workers, options.jit_compile)

    # Devices

    @property
    def num_replicas(self) -> int:
        return self.strategy.num_replicas_in_sync

    @property
    def is_tpu(self) -> bool:
        return isinstance(self.strategy, tf.distribute.TPUStrategy)

    @property
    def makes_batches_locally(self) -> bool:
        return makes_batches_locally(self.strategy)

    def describe(self) -> str:
        return describe(self.strategy, self.workers)

    def peak_flops(self, peak_tflops: float = 0.0) -> float | None:
        if peak_tflops:
            return peak_tflops * 1e12 * self.num_replicas
        if self.is_tpu:
            # All chips of all hosts compute, whether a chip is one replica or two.
            return local_tpu_peak_flops() * self.strategy.extended.num_hosts or None
        if "GPU" not in "".join(self.strategy.extended.worker_devices):
            return None
        gpus = tf.config.list_physical_devices("GPU")
        details = tf.config.experimental.get_device_details(gpus[0]) if gpus else {}
        peak = gpu_peak(details.get("device_name") or "")
        return peak * 1e12 * self.num_replicas if peak else None

    def preferred_dtype(self) -> tuple[str, str]:
        if self.is_tpu:
            return tpu_precision()
        if "GPU" in "".join(self.strategy.extended.worker_devices):
            details = tf.config.experimental.get_device_details(
                tf.config.list_physical_devices("GPU")[0]
            )
            capability = details.get("compute_capability", (0, 0))
            return gpu_precision(details.get("device_name", "this GPU"), capability)
        if self._jit_compile:
            return xla_cpu_precision()
        return cpu_precision()

    def device_memory_peak(self) -> int | None:
        gpus = [
            device.name.removeprefix("/device:") for device in tf.config.list_logical_devices("GPU")
        ]
        return max(
            (tf.config.experimental.get_memory_info(gpu)["peak"] for gpu in gpus), default=None
        )

    # Model and steps

    def set_random_seed(self, seed: int) -> None:
        keras.utils.set_random_seed(seed)

    def scope(self) -> contextlib.AbstractContextManager:
        return self.strategy.scope()

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
            self.strategy,
            micro_batches=micro_batches,
            clip_norm=clip_norm,
            seed=seed,
            remat=remat,
            jit_compile=self._jit_compile,
            within_xla=self._within_xla,
        )
        return TrainingStep(step, self.workers)

    def create_evaluation_step(self, model: keras.Model, objective: Objective) -> EvaluationStep:
        return EvaluationStep(EvalStep(model, objective, self.strategy, self._jit_compile))

    def create_prediction_step(self, model: keras.Model, outputs: Sequence[str]) -> PredictionStep:
        return PredictionStep(PredictStep(model, self.strategy, outputs, self._jit_compile))

    # Input

    def iterate(self, stream: BatchStream, first_step: int = 0) -> Iterator:
        # AutoGraph takes a second, and no function of a pipeline has anything for it to convert.
        @tf.autograph.experimental.do_not_convert
        def pipeline(context: tf.distribute.InputContext) -> tf.data.Dataset:
            shard = Shard(context.input_pipeline_id, context.num_input_pipelines)
            replicas = context.num_replicas_in_sync // shard.count
            return dataset(stream, first_step, shard, replicas, self.makes_batches_locally)

        distributed = iter(self.strategy.distribute_datasets_from_function(pipeline))
        return BatchIterator(
            distributed, stream.index if isinstance(stream, RecordStream) else None
        )


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
        return int(self.program.optimizer.iterations.numpy())

    def __call__(self, batches: Iterator, count: int) -> steps.StepResults:
        index = batches.index if isinstance(batches, BatchIterator) else None
        distributed = batches.distributed if isinstance(batches, BatchIterator) else batches
        with errors_in_one_line("training", index):
            results = self.program(distributed, tf.constant(count))
        results = tf.nest.map_structure(lambda value: value.numpy(), results)
        sums, weights = results.pop("sums"), results.pop("weights")
        history = results.pop("history")
        scalars = {name: float(value) for name, value in results.items()}
        return steps.StepResults(sums, weights, scalars, history)

    def check_replicas(self) -> None:
        program = self.program
        check_replicas(program.strategy, program.variables, self.step, self._workers)


class EvaluationStep(steps.EvaluationStep):
    """An `EvalStep` behind the protocol."""

    def __init__(self, program: EvalStep):
        self._program = program

    def __call__(self, batch: Any) -> tuple[dict[str, float], dict[str, float]]:
        with errors_in_one_line("evaluation"):
            results = self._program(batch)
        sums, weights = (
            {name: float(value.numpy()) for name, value in results[kind].items()}
            for kind in ("sums", "weights")
        )
        return sums, weights


class PredictionStep(steps.PredictionStep):
    """A `PredictStep` behind the protocol."""

    def __init__(self, program: PredictStep):
        self._program = program
        self.outputs = program.outputs

    def __call__(self, batches: Iterator) -> tuple[np.ndarray, dict[str, np.ndarray]]:
        if isinstance(batches, BatchIterator):
            batches = batches.distributed
        try:
            with errors_in_one_line("prediction"):
                numbers, outputs = self._program(batches)
        except tf.errors.OutOfRangeError:
            raise StopIteration from None
        return numbers.numpy(), {name: value.numpy() for name, value in outputs.items()}
