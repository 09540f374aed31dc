"""Restores what was trained in a folder, also while training continues there."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator

import keras

from albert_tf.engines.base import Engine
from albert_tf.errors import InputError, arguments_renamed
from albert_tf.interop.loading import load_weights

_logger = logging.getLogger(__name__)


def restore_trained(
    engine: Engine, model: keras.Model, output_dir: str, path: str | None = None
) -> str:
    """Load a checkpoint of a folder into a model like the one that was trained there.

    Args:
        engine: that saved it.
        model: of the same kind.
        output_dir: the folder.
        path: of the checkpoint; None for the latest valid one.

    Returns:
        Its path.

    Raises:
        InputError: If there is none, or it belongs to another model.
    """
    failed = None
    while True:
        folder = engine.checkpoints_in(output_dir)
        chosen = path or folder.latest() or find_trained(engine, output_dir)
        if _restore(engine, model, chosen, output_dir, may_vanish=chosen not in (path, failed)):
            return chosen
        failed = chosen


def iter_checkpoints(
    engine: Engine, model: keras.Model, output_dir: str, paths: Iterable[str] = ()
) -> Iterator[str]:
    """Restore every valid checkpoint in `output_dir` into `model`, oldest first.

    Args:
        engine, model, output_dir: as for `restore_trained`.
        paths: of the checkpoints, if they are known.

    Yields:
        The path of the checkpoint that was just restored. If training replaces all, that of the
        latest.

    Raises:
        InputError: If there is no valid checkpoint, or one belongs to another model.
    """
    paths = paths or engine.checkpoints_in(output_dir).valid()
    restored = False
    for path in paths:
        if _restore(engine, model, path, output_dir, may_vanish=True):
            restored = True
            yield path
    if not restored:
        yield restore_trained(engine, model, output_dir)


def _restore(
    engine: Engine, model: keras.Model, path: str, output_dir: str, may_vanish: bool
) -> bool:
    """Restore a checkpoint that was valid; return False if training has replaced it meanwhile."""
    try:
        with engine.workers.synchronized(), arguments_renamed(path="output_dir"):
            loaded = load_weights(model, path)
    except (InputError, OSError):
        damage_of = engine.checkpoints_in(output_dir).format.damage_of
        if not may_vanish or not engine.workers.from_chief(lambda: damage_of(path)):
            raise
        _logger.info("%s is no longer there: training has replaced it", path)
        return False
    if loaded.missing:
        raise InputError(
            f"`output_dir`={output_dir}: {loaded.source} lacks {', '.join(loaded.missing)}; it "
            "was trained for another task"
        )
    _logger.info("%s: all %d variables loaded", loaded.source, len(loaded.loaded))
    return True


def find_trained(engine: Engine, output_dir: str) -> str:
    """Return the checkpoint that `output_dir` lists as its latest, unread.

    Raises:
        InputError: If there is none.
    """
    return engine.checkpoints_in(output_dir).find("output_dir")


def step_of(path: str) -> int:
    """Return step of a checkpoint, from its name."""
    return int(path.rsplit("-", 1)[-1])
