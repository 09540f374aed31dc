"""Weights in a file, under the names of this project's variables.

Every format is read into the same `Weights` object, which holds names and shapes and reads values
on demand. Models are loaded from it, and other formats are written from it.
"""

import dataclasses
import os
import re
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from albert_tf.config import BERT_CONFIG_FILE, CONFIG_FILE, AlbertConfig
from albert_tf.errors import InputError
from albert_tf.files import exists, files_in
from albert_tf.task_kinds import task_scopes

Shape = tuple[int, ...]


def shape_text(shape: Shape) -> str:
    """Return a shape as in `30000x128`."""
    return "x".join(map(str, shape)) or "scalar"


class Tensor(NamedTuple):
    """One tensor in a file.

    Attributes:
        name: its name in the file.
        stored: its shape in the file.
        shape: the shape of the corresponding variable.
        read: returns the value with shape `shape`.
    """

    name: str
    stored: Shape
    shape: Shape
    read: Callable[[], np.ndarray]


@dataclasses.dataclass(frozen=True)
class Weights:
    """The weights of a model in a file.

    Attributes:
        path: the file or folder.
        format: what `albert_tf.interop.loading.find_format` returns.
        tensors: variable path -> tensor.
        unknown: name in the file -> shape, for tensors that correspond to no variable.
        skipped: name in the file -> shape, for values that are no weights (optimizer slots).
        config: the model's config, if it is stored next to the weights.
        step: number of training steps behind the weights, if known.
        head: the kind of model, if the file names it: a key of `HEADS` in heads.py.
        optimizer: path of a variable of the optimizer -> tensor, in checkpoints of this project;
            the values are part of `skipped` as well.
        notes: what a user should know about how the weights are read, one line each.
    """

    path: str
    format: str
    tensors: dict[str, Tensor]
    unknown: dict[str, Shape] = dataclasses.field(default_factory=dict)
    skipped: dict[str, Shape] = dataclasses.field(default_factory=dict)
    config: AlbertConfig | None = None
    step: int | None = None
    head: str | None = None
    optimizer: dict[str, Tensor] = dataclasses.field(default_factory=dict)
    notes: tuple[str, ...] = ()

    def read(self, name: str) -> np.ndarray:
        """Return the value of the variable with the path `name`, as float32.

        Raises:
            InputError: If a part of it is not finite.
        """
        value = self.tensors[name].read()
        if not np.isfinite(value).all():
            raise InputError(f"{self.path}: {name} contains NaN or infinity")
        return value if value.dtype == np.float32 else value.astype(np.float32)


def adjacent_config(path: str) -> AlbertConfig | None:
    """Return the `albert_config.json` in the folder of a file, if there is one.

    Archives of albert_zh have an `albert_config_tiny.json`, those of BERT a `bert_config.json`.
    """
    folder = os.path.dirname(path)
    for name in (CONFIG_FILE, BERT_CONFIG_FILE):
        if exists(config_file := os.path.join(folder, name)):
            return AlbertConfig.from_json_file(config_file)
    named = files_in(folder, "albert_config_*.json")
    return AlbertConfig.from_json_file(named[0]) if len(named) == 1 else None


class MatchedWeights(NamedTuple):
    """How the weights in a file correspond to the variables of a model.

    Attributes:
        loaded: variable -> the name in `Weights.tensors` that it is loaded from.
        missing: variables that the file has no weight for.
        unused: weights that the model has no variable for.
        other_shapes: those of `missing` that have another shape in the file, such as a head for
            other labels -> a note with both shapes.
        source: path of the file.
        notes: differences that shapes do not show, one line each.
    """

    loaded: dict[str, str]
    missing: list[str]
    unused: list[str]
    other_shapes: dict[str, str]
    source: str = ""
    notes: Sequence[str] = ()

    def __repr__(self) -> str:
        """Return two lines at most, since it is what a notebook shows after `load_weights`."""
        count, missing = len(self.loaded) + len(self.missing), ", ".join(self.missing[:3])
        more = f" and {len(self.missing) - 3} more" if len(self.missing) > 3 else ""
        return (
            f"MatchedWeights({len(self.loaded)} of {count} variables loaded from {self.source!r}, "
            f"{len(self.unused)} weights unused"
            + (f",\n  missing: {missing}{more})" if self.missing else ")")
        )


