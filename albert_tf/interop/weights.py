"""Weights that some file holds, under the names that this project's variables have.

Every format is read into the same `Weights`: nothing but names and shapes until a value is asked
for. Models are loaded from them, other formats are written from them.
"""

from __future__ import annotations

import dataclasses
import os
import re
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from albert_tf.config import CONFIG_FILE, AlbertConfig
from albert_tf.errors import InputError
from albert_tf.files import exists

Shape = tuple[int, ...]

# Heads of one task. One of another shape (other labels) is not loaded; the encoder still is.
TASK_HEADS = ("classifier/", "cls/squad/", "start_logits/", "end_logits/", "answer_class/")


class Tensor(NamedTuple):
    """One weight in a file.

    Attributes:
        name: what the file calls it.
        stored: its shape there.
        shape: its shape as a variable here.
        read: its value, of `shape`, as the file has it or float32.
    """

    name: str
    stored: Shape
    shape: Shape
    read: Callable[[], np.ndarray]


@dataclasses.dataclass(frozen=True)
class Weights:
    """The weights of a model in a file.

    Attributes:
        path: the file, or the folder.
        format: its key in `albert_tf.interop.formats.FORMATS`.
        tensors: by the path of the variable here.
        unknown: shapes of what has no counterpart here, by the name there.
        skipped: shapes of what is no weight of the model, such as optimizer slots.
        config: of the model, where it stands beside the weights.
        step: training steps behind the weights, where it is known.
        head: the kind of model, where the file says it: a key of `HEADS` in models.py.
    """

    path: str
    format: str
    tensors: dict[str, Tensor]
    unknown: dict[str, Shape] = dataclasses.field(default_factory=dict)
    skipped: dict[str, Shape] = dataclasses.field(default_factory=dict)
    config: AlbertConfig | None = None
    step: int | None = None
    head: str | None = None

    def read(self, name: str) -> np.ndarray:
        """The value of a variable, by its path here."""
        value = self.tensors[name].read()
        return value if value.dtype == np.float32 else value.astype(np.float32)


def config_beside(path: str) -> AlbertConfig | None:
    """The `albert_config.json` in the folder of a file, if there is one."""
    config_file = os.path.join(os.path.dirname(path), CONFIG_FILE)
    return AlbertConfig.from_json_file(config_file) if exists(config_file) else None


class Matched(NamedTuple):
    """How the weights of a file and the variables of a model fit together, by paths here.

    Attributes:
        loaded: variable -> the weight it takes.
        fresh: variables that the file has nothing for.
        unused: weights that the model has no variable for.
        source: the file.
        notes: lines on what shapes do not show.
    """

    loaded: dict[str, str]
    fresh: list[str]
    unused: list[str]
    source: str = ""
    notes: list[str] = []


def match(
    shapes: dict[str, Shape], weights: Weights, flag: str, init_from_group0: bool = False
) -> Matched:
    """Finds a weight for every variable of a model.

    Args:
        shapes: of the model's variables, by path.
        weights: of a file.
        flag: that named the file, for errors.
        init_from_group0: whether every group of layers takes the weights of the file's first.

    Raises:
        InputError: a weight of the encoder or of a pretraining head has another shape.
    """
    loaded = {}
    for path, shape in shapes.items():
        name = re.sub(r"group_\d+/", "group_0/", path) if init_from_group0 else path
        tensor = weights.tensors.get(name)
        if tensor is None:
            continue
        if tensor.shape == shape:
            loaded[path] = name
        elif not path.startswith(TASK_HEADS):
            there = "" if tensor.name == path else f" ({tensor.name} {list(tensor.stored)} there)"
            raise InputError(
                f"--{flag}={weights.path}: {path} has shape {list(tensor.shape)}{there}, the "
                f"model's {list(shape)}; was it trained with another config?"
            )
    return Matched(
        loaded=loaded,
        fresh=[path for path in shapes if path not in loaded],
        unused=sorted(set(weights.tensors).difference(loaded.values())),
        source=weights.path,
    )


def check_encoder(matched: Matched, weights: Weights, flag: str) -> None:
    """Raises InputError if a part of the encoder would stay at its initial values.

    The pooler may: Hugging Face leaves it out of models that do not read it.
    """
    missing = [
        path
        for path in matched.fresh
        if path.startswith("bert/") and not path.startswith("bert/pooler/")
    ]
    if missing:
        raise InputError(
            f"--{flag}={weights.path}: lacks {missing[0]} and {len(missing) - 1} more of the "
            "encoder; was it trained with another config? (--init_from_group0 starts every group "
            "of layers from the first)"
        )


def config_differences(config: AlbertConfig, weights: Weights, flag: str) -> list[str]:
    """What shapes do not show: lines on fields in which a model and the file's config differ.

    Raises:
        InputError: the numbers of heads differ, which no training would get over.
    """
    if weights.config is None:
        return []
    there, here = dataclasses.asdict(weights.config), dataclasses.asdict(config)
    if there["num_attention_heads"] != here["num_attention_heads"]:
        raise InputError(
            f"--{flag}={weights.path}: was trained with num_attention_heads="
            f"{there['num_attention_heads']}, the model has {here['num_attention_heads']}"
        )
    fields = ("num_hidden_layers", "hidden_act", "num_hidden_groups", "inner_group_num")
    return [
        f"note: {name} is {there[name]} there, {here[name]} here"
        for name in fields
        if there[name] != here[name]
    ]
