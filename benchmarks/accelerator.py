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
writes results only with --results.
"""

import dataclasses
import os
import shlex
import sys

from albert_tf.config import AlbertConfig
from albert_tf.errors import InputError
from albert_tf.files import make_folder
from albert_tf.flops import pretraining_flops
from albert_tf.hardware import gpu_peak
from albert_tf.options import check_limits, command, option
from benchmarks import comparison
from benchmarks.comparison import Case, Suite, compare, products
from benchmarks.implementations.workload import Workload
from benchmarks.interleaving import Spread
from benchmarks.measurements import Measurement, Result, Table, reference_of, write

STILL_TO_BE_TAKEN = (
    "Measured on a CPU, which only shows that the benchmark works; no GPU has been measured yet."
)

# --attention -> implementation.
OURS = {"plain": "albert_tf on JAX", "fused": "albert_tf on JAX, fused attention"}
# --hugging_face -> implementation.
THEIRS = {"compiled": "Hugging Face, compiled", "eager": "Hugging Face", "none": None}


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
    steps: int = option(20, "Steps in a round.", minimum=1)
    repeats: int = option(5, "Rounds.", minimum=1)
    alone: bool = option(
        False, "Run one implementation after the other instead of interleaved rounds."
    )
    product_size: int = option(8192, "Rows and columns of the large matrix product.", minimum=1)
    peak_tflops: float = option(0.0, "Peak of the GPU; 0 to look it up by name.")
    results: str | None = option(
        None, "Folder of the results; by default benchmarks/results on a GPU, and none on a CPU."
    )


def run(options: Options) -> None:
    models = _models(options)
    if options.results:  # before anything is measured
        make_folder(options.results, "results")
    names = [OURS[attention] for attention in options.attention]
    reference = THEIRS[options.hugging_face]
    if reference:
        names.append(reference)
    bound = products(options.dtype, (options.product_size,) * 3, "matrix products on JAX")
    suite = Suite(comparison.Options(repeats=options.repeats))
    measurements: list[Measurement] = []
    left_out: dict[str, str] = {}
    for model, config in models:
        for batch_size in map(int, options.batch_sizes):
            length, predictions = options.max_seq_length, options.max_predictions_per_seq
            work = f"{model}, {batch_size} x {length}"
            workload = Workload(
                "pretraining", config.to_dict(), batch_size, length, predictions, options.dtype
            )
            flops = pretraining_flops(config, length, predictions)
            cases = [Case(name, name, workload, flops, work, options.steps) for name in names]
            for group in [[case] for case in cases] if options.alone else [cases]:
                measurements += compare(suite, work, group, left_out, bound)
            suite.progress.clear()
            if not measurements:
                raise InputError(f"no implementation could run: {'; '.join(left_out.values())}")
            result, paths = _report(options, measurements, left_out, reference)
    print(result.markdown())
    print(f"written to {', '.join(paths)}" if paths else result.values["note"] or "")


def _models(options: Options) -> list[tuple[str, AlbertConfig]]:
    """Return the models by name; also checks all flags."""
    check_limits(options)
    if options.albert_config_file:
        path = options.albert_config_file
        models = [(os.path.basename(path), AlbertConfig.from_json_file(path))]
    else:
        models = [(name, AlbertConfig.preset(name, version=2)) for name in options.models]
    length, predictions = options.max_seq_length, options.max_predictions_per_seq
    for name, config in models:
        if not 2 <= length <= config.max_position_embeddings:
            raise InputError(
                f"--max_seq_length={length}: {name} has {config.max_position_embeddings} positions"
            )
        if config.hidden_dropout_prob or config.attention_probs_dropout_prob:
            raise InputError(f"{name}: must have no dropout, as in version 2")
    if not 1 <= predictions <= length:
        raise InputError(f"--max_predictions_per_seq={predictions}: must be from 1 to {length}")
    for value in options.batch_sizes:
        if not value.isdigit() or int(value) < 1:
            raise InputError(f"--batch_sizes={value}: must be an integer of at least 1")
    for attention in options.attention:
        if attention not in OURS:
            raise InputError(f"--attention={attention}: must be one of {', '.join(OURS)}")
    return models


def _report(
    options: Options,
    measurements: list[Measurement],
    left_out: dict[str, str],
    reference: str | None,
) -> tuple[Result, list[str]]:
    """Return the results so far, and the files that they were written to."""
    device = {**measurements[0].details["device"]}
    del device["peak_memory"]
    on_gpu = device["platform"] == "gpu"
    peak = options.peak_tflops or (gpu_peak(device["name"]) if on_gpu else None)
    rows = []
    for each in measurements:
        flops = each.details["flops_per_sequence"]
        mfu = each.rate.median * flops / (peak * 1e12) if peak else None
        each.details["mfu"] = mfu
        memory = each.details["device"]["peak_memory"]
        other = reference_of(each, measurements, reference) if reference else None
        rows.append(
            (
                each.work,
                each.implementation,
                f"{each.rate:.1f}",
                f"{mfu:.1%}" if mfu is not None else "–",
                f"{each.lower_bound_share:.1%}" if each.lower_bound_share else "–",
                f"{each.details['compile_seconds']:.1f}",
                f"{memory / 2**30:.1f}" if memory is not None else "–",
                f"{each.times_as_long(other):.2f}" if other else "–",
            )
        )
    heads = (
        *("work", "implementation", "sequences/s", "MFU", "share of a large product's rate"),
        *("compilation, s", "memory, GiB", "time / Hugging Face's"),
    )
    rates = [
        rate / 1e12
        for each in measurements
        for rate in each.details["matrix_products_flops_per_second"]
    ]
    title = (
        f"{device['name']}, {f'{peak:g} TFLOP/s at most' if peak else 'peak unknown'}; "
        f"{options.dtype}, {options.max_seq_length} tokens, {options.repeats} rounds"
    )
    if rates:
        size = options.product_size
        title += f"; product of {size} x {size}: {Spread.of(rates):.3g} TFLOP/s"
    result = Result(
        "Pretraining on one accelerator",
        measurements,
        reference or "",
        [Table(title, heads, rows)],
        [],
        left_out,
        {
            "device": device,
            "peak_tflops": peak,
            "interleaved": not options.alone,
            "note": None if on_gpu else STILL_TO_BE_TAKEN,
        },
    )
    folder = options.results or ("benchmarks/results" if on_gpu else None)
    if folder is None:
        return result, []
    make_folder(folder, "results")
    words = shlex.join(["python", "-m", "benchmarks.accelerator", *sys.argv[1:]])
    return result, write(result, folder, "accelerator", words, quick=not on_gpu)


cli = command(Options, run)

if __name__ == "__main__":
    cli()
