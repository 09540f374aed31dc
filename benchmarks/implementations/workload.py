"""The work that all implementations do; imports no framework."""

import dataclasses
from typing import Any

import numpy as np


@dataclasses.dataclass(frozen=True)
class Workload:
    """A step without dropout, on a batch without padding.

    Attributes:
        task: "pretraining" (masked language model at the masked positions, and sentence order) or
            "classification" (two classes), both with an optimizer update and the gradient clipped
            to norm 1; "inference", the logits of a classifier as a NumPy array; or "products" of
            matrices alone.
        config: fields of an `AlbertConfig`; of products, their "shape" `(rows, inner, columns)`.
        batch_size: sequences in a batch.
        length: tokens in a sequence.
        predictions: masked positions in a sequence.
        dtype: precision of the computation, "float32" or "bfloat16"; weights are float32.
    """

    task: str
    config: dict[str, Any]
    batch_size: int
    length: int
    predictions: int = 0
    dtype: str = "float32"

    def batch(self) -> dict[str, np.ndarray]:
        """Return a batch by names of TFRecord features, the same for all implementations."""
        draw = np.random.default_rng(0)
        shape = (self.batch_size, self.length)
        positions = np.argsort(draw.random(shape), axis=1)[:, : self.predictions]
        vocabulary = self.config["vocab_size"]
        return {
            "input_ids": draw.integers(5, vocabulary, shape).astype(np.int32),
            "input_mask": np.ones(shape, np.int32),
            "segment_ids": np.tile(
                np.arange(self.length) >= self.length // 2, (shape[0], 1)
            ).astype(np.int32),
            "masked_lm_positions": np.sort(positions, axis=1).astype(np.int32),
            "masked_lm_ids": draw.integers(5, vocabulary, positions.shape).astype(np.int32),
            "masked_lm_weights": np.ones(positions.shape, np.float32),
            "next_sentence_labels": draw.integers(0, 2, (shape[0], 1)).astype(np.int32),
            "label_ids": draw.integers(0, 2, shape[0]).astype(np.int32),
        }
