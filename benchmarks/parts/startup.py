"""Start-up times: imports, --help, the first step, compilation, exports."""

import concurrent.futures
import dataclasses
import functools
import importlib.metadata
import itertools
import os
import shutil
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
from benchmarks.interleaving import in_rounds
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
        runs = {**programs(), **compilations(suite.quick), **models(folder, suite.quick)}
        measurements = _measure(suite, runs, left_out)
    rows = []
    for each in measurements:
        name = each.details["part"]
        way = "" if each.implementation == OURS else f", {each.implementation}"
        what = f"**{each.work}{way}**" if name == "all" else f"{each.work}{way}: {name}"
        rows.append((what, shown(each.unit_seconds)))
    title = "Start-up: seconds in a new process; **bold**: the whole process"
    table = Table(title, ("what", "seconds"), rows)
    return Result("Start-up", measurements, [table], left_out=left_out)


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


def compilations(quick: bool) -> Runs:
    """Return tracing and compiling the training step at several depths, without and with XLA."""
    shape, depths = (TINY, DEPTHS[:1]) if quick else (WIDE, DEPTHS)
    return {
        (f"{depth} layers", "XLA" if xla else "graph"): functools.partial(
            tasks.start,
            "compiling",
            config=dataclasses.replace(shape, num_hidden_layers=depth).to_dict(),
            xla=xla,
        )
        for depth in depths
        for xla in (False, True)
    }


def models(folder: str, quick: bool) -> Runs:
    """Return a step and its checkpoint, exporting it, and loading that and its weights.

    The runs of the first round make what later ones load.
    """
    data = corpus.small(folder)
    (records,) = corpus.records(data, folder, LENGTH, PREDICTIONS)
    shape = TINY if quick else AlbertConfig.preset("base")
    config = dataclasses.replace(shape, vocab_size=data.vocab_size)
    write_text(f"{folder}/config.json", config.to_json())
    numbers = itertools.count()

    def train(engine: str = "tensorflow", keeps: bool = False) -> Parts:
        output = f"{folder}/run-{next(numbers)}"
        # The first start that keeps compiled programs is in the round that is not counted.
        cache = f"{folder}/cache" if keeps else f"{output}-cache"
        return _command(
            "run_pretraining.py",
            "--do_train",
            f"--engine={engine}",
            f"--albert_config_file={folder}/config.json",
            f"--output_dir={output}",
            f"--input_file={records}",
            f"--max_seq_length={LENGTH}",
            f"--max_predictions_per_seq={PREDICTIONS}",
            f"--train_batch_size={BATCH}",
            "--num_train_steps=1",
            "--num_warmup_steps=0",
            watched=f"{output}/metrics.jsonl",
            environment={"ALBERT_TF_CACHE": cache},
        )

    def convert(program: str, output: str, *flags: str) -> Parts:
        shutil.rmtree(output, ignore_errors=True)  # of an earlier round
        return _command(program, *flags, f"--spm_model_file={data.spm_model_file}")

    work, to_output = "run_pretraining, one step and its checkpoint", "weights to a first output"
    trained, exported, weights = (f"{folder}/{name}" for name in ("run-0", "export", "weights"))
    start = functools.partial(tasks.start, length=LENGTH)
    return {
        (work, OURS): train,
        (work, "JAX, first start"): functools.partial(train, "jax"),
        (work, "JAX, later start"): functools.partial(train, "jax", keeps=True),
        ("export a SavedModel", OURS): functools.partial(
            convert, "export_saved_model.py", exported, f"--init_checkpoint={trained}",
            f"--export_path={exported}",
        ),
        ("convert to Hugging Face", OURS): functools.partial(
            convert, "convert_checkpoint.py", weights, "--to=huggingface",
            f"--input={trained}", f"--output={weights}",
        ),
        ("load a SavedModel", "TensorFlow"): functools.partial(
            start, "load_export", folder=f"{exported}/encoder"
        ),
        (to_output, OURS): functools.partial(start, "load_weights", folder=weights),
        (to_output, "Hugging Face"): functools.partial(start, "hugging_face", folder=weights),
    }  # fmt: skip


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


def _measure(suite: Suite, runs: Runs, left_out: dict[str, str]) -> list[Measurement]:
    """Return seconds of whole processes and of their parts; runs that fail are left out."""
    parts: dict[tuple[str, str], list[Parts]] = {key: [] for key in runs}

    # The first round reads files from disk that later rounds find in memory.
    warm_up, repeats = (0, 1) if suite.quick else (1, suite.repeats)
    for _, key in in_rounds(runs, warm_up + repeats):
        suite.progress.update(f"startup: {', '.join(key)}")
        if key in parts:
            try:
                parts[key].append(runs[key]())
            except InputError as error:
                left_out[", ".join(key)] = str(error)
                del parts[key]
    return [
        Measurement(work, way, [each[name] for each in several[warm_up:]], details={"part": name})
        for (work, way), several in parts.items()
        for name in several[0]
    ]
