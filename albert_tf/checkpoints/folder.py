"""The folders in which training keeps checkpoints, told apart by engine; loads no framework.

Both engines call a checkpoint `OUTPUT_DIR/model.ckpt-STEP`. With TensorFlow this is a prefix of
files, which the file `checkpoint` lists. With JAX it is a folder that orbax wrote, which
`checkpoints.json` lists, and `checksums.txt` in it contains the size and CRC-32C of every file:
orbax stores none for the values.

A format knows the names on the disk; its driver, a module that loads the framework, knows the
content. Which checkpoint is chosen, kept or removed is decided in `albert_tf.checkpoints.saving`.
"""

from __future__ import annotations

import abc
import contextlib
import glob
import importlib
import os
from typing import TYPE_CHECKING, Any, ClassVar

from albert_tf.checkpoints.lists import NAME, CheckpointList, step_of
from albert_tf.errors import InputError
from albert_tf.files import (
    copy_file,
    exists,
    files_in,
    is_folder,
    is_remote,
    make_folder,
    read_text,
    remove,
    replacing,
    sizes,
    write_text,
)

if TYPE_CHECKING:
    from albert_tf.weights import Weights

CHECKSUM_FILE = "checksums.txt"

_UNFINISHED = ".unfinished"


class CheckpointFormat(abc.ABC):
    """The names that the checkpoints of an engine have in a folder.

    Attributes:
        engine: its name.
        weights_format: the format that it resumes from, for `--to` of convert_checkpoint.py.
        list_file: lists the checkpoints of a folder.
        last_file: ends the name of the file of a checkpoint that is written last.
        driver: a module with `damage_of`, `read_training_checkpoint` and
            `write_training_checkpoint`, which is imported when one of them is needed.
    """

    engine: ClassVar[str]
    weights_format: ClassVar[str]
    list_file: ClassVar[str]
    last_file: ClassVar[str]
    driver: ClassVar[str]

    @abc.abstractmethod
    def steps_in(self, folder: str) -> dict[str, int]:
        """Return path -> step of the checkpoints in a folder, whole or not, in order of steps."""

    @abc.abstractmethod
    def is_checkpoint(self, path: str) -> bool:
        """Return whether `path` is a checkpoint, rather than a folder with some."""

    @abc.abstractmethod
    def unfinished(self, folder: str) -> list[str]:
        """Return what runs that were killed while they saved or removed checkpoints have left."""

    @abc.abstractmethod
    def parts_of(self, path: str) -> list[str]:
        """Return what a save that has failed may have left of a checkpoint."""

    @abc.abstractmethod
    def copy(self, path: str, target: str) -> None:
        """Copy a complete checkpoint; its last file is copied last."""

    @abc.abstractmethod
    def remove(self, path: str) -> None:
        """Remove a checkpoint; one that is removed in part does not pass for a whole one."""

    @abc.abstractmethod
    def _parse(self, text: str, source: str) -> CheckpointList | None:
        """Return the content of a list file; None or InputError if it is damaged."""

    @abc.abstractmethod
    def _text(self, checkpoints: CheckpointList) -> str:
        """Return the content of a list file."""

    def read_list(self, folder: str) -> CheckpointList | None:
        """Return the list of the checkpoints in a folder; None if it is missing or damaged."""
        path = os.path.join(folder, self.list_file)
        try:
            return self._parse(read_text(path), path) if exists(path) else None
        except InputError:
            return None

    def write_list(self, folder: str, checkpoints: CheckpointList) -> None:
        """Replace the list of the checkpoints in a folder, in one step."""
        write_text(os.path.join(folder, self.list_file), self._text(checkpoints))

    def list_only(self, path: str) -> None:
        """List a checkpoint as the latest and only one of its folder."""
        folder, name = os.path.split(path)
        self.write_list(folder, CheckpointList(name))

    def listed(self, folder: str) -> str | None:
        """Return the checkpoint that a folder lists as its latest, unread; None if it has none."""
        checkpoints = self.read_list(folder)
        path = os.path.join(folder, checkpoints.latest) if checkpoints else ""
        return path if path and self.is_checkpoint(path) else None

    def find(self, path: str, argument: str = "path") -> str:
        """Return the checkpoint that `path` refers to.

        Args:
            path: a checkpoint or a folder; of a folder, the checkpoint that it lists as the
                latest, or the only one.
            argument: the caller's name of `path`, for errors.

        Raises:
            InputError: If there is no checkpoint, or several of which none is listed as the latest.
        """
        if self.is_checkpoint(path):
            return self._without_ending(path)
        if listed := self.listed(path):
            return listed
        found = sorted(self._candidates(path))
        if len(found) == 1:
            return found[0]
        if found:
            raise InputError(
                f"`{argument}`={path}: contains several checkpoints; name one, such as {found[0]}"
            )
        raise InputError(
            f"`{argument}`={path}: contains no checkpoint; give a folder with one, or a name such "
            f"as {os.path.join(path, f'{NAME}-1000')}"
        )

    def _without_ending(self, path: str) -> str:
        return path.rstrip("/")

    def _candidates(self, folder: str) -> list[str]:
        """Return what may be meant if a folder has no list."""
        return list(self.steps_in(folder.rstrip("/")))

    def damage_of(self, path: str) -> str | None:
        """Return why a checkpoint cannot be read, in one line; None if all of it can."""
        return self._module.damage_of(path)

    def read(self, path: str) -> Weights:
        """Open a checkpoint whose damage has been looked for; errors as of the driver."""
        return self._module.read_training_checkpoint(path)

    @property
    def _module(self) -> Any:
        return importlib.import_module(self.driver)


