"""The folders in which training keeps checkpoints, told apart by engine; loads no framework.

Both engines call a checkpoint `OUTPUT_DIR/model.ckpt-STEP`. With TensorFlow this is a prefix of
files, which the file `checkpoint` lists. With JAX it is a folder that orbax wrote, which
`checkpoints.json` lists, and `checksums.txt` in it contains the size and CRC-32C of every file:
orbax stores none for the values.
"""

from __future__ import annotations

import dataclasses
import json
import os
import re

import google_crc32c

from albert_tf.errors import InputError
from albert_tf.files import (
    checksums,
    exists,
    is_folder,
    is_remote,
    matches,
    read_json,
    read_text,
    remove,
    rename,
    write_text,
)

NAME = "model.ckpt"
LIST_FILE = "checkpoints.json"
CHECKSUM_FILE = "checksums.txt"
TENSORFLOW_LIST_FILE = "checkpoint"

# Engine -> format, for `--to` of convert_checkpoint.py, of the checkpoints that it resumes from.
FORMAT_OF_ENGINE = {"tensorflow": "albert_tf", "jax": "jax"}

_CHECKPOINT = re.compile(rf"{re.escape(NAME)}-([0-9]{{1,18}})")
_UNFINISHED = ".unfinished"


@dataclasses.dataclass(frozen=True)
class CheckpointList:
    """Content of `checkpoints.json`.

    Attributes:
        latest: name of the checkpoint to resume from.
        saved: name -> time in seconds, oldest first, of checkpoints that newer ones replace.
        last_kept: time of the last checkpoint that stays for good.
        engine: that wrote the checkpoints.
    """

    latest: str
    saved: dict[str, float] = dataclasses.field(default_factory=dict)
    last_kept: float = 0.0
    engine: str = "jax"

    def added(
        self, name: str, time: float, keep: int, keep_every_n_hours: float
    ) -> tuple[CheckpointList, list[str]]:
        """Adds a new latest checkpoint.

        Args:
            name: of the new checkpoint.
            time: at which it was saved, in seconds.
            keep: number of latest checkpoints to keep.
            keep_every_n_hours: of older ones, one per this many hours stays for good; 0 for none.

        Returns:
            The new list, and the names of the checkpoints to remove. They stay listed, so that a
            run that is killed before it has removed them does so after its next save.
        """
        saved = {other: when for other, when in self.saved.items() if other != name}
        saved[name] = time
        last_kept, obsolete = self.last_kept or time, []
        for other in list(saved)[:-keep]:
            if keep_every_n_hours and saved[other] - last_kept >= 3600 * keep_every_n_hours:
                last_kept = saved.pop(other)
            else:
                obsolete.append(other)
        return CheckpointList(name, saved, last_kept), obsolete


def step_of(path: str) -> int | None:
    """Step in the name of a checkpoint; None if it is not such a name."""
    found = _CHECKPOINT.fullmatch(os.path.basename(path))
    return int(found[1]) if found else None


def read_list(folder: str) -> CheckpointList | None:
    """The list of the checkpoints in a folder; None if it is missing or damaged."""
    try:
        found = read_json(os.path.join(folder, LIST_FILE), CheckpointList)
    except InputError:
        return None
    # The list decides what is removed: names that are not those of checkpoints come from damage.
    names = {found.latest, *found.saved}
    return found if all(step_of(name) is not None and "/" not in name for name in names) else None


def write_list(folder: str, checkpoints: CheckpointList) -> None:
    """Replaces the list of the checkpoints in a folder, in one step."""
    text = json.dumps(dataclasses.asdict(checkpoints), indent=2) + "\n"
    write_text(os.path.join(folder, LIST_FILE), text)


def checkpoints_in(folder: str) -> dict[str, int]:
    """Path -> step of the checkpoints of the JAX engine in a folder, whole or not."""
    paths = [path.rstrip("/") for path in matches(os.path.join(folder, f"{NAME}-*"))]
    steps = {path: step for path in paths if (step := step_of(path)) is not None}
    return {path: step for path, step in steps.items() if is_folder(path)}


