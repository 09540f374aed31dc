"""Hugging Face folders of an ALBERT or a BERT: `config.json`, and files of tensors.

Their kernels are `[outputs, inputs]`, heads have other names, and the projection from the width of
the embeddings exists in every ALBERT, even if both widths are equal.
"""

import dataclasses
import functools
import json
import os
import re
from collections.abc import Iterable, Mapping
from typing import Any, NoReturn

import numpy as np

from albert_tf import files
from albert_tf.config import BERT_CONFIG_FILE, AlbertConfig
from albert_tf.errors import InputError
from albert_tf.files import exists, open_file, read_json, write_text
from albert_tf.hub.names import SAFETENSORS
from albert_tf.interop import model_card
from albert_tf.interop.converted_model import ConvertedModel, labels_of_outputs, meaning
from albert_tf.interop.heads import HEADS, find_head, read_as
from albert_tf.interop.tensor_files import find_files, open_tensors
from albert_tf.other_configs import architecture_of, family_of, to_huggingface
from albert_tf.task_kinds import Head, heads, kind_of
from albert_tf.weights import Tensor, Weights

CONFIG = "config.json"

_IN_ENCODER = "bert/encoder/transformer/"

# Modules of both families -> our scope, and our name of their `weight`.
_EMBEDDINGS = {
    "embeddings.word_embeddings": ("bert/embeddings/word_embeddings", ""),
    "embeddings.position_embeddings": ("bert/embeddings/position_embeddings", ""),
    "embeddings.token_type_embeddings": ("bert/embeddings/token_type_embeddings", ""),
    "embeddings.LayerNorm": ("bert/embeddings/LayerNorm", "gamma"),
}
_BIASES = {"gamma": "beta", "kernel": "bias", "output_weights": "output_bias"}

_PROJECTION = "bert/encoder/embedding_hidden_mapping_in/"

# Heads of tasks. Of those that are stored as one module, the first one's names are read.
_HEADS = tuple(head for head in heads().values() if head.huggingface_module)
_SCOPES = {head.huggingface_module: head.scope for head in reversed(_HEADS)}
_TASKS = {module: (scope.rstrip("/"), "output_weights") for module, scope in _SCOPES.items()}


@dataclasses.dataclass(frozen=True)
class _Family:
    """How an architecture names its tensors.

    Attributes:
        prefix: of the names of the encoder in a model with a head.
        block: prefix of the names in a layer; {} stands for its group, and its place in that.
        modules: Hugging Face module -> our scope, and our name of its `weight`.
        block_modules: the same within a layer.
        copies: names of what repeats other tensors.
    """

    prefix: str
    block: str
    modules: Mapping[str, tuple[str, str]]
    block_modules: Mapping[str, tuple[str, str]]
    copies: str

    @functools.cached_property
    def _variables(self) -> dict[str, str]:
        """Names of tensors -> paths of variables, both with {} for the numbers of a layer."""
        in_layers = {
            self.block + module: (_IN_ENCODER + "group_{}/inner_group_{}/" + scope, weight)
            for module, (scope, weight) in self.block_modules.items()
        }
        return _variables({**_EMBEDDINGS, **self.modules, **_TASKS, **in_layers})

    @functools.cached_property
    def _names(self) -> dict[str, str]:
        return {path: name for name, path in self._variables.items()}

    def variable_of(self, name: str) -> str | None:
        """Return the path of the variable for a tensor; None if there is none.

        Tensors of a module that several heads are stored as are those of the first of these heads.
        """
        name = re.sub(r"\.gamma$", ".weight", re.sub(r"\.beta$", ".bias", name))  # of early BERTs
        numbers = re.findall(r"\.(\d+)\.", name)
        path = self._variables.get(re.sub(r"\.\d+\.", ".{}.", name.removeprefix(self.prefix)))
        return path and path.format(*numbers, 0)

    def name_of(self, path: str, prefix: str) -> str:
        """Return the name of a variable; `prefix` precedes names of the encoder."""
        for head in _HEADS:
            if path.startswith(head.scope):
                return self._names[_SCOPES[head.huggingface_module] + path.removeprefix(head.scope)]
        name = self._names[re.sub(r"group_\d+", "group_{}", path)]
        numbers = re.findall(r"group_(\d+)", path)
        return (prefix if path.startswith("bert/") else "") + name.format(*numbers)

    def is_copy(self, name: str) -> bool:
        """Whether a tensor repeats another one, or is a buffer."""
        return bool(re.search(rf"^{self.copies}|embeddings\.(position_ids|token_type_ids)$", name))


