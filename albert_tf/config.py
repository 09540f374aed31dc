"""AlbertConfig: the shape of a model, in the JSON format of the original project."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

from albert_tf.errors import InputError
from albert_tf.files import exists, open_file

ACTIVATIONS = ("gelu", "gelu_exact", "relu")

# Presets of the paper (table 1). Version 2 has no dropout, except xxlarge, which never had any.
_SHAPES = {
    "base": {"hidden_size": 768, "num_attention_heads": 12, "num_hidden_layers": 12},
    "large": {"hidden_size": 1024, "num_attention_heads": 16, "num_hidden_layers": 24},
    "xlarge": {"hidden_size": 2048, "num_attention_heads": 16, "num_hidden_layers": 24},
    "xxlarge": {"hidden_size": 4096, "num_attention_heads": 64, "num_hidden_layers": 12},
}
_DROPOUT = {
    ("base", 1): 0.1,
    ("large", 1): 0.1,
    ("xlarge", 1): 0.1,
    ("xxlarge", 1): 0.0,
    ("base", 2): 0.0,
    ("large", 2): 0.0,
    ("xlarge", 2): 0.0,
    ("xxlarge", 2): 0.0,
}

# Keys that published config files hold and that no computation reads.
_IGNORED_KEYS = (
    "net_structure_type",
    "layers_to_keep",
    "gap_size",
    "num_memory_blocks",
    "down_scale_factor",
    "ln_type",
    "bos_token_id",
    "eos_token_id",
)


@dataclasses.dataclass(frozen=True)
class AlbertConfig:
    """Shape and regularisation of an ALBERT model (paper section 3.1, table 1).

    Args:
        vocab_size: number of token ids.
        embedding_size: width E of the embeddings; where it differs from `hidden_size` a projection
            E -> H follows them.
        hidden_size: width H of the layers; a multiple of `num_attention_heads`.
        num_hidden_layers: number of layers L; a multiple of `num_hidden_groups`.
        num_hidden_groups: layers are divided into this many groups, each with its own parameters;
            1 shares one set among all layers.
        inner_group_num: transformer blocks inside a layer, each with its own parameters.
        num_attention_heads: heads per layer.
        intermediate_size: width of the feed-forward network.
        hidden_act: "gelu" (tanh approximation, the original's), "gelu_exact" or "relu".
        hidden_dropout_prob: dropout after embeddings, attention output and feed-forward output.
        attention_probs_dropout_prob: dropout of attention probabilities.
        max_position_embeddings: longest sequence, in tokens.
        type_vocab_size: number of segment ids.
        initializer_range: standard deviation of the truncated normal that kernels start from.

    Raises:
        InputError: a value is out of range or two contradict each other.
    """

    vocab_size: int = 30000
    embedding_size: int = 128
    hidden_size: int = 768
    num_hidden_layers: int = 12
    num_hidden_groups: int = 1
    inner_group_num: int = 1
    num_attention_heads: int = 12
    intermediate_size: int = 3072
    hidden_act: str = "gelu"
    hidden_dropout_prob: float = 0.0
    attention_probs_dropout_prob: float = 0.0
    max_position_embeddings: int = 512
    type_vocab_size: int = 2
    initializer_range: float = 0.02

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if field.type == "int" and (not isinstance(value, int) or value < 1):
                raise InputError(f"{field.name}={value!r}: must be a whole number of at least 1")
            if field.name.endswith("dropout_prob") and not 0 <= value < 1:
                raise InputError(f"{field.name}={value!r}: must be at least 0 and below 1")
        if self.hidden_size % self.num_attention_heads:
            raise InputError(
                f"hidden_size={self.hidden_size} is not a multiple of "
                f"num_attention_heads={self.num_attention_heads}"
            )
        if self.num_hidden_layers % self.num_hidden_groups:
            raise InputError(
                f"num_hidden_layers={self.num_hidden_layers} is not a multiple of "
                f"num_hidden_groups={self.num_hidden_groups}"
            )
        if self.hidden_act not in ACTIVATIONS:
            raise InputError(
                f"hidden_act={self.hidden_act!r}: must be one of {', '.join(ACTIVATIONS)}"
            )

    @classmethod
    def preset(cls, size: str, version: int = 2, **changes: Any) -> AlbertConfig:
        """A model of the paper: size "base", "large", "xlarge" or "xxlarge", version 1 or 2.

        Args:
            size: the model's name in the paper.
            version: 1 has dropout 0.1 (xxlarge 0); 2 has none.
            **changes: fields that differ, such as `vocab_size`.
        """
        if (size, version) not in _DROPOUT:
            raise InputError(
                f"no preset {size!r} version {version!r}: sizes are {', '.join(_SHAPES)}, "
                "versions 1 and 2"
            )
        dropout = _DROPOUT[size, version]
        fields = {
            **_SHAPES[size],
            "intermediate_size": 4 * _SHAPES[size]["hidden_size"],
            "hidden_dropout_prob": dropout,
            "attention_probs_dropout_prob": dropout,
        }
        return cls(**{**fields, **changes})

    @classmethod
    def from_dict(cls, values: dict[str, Any], source: str = "config") -> AlbertConfig:
        """The config of a dictionary; `source` is named in errors.

        Raises:
            InputError: a key is unknown, or a value out of range.
        """
        known = {field.name for field in dataclasses.fields(cls)}
        values = {key: value for key, value in values.items() if key not in _IGNORED_KEYS}
        if unknown := sorted(set(values) - known):
            raise InputError(
                f"{source}: unknown key {unknown[0]!r}; known are {', '.join(sorted(known))}"
            )
        try:
            return cls(**values)
        except InputError as error:
            raise InputError(f"{source}: {error}") from None

    @classmethod
    def from_json_file(cls, path: str) -> AlbertConfig:
        """Reads an `albert_config.json`.

        Raises:
            InputError: the file is missing, is not JSON, or does not describe a model.
        """
        if not exists(path):
            raise InputError(f"{path}: no such file (an albert_config.json is needed)")
        with open_file(path) as file:
            try:
                values = json.load(file)
            except ValueError as error:
                raise InputError(f"{path}: not a JSON file ({error})") from None
        if not isinstance(values, dict):
            raise InputError(f"{path}: must hold a JSON object, not a {type(values).__name__}")
        return cls.from_dict(values, source=path)

    def check_vocabulary(self, size: int, source: str) -> None:
        """Raises InputError if a vocabulary of `size` ids, from the file `source`, does not fit."""
        if size != self.vocab_size:
            raise InputError(
                f"{source}: has {size} ids, but vocab_size of the model's config is "
                f"{self.vocab_size}"
            )

    def to_json(self) -> str:
        """The text of an `albert_config.json`."""
        return json.dumps(dataclasses.asdict(self), indent=2) + "\n"

    def parameter_count(self) -> int:
        """Parameters of the encoder with its pooler, without heads, by formula."""
        e, h, i = self.embedding_size, self.hidden_size, self.intermediate_size
        rows = self.vocab_size + self.max_position_embeddings + self.type_vocab_size
        embeddings = rows * e + 2 * e
        projection = e * h + h if e != h else 0
        attention = 4 * (h * h + h) + 2 * h
        feed_forward = h * i + i + i * h + h + 2 * h
        block = attention + feed_forward
        pooler = h * h + h
        blocks = self.num_hidden_groups * self.inner_group_num
        return embeddings + projection + blocks * block + pooler
