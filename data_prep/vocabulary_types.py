"""The table of vocabulary types."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable
from typing import Literal, NamedTuple

from albert_tf.tokenizers import normalization, wordpiece
from albert_tf.tokenizers.normalization import Normalization
from data_prep import unigram_vocabulary, wordpiece_vocabulary


class VocabularyType(NamedTuple):
    """A type of vocabulary: a row of the table.

    Attributes:
        prepare: `prepare(line, normalization)` returns the text as the trainer and the tokenizer
            see it.
        unicode_form: of text with accents.
        bare: returns a word as the tokenizer sees it if accents are not kept.
        train: `train(sentences, vocab_size, character_coverage, user_defined_symbols)` returns the
            contents of the files.
        endings: endings of the files; first that of the file that other commands read.
        min_size: the smallest possible number of pieces.
        huggingface_class: the class of `transformers` that reads the vocabulary.
    """

    prepare: Callable[[str, Normalization], str]
    unicode_form: Literal["NFC", "NFKC"]
    bare: Callable[[str], str]
    train: Callable[[list[str], int, float, tuple[str, ...]], list[bytes]]
    endings: tuple[str, ...]
    min_size: int
    huggingface_class: str


VOCABULARY_TYPES: dict[str, VocabularyType] = {
    "unigram": VocabularyType(
        prepare=normalization.preprocess,
        unicode_form="NFKC",
        # As SentencePiece's own normalizer composes what remains.
        bare=lambda word: unicodedata.normalize("NFKC", normalization.without_accents(word)),
        train=unigram_vocabulary.train,
        endings=(".model", ".vocab"),
        min_size=unigram_vocabulary.MIN_SIZE,
        huggingface_class="AlbertTokenizer",
    ),
    "wordpiece": VocabularyType(
        prepare=wordpiece_vocabulary.prepare,
        unicode_form="NFC",
        bare=wordpiece.without_accents,
        train=wordpiece_vocabulary.train,
        endings=(".txt",),
        min_size=wordpiece_vocabulary.MIN_SIZE,
        huggingface_class="BertTokenizer",
    ),
}
