"""The results of albert-predict: vectors, and similarities of pairs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from albert_tf.tasks.sentences.task import unit_length


def predict(
    model: Any, columns: Mapping[str, list], batch_size: int, **options: Any
) -> list[dict[str, Any]]:
    """Compute the vectors of rows of texts by a `SentenceEncoder`.

    Args:
        model: the encoder.
        columns: the texts, and the texts that they are compared with, if any.
        batch_size: texts that are computed at a time.
        **options: of `SentenceEncoder.encode`.
    """
    vectors = (model.encode(texts, batch_size=batch_size, **options) for texts in columns.values())
    return list(_results(*vectors))


def predict_exported(export: Any, columns: Mapping[str, list]) -> list[dict[str, Any]]:
    """Compute the same by an export."""
    vectors = []
    for texts in columns.values():
        batches = [outputs["vector"] for outputs in export("serving_default", {"text": texts})]
        vectors.append(np.concatenate(batches))
    return list(_results(*vectors))


def _results(vectors: np.ndarray, others: np.ndarray | None = None) -> Iterator[dict[str, Any]]:
    for number, vector in enumerate(vectors):
        row = {"vector": vector}
        if others is not None:
            row["similarity"] = float(np.dot(*unit_length(np.stack([vector, others[number]]))))
        yield row
