"""Checkpoints of the original project and of albert_zh, which are flat lists of names."""

import dataclasses
import os
import re

import numpy as np
import tensorflow as tf

from albert_tf.checkpoints import NAME, TensorFlowFolder
from albert_tf.checkpoints.tensorflow import open_checkpoint
from albert_tf.errors import InputError
from albert_tf.interop import albert_zh
from albert_tf.interop.converted_model import ConvertedModel, write_adjacent_files
from albert_tf.task_kinds import task_scopes
from albert_tf.weights import Weights, adjacent_config

# The original keeps the variables of fine-tuning heads outside of any scope.
_HEADS = {name: f"classifier/{name}" for name in ("output_weights", "output_bias")}
_STEP = "global_step"
_SKIPPED = re.compile(
    rf"(^|/)({_STEP}|(adam|lamb)_[mv]|Adam(_1)?|beta[12]_power|ExponentialMovingAverage|Momentum)$"
)


def read_google_checkpoint(path: str) -> Weights:
    """Open the weights in a checkpoint of the original project, without optimizer slots.

    Those of albert_zh are read as well: see `albert_tf.interop.albert_zh`.

    Raises:
        InputError: If it cannot be read, or is not an ALBERT model.
    """
    _, found = open_checkpoint(path)
    tensors, unknown, skipped = {}, {}, {}
    for name, tensor in found.items():
        plain = name.removeprefix("module/")  # scope of TF1 hub modules
        if _SKIPPED.search(name):
            skipped[name] = tensor.shape
        elif plain in _HEADS or plain.startswith(("bert/", "cls/", *task_scopes())):
            variable = _HEADS.get(plain, albert_zh.original_name(plain))
            tensors[variable] = tensor
        else:
            unknown[name] = tensor.shape
    if not any(name.startswith("bert/embeddings/") for name in tensors):
        raise InputError(
            f"{path}: not an ALBERT checkpoint: it has no bert/embeddings/word_embeddings, but "
            f"{', '.join(sorted(found)[:3])}, ..."
        )
    albert_zh.refuse_grouped(path, tensors)
    notes = albert_zh.multiply_factors(path, tensors)
    step = int(found[_STEP].read()) if _STEP in found else None
    config = adjacent_config(path)
    return Weights(path, "google", tensors, unknown, skipped, config, step, notes=notes)


def write_google(folder: str, model: ConvertedModel) -> None:
    """Write a folder with a checkpoint that the original code restores, and its config."""
    path = os.path.join(folder, f"{NAME}-{model.step}")
    write_google_checkpoint(path, model.values, model.step)
    config = dataclasses.replace(model.config, parameter_sharing=None)  # unknown to the original
    write_adjacent_files(folder, model, config)


def write_google_checkpoint(prefix: str, values: dict[str, np.ndarray], step: int) -> None:
    """Write a checkpoint that the original code restores, and list it as the latest.

    Its files begin with `prefix`, such as `out/model.ckpt-1000`, and hold values by variable path.
    """
    original_names = {path: name for name, path in _HEADS.items()}
    named = {original_names.get(path, path): value for path, value in values.items()}
    named[_STEP] = np.asarray(step, np.int64)
    tf.raw_ops.SaveV2(
        prefix=prefix,
        tensor_names=list(named),
        shape_and_slices=[""] * len(named),
        tensors=[tf.constant(value) for value in named.values()],
    )
    TensorFlowFolder(os.path.dirname(prefix)).list_only(prefix)
