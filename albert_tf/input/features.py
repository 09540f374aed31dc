"""The features of TFRecord examples: names, shapes and dtypes, as in the original project.

Writers and readers both use these definitions, so they cannot differ.
"""

from typing import NamedTuple


class Feature(NamedTuple):
    """A feature of fixed length.

    Attributes:
        shape: shape in one example, without the batch dimension.
        dtype: dtype in the file, "int64" or "float32". Batches contain int64 features as int32.
        limit: valid integers are 0 to `limit` - 1; None: all are.
    """

    shape: tuple[int, ...]
    dtype: str
    limit: int | None = None


def limited(
    features: dict[str, Feature], vocab_size: int, type_vocab_size: int
) -> dict[str, Feature]:
    """Return features with the limits that a model's config sets, as far as this module knows them.

    `features` contain `input_ids`.
    """
    limits = {
        "input_ids": vocab_size,
        "input_mask": 2,
        "segment_ids": type_vocab_size,
        "token_boundary": 2,
        "next_sentence_labels": 2,
        "masked_lm_positions": features["input_ids"].shape[0],
        "masked_lm_ids": vocab_size,
    }
    return {name: feature._replace(limit=limits.get(name)) for name, feature in features.items()}


def encoder_features(max_seq_length: int) -> dict[str, Feature]:
    """Return the input of every model: token ids, mask (0 for padding), segment (0 or 1)."""
    return {
        "input_ids": Feature((max_seq_length,), "int64"),
        "input_mask": Feature((max_seq_length,), "int64"),
        "segment_ids": Feature((max_seq_length,), "int64"),
    }


def unmasked_features(max_seq_length: int) -> dict[str, Feature]:
    """Return features of a pretraining example without masks, which are drawn during training.

    `token_boundary` is 1 where a word starts. `next_sentence_labels` is the label of the pair
    objective, such as 1 for swapped segments; the name is the original's, so that each project can
    read the files of the other.
    """
    return {
        **encoder_features(max_seq_length),
        "token_boundary": Feature((max_seq_length,), "int64"),
        "next_sentence_labels": Feature((1,), "int64"),
    }


def pretraining_features(max_seq_length: int, max_predictions_per_seq: int) -> dict[str, Feature]:
    """Return features of a pretraining example with static masks.

    `masked_lm_*` are padded with position 0, id 0 and weight 0.
    """
    return {
        **unmasked_features(max_seq_length),
        "masked_lm_positions": Feature((max_predictions_per_seq,), "int64"),
        "masked_lm_ids": Feature((max_predictions_per_seq,), "int64"),
        "masked_lm_weights": Feature((max_predictions_per_seq,), "float32"),
    }
