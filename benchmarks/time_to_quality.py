"""A race: processor time until held-out masked tokens and sentence order are predicted so well.

    python -m benchmarks.time_to_quality --books=DIR --folder=OUT --attempts=paper,huggingface

Text, vocabulary, shape of the model and held-out examples are the same for all; an attempt is free
in everything else. It trains for as many steps as fit into --minutes of one core, by the time of a
step in short runs, which come first, one at a time. Start-up, compiling and evaluation do not
count. time_to_quality.md is the log of all attempts. An idea that is not in `ATTEMPTS` is a
name and flags:

    python -m benchmarks.time_to_quality --books=DIR --folder=OUT --attempts=fast \
        --training_flags=optimizer=muon,learning_rate=0.004

With `--config` and `--max_seq_length`, the race is between larger models or longer examples.

Writes `results.json` to --folder, of all attempts and times with runs in it, and prints a table.
Two pictures show those of --attempts. Started again, the command resumes what was interrupted.
"""

import concurrent.futures
import dataclasses
import json
import math
import os
import pathlib
from collections.abc import Mapping
from typing import Any

import numpy as np

from albert_tf.config import AlbertConfig
from albert_tf.errors import InputError
from albert_tf.files import write_text
from albert_tf.options import command, option
from albert_tf.report.charts import chart
from albert_tf.training.rows import read_rows, readable_rows
from benchmarks.machine import describe, versions
from benchmarks.measurements import Table
from benchmarks.tasks import run_python
from experiments.results import Estimate
from experiments.workspace import results_in, words_of

EVAL_EVERY, EVAL_EXAMPLES, STEPS_MULTIPLE = 500, 6400, 100
COST_ROUNDS, COST_STEPS = 3, 80
QUANTITIES = {
    "masked_lm_accuracy": "Masked tokens right",
    "sentence_order_accuracy": "Sentence order right",
}


@dataclasses.dataclass(frozen=True)
class Attempt:
    """An entrant of the race.

    Attributes:
        recipe: flag file of run_pretraining.py.
        training: further flags of it.
        masked: share of the tokens to predict.
        data: further flags of data_prep.create_pretraining_data.
        spread: `initializer_range` times the root of the model's width; None for the config's.
        model: changed fields of the config that do not change the shape.
        huggingface: arguments of `hugging_face_mlm` instead of all of these.
    """

    recipe: str = "small_cpu"
    training: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    masked: float = 0.15
    data: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    spread: float | None = None
    model: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    huggingface: Mapping[str, Any] = dataclasses.field(default_factory=dict)


ATTEMPTS = {
    "paper": Attempt(),
    "muon": Attempt(recipe="small_cpu_muon", masked=0.28, data={"ngram": 1}, spread=0.96),
    "huggingface": Attempt(huggingface={"learning_rate": 5e-5, "batch_size": 8}),
    "huggingface-tuned": Attempt(huggingface={"learning_rate": 1e-3, "batch_size": 64}),
}


@dataclasses.dataclass(frozen=True)
class Options:
    """Flags of the benchmark."""

    folder: str = option(help="Folder for data, runs and results.")
    books: str | None = option(
        None, "Folder of .txt files; not needed if --folder has a train.txt and an eval.txt."
    )
    attempts: tuple[str, ...] = option(
        tuple(ATTEMPTS), f"Which ones: {', '.join(ATTEMPTS)}, or a new name with flags."
    )
    config: str = option("small", "Name or file of the model's config.")
    max_seq_length: int = option(64, "Tokens in an example.", minimum=8)
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
    race = Race(folder, options)
    for attempt in attempts.values():
        race.records_of(attempt)
    cores = sorted(os.sched_getaffinity(0))[: options.jobs]
    costs = measure_costs(race, attempts, cores[0])
    with concurrent.futures.ThreadPoolExecutor(len(cores)) as pool:
        free = list(cores)

        def job(name: str, seed: int) -> None:
            core = free.pop()
            os.sched_setaffinity(0, {core})  # of this thread and the processes that it starts
            try:
                output = folder / "runs" / f"{name}-{options.minutes:g}-{seed}"
                fit = options.minutes * 60 / costs[name]
                steps = max(round(fit / STEPS_MULTIPLE), 1) * STEPS_MULTIPLE
                race.train(output, attempts[name], seed, steps)
            finally:
                free.append(core)
            print(f"{name}, seed {seed}: done", flush=True)

        jobs = [pool.submit(job, name, seed) for seed in range(options.seeds) for name in attempts]
        for each in jobs:
            each.result()
    report(folder, options)


