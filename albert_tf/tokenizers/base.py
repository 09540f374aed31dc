"""Turns text into subword ids as the original ALBERT does; loads no TensorFlow.

    tokenizer = Tokenizer.load("30k-clean.model")      # or "albert/albert-base-v2"
    tokenizer.tokenize("The cat sat.")      # ['▁the', '▁cat', '▁sat', '.']
    tokenizer.encode("The cat sat.")        # [14, 2008, 847, 9]

White space, accents and case are normalized *before* the subword model, so that a model file gives
the original's ids regardless of the normalizer stored in it. Control symbols are added by the
caller: `[MASK]` in a text is six characters of text, unless the caller asks for it to be read as
the symbol, as in a prompt:

    tokenizer.encode("The cat [MASK].", special_symbols=True)       # [14, 2008, 4, 9]
"""

from __future__ import annotations

import abc
import functools
import itertools
import os
import re
import string
import unicodedata
from collections.abc import Iterable, Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np

from albert_tf.errors import InputError
from albert_tf.files import is_folder
from albert_tf.hub.names import local_vocabulary
from albert_tf.tokenizers import alignment
from albert_tf.tokenizers.folders import find_vocabulary, read_lower_case

WORD_START = "\u2581"  # SentencePiece writes the space before a word as this character

# Punctuation that is a word on its own but does not end one in the middle of a piece ("co-op").
# In the original it excludes the apostrophe and the signs < = >, which always start a word.
_INNER_PUNCTUATION = frozenset(string.punctuation) - frozenset("'<=>")

# Scripts written without spaces, in which every piece counts as a word.
_UNSPACED_SCRIPTS = ("CJK", "HIRAGANA", "KATAKANA", "BOPOMOFO", "THAI", "LAO", "KHMER", "MYANMAR")


class TextPart(NamedTuple):
    """A special symbol, or the text before, between or after special symbols."""

    text: str
    start: int
    starts_word: bool
    symbol: int | None


