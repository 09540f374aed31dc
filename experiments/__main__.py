"""Runs studies of the paper: trains, evaluates and fine-tunes models, and compares them.

    python -m experiments sharing --input_file='novels/*.txt' --format=books --output_dir=out

Prints a table and writes it, `results.json` and a picture to OUTPUT_DIR/SCALE/NAME. Started again,
the command resumes what was interrupted and skips what is finished; studies share runs that are the
same. docs/experiments.md shows all studies and their results.
"""

import concurrent.futures
import dataclasses
import datetime
import functools
import json
import os
import pathlib
import shlex
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

from albert_tf.children import stoppable
from albert_tf.errors import InputError
from albert_tf.files import folder_of_one, make_folder, write_text
from albert_tf.options import command, option
from albert_tf.terminal import duration
from benchmarks.machine import describe, versions
from experiments import pictures, results, speed
from experiments.results import Row
from experiments.runs import Run, by_formula, config_of, train_in_rounds
from experiments.scales import SCALES
from experiments.studies import STUDIES, find_study
from experiments.study import Study
from experiments.workspace import Workspace, digest, once

# Parts of the time of a study of equal time, and the share of it that measures the rates first.
ROUNDS, CALIBRATION = 6, 0.1
# Of the runs that measure the rates, different from those of all others.
CALIBRATION_SEED = 2**31 - 1


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options:
    """Flags of the studies."""

    studies: tuple[str, ...] = option(
        (), f"{', '.join(STUDIES)}, or paths of Python files; also without the flag's name."
    )
    output_dir: str = option(help="Folder for text, runs and results.")
    scale: str = option("tiny", "How large the models are.", choices=tuple(SCALES))
    seeds: int = option(3, "Number of runs of each model.", minimum=1)
    input_file: tuple[str, ...] = option(
        (), "Raw text, as for data_prep.extract_corpus; not needed by studies that only time."
    )
    format: str = option("books", "Format of --input_file, as for data_prep.extract_corpus.")
    eval_fraction: float = option(0.06, "Share of the documents held out for evaluation.")
    tasks: tuple[str, ...] = option(
        (), "Tasks of GLUE to fine-tune every model on, such as SST-2,RTE."
    )
    data_dir: str | None = option(None, "Folder of GLUE; by default tasks are fetched by name.")
    jobs: int = option(1, "Number of runs at a time, which share the cores.", minimum=1)
    title: str | None = option(None, "Title of the picture, such as what was found.")
    training_flags: tuple[str, ...] = option(
        (), "Further flags of run_pretraining.py, such as engine=jax,dtype=bfloat16."
    )

    def check(self) -> None:
        """Raise InputError for invalid values."""
        if not self.studies:
            raise InputError(f"name a study: {', '.join(STUDIES)}")
        for flag in self.training_flags:
            if "=" not in flag:
                raise InputError(f"`training_flags`={flag}: write NAME=VALUE")

    @property
    def training(self) -> dict[str, str]:
        """The further flags of run_pretraining.py."""
        pairs = (flag.lstrip("-").partition("=") for flag in self.training_flags)
        return {name: value for name, _, value in pairs}


