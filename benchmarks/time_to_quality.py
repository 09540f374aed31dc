"""A race: processor time until held-out masked tokens and sentence order are predicted so well.

    python -m benchmarks.time_to_quality --books=DIR --folder=OUT --attempts=paper,huggingface

Text, vocabulary, shape of the model and held-out examples are fixed; an attempt is free in
everything else. It trains for as many steps as fit into --minutes of one core, by the time of a
step in short runs, which come first, one at a time. Start-up, compiling and evaluation do not
count. docs/time-to-quality.md is the log of all attempts. An idea that is not in `ATTEMPTS` is a
name and flags:

    python -m benchmarks.time_to_quality --books=DIR --folder=OUT --attempts=fast \
        --training_flags=optimizer=muon,learning_rate=0.004

Writes `results.json` and two pictures to --folder, of all attempts and times with runs in it, and
prints a table. Started again, the command resumes what was interrupted.
"""

from __future__ import annotations

import concurrent.futures
import dataclasses
import json
import os
import pathlib
import sys
from collections.abc import Mapping
from typing import Any

import numpy as np

from albert_tf.config import AlbertConfig
from albert_tf.errors import InputError
from albert_tf.files import write_text
from albert_tf.options import command, option
from albert_tf.report.charts import Line, Mark, adaptive, chart
from benchmarks.fresh import run_quietly
from benchmarks.machine import describe, versions
from experiments.results import Estimate

CONFIG, LENGTH, PREDICTIONS, BATCH = "small", 64, 10, 64
EVAL_EVERY, EVAL_STEPS, STEPS_MULTIPLE = 500, 100, 100
COST_ROUNDS, COST_STEPS = 3, 160
QUANTITIES = {
    "masked_lm_accuracy": ("Held-out masked tokens: accuracy", 0.294),
    "sentence_order_accuracy": ("Held-out sentence order: accuracy", 0.649),
}


@dataclasses.dataclass(frozen=True)
class Attempt:
    """An entrant of the race.

    Attributes:
        recipe: flag file of run_pretraining.py.
        training: further flags of it.
        data: flags of data_prep.create_pretraining_data.
        model: changed fields of the config that do not change the shape.
        huggingface: arguments of `hugging_face_mlm` instead of all of these.
    """

    recipe: str = "small_cpu"
    training: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    data: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    model: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    huggingface: Mapping[str, Any] = dataclasses.field(default_factory=dict)


ATTEMPTS = {
    "paper": Attempt(),
    "muon": Attempt(
        recipe="small_cpu_muon",
        data={"ngram": 1, "masked_lm_prob": 0.28, "max_predictions_per_seq": 18},
        model={"initializer_range": 0.06},
    ),
    "huggingface": Attempt(huggingface={"learning_rate": 5e-5, "batch_size": 8}),
    "huggingface-tuned": Attempt(huggingface={"learning_rate": 1e-3, "batch_size": 64}),
}


@dataclasses.dataclass(frozen=True)
class Options:
    """Flags of the benchmark."""

    books: str = option(help="Folder of .txt files.")
    folder: str = option(help="Folder for data, runs and results.")
    attempts: tuple[str, ...] = option(
        tuple(ATTEMPTS), f"Which ones: {', '.join(ATTEMPTS)}, or a new name with flags."
    )
    training_flags: tuple[str, ...] = option((), "NAME=VALUE, of run_pretraining.py.")
    data_flags: tuple[str, ...] = option((), "NAME=VALUE, of data_prep.create_pretraining_data.")
    model_fields: tuple[str, ...] = option((), "NAME=VALUE, of the config.")
    minutes: float = option(20.5, "Processor minutes of a run; the default is the paper's recipe.")
    seeds: int = option(3, "Number of runs of each attempt.", minimum=1)
    jobs: int = option(2, "Runs at a time, each on a core of its own.", minimum=1)


def main(options: Options) -> None:
    folder = pathlib.Path(options.folder)
    folder.mkdir(parents=True, exist_ok=True)
    attempts = {name: attempt_of(name, options) for name in options.attempts}
    make_text(options, folder)
    records = {name: make_records(folder, each.data) for name, each in attempts.items()}
    cores = sorted(os.sched_getaffinity(0))[: options.jobs]
    costs = measure_costs(folder, attempts, records, cores[0])
    with concurrent.futures.ThreadPoolExecutor(len(cores)) as pool:
        free = list(cores)

        def job(name: str, seed: int) -> None:
            core = free.pop()
            os.sched_setaffinity(0, {core})  # of this thread and the processes that it starts
            try:
                output = folder / "runs" / f"{name}-{options.minutes:g}-{seed}"
                fit = options.minutes * 60 / costs[name]
                steps = max(round(fit / STEPS_MULTIPLE), 1) * STEPS_MULTIPLE
                train(output, attempts[name], records[name], seed, steps)
            finally:
                free.append(core)
            print(f"{name}, seed {seed}: done", flush=True)

        jobs = [pool.submit(job, name, seed) for seed in range(options.seeds) for name in attempts]
        for each in jobs:
            each.result()
    report(folder)


