"""What tests of training share: a tiny model and made-up pretraining examples."""

import dataclasses

import numpy as np

from albert_tf.config import AlbertConfig

VOCAB, LENGTH, PREDICTIONS = 60, 16, 4

CONFIG = AlbertConfig(
    vocab_size=VOCAB,
    embedding_size=8,
    hidden_size=16,
    num_hidden_layers=2,
    num_attention_heads=2,
    intermediate_size=32,
    hidden_dropout_prob=0.1,
    attention_probs_dropout_prob=0.1,
    max_position_embeddings=LENGTH,
)
WITHOUT_DROPOUT = dataclasses.replace(
    CONFIG, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0
)


def batch(count: int, seed: int = 0) -> dict[str, np.ndarray]:
    """Return random pretraining examples of uneven length, with uneven numbers of masks."""
    random = np.random.default_rng(seed)
    lengths = random.integers(LENGTH // 2, LENGTH + 1, count)
    mask = np.arange(LENGTH) < lengths[:, None]
    predictions = random.integers(0, PREDICTIONS + 1, count)
    weights = np.arange(PREDICTIONS) < predictions[:, None]
    positions = random.integers(1, LENGTH // 2, (count, PREDICTIONS))
    return {
        "input_ids": (random.integers(5, VOCAB, (count, LENGTH)) * mask).astype("int32"),
        "input_mask": mask.astype("int32"),
        "segment_ids": ((np.arange(LENGTH) > lengths[:, None] // 2) & mask).astype("int32"),
        "token_boundary": mask.astype("int32"),
        "masked_lm_positions": (positions * weights).astype("int32"),
        "masked_lm_ids": (random.integers(5, VOCAB, weights.shape) * weights).astype("int32"),
        "masked_lm_weights": weights.astype("float32"),
        "next_sentence_labels": random.integers(0, 2, (count, 1)).astype("int32"),
    }


def in_memory(examples: dict[str, np.ndarray]):
    """Return the sequences of a `batch` as fine-tuning holds them."""
    from albert_tf.input.examples import Features

    rows = zip(
        *(examples[name] for name in ("input_ids", "segment_ids", "input_mask")), strict=True
    )
    return Features(((ids[mask > 0], segments[mask > 0]) for ids, segments, mask in rows), 0)


def write_records(path, examples: dict[str, np.ndarray]) -> None:
    """Write examples as a TFRecord file."""
    import tensorflow as tf  # the rest of this file is for any backend

    with tf.io.TFRecordWriter(str(path)) as writer:
        for row in range(len(examples["input_ids"])):
            features = {}
            for name, values in examples.items():
                if values.dtype == np.float32:
                    stored = tf.train.Feature(float_list=tf.train.FloatList(value=values[row]))
                else:
                    stored = tf.train.Feature(int64_list=tf.train.Int64List(value=values[row]))
                features[name] = stored
            example = tf.train.Example(features=tf.train.Features(feature=features))
            writer.write(example.SerializeToString())