@stoppable("stopped; rerun the same command to resume")
def run(options: Options) -> None:
    options.check()
    studies = {pathlib.Path(name).stem: find_study(name) for name in options.studies}
    scale = SCALES[options.scale]
    scale = dataclasses.replace(scale, training={**scale.training, **options.training})
    trains = any(study.trains for study in studies.values())
    if trains and not options.input_file:
        raise InputError("`input_file`: raw text to train on is required")
    with folder_of_one(options.output_dir, "output_dir"):
        threads = max(len(os.sched_getaffinity(0)) // options.jobs, 1)
        workspace = Workspace(
            f"{options.output_dir}/{scale.name}",
            scale,
            {
                "input_file": ",".join(options.input_file),
                "format": options.format,
                "eval_fraction": options.eval_fraction,
            },
            threads,
        )
        try:
            if trains:
                print("preparing text and vocabulary", flush=True)
                workspace.prepare()
            for name, study in studies.items():
                Laboratory(options, workspace, name, study).run()
        finally:
            workspace.stop()


class Laboratory:
    """Does one study."""

    def __init__(self, options: Options, workspace: Workspace, name: str, study: Study):
        self._options = options
        self._workspace = workspace
        self._study = study
        self._name = name
        self._folder = workspace.folder / name
        self._variants = list(study.variants(workspace.scale))

    def run(self) -> None:
        """Measure everything that is not measured yet, and write the results."""
        make_folder(str(self._folder))
        print(f"{self._name} ({self._study.source}): {self._study.question}", flush=True)
        speeds = self._speeds() if self._study.timed else {}
        runs = self._measured_runs() if self._study.trains else {}
        rows = []
        for variant in self._variants:
            formulas = by_formula(self._workspace, variant).items()
            values = {metric: [value] for metric, value in formulas} | speeds.get(variant.name, {})
            rows.append(Row.of(variant, self._study.columns, values, runs.get(variant.name, ())))
        self._write(rows)

    def _speeds(self) -> dict[str, dict[str, list[float]]]:
        """Return variant -> metric -> values of what is timed."""
        configs = {each.name: config_of(self._workspace, each) for each in self._variants}
        engine = self._options.training.get("engine", "tensorflow")
        scale = self._workspace.scale
        shape = self._study.timed_batch.get(scale.name, scale.timed_batch)
        reference = configs[self._study.reference or self._variants[0].name]
        found: dict[str, dict[str, list[float]]] = {}
        for name, config in configs.items():
            what = [config.to_dict(), reference.to_dict(), shape, engine]
            print(f"speed of {name}", flush=True)
            found[name] = once(
                self._folder / f"speed-{digest(what)}.json",
                functools.partial(speed.measured_here, scale, config, reference, shape, engine),
            )
        return found

    def _measured_runs(self) -> dict[str, list[dict[str, Any]]]:
        """Return variant -> what was measured of its runs, one for each seed."""
        seeds = range(self._options.seeds)
        steps = self._steps_that_fit() if self._study.same_time else {}
        runs = {
            (seed, variant.name): Run(self._workspace, variant, seed, steps.get(variant.name, {}))
            for seed in seeds
            for variant in self._variants
        }
        if self._study.same_time:
            for seed in seeds:
                same = [run for (number, _), run in runs.items() if number == seed]
                train_in_rounds(same, self._workspace.scale.minutes, ROUNDS)
        arguments = (self._study, self._options.tasks, self._options.data_dir)
        jobs = {
            f"{name}, seed {seed}": functools.partial(run.measured, *arguments)
            for (seed, name), run in runs.items()
        }
        done = in_parallel(jobs, self._options.jobs, self._workspace)
        return {
            variant.name: [done[f"{variant.name}, seed {seed}"] for seed in seeds]
            for variant in self._variants
        }

    def _steps_that_fit(self) -> dict[str, dict[str, float]]:
        """Return the flags of each variant: the time and the steps that fit into it."""
        minutes = CALIBRATION * self._workspace.scale.minutes
        limit = {"max_train_minutes": minutes}
        first = [Run(self._workspace, each, CALIBRATION_SEED, limit) for each in self._variants]
        train_in_rounds(first, minutes, 2)
        return {
            variant.name: {
                "num_train_steps": max(int(run.steps_done() / CALIBRATION), 1),
                "max_train_minutes": self._workspace.scale.minutes,
            }
            for variant, run in zip(self._variants, first, strict=True)
        }

    def _write(self, rows: Sequence[Row]) -> None:
        text = results.table(self._study, rows)
        words = [word for word in sys.argv[1:] if not word.startswith("--output_dir")]
        content = {
            "study": self._name,
            "scale": self._workspace.scale.name,
            "command": shlex.join(["python", "-m", "experiments", *words, "--output_dir=out"]),
            "date": datetime.date.today().isoformat(),
            "machine": describe(),
            "versions": versions(),
            "rows": [dataclasses.asdict(row) for row in rows],
        }
        write_text(str(self._folder / "results.json"), json.dumps(content, indent=1) + "\n")
        write_text(str(self._folder / "table.md"), text + "\n")
        if drawn := pictures.draw(self._study, rows, self._options.title):
            write_text(str(self._folder / "picture.svg"), drawn)
        print(f"\n{text}\n\n{results.verdict(self._study, rows)}\n-> {self._folder}", flush=True)


def in_parallel(
    jobs: dict[str, Callable[[], Any]], at_a_time: int, workspace: Workspace
) -> dict[str, Any]:
    """Return the results of functions that run commands of the workspace; print a line for each.

    After an exception no further job starts, and the commands that run are ended.
    """
    start, results = time.monotonic(), {}
    with concurrent.futures.ThreadPoolExecutor(at_a_time) as pool:
        names = {pool.submit(job): name for name, job in jobs.items()}
        try:
            for future in concurrent.futures.as_completed(names):
                name, done = names[future], future.result()
                results[name] = done
                left = (time.monotonic() - start) / len(results) * (len(jobs) - len(results))
                count = f"[{len(results)}/{len(jobs)}]"
                print(f"{count} {name}: {_brief(done)}, {duration(left)} left", flush=True)
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            workspace.stop()
            raise
    return results


def _brief(measured: dict[str, Any]) -> str:
    """Return the results on the first evaluation set, in one line."""
    results = next(iter(measured["on"].values()), {})
    shares = {name: value for name, value in results.items() if name.endswith("accuracy")}
    return ", ".join(f"{name} {value:.1%}" for name, value in shares.items()) or "done"


cli = command(Options, run, positional="studies")

if __name__ == "__main__":
    cli()
