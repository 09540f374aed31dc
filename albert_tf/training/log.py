"""The log of a training run: JSON lines, TensorBoard events, one progress line."""

from __future__ import annotations

import json
import math
import time

import numpy as np

from albert_tf.errors import InputError
from albert_tf.files import exists, read_lines
from albert_tf.pair_objectives import PAIR_OBJECTIVES
from albert_tf.progress import ProgressLine, duration
from albert_tf.training.appended_file import AppendedFile
from albert_tf.training.evaluation import parse_row
from albert_tf.training.events import EventWriter
from albert_tf.training.health import Workload

METRICS_FILE = "metrics.jsonl"

# Metric names that the progress line shortens.
_SHORT = {
    "loss": "loss",
    "masked_lm_accuracy": "MLM",
    **{
        f"{pair.part}_accuracy": name.upper() for name, pair in PAIR_OBJECTIVES.items() if pair.part
    },
    "classification_accuracy": "accuracy",
    "multiple_choice_accuracy": "accuracy",
}

_FORMS = {
    "learning_rate": "lr {:.2e}",
    "gradient_norm": "gradient {:.2g}",
    "examples_per_second": "{:.1f} sequences/s",
    "mfu": "MFU {:.1%}",
}

# Share of the time below which waiting for data does not matter.
_NEGLIGIBLE_WAIT = 0.05


class TrainingLog:
    """Writes the metrics of a run to its folder and to the console.

    Args:
        folder: gets `metrics.jsonl` (a JSON object per call of `write`: `step`, `seconds` since
            this process started training, rates and metrics, those that are finite) and
            TensorBoard events in `train/`.
        total_steps: step at which the run ends.
        first_step: step at which this process starts; records of later steps, written before a
            restart, are dropped from `metrics.jsonl`, since these steps are repeated.
        workload: what a step computes.
    """

    def __init__(self, folder: str, total_steps: int, first_step: int, workload: Workload):
        self._total = total_steps
        self._workload = workload
        self._skipped = 0
        self._line = ProgressLine()
        self._events = EventWriter(f"{folder}/train")
        kept = lines_up_to(folder, first_step)
        self._file = AppendedFile(
            f"{folder}/{METRICS_FILE}", "".join(f"{line}\n" for line in kept).encode()
        )
        self._start = self._last_time = time.monotonic()
        self._last_step = first_step

    def write(
        self,
        step: int,
        metrics: dict[str, float],
        lengths: np.ndarray | None = None,
        seconds_left: float = math.inf,
    ) -> None:
        """Records the metrics of the steps since the last call, up to `step`.

        `input_wait_seconds` becomes `input_wait`, the share of the time since the last call.

        Args:
            step: the last of them.
            metrics: their metrics.
            lengths: length of the sequences of each step; None if all are of the full length.
            seconds_left: time after which training ends, if its last step does not come first.
        """
        now = time.monotonic()
        seconds = max(now - self._last_time, 1e-9)
        rates = self._workload.rates(step - self._last_step, seconds, lengths)
        metrics = dict(metrics)
        if "input_wait_seconds" in metrics:
            rates["input_wait"] = metrics.pop("input_wait_seconds") / seconds
        values = {"seconds": now - self._start, **rates, **metrics}
        record = {
            name: float(f"{value:.7g}") for name, value in values.items() if math.isfinite(value)
        }
        self._file.write(json.dumps({"step": step, **record}).encode() + b"\n")
        self._file.flush()
        self._events.add_scalars(step, record)
        self._skipped += int(metrics.get("nonfinite_steps", 0))
        self._line.update(self._text(step, record, seconds_left))
        self._last_time, self._last_step = now, step

    def _text(self, step: int, record: dict[str, float], seconds_left: float) -> str:
        """The progress line."""
        rate = record["examples_per_second"]
        left = min((self._total - step) * self._workload.batch_size / rate, seconds_left)
        parts = [f"step {step}/{self._total}"]
        parts += [f"{short} {record[name]:.4f}" for name, short in _SHORT.items() if name in record]
        parts += [form.format(record[name]) for name, form in _FORMS.items() if name in record]
        if record.get("input_wait", 0.0) >= _NEGLIGIBLE_WAIT:
            parts.append(f"{record['input_wait']:.0%} waiting for data")
        if self._skipped:
            parts.append(f"{self._skipped} steps skipped (not finite)")
        return "  ".join([*parts, f"{duration(left)} left"])

    def note(self, text: str, seconds: float) -> None:
        """Prints a line about something other than steps, whose time does not count as theirs."""
        self._line.clear()
        print(text, flush=True)
        self._last_time += seconds

    def sync(self) -> None:
        """Puts what was written so far on the disk, or starts to upload it."""
        self._file.sync()
        self._events.sync()

    def wait(self) -> None:
        """Waits for the upload that `sync` has started."""
        self._file.wait()

    def close(self) -> None:
        """Ends the progress line and closes the files."""
        self._line.close()
        self._file.close()
        self._events.close()


def lines_up_to(folder: str, step: int) -> list[str]:
    """The records of a training folder up to a step, as lines; empty without any."""
    path = f"{folder}/{METRICS_FILE}"
    if not exists(path):
        return []
    return [line for line in read_lines(path) if _step_of(line) <= step]


def _step_of(line: str) -> float:
    """The step of a row; infinite for one that a kill cut short."""
    try:
        return parse_row(line, "")["step"]
    except InputError:
        return math.inf
