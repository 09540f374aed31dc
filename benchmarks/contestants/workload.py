"""What every contestant is given to do; knows no framework."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

TASKS = ("pretraining", "classification", "inference")


@dataclasses.dataclass(frozen=True)
class Workload:
    """One kind of step, on a batch without padding, without dropout.

    Attributes:
        task: "pretraining" (masked language model and sentence order, on the masked positions
            alone), "classification" (two classes), both with an optimizer's step and the gradient
            clipped to norm 1; or "inference", the logits of a classifier in NumPy.
        config: fields of an `AlbertConfig`.
        batch_size: sequences in a batch.
        length: tokens in a sequence.
        predictions: masked positions of a sequence.
        dtype: "float32", or "bfloat16" for computing in it with weights in float32.
    """

    task: str
    config: dict[str, Any]
    batch_size: int
    length: int
    predictions: int = 0
    dtype: str = "float32"

    def batch(self) -> dict[str, np.ndarray]:
        """A batch by the names of the TFRecord features; the same for everyone."""
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
