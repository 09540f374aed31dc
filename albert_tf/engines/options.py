"""Options of every engine: where a program runs, and in which precision."""

from __future__ import annotations

import dataclasses

from albert_tf.options import option

# --dtype -> the Keras policy: bfloat16 products with float32 variables.
DTYPE_POLICIES = {"float32": "float32", "bfloat16": "mixed_bfloat16"}


@dataclasses.dataclass(frozen=True, kw_only=True)
class DeviceOptions:
    """Where a program runs, and in which precision."""

    strategy: str = option(
        "auto",
        "How the batch is spread over devices: one_device, mirrored (all GPUs, or "
        "--num_replicas parts of the CPU), multi_worker (all GPUs, or the CPUs, of several "
        "machines, each of which runs this program; TF_CONFIG or SLURM says which), tpu, or auto "
        "(tpu with --use_tpu, else multi_worker where TF_CONFIG names several machines, else "
        "mirrored on several GPUs, else one_device).",
    )
    num_replicas: int = option(0, "Devices that mirrored uses; 0 for all there are.")
    tpu: str | None = option(
        None, "local, or the name of a TPU: short for --use_tpu --tpu_name=NAME."
    )
    use_tpu: bool | None = option(None, "Train on a TPU.")
    tpu_name: str | None = option(None, "TPU to use: local on a TPU VM (the default), or its name.")
    master: str | None = option(None, "Address of the TPU (grpc://...), instead of --tpu_name.")
    num_tpu_cores: int = option(0, "Cores that the TPU must have; 0 for any number.")
    tpu_zone: str | None = option(None, "Zone of the TPU, when it is named.")
    gcp_project: str | None = option(None, "Cloud project of the TPU, when it is named.")
    dtype: str = option(
        "float32",
        "Precision of products and activations; variables, softmax, normalisation and losses "
        "are float32 either way.",
        choices=("float32", "bfloat16"),
    )
    jit_compile: bool | None = option(
        None,
        "Have XLA compile each step, once for every length of sequences; without the flag, on GPUs "
        "and not on CPUs. A TPU runs nothing else.",
    )

    @property
    def dtype_policy(self) -> str:
        """The Keras dtype policy of `dtype`."""
        return DTYPE_POLICIES[self.dtype]
