"""Report sections for sentence vectors."""

from collections.abc import Mapping, Sequence

import numpy as np
import scipy

from albert_tf.finetuning.metrics import intervals_of
from albert_tf.report.intervals import bootstrap_mean, wilson
from albert_tf.report.sections import MOST_ERRORS, Card, Part, Section, Shade, excerpt, table
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
    rows = []
    for first, last in zip([1, *(edge + 1 for edge in edges)], edges, strict=False):
        name = str(first) if first == last else f"{first:,} to {last:,}"
        rows.append((name, Shade.of((first <= ranks) & (ranks <= last))))
    section = Section(
        "Ranks",
        f"The rank of the text that belongs to each of {count:,}, among {found.candidates:,} texts "
        "in the order of their similarity.",
        tables=[table({"rank": "", "share": ">"}, rows)],
        intervals={**intervals, "eval_mrr": bootstrap_mean(1 / ranks)},
    )
    cards = []
    for number in np.argsort(-ranks, kind="stable")[:MOST_ERRORS]:
        if ranks[number] > 1:
            right = f"{excerpt(pairs[number].text_pair, _LONGEST)} (rank {ranks[number]:,})"
            first_one = excerpt(texts[found.first[number]], _LONGEST)
            facts = {"belongs to it": right, "found first": first_one}
            cards.append(_card(pairs[number], facts))
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
        (f"{s.min():.3g} to {s.max():.3g}", len(s), of.mean(), of.std())
        for s, of in ((scores[group], cosines[group]) for group in groups)
    ]
    columns = {"score": "", "pairs": ",", "mean cosine": ".3f", "deviation": ".3f"}
    section = Section(
        "Cosines by score",
        tables=[table(columns, rows)],
        intervals=intervals_of(("spearman", "pearson"), scores, cosines),
    )
    cosine_ranks, score_ranks = (scipy.stats.rankdata(each) for each in (cosines, scores))
    differences = (cosine_ranks - score_ranks) / len(pairs)
    cards = []
    for number in np.argsort(-abs(differences), kind="stable")[:MOST_ERRORS]:
        pair = pairs[number]
        facts = {"and": excerpt(pair.text_pair, _LONGEST), "score": f"{pair.score:.3g}"}
        cards.append(_card(pair, facts | {"cosine": f"{cosines[number]:.3f}"}))
    text = "Pairs whose places in the orders by score and by cosine differ most."
    return [section, Section("Largest differences", text, cards=cards)]


def _card(pair: TextPair, facts: Mapping[str, str]) -> Card:
    return Card(
        excerpt(pair.text, _LONGEST), [(name, [Part(text)]) for name, text in facts.items()]
    )
