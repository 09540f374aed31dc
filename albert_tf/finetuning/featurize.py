"""Texts to the arrays that a model reads: `[CLS] text [SEP]` or `[CLS] text [SEP] pair [SEP]`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from albert_tf.errors import InputError
from albert_tf.finetuning.tasks import Example
from albert_tf.tokenization import Tokenizer


class Featurized(NamedTuple):
    """Arrays by feature name, `[examples, max_seq_length]` int32, and how many texts were cut."""

    features: dict[str, np.ndarray]
    truncated: int


def featurize(examples: Sequence[Example], tokenizer: Tokenizer, max_seq_length: int) -> Featurized:
    """Encodes examples at a fixed length.

    A text that is too long loses its end; of a pair, the longer one loses tokens first, as in the
    original's `_truncate_seq_pair`.

    Raises:
        InputError: `max_seq_length` has no room for a text.
    """
    if max_seq_length < 5:
        raise InputError(f"--max_seq_length={max_seq_length}: must be at least 5")
    shape = (len(examples), max_seq_length)
    features = {
        name: np.zeros(shape, np.int32) for name in ("input_ids", "input_mask", "segment_ids")
    }
    features["input_ids"][:] = tokenizer.pad_id
    texts = tokenizer.encode_batch([example.text for example in examples])
    has_pair = examples[0].text_pair is not None
    pairs = tokenizer.encode_batch([example.text_pair or "" for example in examples])
    room = max_seq_length - (3 if has_pair else 2)
    truncated = 0
    for row, (text, pair) in enumerate(zip(texts, pairs, strict=True)):
        text_length, pair_length = shortened(len(text), len(pair), room)
        truncated += text_length + pair_length < len(text) + len(pair)
        first = [tokenizer.cls_id, *text[:text_length], tokenizer.sep_id]
        second = [*pair[:pair_length], tokenizer.sep_id] if has_pair else []
        length = len(first) + len(second)
        features["input_ids"][row, :length] = first + second
        features["input_mask"][row, :length] = 1
        features["segment_ids"][row, len(first) : length] = 1
    return Featurized(features, truncated)


def shortened(first: int, second: int, room: int) -> tuple[int, int]:
    """Lengths of two texts after tokens are taken from the longer one until both fit.

    Equal lengths lose from the second.
    """
    excess = max(first + second - room, 0)
    # First down to the other's length, then in turns.
    cut = min(excess, abs(first - second))
    first, second = (first - cut, second) if first > second else (first, second - cut)
    rest = excess - cut
    return first - rest // 2, second - (rest - rest // 2)