class _TensorFlowFormat(CheckpointFormat):
    """Files with a common prefix, of which TensorFlow writes the index last."""

    engine = "tensorflow"
    weights_format = "albert_tf"
    list_file = "checkpoint"
    last_file = ".index"
    driver = "albert_tf.checkpoints.tensorflow"

    def steps_in(self, folder: str) -> dict[str, int]:
        paths = files_in(folder, f"{NAME}-*.index")
        return _by_step([path.removesuffix(".index") for path in paths])

    def is_checkpoint(self, path: str) -> bool:
        return exists(f"{path}.index") or (path.endswith(".index") and exists(path))

    def _without_ending(self, path: str) -> str:
        return path if exists(f"{path}.index") else path.removesuffix(".index")

    def _candidates(self, folder: str) -> list[str]:
        # The original project's archives have other names.
        return [path.removesuffix(".index") for path in files_in(folder, "*.index")]

    def unfinished(self, folder: str) -> list[str]:
        return [*files_in(folder, f"{NAME}-*_temp"), *self._unfinished_first(folder)]

    def _unfinished_first(self, folder: str) -> list[str]:
        """Return the files of the first checkpoint, if a run was killed while it saved it.

        TensorFlow writes the index of a checkpoint under its final name, so a kill can leave a
        part of it. A later checkpoint like this is passed over, because the list names those
        before it; the first one is the only one of a folder that has no list yet.
        """
        paths = list(self.steps_in(folder))
        if len(paths) != 1 or exists(os.path.join(folder, self.list_file)):
            return []
        try:
            self._module.open_checkpoint(paths[0])
        except InputError:
            return files_of(paths[0])
        return []

    def parts_of(self, path: str) -> list[str]:
        return [f"{path}_temp"]

    def copy(self, path: str, target: str) -> None:
        for file in reversed(files_of(path)):
            copy_file(file, target + os.path.basename(file).removeprefix(os.path.basename(path)))

    def remove(self, path: str) -> None:
        for file in files_of(path):
            remove(file)

    def _parse(self, text: str, source: str) -> CheckpointList | None:
        return CheckpointList.from_text(text)

    def _text(self, checkpoints: CheckpointList) -> str:
        return checkpoints.to_text()


