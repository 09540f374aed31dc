"""Speed of pretraining on one GPU, on Keras's JAX backend, against Hugging Face PyTorch.

    python -m benchmarks.accelerator --models=base,large,xlarge,xxlarge --batch_sizes=16

needs jax, keras, torch and transformers, and no TensorFlow. A step is a whole one: forward and
backward in bfloat16, gradients clipped to norm 1, LAMB (AdamW for PyTorch), on made-up sequences
without padding. All contestants stay in memory, each in a process of its own, and take turns; the
table has the median and the range of --repeats turns. Of a batch of which two do not fit beside
each other, use --alone.

MFU is what the model's products take by formula (`albert_tf.flops`) over the card's peak; beside it
stands the same over the rate of a large product, measured in the same turns, which is as fast as
this card can be. Compilation is what the first step took more than a later one. Memory is what the
framework's allocator held on the card at most.

No GPU was at hand so far: figures are still to be taken. On a CPU it runs for what it is worth, to
see that it works, and writes no results unless asked to by --json.
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
from benchmarks.contestants.workload import Workload
from benchmarks.machine import describe, today, versions
from benchmarks.measurements import Measurement, reference_of
from benchmarks.turns import Contestant, Died, Spread, take_turns

RESULTS = os.path.join("benchmarks", "results", "accelerator.json")
STILL_TO_BE_TAKEN = (
    "This is a CPU: figures of a GPU are still to be taken; these only show that it works."
)

# Way to attend, of ours -> contestant.
OURS = {"plain": "albert_tf on JAX", "flash": "albert_tf on JAX, flash attention"}
# What runs of Hugging Face -> contestant.
THEIRS = {"compiled": "Hugging Face, compiled", "eager": "Hugging Face", "none": None}
PRODUCTS = "matrix products on JAX"
# On an H100 a product takes 1.5 ms; a turn of them is to be long enough to warm the card up.
_PRODUCTS_PER_TURN = 200

_OUT_OF_MEMORY = ("RESOURCE_EXHAUSTED", "OutOfMemoryError", "out of memory")


@dataclasses.dataclass(frozen=True)
class Options:
    """Flags of the benchmark."""

    models: tuple[str, ...] = option(
        ("base", "large", "xlarge", "xxlarge"), "Sizes of the paper, version 2."
    )
    albert_config_file: str | None = option(None, "One model of a file, in place of --models.")
    batch_sizes: tuple[str, ...] = option(("16",), "Sequences in a batch; all for each model.")
    max_seq_length: int = option(512, "Tokens in a sequence.")
    max_predictions_per_seq: int = option(20, "Masked positions of a sequence.")
    dtype: str = option("bfloat16", "Precision.", choices=("float32", "bfloat16"))
    attention: tuple[str, ...] = option(
        ("plain", "flash"), f"How ours attends: {' or '.join(OURS)}, or both in turn."
    )
    hugging_face: str = option("compiled", "How PyTorch runs.", choices=tuple(THEIRS))
    steps: int = option(20, "Steps in a turn.")
    repeats: int = option(5, "Turns of each contestant.")
    alone: bool = option(False, "One contestant after the other has the card, without turns.")
    product_size: int = option(8192, "Rows and columns of the large product.")
    peak_tflops: float = option(0.0, "What the card can do at most; 0 to look it up by its name.")
    json: str | None = option(
        None, f"File for the results; without it {RESULTS} if there is a GPU, none otherwise."
    )


@dataclasses.dataclass
class Entrant:
    """A contestant and what came of it.

    Attributes:
        name: of `benchmarks.contestants`.
        workload: what it does.
        steps: in a turn.
        first_step: seconds, compilation included.
        seconds: of every turn.
        device: what it ran on, as it says.
        failure: why it could not take part.
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


def measure(entrants: list[Entrant], options: Options) -> None:
    """Runs entrants in turn, or each alone, and fills in what came of it.

    Raises:
        InputError: some run on a GPU, others on the CPU.
        Died: the process of one ended after it had made its first turn.
    """
    groups = [[entrant] for entrant in entrants] if options.alone else [entrants]
    for group in groups:
        with contextlib.ExitStack() as stack:
            ways = {}
            for entrant in group:
                try:
                    contestant = stack.enter_context(Contestant(entrant.name, entrant.workload))
                    entrant.first_step = contestant.run(1)
                    contestant.run(entrant.steps)  # one turn that does not count
                except Died as died:
                    entrant.failure = _reason(died)
                    continue
                entrant.device = contestant.device
                ways[entrant.name] = functools.partial(contestant.run, entrant.steps)
            _check_devices(group)
            seconds = take_turns(ways, options.repeats)
        for entrant in group:
            entrant.seconds = seconds.get(entrant.name, [])


def _reason(died: Died) -> str:
    if any(words in died.said for words in _OUT_OF_MEMORY):
        return "out of memory"
    return died.reason


def _check_devices(entrants: list[Entrant]) -> None:
    found = {each.device["platform"]: each.name for each in entrants if not each.failure}
    if len(found) > 1:
        where = ", ".join(f"{name} on the {kind.upper()}" for kind, name in sorted(found.items()))
        raise InputError(f"{where}: install what all of them need for the GPU")


