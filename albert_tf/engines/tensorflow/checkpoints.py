"""Checkpoints that are flat dictionaries from variable paths to values.

Keys are the paths of the original project's names, not the attributes of any class, so a checkpoint
outlives refactorings and says by itself what it holds.
"""

from __future__ import annotations

import contextlib
import functools
import os
import re
import sys
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import keras
import tensorflow as tf

from albert_tf.engines.tensorflow import workers
from albert_tf.errors import InputError, arguments_renamed
from albert_tf.files import exists, matches, remove, tensorflow_errors_as_os_errors
from albert_tf.interop.tensorflow_checkpoints import damage_of, read_training_checkpoint
from albert_tf.interop.weights import match

_NAME = "model.ckpt"
_STEP = re.compile(rf"/{re.escape(_NAME)}-(\d+)$")


class Checkpoints:
    """Saves and restores a training state in a folder.

    Values are copied to the host's memory, and written from there in the background. A checkpoint
    is written under temporary names first; only a complete one is listed in the file `checkpoint`,
    which is replaced in one step. So a run that is killed at any moment leaves the one before as
    the newest. Of several workers only the chief writes, and chooses what all restore.

    Args:
        folder: where checkpoints `model.ckpt-STEP` are kept.
        model: its weights are saved under `params`.
        optimizer: already built; its state is saved under `optimizer`.
        keep: number of newest checkpoints that stay.
        keep_every_n_hours: of those that make room, one in so many hours stays too; 0 for none.

    Attributes:
        latest: path of the checkpoint that was last restored, or last seen to be complete.
    """

    def __init__(
        self,
        folder: str,
        model: keras.Model,
        optimizer: keras.optimizers.Optimizer,
        keep: int = 5,
        keep_every_n_hours: float = 0,
    ):
        self.model = model
        self.folder = folder
        self.latest: str | None = None
        self.iterations = optimizer.iterations
        moments = {v.path: v.value for v in optimizer.variables if v is not optimizer.iterations}
        self._state = {
            "params": {weight.path: weight.value for weight in model.weights},
            "optimizer": moments,
            "step": self.iterations.value,
        }
        with tf.device("/cpu:0"):
            self._copy = tf.nest.map_structure(
                lambda variable: tf.Variable(tf.zeros(variable.shape, variable.dtype)), self._state
            )
        self._checkpoint = tf.train.Checkpoint(**self._copy)
        self._kept = {
            "max_to_keep": keep,
            "keep_checkpoint_every_n_hours": keep_every_n_hours or None,
        }
        self._writer = ThreadPoolExecutor(1, "checkpoint")
        self._pending: Future[str] | None = None

    @functools.cached_property
    def _manager(self) -> tf.train.CheckpointManager:
        if _listed_newest(self.folder) is None:
            remove(f"{self.folder}/checkpoint")  # which is empty or broken, if it is there
        return tf.train.CheckpointManager(
            self._checkpoint, self.folder, checkpoint_name=_NAME, **self._kept
        )

    def restore_latest(self) -> bool:
        """Restores the newest checkpoint that can be read; says whether there is any at all.

        A damaged one is named on standard error and left out in favour of the one before.

        Raises:
            InputError: all are damaged; or the newest is of a model of another shape, or of another
                optimizer.
        """
        path = chosen_newest(self.folder)
        if path is None:
            return False
        with workers.everyone():
            self._restore(path)
        return True

    def _restore(self, path: str) -> None:
        shapes = {weight.path: tuple(weight.shape) for weight in self.model.weights}
        with arguments_renamed(weights="output_dir"):
            match(shapes, read_training_checkpoint(path))
        try:
            self._checkpoint.restore(path).assert_consumed()
        except (AssertionError, ValueError):
            raise InputError(
                f"{path}: was written with another optimizer or other heads; give the same "
                "--optimizer, or another --output_dir and this one as --init_checkpoint"
            ) from None
        tf.nest.map_structure(lambda to, value: to.assign(value), self._state, self._copy)
        self.latest = path

    def remove_unfinished(self) -> None:
        """Removes what runs that were killed while they wrote have left behind."""
        for path in matches(f"{self.folder}/{_NAME}-*_temp"):
            remove(path)

    def save(self) -> None:
        """Writes a checkpoint of the current step; it may still be under way at the return.

        Raises:
            OSError: the one before could not be written.
        """
        self.wait()
        step = int(self.iterations.numpy())
        if not workers.is_chief():
            self.latest = f"{self.folder}/{_NAME}-{step}"
            return
        tf.nest.map_structure(lambda to, variable: to.assign(variable), self._copy, self._state)
        self._pending = self._writer.submit(self._write, step)

    def wait(self) -> None:
        """Returns when nothing is being written any more.

        Raises:
            OSError: it could not be written; nothing of it stays behind.
        """
        pending, self._pending = self._pending, None
        if pending is not None:
            self.latest = pending.result()

    def __enter__(self) -> Checkpoints:
        return self

    def __exit__(self, kind, error, traceback) -> None:
        """Waits for what is being written; the error that ended the block goes before its own."""
        with contextlib.suppress(*(() if error is None else (OSError,))):
            self.wait()

    def check(self) -> None:
        """Raises the OSError of a write that has failed; waits for none."""
        if self._pending is not None and self._pending.done():
            self.wait()

    def _write(self, step: int) -> str:
        try:
            with tensorflow_errors_as_os_errors():
                return self._manager.save(checkpoint_number=step)
        except OSError:
            remove(f"{self.folder}/{_NAME}-{step}_temp")
            raise


