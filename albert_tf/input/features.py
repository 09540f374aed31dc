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
        "example_ids": most_examples(features["input_ids"].shape[0]) + 1,
        "cls_positions": features["input_ids"].shape[0],
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


def most_examples(max_seq_length: int) -> int:
    """Return the largest number of examples in a row."""
    return max(max_seq_length // 16, 1)


def row_features(
    max_seq_length: int, max_predictions_per_seq: int | None = None
) -> dict[str, Feature]:
    """Return features of a row: several examples, one after the other, then padding.

    `example_ids` number them from 1 on and are 0 for padding; there is no `input_mask`. Up to
    `most_examples` of them have a place in `cls_positions` (where each begins),
    `next_sentence_labels` and `next_sentence_weights`; what does not exist is 0. Without a number
    of predictions, which are those of the row, there are no masks.
    """
    examples, predictions = most_examples(max_seq_length), max_predictions_per_seq
    features = pretraining_features(max_seq_length, predictions or 0)
    masks = {name: each for name, each in features.items() if name.startswith("masked_lm_")}
    return {
        **{name: features[name] for name in ("input_ids", "segment_ids", "token_boundary")},
        "example_ids": Feature((max_seq_length,), "int64"),
        "cls_positions": Feature((examples,), "int64"),
        "next_sentence_labels": Feature((examples,), "int64"),
        "next_sentence_weights": Feature((examples,), "float32"),
        **({} if predictions is None else masks),
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
