"""Weights of SavedModels and object-based checkpoints: ours, TF-Hub's and Model Garden's.

The functions in a SavedModel are never loaded. Weights are read from the checkpoint inside. Modules
that were published without a config are recognized by the shapes of their weights.
"""

import dataclasses
import functools
import json
import logging
import os
import re

import numpy as np
from tensorflow.core.protobuf.trackable_object_graph_pb2 import TrackableObjectGraph

from albert_tf.checkpoints import TensorFlowFolder
from albert_tf.checkpoints.tensorflow import OBJECT_GRAPH, Reader, open_checkpoint
from albert_tf.config import AlbertConfig
from albert_tf.errors import InputError
from albert_tf.files import exists, read_bytes
from albert_tf.hub.names import SIZES, source_of
from albert_tf.interop.google import read_google_checkpoint
from albert_tf.weights import Shape, Tensor, Weights, adjacent_config

logger = logging.getLogger(__name__)

_FORMAT = "saved_model"

_BLOCK = "bert/encoder/transformer/group_0/inner_group_0"

# Model Garden's names, without the scopes that may precede them -> variable paths. Of the scopes in
# the second and third table, the variables have the same names.
MODEL_GARDEN_NAMES = {
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
for _scopes, _leaves in ((_DENSE, ("kernel", "bias")), (_NORMS, ("gamma", "beta"))):
    MODEL_GARDEN_NAMES |= {f"{a}/{x}": f"{b}/{x}" for a, b in _scopes.items() for x in _leaves}

# Variables that distinguish ALBERT from other models of Model Garden, whose layers share nothing.
_REQUIRED = ("word_embeddings/embeddings", "transformer/self_attention/query/kernel")

_OPTIMIZER_KEY = re.compile(r"(^|/)(\.OPTIMIZER_SLOT|optimizer)/")

# Arguments of Model Garden's AlbertEncoder, as Keras writes them into a SavedModel -> our fields.
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

# Modules of version 1 of the models: google/albert_base/1, google/albert/tensorFlow1/base/1.
_FIRST_VERSION = re.compile(r"\bgoogle/albert[^?]*/1/?(\?.*)?$")


def read_saved_model(path: str) -> Weights:
    """Open the weights of an ALBERT model in a SavedModel, a local or remote folder.

    It is an export of this project, a module published on TF-Hub (TF2 or TF1), or an export of
    Model Garden's `AlbertEncoder`.

    Raises:
        InputError: If it cannot be read, or is not an ALBERT model.
    """
    prefix = os.path.join(path, "variables", "variables")
    if not exists(prefix + ".index"):
        raise InputError(f"{path}: a SavedModel without weights: {prefix}.index is missing")
    weights = _read(path, prefix)
    config = adjacent_config(os.path.join(path, "assets", ""))
    config = config or _find_keras_config(path, weights) or find_preset(path, weights)
    return dataclasses.replace(weights, config=config)


def read_object_checkpoint(prefix: str) -> Weights:
    """Open the weights of an ALBERT model in a `tf.train.Checkpoint` of Model Garden.

    Raises:
        InputError: If it cannot be read, or is not an ALBERT model.
    """
    return dataclasses.replace(_read(prefix, prefix), config=adjacent_config(prefix))


def _read(path: str, prefix: str) -> Weights:
    """Open a checkpoint in the format that its names indicate; `path` is used in errors."""
    reader, found = open_checkpoint(prefix)
    if OBJECT_GRAPH not in found:
        weights = read_google_checkpoint(prefix)
    elif any(name.startswith("params/") for name in found):
        weights = TensorFlowFolder(os.path.dirname(prefix)).read(prefix)
    else:
        del found[OBJECT_GRAPH]
        return _read_model_garden(path, reader, found)
    return dataclasses.replace(weights, path=path, format=_FORMAT)


def find_preset(path: str, weights: Weights) -> AlbertConfig | None:
    """Return the config of the paper's model with these shapes; None if there is none.

    Shapes do not show dropout: version 1 of the models has it, version 2 has not. The handle from
    which a module was fetched tells; of others, version 2 is assumed.
    """
    source = source_of(path)
    version = 1 if source and _FIRST_VERSION.search(source.name) else 2
    table = weights.tensors.get("bert/embeddings/word_embeddings")
    if table is None:
        return None
    for size in SIZES:
        config = AlbertConfig.preset(size, version, vocab_size=table.shape[0])
        if _fits(config, weights):
            _report(path, size, version, assumed=source is None)
            return config
    return None


@functools.cache  # weights are opened several times
def _report(path: str, size: str, version: int, assumed: bool) -> None:
    other = f" (or 1, which has dropout: albert_config_file={size}_v1)" if assumed else ""
    message = "%s: has no albert_config.json; by its shapes it is %s, version %d%s"
    logger.info(message, path, size, version, other)


def _read_model_garden(path: str, reader: Reader, found: dict[str, Tensor]) -> Weights:
    """Open the weights of Model Garden's `AlbertEncoder`, with or without pretraining heads."""
    tensors, unknown, skipped = {}, {}, {}
    recognized: dict[str, str] = {}
    dtypes = reader.get_variable_to_dtype_map()
    graph = TrackableObjectGraph.FromString(reader.get_tensor(OBJECT_GRAPH))
    attributes = (attribute for node in graph.nodes for attribute in node.attributes)
    full_names = {each.checkpoint_key: each.full_name for each in attributes}
    for key, tensor in sorted(found.items()):
        shape = tensor.shape
        name = full_names.get(key) or key
        if _OPTIMIZER_KEY.search(key) or not dtypes[key].is_floating:
            skipped[key] = shape
            continue
        variable = _variable_of(name)
        if variable in recognized:
            raise InputError(
                f"{path}: contains several encoders, with {recognized[variable]} and {name}; "
                "export one of them alone"
            )
        if variable:
            recognized[variable] = name
        if variable and (variable_shape := _variable_shape(variable, shape)):
            read = functools.partial(_read_reshaped, tensor, variable_shape)
            tensors[variable] = Tensor(name, shape, variable_shape, read)
        else:
            unknown[name] = shape
    if missing := [name for name in _REQUIRED if MODEL_GARDEN_NAMES[name] not in recognized]:
        names = sorted(full_names.get(key) or key for key in found)
        raise InputError(
            f"{path}: not a known kind of ALBERT model: it has neither weights under `params`, as "
            f"exports of albert_tf have, nor {missing[0]}, as those of TF-Hub and Model Garden "
            f"have, but {', '.join([*names[:3], '...']) if names else 'nothing'}"
        )
    return Weights(path, _FORMAT, tensors, unknown, skipped)


def _variable_of(name: str) -> str | None:
    """Return the variable whose name in `MODEL_GARDEN_NAMES` ends a name; None if none does."""
    parts = name.split("/")
    suffixes = ("/".join(parts[start:]) for start in range(len(parts)))
    return next(filter(None, map(MODEL_GARDEN_NAMES.get, suffixes)), None)


def _variable_shape(variable: str, stored: Shape) -> Shape | None:
    """Return the shape of a variable; None if a tensor with the shape `stored` does not fit it.

    Model Garden stores attention kernels as `[hidden, heads, size]`, and that of the output as
    `[heads, size, hidden]`. These are the same values in the same order as `[hidden, hidden]` with
    heads-major columns or rows.
    """
    rank = 1 if variable.endswith(("bias", "gamma", "beta")) else 2
    if len(stored) == rank:
        return stored
    if len(stored) != rank + 1 or "/attention_1/" not in variable:
        return None
    if rank == 1:
        return (stored[0] * stored[1],)
    outer, heads, inner = stored
    joined = (outer * heads, inner) if "/output/" in variable else (outer, heads * inner)
    return joined if joined[0] == joined[1] else None


def _read_reshaped(tensor: Tensor, shape: Shape) -> np.ndarray:
    return tensor.read().reshape(shape)


def _find_keras_config(path: str, weights: Weights) -> AlbertConfig | None:
    """Recover the config of Model Garden's `AlbertEncoder` from the metadata of Keras.

    Keras stores the arguments of the encoder as JSON, in a file of its own or, with older
    TensorFlow, in `saved_model.pb`.
    """
    for name in ("keras_metadata.pb", "saved_model.pb"):
        file_name = os.path.join(path, name)
        if not exists(file_name):
            continue
        content = read_bytes(file_name)
        for start in re.finditer(re.escape(_ENCODER_START), content):
            # The end of the JSON is known only after parsing; it has a few hundred bytes.
            text = content[start.start() : start.start() + 4096].decode("utf-8", "replace")
            config = _encoder_config(text)
            if config and _fits(config, weights) and _has_heads(config, weights):
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


def _has_heads(config: AlbertConfig, weights: Weights) -> bool:
    query = weights.tensors[f"{_BLOCK}/attention_1/self/query/kernel"]
    return len(query.stored) == 3 and query.stored[1] == config.num_attention_heads


def _fits(config: AlbertConfig, weights: Weights) -> bool:
    """Return whether a model with this config has the shapes of some weights, one shared layer."""
    width, hidden, inner = config.embedding_size, config.hidden_size, config.intermediate_size
    expected = {
        "bert/embeddings/word_embeddings": (config.vocab_size, width),
        "bert/embeddings/position_embeddings": (config.max_position_embeddings, width),
        "bert/embeddings/token_type_embeddings": (config.type_vocab_size, width),
        "bert/encoder/embedding_hidden_mapping_in/kernel": None
        if width == hidden
        else (width, hidden),
        f"{_BLOCK}/attention_1/self/query/kernel": (hidden, hidden),
        f"{_BLOCK}/ffn_1/intermediate/dense/kernel": (hidden, inner),
    }
    shapes = {name: tensor.shape for name, tensor in weights.tensors.items()}
    shared = not any("/group_1/" in name or "/inner_group_1/" in name for name in shapes)
    return shared and all(shapes.get(name) == shape for name, shape in expected.items())
