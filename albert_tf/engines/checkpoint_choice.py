"""Which of the checkpoints in a folder is used: shared by the engines."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterable, Iterator, Sequence

from albert_tf.engines.workers import Workers
from albert_tf.errors import InputError
from albert_tf.files import exists

_logger = logging.getLogger(__name__)

# Why a checkpoint cannot be read, in one line; None if all of it can.
DamageFinder = Callable[[str], str | None]


def latest_valid(
    folder: str, newest_first: Sequence[str], damage_of: DamageFinder, list_file: str
) -> str | None:
    """The latest checkpoint in a training folder of which every value can be read.

    Newer ones that are damaged are skipped with a warning each.

    Args:
        folder: of training, for errors.
        newest_first: paths of its checkpoints.
        damage_of: of the engine.
        list_file: name of the file that lists the checkpoints of the engine.

    Returns:
        Its path; None if there is no checkpoint at all.

    Raises:
        InputError: there are some, all damaged.
    """
    damaged: list[str] = []
    for path in newest_first:
        if _is_valid(path, damage_of):
            if damaged:
                _logger.warning("using %s instead", path)
            return path
        damaged.append(os.path.basename(path))
    if damaged or exists(f"{folder}/{list_file}"):
        raise _none_valid(folder, damaged, list_file)
    return None


def iter_valid(
    folder: str, newest_first: Sequence[str], damage_of: DamageFinder, list_file: str
) -> Iterator[str]:
    """Yields the checkpoints in a training folder of which every value can be read, oldest first.

    Each is checked when its turn comes; damaged ones are skipped with a warning each. Arguments
    are those of `latest_valid`.

    Raises:
        InputError: there are some, all damaged.
    """
    any_valid = False
    for path in reversed(newest_first):
        if _is_valid(path, damage_of):
            any_valid = True
            yield path
    if newest_first and not any_valid:
        raise _none_valid(folder, reversed(list(map(os.path.basename, newest_first))), list_file)


def check_shared(folder: str, path: str | None, file: str, workers: Workers) -> None:
    """Checks that all workers see the checkpoint that the chief has chosen.

    Args:
        folder: of training, for errors.
        path: of the checkpoint; None if there is none.
        file: that every complete checkpoint has.
        workers: the processes that train together.

    Raises:
        InputError: the folder is not the same one for all workers.
    """
    with workers.synchronized():
        if path is not None and not exists(file):
            raise InputError(
                f"`output_dir`={folder}: {path}, which worker 0 has found, does not exist for "
                f"{workers.describe()}; all workers need one shared folder"
            )


def _is_valid(path: str, damage_of: DamageFinder) -> bool:
    """Whether every value of a checkpoint can be read; warns if not."""
    reason = damage_of(path)
    if reason is not None:
        _logger.warning("%s is damaged and skipped: %s", path, reason)
    return reason is None


def _none_valid(folder: str, found: Iterable[str], list_file: str) -> InputError:
    names = ", ".join(found) or f"none of those that the file `{list_file}` lists exists"
    return InputError(
        f"`output_dir`={folder}: no checkpoint in it can be read ({names}); name another "
        f"folder, or delete its checkpoints and the file `{list_file}` to start from scratch"
    )