class Tokenizer(abc.ABC):
    """Splits text into subwords of a fixed vocabulary.

    A subclass names the suffix of its vocabulary files, by which `Tokenizer.load` finds it:
    `class WordPieceTokenizer(Tokenizer, suffix=".txt")`.

    Attributes:
        path: path of the vocabulary.
        do_lower_case: whether text is lower-cased first.
        pieces: the vocabulary, by id.
        pad_id, unk_id, cls_id, sep_id, mask_id: ids of the special symbols.
        word_starts: bool `[vocab_size]`, True where a piece begins a word.
        replacement_ids: int32, ids of ordinary pieces, from which masking draws random
            replacements (neither control symbols nor the unknown piece).
    """

    _by_suffix: ClassVar[dict[str, type[Tokenizer]]] = {}

    path: str
    do_lower_case: bool
    pieces: list[str]
    pad_id: int
    unk_id: int
    cls_id: int
    sep_id: int
    mask_id: int
    word_starts: np.ndarray
    replacement_ids: np.ndarray

    def __init_subclass__(cls, suffix: str = "", **kwargs: Any):
        super().__init_subclass__(**kwargs)
        if suffix:
            Tokenizer._by_suffix[suffix] = cls

    def __init__(self, path: str, do_lower_case: bool = True):
        self.path = path
        self.do_lower_case = do_lower_case

    @staticmethod
    def load(path: str, do_lower_case: bool | None = None) -> Tokenizer:
        """Loads a vocabulary; the suffix of its name determines the class.

        Args:
            path: a SentencePiece `.model`, a WordPiece vocabulary `.txt` with one piece per line,
                a folder that contains one of them, or the name of published weights, such as
                "albert/albert-base-v2".
            do_lower_case: whether to lower-case text, as when the vocabulary was trained; None for
                what a folder records, or else True.

        Raises:
            InputError: if the file is missing, of an unknown kind, or not a vocabulary for ALBERT,
                or the name cannot be fetched.
        """
        path = local_vocabulary(path, argument="path")
        if is_folder(path):
            recorded = read_lower_case(path)
            do_lower_case = recorded if do_lower_case is None else do_lower_case
            path = _vocabulary_in(path)
        do_lower_case = True if do_lower_case is None else do_lower_case
        suffix = os.path.splitext(path)[1]
        if suffix not in Tokenizer._by_suffix:
            raise InputError(
                f"{path}: the name of a vocabulary file must end in "
                f"{' or '.join(Tokenizer._by_suffix)}, not {suffix!r}"
            )
        return Tokenizer._by_suffix[suffix](path, do_lower_case)

    @property
    def vocab_size(self) -> int:
        return len(self.pieces)

    def preprocess(self, text: str) -> str:
        """Normalizes a text as the original's `preprocess_text`, for the subword model."""
        return preprocess(text, self.do_lower_case)

    def tokenize(self, text: str, special_symbols: bool = False) -> list[str]:
        """Returns the subwords of a text as strings; `special_symbols` as for `encode`."""
        tokens: list[str] = []
        for part in self._parts(text, special_symbols):
            tokens += [part.text] if part.symbol is not None else self._tokenize(part)
        return tokens

    def encode(self, text: str, special_symbols: bool = False) -> list[int]:
        """Returns the ids of a text, without `[CLS]` and `[SEP]` around them.

        Args:
            text: any text.
            special_symbols: whether the names of special symbols (`[CLS]`, `[SEP]`, `[MASK]`,
                padding and unknown, spelled as in the vocabulary) are read as the symbols;
                otherwise they are ordinary text. White space before a symbol is dropped; text after
                a symbol begins a word if there is white space between them.
        """
        return self.encode_batch([text], special_symbols)[0].tolist()

    def encode_batch(self, texts: Sequence[str], special_symbols: bool = False) -> list[np.ndarray]:
        """Returns the ids of each text, as `encode` does, in int32 arrays."""
        if special_symbols:
            return [self.encode_with_offsets(text, special_symbols=True)[0] for text in texts]
        return self._encode_texts(texts)

    def encode_with_offsets(
        self, text: str, special_symbols: bool = False
    ) -> tuple[np.ndarray, np.ndarray]:
        """Returns the ids of a text and the span of text of each.

        Args:
            text: any text.
            special_symbols: as for `encode`.

        Returns:
            The ids of `encode`, int32 `[tokens]`, and their starts and ends in characters of the
            raw `text`, without surrounding white space, int32 `[tokens, 2]`. These never decrease.
            Tokens may share a character that was normalized to several. The span of a token for
            only the space before a word is empty.
        """
        ids: list[Sequence[int]] = []
        offsets: list[np.ndarray] = []
        for part in self._parts(text, special_symbols):
            if part.symbol is not None:
                ids.append([part.symbol])
                offsets.append(np.array([[part.start, part.start + len(part.text)]]))
            else:
                found, spans = self._encode_part(part)
                ids.append(found)
                offsets.append(np.reshape(spans, [-1, 2]) + part.start)
        empty = np.empty([0, 2], np.int64)
        return (
            np.array(list(itertools.chain(*ids)), np.int32),
            np.concatenate([empty, *offsets]).astype(np.int32),
        )

    def encode_flat(self, texts: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        """Returns the ids of all texts, int32 `[tokens]`, and their number per text, `[texts]`.

        For data preparation: uses a single thread, since every process has its own core.
        """
        encoded = self.encode_batch(texts)
        lengths = np.fromiter(map(len, encoded), np.int64, len(encoded))
        return np.concatenate([np.empty(0, np.int32), *encoded]), lengths

    def special_symbols(self) -> dict[str, int]:
        """Returns the ids of the special symbols by their spelling in the vocabulary."""
        ids = (self.pad_id, self.unk_id, self.cls_id, self.sep_id, self.mask_id)
        return {self.pieces[id]: id for id in ids}

    def _parts(self, text: str, special_symbols: bool) -> Iterable[TextPart]:
        if not special_symbols:
            return [TextPart(text, 0, True, None)]
        symbols = self.special_symbols()
        parts, position, after_space = [], 0, True
        for match in re.finditer("|".join(map(re.escape, symbols)), text):
            parts.append(TextPart(text[position : match.start()], position, after_space, None))
            parts.append(TextPart(match[0], match.start(), True, symbols[match[0]]))
            position = match.end()
            after_space = text[position : position + 1].isspace()
        parts.append(TextPart(text[position:], position, after_space, None))
        return [part for part in parts if part.text.strip()]

    @abc.abstractmethod
    def _tokenize(self, part: TextPart) -> list[str]: ...

    @abc.abstractmethod
    def _encode_texts(self, texts: Sequence[str]) -> list[np.ndarray]: ...

    @abc.abstractmethod
    def _encode_part(self, part: TextPart) -> tuple[Sequence[int], Sequence[tuple[int, int]]]:
        """Returns the ids and their spans within the part."""

    def convert_ids_to_tokens(self, ids: Iterable[int]) -> list[str]:
        return [self.pieces[id] for id in ids]

    @abc.abstractmethod
    def decode(self, ids: Iterable[int]) -> str:
        """Returns the text of some ids, without control symbols."""


def _vocabulary_in(folder: str) -> str:
    if vocabulary := find_vocabulary(folder):
        return vocabulary
    raise InputError(f"{folder}: contains no vocabulary, such as spiece.model or vocab.txt")


def preprocess(text: str, do_lower_case: bool) -> str:
    """Collapses white space, removes accents (NFKD) and optionally lower-cases.

    This is the original's `preprocess_text`. (XLNet's, which the Hugging Face tokenizer follows,
    also turns `` and '' into straight quotes; ALBERT's does not.)
    """
    text = " ".join(text.split())
    if not text.isascii():
        text = without_accents(text)
    return text.lower() if do_lower_case else text


def without_accents(text: str) -> str:
    """Applies NFKD and removes combining marks, independently for each character."""
    return _combining_marks().sub("", unicodedata.normalize("NFKD", text))


def preprocess_with_spans(text: str, do_lower_case: bool) -> tuple[str, np.ndarray]:
    """Returns the result of `preprocess`, and the span in `text` of each of its characters.

    The spans are int64 `[characters, 2]`.
    """

    def normalize_character(character: str) -> str:
        character = without_accents(character)
        return character.lower() if do_lower_case else character

    folded, positions = " ".join(text.split()), alignment.folded_positions(text)
    spans = alignment.expanded_spans(folded, positions, normalize_character)
    return preprocess(text, do_lower_case), spans


def starts_word(piece: str) -> bool:
    """Whether a SentencePiece piece begins a word, for whole-word masking.

    As in the original's `is_start_piece`, these are `▁...`, `<...`, single punctuation marks, and
    pieces that contain anything other than letters and punctuation, such as digits. In the
    original, only the letters a to z continue a word. Here, letters of every script written with
    spaces do, since otherwise no Greek or Russian word would ever be masked as a whole.
    """
    if piece.startswith((WORD_START, "<")) or piece in _INNER_PUNCTUATION:
        return True
    return not all(c in _INNER_PUNCTUATION or _continues_word(c) for c in piece)


def _continues_word(character: str) -> bool:
    if character.isascii():
        return character.isalpha()
    return unicodedata.category(character)[0] in "LM" and not is_unspaced(character)


def is_unspaced(character: str) -> bool:
    """Whether a character is a letter or mark of a script written without spaces."""
    letter_or_mark = unicodedata.category(character)[0] in "LM"
    return letter_or_mark and unicodedata.name(character, "").startswith(_UNSPACED_SCRIPTS)


@functools.cache
def _combining_marks() -> re.Pattern:
    # There are none above this range, and going through all characters would take 0.2 s.
    marks = (c for c in map(chr, range(0x300, 0x20000)) if unicodedata.combining(c))
    return re.compile(f"[{''.join(marks)}]+")
