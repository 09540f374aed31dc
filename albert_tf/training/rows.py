"""Rows of `metrics.jsonl` and `evaluations.jsonl`, JSON lines: a step, and the metrics of it."""

import contextlib
import math
from collections.abc import Mapping

from albert_tf.errors import InputError
from albert_tf.files import exists, parse_json, read_bytes, read_lines
from albert_tf.report.charts import thinned

METRICS_FILE = "metrics.jsonl"

_LARGEST = 1e100

Row = dict[str, int | float]


def parse_row(line: str, source: str) -> Row:
    """Read a row.

    Raises:
        InputError: If the line is not JSON, contains something else than numbers, or has no step.
    """
    row = parse_json(line, source, dict[str, int | float])
    if not isinstance(row.get("step"), int):
        raise InputError(f"{source}: has no whole number as its step")
    for name, value in row.items():
        if _LARGEST < abs(value) < math.inf:
            raise InputError(f"{source}: {name} is beyond {_LARGEST:g}")
    return row


def read_rows(path: str) -> list[Row]:
    """Read a file of rows; errors as of `parse_row`."""
    lines = enumerate(read_lines(path), start=1)
    return [parse_row(line, f"{path}:{number}") for number, line in lines]


def readable_rows(path: str, most: int | None = None) -> list[Row]:
    """Read rows for a report, without damaged ones; none of a file that does not exist.

    At most so many are read, evenly spaced and with the last one; None for all.
    """
    lines = [line for line in log_lines(path) if line] if exists(path) else []
    rows: list[Row] = []
    for line in thinned(lines, most or len(lines)):
        with contextlib.suppress(InputError):
            rows.append(parse_row(line, path))
    return rows


def rounded(results: Mapping[str, float]) -> dict[str, float]:
    """Return metrics rounded to the seven digits of a float32."""
    return {name: float(f"{value:.7g}") for name, value in results.items()}


def finite(values: Mapping[str, float]) -> dict[str, float]:
    """Return those that are finite: JSON has no others."""
    return {name: value for name, value in values.items() if math.isfinite(value)}


def lines_up_to(folder: str, step: int) -> list[str]:
    """Return the records of a training folder up to a step, as lines; empty without any."""
    path = f"{folder}/{METRICS_FILE}"
    if not exists(path):
        return []
    return [line for line in log_lines(path) if _step_of(line) <= step]


def log_lines(path: str) -> list[str]:
    """Return the lines of a log; a power cut may have left any bytes at its end."""
    return read_bytes(path).decode(errors="replace").split("\n")


def _step_of(line: str) -> float:
    """Return the step of a row; infinite for what is none."""
    try:
        return parse_row(line, "")["step"]
    except InputError:
        return math.inf
