"""Checkpoints of the JAX engine: every process writes its part, and the chief adds checksums."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from albert_tf.checkpoints import orbax, saving
from albert_tf.checkpoints.folder import unfinished_path
from albert_tf.files import is_remote, remove, without_magic
from albert_tf.weights import Tensor

# Values that are read at a time: each waits for the disk, or for a bucket's answer.
_READERS = 16


class Checkpoints(saving.Checkpoints):
    """Checkpoints that orbax writes.

    The arrays of the state are global: replicated, or sharded over the devices of all processes.
    """

    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **options)
        self._orbax = orbax.import_orbax()
        self._checkpointer = self._orbax.AsyncCheckpointer(orbax.create_handler())

    def _values(self, tensors: Mapping[str, Tensor]) -> dict[str, np.ndarray]:
        with ThreadPoolExecutor(_READERS) as readers:
            values = readers.map(lambda tensor: tensor.read(), tensors.values())
            return dict(zip(tensors, values, strict=True))

    def _copy(self, path: str) -> None:
        # On return, all values are in host memory: the arrays can be donated right away.
        if self._is_chief and is_remote(path):
            remove(path)  # orbax would do so with another client of Google's
        target = unfinished_path(path)
        # Orbax takes the names of folders for patterns, too.
        target = target if is_remote(path) else without_magic(os.path.abspath(target))
        arguments = self._orbax.args.PyTreeSave(self.state.tree)
        self._checkpointer.save(target, args=arguments, force=True)

    def _write(self, path: str) -> None:
        self._checkpointer.wait_until_finished()
        if self._is_chief:
            orbax.complete(path)

    @contextlib.contextmanager
    def _errors_as_os_errors(self, path: str) -> Iterator[None]:
        try:
            with orbax.errors_as_os_errors(path):
                yield
        except TimeoutError as error:
            # Orbax hides why processes could not wait for each other. `Workers` recognizes it.
            raise error.__cause__ or error from None
