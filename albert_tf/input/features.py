"""The features of a TFRecord example as data: names, shapes and dtypes of the original project.

Writers and readers both take them from here, so neither can differ from the other.
"""

from __future__ import annotations

from typing import NamedTuple


class Feature(NamedTuple):
    """One fixed-length feature of an example.

    Attributes:
        shape: shape of one example, without the batch dimension.
        dtype: dtype in the file, "int64" or "float32". Batches hold int64 features as int32.
    """

    shape: tuple[int, ...]
    dtype: str


def encoder_features(max_seq_length: int) -> dict[str, Feature]:
    """What every model reads: token ids, 1 for tokens and 0 for padding, segment 0 or 1."""
    return {
        "input_ids": Feature((max_seq_length,), "int64"),
        "input_mask": Feature((max_seq_length,), "int64"),
        "segment_ids": Feature((max_seq_length,), "int64"),
    }


def unmasked_features(max_seq_length: int) -> dict[str, Feature]:
    """Features of a pretraining example whose masks are drawn in training.

    `token_boundary` is 1 where a word starts; `next_sentence_labels` is the sentence-order label, 1
    where the segments were swapped (the name is the original's, so that either side reads the
    other's files).
    """
    return {
        **encoder_features(max_seq_length),
        "token_boundary": Feature((max_seq_length,), "int64"),
        "next_sentence_labels": Feature((1,), "int64"),
    }


def pretraining_features(max_seq_length: int, max_predictions_per_seq: int) -> dict[str, Feature]:
    """Features of a pretraining example with static masks.

    `masked_lm_*` are padded with position 0, id 0 and weight 0.
    """
    return {
        **unmasked_features(max_seq_length),
        "masked_lm_positions": Feature((max_predictions_per_seq,), "int64"),
        "masked_lm_ids": Feature((max_predictions_per_seq,), "int64"),
        "masked_lm_weights": Feature((max_predictions_per_seq,), "float32"),
    }
