"""AlbertModel: what the encoder and all models with heads have in common as Keras models.

That is mainly what they accept as input: names, shapes, dtypes and values of the features.
"""

import dataclasses
import fnmatch
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, TypeVar

import keras
import numpy as np
from keras import ops

import albert_tf
from albert_tf.config import AlbertConfig
from albert_tf.errors import InputError
from albert_tf.modeling.attention import DEFAULT, attention_name, find_attention

ENCODER_FEATURES = ("input_ids", "input_mask", "segment_ids")
# Of rows of several examples, instead of `input_mask`; models of pretraining read them.
ROW_FEATURES = ("example_ids", "cls_positions")

# Names that Hugging Face transformers and the TensorFlow Model Garden give these features.
ALIASES = {
    "input_word_ids": "input_ids",
    "attention_mask": "input_mask",
    "token_type_ids": "segment_ids",
    "input_type_ids": "segment_ids",
}

# What else the batches of this project contain: labels of objectives, and what the input pipeline
# adds. Models ignore it, so that a whole batch can be passed.
_OTHER_IN_BATCHES = (
    "masked_lm_positions", "masked_lm_ids", "masked_lm_weights", "next_sentence_labels",
    "next_sentence_weights", "token_boundary", "label_ids", "label_probabilities",
    "teacher_probabilities", "label_values", "label_sets", "choice_mask", "start_positions",
    "end_positions", "is_impossible", "is_real_example", "example_weights", "example_number",
)  # fmt: skip

Self = TypeVar("Self", bound="AlbertModel")


class AlbertModel(keras.Model):
    """A Keras model that is called with a dictionary of features and created from its config.

    Its `attention` is a name or function as in `albert_tf.modeling.attention`.

    Attributes:
        feature_names: the features that `call` reads, besides those of the encoder.
        encoder_rank: number of axes of the encoder's features.
    """

    feature_names: ClassVar[tuple[str, ...]] = ()
    encoder_rank: ClassVar[int] = 2

    def __init__(self, config: AlbertConfig, attention: str | Callable = DEFAULT, **kwargs):
        super().__init__(**kwargs)
        self.config = config
        self.attention = find_attention(attention)

    @classmethod
    def from_preset(
        cls: type[Self], name: str | os.PathLike[str], *, load_weights: bool = True, **arguments
    ) -> Self:
        """Create the model with the config and the weights of published ones.

        Arguments and errors are those of `albert_tf.from_preset`.
        """
        return albert_tf.from_preset(name, cls, load_weights=load_weights, **arguments)

    def __call__(self, features, *args, **kwargs):
        features = self._read(features)
        _check_values(features, self.config)
        return super().__call__(features, *args, **kwargs)

    def stateless_call(self, trainable_variables, non_trainable_variables, features, **kwargs):
        # Keras on JAX trains and predicts with this method, which does not use `__call__`.
        return super().stateless_call(
            trainable_variables, non_trainable_variables, self._read(features), **kwargs
        )

    def _read(self, features) -> dict[str, Any]:
        """Rename aliases, check names, dtypes and shapes, and return the features of `call`."""
        features = renamed(features)
        read = (*ENCODER_FEATURES, *self.feature_names)
        if unknown := sorted(set(features) - {*read, *_OTHER_IN_BATCHES}):
            raise InputError(
                f"`features`: unknown key {unknown[0]!r}; valid keys are {', '.join(read)}, "
                f"and as other names of them {', '.join(ALIASES)}"
            )
        if features.get("input_ids") is None:
            raise InputError(
                f"`features`: has no input_ids; keys are {', '.join(features) or 'missing'}"
            )
        given = [name for name in read if features.get(name) is not None]
        features = {name: _integers(name, features[name]) for name in given}
        _check_shapes(features, self.encoder_rank, self.config.max_position_embeddings)
        if (rows := [name for name in ROW_FEATURES if name in features]) and (
            len(rows) < len(ROW_FEATURES) or "input_mask" in features
        ):
            raise InputError(
                f"`features`: rows have {' and '.join(ROW_FEATURES)}, both, and no input_mask; got "
                f"{', '.join(features)}"
            )
        return features

    def get_config(self):
        return {
            "config": dataclasses.asdict(self.config),
            "name": self.name,
            "dtype": keras.dtype_policies.serialize(self.dtype_policy),
            "attention": attention_name(self.attention),
            # Keras saves which variables an optimizer has, but not which ones are trainable.
            "frozen": [weight.path for weight in self.weights if not weight.trainable],
        }

    @classmethod
    def from_config(cls, config):
        config = dict(config)
        frozen = config.pop("frozen", ())
        model = cls(AlbertConfig(**config.pop("config")), **config)
        _freeze_paths(model, frozen)
        return model


