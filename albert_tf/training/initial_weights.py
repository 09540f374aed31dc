"""The weights that training starts from: found by name, recorded, loaded."""

from __future__ import annotations

import dataclasses
import logging
from typing import TypeVar

import keras

from albert_tf.errors import arguments_renamed
from albert_tf.files import files_in, read_json
from albert_tf.hub.huggingface import parse_name
from albert_tf.hub.names import local_weights, source_of
from albert_tf.hub.published import Origin
from albert_tf.interop.loading import load_weights
from albert_tf.training.options import TrainingOptions

ORIGIN_FILE = "initial_weights.json"

Options = TypeVar("Options", bound=TrainingOptions)

_logger = logging.getLogger(__name__)


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
    missing = f"; left at initial values: {', '.join(loaded.missing)}" if loaded.missing else ""
    unused = f"; not used: {', '.join(loaded.unused)}" if loaded.unused else ""
    _logger.info(
        "%s: %d of %d variables loaded%s%s",
        loaded.source,
        len(loaded.loaded),
        len(model.weights),
        missing,
        unused,
    )
    for note in loaded.notes:
        _logger.info("%s", note)
