"""What pretraining takes from files before it starts; loads no framework."""

from __future__ import annotations

import dataclasses
import logging
import os
from collections.abc import Iterable, Mapping
from typing import Any

from albert_tf.files import exists, open_file, sha256_of
from albert_tf.input.manifest import record_files
from albert_tf.interop.companions import EvaluatedSet, find_companions
from albert_tf.training.model_config import check_model
from albert_tf.training.options import PretrainingOptions

_logger = logging.getLogger(__name__)

# Option -> its default, if the model in the output folder does not record it.
_LENGTHS = {"max_seq_length": 512, "max_predictions_per_seq": 20}


def check_early(options: PretrainingOptions) -> None:
    """Checks the options, the config, and whether the files exist.

    Raises:
        InputError: an option is invalid, or a file is missing.
    """
    options.check()
    check_model(options)
    for name in ("input_file", "eval_input_file") if options.do_train else ("eval_input_file",):
        if patterns := getattr(options, name):
            record_files(patterns, name)


def with_trained_lengths(options: PretrainingOptions) -> PretrainingOptions:
    """The options with lengths that were not given as in the manifests of the training data.

    Without a record in `output_dir`, they are the defaults of the original.

    Raises:
        InputError: the record is damaged.
    """
    missing = [name for name in _LENGTHS if getattr(options, name) is None]
    if not missing:
        return options
    data = find_companions(options.output_dir).data if exists(options.output_dir) else {}
    settings: dict[str, Any] = next((manifest["settings"] for manifest in data.values()), {})
    return dataclasses.replace(
        options, **{name: settings.get(name, _LENGTHS[name]) for name in missing}
    )


def vocabulary_files(manifests: Mapping[str, dict[str, Any]]) -> dict[str, bytes]:
    """The vocabulary that training data was made with, to be kept next to the checkpoints.

    It is searched under the name that the manifest records, and next to the manifest.

    Args:
        manifests: of the data, by path.

    Returns:
        File name -> content; empty, with a note, if the vocabulary is not found.
    """
    name = ""
    for path, manifest in manifests.items():
        settings = manifest["settings"]
        name = settings.get("spm_model_file") or settings.get("vocab_file") or ""
        digest = (manifest.get("vocabulary") or {}).get("sha256")
        for place in (name, os.path.join(os.path.dirname(path), os.path.basename(name))):
            if name and digest and exists(place) and sha256_of(place) == digest:
                kept = os.path.basename(name) if name.endswith(".model") else "vocab.txt"
                with open_file(place, "rb") as file:
                    return {kept: file.read()}
    if name:
        _logger.info(
            "note: the vocabulary %s of the training data was not found unchanged, and is not "
            "copied to the output folder",
            name,
        )
    return {}


def evaluated_set(options: PretrainingOptions, files: Iterable[str], examples: int) -> EvaluatedSet:
    """What results of pretraining are about.

    Args:
        options: of the program.
        files: the TFRecord files to evaluate on.
        examples: their number of examples.
    """
    names = options.eval_reading_set or tuple(files)
    if options.max_eval_steps:
        examples = min(examples, options.max_eval_steps * options.eval_batch_size)
    return EvaluatedSet("", ", ".join(map(os.path.basename, names)), examples)
