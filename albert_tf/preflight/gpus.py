"""GPUs as data, and the description of one for XLA's compiler, which then needs none."""

import math
import os
import re
from typing import NamedTuple

from albert_tf.errors import InputError, arguments_renamed
from albert_tf.hardware import GENERATIONS, GIB, Slice, gpu_peak, parse_slice


class Family(NamedTuple):
    """What GPUs of a compute capability have in common, by the CUDA programming guide.

    Attributes:
        shared_memory: KiB of a multiprocessor; a block gets at most 1 KiB less, or all before 8.0.
        threads: resident threads of a multiprocessor.
        units: float32 units of a multiprocessor.
    """

    shared_memory: int
    threads: int
    units: int


FAMILIES: dict[tuple[int, int], Family] = {
    (7, 0): Family(96, 2048, 64),
    (7, 5): Family(64, 1024, 64),
    (8, 0): Family(164, 2048, 64),
    (8, 6): Family(100, 1536, 128),
    (8, 9): Family(100, 1536, 128),
    (9, 0): Family(228, 2048, 128),
    (10, 0): Family(228, 2048, 128),
    (12, 0): Family(100, 1536, 128),
}


class Gpu(NamedTuple):
    """A kind of GPU.

    Attributes:
        name: what the driver calls it.
        capability: its compute capability, major and minor.
        cores: multiprocessors.
        clock: cycles per second of a multiprocessor, with boost.
        total_memory: bytes of memory that programs see.
        memory_bandwidth: bytes per second between the GPU and its memory.
        cache: bytes of L2 cache.
        float32_flops: operations per second of float32 products, of TF32 where it exists.
        link: bytes per second that it can send to others of its machine: half of NVLink's or PCIe's
            rate in both directions.
        network: bytes per second that its machine can send to others.
        error: the fastest and the slowest published step of programs like this one, divided by the
            preflight's estimate (docs/gpu.md); where none is known, from the estimate itself to the
            slowest of all.
    """

    name: str
    capability: tuple[int, int]
    cores: int
    clock: float
    total_memory: float
    memory_bandwidth: float
    cache: int
    float32_flops: float
    link: float
    network: float = 12.5e9
    error: tuple[float, float] = (1.0, 3.1)

    @property
    def engines(self) -> tuple[str, ...]:
        """Names of the engines whose programs can be compiled for it."""
        return ("jax", "tensorflow")

    @property
    def peak_flops(self) -> float:
        """Operations per second of dense bfloat16 products."""
        return 1e12 * (gpu_peak(self.name) or 0.0)

    @property
    def memory(self) -> float:
        """Bytes that JAX reserves for programs; outside are the CUDA context, cuDNN and NCCL."""
        return self.total_memory * _memory_fraction()

    def target(self) -> str:
        """Return the `GpuTargetConfigProto` of the GPU as text."""
        family = FAMILIES[self.capability]
        major, minor = self.capability
        extension = "ACCELERATED_FEATURES" if major in (9, 10) else "NONE"
        reserved = 1 if major >= 8 else 0
        return f"""gpu_device_info {{
  cuda_compute_capability {{ major: {major} minor: {minor} feature_extension: {extension} }}
  core_count: {self.cores}
  fpus_per_core: {family.units}
  clock_rate_ghz: {self.clock / 1e9}
  device_memory_size: {self.total_memory:.0f}
  memory_bandwidth: {self.memory_bandwidth:.0f}
  l2_cache_size: {self.cache}
  shared_memory_per_core: {family.shared_memory * 1024}
  shared_memory_per_block: {48 * 1024}
  shared_memory_per_block_optin: {(family.shared_memory - reserved) * 1024}
  threads_per_core_limit: {family.threads}
  threads_per_block_limit: 1024
  threads_per_warp: 32
  registers_per_core_limit: 65536
  registers_per_block_limit: 65536
  block_dim_limit_x: 2147483647
  block_dim_limit_y: 65535
  block_dim_limit_z: 65535
  thread_dim_limit_x: 1024
  thread_dim_limit_y: 1024
  thread_dim_limit_z: 64
  runtime_version: "12.9.0"
  driver_version: "13.0.0"
  compile_time_toolkit_version: "12.9.0"
  dnn_version: "9.10.0"
}}
platform_name: "CUDA"
dnn_version_info {{ major: 9 minor: 10 }}
device_description_str: "{self.name}"
"""


def _memory_fraction() -> float:
    """Return the part of its memory that JAX reserves, from the environment."""
    for name in ("XLA_CLIENT_MEM_FRACTION", "XLA_PYTHON_CLIENT_MEM_FRACTION"):  # the new one first
        if text := os.environ.get(name):
            try:
                fraction = float(text)
            except ValueError:
                fraction = math.nan
            if not 0 < fraction <= 1:
                raise InputError(f"{name}={text}: must be above 0 and at most 1")
            return fraction
    return 0.75


def _gpu(name, capability, cores, ghz, gib, gb_per_s, cache, tflops, link, network=12.5, **more):
    return Gpu(
        *(name, capability, cores, 1e9 * ghz, gib * GIB, 1e9 * gb_per_s, cache * 2**20),
        *(1e12 * tflops, 1e9 * link, 1e9 * network),
        **more,
    )


