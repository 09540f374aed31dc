"""What a run tells of its health: metrics of a record, throughput, memory, steps gone wrong."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable

import numpy as np
import tensorflow as tf

from albert_tf.errors import InputError
from albert_tf.modeling.losses import Objective, means

_GIB = 2**30


@dataclasses.dataclass(frozen=True)
class Workload:
    """What one step computes, and on what.

    Args:
        batch_size: examples in a step.
        tokens_per_example: its length, padding included.
        flops_per_example: operations of the model on one of that length, forward and backward.
        peak_flops: operations a second that all devices together can do; None if not known.
        flops_of_length: operations on an example by its length, in any unit; where steps are of
            different lengths.
    """

    batch_size: int
    tokens_per_example: int
    flops_per_example: float
    peak_flops: float | None = None
    flops_of_length: Callable[[int], float] | None = None

    def rates(
        self, steps: int, seconds: float, lengths: np.ndarray | None = None
    ) -> dict[str, float]:
        """`examples_per_second`, `tokens_per_second` and, where it can be known, `mfu`.

        Args:
            steps: that were done.
            seconds: that they took.
            lengths: of the sequences in each of them; None for `tokens_per_example` in all.
        """
        examples = steps * self.batch_size / max(seconds, 1e-9)
        tokens, flops = self.tokens_per_example, self.flops_per_example
        if lengths is not None:
            tokens = float(np.mean(lengths))
        if lengths is not None and self.flops_of_length is not None:
            full = self.flops_of_length(self.tokens_per_example)
            found, counts = np.unique(lengths, return_counts=True)
            parts = [self.flops_of_length(int(length)) / full for length in found]
            flops *= float(np.dot(parts, counts)) / len(lengths)
        rates = {
            "examples_per_second": examples,
            "tokens_per_second": examples * tokens,
        }
        if self.peak_flops:
            rates["mfu"] = examples * flops / self.peak_flops
        return rates


class Health:
    """Makes metrics of what `TrainStep` returns, and ends a run whose updates are all skipped.

    Args:
        objective: what is minimised.
        max_nonfinite_steps: steps in a row that may be skipped, less one.
        what_to_try: the end of the message with which a run ends.
    """

    def __init__(self, objective: Objective, max_nonfinite_steps: int, what_to_try: str):
        self._objective = objective
        self._limit = max_nonfinite_steps
        self._what_to_try = what_to_try
        self._in_a_row = 0
        self._before = "no step before them was finite"
        self._failure: str | None = None

    def metrics(self, results: dict, at: int) -> dict[str, float]:
        """The metrics of a record.

        Args:
            results: of a call of `TrainStep`.
            at: number of its last step.

        Returns:
            Means of the objective over the finite steps; of the last step `learning_rate`, of the
            last finite one `gradient_norm` and the optimizer's measures; `parameter_norm`,
            `nonfinite_steps`, `input_wait_seconds` and the memory in use. What only a finite step
            has is left out if there is none.
        """
        results = tf.nest.map_structure(lambda value: value.numpy(), results)
        history = results.pop("history")
        sums, weights = results.pop("sums"), results.pop("weights")
        finite = history["finite"] > 0
        self._watch(history, results["parameter_norm"], at)
        metrics = {name: float(value) for name, value in results.items()}
        metrics["nonfinite_steps"] = float(np.sum(~finite))
        if finite.any():
            quantities = means(sums, weights)
            loss = sum(quantities[name] for name in self._objective.losses)
            metrics = {"loss": loss, **quantities, **metrics}
            metrics["gradient_norm"] = float(history["gradient_norm"][finite][-1])
        else:
            metrics = {
                name: metrics[name]
                for name in metrics
                if name != "gradient_norm" and not name.startswith("trust_ratio")
            }
        return {**metrics, **memory()}

    def _watch(self, history: dict[str, np.ndarray], parameter_norm: float, at: int) -> None:
        steps = range(at - len(history["finite"]) + 1, at + 1)
        columns = (history[name] for name in ("finite", "loss", "gradient_norm"))
        for step, finite, loss, norm in zip(steps, *columns, strict=True):
            if finite:
                self._in_a_row = 0
                self._before = f"at step {step} they were {loss:.4g} and {norm:.4g}"
                continue
            self._in_a_row += 1
            if self._in_a_row == self._limit:
                self._failure = (
                    f"--max_nonfinite_steps={self._limit}: the updates of steps "
                    f"{step - self._limit + 1} to {step} were skipped, since loss or gradient norm "
                    f"was not finite (now {loss:.4g} and {norm:.4g}; {self._before}; parameter "
                    f"norm {parameter_norm:.4g}). {self._what_to_try}"
                )

    def check(self) -> None:
        """Raises InputError when too many steps in a row were skipped."""
        if self._failure:
            raise InputError(self._failure)


def memory() -> dict[str, float]:
    """`host_memory_peak_gib` of this process and, with a GPU, the fullest one's device memory."""
    peaks = {}
    if (host := _host_peak()) is not None:
        peaks["host_memory_peak_gib"] = host / _GIB
    gpus = [
        device.name.removeprefix("/device:") for device in tf.config.list_logical_devices("GPU")
    ]
    if gpus:
        device = max(tf.config.experimental.get_memory_info(gpu)["peak"] for gpu in gpus)
        peaks["device_memory_peak_gib"] = device / _GIB
    return peaks


def _host_peak() -> int | None:
    """Largest resident size of this process so far, in bytes; None where nothing tells it."""
    try:
        import resource
    except ImportError:  # Windows
        return None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
