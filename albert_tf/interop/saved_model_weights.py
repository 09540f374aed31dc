"""SavedModels and object-based checkpoints: ours, TF-Hub's, and those of TensorFlow Model Garden.

Their functions are never loaded: weights are read from the checkpoint inside, and told apart by the
names that its object graph keeps of the variables.
"""

from __future__ import annotations

import dataclasses
import json
import os
import re

import numpy as np
from tensorflow.core.protobuf.trackable_object_graph_pb2 import TrackableObjectGraph

from albert_tf.config import AlbertConfig
from albert_tf.errors import InputError
from albert_tf.files import exists, open_file
from albert_tf.interop.tensorflow_checkpoints import (
    OBJECT_GRAPH,
    open_checkpoint,
    parameters,
    read_google_checkpoint,
    read_tensor,
)
from albert_tf.interop.weights import Shape, Tensor, Weights, config_beside

FORMAT = "saved_model"

_BLOCK = "bert/encoder/transformer/group_0/inner_group_0"

# Model Garden's names, without the scopes that may stand before them, and ours.
_TABLES = {
    "word_embeddings/embeddings": "bert/embeddings/word_embeddings",
    "position_embedding/embeddings": "bert/embeddings/position_embeddings",
    "type_embeddings/embeddings": "bert/embeddings/token_type_embeddings",
    "cls/predictions/output_bias/bias": "cls/predictions/output_bias",
}
_DENSE = {
    "embedding_projection": "bert/encoder/embedding_hidden_mapping_in",
    "transformer/self_attention/query": f"{_BLOCK}/attention_1/self/query",
    "transformer/self_attention/key": f"{_BLOCK}/attention_1/self/key",
    "transformer/self_attention/value": f"{_BLOCK}/attention_1/self/value",
    "transformer/self_attention/attention_output": f"{_BLOCK}/attention_1/output/dense",
    "transformer/self_attention_output": f"{_BLOCK}/attention_1/output/dense",  # as of early 2020
    "transformer/intermediate": f"{_BLOCK}/ffn_1/intermediate/dense",
    "transformer/output": f"{_BLOCK}/ffn_1/intermediate/output/dense",
    "pooler_transform": "bert/pooler/dense",
    "cls/predictions/transform/dense": "cls/predictions/transform/dense",
}
_NORMS = {
    "embeddings/layer_norm": "bert/embeddings/LayerNorm",
    "transformer/self_attention_layer_norm": f"{_BLOCK}/LayerNorm",
    "transformer/output_layer_norm": f"{_BLOCK}/LayerNorm_1",
    "cls/predictions/transform/LayerNorm": "cls/predictions/transform/LayerNorm",
}
MODEL_GARDEN_NAMES = {
    **_TABLES,
    **{f"{a}/{part}": f"{b}/{part}" for a, b in _DENSE.items() for part in ("kernel", "bias")},
    **{f"{a}/{part}": f"{b}/{part}" for a, b in _NORMS.items() for part in ("gamma", "beta")},
}

# What tells an ALBERT from other models of Model Garden, whose layers share nothing.
_MARKS = ("word_embeddings/embeddings", "transformer/self_attention/query/kernel")

_LOWER_CASE = "do_lower_case/.ATTRIBUTES/VARIABLE_VALUE"

_OPTIMIZER_KEY = re.compile(r"(^|/)(\.OPTIMIZER_SLOT|optimizer)/")

# AlbertEncoder's arguments, as Keras writes them into a SavedModel, and ours.
_ENCODER_ARGUMENTS = {
    "vocab_size": "vocab_size",
    "embedding_width": "embedding_size",
    "hidden_size": "hidden_size",
    "num_layers": "num_hidden_layers",
    "num_attention_heads": "num_attention_heads",
    "max_sequence_length": "max_position_embeddings",
    "type_vocab_size": "type_vocab_size",
    "intermediate_size": "intermediate_size",
    "dropout_rate": "hidden_dropout_prob",
    "attention_dropout_rate": "attention_probs_dropout_prob",
}
_ENCODER_START = b'{"vocab_size": '
# Model Garden's GELU is the tanh form.
_ACTIVATIONS = {"gelu": "gelu", "Text>gelu": "gelu", "relu": "relu"}


