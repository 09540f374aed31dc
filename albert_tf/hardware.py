"""Hardware as data: TPU slices, peak rates of devices, and the precision in which they are fastest.

Peak rates are those of dense bfloat16 products (float16 where there is no bfloat16), from the
vendors' data sheets, in TFLOP/s, without sparsity and without boost beyond the sheet.
"""

import contextlib
import glob
import math
import os
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
        *("v5p", 2, 1, 459e12, int(95.74 * GIB), 2765e9, 600e9, 1750e6), shapes=_CUBES
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
    def peak_flops(self) -> float:
        return self.data.peak_flops

    def all_reduce_seconds(self, size: float) -> float:
        """Return how long it takes to add up `size` bytes of every device."""
        # Every chip sends all other parts once to be reduced and once as the result.
        return 2 * size * (self.chips - 1) / self.chips / self.data.network_bandwidth

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
    if generation in GENERATIONS and re.fullmatch(r"[1-9]\d*(x[1-9]\d*)*", shape):
        dimensions = GENERATIONS[generation].shapes[0].count("x")
        if shape.count("x") == dimensions:
            return Slice(generation, shape)
    names = ", ".join(f"{known.name} ({known.accelerator})" for known in known_slices())
    raise InputError(f"`topology`={topology}: no such slice; known slices are {names}")


# By words of the name that the driver reports; the first match counts.
GPU_PEAKS: dict[str, float] = {
    "B200": 2250.0,
    "GH200": 989.4,
    "H200 NVL": 835.5,
    "H200": 989.4,
    "H100 NVL": 835.5,
    "H100 PCIe": 756.0,
    "H100": 989.4,
    "H800": 989.4,
    "A100": 312.0,
    "A800": 312.0,
    "A10G": 70.0,
    "A10": 125.0,
    "A30": 165.0,
    "A40": 149.7,
    "L40S": 362.1,
    "L40": 181.1,
    "L4": 121.0,
    "RTX 4090": 165.2,
    "RTX 5090": 209.5,
    "RTX 6000 Ada": 364.2,
    "RTX A6000": 154.8,
    "V100S": 130.0,
    "V100 PCIE": 112.0,
    "V100": 125.0,
    "T4": 65.0,
}

# PCI device and, where that is not enough, subsystem, of a TPU virtual machine's chips.
_TPU_VENDOR = "0x1ae0"
_TPU_CHIPS: dict[tuple[str, str | None], str] = {
    ("0x0027", "0x004e"): "v2",
    ("0x0027", "0x004f"): "v3",
    ("0x005e", None): "v4",
    ("0x0062", None): "v5p",
    ("0x0063", None): "v5e",
    ("0x006f", None): "v6e",
    ("0x0076", None): "tpu7x",
}

# What JAX calls the devices, where it is not "TPU " and the generation.
_TPU_KINDS = {"TPU v5 lite": "v5e", "TPU v5": "v5p", "TPU v6 lite": "v6e", "TPU7x": "tpu7x"}

# Flags of x86 processors with instructions for bfloat16 products. Without them, products in
# bfloat16 take longer than in float32.
_CPU_UNITS = {"amx_bf16": "AMX", "avx512_bf16": "AVX-512 BF16"}
# NVIDIA's first generation with bfloat16, Ampere.
_FIRST_GPU = (8, 0)


def gpu_peak(name: str) -> float | None:
    """TFLOP/s of the GPU that its driver calls `name`, such as "NVIDIA A100-SXM4-40GB".

    None for a GPU that is not in the table.
    """
    words = name.replace("-", " ").split()
    for model, peak in GPU_PEAKS.items():
        wanted = model.split()
        if all(word in words for word in wanted):
            return peak
    return None


def tpu_chips(folder: str = "/sys/bus/pci/devices") -> list[str]:
    """Return the generation of every TPU chip of this machine; empty if there is none."""
    found = []
    for device in sorted(glob.glob(f"{folder}/*")):
        if _read(f"{device}/vendor") != _TPU_VENDOR:
            continue
        number, subsystem = _read(f"{device}/device"), _read(f"{device}/subsystem_device")
        chip = _TPU_CHIPS.get((number, subsystem)) or _TPU_CHIPS.get((number, None))
        if chip:
            found.append(chip)
    return found


def local_tpu_peak_flops() -> float:
    """Return the operations per second of all TPU chips of this machine; 0 without any."""
    chips = [GENERATIONS[name] for name in tpu_chips()]
    return float(sum(chip.devices * chip.peak_flops for chip in chips))


def tpu_generation(kind: str) -> str | None:
    """Return the generation of what JAX calls `kind`; None if that is no TPU that is known."""
    name = _TPU_KINDS.get(kind, kind.removeprefix("TPU "))
    return name if name in GENERATIONS else None


def tpu_peak_flops(kind: str) -> float | None:
    """Return the operations per second of a TPU that JAX calls `kind`; None if unknown."""
    name = tpu_generation(kind)
    return GENERATIONS[name].peak_flops if name else None


def tpu_precision() -> tuple[str, str]:
    return "bfloat16", "TPUs multiply in bfloat16"


def gpu_precision(name: str, compute_capability: tuple[int, int]) -> tuple[str, str]:
    """Return the precision of a GPU by its compute capability, major and minor."""
    if compute_capability >= _FIRST_GPU:
        return "bfloat16", f"{name} multiplies in bfloat16"
    return "float32", f"{name} has no bfloat16"


def cpu_precision() -> tuple[str, str]:
    """Return the precision of this CPU, for programs whose products are oneDNN's."""
    for flag, unit in _CPU_UNITS.items():
        if flag in _cpu_flags() and _onednn_uses(unit):
            return "bfloat16", f"this CPU multiplies in bfloat16, with {unit}"
    return "float32", "this CPU has no instructions for bfloat16 (AVX-512 BF16 or AMX)"


def xla_cpu_precision() -> tuple[str, str]:
    """Return the precision of any CPU, for programs whose products are XLA's."""
    return "float32", "on a CPU, XLA's products are no faster in bfloat16"


def _read(path: str) -> str:
    if not os.path.exists(path):
        return ""
    with open(path, encoding="utf-8") as file:
        return file.read().strip()


def _cpu_flags() -> frozenset[str]:
    with contextlib.suppress(OSError), open("/proc/cpuinfo", encoding="utf-8") as file:
        for line in file:
            name, _, flags = line.partition(":")
            if name.strip() == "flags":
                return frozenset(flags.split())
    return frozenset()


def _onednn_uses(unit: str) -> bool:
    """Return whether the environment lets oneDNN use these instructions."""
    if os.environ.get("TF_ENABLE_ONEDNN_OPTS") == "0":
        return False
    limit = os.environ.get("ONEDNN_MAX_CPU_ISA", "DEFAULT").upper()
    return limit in ("ALL", "DEFAULT") or "AMX" in limit or ("BF16" in limit and "AMX" not in unit)
