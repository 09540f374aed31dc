"""Entities in sequences of tags, and how those of a model are scored.

Tags are a prefix and a type, "B-LOC", or "O" outside of all entities. Which words are an entity is
defined as in the evaluation script of CoNLL-2000 and the default mode of seqeval, for every scheme
(IOB1, IOB2, IOBES) and for invalid sequences: "I-LOC" after "O" begins an entity, for example.
"""

from __future__ import annotations

import collections
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from albert_tf.tasks.tagging.tags import OUTSIDE, split_tag


class Entity(NamedTuple):
    """An entity in a text.

    Attributes:
        label: its type, such as "LOC".
        start: its first character.
        end: the character after its last.
        text: its characters.
        score: mean probability of the tags of its words; 1 for an entity of the data.
    """

    label: str
    start: int
    end: int
    text: str
    score: float = 1.0

    @property
    def span(self) -> tuple[int, int]:
        return self.start, self.end

    @property
    def key(self) -> tuple[str, int, int]:
        """What an exact match compares."""
        return self.label, self.start, self.end


class Scores(NamedTuple):
    """Numbers of entities: in the data, predicted, and predicted correctly."""

    support: int
    predicted: int
    correct: int

    @property
    def precision(self) -> float:
        return self.correct / self.predicted if self.predicted else 0.0

    @property
    def recall(self) -> float:
        return self.correct / self.support if self.support else 0.0

    @property
    def f1(self) -> float:
        total = self.precision + self.recall
        return 2 * self.precision * self.recall / total if total else 0.0


def chunks(tags: Sequence[str]) -> list[tuple[str, int, int]]:
    """Return the entities of a sequence of tags: type, first word, and the word after the last."""
    found: list[tuple[str, int, int]] = []
    before, type_before, start = OUTSIDE, "_", 0
    for number, tag in enumerate([*tags, OUTSIDE]):
        prefix, type_ = split_tag(tag) or (OUTSIDE, "_")
        if not (prefix in "IE" and before in "BI" and type_ == type_before):
            if before != OUTSIDE:
                found.append((type_before, start, number))
            start = number
        before, type_before = prefix, type_
    return found


def iob2(chunks: Iterable[tuple[str, int, int]], words: int) -> list[str]:
    """Return the IOB2 tags of some words; an entity that overlaps an earlier one is left out.

    Args:
        chunks: as of `chunks`.
        words: their number.
    """
    tags = [OUTSIDE] * words
    for type_, start, end in chunks:
        if all(tag == OUTSIDE for tag in tags[start:end]):
            tags[start:end] = [f"B-{type_}", *[f"I-{type_}"] * (end - start - 1)]
    return tags


def invalid_tags(sequences: Iterable[Sequence[str]]) -> tuple[str, int]:
    """Find the scheme of sequences of tags.

    Returns:
        "IOBES", "IOB1" or "IOB2", and how many tags are invalid in it.
    """
    begins = insides = iobes_errors = 0
    prefixes = set()
    for tags in sequences:
        before, type_before = OUTSIDE, "_"
        for tag in [*tags, OUTSIDE]:
            prefix, type_ = split_tag(tag) or (OUTSIDE, "_")
            prefixes.add(prefix)
            same = before != OUTSIDE and type_ == type_before
            begins += prefix == "B" and not same  # IOB1 has I here
            insides += prefix == "I" and not same  # IOB2 has B here
            iobes_errors += (prefix in "IE") != (before in "BI" and (prefix in "BSO" or same))
            before, type_before = prefix, type_
    if prefixes & {"E", "S"}:
        return "IOBES", iobes_errors
    return ("IOB1", begins) if insides > begins else ("IOB2", insides)


def count_matches(
    truth: Sequence[Sequence[Entity]], predicted: Sequence[Sequence[Entity]]
) -> dict[str, Scores]:
    """Count entities by type; predictions are correct if type, start and end are those of one.

    Args:
        truth: per text, its entities.
        predicted: per text, those of a model.

    Returns:
        Type -> numbers, sorted by type; "" for all types together, first.
    """
    support: collections.Counter[str] = collections.Counter()
    predicted_counts: collections.Counter[str] = collections.Counter()
    correct: collections.Counter[str] = collections.Counter()
    for true, found in zip(truth, predicted, strict=True):
        true_keys, found_keys = ({each.key for each in entities} for entities in (true, found))
        support.update(label for label, _, _ in true_keys)
        predicted_counts.update(label for label, _, _ in found_keys)
        correct.update(label for label, _, _ in true_keys & found_keys)
    by_type = {
        label: Scores(support[label], predicted_counts[label], correct[label])
        for label in sorted(support | predicted_counts)
    }
    return {"": Scores(support.total(), predicted_counts.total(), correct.total()), **by_type}