def _variables(modules: Mapping[str, tuple[str, str]]) -> dict[str, str]:
    """Return the names of tensors -> our names, for the weights and biases of modules."""
    named = {f"{module}.weight": "/".join(filter(None, names)) for module, names in modules.items()}
    for module, (scope, weight) in modules.items():
        if weight:  # an embedding has no bias
            named[f"{module}.bias"] = f"{scope}/{_BIASES[weight]}"
    return named


_ALBERT = _Family(
    prefix="albert.",
    block="encoder.albert_layer_groups.{}.albert_layers.{}.",
    modules={
        "encoder.embedding_hidden_mapping_in": (_PROJECTION.rstrip("/"), "kernel"),
        "pooler": ("bert/pooler/dense", "kernel"),
        "predictions.dense": ("cls/predictions/transform/dense", "kernel"),
        "predictions.LayerNorm": ("cls/predictions/transform/LayerNorm", "gamma"),
        "predictions": ("cls/predictions", "output_weights"),
        "sop_classifier.classifier": ("cls/seq_relationship", "output_weights"),
    },
    block_modules={
        "attention.query": ("attention_1/self/query", "kernel"),
        "attention.key": ("attention_1/self/key", "kernel"),
        "attention.value": ("attention_1/self/value", "kernel"),
        "attention.dense": ("attention_1/output/dense", "kernel"),
        "attention.LayerNorm": ("LayerNorm", "gamma"),
        "ffn": ("ffn_1/intermediate/dense", "kernel"),
        "ffn_output": ("ffn_1/intermediate/output/dense", "kernel"),
        "full_layer_layer_norm": ("LayerNorm_1", "gamma"),
    },
    copies=r"predictions\.decoder\.",
)
# Modules in a layer of BERT -> scopes of the original. The same names, with slashes, are in BERT's
# checkpoints, and in those of albert_zh.
BERT_SCOPES = {
    "attention.self.query": "attention_1/self/query",
    "attention.self.key": "attention_1/self/key",
    "attention.self.value": "attention_1/self/value",
    "attention.output.dense": "attention_1/output/dense",
    "attention.output.LayerNorm": "LayerNorm",
    "intermediate.dense": "ffn_1/intermediate/dense",
    "output.dense": "ffn_1/intermediate/output/dense",
    "output.LayerNorm": "LayerNorm_1",
}
_BERT = _Family(  # whose layers are groups of one block each
    prefix="bert.",
    block="encoder.layer.{}.",
    modules={
        "pooler.dense": ("bert/pooler/dense", "kernel"),
        "cls.predictions.transform.dense": ("cls/predictions/transform/dense", "kernel"),
        "cls.predictions.transform.LayerNorm": ("cls/predictions/transform/LayerNorm", "gamma"),
        "cls.predictions": ("cls/predictions", "output_weights"),
        "cls.seq_relationship": ("cls/seq_relationship", "output_weights"),
    },
    block_modules={
        module: (scope, "gamma" if "Norm" in scope else "kernel")
        for module, scope in BERT_SCOPES.items()
    },
    copies=r"cls\.predictions\.decoder\.",
)
_FAMILIES = {"albert": _ALBERT, "bert": _BERT}


