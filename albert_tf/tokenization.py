"""Text to subword ids, as the original ALBERT does it; no TensorFlow.

    tokenizer = Tokenizer.load("30k-clean.model")
    tokenizer.tokenize("The cat sat.")      # ['▁the', '▁cat', '▁sat', '.']
    tokenizer.encode("The cat sat.")        # [14, 2008, 847, 9]

White space, accents and case are dealt with *before* the subword model, so the same model
file gives the original's ids whatever normaliser is stored in it. Control symbols are added by the
caller: `[MASK]` typed in a text is five characters of text.
"""

from __future__ import annotations

import abc
import functools
import itertools
import os
import re
import string
import unicodedata
from collections.abc import Callable, Iterable, Sequence

import numpy as np

from albert_tf import files
from albert_tf.errors import InputError

WORD_START = "\u2581"  # SentencePiece writes the space before a word as this character

# Punctuation that stands alone as a word but does not end one in the middle of a piece ("co-op").
# The apostrophe and the signs < = > are not among them in the original, and always start a word.
_INNER_PUNCTUATION = frozenset(string.punctuation) - frozenset("'<=>")

# Scripts written without spaces: each of their pieces counts as a word of its own.
_UNSPACED_SCRIPTS = ("CJK", "HIRAGANA", "KATAKANA", "BOPOMOFO", "THAI", "LAO", "KHMER", "MYANMAR")


