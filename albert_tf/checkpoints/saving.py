"""Checkpoints of training: which one is used, which are kept, and how a run saves and resumes.

All of it is the same for every engine. What differs is the names on the disk
(`albert_tf.checkpoints.folder`), and how values get from the devices to the disk while
training continues: the method `_copy` and `_write` of an engine's `Checkpoints`.
"""

from __future__ import annotations

import abc
import contextlib
import logging
import os
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager
from typing import Any, Protocol, TypeVar

import numpy as np

from albert_tf.checkpoints.folder import CheckpointFormat, check_engine
from albert_tf.checkpoints.lists import NAME, CheckpointList, step_of
from albert_tf.errors import InputError, arguments_renamed
from albert_tf.files import exists, files_in, normalized, remove
from albert_tf.weights import Tensor, match

_logger = logging.getLogger(__name__)

Value = TypeVar("Value")


class Workers(Protocol):
    """What is asked of the processes that train together: see `albert_tf.engines.workers`."""

    @property
    def is_chief(self) -> bool: ...

    def describe(self) -> str: ...

    def from_chief(self, work: Callable[[], Value]) -> Value: ...

    def synchronized(self) -> AbstractContextManager[None]: ...


class CheckpointFolder:
    """The checkpoints of one engine in a folder, the same for all workers.

    Args:
        path: of the folder.
        format: of the engine.
        workers: the processes that train together.
    """

    def __init__(self, path: str, format: CheckpointFormat, workers: Workers):
        self.path = normalized(path)
        self.format = format
        self.workers = workers

    def find(self, argument: str = "path") -> str:
        """Return the checkpoint that is listed as the latest, or the only one; read none.

        Args:
            argument: the caller's name of the folder, for errors.

        Raises:
            InputError: If there is none, or several of which none is listed as the latest.
        """
        return self.format.find(self.path, argument)

    def listed(self) -> str | None:
        """Return the checkpoint that is listed as the latest, unread; None if none is."""
        return self.format.listed(self.path)

    def all(self) -> list[str]:
        """Return the checkpoints in order of steps, damaged ones included; read none."""
        return list(self.format.steps_in(self.path))

    def latest(self) -> str | None:
        """Return the latest valid checkpoint as the chief finds it; None if there is none.

        Damaged ones that are newer are skipped with a warning.

        Raises:
            InputError: If all are damaged, another engine has trained in the folder, or it is not
                the same one for all workers.
        """
        path = self.workers.from_chief(self._latest_valid)
        with self.workers.synchronized():
            here = self.workers.is_chief or exists(f"{path}{self.format.last_file}")
            if path is not None and not here:
                raise InputError(
                    f"`output_dir`={self.path}: {path}, which worker 0 has found, does not exist "
                    f"for {self.workers.describe()}; all workers need one shared folder"
                )
        return path

    def _latest_valid(self) -> str | None:
        before = self.format.read_list(self.path)
        damaged: list[str] = []
        for path in self._newest_first():
            if self.is_valid(path, before):
                if damaged:
                    _logger.warning("using %s instead", path)
                return path
            if self.format.read_list(self.path) != before:
                return self._latest_valid()
            damaged.append(path)
        if damaged or exists(f"{self.path}/{self.format.list_file}"):
            raise self._none_valid(damaged)
        return None

    def valid(self) -> list[str]:
        """Return the valid checkpoints as the chief finds them, oldest first.

        Damaged ones are skipped with a warning each.

        Raises:
            InputError: If there are some, all damaged, or another engine has trained in the folder.
        """
        return self.workers.from_chief(self._all_valid)

    def _all_valid(self) -> list[str]:
        before, found = self.format.read_list(self.path), self._newest_first()
        valid = [path for path in reversed(found) if self.is_valid(path, before)]
        if found and not valid:
            if self.format.read_list(self.path) != before:
                return self._all_valid()
            raise self._none_valid(found)
        return valid

    def is_valid(self, path: str, listed: CheckpointList | None) -> bool:
        """Return whether every value of a checkpoint can be read; warn if it is damaged.

        Args:
            path: of the checkpoint.
            listed: content of the list before; by another one, a run has replaced the checkpoint.
        """
        reason = self.format.damage_of(path)
        if reason is not None and self.format.read_list(self.path) == listed:
            _logger.warning("%s is damaged and skipped: %s", path, reason)
        return reason is None

    def _none_valid(self, damaged: list[str]) -> InputError:
        file = self.format.list_file
        names = ", ".join(map(os.path.basename, damaged))
        names = names or f"none of those that the file `{file}` lists exists"
        return InputError(
            f"`output_dir`={self.path}: no checkpoint in it can be read ({names}); name another "
            f"folder, or delete its checkpoints and the file `{file}` to start from scratch"
        )

    def _newest_first(self) -> list[str]:
        """Return the checkpoints from the one that is listed as the latest, latest step first.

        Without the list, or with a broken one, from the highest step. So too if what it lists is
        missing, as after a power cut that undid a change of the list but not a removal.
        """
        check_engine(self.path, self.format.engine)
        steps = self.format.steps_in(self.path)
        unfinished = {path.removesuffix(".index") for path in self.format.unfinished(self.path)}
        paths = [path for path in reversed(steps) if path not in unfinished]
        checkpoints = self.format.read_list(self.path)
        if checkpoints is None:
            return paths
        latest = os.path.join(self.path, checkpoints.latest)
        if latest not in steps:
            return [latest, *paths]
        return [latest, *(path for path in paths if steps[path] < steps[latest])]

    def add(
        self,
        path: str,
        keep: int,
        keep_every_n_hours: float,
        replaced: Sequence[str] | None = None,
    ) -> None:
        """List a complete checkpoint as the latest, then remove those that it replaces.

        Args:
            path: of the checkpoint.
            keep, keep_every_n_hours: as for `Checkpoints`.
            replaced: what it replaces, instead of the oldest beyond `keep`.
        """
        name = os.path.basename(path)
        before = self.format.read_list(self.path) or CheckpointList(name)
        keep = keep if replaced is None else len(before.saved) + 1
        listed, obsolete = before.add(name, time.time(), keep, keep_every_n_hours)
        obsolete += map(os.path.basename, replaced or ())
        self.format.write_list(self.path, listed)
        for other in obsolete:
            self.format.remove(f"{self.path}/{other}")
        if obsolete:
            self.format.write_list(self.path, listed.without(obsolete))

    def copy(self, path: str) -> str:
        """Copy a complete checkpoint into the folder, without listing it there.

        Returns:
            The path of the copy.
        """
        target = f"{self.path}/{os.path.basename(path)}"
        if self.listed() == target:
            # It may come from another run; a mixture of both must not stay listed.
            remove(f"{self.path}/{self.format.list_file}")
        self.format.copy(path, target)
        return target

    def keep_only(self, path: str) -> None:
        """List a checkpoint as the only one, then remove the others and what is left of others."""
        self.format.list_only(path)
        name = os.path.basename(path)
        for other in files_in(self.path, f"{NAME}-*"):
            if os.path.basename(other) == name or os.path.basename(other).startswith(f"{name}."):
                continue
            if step_of(other) is None:
                remove(other)  # a file of a checkpoint, or that belongs to one
            else:
                self.format.remove(other)
        self.remove_unfinished()

    def remove_unfinished(self) -> None:
        """Remove partial checkpoints of runs that were killed while they saved."""
        for path in self.format.unfinished(self.path):
            remove(path)


