"""Start-up times: imports, --help, the first step, compilation, exports."""

import concurrent.futures
import dataclasses
import functools
import importlib.metadata
import os
import sys
import sysconfig
import tempfile
import time
from collections.abc import Callable

from albert_tf.config import AlbertConfig
from albert_tf.errors import InputError
from albert_tf.files import write_text
from benchmarks import corpus, tasks
from benchmarks.comparison import OURS, Suite
from benchmarks.interleaving import interleave
from benchmarks.measurements import Measurement, Result, Table, shown
from benchmarks.parts.pretraining_step import TINY

WIDE = AlbertConfig(hidden_size=1024, num_attention_heads=16, intermediate_size=4096)
DEPTHS = (6, 12, 24)
LENGTH, PREDICTIONS, BATCH = 128, 20, 8

# Seconds of the parts of one run, by name; "all" is the whole process.
Parts = dict[str, float]
# Work and implementation -> function that runs it in a new process.
Runs = dict[tuple[str, str], Callable[[], Parts]]


def run(suite: Suite) -> Result:
    """Run everything in new processes, in rounds; the first round only fills the page cache."""
    left_out: dict[str, str] = {}
    with tempfile.TemporaryDirectory() as folder:
        data = corpus.small(folder)
        base = TINY if suite.quick else AlbertConfig.preset("base")
        base = dataclasses.replace(base, vocab_size=data.vocab_size)
        depths = (1, 2) if suite.quick else DEPTHS
        measurements = _measure(suite, programs(), "programs", left_out)
        measurements += _measure(suite, first_steps(data, base, folder), "first steps", left_out)
        compiled = _measure(suite, compilations(suite, depths), "compiling", left_out)
        measurements += _measure(suite, exports(data, folder), "exports", left_out)
    rows = []
    for each in measurements:
        name = each.details["part"]
        way = "" if each.implementation == OURS else f", {each.implementation}"
        what = f"**{each.work}{way}**" if name == "all" else f"{each.work}{way}: {name}"
        rows.append((what, shown(each.unit_seconds)))
    title = "Start-up: seconds in a new process; **bold**: the whole process"
    tables = [Table(title, ("what", "seconds"), rows), compile_table(compiled, depths)]
    return Result("Start-up", [*measurements, *compiled], OURS, tables, left_out=left_out)


def programs() -> Runs:
    """Python alone, the import, and --help of every installed command."""
    runs: Runs = {
        ("start and end", "Python"): functools.partial(_command, "-c", "pass"),
        ("import albert_tf", OURS): functools.partial(_command, "-c", "import albert_tf"),
    }
    scripts = sysconfig.get_path("scripts")
    for entry in sorted(importlib.metadata.distribution("albert-tf").entry_points):
        script = os.path.join(scripts, entry.name)
        runs[f"{entry.name} --help", OURS] = functools.partial(_command, script, "--help")
    return runs


def first_steps(data: corpus.Corpus, config: AlbertConfig, folder: str) -> Runs:
    """Return the command that runs one pretraining step and saves, with both engines."""
    files = corpus.records(data, folder, LENGTH, PREDICTIONS)
    path = os.path.join(folder, "albert_config.json")
    write_text(path, config.to_json())
    numbers = iter(range(1_000_000))

    def command(engine: str = "tensorflow", keeps: bool = False) -> Parts:
        output = f"{folder}/run-{next(numbers)}"
        # The first start that keeps compiled programs is in the round that is not counted.
        cache = f"{folder}/cache" if keeps else f"{output}-cache"
        return _command(
            "run_pretraining.py",
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

    work = "run_pretraining, one step and its checkpoint"
    return {
        (work, OURS): command,
        (work, "JAX, first start"): functools.partial(command, "jax"),
        (work, "JAX, later start"): functools.partial(command, "jax", keeps=True),
    }


def compilations(suite: Suite, depths: tuple[int, ...]) -> Runs:
    """Return tracing and compiling the training step at several depths, without and with XLA."""
    shape = TINY if suite.quick else WIDE
    return {
        (f"{depth} layers", way): functools.partial(
            tasks.start,
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
    """Return exporting, loading the export, and loading weights as Hugging Face does."""
    trained, served, weights = (f"{folder}/{name}" for name in ("run-0", "export-0", "weights"))
    numbers = iter(range(1_000_000))

    def export() -> Parts:
        return _command(
            "export_saved_model.py",
            f"--init_checkpoint={trained}",
            f"--export_path={folder}/export-{next(numbers)}",
            f"--spm_model_file={data.spm_model_file}",
        )

    _command(
        "convert_checkpoint.py",
        "--to=huggingface",
        f"--input={trained}",
        f"--output={weights}",
        f"--spm_model_file={data.spm_model_file}",
    )
    start = functools.partial(tasks.start, length=LENGTH)
    to_output = "weights to a first output"
    return {
        ("export a SavedModel", OURS): export,
        ("load a SavedModel", "TensorFlow"): functools.partial(
            start, "load_export", folder=f"{served}/encoder"
        ),
        (to_output, OURS): functools.partial(start, "load_weights", folder=weights),
        (to_output, "Hugging Face"): functools.partial(start, "hugging_face", folder=weights),
    }


def _command(*words: str, watched: str = "", environment: dict[str, str] | None = None) -> Parts:
    """Return the seconds of a command, and those until the file `watched` has a line."""
    began = time.perf_counter()
    parts: Parts = {}
    with concurrent.futures.ThreadPoolExecutor(1) as executor:
        running = executor.submit(tasks.run_quietly, [sys.executable, *words], environment)
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
        if ", ".join(key) not in left_out:
            try:
                parts[key].append(runs[key]())
            except InputError as error:
                left_out[", ".join(key)] = str(error)
                del parts[key]
        return 0.0

    # The first round reads files from disk that later rounds find in memory.
    warm_up = 0 if suite.quick else 1
    repeats = 1 if suite.quick else suite.repeats
    interleave({key: functools.partial(measure, key) for key in runs}, warm_up + repeats)
    return [
        Measurement(work, way, [each[name] for each in several[warm_up:]], details={"part": name})
        for (work, way), several in parts.items()
        for name in several[0]
    ]


def compile_table(compiled: list[Measurement], depths: tuple[int, ...]) -> Table:
    """Return how compile time grows with depth: the deepest model relative to the shallowest."""
    times: dict[str, list[Measurement]] = {}
    for each in compiled:
        if each.details["part"] == "trace and compile":
            times.setdefault(each.implementation, []).append(each)
    rows = [
        (
            way,
            *(format(each.unit_seconds, ".1f") for each in several),
            format(several[-1].times_as_long(several[0]), ".2f"),
        )
        for way, several in times.items()
        if len(several) == len(depths)
    ]
    heads = ("by", *(f"{depth} layers" for depth in depths), f"{depths[-1]} over {depths[0]}")
    return Table("Tracing and compiling the training step, seconds", heads, rows)
