"""Speed of pretraining on one GPU, with the JAX engine, against Hugging Face PyTorch.

    python -m benchmarks.accelerator --models=base,large,xlarge,xxlarge --batch_sizes=16

needs jax, keras, torch and transformers, and no TensorFlow. A complete step is timed: forward
and backward in bfloat16, gradients clipped to norm 1, LAMB (AdamW for PyTorch), on generated
sequences without padding. All implementations stay in memory, each in a process of its own, and run
in --repeats interleaved rounds; the table shows the median and the range. Use --alone if two of
them do not fit in memory at once.

MFU is the number of operations of the model's matrix products (`albert_tf.flops`) per second, over
the peak of the GPU. Next to it is the same over the rate of a large matrix product, measured in the
same rounds, which is as fast as this GPU gets. Compilation time is the first step minus a later
one. Memory is the peak of the framework's allocator on the GPU.

So far nothing has been measured on a GPU. On a CPU the benchmark only shows that it works, and
writes results only with --json.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import json
import os
import shlex
import statistics
import sys

from albert_tf.config import AlbertConfig
from albert_tf.errors import InputError
from albert_tf.files import make_folder, write_text
from albert_tf.flops import pretraining_flops
from albert_tf.hardware.peaks import gpu_peak
from albert_tf.options import command, option
from albert_tf.progress import ProgressLine
from benchmarks.implementations.workload import Workload
from benchmarks.interleaving import Implementation, ProcessFailed, Spread, interleave
from benchmarks.machine import describe, today, versions
from benchmarks.measurements import Measurement, reference_of

RESULTS = os.path.join("benchmarks", "results", "accelerator.json")
STILL_TO_BE_TAKEN = (
    "Measured on a CPU, which only shows that the benchmark works; no GPU has been measured yet."
)

# --attention -> implementation.
OURS = {"plain": "albert_tf on JAX", "fused": "albert_tf on JAX, fused attention"}
# --hugging_face -> implementation.
THEIRS = {"compiled": "Hugging Face, compiled", "eager": "Hugging Face", "none": None}
PRODUCTS = "matrix products on JAX"
# A product takes 1.5 ms on an H100; a round must be long enough to warm up the GPU.
_PRODUCTS_PER_ROUND = 200

_OUT_OF_MEMORY = ("RESOURCE_EXHAUSTED", "OutOfMemoryError", "out of memory")


@dataclasses.dataclass(frozen=True)
class Options:
    """Flags of the benchmark."""

    models: tuple[str, ...] = option(
        ("base", "large", "xlarge", "xxlarge"), "Model sizes of the paper, version 2."
    )
    albert_config_file: str | None = option(None, "Config file of one model, instead of --models.")
    batch_sizes: tuple[str, ...] = option(("16",), "Batch sizes in sequences, each for all models.")
    max_seq_length: int = option(512, "Tokens in a sequence.")
    max_predictions_per_seq: int = option(20, "Masked positions in a sequence.")
    dtype: str = option("bfloat16", "Precision.", choices=("float32", "bfloat16"))
    attention: tuple[str, ...] = option(
        ("plain", "fused"), f"Attention of our model: {' or '.join(OURS)}, or both."
    )
    hugging_face: str = option(
        "compiled", "How Hugging Face's model runs in PyTorch.", choices=tuple(THEIRS)
    )
    steps: int = option(20, "Steps in a round.")
    repeats: int = option(5, "Rounds.")
    alone: bool = option(
        False, "Run one implementation after the other instead of interleaved rounds."
    )
    product_size: int = option(8192, "Rows and columns of the large matrix product.")
    peak_tflops: float = option(0.0, "Peak of the GPU; 0 to look it up by name.")
    json: str | None = option(
        None, f"Results file; by default {RESULTS} on a GPU, and none on a CPU."
    )


@dataclasses.dataclass
class Case:
    """One implementation and its results.

    Attributes:
        name: a key of the table in `benchmarks.implementations`.
        workload: the work that it does.
        steps: number of steps in a round.
        first_step: seconds, including compilation.
        seconds: of each round.
        device: the device that it reports.
        failure: why it could not run, or None.
    """

    name: str
    workload: Workload
    steps: int
    first_step: float = 0.0
    seconds: list[float] = dataclasses.field(default_factory=list)
    device: dict = dataclasses.field(default_factory=dict)
    failure: str | None = None

    @property
    def compile_seconds(self) -> float:
        return max(0.0, self.first_step - statistics.median(self.seconds) / self.steps)


def measure(cases: list[Case], options: Options) -> None:
    """Runs cases in interleaved rounds, or one after the other, and fills in the results.

    Raises:
        InputError: if some run on a GPU and others on the CPU.
        ProcessFailed: if a process ends after the warm-up.
    """
    groups = [[case] for case in cases] if options.alone else [cases]
    for group in groups:
        with contextlib.ExitStack() as stack:
            ways = {}
            for case in group:
                try:
                    implementation = stack.enter_context(Implementation(case.name, case.workload))
                    case.first_step = implementation.run(1)
                    implementation.run(case.steps)  # warm-up
                except ProcessFailed as failed:
                    case.failure = _reason(failed)
                    continue
                case.device = implementation.device
                ways[case.name] = functools.partial(implementation.run, case.steps)
            _check_devices(group)
            seconds = interleave(ways, options.repeats)
        for case in group:
            case.seconds = seconds.get(case.name, [])


def _reason(failed: ProcessFailed) -> str:
    if any(words in failed.stderr for words in _OUT_OF_MEMORY):
        return "out of memory"
    return failed.reason


def _check_devices(cases: list[Case]) -> None:
    found = {each.device["platform"]: each.name for each in cases if not each.failure}
    if len(found) > 1:
        where = ", ".join(f"{name} on the {kind.upper()}" for kind, name in sorted(found.items()))
        raise InputError(f"{where}: install what all of them need for the GPU")


def _title(details: dict) -> str:
    return f"{details['model']}, {details['batch_size']} x {details['length']}"


def measurements(
    cases: list[Case], products: Case, details: dict, peak: float | None
) -> list[Measurement]:
    """The measurements of all cases that did not fail, with their MFU.

    Args:
        cases: the training steps.
        products: the matrix products measured in the same rounds.
        details: details of the work.
        peak: operations per second that the GPU can do at most, or None if unknown.
    """
    flops = details["flops_per_sequence"]
    # The time of the model's operations at the rate of matrix products in the same round.
    product = 2 * products.workload.batch_size * products.workload.length**2
    rates = [products.steps * product / seconds for seconds in products.seconds]
    found = []
    for case in cases:
        if case.failure:
            continue
        sequences = case.steps * case.workload.batch_size
        made = Measurement(
            _title(details),
            case.name,
            case.seconds,
            amount=sequences,
            unit="sequences",
            lower_bound=[sequences * flops / rate for rate in rates] or None,
            details={
                **details,
                "steps_per_turn": case.steps,
                "matrix_products_flops_per_second": rates,
                "compile_seconds": case.compile_seconds,
                "device_peak_memory_bytes": case.device["peak_memory"],
            },
        )
        made.details["mfu"] = made.rate.median * flops / peak if peak else None
        found.append(made)
    return found


def run(options: Options) -> None:
    works = _works(options)
    if options.json:  # before anything is measured
        make_folder(os.path.dirname(options.json) or ".", "json")
    report = _Report(options)
    progress = ProgressLine()
    for model, config in works:
        for batch_size in map(int, options.batch_sizes):
            progress.update(f"{model}, {batch_size} sequences")
            workload = Workload(
                "pretraining",
                config.to_dict(),
                batch_size,
                options.max_seq_length,
                options.max_predictions_per_seq,
                options.dtype,
            )
            size = options.product_size
            products = Workload("products", {}, size, size, dtype=options.dtype)
            names = [*(OURS[attention] for attention in options.attention)]
            if theirs := THEIRS[options.hugging_face]:
                names.append(theirs)
            cases = [Case(name, workload, options.steps) for name in names]
            cases.append(Case(PRODUCTS, products, _PRODUCTS_PER_ROUND))
            measure(cases, options)
            progress.clear()
            report.add(model, cases)
    report.end()


def _works(options: Options) -> list[tuple[str, AlbertConfig]]:
    """The models by name; also checks all flags."""
    if options.albert_config_file:
        path = options.albert_config_file
        works = [(os.path.basename(path), AlbertConfig.from_json_file(path))]
    else:
        works = [(name, AlbertConfig.preset(name, version=2)) for name in options.models]
    length, predictions = options.max_seq_length, options.max_predictions_per_seq
    for name, config in works:
        if not 2 <= length <= config.max_position_embeddings:
            raise InputError(
                f"--max_seq_length={length}: {name} has {config.max_position_embeddings} positions"
            )
        if config.hidden_dropout_prob or config.attention_probs_dropout_prob:
            raise InputError(f"{name}: must have no dropout, as in version 2")
    if not 1 <= predictions <= length:
        raise InputError(f"--max_predictions_per_seq={predictions}: must be from 1 to {length}")
    for flag, value in (
        *(("batch_sizes", value) for value in options.batch_sizes),
        *((name, str(getattr(options, name))) for name in ("steps", "repeats", "product_size")),
    ):
        if not value.isdigit() or int(value) < 1:
            raise InputError(f"--{flag}={value}: must be an integer of at least 1")
    for attention in options.attention:
        if attention not in OURS:
            raise InputError(f"--attention={attention}: must be one of {', '.join(OURS)}")
    return works


class _Report:
    """Prints the table row by row and writes the JSON file after every batch size."""

    def __init__(self, options: Options):
        self.options = options
        self.path = options.json
        self.device: dict | None = None
        self.peak: float | None = None
        self.measurements: list[dict] = []
        self.left_out: dict[str, str] = {}

    def add(self, model: str, cases: list[Case]) -> None:
        *training, products = cases
        if self.device is None:
            self._begin(cases)
        workload, options = training[0].workload, self.options
        config = AlbertConfig(**workload.config)
        details = {
            "model": model,
            "task": workload.task,
            "batch_size": workload.batch_size,
            "length": workload.length,
            "predictions": workload.predictions,
            "dtype": workload.dtype,
            "flops_per_sequence": pretraining_flops(config, workload.length, workload.predictions),
            "config": workload.config,
            "in_turns": not options.alone,
        }
        found = measurements(training, products, details, self.peak and self.peak * 1e12)
        reference = THEIRS[options.hugging_face]
        for made in found:
            other = reference_of(made, found, reference) if reference else None
            self.measurements.append(made.to_dict(other))
            self._row(made, other)
        for case in (case for case in cases if case.failure):
            self.left_out[f"{case.name}, {_title(details)}"] = case.failure
            print(f"| {_title(details)} | {case.name} | {case.failure} |{' – |' * 5}")
        sys.stdout.flush()
        self._save()

    def _begin(self, cases: list[Case]) -> None:
        devices = [case.device for case in cases if not case.failure]
        if not devices:
            raise InputError(f"no implementation could run: {cases[0].name}: {cases[0].failure}")
        self.device = {name: devices[0][name] for name in ("platform", "name")}
        on_gpu = self.device["platform"] == "gpu"
        self.peak = self.options.peak_tflops or (gpu_peak(self.device["name"]) if on_gpu else None)
        if on_gpu and not self.path:
            os.makedirs(os.path.dirname(RESULTS), exist_ok=True)
            self.path = RESULTS
        if not on_gpu:
            print(STILL_TO_BE_TAKEN)
        peak = f"{self.peak:g} TFLOP/s at most" if self.peak else "peak unknown (--peak_tflops)"
        print(
            f"{self.device['name']}, {peak}; {self.options.dtype}, {self.options.max_seq_length} "
            f"tokens, {self.options.repeats} rounds"
        )
        columns = (
            *("work", "implementation", "sequences/s", "MFU", "share of a large product's rate"),
            *("compilation, s", "memory, GiB", "time / Hugging Face's"),
        )
        print(f"| {' | '.join(columns)} |\n|{'---|' * len(columns)}")

    def _row(self, made: Measurement, reference: Measurement | None) -> None:
        details, memory = made.details, made.details["device_peak_memory_bytes"]
        cells = (
            made.work,
            made.way,
            f"{made.rate:.1f}",
            f"{details['mfu']:.1%}" if details["mfu"] is not None else "–",
            f"{made.lower_bound_share:.1%}" if made.lower_bound_share else "–",
            f"{details['compile_seconds']:.1f}",
            f"{memory / 2**30:.1f}" if memory is not None else "–",
            f"{made.times_as_long(reference):.2f}" if reference else "–",
        )
        print(f"| {' | '.join(cells)} |")

    def _save(self) -> None:
        if not self.path:
            return
        values = {
            "part": "accelerator",
            "title": "Pretraining on one accelerator",
            "command": shlex.join(["python", "-m", "benchmarks.accelerator", *sys.argv[1:]]),
            "date": today(),
            "machine": {**describe(), "device": self.device, "peak_tflops": self.peak},
            "versions": versions(),
            "note": None if self.device["platform"] == "gpu" else STILL_TO_BE_TAKEN,
            "left_out": self.left_out,
            "measurements": self.measurements,
        }
        write_text(self.path, json.dumps(values, indent=1) + "\n")

    def end(self) -> None:
        rates = [
            rate / 1e12
            for made in self.measurements
            for rate in made["matrix_products_flops_per_second"]
        ]
        if rates:
            size = self.options.product_size
            print(f"product of {size} x {size}: {Spread.of(rates):.3g} TFLOP/s")
        if self.path:
            print(f"written to {self.path}")


cli = command(Options, run)

if __name__ == "__main__":
    cli()