# Of a100, h100, h100-pcie, h200, b200, v100-16 and a6000, the descriptions in XLA's repository
# (xla/backends/gpu/target_config/specs); memory and cache of h200, and cores and memory of others,
# as CUDA reports them; the rest by data sheets and white papers. All rates are dense and accumulate
# in float32, which GeForce and A10G do at half the speed. A network is that of the vendor's machine
# (DGX; of V100, unchecked); where there is none, 100 Gbit/s are assumed.
_A100, _H100 = (1.5, 2.1), (1.5, 3.0)
GPUS: dict[str, Gpu] = {
    "a100-40": _gpu(
        *("NVIDIA A100-SXM4-40GB", (8, 0), 108, 1.41, 39.4, 1555, 40, 156, 300, 200), error=_A100
    ),
    "a100-80": _gpu(
        *("NVIDIA A100-SXM4-80GB", (8, 0), 108, 1.41, 79.2, 2039, 40, 156, 300, 200), error=_A100
    ),
    "h100": _gpu(
        *("NVIDIA H100 80GB HBM3", (9, 0), 132, 1.98, 79.1, 3352, 50, 494.7, 450, 400), error=_H100
    ),
    "h100-pcie": _gpu("NVIDIA H100 PCIe", (9, 0), 114, 1.755, 79.1, 2039, 50, 378, 64),
    "h200": _gpu("NVIDIA H200", (9, 0), 132, 1.98, 139.8, 4800, 60, 494.7, 450, 400),
    "b200": _gpu("NVIDIA B200", (10, 0), 148, 1.965, 178.3, 7672, 126, 1125, 900, 400),
    "l4": _gpu("NVIDIA L4", (8, 9), 58, 2.04, 22.0, 300, 48, 60, 32),
    "l40s": _gpu("NVIDIA L40S", (8, 9), 142, 2.52, 44.5, 864, 96, 183, 32),
    "a10g": _gpu("NVIDIA A10G", (8, 6), 80, 1.71, 22.0, 600, 6, 35, 32),
    "t4": _gpu("Tesla T4", (7, 5), 40, 1.59, 14.7, 320, 4, 8.1, 16),
    "v100-16": _gpu("Tesla V100-SXM2-16GB", (7, 0), 80, 1.53, 15.8, 898, 6, 15.7, 150, 50),
    "v100-32": _gpu("Tesla V100-SXM2-32GB", (7, 0), 80, 1.53, 31.7, 898, 6, 15.7, 150, 50),
    "rtx4090": _gpu("NVIDIA GeForce RTX 4090", (8, 9), 128, 2.52, 23.6, 1008, 72, 82.6, 32),
    "rtx5090": _gpu("NVIDIA GeForce RTX 5090", (12, 0), 170, 2.407, 31.3, 1792, 96, 104.8, 64),
    "a6000": _gpu("NVIDIA RTX A6000", (8, 6), 84, 1.8, 47.5, 768, 6, 77.4, 32),
    "rtx6000-ada": _gpu(
        *("NVIDIA RTX 6000 Ada Generation", (8, 9), 142, 2.505, 47.4, 960, 96, 182.1, 32)
    ),
}
_FIRST_BFLOAT16 = (8, 0)
_NAME = re.compile(rf"({'|'.join(GPUS)})(?:x([1-9]\d*))?(?:x([1-9]\d*))?")


class Gpus(NamedTuple):
    """GPUs of machines: `h100x8x4` are four machines of eight."""

    kind: str
    of_machine: int = 1
    machines: int = 1
    dtype: str = "bfloat16"

    @property
    def name(self) -> str:
        machines = f"x{self.machines}" if self.machines > 1 else ""
        return f"{self.kind}x{self.of_machine}{machines}"

    @property
    def replicas(self) -> int:
        return self.of_machine * self.machines

    @property
    def data(self) -> Gpu:
        return GPUS[self.kind]

    @property
    def accelerator(self) -> str:
        return self.data.name

    @property
    def peak_flops(self) -> float:
        return self.data.float32_flops if self.dtype == "float32" else self.data.peak_flops

    def all_reduce_seconds(self, size: float) -> float:
        """Return how long it takes to add up `size` bytes of every GPU.

        Within a machine all GPUs send at once; machines send what is left of each.
        """
        inside, across = (2 * size * (n - 1) / n for n in (self.of_machine, self.machines))
        return inside / self.data.link + across / self.data.network

    def for_dtype(self, dtype: str) -> "Gpus":
        """Return the same GPUs for programs of a dtype, "auto" for the fastest.

        Raises:
            InputError: If they do not have it.
        """
        has_bfloat16 = self.data.capability >= _FIRST_BFLOAT16
        if dtype == "auto":
            dtype = "bfloat16" if has_bfloat16 else "float32"
        if dtype == "bfloat16" and not has_bfloat16:
            raise InputError(f"`dtype`=bfloat16: {self.data.name} has none; use float32")
        return self._replace(dtype=dtype)


def parse_devices(devices: str) -> Slice | Gpus:
    """Return the TPU slice or the GPUs of a name, such as v5e:4x4, h100, h100x8 or h100x8x4.

    Raises:
        InputError: If there is neither.
    """
    if found := _NAME.fullmatch(devices):
        return Gpus(found[1], int(found[2] or 1), int(found[3] or 1))
    if ":" not in devices and not devices.startswith(tuple(GENERATIONS)):
        kinds = ", ".join(GPUS)
        raise InputError(
            f"`devices`={devices}: must be a kind of GPU ({kinds}), a kind and their number, such "
            "as h100x8, that and the number of machines, h100x8x4, or a TPU slice, v5e:4x4"
        )
    with arguments_renamed(topology="devices"):
        return parse_slice(devices)
