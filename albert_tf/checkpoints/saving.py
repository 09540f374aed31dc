"""How a run saves its state, while it continues, and resumes from it."""

import contextlib
import os
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager
from typing import Any

import numpy as np

from albert_tf.checkpoints.folder import NAME, CheckpointFolder, step_of
from albert_tf.errors import InputError, arguments_renamed
from albert_tf.files import exists
from albert_tf.weights import Tensor, match


def latest_for_all(folder: CheckpointFolder, workers: Any) -> str | None:
    """Return the latest valid checkpoint as the chief finds it; None if there is none.

    Raises:
        InputError: If all are damaged, or it is not the same folder for all workers.
    """
    path = workers.from_chief(folder.latest)
    with workers.synchronized():
        if path is not None and not workers.is_chief and not exists(path + folder.endings[0]):
            raise InputError(
                f"`output_dir`={folder.path}: {path}, which worker 0 has found, does not exist "
                f"for {workers.describe()}; all workers need one shared folder"
            )
    return path


class Checkpoints(AbstractContextManager):
    """Saves and restores the state of training in one folder.

    Saving happens in the background: values are copied to host memory and written from there. A
    checkpoint is listed as the latest when every byte of it is on the disk, so a run that is killed
    at any moment leaves the previous checkpoint as the latest one. All workers must save the same
    steps. Leaving the `with` block waits for the last save; an error of the block hides its error.

    Args:
        folder: where checkpoints are kept; exists.
        state: what is saved, `albert_tf.engines.steps.TrainingStep`: its number of updates, `step`,
            and its `tree`, which NumPy arrays may replace.
        workers: that train together, `albert_tf.engines.workers.Workers`.
        keep: number of latest checkpoints to keep.
        keep_every_n_hours: of older ones, keep one per this many hours; 0 for none.
        kept_steps: whose checkpoints stay for good, besides the latest ones.

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
        state: Any,
        workers: Any,
        keep: int = 5,
        keep_every_n_hours: float = 0,
        kept_steps: Collection[int] = (),
    ):
        self.folder = folder
        self.state = state
        self.latest: str | None = None
        self.good: str | None = None
        self._bad: list[str] = []  # those since then
        self._workers = workers
        self._keep = keep, keep_every_n_hours, kept_steps
        self._writer = ThreadPoolExecutor(1, "checkpoint")
        self._pending: Future[str] | None = None

    def restore_latest(self) -> bool:
        """Restore the latest valid checkpoint; return False if the folder has none.

        Raises:
            InputError: If all checkpoints are damaged, or the latest belongs to a model of another
                shape or to another optimizer.
        """
        path = latest_for_all(self.folder, self._workers)
        if path is None:
            return False
        with self._workers.synchronized():
            values = self._read(path)
        self.state.tree = values
        self.latest = self.good = path
        return True

    def resume(self, bad: Collection[float]) -> None:
        """Continue with the last good checkpoint before the one that was restored, if any.

        Those of the steps in `bad` are not good.
        """
        paths = self.folder.all()
        paths = paths[: paths.index(self.latest) + 1] if self.latest in paths else []
        good = [number for number, path in enumerate(paths) if step_of(path) not in bad]
        self.good, self._bad = (paths[good[-1]], paths[good[-1] + 1 :]) if good else (None, paths)

    def _read(self, path: str) -> dict[str, Any]:
        """Return the values of a checkpoint that has those of the state, and no others."""
        weights = self.folder.read(path)
        shapes = {kind: _shapes(self.state.tree[kind]) for kind in ("params", "optimizer")}
        with arguments_renamed(weights="output_dir"):
            matched = match(shapes["params"], weights)
        same = _shapes(weights.optimizer) == shapes["optimizer"] and weights.step is not None
        if matched.missing or matched.unused or not same:
            raise InputError(
                f"{path}: was written with another optimizer or other heads; use the same "
                "`optimizer`, and in pretraining `teacher`, or another `output_dir` with this "
                "checkpoint as `init_checkpoint`"
            )
        return {
            "params": self._values(weights.tensors),
            "optimizer": self._values(weights.optimizer),
            "step": np.asarray(weights.step, np.int32),
        }

    def _values(self, tensors: Mapping[str, Tensor]) -> dict[str, np.ndarray]:
        with ThreadPoolExecutor(self.folder.readers) as readers:
            values = readers.map(lambda tensor: tensor.read(), tensors.values())
            return dict(zip(tensors, values, strict=True))

    def save(self, is_good: bool = True) -> None:
        """Start saving the current state, after waiting for the previous save.

        Args:
            is_good: whether it may replace older ones. One that is not, as of a run that has
                diverged, replaces only the one before if that was not good either.

        Raises:
            OSError: If the previous checkpoint could not be written.
        """
        self.wait()
        path = os.path.join(self.folder.path, f"{NAME}-{self.state.step}")
        with self._removed_if_it_fails(path):
            write = self.folder.start_saving(path, self.state.tree, self._workers.is_chief)
        replaced, self._bad = None if is_good else self._bad, [] if is_good else [path]
        self.good = path if is_good else self.good
        self._pending = self._writer.submit(self._finish, path, write, replaced)

    def _finish(self, path: str, write: Callable, replaced: Sequence[str] | None) -> str:
        self.before_listing()
        with self._removed_if_it_fails(path):
            write()
            if self._workers.is_chief:
                self.folder.add(path, *self._keep, replaced)
        return path

    @contextlib.contextmanager
    def _removed_if_it_fails(self, path: str):
        try:
            yield
        except OSError:
            if self._workers.is_chief:
                with contextlib.suppress(OSError):  # what forbids writing may forbid removing
                    self.folder.remove_unfinished(os.path.basename(path))
            raise

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