def measure_costs(
    folder: pathlib.Path, attempts: Mapping[str, Attempt], records: Mapping, core: int
) -> dict[str, float]:
    """Return the seconds of a step of each attempt on a core, medians of interleaved rounds.

    They are kept in `costs.json`.
    """
    available = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {core})  # of this thread and the processes that it starts
    path = folder / "costs.json"
    costs = json.loads(path.read_text()) if path.exists() else {}
    seconds: dict[str, list[float]] = {name: [] for name in attempts if name not in costs}
    for number in range(COST_ROUNDS):
        for name, measured in seconds.items():
            output = folder / "costs" / f"{name}-{number}"
            train(output, attempts[name], records[name], number, COST_STEPS, evaluate=False)
            measured.append(seconds_per_step(output))
    costs.update((name, float(np.median(measured))) for name, measured in seconds.items())
    write_text(str(path), json.dumps(costs, indent=1) + "\n")
    os.sched_setaffinity(0, available)
    return costs


def attempt_of(name: str, options: Options) -> Attempt:
    """Return the attempt called `name`, with the flags that were given."""
    given = [_pairs(options.training_flags), _pairs(options.data_flags)]
    given.append({key: json.loads(v) for key, v in _pairs(options.model_fields).items()})
    if name in ATTEMPTS:
        if any(given):
            raise InputError(f"`attempts`={name}: flags are for an attempt with a name of its own")
        return ATTEMPTS[name]
    return Attempt(training=given[0], data=given[1], model=given[2])


def _pairs(flags: tuple[str, ...]) -> dict[str, str]:
    return {name: value for name, _, value in (flag.partition("=") for flag in flags)}


def make_text(options: Options, folder: pathlib.Path) -> None:
    """Make text and vocabulary; what is finished is not made again."""
    run(
        "-m", "data_prep.extract_corpus", "--format=books", f"--input_file={options.books}/*.txt",
        f"--output_file={folder}/train.txt", f"--eval_output_file={folder}/eval.txt",
        "--eval_fraction=0.06",
    )  # fmt: skip
    run(
        "-m", "data_prep.train_vocabulary", f"--input_file={folder}/train.txt", "--vocab_size=8000",
        f"--output_prefix={folder}/8k",
    )  # fmt: skip


def make_records(
    folder: pathlib.Path, data: Mapping[str, Any]
) -> tuple[pathlib.Path, pathlib.Path]:
    """Return the examples to train on and the held-out ones, which are always the same.

    They have room for as many predictions as those to train on.
    """
    name = "-".join(["train", *(f"{key}_{value}" for key, value in sorted(data.items()))])
    train = folder / f"{name}.tfrecord"
    _create(folder, folder / "train.txt", train, {"masking": "dynamic", **data})
    room = {name: value for name, value in data.items() if name == "max_predictions_per_seq"}
    held_out = folder / f"eval-{room.get('max_predictions_per_seq', PREDICTIONS)}.tfrecord"
    # No short documents: a document is a book here, and the seed would decide which of six is.
    flags = {"masking": "static", "short_seq_prob": 0, **room}
    _create(folder, folder / "eval.txt", held_out, flags)
    return train, held_out


def _create(
    folder: pathlib.Path, text: pathlib.Path, records: pathlib.Path, flags: Mapping[str, Any]
) -> None:
    flags = {"max_seq_length": LENGTH, "max_predictions_per_seq": PREDICTIONS, **flags}
    run(
        "-m", "data_prep.create_pretraining_data", f"--input_file={text}",
        f"--output_file={records}", f"--spm_model_file={folder}/8k.model", "--dupe_factor=1",
        *(f"--{name}={value}" for name, value in flags.items()),
    )  # fmt: skip