def measure_costs(race: "Race", attempts: Mapping[str, Attempt], core: int) -> dict[str, float]:
    """Return the seconds of a step of each attempt on a core, medians of interleaved rounds.

    They are kept in `costs.json`.
    """
    available = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {core})  # of this thread and the processes that it starts
    path = race.folder / "costs.json"
    costs = json.loads(path.read_text()) if path.exists() else {}
    seconds: dict[str, list[float]] = {name: [] for name in attempts if name not in costs}
    for number in range(COST_ROUNDS):
        for name, measured in seconds.items():
            output = race.folder / "costs" / f"{name}-{number}"
            race.train(output, attempts[name], number, COST_STEPS, evaluate=False)
            measured.append(seconds_per_step(output))
    costs.update((name, float(np.median(measured))) for name, measured in seconds.items())
    write_text(str(path), json.dumps(costs, indent=1) + "\n")
    os.sched_setaffinity(0, available)
    return costs


def attempt_of(name: str, options: Options) -> Attempt:
    """Return the attempt called `name`, with the flags that were given."""
    training, data = _pairs(options.training_flags), _pairs(options.data_flags)
    model = {key: json.loads(value) for key, value in _pairs(options.model_fields).items()}
    if name not in ATTEMPTS:
        masked = float(data.pop("masked_lm_prob", Attempt.masked))
        return Attempt(training=training, masked=masked, data=data, model=model)
    if training or data or model:
        raise InputError(f"`attempts`={name}: flags are for an attempt with a name of its own")
    return ATTEMPTS[name]


def _pairs(flags: tuple[str, ...]) -> dict[str, str]:
    return {name: value for name, _, value in (flag.partition("=") for flag in flags)}


def make_text(options: Options, folder: pathlib.Path) -> None:
    """Make text and vocabulary; what is finished is not made again."""
    if options.books:
        run_python(
            "-m", "data_prep.extract_corpus", "--format=books",
            f"--input_file={options.books}/*.txt", f"--output_file={folder}/train.txt",
            f"--eval_output_file={folder}/eval.txt", "--eval_fraction=0.06",
        )  # fmt: skip
    if not (folder / "8k.model").exists():
        run_python(
            "-m", "data_prep.train_vocabulary", f"--input_file={folder}/train.txt",
            "--vocab_size=8000", f"--output_prefix={folder}/8k",
        )  # fmt: skip


class Race:
    """Trains attempts on the same text, with models of the same shape.

    Args:
        folder: with text and vocabulary; for everything else.
        options: for the shape and the length of examples.
    """

    def __init__(self, folder: pathlib.Path, options: Options):
        self.folder = folder
        self._config = AlbertConfig.from_json_file(options.config)
        self._length = options.max_seq_length

    def predictions_of(self, attempt: Attempt) -> int:
        """Return how many tokens of an example are predicted at most."""
        return math.ceil(attempt.masked * self._length)

    def records_of(self, attempt: Attempt) -> tuple[pathlib.Path, pathlib.Path]:
        """Return the examples to train on and the held-out ones, which are always the same.

        They have room for as many predictions as those to train on.
        """
        flags = {"masked_lm_prob": attempt.masked, **attempt.data}
        name = "-".join(["train", *(f"{key}_{value}" for key, value in sorted(flags.items()))])
        predictions = self.predictions_of(attempt)
        train = self._records("train.txt", name, predictions, masking="dynamic", **flags)
        # No short documents: one of these may be a book, and the seed would decide which.
        held_out = {"masking": "static", "short_seq_prob": 0}
        return train, self._records("eval.txt", f"eval-{predictions}", predictions, **held_out)

    def _records(self, text: str, name: str, predictions: int, **flags: Any) -> pathlib.Path:
        path = self.folder / f"{name}-{self._length}.tfrecord"
        run_python(
            "-m", "data_prep.create_pretraining_data", f"--input_file={self.folder / text}",
            f"--output_file={path}", f"--spm_model_file={self.folder}/8k.model",
            f"--max_seq_length={self._length}", f"--max_predictions_per_seq={predictions}",
            "--dupe_factor=1", *words_of(flags),
        )  # fmt: skip
        return path

    def train(
        self, output: pathlib.Path, attempt: Attempt, seed: int, steps: int, evaluate: bool = True
    ) -> None:
        """Train and evaluate a model, if that is not done."""
        if (output / "done").exists():
            return
        output.mkdir(parents=True, exist_ok=True)
        records = self.records_of(attempt)
        config = self._config.to_dict() | dict(attempt.model)
        if attempt.spread:
            config["initializer_range"] = attempt.spread * config["hidden_size"] ** -0.5
        write_text(str(output / "config.json"), json.dumps(config))
        if attempt.huggingface:
            arguments = {
                "train": str(records[0]),
                "held_out": str(records[1]),
                "output_dir": str(output),
                "config": config,
                "length": self._length,
                "predictions": self.predictions_of(attempt),
                "steps": steps,
                "eval_every": EVAL_EVERY if evaluate else steps + 1,
                "eval_examples": EVAL_EXAMPLES,
                "seed": seed,
                "bfloat16": True,
                **attempt.huggingface,
            }
            run_python("-m", "benchmarks.implementations.hugging_face_mlm", json.dumps(arguments))
        else:
            flags = {
                "albert_config_file": output / "config.json",
                "input_file": records[0],
                "eval_input_file": records[1],
                "max_seq_length": self._length,
                "max_predictions_per_seq": self.predictions_of(attempt),
                "output_dir": output,
                "random_seed": seed,
                "eval_every_steps": EVAL_EVERY if evaluate else 0,
                "max_eval_steps": EVAL_EXAMPLES // 64,
                "num_train_steps": steps,
                **attempt.training,
            }
            words = [f"--flagfile={attempt.recipe}", *words_of(flags)]
            run_python("run_pretraining.py", *words, *([] if evaluate else ["--nodo_eval"]))
            if evaluate:
                everything = ("--max_eval_steps=0", "--best_checkpoint_metric=none")
                run_python("run_pretraining.py", *words, "--nodo_train", *everything)
        (output / "done").touch()


