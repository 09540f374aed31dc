"""Several runs of one problem, with other seeds, learning rates or batch sizes, and the best."""

from __future__ import annotations

import dataclasses
import gc
import hashlib
import json
import math
from typing import Any

import keras
import numpy as np

from albert_tf.engines.options import DeviceOptions
from albert_tf.errors import InputError
from albert_tf.files import exists, make_folder, read_text, write_text
from albert_tf.finetuning.finetuning_options import SEEDS_FILE, FineTuningOptions
from albert_tf.finetuning.finetuning_run import Setting, Work
from albert_tf.finetuning.task import Problem
from albert_tf.training.evaluation import is_better
from albert_tf.training.run import write_description

FINISHED_FILE = "finished.json"
GRID_FILE = "grid.tsv"

# What is varied, and what does not change the results of a run.
_VARIED = ("learning_rate", "train_batch_size", "random_seed")
_WITHOUT_EFFECT = {
    *("output_dir", "do_predict", "predict_file", "predict_batch_size", "predict_output"),
    *("do_train", "do_eval", "cached_dir", "iterations_per_loop", "peak_tflops"),
    *(field.name for field in dataclasses.fields(DeviceOptions) if field.name != "dtype"),
}


def run_all(
    options: FineTuningOptions, variants: list[FineTuningOptions], setting: Setting
) -> Work:
    """Trains and evaluates every variant that is not finished yet, and compares them.

    Leaves in `--output_dir` `grid.tsv`, a row for each run, `seeds.json`, with the statistics over
    the seeds of each setting, and in `best/` the checkpoint of the best run.

    Args:
        options: of the program.
        variants: the options of the runs.
        setting: what they share.

    Returns:
        The model of the best run, in `--output_dir`, where its results and predictions belong.

    Raises:
        InputError: a run cannot begin, or no run has a result.
    """
    records = []
    data = _data_key(setting.problem)
    for number, variant in enumerate(variants, start=1):
        print(f"run {number} of {len(variants)}: {variant.output_dir}")
        record = _finished(variant, data)
        if record is None:
            record = _run(variant, setting, data)
        else:
            print("finished before")
        records.append(record)
    metric = setting.problem.metric
    best = _best(records, metric)
    if best is None:
        raise InputError(f"no run has a finite {metric}; try a lower --learning_rate")
    summary = _summary(records, metric)
    write_text(f"{options.output_dir}/{SEEDS_FILE}", _to_json(metric, records, summary, best))
    rows = [_row(record, metric) for record in records]
    write_text(f"{options.output_dir}/{GRID_FILE}", _tsv(rows))
    print(_aligned(rows))
    if options.seeds > 1:
        print(_aligned(summary))
    print(f"the best run: {best['folder']}, {metric} {best['results'][metric]:.4f}")
    return _work_of_best(options, variants[records.index(best)], best, setting)


def _data_key(problem: Problem) -> str:
    """A hash of all examples to train and evaluate on."""
    digest = hashlib.sha256()
    for split in ("train", "eval"):
        for examples in problem.sets.get(split, []):
            for name, value in sorted(examples.features.to_arrays().items()):
                digest.update(f"{split} {examples.name} {name} {value.shape}".encode())
                digest.update(np.ascontiguousarray(value))
    return digest.hexdigest()


def _run(variant: FineTuningOptions, setting: Setting, data: str) -> dict[str, Any]:
    """Trains and evaluates one variant; says in its folder that it is finished."""
    make_folder(variant.output_dir, "output_dir")
    work = Work(variant, setting)
    work.train()
    work.choose()
    work.write_results()
    record = {
        "folder": variant.output_dir.rsplit("/", 1)[1],
        **{name: getattr(variant, name) for name in _VARIED},
        "step": work.step,
        "checkpoint": work.checkpoint.removeprefix(f"{variant.output_dir}/"),
        "results": work.outcome.results,
        "collapsed": work.outcome.collapsed,
        "options": _with_effect(variant),
        "data": data,
    }
    write_text(f"{variant.output_dir}/{FINISHED_FILE}", json.dumps(record, indent=2) + "\n")
    del work
    keras.backend.clear_session()  # or the graphs of all runs stay in memory
    gc.collect()
    return record


