"""What a measurement was made on and with; loads no framework."""

import contextlib
import importlib.metadata
import os
import platform
import re
import subprocess
from typing import Any

_PACKAGES = (
    *("tensorflow", "keras", "tensorflow-text", "torch", "transformers", "keras-hub", "jax"),
    *("numpy", "numba", "sentencepiece", "sentencex", "tokenizers"),
)
# What decides how fast products and bfloat16 are.
_FLAGS = ("avx2", "fma", "avx512f", "avx512_vnni", "avx512_bf16", "amx_bf16", "amx_tile")


def describe() -> dict[str, Any]:
    """CPU, cores, memory and what its instructions know."""
    cpu = _read("/proc/cpuinfo")
    model = re.search(r"^model name\s*:\s*(.+)$", cpu, re.MULTILINE)
    # Virtual machines call processors of several generations by one name.
    generation = re.findall(r"^(cpu family|model|stepping)\s*:\s*(\d+)$", cpu, re.MULTILINE)
    flags = re.search(r"^flags\s*:\s*(.+)$", cpu, re.MULTILINE)
    there = set(flags[1].split()) if flags else set()
    total = re.search(r"^MemTotal:\s*(\d+) kB", _read("/proc/meminfo"), re.MULTILINE)
    return {
        "cpu": model[1] if model else platform.processor() or platform.machine(),
        "generation": {name: int(number) for name, number in generation},
        "cores": len(os.sched_getaffinity(0)),
        "memory_bytes": int(total[1]) * 1024 if total else None,
        "instructions": {flag: flag in there for flag in _FLAGS},
        "system": f"{platform.system()} {platform.machine()}",
    }


def versions() -> dict[str, str]:
    """Of Python, this project's commit and the packages that are installed."""
    found = {"python": platform.python_version()}
    with contextlib.suppress(OSError, subprocess.CalledProcessError):
        words = ["git", "describe", "--always", "--dirty", "--exclude=*"]
        here = os.path.dirname(os.path.abspath(__file__))
        done = subprocess.run(words, cwd=here, capture_output=True, text=True, check=True)
        found["albert_tf"] = done.stdout.strip()
    for package in _PACKAGES:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            found[package] = importlib.metadata.version(package)
    return found


def _read(path: str) -> str:
    with contextlib.suppress(OSError), open(path, encoding="utf-8") as file:
        return file.read()
    return ""
