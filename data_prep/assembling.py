"""Builds unmasked examples from pairs of segments, a batch at once."""

from typing import NamedTuple

import numpy as np

from albert_tf.environment import compiled
from albert_tf.tokenizers import Tokenizer


class Examples(NamedTuple):
    """A batch of unmasked examples, `[CLS] first [SEP] second [SEP]` or `[CLS] first [SEP]`.

    Attributes:
        input_ids: int32 `[batch, seq]`, padded with the id of the padding token.
        segment_ids: int32 `[batch, seq]`, 0 for the first and 1 for the second segment.
        token_boundary: int32 `[batch, seq]`, 1 where a word starts.
        lengths: int32 `[batch]`, number of tokens before the padding.
    """

    input_ids: np.ndarray
    segment_ids: np.ndarray
    token_boundary: np.ndarray
    lengths: np.ndarray


def assemble(
    ids: np.ndarray,
    spans: np.ndarray,
    tokenizer: Tokenizer,
    word_starts: np.ndarray,
    max_seq_length: int,
) -> Examples:
    """Build examples from pairs.

    Args:
        ids: `[tokens]`, the flat ids.
        spans: int64 `[batch, 4]`, see `data_prep.segments.Pairs`.
        word_starts: bool `[tokens]`, which tokens start a word. Tokens beyond the vocabulary are
            ids plus its size.
        max_seq_length: length of the examples in tokens, including padding.
    """
    shape = (len(spans), max_seq_length)
    input_ids = np.full(shape, tokenizer.pad_id, np.int32)
    segment_ids = np.zeros(shape, np.int32)
    lengths = np.empty(len(spans), np.int32)
    _assemble(ids, spans, tokenizer.cls_id, tokenizer.sep_id, input_ids, segment_ids, lengths)
    is_token = np.arange(max_seq_length) < lengths[:, None]
    # The original counts [CLS] and [SEP] as words of their own.
    is_special = (input_ids == tokenizer.cls_id) | (input_ids == tokenizer.sep_id)
    token_boundary = ((word_starts[input_ids] | is_special) & is_token).astype(np.int32)
    if len(word_starts) > tokenizer.vocab_size:
        input_ids %= tokenizer.vocab_size
    return Examples(input_ids, segment_ids, token_boundary, lengths)


@compiled
def _assemble(ids, spans, cls_id, sep_id, input_ids, segment_ids, lengths):
    for row in range(len(spans)):
        a_begin, a_end, b_begin, b_end = spans[row]
        tokens, segments = input_ids[row], segment_ids[row]
        tokens[0] = cls_id
        separator = 1 + a_end - a_begin
        tokens[1:separator] = ids[a_begin:a_end]
        tokens[separator] = sep_id
        lengths[row] = separator + 1
        if b_begin == b_end:
            continue
        length = separator + 2 + b_end - b_begin
        tokens[separator + 1 : length - 1] = ids[b_begin:b_end]
        tokens[length - 1] = sep_id
        segments[separator + 1 : length] = 1
        lengths[row] = length