def freeze(model: keras.Model, patterns: Sequence[str]) -> list[str]:
    """Make variables of a model untrainable: no updates, no weight decay, no optimizer memory.

    Call it before the optimizer is built or the model is compiled. To train a variable again, set
    its `trainable` attribute.

    Args:
        model: any model; its other variables keep what `trainable` they have.
        patterns: of variable paths, with the wildcards `*` (also across `/`), `?` and `[...]`.

    Returns:
        The paths of the variables that match.

    Raises:
        InputError: If a pattern matches no variable, or no variable is left to train.

    Example:
        >>> config = albert_tf.AlbertConfig(vocab_size=100, hidden_size=32, num_attention_heads=2)
        >>> model = albert_tf.AlbertForSequenceClassification(config, num_labels=2)
        >>> len(albert_tf.freeze(model, ["bert/*"])), len(model.trainable_weights)
        (25, 2)
    """
    paths = [weight.path for weight in model.weights]
    for pattern in patterns:
        if not fnmatch.filter(paths, pattern):
            raise InputError(
                f"`patterns`={pattern}: matches no variable of the model; its variables are "
                f"{', '.join(paths)}"
            )
    frozen = {path for pattern in patterns for path in fnmatch.filter(paths, pattern)}
    if all(weight.path in frozen for weight in model.trainable_weights):
        raise InputError(f"`patterns`={','.join(patterns)}: leaves no variable to train")
    _freeze_paths(model, frozen)
    return [path for path in paths if path in frozen]


def _freeze_paths(model: keras.Model, paths) -> None:
    for weight in model.weights:
        if weight.path in paths:
            weight.trainable = False


