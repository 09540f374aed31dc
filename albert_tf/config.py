"""AlbertConfig: the shape of a model, in the JSON format of the original project."""

import dataclasses
import json
import math
import os
from typing import Any

from albert_tf import configs, other_configs
from albert_tf.errors import InputError
from albert_tf.files import exists, normalized, read_json

CONFIG_FILE = "albert_config.json"  # next to checkpoints, as in the original's archives
BERT_CONFIG_FILE = "bert_config.json"  # in Google's archives of BERT

ACTIVATIONS = ("gelu", "gelu_exact", "relu")

# Models of the paper (table 1), whose shapes are in `configs`.
_PRESETS = ("base", "large", "xlarge", "xxlarge", "bert_base", "bert_large")

# Which parameters the layers share (paper section 4.4, table 4).
SHARING = ("all", "attention", "ffn", "none")

# Structural options in published config files, with the only value that was ever published.
_ONLY_STRUCTURE = {
    "net_structure_type": 0,
    "gap_size": 0,
    "num_memory_blocks": 0,
    "down_scale_factor": 1,
    "layers_to_keep": [],
    "ln_type": "postln",
}

# Ids of special symbols, which come from the tokenizer instead.
_IGNORED = ("bos_token_id", "eos_token_id", "pad_token_id")


class _Implied(int):
    """A number of groups that follows from `parameter_sharing`.

    `dataclasses.replace` passes on all fields, and this one is to follow from the changed others.
    """


