"""Reads examples from TFRecord files whose features and lengths are not known in advance."""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from albert_tf.errors import InputError
from albert_tf.input.example_parser import feature_lengths
from albert_tf.input.features import Feature, encoder_features, pretraining_features
from albert_tf.input.record_reader import iter_examples, iter_records
from albert_tf.logs import counted

_MASKS = ("masked_lm_positions", "masked_lm_ids", "masked_lm_weights")
_EXAMPLES_AT_ONCE = 1024

Batch = dict[str, np.ndarray]  # by feature name, [batch, *shape]


def find_features(paths: Sequence[str]) -> dict[str, Feature]:
    """Return the pretraining features of some files, with the lengths of their first examples.

    Raises:
        InputError: If a file is damaged, not for pretraining, or differs from the first one, or if
            there is no example at all.
    """
    # Data preparation writes as many files as asked for, some without an example.
    found = {path: features for path in paths if (features := _features_of(path))}
    if not found:
        raise InputError(f"{paths[0]}: contains no example, nor does any other input file")
    first_path, first = next(iter(found.items()))
    for path, features in found.items():
        if features != first:
            raise InputError(
                f"{path}: the features differ from those of {first_path} ({_listed(features)}; "
                f"{_listed(first)}); inspect the files separately"
            )
    return first


def _features_of(path: str) -> dict[str, Feature]:
    """Return the features of the first example of a file; none if there is no example."""
    record = next(iter_records(path), None)
    if record is None:
        return {}
    try:
        lengths = feature_lengths(record)
    except ValueError:
        raise InputError(f"{path}: the records are not of type tf.train.Example") from None
    missing = [name for name in encoder_features(0) if name not in lengths]
    if missing:
        raise InputError(
            f"{path}: not a file for pretraining: it has no feature {missing[0]!r}, but "
            f"{', '.join(sorted(lengths)) or 'none'}"
        )
    found = {
        name: Feature((lengths[name],), feature.dtype)
        for name, feature in pretraining_features(0, 0).items()
        if name in lengths
    }
    masks = [found[name].shape for name in _MASKS if name in found]
    if len(set(masks)) > 1 or len(masks) not in (0, len(_MASKS)):
        raise InputError(
            f"{path}: the features {', '.join(_MASKS)} are incomplete or differ in length"
        )
    if len({found[name].shape for name in encoder_features(0)}) > 1:
        raise InputError(f"{path}: {', '.join(encoder_features(0))} have different lengths")
    return found


def batches(paths: Sequence[str], features: Mapping[str, Feature]) -> Iterator[Batch]:
    """Yield all examples, file after file, in batches.

    Raises:
        InputError: If a file is damaged, or its examples have different lengths.
    """
    for path in paths:
        for batch in iter_examples(path, features, _EXAMPLES_AT_ONCE):
            _check(path, batch)
            yield batch


def read_some(
    paths: Sequence[str], features: Mapping[str, Feature], first: int, number: int
) -> Batch:
    """Read examples `first` to `first + number` (exclusive), as far as they exist.

    Raises:
        InputError: If the files contain at most `first` examples.
    """
    parts: list[Batch] = []
    seen = 0
    for batch in batches(paths, features):
        count = len(batch["input_ids"])
        chosen = slice(max(0, first - seen), first + number - seen)
        parts.append({name: values[chosen] for name, values in batch.items()})
        seen += count
        if seen >= first + number:
            break
    if seen <= first:
        raise InputError(f"`first`={first}: the files contain only {counted(seen, 'example')}")
    return {name: np.concatenate([part[name] for part in parts]) for name in features}


def _check(path: str, batch: Batch) -> None:
    sequence = batch["input_ids"].shape[1]
    positions = batch.get("masked_lm_positions", np.zeros(1))
    if positions.min(initial=0) < 0 or positions.max(initial=0) >= sequence:
        raise InputError(f"{path}: masked_lm_positions exceed the {sequence} tokens of an example")
    for name in ("input_ids", "masked_lm_ids"):
        if name in batch and batch[name].min(initial=0) < 0:
            raise InputError(f"{path}: {name} contains a negative id")


def _listed(features: Mapping[str, Feature]) -> str:
    return ", ".join(f"{name} {feature.shape[0]}" for name, feature in features.items())