def _is_kernel(path: str) -> bool:
    return path.endswith("/kernel")


def read_huggingface(path: str) -> Weights:
    """Open the weights in a Hugging Face folder, or in one of its files.

    Raises:
        InputError: If a file is missing or damaged, or is not an ALBERT or BERT model.
    """
    names = find_files(path)
    folder = os.path.dirname(names[0])
    places = (os.path.join(folder, name) for name in (CONFIG, BERT_CONFIG_FILE))
    if (config_file := next(filter(exists, places), None)) is None:
        raise InputError(f"{path}: there is no {CONFIG} next to {os.path.basename(names[0])}")
    described = read_json(config_file, dict[str, Any])
    family = _FAMILIES[family_of(described, config_file)]
    architecture = architecture_of(described)
    tensors, unknown, skipped = {}, {}, {}
    for file in names:
        for name, shape, read in open_tensors(file):
            variable = family.variable_of(name)
            if variable is not None:
                tensors[variable] = _tensor(name, variable, shape, functools.partial(read, name))
            elif family.is_copy(name):
                skipped[name] = shape
            else:
                unknown[name] = shape
    for scope, module in (("bert/embeddings/", "embeddings."), (_IN_ENCODER, family.block)):
        if not any(name.startswith(scope) for name in tensors):
            # "roberta.embeddings.word_embeddings.weight" names the network better than a bias.
            others = sorted(unknown, key=lambda name: (".embeddings." not in name, name))
            found = f"and is perhaps one of several files, which a {SAFETENSORS[1]} lists"
            if others:
                found = f"but {', '.join(others[:3])}, ..."
            raise InputError(
                f"{path}: not an ALBERT or BERT: it has no {family.prefix}{module.format(0, 0)}*, "
                f"which {config_file} implies, {found}"
            )
    config = AlbertConfig.from_json_file(config_file)
    if described.get("tie_word_embeddings") is False and any(".decoder.w" in n for n in skipped):
        refuse = functools.partial(_refuse_untied, config_file)
        for variable in (name for name in tensors if name.startswith("cls/predictions/")):
            tensors[variable] = tensors[variable]._replace(read=refuse)
    if config.embedding_size == config.hidden_size:
        _drop_identity(path, tensors, skipped)
    head = _head_of(architecture.replace("Bert", "Albert", 1), tensors)
    # Its name says what the variables alone do not.
    is_first = head and find_head([head.scope]) == head.name
    named = head.name if head and not is_first else None
    weights = Weights(path, "huggingface", tensors, unknown, skipped, config, head=named)
    return read_as(head.name, weights) if head else weights


def _head_of(architecture: str, paths: Iterable[str]) -> Head | None:
    """Return the head of a task: the one that is named, else one that uses the pooler or not."""
    paths = list(paths)
    scopes = {scope for scope in _SCOPES.values() if any(path.startswith(scope) for path in paths)}
    found = [head for head in _HEADS if _SCOPES[head.huggingface_module] in scopes]
    has_pooler = any(path.startswith("bert/pooler/") for path in paths)
    named = [head for head in found if head.huggingface == architecture]
    fitting = [head for head in found if has_pooler != ("bert/pooler/" in head.optional)]
    return next(iter([*named, *fitting, *found]), None)


def _tensor(name: str, variable: str, shape: tuple[int, ...], read) -> Tensor:
    if _is_kernel(variable):
        return Tensor(name, shape, shape[::-1], lambda: np.ascontiguousarray(read().T))
    return Tensor(name, shape, shape, read)


def _refuse_untied(config_file: str) -> NoReturn:
    raise InputError(
        f"{config_file}: tie_word_embeddings=False: the head for masked tokens has a decoder of "
        "its own, and only one tied to the embeddings is computed; the other parts can be loaded"
    )