def model_features(model: keras.Model, batch: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the features of a batch that a model reads.

    A batch may contain labels that only an objective knows, under names of its own. Models that are
    not of this project get the whole batch.
    """
    names = getattr(model, "feature_names", None)
    if names is None:
        return batch
    read = (*ENCODER_FEATURES, *names)
    return {name: value for name, value in batch.items() if name in read}


def renamed(features: Mapping[str, Any]) -> dict[str, Any]:
    """Return the features under the names of this project.

    Raises:
        InputError: If they are not a dictionary, or contain the same feature under two names.
    """
    if not isinstance(features, Mapping):
        raise InputError(
            "`features`: must be a dictionary with input_ids and, as far as needed, input_mask and "
            f"segment_ids; got {type(features).__name__}"
        )
    result: dict[str, Any] = {}
    given: dict[str, str] = {}
    for name, value in features.items():
        key = ALIASES.get(name, name)
        if key in given:
            raise InputError(
                f"`features`: contains {given[key]} and {name}, which are names of the same feature"
            )
        given[key], result[key] = name, value
    return result


def _integers(name: str, value):
    """Return a feature as a tensor or array of int32 or int64."""
    if not hasattr(value, "dtype"):
        try:
            value = np.asarray(value)
        except ValueError as error:
            raise InputError(f"`features`: {name} is no array ({error})") from None
    dtype = str(value.dtype)
    if not isinstance(value, np.ndarray):
        dtype = getattr(value.dtype, "name", dtype.removeprefix("torch."))
    if dtype in ("int32", "int64"):
        return value
    if "int" not in dtype and not (dtype == "bool" and name == "input_mask"):
        raise InputError(f"`features`: {name} has dtype {dtype}, but must be of integers")
    return value.astype("int64") if isinstance(value, np.ndarray) else ops.cast(value, "int32")


def _check_shapes(features: Mapping[str, Any], rank: int, longest: int) -> None:
    """Compare static shapes, in which unknown sizes are None."""
    shapes = {name: tuple(value.shape) for name, value in features.items()}
    expected = shapes["input_ids"]
    axes = "[batch, seq]" if rank == 2 else "[batch, choices, seq]"
    if len(expected) != rank:
        raise InputError(f"`features`: input_ids has shape {list(expected)}, but must be {axes}")
    for name in (*ENCODER_FEATURES[1:], "example_ids"):
        if name in shapes and not _may_be_equal(shapes[name], expected):
            raise InputError(
                f"`features`: {name} has shape {list(shapes[name])}, but must have that of "
                f"input_ids, {list(expected)}"
            )
    begins = shapes.get("cls_positions", (None, None))
    if not _may_be_equal(begins, (expected[0], None)):
        raise InputError(
            f"`features`: cls_positions has shape {list(begins)}, but must be "
            f"[{expected[0] or 'batch'}, examples]"
        )
    if expected[-1] is not None and expected[-1] > longest:
        raise InputError(
            f"`features`: input_ids has shape {list(expected)}, but the model reads at most "
            f"{longest} tokens (max_position_embeddings)"
        )


def _may_be_equal(shape: tuple[int | None, ...], other: tuple[int | None, ...]) -> bool:
    pairs = zip(shape, other, strict=False)
    return len(shape) == len(other) and all(None in (a, b) or a == b for a, b in pairs)


def _check_values(features: Mapping[str, Any], config: AlbertConfig) -> None:
    """Check values that exist, unlike those of a function that is being traced."""
    begins = features.get("cls_positions")
    examples = 0 if begins is None else begins.shape[-1] or 0  # where unknown, there is no value
    limits = {
        "input_ids": (config.vocab_size, "vocab_size"),
        "input_mask": (2, "1 for tokens, 0 for padding"),
        # With a single segment, the encoder takes those of pairs for 0.
        "segment_ids": (max(2, config.type_vocab_size), "type_vocab_size"),
        "example_ids": (examples + 1, "the number of cls_positions, or 0"),
        "cls_positions": (features["input_ids"].shape[-1], "the length of the sequences"),
        "masked_lm_positions": (features["input_ids"].shape[-1], "the length of the sequences"),
        "start_positions": (features["input_ids"].shape[-1], "the length of the sequences"),
    }
    for name, value in features.items():
        limit, reason = limits.get(name, (None, ""))
        values = None if limit is None else _concrete(value)
        if values is None or not values.size:
            continue
        for value in (int(values.min()), int(values.max())):
            if not 0 <= value < limit:
                raise InputError(
                    f"`features`: {name} contains {value}, but must be in [0, {limit - 1}] "
                    f"({reason})"
                )
    numbers, begins = (_concrete(features.get(name)) for name in ROW_FEATURES)
    if numbers is None or begins is None:
        return
    rows, found = np.nonzero((numbers > 0) & (np.diff(numbers, axis=1, prepend=0) != 0))
    given = begins[rows, numbers[rows, found] - 1]
    for wrong in np.flatnonzero(given != found)[:1]:
        raise InputError(
            f"`features`: cls_positions contains {given[wrong]}, but example "
            f"{numbers[rows, found][wrong]} of a row begins at {found[wrong]}"
        )


def _concrete(value) -> np.ndarray | None:
    """Return the values of a tensor; None for a symbolic one or one of other machines."""
    try:
        values = np.asarray(value)
    except Exception:  # each backend refuses in its own way
        return None
    return values if values.dtype.kind in "iub" else None
