"""Tokenizer for the WordPiece vocabularies (`vocab.txt`) of BERT and the Chinese ALBERT models.

Words are found as by the original's `BasicTokenizer`, and split as by its `WordpieceTokenizer`:
greedily, longest piece first. The `BertNormalizer` of the `tokenizers` library treats a final
sigma, private-use characters, 256 ideographs and characters newer than its Unicode tables
differently, so that library only splits words here. Loads no TensorFlow.
"""

from __future__ import annotations

import collections
import functools
import itertools
import logging
import re
import string
import sys
import unicodedata
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from albert_tf import files
from albert_tf.errors import InputError
from albert_tf.tokenizers.added_tokens import AddedToken, TextPart
from albert_tf.tokenizers.base import Tokenizer
from albert_tf.tokenizers.normalization import (
    UNRECORDED,
    Normalization,
    composed,
    expanded_spans,
    spans_at,
    with_case,
)
from albert_tf.tokenizers.words import character_ranges, starts_unspaced_word

if TYPE_CHECKING:
    from albert_tf.tokenizers.word_table import WordTable

_logger = logging.getLogger(__name__)

SPECIAL_SYMBOLS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
CONTINUES = "##"  # prefix of pieces that continue a word
LONGEST_WORD = 200  # longer words become the unknown piece

# Characters that are words on their own: the blocks of CJK ideographs listed in the original.
IDEOGRAPHS = (
    "\u4e00-\u9fff\u3400-\u4dbf\U00020000-\U0002a6df\U0002a700-\U0002b73f\U0002b740-\U0002b81f"
    "\U0002b820-\U0002ceaf\uf900-\ufaff\U0002f800-\U0002fa1f"
)
# Zero-width characters: the space and the non-joiner separate words, of Khmer and Persian for
# example; the joiner shapes letters, of Sinhala for example.
_SEPARATORS = {0x200B: " ", 0x200C: " "}
_JOINERS = {*_SEPARATORS, 0x200D}
_UNUSED = re.compile(r"\[unused\d+\]")  # rows reserved for additional pieces
_MOST_WORDS = 200_000  # words whose ids are cached, about 50 MB


