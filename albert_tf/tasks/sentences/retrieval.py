"""Search for the text that belongs to another one, among all of a set."""

from typing import NamedTuple

import numpy as np

CUTOFFS = (1, 5, 10)

# Of the similarities that are computed at a time: 64 MB.
_MOST = 1 << 24

# Vectors that are equal up to rounding are equally far.
_ROUNDING = 1e-6


class Found(NamedTuple):
    """What the search for each text found.

    Attributes:
        ranks: int64 `[pairs]`, the rank of the right text, from 1; of equally similar ones, the
            last.
        first: int64 `[pairs]`, the number of the most similar text.
        candidates: how many texts were searched.
    """

    ranks: np.ndarray
    first: np.ndarray
    candidates: int


def search(vectors: np.ndarray, pairs: np.ndarray) -> Found:
    """Rank all second texts by their similarity to each first text.

    The first text itself, and others that belong to it as well, are left out.

    Args:
        vectors: float `[texts, hidden]`, of length 1.
        pairs: whole numbers `[pairs, 2]`, of the first and the second text.
    """
    candidates, own = np.unique(pairs[:, 1], return_inverse=True)
    answers: dict[int, list[int]] = {}
    for query, place in zip(pairs[:, 0].tolist(), own.tolist(), strict=True):
        answers.setdefault(query, []).append(place)
    ranks, first = np.zeros((2, len(pairs)), np.int64)
    size = max(1, _MOST // len(candidates))
    for start in range(0, len(pairs), size):
        part = slice(start, start + size)
        queries, places = pairs[part, 0], own[part]
        rows = np.arange(len(queries))
        similarities = vectors[queries] @ vectors[candidates].T
        right = similarities[rows, places]
        similarities[queries[:, None] == candidates] = -np.inf
        for row, query in enumerate(queries.tolist()):
            similarities[row, answers[query]] = -np.inf
        ranks[part] = 1 + (similarities >= right[:, None] - _ROUNDING).sum(axis=1)
        similarities[rows, places] = right
        first[part] = candidates[similarities.argmax(axis=1)]
    return Found(ranks, first, len(candidates))


def scores_of(ranks: np.ndarray) -> dict[str, float]:
    """Return recall at `CUTOFFS`, and the mean reciprocal rank, by name."""
    recalls = {f"recall_at_{cutoff}": float((ranks <= cutoff).mean()) for cutoff in CUTOFFS}
    return {**recalls, "mrr": float((1 / ranks).mean())}
