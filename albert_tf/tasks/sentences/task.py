"""Sentence vectors: similarities of pairs, and search for the text that belongs to another one."""

import functools
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import scipy

from albert_tf.config import AlbertConfig
from albert_tf.finetuning.metrics import METRICS, intervals_of, score
from albert_tf.finetuning.task import Baseline, ExampleSet, FineTuningTask, Outputs
from albert_tf.flops import TRAINING, encoder_flops
from albert_tf.input.examples import Features
from albert_tf.report.intervals import bootstrap_mean, wilson
from albert_tf.report.sections import MOST_ERRORS, Card, Part, Section, Shade, excerpt, table
from albert_tf.tasks.sentences.model import (
    AlbertForSentences,
    ContrastiveObjective,
    CosineObjective,
)
from albert_tf.tasks.sentences.options import SentenceOptions
from albert_tf.tasks.sentences.readers import TextPair, read_pairs
from albert_tf.tokenizers import Tokenizer, packing

CUTOFFS = (1, 5, 10)

# Of the similarities that are computed at a time: 64 MB.
_MOST = 1 << 24

# Vectors that are equal up to rounding are equally far.
_ROUNDING = 1e-6

# How well the cosines of scored pairs fit the scores.
CORRELATIONS = ("spearman", "pearson")

# Of a report: characters of a text, and parts of the order by scores.
_LONGEST_TEXT, _GROUPS = 300, 5


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


class SentenceTask(FineTuningTask):
    """Computes vectors, whose cosines tell texts that belong together from others.

    Pairs with scores are scored by correlations, others by the search for each second text among
    all of them. In training, an example has all texts of a row; otherwise, each distinct text is an
    example of its own. Predictions are the cosines of pairs.
    """

    options: SentenceOptions
    title = "Sentence vectors"
    outputs = ("vectors",)

    def __init__(self, options: SentenceOptions, tokenizer: Tokenizer):
        super().__init__(options, tokenizer)
        self.metric = "eval_mrr"
        self.objective = ContrastiveObjective(self.options.temperature)
        if self.options.scored:
            self.metric, self.objective = METRICS[CORRELATIONS[0]].key, CosineObjective()
        self._lowest, self._range = 0.0, 1.0

    @property
    def metric_names(self) -> tuple[str, ...]:
        if self.options.scored:
            return tuple(METRICS[name].key for name in CORRELATIONS)
        return ("eval_mrr", *(f"eval_recall_at_{cutoff}" for cutoff in CUTOFFS))

    def read(self, split: str) -> dict[str, list[TextPair]]:
        pairs = read_pairs(self.options, split)
        if split == "train":
            self.learn_scale(pairs)
        return {"": pairs}

    def learn_scale(self, pairs: Sequence[TextPair]) -> None:
        """Learn from the pairs to train on which scores are the cosines 0 and 1.

        Scores from -1 to 1 are cosines; of others, the lowest stands for 0 and the highest for 1.
        """
        scores = [pair.score or 0.0 for pair in pairs]
        low, high = min(scores), max(scores)
        if low < -1 or high > 1:
            self._lowest, self._range = low, max(high - low, 1e-9)

    def encode(self, split: str, examples: Sequence[TextPair]) -> Features:
        texts, numbers = numbered(examples, with_negatives=split == "train")
        make = functools.partial(featurize, texts, self.tokenizer, self.options.max_seq_length)
        features = self.cached(split, "sentences", texts, Features, make)
        if split != "train":
            return features
        ids = np.split(features.ids, np.cumsum(features.lengths)[:-1])
        sequences = [(ids[number], np.zeros_like(ids[number])) for number in numbers.flat]
        labels = {"label_ids": numbers}
        if self.options.scored:
            scores = np.array([pair.score for pair in examples], np.float32)
            labels = {"label_values": (scores - self._lowest) / np.float32(self._range)}
        cut = features.tokens_cut[numbers].sum(axis=1)
        return Features(sequences, features.pad_id, numbers.shape[1], labels, cut)

    def texts(self, examples: Sequence[TextPair]) -> Iterator[str]:
        yield from numbered(examples, with_negatives=False)[0]

    def build_model(self, config: AlbertConfig, dtype: str) -> AlbertForSentences:
        return AlbertForSentences(config, self.options.pooling, dtype=dtype)

    def flops_per_example(self, config: AlbertConfig) -> float:
        texts = 3 if self.options.negative_column else 2
        return texts * TRAINING * encoder_flops(config, self.options.max_seq_length)

    def data_name(self, examples: ExampleSet) -> str:
        return "GLUE STS-B, dev" if self.options.is_sts_b else super().data_name(examples)

    def score(self, examples: ExampleSet, outputs: Outputs) -> dict[str, float]:
        if self.options.scored:
            truth = np.array([pair.score for pair in examples.examples])
            return score(CORRELATIONS, truth, self.cosines(examples, outputs))
        return scores_of(self.search(examples, outputs).ranks)

    def cosines(self, examples: ExampleSet, outputs: Outputs) -> np.ndarray:
        """Return the cosine of each pair, float64 `[pairs]`."""
        vectors, pairs = _vectors(outputs), numbered(examples.examples, with_negatives=False)[1]
        return np.einsum("ij,ij->i", vectors[pairs[:, 0]], vectors[pairs[:, 1]], dtype=np.float64)

    def search(self, examples: ExampleSet, outputs: Outputs) -> Found:
        """Search for the second text of each pair among those of all pairs."""
        return search(_vectors(outputs), numbered(examples.examples, with_negatives=False)[1])

    def decode(self, examples: ExampleSet, outputs: Outputs) -> list[str]:
        """Return the cosine of each pair."""
        return [f"{cosine:.8g}" for cosine in self.cosines(examples, outputs)]

    def average(self, examples: ExampleSet, outputs: Sequence[Outputs]) -> Outputs:
        """Return vectors whose cosines are the means of those of the models."""
        return {"vectors": np.concatenate([_vectors(each) for each in outputs], axis=-1)}

    def collapse(self, examples: ExampleSet, outputs: Outputs) -> str | None:
        vectors = _vectors(outputs)
        if len(vectors) < 2 or np.ptp(vectors, axis=0).max() > 1e-3:
            return None
        return "all texts have the same vector"

    def baseline(self, examples: ExampleSet) -> Baseline | None:
        if self.options.scored:
            return None
        candidates = len({pair.text_pair for pair in examples.examples})
        return Baseline("a random order", scores_of(np.arange(1, candidates + 1)))

    def report_sections(self, examples: ExampleSet, outputs: Outputs) -> list[Section]:
        if examples.split != "eval":
            return []
        if self.options.scored:
            return _similarity_sections(examples.examples, self.cosines(examples, outputs))
        texts = numbered(examples.examples, with_negatives=False)[0]
        return _search_sections(examples.examples, texts, self.search(examples, outputs))