class WordPieceTokenizer(Tokenizer, suffix=".txt"):
    """A vocabulary with one piece per line, including the special symbols."""

    def __init__(self, path: str, normalization: Normalization = UNRECORDED):
        pieces = read_pieces(path, normalization.added_tokens or ())
        super().__init__(path, resolved(with_case(normalization, pieces, path)))
        self.pieces = pieces
        ids = {piece: id for id, piece in enumerate(self.pieces)}
        missing = [symbol for symbol in SPECIAL_SYMBOLS if symbol not in ids]
        if missing:
            raise InputError(
                f"{path}: the vocabulary lacks {', '.join(missing)}; "
                "data_prep/train_vocabulary.py --model_type=wordpiece trains one that has them"
            )
        specials = [ids[symbol] for symbol in SPECIAL_SYMBOLS]
        self.pad_id, self.unk_id, self.cls_id, self.sep_id, self.mask_id = specials
        # Where no spaces separate words, a run of letters up to the next space is a sentence.
        self.word_starts = np.array(
            [
                not piece.startswith(CONTINUES) or starts_unspaced_word(piece[len(CONTINUES) :])
                for piece in self.pieces
            ]
        )
        self.replacement_ids = np.array(
            [
                id
                for piece, id in ids.items()
                if id not in specials and not _UNUSED.fullmatch(piece)
            ],
            np.int32,
        )

    @functools.cached_property
    def _ids_of_word(self) -> _IdsOfWord:
        return _IdsOfWord({piece: id for id, piece in enumerate(self.pieces[: self.base_size])})

    def preprocess(self, text: str) -> str:
        """Return the words of a text, separated by spaces."""
        return " ".join(words(text, self.normalization))

    def _normalizer(self):
        from tokenizers import normalizers

        form = self.normalization.unicode_form
        rules = normalizers.BertNormalizer(
            handle_chinese_chars=bool(self.normalization.tokenize_chinese_chars),
            strip_accents=not self.normalization.keep_accents,
            lowercase=self.do_lower_case,
        )
        return normalizers.Sequence([*([getattr(normalizers, form)()] if form else []), rules])

    def _tokenize(self, part: TextPart) -> list[str]:
        return self.convert_ids_to_tokens(self._encode(part.text))

    def _encode_texts(self, texts: Sequence[str]) -> list[np.ndarray]:
        return [np.fromiter(self._encode(text), np.int32) for text in texts]

    def _encode_flat(self, texts: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        return self._table.encode_flat(self._composed(texts))

    @functools.cached_property
    def _table(self) -> WordTable:
        from albert_tf.tokenizers.word_table import WordTable  # loads numba

        # Other ASCII characters that Python counts as white space are removed.
        spaces = " \t\n\r"
        others = [c for c in map(chr, range(128)) if c not in spaces]
        pairs = [
            before + after
            for before, after in itertools.product(others, repeat=2)
            if before in string.punctuation or after in string.punctuation
        ]
        return WordTable(spaces, pairs, (64, 100_000), self._encode_all, self._encode_all)

    def _encode_all(self, texts: Sequence[str]) -> list[list[int]]:
        return [[*self._encode(text)] for text in texts]

    def _encode_part(self, part: TextPart) -> tuple[list[int], list[tuple[int, int]]]:
        processed, spans = normalize_with_spans(part.text, self.normalization)
        found, found_spans = [], []
        pattern = _words_in(processed, self.normalization)
        for match in pattern.finditer(processed):
            ids = self._ids_of_word[match[0]]
            found += ids
            first = match.start()
            for number, id in enumerate(ids):
                length = len(self.pieces[id]) - (len(CONTINUES) if number else 0)
                after = match.end() if id == self.unk_id else first + length
                found_spans.append((int(spans[first, 0]), int(spans[after - 1, 1])))
                first = after
        return found, found_spans

    def _decode(self, ids: list[int]) -> str:
        from tokenizers.decoders import WordPiece

        specials = {self.pad_id, self.cls_id, self.sep_id, self.mask_id}
        tokens = self.convert_ids_to_tokens(id for id in ids if id not in specials)
        text = WordPiece(prefix=CONTINUES).decode(tokens)
        if not self.normalization.tokenize_chinese_chars:
            return text
        return re.sub(f"(?<=[{IDEOGRAPHS}]) (?=[{IDEOGRAPHS}])", "", text)

    def _encode(self, text: str) -> Iterable[int]:
        found = words(text, self.normalization)
        return itertools.chain.from_iterable(map(self._ids_of_word.__getitem__, found))


class _IdsOfWord(dict):
    """Maps words to ids and caches them, since few distinct words make up most of a text."""

    def __init__(self, vocabulary: dict[str, int]):
        from tokenizers.models import WordPiece

        super().__init__()
        self._model = WordPiece(
            vocabulary,
            unk_token="[UNK]",
            max_input_chars_per_word=LONGEST_WORD,
            continuing_subword_prefix=CONTINUES,
        )

    def __missing__(self, word: str) -> list[int]:
        if len(self) >= _MOST_WORDS:
            self.clear()
        ids = self[word] = [token.id for token in self._model.tokenize(word)]
        return ids


def read_pieces(path: str, added: Iterable[AddedToken] = ()) -> list[str]:
    """Read the pieces of a vocabulary file.

    As in the original, a blank line is a space, and the last line of a piece has its id. Blank
    lines at the end are none, unless new tokens are `added`, whose ids count one of them.

    Raises:
        InputError: If the file is missing or not UTF-8.
    """
    if not files.exists(path):
        raise InputError(f"`path`={path}: no such vocabulary file")
    pieces = [(line.split() or [" "])[0] for line in files.read_lines(path)]
    count = len(pieces)
    while pieces and pieces[-1] == " ":
        pieces.pop()
    if len(pieces) < count and any(token.content not in pieces for token in added):
        pieces.append(" ")
    last = {piece: number for number, piece in enumerate(pieces, start=1)}
    repeated = [n for n, piece in enumerate(pieces, start=1) if n < last[piece] and piece != " "]
    if repeated:
        piece = pieces[repeated[0] - 1]
        _logger.warning(
            "%s: line %d repeats line %d, %r; the last one counts, as in BERT (lines repeated: %d)",
            path, last[piece], repeated[0], piece, len(repeated),
        )  # fmt: skip
    return pieces


def resolved(normalization: Normalization) -> Normalization:
    """Fill in what a vocabulary does not record, as in BERT: cased ones keep accents."""
    lower = normalization.do_lower_case is not False
    return normalization.otherwise(Normalization(lower, not lower, tokenize_chinese_chars=True))


def words(text: str, normalization: Normalization) -> list[str]:
    """Split a text into words; punctuation marks and CJK ideographs are words on their own.

    Control characters are removed, and accents (NFD nonspacing marks) unless they are kept.
    """
    text = _normalize(without_controls(text, normalization), normalization)
    return _words_in(text, normalization).findall(text)


def count(text: str, normalization: Normalization) -> int:
    """Count the words of a text that is already normalized."""
    return len(_words_in(text, normalization).findall(text))


def without_controls(text: str, normalization: Normalization) -> str:
    """Remove control characters and U+FFFD; see `Normalization.unicode_form` for joiners."""
    if normalization.unicode_form and not text.isascii():
        text = text.translate(_SEPARATORS)
    return _patterns(normalization).dropped.sub("", text)


def without_accents(text: str) -> str:
    """Apply NFD and remove nonspacing marks."""
    return _marks().sub("", unicodedata.normalize("NFD", text))


def normalize_with_spans(text: str, normalization: Normalization) -> tuple[str, np.ndarray]:
    """Normalize a text before it is split into words.

    Returns:
        The normalized text, and the start and end of each of its characters in the raw text, int64
        `[characters, 2]`.
    """
    kept = np.ones(len(text), bool)
    for match in _patterns(normalization).dropped.finditer(text):
        kept[match.start() : match.end()] = False
    spans = spans_at(np.flatnonzero(kept))
    text = without_controls(text, normalization)
    if normalization.unicode_form:
        text, spans = composed(text, spans, normalization.unicode_form)
    spans = expanded_spans(text, spans, lambda c: _normalize(c, normalization))
    return _normalize(text, normalization), spans


def _normalize(text: str, normalization: Normalization) -> str:
    ascii = text.isascii()
    if normalization.unicode_form and not ascii:
        text = unicodedata.normalize(normalization.unicode_form, text)
    if normalization.do_lower_case:
        text = text.lower()
    return text if ascii or normalization.keep_accents else without_accents(text)


def _words_in(text: str, normalization: Normalization) -> re.Pattern:
    patterns = _patterns(normalization)
    return patterns.ascii_words if text.isascii() else patterns.words


class _Patterns(NamedTuple):
    """What is removed, and words in ASCII and other text."""

    dropped: re.Pattern
    ascii_words: re.Pattern
    words: re.Pattern


@functools.cache
def _patterns(normalization: Normalization) -> _Patterns:
    of_category = _characters_of_category()
    control = {*of_category["Cc"], *of_category["Cf"], 0xFFFD}.difference(map(ord, "\t\n\r"))
    if normalization.unicode_form:
        control -= _JOINERS
    # ASCII symbols such as ^ and $ count as punctuation, other symbols do not.
    punctuation = set(map(ord, string.punctuation))
    for category, characters in of_category.items():
        if category.startswith("P"):
            punctuation.update(characters)
    alone = character_ranges(punctuation)
    if normalization.tokenize_chinese_chars:
        alone += IDEOGRAPHS
    # A run of characters, not longer than what is looked up in the vocabulary.
    length = f"{{1,{LONGEST_WORD}}}" if normalization.unicode_form else "+"
    return _Patterns(
        dropped=re.compile(f"[{character_ranges(control)}]+"),
        ascii_words=_words_pattern(re.escape(string.punctuation), length),
        words=_words_pattern(alone, length),
    )


@functools.cache
def _marks() -> re.Pattern:
    return re.compile(f"[{character_ranges(_characters_of_category()['Mn'])}]+")


@functools.cache
def _characters_of_category() -> dict[str, list[int]]:
    """Return the characters by category, in this Python's version of Unicode."""
    of_category: dict[str, list[int]] = collections.defaultdict(list)
    for character in range(sys.maxunicode + 1):
        of_category[unicodedata.category(chr(character))].append(character)
    return of_category


def _words_pattern(alone: str, length: str) -> re.Pattern:
    """Return a pattern for one of the characters `alone`, or a run of others but white space."""
    return re.compile(rf"[{alone}]|[^\s{alone}]{length}")
