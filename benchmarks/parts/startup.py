"""Start-up times: imports, --help, the first step, compilation, exports."""

from __future__ import annotations

import concurrent.futures
import dataclasses
import functools
import importlib.metadata
import os
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Callable

from albert_tf.children import run_child
from albert_tf.config import AlbertConfig
from albert_tf.errors import InputError
from benchmarks import corpus, fresh
from benchmarks.comparison import OURS, Suite
from benchmarks.interleaving import interleave
from benchmarks.measurements import Measurement
from benchmarks.parts.pretraining_step import TINY
from benchmarks.pictures import Bar, Panel
from benchmarks.reporting import Result, Table, decimals

WIDE = AlbertConfig(hidden_size=1024, num_attention_heads=16, intermediate_size=4096)
DEPTHS = (6, 12, 24)
LENGTH, PREDICTIONS, BATCH = 128, 20, 8

# Seconds of the parts of one run, by name; "all" is the whole process.
Parts = dict[str, float]
# Work and implementation -> function that runs it in a new process.
Runs = dict[tuple[str, str], Callable[[], Parts]]


def run(suite: Suite) -> Result:
    """Run everything in new processes, in rounds; the first round only fills the page cache."""
    with tempfile.TemporaryDirectory() as folder:
        data = corpus.small(folder)
        base = TINY if suite.quick else AlbertConfig.preset("base")
        base = dataclasses.replace(base, vocab_size=data.vocab_size)
        depths = (1, 2) if suite.quick else DEPTHS
        left_out: dict[str, str] = {}
        measurements = _measure(suite, programs(), "programs", left_out)
        runs = first_steps(data, base, folder)
        measurements += _measure(suite, runs, "first steps", left_out)
        compiled = _measure(suite, compilations(suite, depths), "compiling", left_out)
        measurements += compiled
        measurements += _measure(suite, exports(data, folder), "exports", left_out)
    table = _table([each for each in measurements if each not in compiled])
    values, compile_table = _depths(compiled, depths)
    bars = [Bar(_label(each), "", each.unit_seconds) for each in measurements if _is_whole(each)]
    panels = [Panel("whole processes, alone", "seconds", bars=bars)] if bars else []
    return Result("Start-up", measurements, OURS, [table, compile_table], panels, left_out, values)


def programs() -> Runs:
    """Python alone, the import, and --help of every installed command."""

    def whole(*words: str) -> Parts:
        began = time.perf_counter()
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        done = run_child([sys.executable, *words], text=True, **pipes)
        seconds = time.perf_counter() - began
        if done.returncode:
            reason = (done.stderr.strip() or "no error message").splitlines()[-1]
            raise InputError(f"{' '.join(words)}: {reason}")
        return {"all": seconds}

    runs: Runs = {
        ("start and end", "Python"): functools.partial(whole, "-c", "pass"),
        ("import albert_tf", OURS): functools.partial(whole, "-c", "import albert_tf"),
    }
    scripts = sysconfig.get_path("scripts")
    for entry in sorted(importlib.metadata.distribution("albert-tf").entry_points):
        script = os.path.join(scripts, entry.name)
        runs[f"{entry.name} --help", OURS] = functools.partial(whole, script, "--help")
    return runs


def first_steps(data: corpus.Corpus, config: AlbertConfig, folder: str) -> Runs:
    """Return time the first pretraining step, and the command that runs one step and saves."""
    files = corpus.records(data, folder, LENGTH, PREDICTIONS)
    path = os.path.join(folder, "albert_config.json")
    with open(path, "w", encoding="utf-8") as file:
        file.write(config.to_json())
    numbers = iter(range(1_000_000))

    def command(engine: str = "tensorflow", keeps: bool = False) -> Parts:
        output = f"{folder}/run-{next(numbers)}"
        # The first start that keeps compiled programs is in the round that is not counted.
        cache = f"{folder}/cache" if keeps else f"{output}-cache"
        return _command(
            "run_pretraining",
            "--do_train",
            f"--engine={engine}",
            f"--albert_config_file={path}",
            f"--output_dir={output}",
            f"--input_file={files[0]}",
            f"--max_seq_length={LENGTH}",
            f"--max_predictions_per_seq={PREDICTIONS}",
            f"--train_batch_size={BATCH}",
            "--num_train_steps=1",
            "--num_warmup_steps=0",
            watched=f"{output}/metrics.jsonl",
            environment={"ALBERT_TF_CACHE": cache},
        )

    first_step = functools.partial(
        fresh.start,
        "first_step",
        config=config.to_dict(),
        files=files,
        batch_size=BATCH,
        length=LENGTH,
        predictions=PREDICTIONS,
    )
    return {
        ("first step of pretraining", OURS): first_step,
        ("run_pretraining, one step and its checkpoint", OURS): command,
        ("run_pretraining, first start", "JAX"): functools.partial(command, "jax"),
        ("run_pretraining, later start", "JAX"): functools.partial(command, "jax", keeps=True),
    }


