"""Speed of training steps: measured here, in rounds, and estimated by the TPU compiler."""

from __future__ import annotations

import dataclasses
import json
import pathlib

from albert_tf.config import AlbertConfig
from albert_tf.errors import InputError
from albert_tf.files import write_text
from albert_tf.flops import pretraining_flops
from albert_tf.hardware.slices import parse_slice
from albert_tf.tpu.bounds import step_time
from albert_tf.tpu.preflight import Compiler, candidates, check_installed
from albert_tf.tpu.preflight_options import PreflightOptions
from benchmarks.comparison import Case, Options, Suite, compare
from benchmarks.implementations.workload import Workload
from experiments.scales import PAPER, Scale

IMPLEMENTATIONS = {"tensorflow": "albert_tf", "jax": "albert_tf on JAX, fused attention"}
ROUNDS = 5


def measured_here(
    scale: Scale,
    model: AlbertConfig,
    reference: AlbertConfig,
    shape: tuple[int, int],
    engine: str,
) -> dict[str, list[float]]:
    """Return speed of training steps in each of several rounds, next to a reference.

    Args:
        scale: precision and number of predictions.
        model: the model.
        reference: the model that it is compared with.
        shape: (sequences, tokens) in a step.
        engine: "tensorflow" or "jax".

    Returns:
        `sequences_per_second`, and `relative_speed` as a multiple of the reference's.

    Raises:
        InputError: If one of the two could not be measured, for lack of memory for example.
    """
    batch, length = shape
    predictions = scale.data["max_predictions_per_seq"]
    dtype = scale.training.get("dtype", "float32")
    cases = [
        Case(
            name,
            IMPLEMENTATIONS[engine],
            Workload("pretraining", config.to_dict(), batch, length, predictions, dtype),
            pretraining_flops(config, length, predictions),
            f"{batch} x {length}",
        )
        for name, config in (("reference", reference), ("model", model))
    ]
    suite = Suite(Options(repeats=ROUNDS))
    left_out: dict[str, str] = {}
    measurements = compare(suite, "speed", cases, left_out)
    suite.progress.clear()
    if left_out:
        raise InputError(f"speed: {'; '.join(left_out.values())}")
    theirs, ours = ([each.amount / seconds for seconds in each.seconds] for each in measurements)
    multiples = [own / other for own, other in zip(ours, theirs, strict=True)]
    return {"sequences_per_second": ours, "relative_speed": multiples}


def on_slice(folder: pathlib.Path, config: AlbertConfig, topology: str) -> float | None:
    """Return the examples/s on a TPU slice, as the TPU compiler estimates them.

    Micro-batches are the largest that fit, without rematerialization if possible.

    Args:
        folder: for the config.
        config: shape of the model.
        topology: of the slice, such as "v3:16x32".

    Returns:
        None if no micro-batch fits.
    """
    check_installed()
    where = parse_slice(topology)
    path = folder / "config.json"
    write_text(str(path), json.dumps(config.to_dict()))
    names = {field.name for field in dataclasses.fields(PreflightOptions)}
    flags = {**PAPER.data, **PAPER.training}
    options = PreflightOptions(
        albert_config_file=str(path),
        topology=topology,
        engine=where.data.engines[0],
        **{name: value for name, value in flags.items() if name in names},
    )
    share = options.train_batch_size // where.replicas
    compiler = Compiler(options)
    for remat in (False, True):
        for micro in reversed(candidates(share, [])):
            compiled = compiler.compile(where, options.train_batch_size, micro, remat)
            if compiled.fits:
                return options.train_batch_size / step_time(compiled, where).estimate
    return None
