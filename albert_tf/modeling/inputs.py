"""What models accept as input: names, shapes, dtypes and values of the features."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import keras
import numpy as np
from keras import ops

from albert_tf.config import AlbertConfig
from albert_tf.errors import InputError

ENCODER_FEATURES = ("input_ids", "input_mask", "segment_ids")

# Names that Hugging Face transformers and the TensorFlow Model Garden give these features.
ALIASES = {
    "input_word_ids": "input_ids",
    "attention_mask": "input_mask",
    "token_type_ids": "segment_ids",
    "input_type_ids": "segment_ids",
}

# What else the batches of this project contain: labels of objectives, and what the input pipeline
# adds. Models ignore it, so that a whole batch can be passed.
OTHER_IN_BATCHES = frozenset(
    (
        "masked_lm_positions",
        "masked_lm_ids",
        "masked_lm_weights",
        "next_sentence_labels",
        "token_boundary",
        "label_ids",
        "label_probabilities",
        "teacher_probabilities",
        "label_values",
        "label_sets",
        "choice_mask",
        "start_positions",
        "end_positions",
        "is_impossible",
        "is_real_example",
        "example_weights",
        "example_number",
    )
)


def read_features(
    features: Mapping[str, Any], feature_names: Sequence[str], rank: int, longest: int
) -> dict[str, Any]:
    """Rename aliases, check names, dtypes and shapes, and return the features that a model reads.

    Args:
        features: what the model was called with.
        feature_names: the features that it reads, besides those of the encoder.
        rank: number of axes of the encoder's features.
        longest: the longest sequence, in tokens.

    Raises:
        InputError: If a feature is missing, unknown or invalid.
    """
    features = renamed(features)
    read = (*ENCODER_FEATURES, *feature_names)
    if unknown := sorted(set(features) - {*read, *OTHER_IN_BATCHES}):
        raise InputError(
            f"`features`: unknown key {unknown[0]!r}; valid keys are {', '.join(read)}, "
            f"and as other names of them {', '.join(ALIASES)}"
        )
    if features.get("input_ids") is None:
        raise InputError(
            f"`features`: has no input_ids; keys are {', '.join(features) or 'missing'}"
        )
    features = {
        name: _integers(name, features[name]) for name in read if features.get(name) is not None
    }
    _check_shapes(features, rank, longest)
    return features


def model_features(model: keras.Model, batch: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the features of a batch that a model reads.

    A batch may contain labels that only an objective knows, under names of its own.

    Args:
        model: a model of this project; other models get the whole batch.
        batch: features and labels, by name.
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
    for name in ENCODER_FEATURES[1:]:
        if name in shapes and not _may_be_equal(shapes[name], expected):
            raise InputError(
                f"`features`: {name} has shape {list(shapes[name])}, but must have that of "
                f"input_ids, {list(expected)}"
            )
    if expected[-1] is not None and expected[-1] > longest:
        raise InputError(
            f"`features`: input_ids has shape {list(expected)}, but the model reads at most "
            f"{longest} tokens (max_position_embeddings)"
        )


def _may_be_equal(shape: Iterable[int | None], other: Iterable[int | None]) -> bool:
    one, two = list(shape), list(other)
    return len(one) == len(two) and all(
        None in sizes or sizes[0] == sizes[1] for sizes in zip(one, two, strict=True)
    )


def check_values(features: Mapping[str, Any], config: AlbertConfig) -> None:
    """Check values that exist, unlike those of a function that is being traced.

    Raises:
        InputError: If a value is out of range.
    """
    limits = {
        "input_ids": (config.vocab_size, "vocab_size"),
        "input_mask": (2, "1 for tokens, 0 for padding"),
        "segment_ids": (config.type_vocab_size, "type_vocab_size"),
        "masked_lm_positions": (features["input_ids"].shape[-1], "the length of the sequences"),
        "start_positions": (features["input_ids"].shape[-1], "the length of the sequences"),
    }
    for name, value in features.items():
        limit, reason = limits.get(name, (None, ""))
        values = None if limit is None else _concrete(value)
        if values is None or not values.size:
            continue
        least, most = int(values.min()), int(values.max())
        if least < 0 or most >= limit:
            wrong = least if least < 0 else most
            raise InputError(
                f"`features`: {name} contains {wrong}, but must be in [0, {limit - 1}] ({reason})"
            )


def _concrete(value) -> np.ndarray | None:
    """Return the values of a tensor; None for a symbolic one or one of other machines."""
    try:
        values = np.asarray(value)
    except Exception:  # each backend refuses in its own way
        return None
    return values if values.dtype.kind in "iub" else None
