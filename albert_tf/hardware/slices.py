"""Cloud TPU slices as data: what a device of each generation can do, and how slices are shaped."""

import math
import re
from typing import Any, NamedTuple

from albert_tf.errors import InputError

GIB = 2**30
_SQUARES = ("2x2", "4x4", "4x8", "8x8", "8x16", "16x16")
_CUBES = ("2x2x1", "2x2x2", "2x2x4", "2x4x4", "4x4x4", "4x4x8", "4x8x8")


class Generation(NamedTuple):
    """A generation of TPUs. A device runs one replica: a core of v2 and v3, else a chip.

    Attributes:
        accelerator: Cloud's name of a slice without its number.
        cores: cores of a chip that the number counts; 1 where it counts chips.
        devices: devices of a chip.
        peak_flops: bfloat16 operations per second of a device.
        memory: bytes of HBM of a device that the compiler can use, from its out-of-memory error.
        memory_bandwidth: bytes per second between a device and its HBM.
        network_bandwidth: bytes per second that a chip can send over all its links in a slice.
        clock: cycles per second of a core.
        shapes: shapes of common slices in chips, the smallest first.
        engines: names of the engines that run on it.
        settings: arguments of `get_topology_desc` in addition to the name.
        error: the fastest and the slowest published step of other people's models, divided by the
            preflight's estimate of it (docs/howto/preflight.md); of all generations where fewer
            than three are known.
    """

    accelerator: str
    cores: int
    devices: int
    peak_flops: float
    memory: int
    memory_bandwidth: float
    network_bandwidth: float
    clock: float
    shapes: tuple[str, ...]
    engines: tuple[str, ...] = ("tensorflow", "jax")
    settings: dict[str, Any] = {}
    error: tuple[float, float] = (0.48, 1.13)


# Per chip: Cloud's pages on each generation (docs.cloud.google.com/tpu/docs/v5e
# and so on); links and clocks of v2 and v3: Jouppi et al., "A Domain-Specific Supercomputer for
# Training Deep Neural Networks" (2020). Later clocks are peak / operations per cycle: 2 * 128^2 of
# each of the 8 matrix units of v4 and v5p and 4 of v5e, 2 * 256^2 of each of the 4 per core of v6e
# and TPU7x. For these two, some of Cloud's pages have 2 units and others 4; the TPU compiler
# estimates large products at 409,000 and 445,000 operations per cycle, more than 2 units can do.
GENERATIONS: dict[str, Generation] = {
    "v2": Generation(
        *("v2", 2, 2, 46e12 / 2, int(7.48 * GIB), 700e9 / 2, 248e9, 700e6),
        shapes=_SQUARES,
        engines=("tensorflow",),
    ),
    "v3": Generation(
        *("v3", 2, 2, 123e12 / 2, int(15.48 * GIB), 900e9 / 2, 328e9, 940e6),
        shapes=(*_SQUARES, "16x32", "32x32"),
        engines=("tensorflow",),
    ),
    "v4": Generation(
        *("v4", 2, 1, 275e12, int(30.75 * GIB), 1200e9, 300e9, 1050e6),
        shapes=_CUBES,
        settings={"chip_config_name": "megacore"},  # two cores act as one device
    ),
    "v5e": Generation(
        *("v5litepod", 1, 1, 197e12, int(15.75 * GIB), 819e9, 200e9, 1500e6),
        shapes=("1x1", "2x2", "2x4", *_SQUARES[1:]),
        error=(0.86, 1.13),
    ),
    "v5p": Generation(
        *("v5p", 2, 1, 459e12, int(95.74 * GIB), 2765e9, 600e9, 1750e6),
        shapes=_CUBES,
    ),
    "v6e": Generation(
        *("v6e", 1, 1, 918e12, int(31.25 * GIB), 1638e9, 400e9, 1750e6),
        shapes=("1x1", "2x2", "2x4", *_SQUARES[1:]),
    ),
    "tpu7x": Generation(
        *("tpu7x", 2, 2, 2307e12 / 2, int(94.75 * GIB), 7380e9 / 2, 600e9, 2200e6),
        shapes=_CUBES,
        engines=("jax",),
    ),
}


class Slice(NamedTuple):
    """A slice: its generation and its shape in chips, as in `v3:16x16`."""

    generation: str
    shape: str

    @property
    def name(self) -> str:
        """Its name for the compiler."""
        return f"{self.generation}:{self.shape}"

    @property
    def chips(self) -> int:
        return math.prod(int(number) for number in self.shape.split("x"))

    @property
    def replicas(self) -> int:
        return self.chips * self.data.devices

    @property
    def data(self) -> Generation:
        return GENERATIONS[self.generation]

    @property
    def accelerator(self) -> str:
        """Its name on Cloud, such as `v3-512` or `v5litepod-8`."""
        return f"{self.data.accelerator}-{self.chips * self.data.cores}"

    @property
    def settings(self) -> dict[str, Any]:
        """Arguments of `get_topology_desc` in addition to the name."""
        alone = {"chips_per_host_bounds": (1, 1, 1)} if self.chips == 1 else {}
        return {**self.data.settings, **alone}


def known_slices() -> list[Slice]:
    """Return the common slices, by generation and size."""
    return [Slice(name, shape) for name, data in GENERATIONS.items() for shape in data.shapes]


def parse_slice(topology: str) -> Slice:
    """Return the slice of `v3:16x16` or of Cloud's name for it, `v3-512`.

    Raises:
        InputError: If there is no such generation, or the shape is invalid.
    """
    by_accelerator = {known.accelerator: known for known in known_slices()}
    if topology in by_accelerator:
        return by_accelerator[topology]
    generation, _, shape = topology.partition(":")
    if generation in GENERATIONS:
        dimensions = GENERATIONS[generation].shapes[0].count("x")
        fits = shape.count("x") == dimensions
        if fits and re.fullmatch(r"[1-9]\d*(x[1-9]\d*)*", shape):
            return Slice(generation, shape)
    names = ", ".join(f"{known.name} ({known.accelerator})" for known in known_slices())
    raise InputError(f"`topology`={topology}: no such slice; known slices are {names}")