class Tokenizer(abc.ABC):
    """Splits text into subwords of a fixed vocabulary.

    Attributes:
        path: file of the vocabulary.
        do_lower_case: whether text is lower-cased first.
        pieces: the vocabulary, by id.
        pad_id, unk_id, cls_id, sep_id, mask_id: ids of the special symbols.
        word_starts: bool `[vocab_size]`, True where a piece begins a word.
        replacement_ids: int32, ids of the ordinary pieces, from which masking draws its random
            replacements (neither control symbols nor the unknown piece).
    """

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

    @staticmethod
    def load(path: str, do_lower_case: bool = True) -> Tokenizer:
        """The tokenizer of a vocabulary file, chosen by the ending of its name.

        Args:
            path: a SentencePiece `.model`, or a WordPiece vocabulary `.txt` with a piece a line.
            do_lower_case: whether to lower-case text, as the vocabulary was trained.

        Raises:
            InputError: the file is missing, of an unknown kind, or not a vocabulary for ALBERT.
        """
        ending = os.path.splitext(path)[1]
        if ending not in TOKENIZERS:
            raise InputError(
                f"{path}: a vocabulary file ends in {' or '.join(TOKENIZERS)}, not {ending!r}"
            )
        return TOKENIZERS[ending](path, do_lower_case)

    @property
    def vocab_size(self) -> int:
        return len(self.pieces)

    def preprocess(self, text: str) -> str:
        """What the subword model gets to see: the original's `preprocess_text`."""
        return preprocess(text, self.do_lower_case)

    @abc.abstractmethod
    def tokenize(self, text: str) -> list[str]:
        """The subwords of a text, as strings."""

    @abc.abstractmethod
    def encode_batch(self, texts: Sequence[str]) -> list[np.ndarray]:
        """The ids of each text: int32 arrays, without `[CLS]` and `[SEP]`."""

    def encode_flat(self, texts: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        """The ids of all texts in one int32 array `[tokens]`, and how many each has, `[texts]`.

        For data preparation: works in this thread alone, since others have cores of their own.
        """
        encoded = self.encode_batch(texts)
        lengths = np.fromiter(map(len, encoded), np.int64, len(encoded))
        return np.concatenate([np.empty(0, np.int32), *encoded]), lengths

    def encode(self, text: str) -> list[int]:
        """The ids of a text, without `[CLS]` and `[SEP]`."""
        return self.encode_batch([text])[0].tolist()

    def convert_ids_to_tokens(self, ids: Iterable[int]) -> list[str]:
        return [self.pieces[id] for id in ids]

    @abc.abstractmethod
    def decode(self, ids: Iterable[int]) -> str:
        """Readable text of some ids; control symbols are left out."""


class SentencePieceTokenizer(Tokenizer):
    """A SentencePiece model with `<pad>` and the control symbols `[CLS]`, `[SEP]` and `[MASK]`."""

    def __init__(self, path: str, do_lower_case: bool = True):
        import sentencepiece

        if not files.exists(path):
            raise InputError(f"{path}: no such vocabulary file")
        with files.open_file(path, "rb") as file:
            model = file.read()
        self.path, self.do_lower_case = path, do_lower_case
        self._processor = processor = sentencepiece.SentencePieceProcessor()
        try:
            # An empty file parses as a model with no pieces at all.
            if not model or not processor.LoadFromSerializedProto(model):
                raise RuntimeError
        except RuntimeError:
            raise InputError(f"{path}: not a SentencePiece model") from None

        self.pieces = [processor.id_to_piece(id) for id in range(processor.get_piece_size())]
        self.pad_id, self.unk_id = processor.pad_id(), processor.unk_id()
        specials = [processor.piece_to_id(symbol) for symbol in ("[CLS]", "[SEP]", "[MASK]")]
        if self.pad_id < 0 or self.unk_id in specials:
            raise InputError(
                f"{path}: the vocabulary lacks <pad>, [CLS], [SEP] or [MASK]; "
                "data_prep/train_vocabulary.py trains one that has them"
            )
        self.cls_id, self.sep_id, self.mask_id = specials
        self.word_starts = np.array([starts_word(piece) for piece in self.pieces])
        self.replacement_ids = np.array(
            [
                id
                for id in range(self.vocab_size)
                if not (processor.is_control(id) or processor.is_unknown(id))
            ],
            np.int32,
        )
        self._split_at_comma = {
            piece: self._comma_apart(piece) for piece in self.pieces if _ends_in_digit_comma(piece)
        }
        self._ids_to_split = {processor.piece_to_id(piece) for piece in self._split_at_comma}

    def tokenize(self, text: str) -> list[str]:
        return self._with_commas_apart(self._processor.encode(self.preprocess(text), out_type=str))

    def encode_batch(self, texts: Sequence[str]) -> list[np.ndarray]:
        return [np.array(ids, np.int32) for ids in self._encode(texts, num_threads=-1)]

    def encode_flat(self, texts: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        encoded = self._encode(texts, num_threads=1)
        lengths = np.fromiter(map(len, encoded), np.int64, len(encoded))
        ids = np.fromiter(itertools.chain.from_iterable(encoded), np.int32, int(lengths.sum()))
        return ids, lengths

    def _encode(self, texts: Sequence[str], num_threads: int) -> list[list[int]]:
        texts = [self.preprocess(text) for text in texts]
        encoded = self._processor.encode(texts, num_threads=num_threads)
        for number, ids in enumerate(encoded):
            if not self._ids_to_split.isdisjoint(ids):
                tokens = self._with_commas_apart(self.convert_ids_to_tokens(ids))
                encoded[number] = [self._processor.piece_to_id(token) for token in tokens]
        return encoded

    def decode(self, ids: Iterable[int]) -> str:
        return self._processor.decode([int(id) for id in ids])

    def _comma_apart(self, piece: str) -> list[str]:
        """`▁1999,` -> `▁1999` `,`: the original keeps digits and the comma after them apart."""
        digits = piece[:-1].replace(WORD_START, "")
        tokens = self._processor.encode(digits, out_type=str)
        if not piece.startswith(WORD_START) and tokens[0].startswith(WORD_START):
            tokens[0] = tokens[0][len(WORD_START) :]
        return [token for token in tokens if token] + [","]

    def _with_commas_apart(self, pieces: Iterable[str]) -> list[str]:
        tokens: list[str] = []
        for piece in pieces:
            tokens.extend(self._split_at_comma.get(piece) or (piece,))
        return tokens


def _wordpiece(path: str, do_lower_case: bool) -> Tokenizer:
    from albert_tf.wordpiece import WordPieceTokenizer  # which takes its base class from here

    return WordPieceTokenizer(path, do_lower_case)


TOKENIZERS: dict[str, Callable[[str, bool], Tokenizer]] = {
    ".model": SentencePieceTokenizer,
    ".txt": _wordpiece,
}


def preprocess(text: str, do_lower_case: bool) -> str:
    """Folds white space, removes accents (NFKD) and, if asked, lower-cases.

    As the original's `preprocess_text`. (XLNet's, and the Hugging Face tokenizer after it, also
    turn `` and '' into straight quotes; ALBERT's does not.)
    """
    text = " ".join(text.split())
    if not text.isascii():
        text = _combining_marks().sub("", unicodedata.normalize("NFKD", text))
    return text.lower() if do_lower_case else text


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


def _ends_in_digit_comma(piece: str) -> bool:
    return len(piece) > 1 and piece[-1] == "," and piece[-2].isdigit()


@functools.cache
def _combining_marks() -> re.Pattern:
    # There are none above; looking at all characters would cost every process 0.2 s.
    marks = (c for c in map(chr, range(0x300, 0x20000)) if unicodedata.combining(c))
    return re.compile(f"[{''.join(marks)}]+")
