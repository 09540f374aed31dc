"""From what the compiler says of a program to the time that its slice needs at the least."""

from __future__ import annotations

import dataclasses
import re
from typing import NamedTuple

from albert_tf.hardware.slices import GIB, Slice


@dataclasses.dataclass(frozen=True)
class Compiled:
    """What the compiler said.

    Attributes:
        fits: whether the program fits the memory of a device.
        memory: bytes of HBM that a device needs: variables, batch, temporaries and the program.
        available: bytes of HBM that the compiler has there, where it names them.
        flops: operations of the matrix products of one step on one device.
        memory_bytes: traffic between a device and its HBM in one step.
        cycles: the compiler's estimate for one step, without communication.
        reduced_bytes: what is all-reduced in one step.
        update_memory_bytes: of `memory_bytes`, what is not in the loop over micro-batches.
        update_cycles: the same of `cycles`.
        seconds: that compiling took.
        error: one line, where the program did not compile for another reason than memory.
    """

    fits: bool
    memory: float = 0.0
    available: float | None = None
    flops: float = 0.0
    memory_bytes: float = 0.0
    cycles: float = 0.0
    reduced_bytes: float = 0.0
    update_memory_bytes: float = 0.0
    update_cycles: float = 0.0
    seconds: float = 0.0
    error: str | None = None


class StepTime(NamedTuple):
    """Seconds of one step on a slice.

    Attributes:
        compute: of the matrix products at the device's peak.
        memory: of the traffic with HBM at its bandwidth.
        network: of an all-reduce in which every chip sends at the bandwidth of all its links.
        estimate: by the compiler's count of cycles, and the network; None without a known clock.
    """

    compute: float
    memory: float
    network: float
    estimate: float | None

    @property
    def bound(self) -> float:
        """No step is quicker, even with all three at work all the time."""
        return max(self.compute, self.memory, self.network)

    @property
    def bound_by(self) -> str:
        """Which of the three takes longest."""
        return max(("compute", "memory", "network"), key=lambda name: getattr(self, name))


def step_time(compiled: Compiled, where: Slice) -> StepTime:
    """What one step takes on a slice.

    Args:
        compiled: one replica's program.
        where: the slice; `compiled` may be from a smaller one of the same generation.
    """
    data = where.data
    # In an all-reduce every chip sends all but its own part twice: reduced, and then the result.
    sent = 2 * compiled.reduced_bytes * (where.chips - 1) / where.chips
    network = sent / data.network_bandwidth
    return StepTime(
        compute=compiled.flops / data.peak_flops,
        memory=compiled.memory_bytes / data.memory_bandwidth,
        network=network,
        estimate=compiled.cycles / data.clock + network if data.clock else None,
    )


def for_share(compiled: Compiled, compiled_micro: int, compiled_trips: int, share: int) -> Compiled:
    """The costs of another share of the batch, from those of a program with a loop.

    Args:
        compiled: a program of `compiled_trips` micro-batches of `compiled_micro` examples.
        compiled_micro: its micro-batch.
        compiled_trips: how many of them it computes.
        share: examples of a device in the other program.
    """
    times = share / (compiled_micro * compiled_trips)

    def scaled(total: float, update: float) -> float:
        return update + (total - update) * times

    return dataclasses.replace(
        compiled,
        flops=compiled.flops * times,
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
    """Bytes of HBM needed and there, as the compiler's error says; None for another error."""
    for pattern in _MESSAGES:
        if found := re.search(pattern, message):
            needed, unit, available, other = found.groups()
            return float(needed) * _UNITS[unit], float(available) * _UNITS[other]
    return None
