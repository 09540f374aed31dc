"""Options of every engine: where a program runs, and in which precision."""

import dataclasses
import os

from albert_tf.engines.registry import ENGINES
from albert_tf.options import WithPaths, option

# --dtype -> the Keras policy: bfloat16 products with float32 variables.
DTYPE_POLICIES = {"float32": "float32", "bfloat16": "mixed_bfloat16"}

# Strategies by name; every engine has all of them.
STRATEGIES = ("auto", "one_device", "mirrored", "multi_worker", "tpu")

# What tells a process of the JAX engine who the others are.
PROCESS_FLAGS = ("coordinator_address", "num_processes", "process_id")


@dataclasses.dataclass(frozen=True, kw_only=True)
class MeetingOptions(WithPaths):
    """Where a program runs, and which processes run it together."""

    engine: str = option(
        "tensorflow",
        "What computes: tensorflow (CPU, GPU, TPU v2 to v5p) or jax (CPU, GPU, TPU v4 and later).",
        choices=tuple(ENGINES),
        group="Devices",
        common=True,
    )
    strategy: str = option(
        "auto",
        "How a batch is distributed over devices: one_device, mirrored (all GPUs, or "
        "--num_replicas parts of the CPU), multi_worker (all GPUs, or the CPUs, of several "
        "machines that all run this program, listed by TF_CONFIG or SLURM), tpu, or auto (tpu with "
        "--use_tpu, else multi_worker if TF_CONFIG or SLURM lists several processes, else mirrored "
        "on several GPUs, else one_device). With --engine=jax, auto uses all devices of this "
        "process, or of all hosts of a TPU slice, tasks of srun, or --num_processes.",
    )
    num_replicas: int = option(0, "Number of devices for mirrored; 0 for all.", minimum=0)
    tpu: str | None = option(
        None, "local or the name of a TPU; short for --use_tpu --tpu_name=NAME.", common=True
    )
    use_tpu: bool | None = option(None, "Train on a TPU.")
    tpu_name: str | None = option(None, "TPU to use: its name, or local (the default) on a TPU VM.")
    master: str | None = option(None, "Address of the TPU (grpc://...), instead of --tpu_name.")
    num_tpu_cores: int = option(0, "Required number of TPU cores; 0 for any number.", minimum=0)
    tpu_zone: str | None = option(None, "Zone of the TPU, if --tpu_name is a name.")
    gcp_project: str | None = option(None, "Cloud project of the TPU, if --tpu_name is a name.")
    coordinator_address: str | None = option(
        None,
        "With --engine=jax and several processes, outside of TPU slices and SLURM: host:port of "
        "process 0.",
    )
    num_processes: int | None = option(
        None, "With --coordinator_address: number of processes that train together."
    )
    process_id: int | None = option(
        None, "With --coordinator_address: number of this process, from 0."
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class DeviceOptions(MeetingOptions):
    """Where a program runs, and in which precision."""

    dtype: str = option(
        "float32",
        "Precision of matrix products and activations; variables, softmax, normalization and "
        "losses are always float32. auto: that of the model in --output_dir; for a new one, "
        "bfloat16 where the device has instructions for it, else float32.",
        choices=(*DTYPE_POLICIES, "auto"),
        group="Devices",
        common=True,
    )
    jit_compile: bool | None = option(
        None,
        "Compile each step with XLA, once for every sequence length; by default on GPUs but not "
        "on CPUs. TPUs always compile.",
    )

    attention: str = option(
        "auto",
        "plain, without any kernels of our own; fused, which never writes the scores to memory, by "
        "a kernel of the TPU (v4 and later) or, with --engine=jax, the GPU; or auto, fused where "
        "there is a kernel.",
        choices=("auto", "plain", "fused"),
    )
    shard_optimizer_state: bool = option(
        False,
        "With --engine=jax: every device keeps only its part of the optimizer's moments, which "
        "saves memory and costs communication.",
    )

    @property
    def dtype_policy(self) -> str:
        """The Keras dtype policy of `dtype`, which must not be "auto"."""
        return DTYPE_POLICIES[self.dtype]


def started_by_srun() -> bool:
    """Return whether SLURM's srun has started this process as one of several."""
    return int(os.environ.get("SLURM_NTASKS", "1")) > 1 and "SLURM_STEP_NODELIST" in os.environ
