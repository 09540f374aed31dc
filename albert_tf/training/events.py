"""TensorBoard events without TensorFlow."""

from __future__ import annotations

import itertools
import os
import socket
import time
from collections.abc import Mapping

from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.plugins.scalar.summary_v2 import scalar_pb
from tensorboard.summary.writer.record_writer import RecordWriter

from albert_tf.files import make_folder
from albert_tf.training.appended_file import AppendedFile

# Two writers of one process may open a file in the same second.
_numbers = itertools.count()


class EventWriter:
    """Writes scalars for TensorBoard to a file of its own in a folder.

    TensorBoard's own writer would load TensorFlow for its file system wherever it is installed.

    Args:
        folder: local or remote; created if needed.
    """

    def __init__(self, folder: str):
        make_folder(folder, "output_dir")
        now = time.time()
        name = f"events.out.tfevents.{int(now)}.{socket.gethostname()}.{os.getpid()}"
        self._file = AppendedFile(f"{folder}/{name}.{next(_numbers)}.v2")
        self._writer = RecordWriter(self._file)
        self._write(Event(wall_time=now, file_version="brain.Event:2"))

    def add_scalars(self, step: int, values: Mapping[str, float]) -> None:
        """Writes the values of a step, by name."""
        now = time.time()
        for name, value in values.items():
            self._write(Event(wall_time=now, step=step, summary=scalar_pb(name, value)))
        self._writer.flush()

    def sync(self) -> None:
        """As of `AppendedFile`."""
        self._file.sync()

    def close(self) -> None:
        self._writer.close()

    def _write(self, event: Event) -> None:
        self._writer.write(event.SerializeToString())