def match(
    shapes: Mapping[str, Shape], weights: Weights, *, init_from_group0: bool = False
) -> MatchedWeights:
    """Find a weight for every variable of a model, of which `shapes` are those by path.

    With `init_from_group0`, every group of layers is loaded from the file's first group.

    Raises:
        InputError: If a weight of the encoder or of a pretraining head has another shape.
    """
    loaded, other_shapes = {}, {}
    for path, shape in shapes.items():
        name = re.sub(r"/group_\d+/", "/group_0/", path) if init_from_group0 else path
        if init_from_group0 and name not in weights.tensors:  # of a file with fewer inner groups
            name = re.sub(r"/inner_group_\d+/", "/inner_group_0/", name)
        tensor = weights.tensors.get(name)
        if tensor is None:
            continue
        if tensor.shape == shape:
            loaded[path] = name
        # A task's head of another shape (other labels) is skipped, the encoder is still loaded.
        elif not path.startswith(task_scopes()):
            stored = f" (stored as {tensor.name} {list(tensor.stored)})"
            raise InputError(
                f"`weights`={weights.path}: {path} has shape {list(tensor.shape)}"
                f"{stored if tensor.name != path else ''}, but "
                f"{list(shape)} in the model; was it trained with another config?"
            )
        else:
            stored, own = shape_text(tensor.shape), shape_text(shape)
            other_shapes[path] = f" ({stored} in the file, {own} in the model)"
    return MatchedWeights(
        loaded=loaded,
        missing=[path for path in shapes if path not in loaded],
        unused=sorted(set(weights.tensors).difference(loaded.values())),
        other_shapes=other_shapes,
        source=weights.path,
    )


def check_encoder(matched: MatchedWeights, weights: Weights) -> None:
    """Check that the whole encoder is loaded.

    The pooler may be missing: Hugging Face leaves it out of models that do not use it.

    Raises:
        InputError: If a variable of the encoder would keep its initial value.
    """
    of_encoder = (path for path in matched.missing if path.startswith("bert/"))
    if missing := [path for path in of_encoder if not path.startswith("bert/pooler/")]:
        others = f" and {len(missing) - 1} more weights of the encoder" if missing[1:] else ""
        raise InputError(
            f"`weights`={weights.path}: lacks {missing[0]}{others}; was it trained "
            "with another config? (`init_from_group0` loads every group of layers from the first)"
        )


def check_layers(weights: Weights) -> None:
    """Check that weights have no more layers than their own config says.

    Raises:
        InputError: If they have, which would be dropped.
    """
    if (config := weights.config) is None:
        return
    numbers = (int(n) for path in weights.tensors for n in re.findall(r"/group_(\d+)/", path))
    if (highest := max(numbers, default=0)) >= config.num_hidden_groups:
        name = "num_hidden_layers" if config.is_bert else "num_hidden_groups"
        raise InputError(
            f"`weights`={weights.path}: has {highest + 1} layers of different weights, but its "
            f"config says {name}={config.num_hidden_groups}"
        )


def config_differences(config: AlbertConfig, weights: Weights) -> list[str]:
    """Compare a model's config with that of the weights, beyond what shapes show.

    Returns:
        The notes of the weights, and one line for every field that differs.

    Raises:
        InputError: If the numbers of attention heads differ, which training would not recover from.
    """
    if weights.config is None:
        return list(weights.notes)
    stored, current = dataclasses.asdict(weights.config), dataclasses.asdict(config)
    if stored["num_attention_heads"] != current["num_attention_heads"]:
        raise InputError(
            f"`weights`={weights.path}: was trained with num_attention_heads="
            f"{stored['num_attention_heads']}, but the model has {current['num_attention_heads']}"
        )
    fields = (
        *("num_hidden_layers", "hidden_act", "num_hidden_groups", "inner_group_num"),
        "layer_norm_eps",
    )
    differences = [
        f"note: {name} is {stored[name]} in {weights.path}, but {current[name]} in the model"
        for name in fields
        if stored[name] != current[name]
    ]
    return [*weights.notes, *differences]