def is_checkpoint(path: str) -> bool:
    """Whether `path` is a checkpoint of the JAX engine, rather than a folder with some."""
    return any(exists(os.path.join(path, name)) for name in (CHECKSUM_FILE, "_METADATA"))


def has_checkpoints(path: str) -> bool:
    """Whether `path` is a checkpoint of the JAX engine, or seems to be a folder with some."""
    return is_checkpoint(path) or "jax" in engines_in(path)


def engines_in(folder: str) -> list[str]:
    """The engines whose checkpoints a folder seems to have; reads none."""
    tensorflow = exists(os.path.join(folder, TENSORFLOW_LIST_FILE)) or matches(
        os.path.join(folder, f"{NAME}-*.index")
    )
    jax = exists(os.path.join(folder, LIST_FILE)) or checkpoints_in(folder)
    return [name for name, found in (("tensorflow", tensorflow), ("jax", jax)) if found]


def foreign_checkpoints(folder: str, engine: str) -> str | None:
    """The other engine whose checkpoints a folder has; None if it has none.

    Args:
        folder: of training; need not exist.
        engine: name of the engine that asks.
    """
    return next((name for name in engines_in(folder) if name != engine), None)


def check_engine(folder: str, engine: str, argument: str = "output_dir") -> None:
    """Checks that an engine does not train in a folder with checkpoints of another one.

    Args:
        folder: of training; need not exist.
        engine: name of the engine.
        argument: the caller's name of `folder`, for errors.

    Raises:
        InputError: if the folder has checkpoints of another engine, or is on a server on which no
            engine can keep any.
    """
    if is_remote(folder) and not folder.startswith("gs://"):
        raise InputError(
            f"`{argument}`={folder}: checkpoints are kept in local folders and on gs://"
        )
    if other := foreign_checkpoints(folder, engine):
        raise InputError(
            f"`{argument}`={folder}: contains checkpoints of engine {other}; resume with "
            f"`engine`={other}, or convert them: "
            f"{conversion_command(folder, FORMAT_OF_ENGINE[engine])}"
        )


def conversion_command(path: str, format: str) -> str:
    """The command that converts weights to another format."""
    return f"convert_checkpoint.py --input={path} --output=NEW_FOLDER --to={format}"


def find_checkpoint(path: str, argument: str = "path") -> str:
    """The checkpoint of the JAX engine that `path` refers to.

    Args:
        path: a checkpoint or a folder; of a folder, the checkpoint that it lists as the latest,
            or the only one.
        argument: the caller's name of `path`, for errors.

    Raises:
        InputError: if there is no checkpoint, or several of which none is listed as the latest.
    """
    path = path.rstrip("/")
    if is_checkpoint(path):
        return path
    if listed := listed_checkpoint(path):
        return listed
    found = sorted(checkpoints_in(path))
    if len(found) == 1:
        return found[0]
    if found:
        raise InputError(
            f"`{argument}`={path}: contains several checkpoints; name one, such as {found[0]}"
        )
    raise InputError(
        f"`{argument}`={path}: contains no checkpoint; give a folder with one, or a name such as "
        f"{os.path.join(path, f'{NAME}-1000')}"
    )


def listed_checkpoint(folder: str) -> str | None:
    """The checkpoint that a folder lists as its latest, unread; None if it lists none."""
    checkpoints = read_list(folder)
    path = os.path.join(folder, checkpoints.latest) if checkpoints else ""
    return path if path and exists(path) else None


def newest_first(folder: str) -> list[str]:
    """Checkpoints, latest step first, from the one that is listed as the latest.

    Without the list, or with a broken one, from the highest step. So too if what it lists is
    missing, as after a power cut that undid a change of the list but not the removal of a folder.
    """
    steps = checkpoints_in(folder)
    paths = sorted(steps, key=steps.__getitem__, reverse=True)
    checkpoints = read_list(folder)
    if checkpoints is None:
        return paths
    latest = os.path.join(folder, checkpoints.latest)
    if latest not in steps:
        return [latest, *paths]
    return [latest, *(path for path in paths if steps[path] < steps[latest])]


