"""What a training run tells: JSON lines, TensorBoard events, one progress line."""

from __future__ import annotations

import json
import time

import tensorflow as tf

from albert_tf.files import exists, open_file, read_lines, write_text
from albert_tf.progress import ProgressLine, duration

METRICS_FILE = "metrics.jsonl"

# Metric names that the progress line shortens.
_SHORT = {
    "loss": "loss",
    "masked_lm_accuracy": "MLM",
    "sentence_order_accuracy": "SOP",
    "classification_accuracy": "accuracy",
}


class TrainingLog:
    """Writes the metrics of a run to its folder and to the console.

    Args:
        folder: gets `metrics.jsonl` (a JSON object per call of `write`: `step`, `seconds` since the
            start of this process' training, `examples_per_second` and the metrics) and TensorBoard
            events in `train/`.
        total_steps: step at which the run ends.
        first_step: step at which this process starts; records of later steps, written before a
            restart and about to be made again, are dropped from `metrics.jsonl`.
        batch_size: examples in a step.
    """

    def __init__(self, folder: str, total_steps: int, first_step: int, batch_size: int):
        self._path = f"{folder}/{METRICS_FILE}"
        self._total = total_steps
        self._batch_size = batch_size
        self._line = ProgressLine()
        self._events = tf.summary.create_file_writer(f"{folder}/train")
        kept = []
        if exists(self._path):
            kept = [line for line in read_lines(self._path) if _step_of(line) <= first_step]
        write_text(self._path, "".join(f"{line}\n" for line in kept))
        self._file = open_file(self._path, "a")
        self._start = self._last_time = time.monotonic()
        self._last_step = first_step

    def write(self, step: int, metrics: dict[str, float]) -> None:
        """Records the metrics of the steps since the last call, up to `step`."""
        now = time.monotonic()
        rate = (step - self._last_step) * self._batch_size / max(now - self._last_time, 1e-9)
        record = {
            "step": step,
            "seconds": round(now - self._start, 3),
            "examples_per_second": round(rate, 3),
            **{name: float(f"{value:.7g}") for name, value in metrics.items()},
        }
        self._file.write(json.dumps(record) + "\n")
        self._file.flush()
        with self._events.as_default(step=step):
            for name, value in record.items():
                if name != "step":
                    tf.summary.scalar(name, value)
        left = (self._total - step) * self._batch_size / rate
        shown = "  ".join(
            f"{_SHORT[name]} {value:.4f}" for name, value in metrics.items() if name in _SHORT
        )
        self._line.update(
            f"step {step}/{self._total}  {shown}  lr {metrics['learning_rate']:.2e}  "
            f"{rate:.1f} sequences/s  {duration(left)} left"
        )
        self._last_time, self._last_step = now, step

    def note(self, text: str, seconds: float) -> None:
        """Prints a line on something else than steps, and leaves its time out of their rate."""
        self._line.clear()
        print(text, flush=True)
        self._last_time += seconds

    def close(self) -> None:
        """Ends the progress line and closes the files."""
        self._line.close()
        self._file.close()
        self._events.close()


def _step_of(line: str) -> float:
    """The step of a JSON line; infinite for one that a kill cut short."""
    try:
        return json.loads(line)["step"]
    except (ValueError, KeyError, TypeError):
        return float("inf")