class _OrbaxFormat(CheckpointFormat):
    """Folders that orbax writes, which are complete when they have checksums."""

    engine = "jax"
    weights_format = "jax"
    list_file = "checkpoints.json"
    last_file = f"/{CHECKSUM_FILE}"
    driver = "albert_tf.checkpoints.orbax"

    def steps_in(self, folder: str) -> dict[str, int]:
        paths = files_in(folder, f"{NAME}-*")
        return _by_step([path for path in paths if step_of(path) is not None and is_folder(path)])

    def is_checkpoint(self, path: str) -> bool:
        return any(exists(os.path.join(path, name)) for name in (CHECKSUM_FILE, "_METADATA"))

    def read(self, path: str) -> Weights:
        return self._module.read_training_checkpoint(path, verify=False)

    def unfinished(self, folder: str) -> list[str]:
        if not is_remote(folder):
            # Until it is complete, orbax adds an ending of its own.
            return files_in(folder, f".{NAME}-*{_UNFINISHED}*")
        return [path for path in self.steps_in(folder) if not exists(f"{path}/{CHECKSUM_FILE}")]

    def parts_of(self, path: str) -> list[str]:
        return [path] if is_remote(path) else _beginning_with(unfinished_path(path))

    def copy(self, path: str, target: str) -> None:
        if is_remote(target):
            remove(target)
        with contextlib.nullcontext(target) if is_remote(target) else replacing(target) as partial:
            for name in sorted(sizes(path), key=lambda name: name == CHECKSUM_FILE):
                file = f"{partial}/{name}"
                make_folder(os.path.dirname(file), "output_dir")
                copy_file(f"{path}/{name}", file)
            if partial != target:
                self.remove(target)

    def remove(self, path: str) -> None:
        if exists(path) and not is_remote(path):
            folder, name = os.path.split(path)
            removed = os.path.join(folder, f".{name}.removed{_UNFINISHED}")
            remove(removed)
            os.rename(path, removed)
            path = removed
        remove(path)

    def _parse(self, text: str, source: str) -> CheckpointList | None:
        return CheckpointList.from_json(text, source)

    def _text(self, checkpoints: CheckpointList) -> str:
        return checkpoints.to_json()


def unfinished_path(path: str) -> str:
    """Return where orbax writes a checkpoint until it is complete.

    Remote files cannot be renamed in one step. There, a checkpoint is complete when it has
    checksums, which are written last.
    """
    if is_remote(path):
        return path
    folder, name = os.path.split(path)
    return os.path.join(folder, f".{name}{_UNFINISHED}")


def _by_step(paths: list[str]) -> dict[str, int]:
    steps = {path: step for path in paths if (step := step_of(path)) is not None}
    return dict(sorted(steps.items(), key=lambda item: item[1]))


def files_of(prefix: str) -> list[str]:
    """Return the files of a checkpoint of TensorFlow, the index first."""
    return [*_beginning_with(prefix, ".index"), *_beginning_with(prefix, ".data-*")]


def _beginning_with(prefix: str, ending: str = "*") -> list[str]:
    folder, name = os.path.split(prefix)
    return files_in(folder, glob.escape(name) + ending)


TENSORFLOW, ORBAX = _TensorFlowFormat(), _OrbaxFormat()
# By the names of the engines.
CHECKPOINT_FORMATS: dict[str, CheckpointFormat] = {
    each.engine: each for each in (TENSORFLOW, ORBAX)
}


def engines_in(folder: str) -> list[str]:
    """Return the engines whose checkpoints a folder seems to have; read none."""
    return [
        name
        for name, format in CHECKPOINT_FORMATS.items()
        if exists(os.path.join(folder, format.list_file)) or format.steps_in(folder)
    ]


def has_orbax_checkpoints(path: str) -> bool:
    """Return whether `path` is a checkpoint of the JAX engine, or seems to contain some."""
    return ORBAX.is_checkpoint(path) or ORBAX.engine in engines_in(path)


def check_engine(folder: str, engine: str, argument: str = "output_dir") -> None:
    """Check that an engine does not train in a folder with checkpoints of another one.

    Args:
        folder: of training; need not exist.
        engine: name of the engine.
        argument: the caller's name of `folder`, for errors.

    Raises:
        InputError: If the folder has checkpoints of another engine, or is on a server on which no
            engine can keep any.
    """
    if is_remote(folder) and not folder.startswith("gs://"):
        raise InputError(
            f"`{argument}`={folder}: checkpoints are kept in local folders and on gs://"
        )
    # Orbax and tensorstore take some for patterns, and others for parts of an address.
    if is_remote(folder) and (found := set(folder) & set("*?[#%")):
        raise InputError(
            f"`{argument}`={folder}: contains {min(found)}, with which checkpoints cannot be kept "
            "on a server; choose a name without *, ?, [, # and %"
        )
    for other in engines_in(folder):
        if other != engine:
            format = CHECKPOINT_FORMATS[engine].weights_format
            raise InputError(
                f"`{argument}`={folder}: contains checkpoints of engine {other}; resume with "
                f"`engine`={other}, or convert them: {conversion_command(folder, format)}"
            )


def conversion_command(path: str, format: str) -> str:
    """Return the command that converts weights to another format."""
    return f"convert_checkpoint.py --input={path} --output=NEW_FOLDER --to={format}"
