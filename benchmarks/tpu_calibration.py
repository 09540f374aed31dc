"""Published times of training steps on TPUs, next to the preflight's estimates.

    python -m benchmarks.tpu_calibration

Every row is a model that somebody else trained, with its shape, batch and slice; it is compiled for
that slice as the preflight compiles ours, without a TPU. BERT and ALBERT are our own model;
decoders are `benchmarks.implementations.decoder`. Communication is not in the estimates of
decoders: their all-gathers overlap with computation. Needs what the preflight needs, and one to
several minutes for a row. Lines come as they are known; docs/howto/preflight.md has the table.
"""

from __future__ import annotations

import dataclasses
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
from typing import Any, NamedTuple

from albert_tf.children import run_child
from albert_tf.errors import InputError
from albert_tf.hardware.slices import GENERATIONS, GIB, Slice, parse_slice
from albert_tf.options import command, option
from albert_tf.tpu.bounds import step_time
from albert_tf.tpu.costs import KERNELS, Kernel
from albert_tf.tpu.preflight import Compiler, check_installed
from albert_tf.tpu.preflight_options import PreflightOptions
from benchmarks.tpu_kernels import SCHEDULE, numbers_in

# Weights are gathered before a product; by default, some products are computed in parts as they
# arrive, which recipes for v6e turn off with this.
_WHOLE_PRODUCTS = "--xla_jf_spmd_threshold_for_windowed_einsum_mib=1000000"
# JAX's splash attention with a head of keys and several of queries, by a part of their names.
SPLASH = ("splash_mqa_fwd", "splash_mqa_dkv", "splash_mqa_dq")


class Row(NamedTuple):
    """A published step.

    Attributes:
        name: of the model.
        topology: the slice.
        model: fields of `Decoder`, or flags of the preflight.
        seconds: of a step, as published.
        source: where.
    """

    name: str
    topology: str
    model: dict[str, Any]
    seconds: float
    source: str


def _bert(config: str, batch: int, micro: int, engine: str, **flags: Any) -> dict[str, Any]:
    return {
        "albert_config_file": config,
        "engine": engine,
        "attention": "plain",
        "dtype": "bfloat16",
        "train_batch_size": batch,
        "micro_batch_size": micro,
        "max_predictions_per_seq": 76,
        **flags,
    }


_MLPERF = "github.com/mlcommons/training_results_v0.7, Google's logs"
_MAXTEXT = "github.com/AI-Hypercomputer/maxtext, README of 2023"
# Published as operations a second; a step has 6 for a weight and token, and those of attention,
# half of the products of all queries and keys (`calculate_training_tflops` of that version).
_MAXTEXT_V5P = "github.com/AI-Hypercomputer/maxtext, configs/v5p/README.md of 2023"
_RECIPES = "github.com/AI-Hypercomputer/tpu-recipes"
_CHAT = {
    "layers": 8, "width": 1024, "heads": 4, "key_heads": 1, "head_size": 256, "inner": 3072,
    "vocab": 32768, "gated": True, "tied": False, "batch": 64, "micro": 4, "length": 2048,
    "kept": None, "block": 1024, "weights": "bfloat16", "loss_chunks": 8,
}  # fmt: skip
_PRODUCTS = ("query", "key", "value", "output", "inner", "outer")
_DENSE = {
    "head_size": 256, "vocab": 32768, "gated": False, "tied": True, "length": 2048, "kept": (),
    "block": 512,
}  # fmt: skip


def _dense(layers: int, width: int, heads: int, inner: int, batch: int, **fields: Any):
    shape = {"layers": layers, "width": width, "heads": heads, "key_heads": heads, "inner": inner}
    return {**_DENSE, **shape, "batch": batch, "micro": batch, **fields}


ROWS = (
    Row("BERT large", "v3:4x4", _bert("bert_large", 448, 14, "tensorflow"), 0.4604, _MLPERF),
    Row("BERT large", "v4:2x2x2", _bert("bert_large", 256, 32, "jax"), 0.2317, _MLPERF),
    Row(
        "ALBERT xxlarge, float32",
        "v3:16x16",
        _bert("xxlarge_v2", 4096, 8, "tensorflow", dtype="float32", max_predictions_per_seq=20),
        1.9131,
        "github.com/google-research/albert, issue 198",
    ),
    Row(
        "ALBERT base, float32",
        "v3:2x2",
        _bert("base_v1", 512, 32, "tensorflow", dtype="float32", max_predictions_per_seq=20),
        1.81,
        "github.com/google-research/albert, issue 7",
    ),
    Row("decoder of 0.16 B", "v5e:1x1", _CHAT, 0.8807, "github.com/vorushin/tpuchat"),
    Row("decoder of 0.16 B", "v6e:1x1", _CHAT, 0.3023, "github.com/vorushin/tpuchat"),
    Row("decoder of 16 B", "v5e:16x16", _dense(32, 5120, 32, 32768, 6), 10.66, _MAXTEXT),
    Row("decoder of 32 B", "v5e:16x16", _dense(32, 10240, 32, 32768, 4), 12.52, _MAXTEXT),
    Row("decoder of 64 B", "v5e:16x16", _dense(64, 10240, 32, 32768, 2), 13.93, _MAXTEXT),
    Row(
        "decoder of 22 B",
        "v4:4x4x4",
        _dense(48, 6144, 24, 24576, 16, length=1024, block=None),
        13.83,
        _MAXTEXT,
    ),
    Row(
        "decoder of 32 B",
        "v5p:4x4x4",
        _dense(32, 10240, 32, 32768, 8, kept=_PRODUCTS),
        9.916,
        _MAXTEXT_V5P,
    ),
    Row(
        "decoder of 64 B",
        "v5p:4x4x4",
        _dense(64, 10240, 32, 32768, 4, kept=_PRODUCTS),
        10.02,
        _MAXTEXT_V5P,
    ),
    Row(
        "Llama 3.1, 8 B",
        "v6e:4x8",
        _dense(32, 4096, 32, 14336, 3, key_heads=8, head_size=128, vocab=128256, gated=True,
               tied=False, length=8192, block=1024, loss_chunks=8,
               kept=("query", "key", "value")),
        3.495,
        _RECIPES,
    ),
    Row(
        "Llama 3.1, 70 B",
        "tpu7x:4x4x4",
        _dense(80, 8192, 64, 28672, 2, key_heads=8, head_size=128, vocab=128256, gated=True,
               tied=False, length=8192, block=2048,
               kept=("query", "key", "value", "context")),
        12.20,
        _RECIPES,
    ),
)  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Options:
    """Flags of the benchmark."""

    only: tuple[str, ...] = option((), "Numbers of rows, from 1; without it, all.")


