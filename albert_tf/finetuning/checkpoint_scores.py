"""Evaluates all checkpoints of a folder and chooses the best."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from typing import Any

from albert_tf.engines.base import Engine
from albert_tf.errors import InputError
from albert_tf.files import write_text
from albert_tf.training.evaluation import BEST_FOLDER, describe, is_better

logger = logging.getLogger(__name__)

CHECKPOINT_SCORES_FILE = "eval_checkpoints.tsv"


def compare_checkpoints(
    engine: Engine,
    folder: str,
    metric: str,
    load: Callable[[str], int],
    evaluate: Callable[[], Any],
) -> tuple[str, int, Any]:
    """Evaluate all checkpoints of a folder and load the best; write `eval_checkpoints.tsv`.

    Args:
        engine: that trained there.
        folder: of training.
        metric: by which checkpoints are compared.
        load: restores a checkpoint and returns its step.
        evaluate: returns the evaluation of the loaded weights, with `results` by name.

    Returns:
        Path, step and evaluation of the best checkpoint.

    Raises:
        InputError: If there is no checkpoint.
    """
    found = engine.workers.from_chief(lambda: list(_valid_checkpoints(engine, folder)))
    paths = {int(path.rsplit("-", 1)[1]): path for path in found}
    if not paths:
        raise InputError(f"`output_dir`={folder}: contains no checkpoint to evaluate")
    rows, best = [], None
    for step in sorted(paths):
        load(paths[step])
        evaluation = evaluate()
        logger.info("%s", describe(step, evaluation.results))
        rows.append({"step": step, **evaluation.results})
        if is_better(metric, evaluation.results[metric], best[1].results[metric] if best else None):
            best = step, evaluation
    if engine.workers.is_chief:
        lines = ["\t".join(rows[0])]
        lines += ["\t".join(f"{value:.8g}" for value in row.values()) for row in rows]
        write_text(f"{folder}/{CHECKPOINT_SCORES_FILE}", "".join(f"{line}\n" for line in lines))
    chosen, evaluation = best or (step, evaluation)
    if chosen != step:
        load(paths[chosen])
    logger.info("best of %d checkpoints: step %d", len(rows), chosen)
    return paths[chosen], chosen, evaluation


def _valid_checkpoints(engine: Engine, folder: str) -> Iterator[str]:
    """Yield the checkpoints of a training folder, that in `best/` first, without damaged ones."""
    for place in (f"{folder}/{BEST_FOLDER}", folder):
        checkpoints = engine.checkpoints_in(place)
        yield from filter(checkpoints.is_valid, checkpoints.all())
