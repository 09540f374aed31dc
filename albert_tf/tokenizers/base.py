"""Text to subword ids, as the original ALBERT does it; no TensorFlow.

    tokenizer = Tokenizer.load("30k-clean.model")
    tokenizer.tokenize("The cat sat.")      # ['▁the', '▁cat', '▁sat', '.']
    tokenizer.encode("The cat sat.")        # [14, 2008, 847, 9]

White space, accents and case are dealt with *before* the subword model, so the same model
file gives the original's ids whatever normaliser is stored in it. Control symbols are added by the
caller: `[MASK]` typed in a text is six characters of text, unless the caller says that it stands
for the symbol, as in a prompt:

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
from albert_tf.tokenizers import alignment

WORD_START = "\u2581"  # SentencePiece writes the space before a word as this character

# Punctuation that stands alone as a word but does not end one in the middle of a piece ("co-op").
# The apostrophe and the signs < = > are not among them in the original, and always start a word.
_INNER_PUNCTUATION = frozenset(string.punctuation) - frozenset("'<=>")

# Scripts written without spaces: each of their pieces counts as a word of its own.
_UNSPACED_SCRIPTS = ("CJK", "HIRAGANA", "KATAKANA", "BOPOMOFO", "THAI", "LAO", "KHMER", "MYANMAR")


class TextPart(NamedTuple):
    """A special symbol, or the text before, between and after them."""

    text: str
    start: int
    starts_word: bool
    symbol: int | None


class Tokenizer(abc.ABC):
    """Splits text into subwords of a fixed vocabulary.

    A subclass names the ending of its vocabulary files, by which `Tokenizer.load` finds it:
    `class WordPieceTokenizer(Tokenizer, suffix=".txt")`.

    Attributes:
        path: file of the vocabulary.
        do_lower_case: whether text is lower-cased first.
        pieces: the vocabulary, by id.
        pad_id, unk_id, cls_id, sep_id, mask_id: ids of the special symbols.
        word_starts: bool `[vocab_size]`, True where a piece begins a word.
        replacement_ids: int32, ids of the ordinary pieces, from which masking draws its random
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
    def load(path: str, do_lower_case: bool = True) -> Tokenizer:
        """The tokenizer of a vocabulary file, chosen by the ending of its name.

        Args:
            path: a SentencePiece `.model`, or a WordPiece vocabulary `.txt` with a piece a line.
            do_lower_case: whether to lower-case text, as the vocabulary was trained.

        Raises:
            InputError: the file is missing, of an unknown kind, or not a vocabulary for ALBERT.
        """
        suffix = os.path.splitext(path)[1]
        if suffix not in Tokenizer._by_suffix:
            raise InputError(
                f"{path}: a vocabulary file ends in {' or '.join(Tokenizer._by_suffix)}, "
                f"not {suffix!r}"
            )
        return Tokenizer._by_suffix[suffix](path, do_lower_case)

    @property
    def vocab_size(self) -> int:
        return len(self.pieces)

    def preprocess(self, text: str) -> str:
        """What the subword model gets to see: the original's `preprocess_text`."""
        return preprocess(text, self.do_lower_case)

    def tokenize(self, text: str, special_symbols: bool = False) -> list[str]:
        """The subwords of a text, as strings; `special_symbols` as for `encode`."""
        tokens: list[str] = []
        for part in self._parts(text, special_symbols):
            tokens += [part.text] if part.symbol is not None else self._tokenize(part)
        return tokens

    def encode(self, text: str, special_symbols: bool = False) -> list[int]:
        """The ids of a text.

        Args:
            text: any text.
            special_symbols: whether the names of the special symbols (`[CLS]`, `[SEP]`, `[MASK]`,
                padding and unknown, spelled as in the vocabulary) stand for the symbols where
                they are typed; otherwise they are text as any other. White space before a symbol
                does not count; what follows begins a word if white space is between.

        Returns:
            The ids, without a `[CLS]` and `[SEP]` around them.
        """
        return self.encode_batch([text], special_symbols)[0].tolist()

    def encode_batch(self, texts: Sequence[str], special_symbols: bool = False) -> list[np.ndarray]:
        """The ids of each text, as `encode` gives them: int32 arrays."""
        if special_symbols:
            return [self.encode_with_offsets(text, special_symbols=True)[0] for text in texts]
        return self._encode_texts(texts)

    def encode_with_offsets(
        self, text: str, special_symbols: bool = False
    ) -> tuple[np.ndarray, np.ndarray]:
        """The ids of a text and what each of them stands for.

        Args:
            text: any text.
            special_symbols: as for `encode`.

        Returns:
            The ids of `encode`, int32 `[tokens]`, and int32 `[tokens, 2]`: start and end of each
            in characters of `text` as it was given, without white space around. They never
            decrease; a character that was normalised to several may be shared by tokens; a token
            for nothing but the space before a word is empty.
        """
        ids, offsets = [], []
        for part in self._parts(text, special_symbols):
            if part.symbol is not None:
                ids.append([part.symbol])
                offsets.append([[part.start, part.start + len(part.text)]])
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
        """The ids of all texts in one int32 array `[tokens]`, and how many each has, `[texts]`.

        For data preparation: works in this thread alone, since others have cores of their own.
        """
        encoded = self.encode_batch(texts)
        lengths = np.fromiter(map(len, encoded), np.int64, len(encoded))
        return np.concatenate([np.empty(0, np.int32), *encoded]), lengths

    def special_symbols(self) -> dict[str, int]:
        """The special symbols as the vocabulary spells them, and their ids."""
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
        """The ids and their spans within the part."""

    def convert_ids_to_tokens(self, ids: Iterable[int]) -> list[str]:
        return [self.pieces[id] for id in ids]

    @abc.abstractmethod
    def decode(self, ids: Iterable[int]) -> str:
        """Readable text of some ids; control symbols are left out."""


