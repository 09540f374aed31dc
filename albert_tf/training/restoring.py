"""Restores what was trained in a folder, also while training continues there."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import keras

from albert_tf.engines.base import Engine
from albert_tf.errors import InputError, arguments_renamed
from albert_tf.interop.formats import load_weights

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
        try:
            _restore(engine, model, chosen, output_dir)
            return chosen
        except (InputError, OSError):
            if chosen in (path, failed):
                raise
            failed = chosen  # fails again unless training has replaced it


def iter_checkpoints(engine: Engine, model: keras.Model, output_dir: str) -> Iterator[int]:
    """Restore every valid checkpoint in `output_dir` into `model`, oldest first.

    Yields:
        The step of the checkpoint that was just restored.

    Raises:
        InputError: If there is no valid checkpoint, or one belongs to another model.
    """
    folder = engine.checkpoints_in(output_dir)
    for path in folder.valid() or [find_trained(engine, output_dir)]:
        if path in engine.workers.from_chief(folder.all):
            yield _restore(engine, model, path, output_dir)
        else:
            _logger.info("%s is no longer there: training has replaced it", path)


def _restore(engine: Engine, model: keras.Model, path: str, output_dir: str) -> int:
    with engine.workers.synchronized(), arguments_renamed(path="output_dir"):
        loaded = load_weights(model, path)
    if loaded.missing:
        raise InputError(
            f"`output_dir`={output_dir}: {loaded.source} lacks {', '.join(loaded.missing)}; it "
            "was trained for another task"
        )
    _logger.info("%s: all %d variables loaded", loaded.source, len(loaded.loaded))
    return step_of(path)


def find_trained(engine: Engine, output_dir: str) -> str:
    """Return the checkpoint that `output_dir` lists as its latest, unread.

    Raises:
        InputError: If there is none.
    """
    return engine.checkpoints_in(output_dir).find("output_dir")


def step_of(path: str) -> int:
    """Return step of a checkpoint, from its name."""
    return int(path.rsplit("-", 1)[-1])
