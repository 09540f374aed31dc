"""What tests of conversion share: models of every structure with random weights."""

import dataclasses
import json
import pathlib

import keras
import numpy as np

from albert_tf.config import AlbertConfig
from albert_tf.interop.adjacent_files import AdjacentFiles
from albert_tf.interop.convert import write_model
from albert_tf.interop.converted_model import ConvertedModel
from albert_tf.interop.heads import HEADS, create_model
from albert_tf.interop.keras_weights import write_keras_weights
from albert_tf.tokenizers import Tokenizer
from albert_tf.weights import Weights
from tests.conftest import GOLDEN
from tests.support import tiny

_SHAPE = {
    "vocab_size": 70,
    "embedding_size": 12,
    "hidden_size": 24,
    "num_hidden_layers": 6,
    "num_attention_heads": 3,
    "intermediate_size": 40,
    "max_position_embeddings": 20,
}

# The time to build models and write files goes with the number of layers; three show a wrong order
# as well as six, but for groups of several layers.
_OWN = {**_SHAPE, "num_hidden_layers": 3}

CONFIGS = {
    "shared": AlbertConfig(**_OWN),
    "three groups of two": AlbertConfig(
        **_SHAPE, num_hidden_groups=3, inner_group_num=2, hidden_act="relu"
    ),
    "E = H": AlbertConfig(**{**_OWN, "embedding_size": 24}, hidden_act="gelu_exact"),
    "BERT": AlbertConfig(**{**_OWN, "embedding_size": 24}, parameter_sharing="none"),
    "shared attention": AlbertConfig(**_OWN, parameter_sharing="attention", inner_group_num=2),
    "shared feed-forward": AlbertConfig(**_OWN, parameter_sharing="ffn"),
}

# Published weights that examples and notebooks load by name.
PUBLISHED = "albert/albert-base-v2"

# What `write_trained` writes; every further layer costs time in each of an export's functions.
TRAINED = dataclasses.replace(tiny.CONFIG, num_hidden_layers=1)


def random_model(head: str, config: AlbertConfig, seed: int = 0, labels: int = 3) -> keras.Model:
    """Return a model none of whose weights are at a value that they start from."""
    shapes = {f"{HEADS[head].scope}output_weights": (labels, 1)}
    model = create_model(head, config, shapes)
    random = np.random.default_rng(seed)
    for weight in model.weights:
        weight.assign(random.normal(0, 0.2, weight.shape).astype("float32") + 0.1)
    return model


def values_of(model: keras.Model) -> dict[str, np.ndarray]:
    return {weight.path: weight.numpy() for weight in model.weights}


def features(config: AlbertConfig, seed: int = 0, batch: int = 3) -> dict[str, np.ndarray]:
    """Return random inputs with padding; every position is predicted."""
    random = np.random.default_rng(seed)
    length = config.max_position_embeddings
    mask = np.arange(length) < random.integers(length // 2, length + 1, batch)[:, None]
    return {
        "input_ids": (random.integers(5, config.vocab_size, mask.shape) * mask).astype("int32"),
        "input_mask": mask.astype("int32"),
        "segment_ids": ((np.arange(length) > 6) & mask).astype("int32"),
        "masked_lm_positions": np.tile(np.arange(length, dtype="int32"), (batch, 1)),
    }


def keras_file(folder: pathlib.Path, model: keras.Model) -> pathlib.Path:
    folder.mkdir(exist_ok=True)
    (folder / "albert_config.json").write_text(model.config.to_json())
    write_keras_weights(str(folder / "model.weights.h5"), model)
    return folder / "model.weights.h5"


def write_trained(folder: pathlib.Path, head: str = "pretraining", cased: bool = True) -> str:
    """Return a training folder, at step 7, with a tiny model and a vocabulary of letters."""
    from albert_tf.checkpoints import TensorFlowFolder

    folder.mkdir(exist_ok=True)
    TensorFlowFolder(str(folder)).write(7, values_of(random_model(head, TRAINED)))
    (folder / "albert_config.json").write_text(TRAINED.to_json())
    (folder / "vocab.txt").write_text(letters(tiny.VOCAB))
    (folder / "tokenizer_config.json").write_text(json.dumps({"do_lower_case": not cased}))
    return str(folder)


def letters(size: int) -> str:
    """Return a `vocab.txt` of that many lines."""
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"abcdefghijklmnopqrstuvwxyz.,"]
    pieces += [f"##{letter}" for letter in pieces[5:31]]
    pieces += [f"[unused{number}]" for number in range(size)]
    return "\n".join(pieces[:size]) + "\n"


def write_published(folder: str) -> None:
    """Write a Hugging Face folder with a shallow model of base's width, in place of PUBLISHED."""
    tokenizer = Tokenizer.load(str(GOLDEN / "own_text" / "vocabulary.model"))
    config = AlbertConfig.preset(
        "base", vocab_size=tokenizer.vocab_size, num_hidden_layers=1, intermediate_size=64
    )
    values = values_of(create_model("pretraining", config, {}))
    source = Weights("albert_tf", folder, {}, config)
    converted = ConvertedModel("pretraining", config, values, tokenizer, AdjacentFiles(), source)
    write_model(folder, converted, "huggingface")
