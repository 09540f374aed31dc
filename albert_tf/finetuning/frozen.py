"""The option `--freeze`: frozen variables of a fine-tuning run, and of the run that it resumes."""

from __future__ import annotations

import json
import logging
import math

import keras

from albert_tf.engines.base import Engine
from albert_tf.errors import InputError, arguments_renamed
from albert_tf.files import exists, read_json, remove
from albert_tf.finetuning.finetuning_options import FineTuningOptions
from albert_tf.interop.layout import FROZEN_FILE
from albert_tf.modeling.model import freeze

logger = logging.getLogger(__name__)


def freeze_variables(engine: Engine, model: keras.Model, options: FineTuningOptions) -> None:
    """Freeze the variables of a model that the options name, and log what is left to train.

    Raises:
        InputError: If a pattern matches nothing, or the training run in `output_dir`, which would
            be resumed, froze other variables.
    """
    _check_resumed(engine, options)
    if not options.freeze:
        return
    with arguments_renamed(patterns="freeze"):
        frozen = freeze(model, options.freeze)
    logger.info(
        "trainable parameters: %s of %s; frozen: %d variables",
        *(f"{_count(weights):,}" for weights in (model.trainable_weights, model.weights)),
        len(frozen),
    )


def frozen_file(options: FineTuningOptions) -> dict[str, str]:
    """Return file name -> content of the file of patterns next to the checkpoints, if any."""
    if not options.freeze:
        return {}
    return {FROZEN_FILE: json.dumps(sorted(set(options.freeze))) + "\n"}


def _check_resumed(engine: Engine, options: FineTuningOptions) -> None:
    path = f"{options.output_dir}/{FROZEN_FILE}"
    with engine.workers.synchronized():
        trained = read_json(path, tuple[str, ...]) if exists(path) else ()
        given = tuple(sorted(set(options.freeze)))
        if trained != given and engine.checkpoints_in(options.output_dir).all():
            raise InputError(
                f"`freeze`={','.join(options.freeze)}: {options.output_dir} was trained with "
                f"{','.join(trained) or 'no frozen variables'}; use the same, or another "
                "`output_dir` with its checkpoint as `init_checkpoint`"
            )
    with engine.workers.synchronized():
        if trained and not given and engine.workers.is_chief:
            remove(path)  # of a run that was stopped before its first checkpoint


def _count(weights: list[keras.Variable]) -> int:
    return sum(math.prod(weight.shape) for weight in weights)