def unfinished_path(path: str) -> str:
    """Where a checkpoint is written until it is complete.

    Remote files cannot be renamed in one step. There, a checkpoint is complete when it has
    checksums, which are written last.
    """
    if is_remote(path):
        return path
    folder, name = os.path.split(path)
    return os.path.join(folder, f".{name}{_UNFINISHED}")


def complete(path: str) -> None:
    """Gives a checkpoint under its `unfinished_path` checksums and its name, and syncs it.

    Raises:
        OSError: if it could not be written.
    """
    unfinished = unfinished_path(path)
    write_checksums(unfinished)
    if unfinished != path:
        discard(path)
        rename(unfinished, path)


def discard(path: str) -> None:
    """Removes a checkpoint; one that is removed in part does not keep its name."""
    if exists(path) and not is_remote(path):
        folder, name = os.path.split(path)
        removed = os.path.join(folder, f".{name}.removed{_UNFINISHED}")
        remove(removed)
        os.rename(path, removed)
        path = removed
    remove(path)


def remove_unfinished(folder: str) -> None:
    """Removes what runs that were killed while they saved or removed checkpoints have left."""
    if not is_remote(folder):
        # Until it is complete, orbax adds an ending of its own.
        for path in matches(os.path.join(folder, f".{NAME}-*{_UNFINISHED}*")):
            remove(path)
        return
    for path in checkpoints_in(folder):
        if not exists(os.path.join(path, CHECKSUM_FILE)):
            remove(path)


def write_checksums(path: str) -> None:
    """Writes the sizes and CRC-32Cs of all files of a checkpoint into it."""
    found = {name: sums for name, sums in checksums(path).items() if name != CHECKSUM_FILE}
    text = "".join(f"{crc:08x} {size} {name}\n" for name, (size, crc) in found.items())
    write_text(os.path.join(path, CHECKSUM_FILE), f"{text}{_crc_of_text(text):08x}\n")


def damage_of(path: str) -> str | None:
    """Why a checkpoint cannot be read, in one line; None if every byte is as it was written."""
    try:
        recorded = _read_checksums(path)
        found = checksums(path)
        for name, (size, crc) in recorded.items():
            if name not in found:
                return f"{name} is missing"
            if found[name][0] != size:
                return f"{name} has {found[name][0]} bytes instead of {size}"
            if found[name][1] != crc:
                return f"the checksum of {name} does not match"
    except InputError as error:
        return str(error).removeprefix(f"{path}: ")
    except OSError as error:
        return f"{error.filename or path}: {error.strerror or error}"
    return None


def check_intact(path: str) -> None:
    """Raises InputError if a checkpoint is damaged."""
    if reason := damage_of(path):
        raise InputError(f"{path}: cannot be read ({reason})")


def _read_checksums(path: str) -> dict[str, tuple[int, int]]:
    """File -> size and CRC-32C.

    Raises:
        InputError: the file is missing or damaged.
    """
    file = os.path.join(path, CHECKSUM_FILE)
    if not exists(file):
        raise InputError(f"{path}: {CHECKSUM_FILE} is missing")
    damaged = InputError(f"{path}: {CHECKSUM_FILE} is damaged")
    try:
        text = read_text(file)
    except InputError:
        raise damaged from None
    lines = text.splitlines(keepends=True) or [""]
    content = "".join(lines[:-1])
    if lines[-1] != f"{_crc_of_text(content):08x}\n":
        raise damaged
    found = {}
    for line in lines[:-1]:
        row = re.fullmatch(r"([0-9a-f]{8}) ([0-9]{1,18}) (.+)\n", line)
        if row is None:
            raise damaged
        found[row[3]] = (int(row[2]), int(row[1], 16))
    return found


def _crc_of_text(text: str) -> int:
    return google_crc32c.value(text.encode())
