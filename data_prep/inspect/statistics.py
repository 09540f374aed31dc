"""Numbers over all examples of some files, in one pass and little memory."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Mapping

import numpy as np

from albert_tf.input.features import Feature
from data_prep.inspect.names import Names
from data_prep.inspect.reading import Batch
from data_prep.inspect.show import WIDTH

MOST_FREQUENT = 20
KINDS = ("[MASK]", "kept", "replaced")
LONGEST_RUN = 8  # longer runs of masked words are counted with these


class Statistics:
    """What has been seen so far.

    Args:
        features: what the examples have; without `masked_lm_*` there is nothing to say of masks.

    Attributes:
        lengths: int64 `[seq + 1]`, how many examples have so many tokens.
        first_segment_tokens: tokens of all first segments together.
        unknown: tokens that the vocabulary does not know, before masking.
        labels: int64 `[2]`, or None.
        masked: int64 `[predictions + 1]`, how many examples have so many masked tokens, or None.
        kinds: int64 `[3]`: masked tokens that became `[MASK]`, stayed, were replaced.
        runs: int64 `[LONGEST_RUN + 1]`: runs of neighbouring masked tokens, by their words.
        words: how often each word was masked, as the tuple of its ids.
    """

    def __init__(self, features: Mapping[str, Feature]):
        self.sequence = features["input_ids"].shape[0]
        self.lengths = np.zeros(self.sequence + 1, np.int64)
        self.first_segment_tokens = self.unknown = 0
        self.labels = np.zeros(2, np.int64) if "next_sentence_labels" in features else None
        self.masked = None
        if "masked_lm_weights" in features:
            self.masked = np.zeros(features["masked_lm_weights"].shape[0] + 1, np.int64)
        self.kinds = np.zeros(len(KINDS), np.int64)
        self.runs = np.zeros(LONGEST_RUN + 1, np.int64)
        self.words: Counter[tuple[int, ...]] = Counter()
        self._mask_id: int | None = None

    @property
    def examples(self) -> int:
        return int(self.lengths.sum())

    @property
    def tokens(self) -> int:
        return int(self.lengths @ np.arange(len(self.lengths)))

    def add(self, batch: Batch, names: Names) -> None:
        """Counts a batch of examples."""
        names.check(batch["input_ids"])
        is_token = batch["input_mask"] > 0
        self.lengths += np.bincount(is_token.sum(axis=1), minlength=len(self.lengths))
        self.first_segment_tokens += int((is_token & (batch["segment_ids"] == 0)).sum())
        if names.tokenizer:
            self.unknown += int((is_token & (batch["input_ids"] == names.tokenizer.unk_id)).sum())
        if self.labels is not None:
            self.labels += np.bincount(batch["next_sentence_labels"][:, 0] > 0, minlength=2)
        if self.masked is not None:
            self._add_masks(batch, names)

    def _add_masks(self, batch: Batch, names: Names) -> None:
        names.check(batch["masked_lm_ids"])
        is_masked = batch["masked_lm_weights"] > 0
        self.masked += np.bincount(is_masked.sum(axis=1), minlength=len(self.masked))
        row, column = np.nonzero(is_masked)
        position = batch["masked_lm_positions"][row, column]
        ids = batch["masked_lm_ids"][row, column]
        order = np.lexsort((position, row))
        row, position, ids = row[order], position[order], ids[order]
        if not len(ids):
            return

        seen = batch["input_ids"][row, position]
        if names.tokenizer:
            is_unknown = np.stack([ids, seen]) == names.tokenizer.unk_id
            self.unknown += int(is_unknown[0].sum() - is_unknown[1].sum())
        if self._mask_id is None:
            self._mask_id = names.mask_id(seen, ids)
        kinds = np.select([seen == self._mask_id, seen == ids], [0, 1], 2)
        self.kinds += np.bincount(kinds, minlength=len(KINDS))

        starts_run = np.ones(len(ids), bool)
        starts_run[1:] = (row[1:] != row[:-1]) | (position[1:] != position[:-1] + 1)
        starts_word = starts_run.copy()
        if "token_boundary" in batch:
            starts_word |= batch["token_boundary"][row, position] > 0
        else:
            starts_word[:] = True
        words_of_run = np.add.reduceat(starts_word, np.flatnonzero(starts_run), dtype=np.int64)
        self.runs += np.bincount(np.minimum(words_of_run, LONGEST_RUN), minlength=LONGEST_RUN + 1)

        begins = np.flatnonzero(starts_word).tolist()
        listed = ids.tolist()
        self.words.update(
            tuple(listed[begin:end])
            for begin, end in zip(begins, [*begins[1:], len(listed)], strict=True)
        )

    def table(self, files: int, names: Names) -> str:
        """All of it as text."""
        tokens, places = self.tokens, self.examples * self.sequence
        first = self.first_segment_tokens / self.examples
        rows = [
            ("examples", f"{self.examples:,} in {files} file{'s' * (files > 1)}"),
            ("tokens", f"{tokens:,} in {places:,} places; padding {1 - tokens / places:.1%}"),
            ("length", _spread(self.lengths)),
            ("segments", f"first {first:.1f}, second {tokens / self.examples - first:.1f} tokens"),
        ]
        if names.tokenizer:
            share = self.unknown / max(1, tokens)
            rows.append(("unknown", f"{self.unknown:,} tokens, {share:.2%} of all"))
        if self.labels is not None:
            shares = zip(names.labels, self.labels / self.examples, strict=True)
            rows.append(("labels", ", ".join(f"{name} {share:.1%}" for name, share in shares)))
        if self.masked is None:
            rows.append(("masks", "none in the files; training draws them"))
        elif not self.kinds.sum():
            rows.append(("masks", "no token is masked"))
        else:
            rows += self._mask_rows(names)
        width = max(len(name) for name, _ in rows) + 2
        return "\n".join(
            textwrap.fill(
                text,
                WIDTH,
                initial_indent=f"{name:{width}}",
                subsequent_indent=" " * width,
                break_long_words=False,
            )
            for name, text in rows
        )

    def _mask_rows(self, names: Names) -> list[tuple[str, str]]:
        masked = int(self.kinds.sum())
        kinds = zip(KINDS, self.kinds / masked, strict=True)
        runs = [
            f"{number}{'+' * (number == LONGEST_RUN)}: {share:.1%}"
            for number, share in enumerate(self.runs / self.runs.sum())
            if share > 0
        ]
        return [
            ("masked", f"{masked:,} tokens, {masked / max(1, self.tokens):.1%} of all"),
            ("masked per example", _spread(self.masked)),
            ("of these", ", ".join(f"{name} {share:.1%}" for name, share in kinds)),
            # Spans that happen to be neighbours cannot be told apart.
            ("words side by side", ", ".join(runs)),
            ("words masked most", ", ".join(f"{w} {n:,}" for w, n in self.frequent_words(names))),
        ]

    def frequent_words(self, names: Names) -> list[tuple[str, int]]:
        """The words masked most often, in a fixed order, and how often."""
        frequent = sorted(self.words.items(), key=lambda item: (-item[1], item[0]))
        return [(names.word(ids), count) for ids, count in frequent[:MOST_FREQUENT]]


def _spread(counts: np.ndarray) -> str:
    """`mean 118.2, median 125, 14 to 128` of numbers given as how often each occurs."""
    total = counts.sum()
    mean = counts @ np.arange(len(counts)) / total
    median = int(np.searchsorted(np.cumsum(counts), total / 2))
    present = np.flatnonzero(counts)
    return f"mean {mean:.1f}, median {median}, {present[0]} to {present[-1]}"
