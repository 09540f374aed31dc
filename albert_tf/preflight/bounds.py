"""Lower bounds and estimates of step time, from the compiler's figures for a program."""

import dataclasses
import re
from typing import NamedTuple

from albert_tf.hardware import GIB, Slice
from albert_tf.preflight.gpus import Gpus


@dataclasses.dataclass(frozen=True)
class Compiled:
    """The result of compiling one training step.

    Attributes:
        fits: whether the program fits in the memory of a device.
        memory: bytes of HBM that a device needs for variables, batch, temporaries and program.
        available: bytes of HBM available to the compiler, if it reports them.
        flops: operations of the matrix products of one step on one device, custom kernels included.
        memory_bytes, cycles, kernel_cycles, reduced_bytes, fused_attention: of one step, as in
            `albert_tf.preflight.costs.Costs`.
        update_memory_bytes, update_cycles: their parts outside the loop over micro-batches.
        error: one line, if compilation failed for another reason than memory.
    """

    fits: bool
    memory: float = 0.0
    available: float | None = None
    flops: float = 0.0
    memory_bytes: float = 0.0
    cycles: float = 0.0
    kernel_cycles: float = 0.0
    reduced_bytes: float = 0.0
    fused_attention: float = 0.0
    update_memory_bytes: float = 0.0
    update_cycles: float = 0.0
    error: str | None = None


class StepTime(NamedTuple):
    """Seconds of one step on a slice or on GPUs.

    Attributes:
        compute: for the matrix products at the peak rate of the device.
        memory: for the traffic with HBM at its bandwidth.
        network: for an all-reduce in which every chip uses the bandwidth of all its links.
        kernels: for custom kernels, by their schedules.
        estimate: from the compiler's cycles, plus kernels and network.
        likely: its range, by how far it is off where steps are published; nothing below the bound.
    """

    compute: float
    memory: float
    network: float
    kernels: float
    estimate: float
    likely: tuple[float, float]

    @property
    def bound(self) -> float:
        """The lower bound: no step is faster, even if all three overlap completely."""
        return max(self.compute, self.memory, self.network)

    @property
    def bound_by(self) -> str:
        """The name of the longest of the three."""
        return max(("compute", "memory", "network"), key=lambda name: getattr(self, name))


def step_time(compiled: Compiled, where: Slice | Gpus) -> StepTime:
    """Return the time of one step on a slice or on GPUs.

    `compiled` may come from a smaller slice of the same generation.
    """
    data = where.data
    network = where.all_reduce_seconds(compiled.reduced_bytes)
    kernels = compiled.kernel_cycles / data.clock
    estimate = compiled.cycles / data.clock + kernels + network
    time = StepTime(
        compute=compiled.flops / where.peak_flops,
        memory=compiled.memory_bytes / data.memory_bandwidth,
        network=network,
        kernels=kernels,
        estimate=estimate,
        likely=(estimate, estimate),
    )
    low, high = (max(time.bound, factor * estimate) for factor in data.error)
    return time._replace(likely=(low, high))


def for_share(compiled: Compiled, compiled_micro: int, compiled_trips: int, share: int) -> Compiled:
    """Scale the costs of a program to another share of the batch, in examples per device.

    The program has a loop over `compiled_trips` micro-batches of `compiled_micro` examples.
    """
    times = share / (compiled_micro * compiled_trips)

    def scaled(total: float, update: float) -> float:
        return update + (total - update) * times

    return dataclasses.replace(
        compiled,
        flops=compiled.flops * times,
        kernel_cycles=compiled.kernel_cycles * times,
        memory_bytes=scaled(compiled.memory_bytes, compiled.update_memory_bytes),
        cycles=scaled(compiled.cycles, compiled.update_cycles),
    )


_UNITS = {"": 1, "K": 2**10, "M": 2**20, "G": GIB, "T": 2**40}
_SIZE = r"([\d.]+)([KMGT]?)"
_MESSAGES = (
    rf"Used {_SIZE} of {_SIZE} hbm",
    rf"required for [\w ]+ \({_SIZE}\) exceeds available HBM \({_SIZE}\)",
)


def out_of_memory(message: str) -> tuple[float, float] | None:
    """Extract the needed and available bytes of HBM from an error; None for other errors."""
    for pattern in _MESSAGES:
        if found := re.search(pattern, message):
            needed, unit, available, other = found.groups()
            return float(needed) * _UNITS[unit], float(available) * _UNITS[other]
    return None
