"""A race: processor time until held-out masked tokens and sentence order are predicted so well.

    python -m benchmarks.time_to_quality --books=DIR --folder=OUT --attempts=paper,huggingface

Text, vocabulary, shape of the model and held-out examples are fixed; an attempt is free in
everything else. Every run has a core of its own, so that its training time is its processor time;
start-up, compiling and evaluation do not count. docs/time-to-quality.md is the log of all attempts.
An idea that is not in `ATTEMPTS` is a name and flags:

    python -m benchmarks.time_to_quality --books=DIR --folder=OUT --attempts=fast \
        --training_flags=optimizer=muon,learning_rate=0.004

Writes `results.json` and two pictures to --folder, of all attempts with runs in it, and prints a
table. Started again, the command resumes what was interrupted.
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

CONFIG, LENGTH, PREDICTIONS, BATCH = "small", 64, 10, 64
EVAL_EVERY, EVAL_STEPS = 500, 100
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
    steps: int = option(0, "Number of training steps; 0 for the recipe's.", minimum=0)
    seeds: int = option(3, "Number of runs of each attempt.", minimum=1)
    jobs: int = option(2, "Runs at a time, each on a core of its own.", minimum=1)


def main(options: Options) -> None:
    folder = pathlib.Path(options.folder)
    folder.mkdir(parents=True, exist_ok=True)
    attempts = {name: attempt_of(name, options) for name in options.attempts}
    make_text(options, folder)
    records = {name: make_records(folder, each.data) for name, each in attempts.items()}
    cores = sorted(os.sched_getaffinity(0))[: options.jobs]
    with concurrent.futures.ThreadPoolExecutor(len(cores)) as pool:
        free = list(cores)

        def job(name: str, seed: int) -> None:
            core = free.pop()
            os.sched_setaffinity(0, {core})  # of this thread and the processes that it starts
            try:
                train(folder, name, attempts[name], records[name], seed, options.steps)
            finally:
                free.append(core)
            print(f"{name}, seed {seed}: done", flush=True)

        jobs = [pool.submit(job, name, seed) for seed in range(options.seeds) for name in attempts]
        for each in jobs:
            each.result()
    report(folder)


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
    folder: pathlib.Path,
    name: str,
    attempt: Attempt,
    records: tuple[pathlib.Path, pathlib.Path],
    seed: int,
    steps: int,
) -> None:
    """Train and evaluate a model, if that is not done."""
    output = folder / "runs" / f"{name}-{seed}"
    if (output / "done").exists():
        return
    output.mkdir(parents=True, exist_ok=True)
    config = AlbertConfig.from_json_file(CONFIG).to_dict() | attempt.model
    write_text(str(output / "config.json"), json.dumps(config))
    if attempt.huggingface:
        arguments = {
            "train": [str(records[0])],
            "held_out": str(records[1]),
            "output_dir": str(output),
            "config": config,
            "length": LENGTH,
            "predictions": PREDICTIONS,
            "steps": steps or 10000,
            "eval_every": EVAL_EVERY,
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
            "eval_every_steps": EVAL_EVERY,
            "max_eval_steps": EVAL_STEPS,
            **attempt.training,
            **({"num_train_steps": steps} if steps else {}),
        }
        words = [f"--{key}={value}" for key, value in flags.items()]
        run("run_pretraining.py", f"--flagfile={attempt.recipe}", *words)
        everything = ("--nodo_train", "--max_eval_steps=0", "--best_checkpoint_metric=none")
        run("run_pretraining.py", f"--flagfile={attempt.recipe}", *words, *everything)
    (output / "done").touch()


def report(folder: pathlib.Path) -> None:
    """Write and print the results of all runs in the folder that are done."""
    runs: dict[str, list[dict[str, Any]]] = {}
    for done in sorted(folder.glob("runs/*/done")):
        runs.setdefault(done.parent.name.rpartition("-")[0], []).append(result_of(done.parent))
    content = {"machine": describe(), "versions": versions(), "runs": runs}
    write_text(str(folder / "results.json"), json.dumps(content, indent=1) + "\n")
    for quantity, (title, target) in QUANTITIES.items():
        drawn = chart(
            title,
            [Line(name, *mean_curve(each, quantity)) for name, each in runs.items()],
            [Mark("target", target)],
            percent=True,
            x_label="processor minutes",
        )
        write_text(str(folder / f"{quantity}.svg"), adaptive(drawn))
    print("| attempt | seeds | steps | processor minutes | masked tokens, % | order, % |")
    print("| --- | ---: | ---: | ---: | ---: | ---: |")
    for name, each in runs.items():
        steps = int(each[0]["curve"][-1]["step"])
        time = np.mean([steps * run["seconds_per_step"] / 60 for run in each])
        results = [
            _spread([run["curve"][-1].get(quantity) for run in each]) for quantity in QUANTITIES
        ]
        print(
            f"| {name} | {len(each)} | {steps} | {time:.1f} | {' | '.join(results)} |", flush=True
        )


def result_of(output: pathlib.Path) -> dict[str, Any]:
    """Return a run's seconds a step, and its evaluations, of which the last is on all examples."""
    lines = [json.loads(line) for line in (output / "metrics.jsonl").read_text().splitlines()]
    seconds, steps = np.array([[line["seconds"], line["step"]] for line in lines]).T
    recorded, results = output / "evaluations.jsonl", output / "eval_results.txt"
    curve = []
    if recorded.exists():
        curve = [json.loads(line) for line in recorded.read_text().splitlines()]
    if results.exists():
        pairs = (line.split(" = ") for line in results.read_text().splitlines())
        values = {name: float(value) for name, value in pairs if name in QUANTITIES}
        curve = [row for row in curve if row["step"] < steps[-1]] + [{"step": steps[-1], **values}]
    # The median leaves out the records before which the model was evaluated.
    rate = np.median(np.diff(seconds) / np.diff(steps))
    return {"seconds_per_step": float(rate), "curve": curve}


def mean_curve(runs: list[dict[str, Any]], quantity: str) -> tuple[list[float], list[float]]:
    """Return processor minutes, and the mean over the runs of a quantity."""
    points = [
        [
            (row["step"] * run["seconds_per_step"] / 60, row[quantity])
            for row in run["curve"]
            if quantity in row
        ]
        for run in runs
    ]
    x, y = np.mean(points, axis=0).reshape(-1, 2).T
    return x.tolist(), y.tolist()


def _spread(values: list[float | None]) -> str:
    """Return mean, lowest and highest value."""
    shares = [100 * value for value in values if value is not None]
    if not shares:
        return "none"
    return f"{np.mean(shares):.1f} ({min(shares):.1f} to {max(shares):.1f})"


def run(*words: str) -> None:
    """Run a command of the project."""
    run_quietly([sys.executable, *words])


cli = command(Options, main)

if __name__ == "__main__":
    cli()