def read_saved_model(path: str) -> Weights:
    """The weights of an ALBERT in a SavedModel.

    Args:
        path: folder with `saved_model.pb`, local or remote: an export of this project, a module
            that TF-Hub published (TF2 or TF1), or an export of Model Garden's `AlbertEncoder`.

    Raises:
        InputError: it cannot be read, or holds no ALBERT.
    """
    prefix = os.path.join(path, "variables", "variables")
    if not exists(prefix + ".index"):
        raise InputError(f"{path}: is a SavedModel without weights; it lacks {prefix}.index")
    weights = _read(path, prefix)
    config = config_beside(os.path.join(path, "assets", ""))
    return dataclasses.replace(weights, config=config or _keras_config(path, weights))


def read_do_lower_case(path: str) -> bool | None:
    """Whether text is lower-cased for the encoder in a SavedModel, where its checkpoint says so.

    Exports of this project and of Model Garden keep that as a variable. What cannot be read here
    is reported when the weights are.
    """
    try:
        reader, shapes = open_checkpoint(os.path.join(path, "variables", "variables"))
    except InputError:
        return None
    if shapes.get(_LOWER_CASE) != ():
        return None
    return bool(read_tensor(path, reader, _LOWER_CASE))


def read_object_checkpoint(prefix: str) -> Weights:
    """The weights of an ALBERT in a `tf.train.Checkpoint` of Model Garden, such as its
    `bert_model.ckpt-1`; with the `albert_config.json` beside it, if there is one.

    Raises:
        InputError: it cannot be read, or holds no ALBERT.
    """
    return dataclasses.replace(_read(prefix, prefix), config=config_beside(prefix))


def _read(path: str, prefix: str) -> Weights:
    """Reads the checkpoint with a prefix as what its names say it is; `path` is for errors."""
    reader, shapes = open_checkpoint(prefix)
    if OBJECT_GRAPH not in shapes:
        weights = read_google_checkpoint(prefix)
        return dataclasses.replace(weights, path=path, format=FORMAT)
    del shapes[OBJECT_GRAPH]
    if ours := parameters(shapes):
        tensors = {
            name: Tensor(name, shapes[key], shapes[key], _reading(path, reader, key, shapes[key]))
            for name, key in ours.items()
        }
        skipped = {key: shape for key, shape in shapes.items() if key not in ours.values()}
        return Weights(path, FORMAT, tensors, skipped=skipped)
    return _read_model_garden(path, reader, shapes)


def _read_model_garden(path: str, reader, shapes: dict[str, Shape]) -> Weights:
    tensors, unknown, skipped = {}, {}, {}
    recognised: dict[str, str] = {}
    dtypes = reader.get_variable_to_dtype_map()
    full_names = _full_names(reader)
    for key, shape in sorted(shapes.items()):
        name = full_names.get(key) or key
        if _OPTIMIZER_KEY.search(key) or not dtypes[key].is_floating:
            skipped[key] = shape
        elif not (suffix := _known_suffix(name)):
            unknown[name] = shape
        else:
            variable = MODEL_GARDEN_NAMES[suffix]
            if variable in recognised:
                raise InputError(
                    f"{path}: holds several encoders, with {recognised[variable]} and {name}; "
                    "export one alone"
                )
            recognised[variable] = name
            if here := _shape_here(variable, shape):
                tensors[variable] = Tensor(name, shape, here, _reading(path, reader, key, here))
            else:
                unknown[name] = shape
    if missing := [mark for mark in _MARKS if MODEL_GARDEN_NAMES[mark] not in recognised]:
        found = sorted(full_names.get(key) or key for key in shapes)
        raise InputError(
            f"{path}: is no ALBERT that is known: holds neither weights under `params`, as exports "
            f"of albert_tf, nor {missing[0]}, as those of TF-Hub and Model Garden, but "
            f"{', '.join([*found[:3], '...']) if found else 'nothing'}"
        )
    return Weights(path, FORMAT, tensors, unknown, skipped)