class TrainingState(Protocol):
    """What is saved and restored.

    Attributes:
        step: number of updates made so far.
        tree: `{"params": {variable path: value}, "optimizer": {variable path: value},
            "step": value}`, values being of the framework. Assigning a tree of NumPy arrays
            replaces the state.
    """

    tree: dict[str, Any]

    @property
    def step(self) -> int: ...


class Checkpoints(AbstractContextManager):
    """Saves and restores the state of training in one folder.

    Saving happens in the background: values are copied to host memory and written from there. A
    checkpoint is listed as the latest when every byte of it is on the disk, so a run that is killed
    at any moment leaves the previous checkpoint as the latest one. All workers must save the same
    steps. Leaving the `with` block waits for the last save; an error that ended the block hides an
    error of the save.

    Args:
        folder: where checkpoints `model.ckpt-STEP` are kept; exists.
        state: what is saved.
        keep: number of latest checkpoints to keep.
        keep_every_n_hours: of older ones, keep one per this many hours; 0 for none.

    Attributes:
        latest: path of the checkpoint that was restored last, or last known to be complete.
        good: the last one that was saved as a good one, also before a restart (see `resume`).
        before_listing: called in the background before a checkpoint is listed as the latest, to
            wait for the log of the steps before it.
    """

    before_listing: Callable[[], None] = staticmethod(lambda: None)

    def __init__(
        self,
        folder: CheckpointFolder,
        state: TrainingState,
        keep: int = 5,
        keep_every_n_hours: float = 0,
    ):
        self.folder = folder
        self.state = state
        self.latest: str | None = None
        self.good: str | None = None
        self._bad: list[str] = []  # those since then
        self._keep = keep, keep_every_n_hours
        self._is_chief = folder.workers.is_chief
        self._writer = ThreadPoolExecutor(1, "checkpoint")
        self._pending: Future[str] | None = None

    def restore_latest(self) -> bool:
        """Restore the latest valid checkpoint; return False if the folder has none.

        Raises:
            InputError: If all checkpoints are damaged, or the latest belongs to a model of another
                shape or to another optimizer.
        """
        path = self.folder.latest()
        if path is None:
            return False
        with self.folder.workers.synchronized():
            values = self._read(path)
        self.state.tree = values
        self.latest = self.good = path
        return True

    def resume(self, bad: Collection[float]) -> None:
        """Continue with the last good checkpoint before the one that was restored, if any.

        Args:
            bad: the steps whose checkpoints are not good.
        """
        paths = self.folder.all()
        paths = paths[: paths.index(self.latest) + 1] if self.latest in paths else []
        good = [number for number, path in enumerate(paths) if step_of(path) not in bad]
        self.good, self._bad = (paths[good[-1]], paths[good[-1] + 1 :]) if good else (None, paths)

    def _read(self, path: str) -> dict[str, Any]:
        """Return the values of a checkpoint that has those of the state, and no others."""
        weights = self.folder.format.read(path)
        shapes = {kind: _shapes(self.state.tree[kind]) for kind in ("params", "optimizer")}
        with arguments_renamed(weights="output_dir"):
            matched = match(shapes["params"], weights)
        same = _shapes(weights.optimizer) == shapes["optimizer"] and weights.step is not None
        if matched.missing or matched.unused or not same:
            raise InputError(
                f"{path}: was written with another optimizer or other heads; use the same "
                "`optimizer`, or another `output_dir` with this checkpoint as `init_checkpoint`"
            )
        return {
            "params": self._values(weights.tensors),
            "optimizer": self._values(weights.optimizer),
            "step": np.asarray(weights.step, np.int32),
        }

    def _values(self, tensors: Mapping[str, Tensor]) -> dict[str, np.ndarray]:
        """Read tensors by name."""
        return {name: tensor.read() for name, tensor in tensors.items()}

    def save(self, is_good: bool = True) -> None:
        """Start saving the current state, after waiting for the previous save.

        Args:
            is_good: whether it may replace older ones. One that is not, as of a run that has
                diverged, replaces only the one before if that was not good either.

        Raises:
            OSError: If the previous checkpoint could not be written.
        """
        self.wait()
        path = f"{self.folder.path}/{NAME}-{self.state.step}"
        with self._writing(path):
            self._copy(path)
        replaced, self._bad = None if is_good else self._bad, [] if is_good else [path]
        self.good = path if is_good else self.good
        self._pending = self._writer.submit(self._finish, path, replaced)

    def _finish(self, path: str, replaced: Sequence[str] | None) -> str:
        self.before_listing()
        with self._writing(path):
            self._write(path)
            if self._is_chief:
                self.folder.add(path, *self._keep, replaced)
        return path

    @contextlib.contextmanager
    def _writing(self, path: str) -> Iterator[None]:
        """Turn errors of a save into OSErrors, and remove what it has written."""
        try:
            with self._errors_as_os_errors(path):
                yield
        except OSError:
            if self._is_chief:
                with contextlib.suppress(OSError):  # what forbids writing may forbid removing
                    for part in self.folder.format.parts_of(path):
                        remove(part)
            raise

    @abc.abstractmethod
    def _copy(self, path: str) -> None:
        """Copy the state to host memory; from then on, training may change it."""

    @abc.abstractmethod
    def _write(self, path: str) -> None:
        """Write the copy in the background; return when every byte is on the disk."""

    @abc.abstractmethod
    def _errors_as_os_errors(self, path: str) -> AbstractContextManager:
        """Raise the framework's errors about files as OSError."""

    def wait(self) -> None:
        """Wait until everything is saved.

        Raises:
            OSError: If the checkpoint could not be written; nothing of it is left behind.
        """
        pending, self._pending = self._pending, None
        if pending is not None:
            self.latest = pending.result()

    def check(self) -> None:
        """Raise the OSError of a save that has failed; do not wait."""
        if self._pending is not None and self._pending.done():
            self.wait()

    def __exit__(self, kind, error, traceback) -> None:
        with contextlib.suppress(*(() if error is None else (OSError,))):
            self.wait()


def _shapes(values: Mapping[str, Any]) -> dict[str, tuple[int, ...]]:
    return {path: tuple(value.shape) for path, value in values.items()}
