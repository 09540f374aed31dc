"""Peaks of devices by the names that drivers give them, and what `--dtype=auto` chooses."""

import pytest

from albert_tf import hardware
from albert_tf.hardware import (
    cpu_precision,
    gpu_peak,
    gpu_precision,
    local_tpu_peak_flops,
    tpu_chips,
)


@pytest.mark.parametrize(("name", "peak"), [
    ("NVIDIA H100 80GB HBM3", 989.4), ("NVIDIA H100 PCIe", 756.0), ("NVIDIA H100 NVL", 835.5),
    ("NVIDIA H200", 989.4), ("NVIDIA GH200 480GB", 989.4), ("NVIDIA A100-SXM4-40GB", 312.0),
    ("NVIDIA A100-PCIE-40GB", 312.0), ("Tesla V100-SXM2-16GB", 125.0), ("NVIDIA A10", 125.0),
    ("Tesla V100-PCIE-32GB", 112.0), ("Tesla T4", 65.0), ("NVIDIA L4", 121.0),
    ("NVIDIA A10G", 70.0), ("NVIDIA L40S", 362.1), ("NVIDIA L40", 181.1),
    ("NVIDIA T400", None), ("NVIDIA RTX A1000", None), ("Quadro P4000", None),
])  # fmt: skip
def test_gpus(name, peak):
    assert gpu_peak(name) == peak


def test_a_machine_without_tpus_has_none_of_their_peak():
    assert local_tpu_peak_flops() == 0


@pytest.mark.parametrize(("device", "subsystem", "kind"), [
    ("0x0027", "0x004e", "v2"), ("0x0027", "0x004f", "v3"), ("0x005e", "0x0000", "v4"),
    ("0x0063", "0x0001", "v5e"), ("0x0062", "0x0001", "v5p"), ("0x006f", "0x0001", "v6e"),
    ("0x0076", "0x0001", "tpu7x"), ("0x9999", "0x0001", None),
])  # fmt: skip
def test_tpu_chips_are_known_by_their_bus(tmp_path, device, subsystem, kind):
    for number, vendor in enumerate(("0x1ae0", "0x8086", "0x1ae0")):
        folder = tmp_path / f"0000:00:0{number}.0"
        folder.mkdir()
        for name, value in (
            ("vendor", vendor),
            ("device", device),
            ("subsystem_device", subsystem),
        ):
            (folder / name).write_text(value + "\n")
    assert tpu_chips(str(tmp_path)) == ([kind, kind] if kind else [])


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
    monkeypatch.setattr(hardware, "_cpu_flags", lambda: frozenset(flags.split()))
    for name in ("ONEDNN_MAX_CPU_ISA", "TF_ENABLE_ONEDNN_OPTS"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert cpu_precision()[0] == dtype


def test_gpus_from_ampere_on():
    assert gpu_precision("Tesla T4", (7, 5)) == ("float32", "Tesla T4 has no bfloat16")
    assert gpu_precision("NVIDIA A100", (8, 0))[0] == "bfloat16"
    assert gpu_precision("NVIDIA H100", (9, 0))[0] == "bfloat16"
