"""Checkpoints that are flat dictionaries from variable paths to values.

Keys are paths made of the original project's names, not attributes of classes, so that checkpoints
outlive refactorings and describe themselves.
"""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Iterator

import keras
import tensorflow as tf

from albert_tf.engines import base, checkpoint_choice
from albert_tf.engines.checkpoint_choice import check_shared
from albert_tf.engines.workers import Workers
from albert_tf.errors import InputError, arguments_renamed
from albert_tf.files import copy_file, exists, matches, remove, sync, sync_names
from albert_tf.interop.checkpoint_folders import check_engine
from albert_tf.interop.tensorflow_checkpoints import (
    damage_of,
    list_as_newest,
    open_checkpoint,
    read_training_checkpoint,
)
from albert_tf.interop.weights import match
from albert_tf.tensorflow_errors import tensorflow_errors_as_os_errors

_NAME = "model.ckpt"
_LIST_FILE = "checkpoint"
_STEP = re.compile(rf"/{re.escape(_NAME)}-(\d+)$")


class Checkpoints(base.Checkpoints):
    """Saves and restores a training state in a folder.

    Values are copied to host memory and written from there in the background. A checkpoint is
    written under temporary names and listed in the file `checkpoint`, which is replaced in one
    step, when it is complete. So a run that is killed at any moment leaves the previous checkpoint
    as the latest. Of several workers only the chief writes, and chooses what all restore.

    Args:
        folder: where checkpoints `model.ckpt-STEP` are kept.
        model: its weights are saved under `params`.
        optimizer: already built; its state is saved under `optimizer`.
        keep: number of latest checkpoints to keep.
        keep_every_n_hours: of older ones, keep one per this many hours; 0 for none.
        workers: the processes that train together.
    """

    def __init__(
        self,
        folder: str,
        model: keras.Model,
        optimizer: keras.optimizers.Optimizer,
        keep: int = 5,
        keep_every_n_hours: float = 0,
        workers: Workers | None = None,
    ):
        super().__init__()
        self.model = model
        self.folder = folder
        self._workers = workers or Workers()
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

    @functools.cached_property
    def _manager(self) -> tf.train.CheckpointManager:
        if _listed_newest(self.folder) is None:
            remove(f"{self.folder}/checkpoint")  # empty or broken, if it exists
        return tf.train.CheckpointManager(
            self._checkpoint, self.folder, checkpoint_name=_NAME, **self._kept
        )

    def restore_latest(self) -> bool:
        """Restores the latest valid checkpoint; returns False if the folder has none.

        A damaged one is skipped with a warning, in favor of the one before it.

        Raises:
            InputError: all are damaged, or the latest belongs to a model of another shape or to
                another optimizer.
        """
        path = latest_checkpoint(self.folder, self._workers)
        if path is None:
            return False
        with self._workers.synchronized():
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
                f"{path}: was written with another optimizer or other heads; use the same "
                "`optimizer`, or another `output_dir` with this checkpoint as `init_checkpoint`"
            ) from None
        tf.nest.map_structure(lambda to, value: to.assign(value), self._state, self._copy)
        self.latest = path

    def remove_unfinished(self) -> None:
        """Removes partial checkpoints of runs that were killed while they saved."""
        for path in matches(f"{self.folder}/{_NAME}-*_temp"):
            remove(path)
        if (first := _unfinished_first(self.folder)) is not None:
            for path in matches(f"{first}.*"):
                remove(path)

    def save(self) -> None:
        """Starts saving the current step, after waiting for the previous save.

        Raises:
            OSError: the previous checkpoint could not be written.
        """
        self.wait()
        step = int(self.iterations.numpy())
        if not self._workers.is_chief:
            self.latest = f"{self.folder}/{_NAME}-{step}"
            return
        tf.nest.map_structure(lambda to, variable: to.assign(variable), self._copy, self._state)
        self._finish_in_background(self._write, step)

    def _write(self, step: int) -> str:
        try:
            options = tf.train.CheckpointOptions(experimental_write_callbacks=[self._sync])
            with tensorflow_errors_as_os_errors():
                path = self._manager.save(checkpoint_number=step, options=options)
            sync(f"{self.folder}/checkpoint")
            sync_names(self.folder)
            return path
        except OSError:
            remove(f"{self.folder}/{_NAME}-{step}_temp")
            raise

    def _sync(self, path: str) -> None:
        """Puts a checkpoint on the disk, before it is listed and others are removed."""
        for file in matches(f"{path}.*"):
            sync(file)
        sync_names(self.folder)