def train(
    output: pathlib.Path,
    attempt: Attempt,
    records: tuple[pathlib.Path, pathlib.Path],
    seed: int,
    steps: int,
    evaluate: bool = True,
) -> None:
    """Train and evaluate a model, if that is not done."""
    if (output / "done").exists():
        return
    output.mkdir(parents=True, exist_ok=True)
    config = {**AlbertConfig.from_json_file(CONFIG).to_dict(), **attempt.model}
    write_text(str(output / "config.json"), json.dumps(config))
    if attempt.huggingface:
        arguments = {
            "train": [str(records[0])],
            "held_out": str(records[1]),
            "output_dir": str(output),
            "config": config,
            "length": LENGTH,
            "predictions": PREDICTIONS,
            "steps": steps,
            "eval_every": EVAL_EVERY if evaluate else steps + 1,
            "eval_examples": EVAL_STEPS * BATCH,
            "seed": seed,
            "bfloat16": True,
            **attempt.huggingface,
        }
        run("-m", "benchmarks.implementations.hugging_face_mlm", json.dumps(arguments))
    else:
        flags = {
            "albert_config_file": output / "config.json",
            "input_file": records[0],
            "eval_input_file": records[1],
            "max_predictions_per_seq": attempt.data.get("max_predictions_per_seq", PREDICTIONS),
            "output_dir": output,
            "random_seed": seed,
            "eval_every_steps": EVAL_EVERY if evaluate else 0,
            "max_eval_steps": EVAL_STEPS,
            "num_train_steps": steps,
            **attempt.training,
        }
        words = [f"--{key}={value}" for key, value in flags.items()]
        if not evaluate:
            words.append("--nodo_eval")
        run("run_pretraining.py", f"--flagfile={attempt.recipe}", *words)
        everything = ("--nodo_train", "--max_eval_steps=0", "--best_checkpoint_metric=none")
        if evaluate:
            run("run_pretraining.py", f"--flagfile={attempt.recipe}", *words, *everything)
    (output / "done").touch()


def report(folder: pathlib.Path) -> None:
    """Write and print the results of all runs in the folder."""
    costs = json.loads((folder / "costs.json").read_text())
    runs: dict[str, list[list[dict[str, Any]]]] = {}
    for done in sorted(folder.glob("runs/*/done")):
        runs.setdefault(done.parent.name.rpartition("-")[0], []).append(curve_of(done.parent))
    content = {"machine": describe(), "versions": versions(), "costs": costs, "runs": runs}
    write_text(str(folder / "results.json"), json.dumps(content, indent=1) + "\n")
    for quantity, (title, target) in QUANTITIES.items():
        lines = []
        for name, curves in runs.items():
            attempt, _, minutes = name.rpartition("-")
            if quantity in curves[0][-1]:
                points = mean_curve(curves, quantity, costs[attempt])
                lines.append(Line(f"{attempt}, {minutes} min", *points))
        marks = [Mark("target", target)]
        drawn = chart(title, lines, marks, percent=True, x_label="processor minutes")
        write_text(str(folder / f"{quantity}.svg"), adaptive(drawn))
    print("| attempt | minutes | seeds | steps | masked tokens, % | order, % |")
    print("| --- | ---: | ---: | ---: | ---: | ---: |")
    for name, curves in runs.items():
        attempt, _, minutes = name.rpartition("-")
        steps = int(curves[0][-1]["step"])
        results = [
            _interval([each[-1].get(quantity) for each in curves]) for quantity in QUANTITIES
        ]
        print(f"| {attempt} | {minutes} | {len(curves)} | {steps:,} | {' | '.join(results)} |")


def seconds_per_step(output: pathlib.Path) -> float:
    """Return the median over the records of a run, without the evaluations before some of them."""
    lines = [json.loads(line) for line in (output / "metrics.jsonl").read_text().splitlines()]
    seconds, steps = np.array([[line["seconds"], line["step"]] for line in lines]).T
    return float(np.median(np.diff(seconds) / np.diff(steps)))


def curve_of(output: pathlib.Path) -> list[dict[str, Any]]:
    """Return a run's evaluations, of which the last is on all examples."""
    recorded, results = output / "evaluations.jsonl", output / "eval_results.txt"
    curve = [json.loads(line) for line in recorded.read_text().splitlines()]
    if results.exists():
        pairs = (line.split(" = ") for line in results.read_text().splitlines())
        values = {name: float(value) for name, value in pairs}
        step = values["global_step"]
        curve = [row for row in curve if row["step"] < step]
        curve.append({"step": step, **{name: values[name] for name in QUANTITIES}})
    return curve


def mean_curve(
    curves: list[list[dict[str, Any]]], quantity: str, seconds: float
) -> tuple[list[float], list[float]]:
    """Return processor minutes, and the mean over the runs of a quantity."""
    points = [
        [(row["step"] * seconds / 60, row[quantity]) for row in curve if quantity in row]
        for curve in curves
    ]
    x, y = np.mean(points, axis=0).reshape(-1, 2).T
    return x.tolist(), y.tolist()


def _interval(values: list[float | None]) -> str:
    """Return mean and 95 % interval (Student's t), in percent."""
    shares = [100 * value for value in values if value is not None]
    if not shares:
        return "none"
    estimate = Estimate.of(shares)
    return f"{estimate.mean:.1f} ± {estimate.margin:.1f}"


def run(*words: str) -> None:
    """Run a command of the project."""
    run_quietly([sys.executable, *words])


cli = command(Options, main)

if __name__ == "__main__":
    cli()