@dataclasses.dataclass(frozen=True)
class AlbertConfig:
    """Shape and regularization of an ALBERT model (paper section 3.1, table 1).

    Args:
        vocab_size: number of token ids.
        embedding_size: width E of the embeddings; unless it is H, a projection E -> H follows them.
        hidden_size: width H of the layers; a multiple of `num_attention_heads`.
        num_hidden_layers: number of layers L; a multiple of `num_hidden_groups`.
        num_hidden_groups: layers are divided into this many groups, each with its own parameters.
            1 shares one set among all layers, `num_hidden_layers` shares nothing. The default
            follows from `parameter_sharing`, and is 1 without that.
        inner_group_num: transformer blocks inside a layer, each with its own parameters.
        num_attention_heads: heads per layer.
        intermediate_size: width of the feed-forward network.
        hidden_act: "gelu" (tanh approximation, the original's), "gelu_exact" or "relu".
        hidden_dropout_prob: dropout after embeddings, attention output and feed-forward output.
        attention_probs_dropout_prob: dropout of attention probabilities.
        max_position_embeddings: longest sequence, in tokens.
        type_vocab_size: number of segment ids; with 1, both texts of a pair have the same.
        initializer_range: standard deviation of the truncated normal that kernels start from.
        layer_norm_eps: what is added to the variance in layer normalization. 1e-12 in the original
            and in BERT; models of other code have others.
        parameter_sharing: what all layers share: "all", "attention" (every layer has its own
            feed-forward network), "ffn" (every layer has its own attention) or "none". A layer
            normalization is shared together with the part that it follows. None leaves it to
            `num_hidden_groups`.

    Raises:
        InputError: If a value is out of range or two values contradict each other.

    Example:
        >>> config = albert_tf.AlbertConfig.preset("base", vocab_size=32000)
        >>> config.hidden_size, config.num_hidden_layers, config.num_hidden_groups
        (768, 12, 1)
        >>> config.parameter_count()
        11939584
    """

    vocab_size: int = 30000
    embedding_size: int = 128
    hidden_size: int = 768
    num_hidden_layers: int = 12
    num_hidden_groups: int = None  # type: ignore[assignment]  # __post_init__ sets it
    inner_group_num: int = 1
    num_attention_heads: int = 12
    intermediate_size: int = 3072
    hidden_act: str = "gelu"
    hidden_dropout_prob: float = 0.0
    attention_probs_dropout_prob: float = 0.0
    max_position_embeddings: int = 512
    type_vocab_size: int = 2
    initializer_range: float = 0.02
    layer_norm_eps: float = 1e-12
    parameter_sharing: str | None = None

    def __post_init__(self) -> None:
        self._resolve_groups()
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if field.type is int and (type(value) not in (int, _Implied) or value < 1):
                raise InputError(f"{field.name}={value!r}: must be a whole number of at least 1")
            if field.type is float and type(value) not in (int, float):
                raise InputError(f"{field.name}={value!r}: must be a number")
            if field.name.endswith("dropout_prob") and not 0 <= value < 1:
                raise InputError(f"{field.name}={value!r}: must be at least 0 and below 1")
        if not 0 < self.layer_norm_eps < math.inf:
            raise InputError(f"layer_norm_eps={self.layer_norm_eps!r}: must be above 0")
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

    def _resolve_groups(self) -> None:
        """Set `num_hidden_groups` from `parameter_sharing`, or check that they agree."""
        sharing, groups = self.parameter_sharing, self.num_hidden_groups
        if sharing not in (None, *SHARING):
            raise InputError(f"parameter_sharing={sharing!r}: must be one of {', '.join(SHARING)}")
        implied = 1 if sharing in (None, "all") else self.num_hidden_layers
        if groups is None or (sharing is not None and isinstance(groups, _Implied)):
            groups = implied
        if groups == implied and type(groups) is int:
            object.__setattr__(self, "num_hidden_groups", _Implied(groups))
        elif sharing is not None and groups != implied:
            raise InputError(
                f"parameter_sharing={sharing!r} contradicts num_hidden_groups={groups}: leave one "
                f"of them out ({sharing!r} means num_hidden_groups={implied})"
            )

    @classmethod
    def preset(cls, size: str, version: int = 2, **changes: Any) -> "AlbertConfig":
        """Return the config of a model in the paper (table 1).

            AlbertConfig.preset("base", vocab_size=32000)

        All have a vocabulary of 30,000 ids. That includes BERT (arXiv 1810.04805), whose published
        models have 30,522 or 28,996, so that a comparison of models is one of equal vocabularies,
        as in the paper.

        Args:
            size: "base", "large", "xlarge" or "xxlarge"; "bert_base" or "bert_large" for BERT,
                which has `parameter_sharing` "none" and embeddings of the width of its layers. Or
                the name of any shipped config, such as "base_v2" or "small".
            version: 1 (dropout 0.1, except xxlarge) or 2 (no dropout). There is one version of
                BERT, with dropout 0.1, and of every shipped config, which both numbers return.
            **changes: fields to change, such as `vocab_size`.

        Raises:
            InputError: If there is no such preset, or a changed field is invalid.
        """
        shipped = configs.model_configs()
        if size not in (*_PRESETS, *shipped) or version not in (1, 2):
            raise InputError(
                f"no preset {size!r} version {version!r}: sizes are {', '.join(_PRESETS)}, "
                f"versions 1 and 2; or one of the configs {', '.join(shipped)}"
            )
        name = size if size in shipped else f"{size}_v{version}"
        fields = read_json(shipped[name], dict[str, Any])
        del fields["num_hidden_groups"]  # which follows from `parameter_sharing`
        return cls(**{**fields, **changes})

    @classmethod
    def from_dict(cls, values: dict[str, Any], source: str = "config") -> "AlbertConfig":
        """Create a config from a dictionary.

        Args:
            values: content of an `albert_config.json`, of a Hugging Face `config.json` (with
                `model_type` or `architectures`; its unknown keys are ignored) of an ALBERT or a
                BERT, or of a config of albert_zh (with keys of BERT such as `directionality`, and
                none of the original's).
            source: origin of the values, for errors.

        Raises:
            InputError: If a key is unknown, a value is out of range, or it is another architecture.
        """
        known = {field.name for field in dataclasses.fields(cls)}
        others = (*_ONLY_STRUCTURE, *_IGNORED, *other_configs.BERT_KEYS)
        if "model_type" in values or "architectures" in values:
            values = other_configs.from_huggingface(values, {*known, *others}, source)
        elif other_configs.is_albert_zh(values):
            values = other_configs.from_albert_zh(values, source)
        other_configs.check_only(values, _ONLY_STRUCTURE, source)
        values = {key: value for key, value in values.items() if key not in others}
        if unknown := sorted(set(values) - known):
            raise InputError(
                f"{source}: unknown key {unknown[0]!r}; known keys are {', '.join(sorted(known))}"
            )
        try:
            return cls(**values)
        except InputError as error:
            raise InputError(f"{source}: {error}") from None

    @classmethod
    def from_json_file(cls, path: str | os.PathLike[str]) -> "AlbertConfig":
        """Read an `albert_config.json`.

        Args:
            path: of the file, or the name of a config shipped with the package, such as "base_v2".
                A `bert_config.json` describes a BERT, as in Google's archives, and so does a
                `config.json` with BERT's keys alone.

        Raises:
            InputError: If the file is missing, is not JSON, or does not describe a model.
        """
        named = configs.model_configs()
        path = configs.path_of(normalized(path), named)
        if not exists(path):
            raise InputError(
                f"{path}: no such file (an albert_config.json is needed), nor one of the "
                f"configs {', '.join(named)}"
            )
        values = read_json(path, dict[str, Any])
        name = os.path.basename(path)
        is_plain = name == "config.json" and other_configs.is_plain_bert(values)
        if is_plain or name == BERT_CONFIG_FILE:
            values["model_type"] = values.get("model_type") or "bert"
        return cls.from_dict(values, source=path)

    def check_vocabulary(self, size: int, source: str) -> None:
        """Raise InputError if a vocabulary from the file `source` has more ids than the model.

        Tables of embeddings are often longer, of a size that is a multiple of 64 for example.
        """
        if size > self.vocab_size:
            raise InputError(
                f"{source}: has {size} ids, but vocab_size of the model's config is only "
                f"{self.vocab_size}"
            )

    def check_length(self, length: int, source: str | None) -> None:
        """Raise InputError if sequences are longer than a model with the config `source` allows."""
        if length > self.max_position_embeddings:
            raise InputError(
                f"`max_seq_length`={length}: {source or 'the config of the model'} has "
                f"max_position_embeddings {self.max_position_embeddings}"
            )

    def to_json(self) -> str:
        """Return the text of an `albert_config.json`."""
        return json.dumps(self.to_dict(), indent=2) + "\n"

    def to_dict(self) -> dict[str, Any]:
        """Return the fields of an `albert_config.json`, from which `from_dict` recreates it."""
        values = dataclasses.asdict(self)
        for field in ("parameter_sharing", "layer_norm_eps"):  # unknown to the original
            if values[field] == getattr(type(self), field):
                del values[field]
        return values

    @property
    def is_bert(self) -> bool:
        """Whether the encoder is a BERT: layers share nothing, and E = H."""
        if self.embedding_size != self.hidden_size or self.inner_group_num > 1:
            return False
        # A config of the original says nothing about sharing.
        separate = self.parameter_sharing is None and self.num_hidden_groups > 1
        return self.parameter_sharing == "none" or (
            separate and self.num_hidden_groups == self.num_hidden_layers
        )

    def parameter_count(self) -> int:
        """Return the number of parameters of the encoder with its pooler, without heads."""
        e, h, i = self.embedding_size, self.hidden_size, self.intermediate_size
        rows = self.vocab_size + self.max_position_embeddings + self.type_vocab_size
        embeddings = rows * e + 2 * e
        projection = e * h + h if e != h else 0
        attention = 4 * (h * h + h) + 2 * h
        feed_forward = h * i + i + i * h + h + 2 * h
        pooler = h * h + h
        attention_groups = 1 if self.parameter_sharing == "attention" else self.num_hidden_groups
        feed_forward_groups = 1 if self.parameter_sharing == "ffn" else self.num_hidden_groups
        layers = attention_groups * attention + feed_forward_groups * feed_forward
        return embeddings + projection + self.inner_group_num * layers + pooler