def report(folder: pathlib.Path, options: Options) -> None:
    """Write and print the results of all runs in the folder; draw those of the options."""
    costs = json.loads((folder / "costs.json").read_text())
    runs: dict[tuple[str, str], list[list[dict[str, Any]]]] = {}
    for done in sorted(folder.glob("runs/*/done")):
        attempt, minutes, _ = done.parent.name.rsplit("-", 2)
        runs.setdefault((attempt, minutes), []).append(curve_of(done.parent))
    table = {f"{attempt}-{minutes}": curves for (attempt, minutes), curves in runs.items()}
    content = {"machine": describe(), "versions": versions(), "costs": costs, "runs": table}
    write_text(str(folder / "results.json"), json.dumps(content, indent=1) + "\n")
    for quantity, title in QUANTITIES.items():
        lines = []
        for attempt in options.attempts:
            curves = runs[attempt, f"{options.minutes:g}"]
            if quantity in curves[0][-1]:
                lines.append((attempt, *mean_curve(curves, quantity, costs[attempt])))
        if not lines:  # Hugging Face's learn no order
            continue
        best = max(lines, key=lambda line: line[2][-1])[0]
        drawn = chart(
            f"{title}: {best} leads", lines, percent=True, x_label="processor minutes",
            named_at_ends=True,
        )  # fmt: skip
        write_text(str(folder / f"{quantity}.svg"), drawn)
    rows = []
    for (attempt, minutes), curves in runs.items():
        cells = [attempt, minutes, str(len(curves)), f"{curves[0][-1]['step']:,.0f}"]
        rows.append(cells + [_interval([c[-1].get(name) for c in curves]) for name in QUANTITIES])
    heads = ("attempt", "minutes", "seeds", "steps", "masked tokens, %", "order, %")
    print(Table("", heads, rows).markdown())


def seconds_per_step(output: pathlib.Path) -> float:
    """Return the median over the records of a run, without the evaluations before some of them."""
    lines = read_rows(str(output / "metrics.jsonl"))
    seconds, steps = np.array([[line["seconds"], line["step"]] for line in lines]).T
    return float(np.median(np.diff(seconds) / np.diff(steps)))


def curve_of(output: pathlib.Path) -> list[dict[str, Any]]:
    """Return a run's evaluations, of which the last is on all examples."""
    curve, results = readable_rows(str(output / "evaluations.jsonl")), output / "eval_results.txt"
    if results.exists():
        values = results_in(results)
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
    """Return mean and 95 % interval (Student's t), in percent; of one run, its value."""
    shares = [100 * value for value in values if value is not None]
    if not shares:
        return "none"
    margin = f" ± {Estimate.of(shares).margin:.1f}" if len(shares) > 1 else ""
    return f"{np.mean(shares):.1f}{margin}"


cli = command(Options, main)

if __name__ == "__main__":
    cli()
