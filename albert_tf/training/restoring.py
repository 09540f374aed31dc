"""Weights that training starts from, and those that it has left in a folder."""

import dataclasses
import logging
from collections.abc import Iterable, Iterator
from typing import TypeVar

import keras

from albert_tf.checkpoints.saving import latest_for_all
from albert_tf.engines.base import Engine
from albert_tf.errors import InputError, arguments_renamed
from albert_tf.files import files_in, read_json
from albert_tf.hub.huggingface import parse_name
from albert_tf.hub.names import Origin, local_weights, source_of
from albert_tf.interop.heads import needed, warn_of_random
from albert_tf.interop.loading import load_weights
from albert_tf.training.options import TrainingOptions

_logger = logging.getLogger(__name__)

ORIGIN_FILE = "initial_weights.json"

Options = TypeVar("Options", bound=TrainingOptions)


def with_local_weights(options: Options) -> Options:
    """Return the options with a local path in `init_checkpoint`, fetched if necessary.

    A command that is repeated takes the commit that it took before, so that all runs of a
    comparison start from the same weights.

    Raises:
        InputError: If the weights cannot be fetched.
    """
    if not options.init_checkpoint:
        return options
    name = _with_recorded_commit(options.init_checkpoint, options.output_dir)
    path = local_weights(name, argument="init_checkpoint")
    return dataclasses.replace(options, init_checkpoint=path)


def _with_recorded_commit(name: str, output_dir: str) -> str:
    """Return the name with the revision that runs in `output_dir` have recorded."""
    repository = parse_name(name)
    if repository is None or repository.revision:
        return name
    for folder in (output_dir, *files_in(output_dir, "*")):
        for path in files_in(folder, ORIGIN_FILE):
            source = read_json(path, Origin)
            if source.name == name and source.commit:
                return f"{name}@{source.commit}"
    return name


def origin_file(init_checkpoint: str) -> dict[str, str | bytes]:
    """Return file name -> content of the record of published weights that training starts from."""
    source = source_of(init_checkpoint)
    return {ORIGIN_FILE: source.to_json()} if source else {}


def load_initial_weights(
    model: keras.Model, init_checkpoint: str, init_from_group0: bool = False
) -> None:
    """Load `init_checkpoint` and report how much of it and of the model matched."""
    with arguments_renamed(path="init_checkpoint"):
        loaded = load_weights(model, init_checkpoint, init_from_group0=init_from_group0)
    counts = f"{len(loaded.loaded)} of {len(model.weights)} variables loaded"
    missing = f"; left at initial values: {', '.join(loaded.missing)}" if loaded.missing else ""
    unused = f"; not used: {', '.join(loaded.unused)}" if loaded.unused else ""
    _logger.info("%s: %s%s%s", loaded.source, counts, missing, unused)
    # A new head is what fine-tuning starts with; not so if there is one for other labels.
    warn_of_random(loaded.source, model, loaded._replace(missing=list(loaded.other_shapes)))
    for note in loaded.notes:
        _logger.info("%s", note)


def restore_trained(
    engine: Engine, model: keras.Model, output_dir: str, path: str | None = None
) -> str:
    """Load a checkpoint of `output_dir`, by default the latest valid one, and return its path.

    The model is like the one that the engine trained there.

    Raises:
        InputError: If there is none, or it belongs to another model.
    """
    failed = None
    while True:
        folder = engine.checkpoints_in(output_dir)
        chosen = path or latest_for_all(folder, engine.workers) or folder.find("output_dir")
        if _restore(engine, model, chosen, output_dir, may_vanish=chosen not in (path, failed)):
            return chosen
        failed = chosen


def iter_checkpoints(
    engine: Engine, model: keras.Model, output_dir: str, paths: Iterable[str] = ()
) -> Iterator[str]:
    """Restore every valid checkpoint in `output_dir` into `model`, oldest first.

    Yields:
        The path of the checkpoint that was just restored; `paths`, if they are known. If training
        replaces all, that of the latest.

    Raises:
        InputError: If there is no valid checkpoint, or one belongs to another model.
    """
    valid = engine.checkpoints_in(output_dir).valid
    paths = paths or engine.workers.from_chief(lambda: list(valid())[::-1])
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
        damage_of = engine.checkpoints_in(output_dir).damage_of
        if not may_vanish or not engine.workers.from_chief(lambda: damage_of(path)):
            raise
        _logger.info("%s is no longer there: training has replaced it", path)
        return False
    if missing := needed(loaded.missing, model):
        raise InputError(
            f"`output_dir`={output_dir}: {loaded.source} lacks {', '.join(missing)}; it was "
            "trained for another task"
        )
    _logger.info("%s: all %d variables loaded", loaded.source, len(loaded.loaded))
    return True