def estimate(row: Row) -> float:
    """Return the estimated seconds of a step."""
    where = parse_slice(row.topology)
    if "layers" in row.model:
        kernels = kernel_bundles(where.generation, row.model) if row.model["block"] else {}
        call = f"compile_decoder({row.topology!r}, {row.model}, {kernels})"
        return json.loads(_child(call, LIBTPU_INIT_ARGS=_WHOLE_PRODUCTS))
    options = PreflightOptions(topology=row.topology, **row.model)
    batch, micro = options.train_batch_size, options.micro_batch_size
    compiled = Compiler(options).compile(where, batch, micro, False)
    if not compiled.fits:
        raise InputError(f"{row.name} on {row.topology}: {compiled.error or 'does not fit'}")
    return step_time(compiled, where).estimate


def kernel_bundles(generation: str, model: dict[str, Any]) -> dict[str, float]:
    """Return the bundles of splash attention by kernel, for 512 queries and 512 keys on average.

    A causal mask leaves out blocks above the diagonal. Gradients of keys and values are counted by
    heads of keys, each of which has the work of several of queries.
    """
    with tempfile.TemporaryDirectory() as folder:
        arguments = (
            f"--xla_jf_dump_to={folder} --xla_jf_dump_llo_text=true "
            "--xla_jf_dump_llo_pass_label_regex=final_bundles"
        )
        _child(f"compile_attention({generation!r}, {model})", LIBTPU_INIT_ARGS=arguments)
        block = model["block"]
        blocks = model["length"] // block
        share = (blocks + 1) / (2 * blocks)
        files = pathlib.Path(folder).glob("*schedule-analysis_final_bundles.txt")
        found = numbers_in(files, SCHEDULE, SPLASH)
        group = model["heads"] // model["key_heads"]
        return {
            name: share * count * (512 / block) ** 2 * (group if "dkv" in name else 1)
            for name, count in found.items()
        }


def _child(call: str, **environment: str) -> str:
    """Return the last line that a function of this module prints in a process of its own."""
    done = run_child(
        [
            sys.executable,
            "-c",
            f"import benchmarks.tpu_calibration; benchmarks.tpu_calibration.{call}",
        ],
        env={**os.environ, "KERAS_BACKEND": "jax", **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    if done.returncode:
        raise InputError(done.stderr.strip().splitlines()[-1])
    return done.stdout.splitlines()[-1]


def compile_attention(generation: str, model: dict[str, Any]) -> None:
    """Compile the attention of a decoder and its gradient on one device."""
    devices = _devices(Slice(generation, GENERATIONS[generation].shapes[0]))

    from benchmarks.implementations.decoder import Decoder, lower_attention

    lower_attention(Decoder(**model), devices[:1]).compile()
    print("compiled")


def compile_decoder(topology: str, model: dict[str, Any], kernels: dict[str, float]) -> None:
    """Compile a decoder's step and print the estimated seconds."""
    where = parse_slice(topology)
    devices = _devices(where)

    from albert_tf.tpu.compiling import measure
    from benchmarks.implementations.decoder import Decoder, lower

    for name, bundles in kernels.items():
        KERNELS[name] = Kernel(0, {where.generation: bundles})
    lowered = lower(Decoder(**model), devices)
    compiled = measure(
        lambda: lowered.compile().runtime_executable(),
        lowered.compiler_ir("stablehlo"),
        where.generation,
        1,
    )
    if not compiled.fits:
        raise InputError(compiled.error or f"needs {compiled.memory / GIB:.1f} GiB")
    time = step_time(dataclasses.replace(compiled, reduced_bytes=0), where)
    print(json.dumps(time.estimate))


def _devices(where: Slice) -> Any:
    """Return the devices of a slice, an array; it need not exist."""
    # First, since it has JAX look for no TPU on this machine.
    from albert_tf.tpu.compiling import topologies  # isort: skip

    import numpy as np

    description: Any = topologies.get_topology_desc(
        platform="tpu", topology_name=where.name, **where.settings
    )
    return np.array(description.devices)


def main(options: Options) -> None:
    check_installed()
    rows = [
        row for number, row in enumerate(ROWS, 1) if str(number) in options.only or not options.only
    ]
    print("| model | slice | published, s | estimate, s | published / estimate | source |")
    print("| --- | --- | ---: | ---: | ---: | --- |")
    ratios = []
    for row in rows:
        seconds = estimate(row)
        ratios.append(row.seconds / seconds)
        print(
            f"| {row.name} | `{row.topology}` | {row.seconds:.3g} | {seconds:.3g} "
            f"| {ratios[-1]:.2f} | {row.source} |",
            flush=True,
        )
    print(f"\nmedian {statistics.median(ratios):.2f}, {min(ratios):.2f} to {max(ratios):.2f}")


cli = command(Options, main)

if __name__ == "__main__":
    cli()
