"""Report sections for sentence vectors."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import scipy

from albert_tf.finetuning.metrics import intervals_of
from albert_tf.report.intervals import bootstrap_mean, wilson
from albert_tf.report.sections import (
    MOST_ERRORS,
    Card,
    Part,
    Section,
    Shade,
    Table,
    excerpt,
)
from albert_tf.tasks.sentences.readers import TextPair
from albert_tf.tasks.sentences.retrieval import CUTOFFS, Found

_LONGEST = 300
_GROUPS = 5


def search_sections(pairs: Sequence[TextPair], texts: Sequence[str], found: Found) -> list[Section]:
    """Return the ranks of the right texts, and those that were ranked lowest.

    Args:
        pairs: that were evaluated.
        texts: by number.
        found: results of the search.
    """
    ranks, count = found.ranks, len(pairs)
    intervals = {
        f"eval_recall_at_{cutoff}": wilson((ranks <= cutoff).sum(), count) for cutoff in CUTOFFS
    }
    edges = [*(each for each in (1, 5, 10, 100, 1000) if each < found.candidates), found.candidates]
    rows: list[list[str | Shade]] = []
    for first, last in zip([1, *(edge + 1 for edge in edges)], edges, strict=False):
        chosen = (first <= ranks) & (ranks <= last)
        name = str(first) if first == last else f"{first:,} to {last:,}"
        rows.append([name, Shade.of(chosen)])
    section = Section(
        "Ranks",
        f"The rank of the text that belongs to each of {count:,}, among {found.candidates:,} texts "
        "in the order of their similarity.",
        tables=[Table(["rank", "share"], rows, frozenset({1}))],
        intervals={**intervals, "eval_mrr": bootstrap_mean(1 / ranks)},
    )
    cards = []
    for number in np.argsort(-ranks, kind="stable")[:MOST_ERRORS]:
        if ranks[number] > 1:
            right = f"{excerpt(pairs[number].text_pair, _LONGEST)} (rank {ranks[number]:,})"
            first_one = excerpt(texts[found.first[number]], _LONGEST)
            facts = [("belongs to it", [Part(right)]), ("found first", [Part(first_one)])]
            cards.append(Card(excerpt(pairs[number].text, _LONGEST), facts))
    text = f"{(ranks > 1).sum():,} of {count:,} texts are not found first."
    return [section, Section("Worst errors", text, cards=cards)]


def similarity_sections(pairs: Sequence[TextPair], cosines: np.ndarray) -> list[Section]:
    """Return the cosines of pairs by their scores, and the pairs whose cosines fit least.

    Args:
        pairs: with scores.
        cosines: `[pairs]`.
    """
    scores = np.array([pair.score for pair in pairs])
    groups = np.array_split(np.argsort(scores, kind="stable"), min(_GROUPS, len(pairs)))
    rows = [
        [
            f"{scores[group].min():.3g} to {scores[group].max():.3g}",
            f"{len(group):,}",
            f"{cosines[group].mean():.3f}",
            f"{cosines[group].std():.3f}",
        ]
        for group in groups
    ]
    columns = ["score", "pairs", "mean cosine", "deviation"]
    section = Section(
        "Cosines by score",
        tables=[Table(columns, rows, frozenset({1, 2, 3}))],
        intervals=intervals_of(("spearman", "pearson"), scores, cosines),
    )
    cosine_ranks, score_ranks = (scipy.stats.rankdata(each) for each in (cosines, scores))
    differences = (cosine_ranks - score_ranks) / len(pairs)
    cards = []
    for number in np.argsort(-abs(differences), kind="stable")[:MOST_ERRORS]:
        pair = pairs[number]
        facts = [
            ("and", [Part(excerpt(pair.text_pair, _LONGEST))]),
            ("score", [Part(f"{pair.score:.3g}")]),
            ("cosine", [Part(f"{cosines[number]:.3f}")]),
        ]
        cards.append(Card(excerpt(pair.text, _LONGEST), facts))
    text = "Pairs whose places in the orders by score and by cosine differ most."
    return [section, Section("Largest differences", text, cards=cards)]