def chosen_newest(folder: str) -> str | None:
    """`newest_readable` as the chief finds it, for all workers.

    Raises:
        InputError: as there; or the folder is not one and the same for all workers.
    """
    path = workers.from_chief(lambda: newest_readable(folder))
    with workers.everyone():
        if path is not None and not exists(f"{path}.index"):
            raise InputError(
                f"--output_dir={folder}: {path}, which worker 0 has found, is not there for "
                f"{workers.describe()}; all workers need one shared folder"
            )
    return path


def newest_readable(folder: str) -> str | None:
    """The newest checkpoint in a training folder of which every value can be read.

    Those that are newer and damaged are named on standard error, a line each.

    Returns:
        Its path; None where there is no checkpoint at all.

    Raises:
        InputError: there are some, all damaged.
    """
    found = []
    for path in _newest_first(folder):
        if _is_whole(path):
            if found:
                print(f"taking {path} instead", file=sys.stderr)
            return path
        found.append(os.path.basename(path))
    if found or exists(f"{folder}/checkpoint"):
        raise _none_readable(folder, found)
    return None


def readable(folder: str) -> Iterator[str]:
    """Yields the checkpoints in a training folder of which every value can be read.

    They come by rising step, up to the newest; each is looked at when its turn comes, and a damaged
    one is named on standard error.

    Raises:
        InputError: there are some, all damaged.
    """
    found, whole = _newest_first(folder)[::-1], 0
    for path in found:
        if _is_whole(path):
            whole += 1
            yield path
    if found and not whole:
        raise _none_readable(folder, map(os.path.basename, found))


def _is_whole(path: str) -> bool:
    """Whether every value of a checkpoint can be read; if not, standard error says why."""
    reason = damage_of(path)
    if reason is not None:
        print(f"warning: {path} is damaged and left out: {reason}", file=sys.stderr)
    return reason is None


def _none_readable(folder: str, found: Iterable[str]) -> InputError:
    names = ", ".join(found) or "none of those that the file `checkpoint` lists is there"
    return InputError(
        f"--output_dir={folder}: no checkpoint in it can be read ({names}); name another "
        "folder, or delete its checkpoints and the file `checkpoint` to start anew"
    )


def _newest_first(folder: str) -> list[str]:
    """Checkpoints by falling step, from the one that the file `checkpoint` lists as the newest.

    Without that file, or with a broken one, from the highest step.
    """
    indexes = matches(f"{folder}/{_NAME}-*.index")
    paths = [path.removesuffix(".index") for path in indexes]
    steps = {path: int(found[1]) for path in paths if (found := _STEP.search(path))}
    newest = _listed_newest(folder)
    if newest is None:
        return sorted(steps, key=steps.get, reverse=True)
    found = _STEP.search(newest)
    older = [path for path, step in steps.items() if found and step < int(found[1])]
    return [newest, *sorted(older, key=steps.get, reverse=True)]


def _listed_newest(folder: str) -> str | None:
    """What the file `checkpoint` lists as the newest; None where it is missing or broken."""
    try:
        state = tf.train.get_checkpoint_state(folder)
    except ValueError:
        return None
    return state.model_checkpoint_path if state else None
