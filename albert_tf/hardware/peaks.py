"""Peak rates of devices: dense bfloat16 products (float16 where there is no bfloat16).

Also the precision in which a device multiplies matrices fastest, for `--dtype=auto`.

Numbers are those of the vendors' data sheets, in TFLOP/s, without sparsity and without boost beyond
the sheet.
"""

import contextlib
import glob
import os

from albert_tf.hardware.slices import GENERATIONS

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

# What JAX calls the devices.
_TPU_KINDS = {
    "TPU v2": "v2",
    "TPU v3": "v3",
    "TPU v4": "v4",
    "TPU v5 lite": "v5e",
    "TPU v5e": "v5e",
    "TPU v5": "v5p",
    "TPU v5p": "v5p",
    "TPU v6 lite": "v6e",
    "TPU v6e": "v6e",
    "TPU7x": "tpu7x",
}

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
    return _TPU_KINDS.get(kind)


def tpu_peak_flops(kind: str) -> float | None:
    """Return the operations per second of a TPU that JAX calls `kind`; None if unknown."""
    name = tpu_generation(kind)
    return GENERATIONS[name].peak_flops if name in GENERATIONS else None


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