def search(vectors: np.ndarray, pairs: np.ndarray) -> Found:
    """Rank all second texts by their similarity to each first text.

    The first text itself, and others that belong to it as well, are left out. The vectors have
    length 1; the pairs are numbers of texts, `[pairs, 2]`.
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
    """Return recall at `CUTOFFS`, and the mean reciprocal rank, by the names of results."""
    recalls = {f"eval_recall_at_{cutoff}": float((ranks <= cutoff).mean()) for cutoff in CUTOFFS}
    return {**recalls, "eval_mrr": float((1 / ranks).mean())}


def numbered(pairs: Sequence[TextPair], with_negatives: bool) -> tuple[list[str], np.ndarray]:
    """Return the distinct texts of pairs, and their numbers, int32 `[pairs, 2 or 3]`."""
    numbers: dict[str, int] = {}
    columns = [[pair.text for pair in pairs], [pair.text_pair for pair in pairs]]
    if with_negatives and pairs[0].negative is not None:
        columns.append([pair.negative or "" for pair in pairs])
    rows = zip(*columns, strict=True)
    found = [[numbers.setdefault(text, len(numbers)) for text in row] for row in rows]
    return list(numbers), np.array(found, np.int32)


def featurize(texts: Sequence[str], tokenizer: Tokenizer, max_seq_length: int) -> Features:
    """Encode texts as `[CLS] text [SEP]`; one that is too long loses its end."""
    tokens = tokenizer.encode_batch(list(texts))
    kept = [packing.truncate(each, None, max_seq_length)[0] for each in tokens]
    cut = [len(each) - len(rest) for each, rest in zip(tokens, kept, strict=True)]
    sequences = [packing.sequence(tokenizer, each) for each in kept]
    return Features(sequences, tokenizer.pad_id, 1, tokens_cut=cut)


def unit_length(vectors: np.ndarray) -> np.ndarray:
    """Scale vectors `[..., hidden]` to length 1."""
    norms = np.linalg.norm(vectors, axis=-1, keepdims=True)
    return vectors / np.maximum(norms, 1e-12)


def _vectors(outputs: Outputs) -> np.ndarray:
    """Return the vectors of all texts, `[texts, hidden]`, of length 1."""
    vectors = outputs["vectors"]
    return unit_length(vectors.reshape(len(vectors), -1))


def _search_sections(
    pairs: Sequence[TextPair], texts: Sequence[str], found: Found
) -> list[Section]:
    """Return the ranks of the right texts, and those that were ranked lowest."""
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
            right = f"{excerpt(pairs[number].text_pair, _LONGEST_TEXT)} (rank {ranks[number]:,})"
            first_one = excerpt(texts[found.first[number]], _LONGEST_TEXT)
            facts = {"belongs to it": right, "found first": first_one}
            cards.append(_card(pairs[number], facts))
    text = f"{(ranks > 1).sum():,} of {count:,} texts are not found first."
    return [section, Section("Worst errors", text, cards=cards)]


def _similarity_sections(pairs: Sequence[TextPair], cosines: np.ndarray) -> list[Section]:
    """Return the cosines of pairs by their scores, and the pairs whose cosines fit least."""
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
        intervals=intervals_of(CORRELATIONS, scores, cosines),
    )
    cosine_ranks, score_ranks = (scipy.stats.rankdata(each) for each in (cosines, scores))
    differences = (cosine_ranks - score_ranks) / len(pairs)
    cards = []
    for number in np.argsort(-abs(differences), kind="stable")[:MOST_ERRORS]:
        pair = pairs[number]
        facts = {"and": excerpt(pair.text_pair, _LONGEST_TEXT), "score": f"{pair.score:.3g}"}
        cards.append(_card(pair, facts | {"cosine": f"{cosines[number]:.3f}"}))
    text = "Pairs whose places in the orders by score and by cosine differ most."
    return [section, Section("Largest differences", text, cards=cards)]


def _card(pair: TextPair, facts: Mapping[str, str]) -> Card:
    return Card(
        excerpt(pair.text, _LONGEST_TEXT), [(name, [Part(text)]) for name, text in facts.items()]
    )