def latest_checkpoint(folder: str, workers: Workers) -> str | None:
    """`latest_valid` as the chief finds it, for all workers.

    Raises:
        InputError: as there, or the folder is not the same one for all workers.
    """
    path = workers.from_chief(lambda: latest_valid(folder))
    check_shared(folder, path, f"{path}.index", workers)
    return path


def latest_valid(folder: str) -> str | None:
    """The latest valid checkpoint in a training folder; see `checkpoint_choice.latest_valid`.

    Raises:
        InputError: all are damaged, or another engine has trained in the folder.
    """
    check_engine(folder, "tensorflow")
    return checkpoint_choice.latest_valid(folder, _newest_first(folder), damage_of, _LIST_FILE)


def valid_checkpoints(folder: str) -> Iterator[str]:
    """The valid checkpoints in a training folder, oldest first; see `checkpoint_choice.iter_valid`.

    Raises:
        InputError: all are damaged, or another engine has trained in the folder.
    """
    check_engine(folder, "tensorflow")
    return checkpoint_choice.iter_valid(folder, _newest_first(folder), damage_of, _LIST_FILE)


def list_checkpoints(folder: str) -> list[str]:
    """The checkpoints in a folder, whole or not."""
    return [path.removesuffix(".index") for path in matches(f"{folder}/{_NAME}-*.index")]


def _newest_first(folder: str) -> list[str]:
    """Checkpoints, latest step first, from the one that the file `checkpoint` lists as the latest.

    Without that file, or with a broken one, from the highest step. So too if what it lists is
    missing, as after a power cut that undid a change of the list but not the removal of a file.
    """
    unfinished = _unfinished_first(folder)
    paths = [path for path in list_checkpoints(folder) if path != unfinished]
    steps = {path: int(found[1]) for path in paths if (found := _STEP.search(path))}
    newest = _listed_newest(folder)
    if newest is None or not exists(f"{newest}.index"):
        missing = [] if newest is None else [newest]
        return missing + sorted(steps, key=steps.__getitem__, reverse=True)
    found = _STEP.search(newest)
    older = [path for path, step in steps.items() if found and step < int(found[1])]
    return [newest, *sorted(older, key=steps.__getitem__, reverse=True)]


def _unfinished_first(folder: str) -> str | None:
    """The first checkpoint of a run, if it was killed, or is still busy, saving it.

    TensorFlow writes the index of a checkpoint under its final name, so a kill can leave a part of
    it. A later checkpoint like this is passed over, because the file `checkpoint` lists those
    before it; the first one is the only one of a folder that has no such file yet.
    """
    paths = list_checkpoints(folder)
    if len(paths) != 1 or exists(f"{folder}/{_LIST_FILE}"):
        return None
    try:
        open_checkpoint(paths[0])
    except InputError:
        return paths[0]
    return None


def _listed_newest(folder: str) -> str | None:
    """The checkpoint that the file `checkpoint` lists as the latest; None if that is unreadable."""
    try:
        state = tf.train.get_checkpoint_state(folder)
    except ValueError:
        return None
    return state.model_checkpoint_path if state else None


def copy_checkpoint(path: str, folder: str) -> str:
    """Copies a complete checkpoint into a folder, without listing it there.

    Returns:
        The path of the copy.
    """
    target = f"{folder}/{os.path.basename(path)}"
    if tf.train.latest_checkpoint(folder) == target:
        # It may come from another run; a mixture of both must not stay listed.
        remove(f"{folder}/checkpoint")
    for source in matches(f"{path}.*"):
        copy_file(source, f"{folder}/{os.path.basename(source)}")
    return target


def keep_only_checkpoint(path: str) -> None:
    """Lists a checkpoint as the only one of its folder, then removes the others."""
    list_as_newest(path)
    folder, name = os.path.split(path)
    for other in matches(f"{folder}/{_NAME}-*"):
        if not os.path.basename(other).startswith(f"{name}."):
            remove(other)
