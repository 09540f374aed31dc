"""Compares finished runs: other seeds, learning rates or batch sizes of one task."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import logging
import math
import os
from collections.abc import Iterable, Sequence
from typing import Any, TypedDict

import numpy as np

from albert_tf.engines.base import Engine
from albert_tf.engines.device_options import DeviceOptions
from albert_tf.errors import InputError
from albert_tf.files import converted, exists, read_json, to_json, write_text
from albert_tf.finetuning.finetuning_options import SEEDS_FILE, FineTuningOptions
from albert_tf.finetuning.task import ExampleSet
from albert_tf.report.sections import text_table
from albert_tf.training.evaluation import is_better

logger = logging.getLogger(__name__)

FINISHED_FILE = "finished.json"
GRID_FILE = "grid.tsv"

# What does not change the results of a run.
_WITHOUT_EFFECT = {
    *("output_dir", "do_predict", "predict_file", "predict_batch_size", "predict_output"),
    *("do_train", "do_eval", "cached_dir", "iterations_per_loop", "peak_tflops"),
    *({field.name for field in dataclasses.fields(DeviceOptions)} - {"dtype", "engine"}),
    # They decide what the examples are, of which there is a hash.
    *("header", "text_column", "text_pair_column", "label_column", "label_separator"),
    *("regression", "multi_label"),
}


class RunRecord(TypedDict):
    """What `finished.json` contains about a run."""

    folder: str
    learning_rate: float
    train_batch_size: int
    random_seed: int
    step: int
    checkpoint: str
    results: dict[str, float]
    collapsed: str | None
    options: dict[str, Any]
    data: str


def data_key(sets: Iterable[ExampleSet]) -> str:
    """Return a hash of everything that the model reads of some examples, labels included."""
    digest = hashlib.sha256()
    for examples in sets:
        for name, value in sorted(examples.features.inputs().items()):
            digest.update(f"{examples.split} {examples.name} {name} {value.shape}".encode())
            digest.update(np.ascontiguousarray(value).data)
    return digest.hexdigest()


def finish(
    options: FineTuningOptions,
    data: str,
    step: int,
    checkpoint: str,
    results: dict[str, float],
    collapsed: str | None,
) -> RunRecord:
    """Record in the folder of a run that it is finished; return the record.

    Args:
        options: of the run.
        data: `data_key` of its examples.
        step: training steps of the chosen weights.
        checkpoint: path of their checkpoint.
        results: of the evaluation.
        collapsed: see `FineTuningTask.collapse`.
    """
    record: RunRecord = {
        "folder": options.output_dir.rsplit("/", 1)[1],
        "learning_rate": options.learning_rate,
        "train_batch_size": options.train_batch_size,
        "random_seed": options.random_seed,
        "step": step,
        "checkpoint": checkpoint.removeprefix(f"{options.output_dir}/"),
        "results": results,
        "collapsed": collapsed,
        "options": _with_effect(options),
        "data": data,
    }
    write_text(f"{options.output_dir}/{FINISHED_FILE}", to_json(record, indent=2) + "\n")
    return record


def finished_record(options: FineTuningOptions, data: str) -> RunRecord | None:
    """Return the record of a run that finished with the same options and data, if there is one."""
    path = f"{options.output_dir}/{FINISHED_FILE}"
    if not exists(path):
        return None
    try:
        content = read_json(path, dict[str, Any])
        if isinstance(results := content.get("results"), dict):
            content["results"] = {n: math.nan if v is None else v for n, v in results.items()}
        record = converted(content, path, RunRecord)
    except InputError as error:
        raise InputError(f"{error}; delete the file to evaluate the run again") from None
    # A record of an earlier version lacks the options that it did not have.
    recorded = {field.name: field.default for field in dataclasses.fields(options)}
    recorded |= {**options.inherited, **record["options"]}
    same = all(recorded[name] == value for name, value in _with_effect(options).items())
    return record if same and record["data"] == data else None


def checkpoint_of(engine: Engine, options: FineTuningOptions, record: RunRecord) -> str:
    """Return path of the checkpoint that a finished run chose.

    Args:
        engine: that trained it.
        options: of the run.
        record: of the run.

    Raises:
        InputError: If the checkpoint was deleted.
    """
    path = f"{options.output_dir}/{record['checkpoint']}"
    if path not in engine.checkpoints_in(os.path.dirname(path)).all():
        raise InputError(
            f"{path}: this checkpoint no longer exists; delete {options.output_dir}/"
            f"{FINISHED_FILE} to repeat the run"
        )
    return path


def compare_runs(folder: str, records: list[RunRecord], metric: str, several_seeds: bool) -> int:
    """Print and write the comparison of finished runs.

    Leaves `grid.tsv`, a row per run, and `seeds.json`, with statistics over the seeds of each
    setting.

    Args:
        folder: where the files go.
        records: of the runs.
        metric: by which runs are compared.
        several_seeds: whether statistics over seeds are printed too.

    Returns:
        The index of the best run.

    Raises:
        InputError: If no run has a finite result.
    """
    best = _best(records, metric)
    if best is None:
        raise InputError(f"no run has a finite {metric}; try a lower `learning_rate`")
    rows = [_row(record, metric) for record in records]
    summary = _summary(records, metric)
    content = {"metric": metric, "best": best["folder"], "settings": summary, "runs": rows}
    write_text(f"{folder}/{SEEDS_FILE}", to_json(content, indent=2) + "\n")
    write_text(f"{folder}/{GRID_FILE}", to_tsv(rows))
    for table in (rows, summary) if several_seeds else (rows,):
        logger.info("%s", aligned(table))
    value = best["results"][metric]
    logger.info("best run: %s, %s %.4f", best["folder"], metric, value)
    return records.index(best)


def _with_effect(options: FineTuningOptions) -> dict[str, Any]:
    """Return the options that the results of a run depend on, as JSON stores them."""
    values = dataclasses.asdict(options)
    values = {name: value for name, value in values.items() if name not in _WITHOUT_EFFECT}
    return json.loads(json.dumps(values))


def best_of(metric: str, values: Sequence[float]) -> int | None:
    """Return the index of the best value, the first of equals; None if no value is finite."""
    best = None
    for number, value in enumerate(values):
        if is_better(metric, value, None if best is None else values[best]):
            best = number
    return best


def _best(records: Sequence[RunRecord], metric: str) -> RunRecord | None:
    number = best_of(metric, [record["results"][metric] for record in records])
    return None if number is None else records[number]


def _row(record: RunRecord, metric: str) -> dict[str, Any]:
    results = dict(record["results"])
    return {
        "folder": record["folder"],
        "learning_rate": record["learning_rate"],
        "train_batch_size": record["train_batch_size"],
        "random_seed": record["random_seed"],
        metric: results.pop(metric),
        **results,
        "step": record["step"],
        "collapsed": record["collapsed"] or "",
    }


def _summary(records: list[RunRecord], metric: str) -> list[dict[str, Any]]:
    settings: dict[tuple, list[RunRecord]] = {}
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


def to_tsv(rows: list[dict[str, Any]]) -> str:
    """Return a table for a file; every row has the keys of the first."""
    lines = [list(rows[0]), *([_text(value, 8) for value in row.values()] for row in rows)]
    return "".join("\t".join(line) + "\n" for line in lines)


def aligned(rows: list[dict[str, Any]]) -> str:
    """Return a table for the console."""
    lines = [[_text(value, 4) for value in row.values()] for row in rows]
    return text_table(list(rows[0]), lines) + "\n"


def _text(value: Any, digits: int) -> str:
    return f"{value:.{digits}g}" if isinstance(value, float) else str(value)
