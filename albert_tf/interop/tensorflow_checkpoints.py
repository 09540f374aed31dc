"""TensorFlow checkpoints: the original's, which are flat lists of names, and this project's."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator

import numpy as np
import tensorflow as tf

from albert_tf.errors import InputError
from albert_tf.files import exists, matches, tensorflow_reason, write_text
from albert_tf.interop.weights import Tensor, Weights, config_beside

OBJECT_GRAPH = "_CHECKPOINTABLE_OBJECT_GRAPH"

_PARAMETER = re.compile(r"^params/(.+)/\.ATTRIBUTES/VARIABLE_VALUE$")
_STEP = "step/.ATTRIBUTES/VARIABLE_VALUE"

# In the original, heads of fine-tuning stand outside of every scope.
_GOOGLE_HEADS = {
    "output_weights": "classifier/output_weights",
    "output_bias": "classifier/output_bias",
}
_GOOGLE_SCOPES = ("bert/", "cls/", "start_logits/", "end_logits/", "answer_class/")
_GOOGLE_STEP = "global_step"
_GOOGLE_SKIPPED = re.compile(
    rf"(^|/)({_GOOGLE_STEP}|adam_[mv]|Adam(_1)?|beta[12]_power|ExponentialMovingAverage|Momentum)$"
)


def find_checkpoint(path: str, flag: str = "init_checkpoint") -> str:
    """The checkpoint that `path` names.

    Args:
        path: a prefix (`out/model.ckpt-500`), its `.index` file, or a folder: the newest that its
            file `checkpoint` lists, or the only one in it, as in the original's archives.
        flag: named in errors.

    Raises:
        InputError: there is none, or several of which none is listed as the newest.
    """
    if exists(path + ".index"):
        return path
    if path.endswith(".index") and exists(path):
        return path.removesuffix(".index")
    if latest := tf.train.latest_checkpoint(path):
        return latest
    found = [name.removesuffix(".index") for name in matches(os.path.join(path, "*.index"))]
    if len(found) == 1:
        return found[0]
    if found:
        raise InputError(
            f"--{flag}={path}: holds several checkpoints; name one, such as {found[0]}"
        )
    raise InputError(
        f"--{flag}={path}: no checkpoint there; give a folder that holds one, or a name such as "
        f"{os.path.join(path, 'model.ckpt-1000')}"
    )


def open_checkpoint(path: str):
    """A reader of the checkpoint with the prefix `path`, and its shapes by name.

    Raises:
        InputError: it cannot be read.
    """
    try:
        reader = tf.train.load_checkpoint(path)
        shapes = reader.get_variable_to_shape_map()
    except (tf.errors.OpError, ValueError, RuntimeError) as error:
        raise InputError(f"{path}: cannot be read ({tensorflow_reason(error)})") from None
    return reader, {name: tuple(shape) for name, shape in shapes.items()}


def damage_of(path: str) -> str | None:
    """Why a checkpoint cannot be read, in one line; None if every value of it can.

    Reads the whole file: TensorFlow compares the checksum of a value when it is read.
    """
    try:
        reader, shapes = open_checkpoint(path)
        for name in shapes:
            read_tensor(path, reader, name)
    except InputError as error:
        return str(error).removeprefix(f"{path}: ")
    return None


def parameters(names: Iterator[str]) -> dict[str, str]:
    """Path of a variable -> its name in a checkpoint or SavedModel, where it stands in `params`."""
    return {_unescape(match.group(1)): name for name in names if (match := _PARAMETER.match(name))}


def read_training_checkpoint(path: str) -> Weights:
    """The weights in a checkpoint that was written in training.

    Raises:
        InputError: it cannot be read, or was not written by this project.
    """
    reader, shapes = open_checkpoint(path)
    names = parameters(shapes)
    if not names:
        raise InputError(f"{path}: holds no weights under `params`; was it written by albert_tf?")
    return Weights(
        path=path,
        format="albert_tf",
        tensors={
            variable: _tensor(path, reader, variable, shapes[name], name)
            for variable, name in names.items()
        },
        skipped={
            name: shape
            for name, shape in shapes.items()
            if name not in names.values() and name != OBJECT_GRAPH
        },
        config=config_beside(path),
        step=int(read_tensor(path, reader, _STEP)) if _STEP in shapes else None,
    )


def read_google_checkpoint(path: str) -> Weights:
    """The weights in a checkpoint of the original code; its slots and step are left out.

    Raises:
        InputError: it cannot be read, or holds no ALBERT.
    """
    reader, shapes = open_checkpoint(path)
    tensors, unknown, skipped = {}, {}, {}
    for name, shape in shapes.items():
        plain = name.removeprefix("module/")  # of a TF1 hub module
        if _GOOGLE_SKIPPED.search(name):
            skipped[name] = shape
        elif plain in _GOOGLE_HEADS or plain.startswith(_GOOGLE_SCOPES):
            tensors[_GOOGLE_HEADS.get(plain, plain)] = _tensor(path, reader, name, shape, name)
        else:
            unknown[name] = shape
    if not any(name.startswith("bert/embeddings/") for name in tensors):
        raise InputError(
            f"{path}: is no ALBERT checkpoint: it lacks bert/embeddings/word_embeddings, and holds "
            f"{', '.join(sorted(shapes)[:3])}, ..."
        )
    step = int(read_tensor(path, reader, _GOOGLE_STEP)) if _GOOGLE_STEP in shapes else None
    config = config_beside(path)
    return Weights(path, "google", tensors, unknown, skipped, config, step)


def _tensor(path: str, reader, name: str, shape: tuple[int, ...], key: str) -> Tensor:
    return Tensor(name, shape, shape, lambda: read_tensor(path, reader, key))


def read_tensor(path: str, reader, key: str) -> np.ndarray:
    """A value of a checkpoint.

    Raises:
        InputError: the file is damaged.
    """
    try:
        return reader.get_tensor(key)
    except (tf.errors.OpError, IndexError, RuntimeError, ValueError) as error:
        raise InputError(f"{path}: {key} cannot be read ({tensorflow_reason(error)})") from None


def write_google_checkpoint(prefix: str, values: dict[str, np.ndarray], step: int) -> None:
    """Writes a checkpoint that the original code restores, and the file `checkpoint` beside it.

    Args:
        prefix: of its files, such as `out/model.ckpt-1000`.
        values: by the path of the variable here.
        step: its `global_step`.
    """
    theirs = {ours: name for name, ours in _GOOGLE_HEADS.items()}
    named = {theirs.get(path, path): value for path, value in values.items()}
    named[_GOOGLE_STEP] = np.int64(step)
    tf.raw_ops.SaveV2(
        prefix=prefix,
        tensor_names=list(named),
        shape_and_slices=[""] * len(named),
        tensors=[tf.constant(value) for value in named.values()],
    )
    list_as_newest(prefix)


def write_training_checkpoint(prefix: str, values: dict[str, np.ndarray], step: int) -> None:
    """Writes weights as training does, without an optimizer; arguments as above."""
    checkpoint = tf.train.Checkpoint(
        params={path: tf.Variable(value) for path, value in values.items()},
        step=tf.Variable(step, dtype=tf.int64),
    )
    checkpoint.write(prefix)
    list_as_newest(prefix)


def list_as_newest(prefix: str) -> None:
    """Names a checkpoint, in the file `checkpoint` beside it, as the one there is."""
    folder, name = os.path.split(prefix)
    lines = (
        f'{key}: "{name}"\n' for key in ("model_checkpoint_path", "all_model_checkpoint_paths")
    )
    write_text(os.path.join(folder, "checkpoint"), "".join(lines))


def _unescape(name: str) -> str:
    """A dictionary key from what TensorFlow makes of it in the names of a checkpoint."""
    return re.sub(r"\.(.)", lambda m: "/" if m.group(1) == "S" else m.group(1), name)