def compilations(suite: Suite, depths: tuple[int, ...]) -> Runs:
    """Return tracing and compiling the training step at several depths, without and with XLA."""
    shape = TINY if suite.quick else WIDE
    return {
        (f"{depth} layers", way): functools.partial(
            fresh.start,
            "compiling",
            config=dataclasses.replace(shape, num_hidden_layers=depth).to_dict(),
            batch_size=1,
            length=32,
            predictions=4,
            xla=way == "XLA",
        )
        for depth in depths
        for way in ("graph", "XLA")
    }


def exports(data: corpus.Corpus, folder: str) -> Runs:
    """Return time exporting, loading the export, and loading weights as Hugging Face does."""
    trained, served, weights = (f"{folder}/{name}" for name in ("run-0", "export-0", "weights"))
    numbers = iter(range(1_000_000))

    def export() -> Parts:
        return _command(
            "export_saved_model",
            f"--init_checkpoint={trained}",
            f"--spm_model_file={data.spm_model_file}",
            f"--export_path={folder}/export-{next(numbers)}",
            "--nomeasure_latency",
        )

    _command(
        "convert_checkpoint",
        "--to=huggingface",
        f"--input={trained}",
        f"--output={weights}",
        f"--spm_model_file={data.spm_model_file}",
    )
    to_output = "weights to a first output"
    return {
        ("export a SavedModel", OURS): export,
        ("load a SavedModel", "TensorFlow"): functools.partial(
            fresh.start, "load_export", folder=f"{served}/encoder", length=LENGTH
        ),
        ("load its tokenizer", "TensorFlow Text"): functools.partial(
            fresh.start, "load_preprocessing", folder=f"{served}/preprocess"
        ),
        (to_output, OURS): functools.partial(
            fresh.start, "load_weights", folder=weights, length=LENGTH
        ),
        (to_output, "Hugging Face"): functools.partial(
            fresh.start, "hugging_face", folder=weights, length=LENGTH
        ),
    }


def _command(
    module: str, *flags: str, watched: str = "", environment: dict[str, str] | None = None
) -> Parts:
    """Return the seconds of a command, and those until the file `watched` has a line."""
    began = time.perf_counter()
    parts: Parts = {}
    with concurrent.futures.ThreadPoolExecutor(1) as executor:
        words = [sys.executable, "-m", module, *flags]
        running = executor.submit(fresh.run_quietly, words, environment)
        while watched and not running.done() and not parts:
            if os.path.exists(watched) and os.path.getsize(watched):
                parts["first step"] = time.perf_counter() - began
            time.sleep(0.01)
        running.result()
    return {**parts, "all": time.perf_counter() - began}


def _measure(suite: Suite, runs: Runs, what: str, left_out: dict[str, str]) -> list[Measurement]:
    """Return seconds of whole processes and of their parts; runs that fail are left out."""
    parts: dict[tuple[str, str], list[Parts]] = {key: [] for key in runs}

    def measure(key: tuple[str, str]) -> float:
        suite.progress.update(f"startup: {what}: {', '.join(key)}")
        if parts[key] is not failed:
            try:
                parts[key].append(runs[key]())
            except InputError as error:
                left_out[", ".join(key)] = str(error)
                parts[key] = failed
        return 0.0

    failed: list[Parts] = []
    # The first round reads files from disk that later rounds find in memory.
    warm_up = 0 if suite.quick else 1
    repeats = 1 if suite.quick else suite.repeats
    interleave({key: functools.partial(measure, key) for key in runs}, warm_up + repeats)
    return [
        Measurement(work, way, [each[name] for each in several[warm_up:]], details={"part": name})
        for (work, way), several in parts.items()
        if several
        for name in several[0]
    ]


def _is_whole(measurement: Measurement) -> bool:
    return measurement.details["part"] == "all"


def _label(measurement: Measurement) -> str:
    way = "" if measurement.implementation == OURS else f", {measurement.implementation}"
    return f"{measurement.work}{way}"


def _table(measurements: list[Measurement]) -> Table:
    rows = []
    for each in measurements:
        name = each.details["part"]
        what = f"**{_label(each)}**" if name == "all" else f"{_label(each)}: {name}"
        rows.append((what, format(each.unit_seconds, decimals(each.unit_seconds.median))))
    return Table(
        "Start-up: seconds in a new process; **bold**: the whole process", ("what", "seconds"), rows
    )


def _depths(compiled: list[Measurement], depths: tuple[int, ...]) -> tuple[dict, Table]:
    """Return how compile time grows with depth: the deepest model relative to the shallowest."""
    times = {
        (each.implementation, each.work): each
        for each in compiled
        if each.details["part"] == "trace and compile"
    }
    rows, values = [], {}
    for way in dict.fromkeys(way for way, _ in times):
        several = [
            times[way, f"{depth} layers"] for depth in depths if (way, f"{depth} layers") in times
        ]
        cells = [format(each.unit_seconds, ".1f") for each in several]
        ratio = several[-1].times_as_long(several[0])
        values[f"trace_and_compile_{depths[-1]}_over_{depths[0]}_layers, {way}"] = (
            dataclasses.asdict(ratio)
        )
        rows.append((way, *cells, format(ratio, ".2f")))
    heads = ("by", *(f"{depth} layers" for depth in depths), f"{depths[-1]} over {depths[0]}")
    return values, Table("Tracing and compiling the training step, seconds", heads, rows)
