"""The table of vocabulary types."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from albert_tf.tokenizers.normalization import preprocess
from data_prep import unigram_vocabulary, wordpiece_vocabulary


class VocabularyType(NamedTuple):
    """A type of vocabulary: a row of the table.

    Attributes:
        prepare: `prepare(line, do_lower_case)` returns the text as the trainer and the tokenizer
            see it.
        train: `train(sentences, prefix, vocab_size)` writes the files.
        endings: endings of the files; first that of the file that other commands read.
        min_size: the smallest possible number of pieces.
    """

    prepare: Callable[[str, bool], str]
    train: Callable[[list[str], str, int], None]
    endings: tuple[str, ...]
    min_size: int


VOCABULARY_TYPES: dict[str, VocabularyType] = {
    "unigram": VocabularyType(
        preprocess, unigram_vocabulary.train, (".model", ".vocab"), unigram_vocabulary.MIN_SIZE
    ),
    "wordpiece": VocabularyType(
        wordpiece_vocabulary.prepare,
        wordpiece_vocabulary.train,
        (".txt",),
        wordpiece_vocabulary.MIN_SIZE,
    ),
}
