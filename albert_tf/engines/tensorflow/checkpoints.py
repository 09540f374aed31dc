"""Checkpoints of the TensorFlow engine, which the chief of all workers writes."""

from __future__ import annotations

from contextlib import AbstractContextManager

from albert_tf.checkpoints import saving, tensorflow
from albert_tf.errors import tensorflow_errors_as_os_errors


class Checkpoints(saving.Checkpoints):
    """Checkpoints that TensorFlow writes."""

    def _copy(self, path: str) -> None:
        if self._is_chief:
            self._copied = tensorflow.copy_values(**self.state.tree)

    def _write(self, path: str) -> None:
        if self._is_chief:
            tensorflow.write_copied(path, self._copied)
            del self._copied

    def _errors_as_os_errors(self, path: str) -> AbstractContextManager:
        return tensorflow_errors_as_os_errors()