def preprocess(text: str, do_lower_case: bool) -> str:
    """Folds white space, removes accents (NFKD) and, if asked, lower-cases.

    As the original's `preprocess_text`. (XLNet's, and the Hugging Face tokenizer after it, also
    turn `` and '' into straight quotes; ALBERT's does not.)
    """
    text = " ".join(text.split())
    if not text.isascii():
        text = without_accents(text)
    return text.lower() if do_lower_case else text


def without_accents(text: str) -> str:
    """NFKD without combining marks; what becomes of a character depends on no other one."""
    return _combining_marks().sub("", unicodedata.normalize("NFKD", text))


def preprocess_with_spans(text: str, do_lower_case: bool) -> tuple[str, np.ndarray]:
    """`preprocess`, and int64 `[characters, 2]`: where in `text` each character comes from."""

    def normalize_character(character: str) -> str:
        character = without_accents(character)
        return character.lower() if do_lower_case else character

    folded, positions = " ".join(text.split()), alignment.folded_positions(text)
    spans = alignment.expanded_spans(folded, positions, normalize_character)
    return preprocess(text, do_lower_case), spans


def starts_word(piece: str) -> bool:
    """Whether a SentencePiece piece begins a word, for whole-word masking.

    As the original's `is_start_piece`: `▁...`, `<...`, single punctuation marks, and pieces with
    anything but letters and punctuation in them, such as digits. The original takes only the
    letters a to z to continue a word; here letters of every script written with spaces do, since
    otherwise no Greek or Russian word would ever be masked as a whole.
    """
    if piece.startswith((WORD_START, "<")) or piece in _INNER_PUNCTUATION:
        return True
    return not all(c in _INNER_PUNCTUATION or _continues_word(c) for c in piece)


def _continues_word(character: str) -> bool:
    if character.isascii():
        return character.isalpha()
    letter_or_mark = unicodedata.category(character)[0] in "LM"
    return letter_or_mark and not unicodedata.name(character, "").startswith(_UNSPACED_SCRIPTS)


@functools.cache
def _combining_marks() -> re.Pattern:
    # There are none above; looking at all characters would cost every process 0.2 s.
    marks = (c for c in map(chr, range(0x300, 0x20000)) if unicodedata.combining(c))
    return re.compile(f"[{''.join(marks)}]+")