def _with_effect(options: FineTuningOptions) -> dict[str, Any]:
    """The options that a run's results depend on, as JSON has them."""
    values = dataclasses.asdict(options)
    values = {name: value for name, value in values.items() if name not in _WITHOUT_EFFECT}
    return json.loads(json.dumps(values))


def _finished(variant: FineTuningOptions, data: str) -> dict[str, Any] | None:
    """The record of a run that was finished with the same options and data; else None."""
    path = f"{variant.output_dir}/{FINISHED_FILE}"
    if not exists(path):
        return None
    try:
        record = json.loads(read_text(path))
    except ValueError:
        raise InputError(f"{path}: not a JSON file; delete it to evaluate the run again") from None
    same = record.get("options") == _with_effect(variant) and record.get("data") == data
    return record if same else None


def _best(records: list[dict[str, Any]], metric: str) -> dict[str, Any] | None:
    """The run with the best result, the first of equals; None where none is a finite number."""
    best = None
    for record in records:
        if is_better(metric, record["results"][metric], best and best["results"][metric]):
            best = record
    return best


def _row(record: dict[str, Any], metric: str) -> dict[str, Any]:
    results = dict(record["results"])
    return {
        "folder": record["folder"],
        **{name: record[name] for name in _VARIED},
        metric: results.pop(metric),
        **results,
        "step": record["step"],
        "collapsed": record["collapsed"] or "",
    }


def _summary(records: list[dict[str, Any]], metric: str) -> list[dict[str, Any]]:
    """Statistics of the metric over the seeds of every setting."""
    settings: dict[tuple, list[dict[str, Any]]] = {}
    for record in records:
        setting = record["learning_rate"], record["train_batch_size"]
        settings.setdefault(setting, []).append(record)
    rows = []
    for (rate, size), runs in settings.items():
        values = np.array([run["results"][metric] for run in runs])
        best = _best(runs, metric)
        rows.append(
            {
                "learning_rate": rate,
                "train_batch_size": size,
                "runs": len(runs),
                "median": float(np.median(values)),
                "mean": float(values.mean()),
                "standard_deviation": float(values.std(ddof=1)) if len(runs) > 1 else math.nan,
                "minimum": float(values.min()),
                "best": best["results"][metric] if best else math.nan,
                "best_folder": best["folder"] if best else "",
                "collapsed": sum(bool(run["collapsed"]) for run in runs),
            }
        )
    return rows


def _work_of_best(
    options: FineTuningOptions,
    variant: FineTuningOptions,
    record: dict[str, Any],
    setting: Setting,
) -> Work:
    """The model of a run, with its checkpoint in `best/` of the folder of all runs."""
    folder, metric = options.output_dir, setting.problem.metric
    path = f"{variant.output_dir}/{record['checkpoint']}"
    if not exists(f"{path}.index"):
        raise InputError(
            f"{path}: no such checkpoint any more; delete {variant.output_dir}/{FINISHED_FILE} to "
            "make the run again"
        )
    write_description(setting.engine, folder, setting.config, setting.description)
    work = Work(dataclasses.replace(variant, output_dir=folder), setting)
    work.best.keep(path, record["results"][metric], record["step"])
    work.choose_best()
    return work


def _to_json(metric: str, records, summary, best: dict[str, Any]) -> str:
    def plain(value):
        return None if isinstance(value, float) and not math.isfinite(value) else value

    content = {
        "metric": metric,
        "best": best["folder"],
        "settings": summary,
        "runs": [_row(record, metric) for record in records],
    }
    for rows in (content["settings"], content["runs"]):
        rows[:] = [{name: plain(value) for name, value in row.items()} for row in rows]
    return json.dumps(content, indent=2) + "\n"


def _tsv(rows: list[dict[str, Any]]) -> str:
    lines = [list(rows[0]), *([_text(value, 8) for value in row.values()] for row in rows)]
    return "".join("\t".join(line) + "\n" for line in lines)


def _aligned(rows: list[dict[str, Any]]) -> str:
    """A table for the console."""
    lines = [list(rows[0]), *([_text(value, 4) for value in row.values()] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        + "\n"
        for line in lines
    )


def _text(value: Any, digits: int) -> str:
    return f"{value:.{digits}g}" if isinstance(value, float) else str(value)
