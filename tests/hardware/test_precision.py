"""The precision that `--dtype=auto` chooses for a device."""

import pytest

from albert_tf.hardware import peaks
from albert_tf.hardware.peaks import cpu_precision, gpu_precision


@pytest.mark.parametrize(("flags", "environment", "dtype"), [
    ("avx2 fma", {}, "float32"),
    ("avx2 avx512f avx512_vnni", {}, "float32"),
    ("avx2 avx512f avx512_bf16", {}, "bfloat16"),
    ("avx2 avx512f amx_tile amx_bf16", {}, "bfloat16"),
    ("avx512f avx512_bf16", {"ONEDNN_MAX_CPU_ISA": "AVX2"}, "float32"),
    ("avx512f avx512_bf16", {"ONEDNN_MAX_CPU_ISA": "avx512_core_bf16"}, "bfloat16"),
    ("avx512f amx_bf16", {"ONEDNN_MAX_CPU_ISA": "AVX512_CORE_BF16"}, "float32"),
    ("avx512f avx512_bf16", {"TF_ENABLE_ONEDNN_OPTS": "0"}, "float32"),
])  # fmt: skip
def test_cpus(flags, environment, dtype, monkeypatch):
    monkeypatch.setattr(peaks, "_cpu_flags", lambda: frozenset(flags.split()))
    for name in ("ONEDNN_MAX_CPU_ISA", "TF_ENABLE_ONEDNN_OPTS"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert cpu_precision()[0] == dtype


def test_gpus_from_ampere_on():
    assert gpu_precision("Tesla T4", (7, 5)) == ("float32", "Tesla T4 has no bfloat16")
    assert gpu_precision("NVIDIA A100", (8, 0))[0] == "bfloat16"
    assert gpu_precision("NVIDIA H100", (9, 0))[0] == "bfloat16"
