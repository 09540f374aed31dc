"""The checkpoint of a training folder that its results and predictions come from."""

from __future__ import annotations

import logging
import os

from albert_tf.files import matches
from albert_tf.interop.checkpoint_folders import NAME, checkpoints_in, step_of
from albert_tf.interop.companions import find_companions
from albert_tf.interop.layout import BEST_FOLDER

logger = logging.getLogger(__name__)


def described_checkpoint(path: str) -> str:
    """The weights that results and predictions in a training folder come from.

    That is the checkpoint in `best/`, which prediction uses too, unless `eval_results.txt` is about
    the newest one (`--eval_checkpoints=newest`).

    Args:
        path: of a training folder of any engine; other weights are returned unchanged.

    Returns:
        `path`, or the folder `best` in it.
    """
    best = os.path.join(path, BEST_FOLDER)
    best_steps = _steps(best)
    if not best_steps:
        return path
    evaluated = find_companions(path).results.get("global_step")
    if evaluated is not None and evaluated not in best_steps and evaluated in _steps(path)[-1:]:
        return path
    logger.info("using the best checkpoint, in %s", best)
    return best


def _steps(folder: str) -> list[str]:
    """Steps of the checkpoints in a folder, in ascending order."""
    prefixes = [path.removesuffix(".index") for path in matches(f"{folder}/{NAME}-*.index")]
    steps = {step_of(path) for path in (*prefixes, *checkpoints_in(folder))}
    return [str(step) for step in sorted(step for step in steps if step is not None)]