def _title(details: dict) -> str:
    return f"{details['model']}, {details['batch_size']} x {details['length']}"


def measurements(
    entrants: list[Entrant], products: Entrant, details: dict, peak: float | None
) -> list[Measurement]:
    """What was measured of those that could take part, MFU and all.

    Args:
        entrants: those that trained.
        products: the one that multiplied meanwhile.
        details: what is known of the work.
        peak: operations a second that the card can do at most, where that is known.
    """
    flops = details["flops_per_sequence"]
    # The time that the model's operations take at the rate of the same round's products.
    product = 2 * products.workload.batch_size * products.workload.length**2
    rates = [products.steps * product / seconds for seconds in products.seconds]
    found = []
    for entrant in entrants:
        if entrant.failure:
            continue
        sequences = entrant.steps * entrant.workload.batch_size
        made = Measurement(
            _title(details),
            entrant.name,
            entrant.seconds,
            amount=sequences,
            unit="sequences",
            floor=[sequences * flops / rate for rate in rates] or None,
            details={
                **details,
                "steps_per_turn": entrant.steps,
                "matrix_products_flops_per_second": rates,
                "compile_seconds": entrant.compile_seconds,
                "device_peak_memory_bytes": entrant.device["peak_memory"],
            },
        )
        made.details["mfu"] = made.rate.median * flops / peak if peak else None
        found.append(made)
    return found


def run(options: Options) -> None:
    works = _works(options)
    if options.json:  # before all the work
        make_folder(os.path.dirname(options.json) or ".", "--json")
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
            entrants = [Entrant(name, workload, options.steps) for name in names]
            entrants.append(Entrant(PRODUCTS, products, _PRODUCTS_PER_TURN))
            measure(entrants, options)
            progress.clear()
            report.add(model, entrants)
    report.end()


def _works(options: Options) -> list[tuple[str, AlbertConfig]]:
    """Models by name; checks all flags."""
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
            raise InputError(f"{name}: must be without dropout, as version 2 is")
    if not 1 <= predictions <= length:
        raise InputError(f"--max_predictions_per_seq={predictions}: must be from 1 to {length}")
    for flag, value in (
        *(("batch_sizes", value) for value in options.batch_sizes),
        *((name, str(getattr(options, name))) for name in ("steps", "repeats", "product_size")),
    ):
        if not value.isdigit() or int(value) < 1:
            raise InputError(f"--{flag}={value}: must be a whole number of at least 1")
    for attention in options.attention:
        if attention not in OURS:
            raise InputError(f"--attention={attention}: must be one of {', '.join(OURS)}")
    return works


class _Report:
    """The table, printed row by row, and the JSON file, whole after every batch size."""

    def __init__(self, options: Options):
        self.options = options
        self.path = options.json
        self.device: dict | None = None
        self.peak: float | None = None
        self.measurements: list[dict] = []
        self.left_out: dict[str, str] = {}

    def add(self, model: str, entrants: list[Entrant]) -> None:
        *training, products = entrants
        if self.device is None:
            self._begin(entrants)
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
        for entrant in (entrant for entrant in entrants if entrant.failure):
            self.left_out[f"{entrant.name}, {_title(details)}"] = entrant.failure
            print(f"| {_title(details)} | {entrant.name} | {entrant.failure} |{' – |' * 5}")
        sys.stdout.flush()
        self._save()

    def _begin(self, entrants: list[Entrant]) -> None:
        devices = [entrant.device for entrant in entrants if not entrant.failure]
        if not devices:
            raise InputError(f"nobody could take part: {entrants[0].name}: {entrants[0].failure}")
        self.device = {name: devices[0][name] for name in ("platform", "name")}
        on_gpu = self.device["platform"] == "gpu"
        self.peak = self.options.peak_tflops or (gpu_peak(self.device["name"]) if on_gpu else None)
        if on_gpu and not self.path:
            os.makedirs(os.path.dirname(RESULTS), exist_ok=True)
            self.path = RESULTS
        if not on_gpu:
            print(STILL_TO_BE_TAKEN)
        peak = f"{self.peak:g} TFLOP/s at most" if self.peak else "peak not known (--peak_tflops)"
        print(
            f"{self.device['name']}, {peak}; {self.options.dtype}, {self.options.max_seq_length} "
            f"tokens, {self.options.repeats} turns of each"
        )
        columns = (
            *("work", "contestant", "sequences/s", "MFU", "of a large product's rate"),
            *("compilation, s", "memory, GiB", "times as long as Hugging Face"),
        )
        print(f"| {' | '.join(columns)} |\n|{'---|' * len(columns)}")

    def _row(self, made: Measurement, reference: Measurement | None) -> None:
        details, memory = made.details, made.details["device_peak_memory_bytes"]
        cells = (
            made.work,
            made.way,
            f"{made.rate:.1f}",
            f"{details['mfu']:.1%}" if details["mfu"] is not None else "–",
            f"{made.floor_share:.1%}" if made.floor_share else "–",
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
