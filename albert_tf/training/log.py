"""The log of a training run: JSON lines, TensorBoard events, one progress line."""

import dataclasses
import itertools
import json
import logging
import math
import os
import re
import socket
import sys
import tempfile
import textwrap
import time
from collections.abc import Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from typing import IO

import numpy as np
from tensorboard.compat.proto.event_pb2 import Event, SessionLog
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.plugins.hparams.summary_v2 import hparams_pb
from tensorboard.plugins.scalar.summary_v2 import scalar_pb
from tensorboard.plugins.text.summary_v2 import text_pb
from tensorboard.summary.writer.record_writer import RecordWriter

from albert_tf.errors import StorageUnavailable
from albert_tf.files import is_remote, make_folder, read_bytes, sync, write_bytes
from albert_tf.logs import counted
from albert_tf.pair_objectives import PAIR_OBJECTIVES
from albert_tf.terminal import ProgressLine, duration, show
from albert_tf.training.command_line import command_line, given_flags
from albert_tf.training.health import PlateauWatch, Workload
from albert_tf.training.options import TrainingOptions
from albert_tf.training.rows import METRICS_FILE, finite, lines_up_to, parse_row, rounded

_logger = logging.getLogger(__name__)

# Metrics that the progress line shows, the most important first.
_FORMS = {
    "loss": "loss {:.4f}",
    "masked_lm_accuracy": "MLM {:.4f}",
    "classification_accuracy": "accuracy {:.4f}",
    "multiple_choice_accuracy": "accuracy {:.4f}",
    "examples_per_second": "{:.1f} seq/s",
    "real_tokens_per_second": "{:.0f} tokens/s",
    **{
        f"{pair.part}_accuracy": f"{name.upper()} {{:.4f}}"
        for name, pair in PAIR_OBJECTIVES.items()
        if pair.part
    },
    "mfu": "MFU {:.1%}",
    "learning_rate": "lr {:.2e}",
    "gradient_norm": "gradient {:.2g}",
}

# Groups of TensorBoard's curves, by what the names of metrics look like; all others are "quality".
_GROUPS = {
    "speed": re.compile(r"\w+_per_second|mfu|input_wait|(\w+_)?seconds|\w+_memory_peak_gib"),
    "optimizer": re.compile(
        r"learning_rate|(gradient|parameter)_norm|trust_ratio_\w+|nonfinite_\w+"
    ),
}

# What training and evaluation put before the names of the same metrics of fine-tuning.
_PREFIX = re.compile("^(eval|classification|multiple_choice|token_classification)_")

# Share of the time below which waiting for data does not matter.
_NEGLIGIBLE_WAIT = 0.05

UPLOAD_SECONDS = 60.0

# Two writers of one process may open a file in the same second.
_numbers = itertools.count()


class TrainingLog:
    """Writes the metrics of a run to its folder and to the console.

    `metrics.jsonl` gets a JSON object per call of `write`: `step`, `seconds` since this process
    started training, rates and metrics, those that are finite; `train/` gets TensorBoard events,
    with the `options` if they are given. The process starts at `first_step`: records of later
    steps, written before a restart, are dropped from `metrics.jsonl`, since these are repeated.
    """

    def __init__(
        self,
        folder: str,
        total_steps: int,
        first_step: int,
        workload: Workload,
        options: TrainingOptions | None = None,
    ):
        self._total = total_steps
        self._workload = workload
        self._skipped = 0
        self._line = ProgressLine()
        self._events = EventWriter(f"{folder}/train", first_step + 1)
        if options is not None:
            self._events.add_command(first_step, options)
        earlier = lines_up_to(folder, first_step)
        self._file = AppendedFile(
            f"{folder}/{METRICS_FILE}", "".join(f"{line}\n" for line in earlier).encode()
        )
        self._plateau = PlateauWatch(total_steps, (parse_row(line, "") for line in earlier))
        self._start = self._last_time = time.monotonic()
        self._last_step = first_step
        self._measured_steps, self._measured_seconds = 0, 0.0
        self._compiled = False

    def begin_stage(self, batch_size: int) -> None:
        """Expect that steps have batches of another size, for which the engine compiles."""
        self._workload = dataclasses.replace(self._workload, batch_size=batch_size)
        self._measured_steps, self._measured_seconds, self._compiled = 0, 0.0, False

    def write(
        self,
        step: int,
        metrics: dict[str, float],
        lengths: np.ndarray,
        seconds_left: float = math.inf,
    ) -> None:
        """Record the metrics of the steps since the last call, up to `step`.

        `lengths` are those of the sequences of each step. `input_wait_seconds` becomes
        `input_wait`, the share of the time since the last call. After `seconds_left`, training
        ends, if its last step does not come first.
        """
        now = time.monotonic()
        seconds = max(now - self._last_time, 1e-9)
        rates = self._workload.rates(seconds, lengths)
        metrics = dict(metrics)
        if "input_wait_seconds" in metrics:
            rates["input_wait"] = metrics.pop("input_wait_seconds") / seconds
        record = rounded(finite({"seconds": now - self._start, **rates, **metrics}))
        self._file.write(json.dumps({"step": step, **record}).encode() + b"\n")
        self._file.flush()
        self._events.add_scalars(step, record)
        self._skipped += int(metrics.get("nonfinite_steps", 0))
        if self._compiled:
            self._measured_steps += step - self._last_step
            self._measured_seconds += seconds
        self._compiled = True
        self._line.update(*self._fields(step, record, seconds_left))
        self._last_time, self._last_step = now, step
        if advice := self._plateau.advice({"step": step, **record}):
            self.note(advice, 0.0)

    def _fields(self, step: int, record: dict[str, float], seconds_left: float) -> list[str]:
        """Return the fields of the progress line, the most important first."""
        fields = [f"step {step}/{self._total}"]
        if step == self._total:
            seconds_left = 0.0
        elif self._measured_steps:
            seconds = self._measured_seconds / self._measured_steps * (self._total - step)
            seconds_left = min(seconds, seconds_left)
        if seconds_left < math.inf:
            fields.append(f"{duration(seconds_left)} left")
        if self._skipped:
            fields.append(f"{counted(self._skipped, 'step')} skipped (not finite)")
        fields += [form.format(record[name]) for name, form in _FORMS.items() if name in record]
        if record.get("input_wait", 0.0) >= _NEGLIGIBLE_WAIT:
            fields.append(f"{record['input_wait']:.0%} waiting for data")
        return fields

    def note(self, text: str, seconds: float) -> None:
        """Print a line about something other than steps, whose time does not count as theirs."""
        self._line.clear()
        show(text, sys.stdout)
        self._last_time += seconds

    def sync(self) -> None:
        """Put what was written so far on the disk, or starts to upload it."""
        self._file.sync()
        self._events.sync()

    def wait(self) -> None:
        """Wait for the upload that `sync` has started."""
        self._file.wait()

    def close(self) -> None:
        """End the progress line and close the files."""
        self._line.close()
        self._file.close()
        self._events.close()


