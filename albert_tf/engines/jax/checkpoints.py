"""Checkpoints of the JAX engine: folders that orbax writes, complete with checksums.

Every process writes its part of the arrays. The chief then adds checksums, renames the folder and
lists it in `checkpoints.json`, see `albert_tf.interop.checkpoint_folders`.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator
from typing import Any, Protocol

from albert_tf.engines import base, checkpoint_choice
from albert_tf.engines.checkpoint_choice import check_shared
from albert_tf.engines.workers import Workers
from albert_tf.errors import InputError, arguments_renamed
from albert_tf.files import (
    copy_file,
    exists,
    is_remote,
    make_folder,
    matches,
    read_text,
    remove,
    replacing,
    sizes,
)
from albert_tf.interop import checkpoint_folders
from albert_tf.interop.checkpoint_folders import (
    CHECKSUM_FILE,
    LIST_FILE,
    NAME,
    CheckpointList,
    check_engine,
    checkpoints_in,
    damage_of,
    discard,
    find_checkpoint,
    listed_checkpoint,
    newest_first,
    read_list,
    unfinished_path,
    write_list,
)
from albert_tf.interop.orbax_checkpoints import (
    create_handler,
    errors_as_os_errors,
    import_orbax,
    read_training_checkpoint,
    unreadable,
)
from albert_tf.interop.weights import match

__all__ = [
    "Checkpoints",
    "TrainingState",
    "copy_checkpoint",
    "damage_of",
    "find_checkpoint",
    "list_checkpoints",
    "keep_only_checkpoint",
    "latest_checkpoint",
    "latest_valid",
    "listed_checkpoint",
    "valid_checkpoints",
]


class TrainingState(Protocol):
    """What is saved and restored.

    Attributes:
        tree: `{"params": {variable path: jax.Array}, "optimizer": {variable path: jax.Array},
            "step": jax.Array}`. Arrays are global: replicated, or sharded over the devices of all
            processes. The step is a replicated int32 scalar. Assigning the tree replaces the state.
    """

    tree: dict[str, Any]


class Checkpoints(base.Checkpoints):
    """Saves and restores a training state in a folder.

    Values are copied to host memory and written from there in the background. A checkpoint is
    written under a temporary name, renamed when every byte is on the disk, and then listed in
    `checkpoints.json`. So a run that is killed at any moment leaves the previous checkpoint as the
    latest. All workers must save the same steps.

    Args:
        folder: where checkpoints `model.ckpt-STEP` are kept; exists.
        state: what is saved.
        keep: number of latest checkpoints to keep.
        keep_every_n_hours: of older ones, keep one per this many hours; 0 for none.
        workers: the processes that train together, in the order of their JAX process ids.
    """

    def __init__(
        self,
        folder: str,
        state: TrainingState,
        keep: int = 5,
        keep_every_n_hours: float = 0,
        workers: Workers | None = None,
    ):
        super().__init__()
        self.folder = folder
        self.state = state
        self._keep = keep
        self._keep_every_n_hours = keep_every_n_hours
        self._workers = workers or Workers()
        self._orbax = import_orbax()
        self._checkpointer = self._orbax.AsyncCheckpointer(create_handler())

    def restore_latest(self) -> bool:
        """Restores the latest valid checkpoint; returns False if the folder has none.

        A damaged one is skipped with a warning, in favor of the one before it.

        Raises:
            InputError: all are damaged, the latest belongs to a model of another shape or to
                another optimizer, or another engine has trained in the folder.
        """
        path = latest_checkpoint(self.folder, self._workers)
        if path is None:
            return False
        with self._workers.synchronized():
            self._check_matches(path)
        self._restore(path)
        return True

    def _check_matches(self, path: str) -> None:
        """Raises InputError if a checkpoint has other values than the state."""
        weights = read_training_checkpoint(path, verify=False)  # as the chief has done so
        shapes = _shapes(self.state.tree["params"])
        with arguments_renamed(weights="output_dir"):
            matched = match(shapes, weights)
        stored = {name: tensor.shape for name, tensor in weights.optimizer.items()}
        if matched.missing or matched.unused or stored != _shapes(self.state.tree["optimizer"]):
            raise InputError(
                f"{path}: was written with another optimizer or other heads; use the same "
                "`optimizer`, or another `output_dir` with this checkpoint as `init_checkpoint`"
            )

    def _restore(self, path: str) -> None:
        """Every process reads its parts of the arrays."""
        tree = self.state.tree
        arguments = self._orbax.args.PyTreeRestore(
            item=tree, restore_args=self._orbax.checkpoint_utils.construct_restore_args(tree)
        )
        try:
            self.state.tree = self._checkpointer.restore(_absolute(path), args=arguments)
        except (ValueError, OSError) as error:
            raise unreadable(path, error) from None
        self.latest = path

    def remove_unfinished(self) -> None:
        """Removes partial checkpoints of runs that were killed while they saved."""
        checkpoint_folders.remove_unfinished(self.folder)

    def save(self) -> None:
        """Starts saving the current state, after waiting for the previous save.

        Returns when all values are in host memory: the arrays can be donated right away.

        Raises:
            OSError: the previous checkpoint could not be written.
        """
        self.wait()
        tree = self.state.tree
        path = f"{self.folder}/{NAME}-{int(tree['step'])}"
        with self._writing(path):
            if self._workers.is_chief and is_remote(path):
                remove(path)  # orbax would do so with another client of Google's
            arguments = self._orbax.args.PyTreeSave(tree)
            self._checkpointer.save(_absolute(unfinished_path(path)), args=arguments, force=True)
        self._finish_in_background(self._finish, path)

    def _finish(self, path: str) -> str:
        """Waits until all processes have written, then completes the checkpoint on the chief."""
        with self._writing(path):
            self._checkpointer.wait_until_finished()
            if self._workers.is_chief:
                checkpoint_folders.complete(path)
                self._add_to_list(os.path.basename(path))
        return path

    @contextlib.contextmanager
    def _writing(self, path: str) -> Iterator[None]:
        """Turns errors of a save into OSErrors, and removes what it has written."""
        try:
            with errors_as_os_errors(path):
                yield
        except TimeoutError as error:
            # Orbax hides why processes could not wait for each other. `Workers` recognizes it.
            raise error.__cause__ or error from None
        except OSError:
            if self._workers.is_chief:
                with contextlib.suppress(OSError):  # what forbids writing may forbid removing
                    for leftover in matches(f"{unfinished_path(path)}*"):
                        remove(leftover)
            raise

    def _add_to_list(self, name: str) -> None:
        """Lists a complete checkpoint as the latest, then removes those that it replaces."""
        checkpoints = read_list(self.folder) or CheckpointList(name)
        listed, obsolete = checkpoints.added(
            name, time.time(), self._keep, self._keep_every_n_hours
        )
        write_list(self.folder, listed)
        for other in obsolete:
            discard(f"{self.folder}/{other}")


def _shapes(arrays: dict[str, Any]) -> dict[str, tuple[int, ...]]:
    return {path: tuple(array.shape) for path, array in arrays.items()}


def _absolute(path: str) -> str:
    """The path as orbax needs it."""
    return path if is_remote(path) else os.path.abspath(path)


def latest_checkpoint(folder: str, workers: Workers) -> str | None:
    """The latest valid checkpoint in a folder as the chief finds it, for all workers.

    Damaged ones that are newer are skipped with a warning.

    Raises:
        InputError: all are damaged, another engine has trained in the folder, or it is not the
            same one for all workers.
    """
    path = workers.from_chief(lambda: latest_valid(folder))
    check_shared(folder, path, f"{path}/{CHECKSUM_FILE}", workers)
    return path


def latest_valid(folder: str) -> str | None:
    """The latest valid checkpoint in a training folder; see `checkpoint_choice.latest_valid`.

    Raises:
        InputError: all are damaged, or another engine has trained in the folder.
    """
    check_engine(folder, "jax")
    return checkpoint_choice.latest_valid(folder, newest_first(folder), damage_of, LIST_FILE)


def valid_checkpoints(folder: str) -> Iterator[str]:
    """The valid checkpoints in a training folder, oldest first.

    Each is checked when its turn comes; damaged ones are skipped with a warning each.

    Raises:
        InputError: all are damaged, or another engine has trained in the folder.
    """
    check_engine(folder, "jax")
    return checkpoint_choice.iter_valid(folder, newest_first(folder), damage_of, LIST_FILE)


def list_checkpoints(folder: str) -> list[str]:
    """The checkpoints in a folder, whole or not."""
    return list(checkpoints_in(folder))


def copy_checkpoint(path: str, folder: str) -> str:
    """Copies a complete checkpoint into a folder, without listing it there.

    Returns:
        The path of the copy.
    """
    target = f"{folder}/{os.path.basename(path)}"
    if _is_copy(path, target):
        return target
    if listed_checkpoint(folder) == target:
        # It comes from another run; while it is replaced, it must not stay listed.
        remove(f"{folder}/{LIST_FILE}")
    if is_remote(target):
        remove(target)
    with contextlib.nullcontext(target) if is_remote(target) else replacing(target) as partial:
        # The checksums last: without them, a remote copy is incomplete.
        for name in sorted(sizes(path), key=lambda name: name == CHECKSUM_FILE):
            file = f"{partial}/{name}"
            make_folder(os.path.dirname(file), "output_dir")
            copy_file(f"{path}/{name}", file)
        if partial != target:
            discard(target)
    return target


def _is_copy(path: str, target: str) -> bool:
    """Whether a checkpoint has been copied before, and the copy is intact."""
    checksums = [f"{place}/{CHECKSUM_FILE}" for place in (path, target)]
    if not all(map(exists, checksums)) or damage_of(target) is not None:
        return False
    return read_text(checksums[0]) == read_text(checksums[1])


def keep_only_checkpoint(path: str) -> None:
    """Lists a checkpoint as the only one of its folder, then removes the others.

    So too what is left of those that a run was removing when it was killed.
    """
    folder, name = os.path.split(path)
    write_list(folder, CheckpointList(name))
    for other in matches(f"{folder}/{NAME}-*"):
        other = other.rstrip("/")
        if other == path or os.path.basename(other).startswith(f"{name}."):
            continue
        if checkpoint_folders.step_of(other) is None:
            remove(other)  # a file that belonged to a checkpoint
        else:
            discard(other)
    checkpoint_folders.remove_unfinished(folder)
