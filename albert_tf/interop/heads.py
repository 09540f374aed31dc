"""The models that weights may belong to."""

from __future__ import annotations

import dataclasses
import logging
import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from albert_tf.config import AlbertConfig
from albert_tf.files import exists
from albert_tf.task_kinds import heads, kind_of
from albert_tf.weights import MatchedWeights, Shape, Weights

if TYPE_CHECKING:
    import keras

_logger = logging.getLogger(__name__)

HEADS = heads()

# What pretraining with a teacher of another width trains, and no model has.
TEACHER_PROJECTION = "teacher_projection"


def find_head(paths: Iterable[str]) -> str:
    """Return the key in `HEADS` of the model with these variable paths.

    Of heads with the same variables, the first one is returned: a multiple-choice model has those
    of a classifier with one output.
    """
    paths = list(paths)
    return next(
        name for name, head in HEADS.items() if any(path.startswith(head.scope) for path in paths)
    )


def heads_like(head: str, weights: Weights) -> list[str]:
    """Return the heads with the variables of a head that fit the outputs in some weights."""
    scope = HEADS[head].scope
    bias = weights.tensors.get(f"{scope}output_bias")
    has_one_output = bias is not None and bias.shape == (1,)
    alike = (each for each in HEADS.values() if each.scope == scope)
    first = next(alike)
    fitting = (each for each in alike if each.labeled or has_one_output or not each.has_variables)
    return [first.name, *(each.name for each in fitting)]


def possible_heads(weights: Weights, folder: str) -> list[str]:
    """Return the heads that weights may have; several if nothing tells which.

    The settings of a kind of task may be recorded in `folder`.
    """
    if weights.head:
        return [weights.head]
    alike = heads_like(find_head(weights.tensors), weights)
    if len(alike) == 1:
        return alike
    kinds = ((name, kind_of(name)) for name in alike)
    recorded = [name for name, kind in kinds if kind and exists(f"{folder}/{kind.settings_file}")]
    return recorded or [name for name in alike if HEADS[name].has_variables] or alike[:1]


def read_as(head: str, weights: Weights) -> Weights:
    """Name the head in some weights as one of a kind of model, a key of `HEADS`.

    Files of other projects may not record which of the heads that they store alike they contain,
    and are read as the first one.
    """
    scope, module = HEADS[head].scope, HEADS[head].huggingface_module
    named = any(path.startswith(scope) for path in weights.tensors)
    if not module or named or weights.format not in ("google", "huggingface"):
        return weights
    others = {each.scope for each in HEADS.values() if each.huggingface_module == module}
    pattern = re.compile(f"^({'|'.join(map(re.escape, others))})")
    tensors = {pattern.sub(scope, path): tensor for path, tensor in weights.tensors.items()}
    return dataclasses.replace(weights, tensors=tensors)


def create_model(
    head: str, config: AlbertConfig, shapes: Mapping[str, Shape], **arguments: Any
) -> keras.Model:
    """Create the model of a key of `HEADS`.

    Heads with labels take their number from `shapes`, by path; other arguments are of the model.
    """
    row = HEADS[head]
    if row.labeled:
        arguments["num_labels"] = shapes[f"{row.scope}output_weights"][0]
    return row.load_model()(config, **arguments)


def class_name(model_class: type) -> str:
    """Return what `Head.model` is for a class."""
    return f"{model_class.__module__}:{model_class.__name__}"


def needed(missing: Iterable[str], model: keras.Model) -> list[str]:
    """Return the missing variables, without those that a model has no use for, as of a pooler."""
    own = (head for head in HEADS.values() if head.model == class_name(type(model)))
    optional = (path for head in own for path in head.optional)
    unused = tuple(path for path in optional if path.startswith("bert/"))
    return [path for path in missing if not path.startswith(unused)]


def warn_of_random(name: Any, model: keras.Model, matched: MatchedWeights) -> None:
    """Warn of missing variables that a model needs: they keep random values."""
    missing = needed(matched.missing, model)
    if names := [path + matched.other_shapes.get(path, "") for path in missing]:
        _logger.warning(
            "%s: left at initial values, random until trained: %s", name, ", ".join(names)
        )
