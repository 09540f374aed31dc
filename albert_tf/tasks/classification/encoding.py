"""Encodes texts and pairs for classification, weights labels, and combines what parts say."""

import math
from collections.abc import Mapping, Sequence

import numpy as np

from albert_tf.errors import InputError
from albert_tf.files import exists, read_json
from albert_tf.input.examples import Features
from albert_tf.tasks.classification.datasets import Example
from albert_tf.tasks.classification.options import check_long_texts, in_windows
from albert_tf.tokenizers import Tokenizer, packing


def featurize(
    examples: Sequence[Example], tokenizer: Tokenizer, max_seq_length: int, long_texts: str = "head"
) -> Features:
    """Encode texts as `[CLS] text [SEP]`, and pairs as `[CLS] text [SEP] pair [SEP]`.

    Examples are all pairs, or none is. Of a pair that is too long, the longer text loses tokens
    first, as in the original's `_truncate_seq_pair`; how long texts are read is as for
    `ClassificationOptions`. `max_seq_length` includes special symbols.
    """
    if max_seq_length < packing.MIN_LENGTH:
        raise InputError(
            f"`max_seq_length`={max_seq_length}: must be at least {packing.MIN_LENGTH}"
        )
    texts = tokenizer.encode_batch([example.text for example in examples])
    pairs: list[np.ndarray | None] = [None] * len(texts)
    if examples[0].text_pair is not None:
        check_long_texts(long_texts, pairs=True)
        pairs = [*tokenizer.encode_batch([example.text_pair or "" for example in examples])]
    shorten = packing.keep_ends if long_texts == "head_tail" else packing.keep_start
    parts: list[tuple[np.ndarray, np.ndarray | None]] = []
    dropped, first_windows = [], []
    room = max_seq_length - 2
    for text, pair in zip(texts, pairs, strict=True):
        first_windows.append(len(parts))
        if in_windows(long_texts):
            starts = packing.window_starts(len(text), room)
            parts += [(text[start : start + room], None) for start in starts]
            dropped += [0] * len(starts)
        else:
            parts.append(packing.truncate(text, pair, max_seq_length, shorten))
            dropped.append(_length(text, pair) - _length(*parts[-1]))
    sequences = [packing.sequence(tokenizer, *part) for part in parts]
    return Features(sequences, tokenizer.pad_id, tokens_cut=dropped, first_windows=first_windows)


def combined(logits: np.ndarray, features: Features, long_texts: str) -> np.ndarray:
    """Return the logits of texts: the mean or maximum of those of their windows."""
    first = features.first_windows
    if long_texts == "windows_max":
        return np.maximum.reduceat(logits, first)
    return np.add.reduceat(logits, first) / features.windows_per_text[:, None].astype(logits.dtype)


def _length(text: np.ndarray, pair: np.ndarray | None) -> int:
    return len(text) + (0 if pair is None else len(pair))


BALANCED = "balanced"


def class_weights(
    given: str | Mapping[str, float], labels: Sequence[str], ids: np.ndarray
) -> np.ndarray:
    """Return the weight of every label, float32 `[labels]`.

    A balanced weight is examples / (labels * examples with the label), as in scikit-learn.

    Args:
        given: `BALANCED`; a JSON file, or a mapping, from labels to weights.
        labels: all labels.
        ids: int `[examples]`, of the labels of the training examples; negative without one.
    """
    if given == BALANCED:
        ids = ids[ids >= 0]
        counts = np.bincount(ids, minlength=len(labels))
        return (len(ids) / (len(labels) * np.maximum(counts, 1))).astype(np.float32)
    source = f"`class_weights`={given}" if isinstance(given, str) else "`class_weights`"
    if isinstance(given, str) and not exists(given):
        raise InputError(f"{source}: must be {BALANCED}, or a JSON file that exists")
    weights = read_json(given, dict[str, float]) if isinstance(given, str) else given
    if unknown := sorted(set(weights).difference(labels)):
        raise InputError(
            f"{source}: {unknown[0]!r} is not one of the training labels ({', '.join(labels)})"
        )
    for label, weight in weights.items():
        if not 0 < weight < math.inf:
            raise InputError(f"{source}: the weight of {label!r} is {weight}; must be above 0")
    return np.array([weights.get(label, 1) for label in labels], np.float32)
