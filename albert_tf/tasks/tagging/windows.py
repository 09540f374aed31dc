"""Encodes texts for tagging: `[CLS] part of a text [SEP]`.

The tag of a word is predicted at the first of its tokens. A text that is too long is split into
windows that overlap by half; a word is predicted in the window in which it has most context.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.special import softmax

from albert_tf.input.examples import Features
from albert_tf.modeling.losses import NO_LABEL
from albert_tf.tasks.tagging.tags import OUTSIDE, Entity, chunks, continued
from albert_tf.tokenizers import Tokenizer
from albert_tf.tokenizers.packing import sequence, window_starts
from albert_tf.tokenizers.words import split_words

# What a model was trained on: words, or raw texts.
WORDS, TEXT = "words", "text"


class WordsInText(NamedTuple):
    """What is encoded: a text, and the characters of each of its words, in order."""

    text: str
    words: Sequence[tuple[int, int]]


def raw_words(text: str, unit: str) -> list[tuple[int, int]]:
    """Return the words of a raw text, for a model that was trained on `unit`."""
    return split_words(text, joined=unit == WORDS)


def encoded_form(text: str, words: Sequence[tuple[int, int]], unit: str) -> WordsInText:
    """Return what a model trained on `unit` reads: words joined by spaces, or the text."""
    if unit == TEXT:
        return WordsInText(text, words)
    spans, parts, end = [], [], -1
    for first, after in words:
        parts.append(text[first:after])
        spans.append((end + 1, end + 1 + after - first))
        end = spans[-1][1]
    return WordsInText(" ".join(parts), spans)


class TagWindows(Features):
    """The windows of texts as features, those of a text next to each other.

    With labels there are `label_ids`, int32 `[windows, max_seq_length]`, of each word at its first
    token, in one window only; `NO_LABEL` elsewhere.

    Attributes:
        places: int `[words of all texts, 2]`, the window and the position in it where each word is
            predicted; -1 for a word that has no token of its own.
        counts: int `[texts]`, numbers of words.
    """

    extras = ("places", "counts")
    places: np.ndarray
    counts: np.ndarray

    def label(self, label_ids: Sequence[int], max_seq_length: int) -> None:
        """Add `label_ids`, given those of the words of all texts; `NO_LABEL` for unknown ones."""
        values = np.asarray(label_ids, np.int32)
        self.arrays["label_ids"] = self.at_words(values, max_seq_length, NO_LABEL)

    def at_words(self, values: np.ndarray, max_seq_length: int, elsewhere: int) -> np.ndarray:
        """Return `[windows, max_seq_length, ...]`, values of words `[words, ...]` at their places.

        Those of words without a token of their own are left out.
        """
        shape = (len(self), max_seq_length, *values.shape[1:])
        array = np.full(shape, elsewhere, values.dtype)
        own = self.places[:, 0] >= 0
        array[tuple(self.places[own].T)] = values[own]
        return array

    def of_words(self, values: np.ndarray) -> np.ndarray:
        """Select the values of the words, `[words, ...]`, from `[windows, seq, ...]`.

        A word without a token has the values of the word before it, or else of `[CLS]`.
        """
        numbers = np.arange(len(self.places))
        first = np.repeat(np.cumsum(self.counts) - self.counts, self.counts)
        read = np.maximum.accumulate(np.where(self.places[:, 0] >= 0, numbers, -1))
        cls = np.pad(np.repeat(self.first_windows, self.counts)[:, None], [(0, 0), (0, 1)])
        rows, positions = np.where(read[:, None] < first[:, None], cls, self.places[read]).T
        return values[rows, positions]


class WordTags(NamedTuple):
    """The tags that a model predicts for the words of a text, and their probabilities."""

    tags: list[str]
    scores: np.ndarray

    def entities(self, text: str, words: Sequence[tuple[int, int]]) -> list[Entity]:
        """Return the entities in the text, given the characters of its words."""
        found = []
        for label, first, after in chunks(self.tags):
            start, end = words[first][0], words[after - 1][1]
            score = float(self.scores[first:after].mean())
            found.append(Entity(label, start, end, text[start:end], score))
        return found


def predict_tags(windows: TagWindows, logits: np.ndarray, labels: Sequence[str]) -> list[WordTags]:
    """Return the tags of the words of each text, given logits `[windows, seq, labels]`.

    A word without a token of its own continues the tag of the word before it.
    """
    probabilities = softmax(windows.of_words(logits).astype(np.float64), axis=-1)
    ids, scores = probabilities.argmax(axis=-1), probabilities.max(axis=-1)
    predicted = []
    ends = np.cumsum(windows.counts)
    for start, end in zip(ends - windows.counts, ends, strict=True):
        tags: list[str] = []
        for number in range(start, end):
            own = windows.places[number, 0] >= 0
            predicted_tag = labels[ids[number]]
            if not own and tags:
                predicted_tag = continued(tags[-1])
            elif not own and OUTSIDE in labels:
                predicted_tag = OUTSIDE
            tags.append(predicted_tag)
        predicted.append(WordTags(tags, scores[start:end]))
    return predicted


def make_windows(
    texts: Sequence[WordsInText], tokenizer: Tokenizer, max_seq_length: int
) -> TagWindows:
    """Encode texts as windows of at most `max_seq_length` tokens, at least 3."""
    room = max_seq_length - 2
    sequences: list[tuple[np.ndarray, np.ndarray]] = []
    places, first_windows = [], []
    for text, words in texts:
        ids, offsets = tokenizer.encode_with_offsets(text)
        starts = window_starts(len(ids), room)
        tokens = first_tokens(words, offsets)
        window = nearest_window(tokens, starts, room)
        rows_and_positions = [window + len(sequences), tokens - starts[window] + 1]
        first_windows.append(len(sequences))
        places.append(np.where(tokens >= 0, rows_and_positions, -1).T)
        sequences += (sequence(tokenizer, ids[start : start + room]) for start in starts)
    windows = TagWindows(sequences, tokenizer.pad_id, first_windows=first_windows)
    windows.places = np.concatenate([np.zeros((0, 2), np.int64), *places])
    windows.counts = np.array([len(words) for _, words in texts], np.int64)
    return windows


def first_tokens(words: Sequence[tuple[int, int]], offsets: np.ndarray) -> np.ndarray:
    """Return the first token of each word that is not the first of an earlier word; -1 for none.

    The characters of words are in order; the offsets are those of `encode_with_offsets`.
    """
    visible = np.flatnonzero(offsets[:, 0] < offsets[:, 1])
    token_starts, token_ends = offsets[visible].T
    ends = np.maximum.accumulate(token_ends)
    after = np.searchsorted(ends, [start for start, _ in words], side="right")
    tokens, free = np.full(len(words), -1, np.int64), 0
    for number, ((_, end), token) in enumerate(zip(words, after, strict=True)):
        token = max(token, free)
        if token < len(visible) and token_starts[token] < end:
            tokens[number], free = visible[token], token + 1
    return tokens


def nearest_window(tokens: np.ndarray, starts: np.ndarray, room: int) -> np.ndarray:
    """Return the window in which each token has most context: that of the nearest middle.

    The windows are those of `window_starts`; for a token of -1, the result is meaningless.
    """
    middles = starts + (room - 1) / 2
    return np.searchsorted((middles[:-1] + middles[1:]) / 2, tokens, side="left")
