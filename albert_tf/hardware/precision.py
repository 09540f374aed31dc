"""The precision in which a device multiplies matrices fastest, for `--dtype=auto`.

Each function returns "float32" or "bfloat16", and why.
"""

import contextlib
import os

# Flags of x86 processors with instructions for bfloat16 products. Without them, products in
# bfloat16 take longer than in float32.
_CPU_UNITS = {"amx_bf16": "AMX", "avx512_bf16": "AVX-512 BF16"}
# NVIDIA's first generation with bfloat16, Ampere.
_FIRST_GPU = (8, 0)


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
