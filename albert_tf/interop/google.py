"""Checkpoints of the original project, of BERT and of albert_zh, which are flat lists of names.

Variables of BERT and of albert_zh (github.com/brightmart/albert_zh), which comes from BERT's code,
are read under the names of the original; `albert_tf.other_configs` says how the networks differ.
"""

import dataclasses
import functools
import os
import re

import numpy as np
import tensorflow as tf

from albert_tf.checkpoints import NAME, TensorFlowFolder
from albert_tf.checkpoints.tensorflow import open_checkpoint
from albert_tf.errors import InputError
from albert_tf.interop.converted_model import ConvertedModel, write_adjacent_files
from albert_tf.interop.huggingface import BERT_SCOPES
from albert_tf.task_kinds import task_scopes
from albert_tf.weights import Tensor, Weights, adjacent_config, shape_text

# The original keeps the variables of fine-tuning heads outside of any scope.
_HEADS = {name: f"classifier/{name}" for name in ("output_weights", "output_bias")}
_STEP = "global_step"
_SKIPPED = re.compile(
    rf"(^|/)({_STEP}|(adam|lamb)_[mv]|Adam(_1)?|beta[12]_power|ExponentialMovingAverage|Momentum)$"
)

# Of albert_zh.
_FACTORS = ("bert/embeddings/word_embeddings", "bert/embeddings/word_embeddings_2")

_LAYER = re.compile(r"bert/encoder/layer_(shared|\d+)/(.+)/(\w+)")
_BLOCK = "bert/encoder/transformer/group_{}/inner_group_0"


def read_google_checkpoint(path: str) -> Weights:
    """Open the weights in a checkpoint of the original, BERT or albert_zh, but no optimizer slots.

    Raises:
        InputError: If it cannot be read, or is not an ALBERT or BERT model.
    """
    _, found = open_checkpoint(path)
    tensors, unknown, skipped = {}, {}, {}
    for name, tensor in found.items():
        plain = name.removeprefix("module/")  # scope of TF1 hub modules
        if _SKIPPED.search(name):
            skipped[name] = tensor.shape
        elif plain in _HEADS or plain.startswith(("bert/", "cls/", *task_scopes())):
            tensors[_HEADS.get(plain, _original_name(plain))] = tensor
        else:
            unknown[name] = tensor.shape
    if not any(name.startswith("bert/embeddings/") for name in tensors):
        raise InputError(
            f"{path}: not an ALBERT or BERT checkpoint: it has no bert/embeddings/word_embeddings, "
            f"but {', '.join(sorted(found)[:3])}, ..."
        )
    _refuse_grouped(path, tensors)
    notes = _multiply_factors(path, tensors)
    step = int(found[_STEP].read()) if _STEP in found else None
    config = adjacent_config(path)
    return Weights(path, "google", tensors, unknown, skipped, config, step, notes=notes)


def write_google(folder: str, model: ConvertedModel) -> None:
    """Write a folder with a checkpoint that the original code restores, and its config."""
    write_google_checkpoint(f"{folder}/{NAME}-{model.step}", model.values, model.step)
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


def _original_name(name: str) -> str:
    """Return the name of a variable in the original's checkpoints; other names are kept."""
    if not (found := _LAYER.fullmatch(name)):
        return name
    layer, module, leaf = found.groups()
    if not (scope := BERT_SCOPES.get(module.replace("/", "."))):
        return name
    return f"{_BLOCK.format(layer.replace('shared', '0'))}/{scope}/{leaf}"


def _refuse_grouped(path: str, tensors: dict[str, Tensor]) -> None:
    """Raise InputError for the "fast" models, whose feed-forward networks have groups."""
    for tensor in tensors.values():
        if "/ffn_1/" in tensor.name and len(tensor.shape) == 3:
            raise InputError(
                f"{path}: {tensor.name} has shape {list(tensor.shape)}: the feed-forward network "
                f"is divided into {tensor.shape[-1]} groups (modeling_google_fast.py), "
                "which is another network than ALBERT's and is not computed"
            )


def _multiply_factors(path: str, tensors: dict[str, Tensor]) -> tuple[str, ...]:
    """Replace both factors of the word embeddings in `tensors` by their product, if there are two.

    The decoder of the masked language model uses the same factors, so it is tied to the product as
    the original's is to its embeddings. A note for the user is returned.
    """
    table, projection = map(tensors.get, _FACTORS)
    if table is None or projection is None:
        return ()
    if not len(table.shape) == len(projection.shape) == 2 or table.shape[1] != projection.shape[0]:
        raise InputError(
            f"{path}: {table.name} {list(table.shape)} and {projection.name} "
            f"{list(projection.shape)} are not two factors of word embeddings"
        )
    del tensors[_FACTORS[1]]
    shape = (table.shape[0], projection.shape[1])
    name = f"{table.name} x {projection.name.rpartition('/')[2]}"
    read = functools.partial(_product, table, projection)
    tensors[_FACTORS[0]] = Tensor(name, shape, shape, read)
    return (
        f"note: the word embeddings are stored as two factors, {shape_text(table.shape)} and "
        f"{shape_text(projection.shape)} (albert_zh), and loaded as their product, "
        f"{shape_text(shape)}: the outputs are the same, and training changes the product",
    )


def _product(table: Tensor, projection: Tensor) -> np.ndarray:
    return np.matmul(table.read(), projection.read(), dtype=np.float32)