def tag_of(name: str) -> str:
    """Return the name of a metric in TensorBoard, the same for training and evaluation."""
    for group, names in _GROUPS.items():
        if names.fullmatch(name):
            return f"{group}/{name}".replace("examples", "sequences")
    return f"quality/{_PREFIX.sub('', name)}"


class EventWriter:
    """Writes scalars, and the command, for TensorBoard to a file of its own in a folder.

    TensorBoard's own writer would load TensorFlow for its file system wherever it is installed. Of
    steps from `first_step` on, TensorBoard drops what earlier files have: they are repeated.
    """

    def __init__(self, folder: str, first_step: int = 0):
        make_folder(folder, "output_dir")
        self._folder = folder
        now = time.time()
        name = f"events.out.tfevents.{int(now)}.{socket.gethostname()}.{os.getpid()}"
        self._file = AppendedFile(f"{folder}/{name}.{next(_numbers)}.v2")
        self._writer = RecordWriter(self._file)
        self._write(Event(wall_time=now, file_version="brain.Event:2"))
        start = SessionLog(status=SessionLog.START)
        self._write(Event(wall_time=now, step=first_step, session_log=start))

    def add_scalars(self, step: int, values: Mapping[str, float]) -> None:
        """Write the values of a step, by the names of metrics (see `tag_of`)."""
        tags = {tag_of(n): value for n, value in values.items() if not n.endswith("_weight")}
        self._add(step, (scalar_pb(tag, value) for tag, value in tags.items()))

    def add_command(self, step: int, options: TrainingOptions) -> None:
        """Write the command as a text, and the flags that were given as hyperparameters.

        Each folder is a session of its own: TensorBoard averages over those of one trial.
        """
        code = textwrap.indent(command_line(options), "    ")  # Markdown's block of code
        hparams = hparams_pb(given_flags(options), trial_id=self._folder)
        self._add(step, (text_pb("command", code), hparams))

    def _add(self, step: int, summaries: Iterable[Summary]) -> None:
        now = time.time()
        for summary in summaries:
            self._write(Event(wall_time=now, step=step, summary=summary))
        self._writer.flush()

    def sync(self) -> None:
        """As of `AppendedFile`."""
        self._file.sync()

    def close(self) -> None:
        self._writer.close()

    def _write(self, event: Event) -> None:
        self._writer.write(event.SerializeToString())


class AppendedFile:
    """A file that is written from start to end, and can be read by others meanwhile.

    It replaces what is at `path`, and begins with `content`. Objects of a bucket cannot be
    extended. A remote file is therefore appended to locally and uploaded as a whole: in the
    background, at most once a minute, when it is synced, and when it is closed. An upload that
    fails is a warning, and is made up for by the next one.
    """

    def __init__(self, path: str, content: bytes = b""):
        self._path = path
        self._is_remote = is_remote(path)
        self._file: IO[bytes]
        if self._is_remote:
            self._file = tempfile.NamedTemporaryFile(prefix="albert_tf-")  # noqa: SIM115
            self._file.write(content)
            self._threads = ThreadPoolExecutor(1, "upload-log")
            self._upload: Future[None] | None = None
            self._last_upload = time.monotonic()
        else:
            write_bytes(path, content)
            self._file = open(path, "ab")  # noqa: SIM115

    def write(self, content: bytes) -> None:
        self._file.write(content)

    def flush(self) -> None:
        """Make what was written visible to others, on a server within a minute or so."""
        self._file.flush()
        if self._is_remote and time.monotonic() - self._last_upload >= UPLOAD_SECONDS:
            self._start_upload()

    def sync(self) -> None:
        """Put what was written on the disk, or starts to upload it (see `wait`)."""
        self._file.flush()
        if self._is_remote:
            self._start_upload()
        else:
            sync(self._path)

    def wait(self) -> None:
        """Wait for the last upload that was started."""
        if self._is_remote and self._upload is not None:
            self._upload.result()

    def close(self) -> None:
        self._file.flush()
        if self._is_remote:
            self._start_upload()
            self._threads.shutdown()
        self._file.close()

    def _start_upload(self) -> None:
        if self._upload is not None:
            self._upload.cancel()  # unless it runs: the new one uploads as much and more
        self._last_upload = time.monotonic()
        self._upload = self._threads.submit(self._upload_all)

    def _upload_all(self) -> None:
        try:
            write_bytes(self._path, read_bytes(self._file.name))
        except (OSError, StorageUnavailable) as error:
            _logger.warning("%s; training continues, and the log is uploaded later", error)