def _full_names(reader) -> dict[str, str]:
    """Key of a value in an object-based checkpoint -> the name of its variable."""
    graph = TrackableObjectGraph.FromString(reader.get_tensor(OBJECT_GRAPH))
    return {
        attribute.checkpoint_key: attribute.full_name
        for node in graph.nodes
        for attribute in node.attributes
    }


def _known_suffix(name: str) -> str | None:
    """What is left of a name in `MODEL_GARDEN_NAMES` without the scopes before it, if it is one."""
    parts = name.split("/")
    suffixes = ("/".join(parts[start:]) for start in range(len(parts)))
    return next((suffix for suffix in suffixes if suffix in MODEL_GARDEN_NAMES), None)


def _shape_here(variable: str, stored: Shape) -> Shape | None:
    """The shape that a tensor of Model Garden has here; None if it cannot be that variable.

    Attention stands there as `[hidden, heads, size]`, its output as `[heads, size, hidden]`: the
    same numbers in the same order as `[hidden, hidden]` with heads-major columns or rows.
    """
    rank = 1 if variable.endswith(("bias", "gamma", "beta")) else 2
    if len(stored) == rank:
        return stored
    if len(stored) != rank + 1 or "/attention_1/" not in variable:
        return None
    if rank == 1:
        return (stored[0] * stored[1],)
    joined = (
        (stored[0] * stored[1], stored[2])
        if "/output/" in variable
        else (stored[0], stored[1] * stored[2])
    )
    return joined if joined[0] == joined[1] else None


def _reading(path: str, reader, key: str, shape: Shape):
    def read() -> np.ndarray:
        return read_tensor(path, reader, key).reshape(shape)

    return read


def _keras_config(path: str, weights: Weights) -> AlbertConfig | None:
    """The config of Model Garden's `AlbertEncoder`, from what Keras notes of it beside the graph.

    Its arguments stand as JSON among the metadata of Keras, in a file of their own or, with older
    TensorFlow, in `saved_model.pb`. None where they do not, or do not fit the weights.
    """
    for name in ("keras_metadata.pb", "saved_model.pb"):
        file_name = os.path.join(path, name)
        if not exists(file_name):
            continue
        with open_file(file_name, "rb") as file:
            content = file.read()
        for start in re.finditer(re.escape(_ENCODER_START), content):
            # Only parsing tells where the JSON ends; the arguments are a few hundred bytes.
            text = content[start.start() : start.start() + 4096].decode("utf-8", "replace")
            if (config := _encoder_config(text)) and _fits(config, weights):
                return config
    return None


def _encoder_config(text: str) -> AlbertConfig | None:
    try:
        arguments, _ = json.JSONDecoder().raw_decode(text)
        fields = {ours: arguments[theirs] for theirs, ours in _ENCODER_ARGUMENTS.items()}
        fields["hidden_act"] = _ACTIVATIONS[arguments["activation"]]
        return AlbertConfig.from_dict(fields)
    except (ValueError, KeyError, TypeError):
        return None


def _fits(config: AlbertConfig, weights: Weights) -> bool:
    heads, hidden = config.num_attention_heads, config.hidden_size
    expected = {
        "bert/embeddings/word_embeddings": (config.vocab_size, config.embedding_size),
        f"{_BLOCK}/attention_1/self/query/kernel": (hidden, heads, hidden // heads),
    }
    stored = {name: tensor.stored for name, tensor in weights.tensors.items()}
    return all(stored.get(name) == shape for name, shape in expected.items())