def _drop_identity(path: str, tensors: dict[str, Tensor], skipped: dict) -> None:
    """Remove an identity projection; our models have none if E = H."""
    for leaf, nothing in (("kernel", np.eye), ("bias", np.zeros)):
        tensor = tensors.pop(_PROJECTION + leaf, None)
        if tensor is None:
            continue
        if not np.array_equal(tensor.read(), nothing(tensor.shape[0])):
            raise InputError(
                f"{path}: {tensor.name} projects embeddings that are as wide as the layers; "
                "neither the original nor this model has such a projection"
            )
        skipped[tensor.name] = tensor.stored


def write_huggingface(folder: str, model: ConvertedModel, name: str) -> None:
    """Write a folder that transformers and sentence-transformers load, with a card."""
    from albert_tf.interop.huggingface_tokenizer import write_tokenizer

    write_weights(folder, model.values, model.config, _fields(model))
    if model.tokenizer is not None:
        write_tokenizer(model.tokenizer, folder, model.config.max_position_embeddings)
    kind, texts = kind_of(model.head), meaning(model)
    if kind and kind.huggingface_files:
        texts |= kind.huggingface_files(model.source.path, model.config)
    for file, text in texts.items():
        path = os.path.join(folder, file)
        files.make_folder(os.path.dirname(path), "output")
        files.write_text(path, text)
    model_card.write_huggingface_card(folder, name, model)


def _fields(model: ConvertedModel) -> dict[str, Any]:
    """Return the fields of `config.json` that do not describe the encoder."""
    head, tokenizer = HEADS[model.head], model.tokenizer
    fields: dict[str, Any] = {
        "architectures": [model.architecture],
        "pad_token_id": tokenizer.pad_id if tokenizer else 0,
        "bos_token_id": tokenizer.cls_id if tokenizer else 2,
        "eos_token_id": tokenizer.sep_id if tokenizer else 3,
        "dtype": "float32",
    }
    if head.labeled:
        labels = labels_of_outputs(model)
        fields["id2label"] = {str(id): label for id, label in enumerate(labels)}
        fields["label2id"] = {label: id for id, label in enumerate(labels)}
    if (kind := kind_of(model.head)) and (text := meaning(model).get(kind.settings_file)):
        settings = files.parse_json(text, kind.settings_file, dict[str, Any])
        if problem_type := kind.problem_types.get(settings.get("kind", "")):
            fields["problem_type"] = problem_type
    return fields


def write_weights(
    folder: str, values: dict[str, np.ndarray], config: AlbertConfig, fields: dict[str, Any]
) -> None:
    """Write `config.json` and `model.safetensors` into an existing folder.

    Values are by variable path, of every group of layers. `fields` are those of `config.json` that
    are not of the encoder. With the architecture `AlbertModel`, its names have no prefix.
    """
    from safetensors.numpy import save

    family = "bert" if config.is_bert else "albert"
    names = _FAMILIES[family]
    architecture = fields["architectures"][0]
    if config.is_bert:
        architecture = architecture.replace("Albert", "Bert", 1)
    prefix = "" if architecture in ("AlbertModel", "BertModel") else names.prefix
    named = {
        names.name_of(path, prefix): np.ascontiguousarray(value.T if _is_kernel(path) else value)
        for path, value in values.items()
    }
    if config.embedding_size == config.hidden_size and not config.is_bert:
        width = config.hidden_size
        named[names.name_of(_PROJECTION + "kernel", prefix)] = np.eye(width, dtype=np.float32)
        named[names.name_of(_PROJECTION + "bias", prefix)] = np.zeros(width, np.float32)
    # transformers reads only files whose metadata names a format.
    with open_file(os.path.join(folder, SAFETENSORS[0]), "wb") as file:
        file.write(save(named, metadata={"format": "pt"}))
    described = {
        **fields,
        "architectures": [architecture],
        **to_huggingface(dataclasses.asdict(config), family),
    }
    write_text(f"{folder}/{CONFIG}", json.dumps(described, indent=2, sort_keys=True) + "\n")
