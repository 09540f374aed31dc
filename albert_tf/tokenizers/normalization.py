"""How a vocabulary normalizes text, and which characters of the raw text that leaves where.

Also the original's normalization for SentencePiece models.

The original removes all accents, which suits English: it takes the vowels of Tibetan, Thai and
Hindi away, and the tones of Vietnamese and Yoruba. A vocabulary therefore records what it does, in
the `tokenizer_config.json` next to it, under the names that Hugging Face uses. A vocabulary without
a record is normalized as the original does it, except that text for a vocabulary with capital
letters is not lower-cased.
"""

import dataclasses
import functools
import json
import logging
import os
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Literal

import numpy as np

from albert_tf.files import exists, read_json
from albert_tf.other_configs import check_only
from albert_tf.tokenizers.added_tokens import AddedToken, read_added_tokens
from albert_tf.tokenizers.words import WORD_START, character_ranges

CONFIG_FILE = "tokenizer_config.json"

_logger = logging.getLogger(__name__)

_WORD = re.compile(r"\S+")


@dataclasses.dataclass(frozen=True)
class Normalization:
    """What a vocabulary does to text before it splits it; None for what is not recorded.

    Attributes:
        do_lower_case: whether text is lower-cased.
        keep_accents: whether combining marks are kept: accents, but also the vowel signs and tone
            marks of many scripts.
        tokenize_chinese_chars: whether every Chinese character is a word (WordPiece).
        unicode_form: the Unicode form in which text with accents is encoded, so that a letter and
            its accent give the same ids whether they are one character or two: "NFKC", which
            SentencePiece's own normalizer approximates, or "NFC" (WordPiece). WordPiece then also
            keeps what BERT's rules lose: it treats zero-width spaces and non-joiners as spaces and
            keeps joiners, as SentencePiece does, and cuts words that are too long for it.
        added_tokens: tokens that are found in a text before all of this.
        prepend_scheme: whether what follows one of them "always" begins a word (SentencePiece), as
            None says, too, or only the "first" text does and what follows white space.
    """

    do_lower_case: bool | None = None
    keep_accents: bool | None = None
    tokenize_chinese_chars: bool | None = None
    unicode_form: Literal["NFC", "NFKC"] | None = None
    added_tokens: tuple[AddedToken, ...] | None = None
    prepend_scheme: str | None = None

    def otherwise(self, *others: "Normalization") -> "Normalization":
        """Fill in what is not recorded from others, in order of precedence."""
        values: dict[str, Any] = {}
        for each in reversed((self, *others)):
            values |= {name: value for name, value in vars(each).items() if value is not None}
        return Normalization(**values)

    def to_json(self) -> str:
        """Return the content of `tokenizer_config.json`."""
        return json.dumps(self.to_dict()) + "\n"

    def to_dict(self) -> dict[str, Any]:
        """Return what is recorded, under the names of Hugging Face."""
        entries = dataclasses.asdict(self)
        if self.keep_accents is not None:  # as BertTokenizer calls it
            entries["strip_accents"] = not self.keep_accents
        return {name: value for name, value in entries.items() if value is not None}


@dataclasses.dataclass(frozen=True)
class _BertTokenizerConfig:
    strip_accents: bool | None = None


# Rules of BertTokenizer that tokenizers derived from it change, such as the Japanese ones.
_ONLY = {
    "do_basic_tokenize": True,
    "word_tokenizer_type": "basic",
    "subword_tokenizer_type": "wordpiece",
}

UNRECORDED = Normalization()
# Of the original, for vocabularies without a record.
DEFAULT_NORMALIZATION = Normalization(do_lower_case=True, keep_accents=False)


def read_normalization(folder: str) -> Normalization:
    """Return what the `tokenizer_config.json` in a folder records, and the tokens added there.

    Raises:
        InputError: If a file is damaged, or the text is split by other rules than BERT's.
    """
    path = os.path.join(folder, CONFIG_FILE)
    tokens, scheme = read_added_tokens(folder)
    added = Normalization(added_tokens=tokens, prepend_scheme=scheme) if tokens else UNRECORDED
    if not exists(path):
        return added
    check_only(read_json(path, dict[str, Any]), _ONLY, path)
    strips = read_json(path, _BertTokenizerConfig).strip_accents
    of_bert = Normalization(keep_accents=None if strips is None else not strips)
    return read_json(path, Normalization).otherwise(of_bert, added)


def with_case(recorded: Normalization, pieces: Iterable[str], path: str) -> Normalization:
    """Fill in that text is not lower-cased, if the pieces of a vocabulary have capital letters.

    No lower-cased text has these. One piece in a hundred may be something else, such as a symbol.
    """
    if recorded.do_lower_case is None:
        words = (piece.strip(f"{WORD_START}#") for piece in pieces)
        with_case = [word for word in words if word.isalpha() and word.lower() != word.upper()]
        if sum(word != word.lower() for word in with_case) > 0.01 * len(with_case):
            _report_case(path)
            return dataclasses.replace(recorded, do_lower_case=False)
    return recorded


@functools.cache  # once for each file, which several parts of a program read
def _report_case(path: str) -> None:
    _logger.info("%s: has pieces with capital letters, so text is not lower-cased", path)


def preprocess(text: str, normalization: Normalization) -> str:
    """Normalize text for a SentencePiece model, whose own normalizer follows.

    Collapses white space, removes accents (NFKD) or composes them (NFC), and lower-cases. Unless
    accents are kept, this is the original's `preprocess_text`. (XLNet's, which the Hugging Face
    tokenizer follows, also turns `` and '' into straight quotes; ALBERT's does not.)
    """
    text = " ".join(text.split())
    if not text.isascii():
        if not normalization.keep_accents:
            text = without_accents(text)
        elif normalization.unicode_form:
            text = unicodedata.normalize(normalization.unicode_form, text)
    return text.lower() if normalization.do_lower_case else text


def without_accents(text: str) -> str:
    """Apply NFKD and remove combining marks, independently for each character."""
    return _combining_marks().sub("", unicodedata.normalize("NFKD", text))


def preprocess_with_spans(text: str, normalization: Normalization) -> tuple[str, np.ndarray]:
    """Return the result of `preprocess`, and the spans of its characters in `text`, `[..., 2]`."""

    def normalize_character(character: str) -> str:
        if not normalization.keep_accents:
            character = without_accents(character)
        return character.lower() if normalization.do_lower_case else character

    folded, spans = " ".join(text.split()), folded_spans(text)
    if normalization.keep_accents and normalization.unicode_form:
        folded, spans = composed(folded, spans, normalization.unicode_form)
    spans = expanded_spans(folded, spans, normalize_character)
    return preprocess(text, normalization), spans


@functools.cache
def _combining_marks() -> re.Pattern:
    # There are none above this range, and going through all characters would take 0.2 s.
    marks = (c for c in map(chr, range(0x300, 0x20000)) if unicodedata.combining(c))
    return re.compile(f"[{''.join(marks)}]+")


def folded_spans(text: str) -> np.ndarray:
    """Return where each character of `" ".join(text.split())` is in `text`, int64 `[..., 2]`."""
    positions: list[int] = []
    for word in _WORD.finditer(text):
        if positions:
            positions.append(word.start() - 1)
        positions.extend(range(word.start(), word.end()))
    return spans_at(np.array(positions, np.int64))


def spans_at(positions: np.ndarray) -> np.ndarray:
    """Return the spans of single characters, int64 `[characters, 2]`."""
    return np.stack([positions, positions + 1], axis=1)


def expanded_spans(
    text: str, spans: np.ndarray, normalize_character: Callable[[str], str]
) -> np.ndarray:
    """Return the spans of a text that is normalized character by character.

    Args:
        spans: of its characters in the raw text, int64 `[len(text), 2]`.
        normalize_character: normalizes one character. An accent, which becomes "", belongs to the
            character before it.
    """
    if text.isascii():
        return spans
    cache = {c: len(normalize_character(c)) for c in set(text)}
    lengths = np.array([cache[c] for c in text], np.int64)
    ends = spans[:, 1].copy()
    for i in range(len(text) - 2, -1, -1):
        if not lengths[i + 1] and not text[i].isspace():
            ends[i] = ends[i + 1]
    source = np.repeat(np.arange(len(text)), lengths)
    return np.stack([spans[source, 0], ends[source]], axis=1)


def compatible(character: str) -> str:
    """Replace a compatibility character, such as a ligature (NFKC)."""
    return unicodedata.normalize("NFKC", character)


def composed(text: str, spans: np.ndarray, form: Literal["NFC", "NFKC"]) -> tuple[str, np.ndarray]:
    """Compose a text, and for NFKC also replace compatibility characters; return it with spans.

    A character and the marks after it are composed together, white space alone. If that changes
    them, all of the new characters have the span of all of the old ones.

    Args:
        spans: of its characters in the raw text, int64 `[characters, 2]`.
    """
    if form == "NFKC":
        spans = expanded_spans(text, spans, compatible)
        text = "".join(map(compatible, text))
    if unicodedata.is_normalized("NFC", text):
        return text, spans
    parts, found = [], []
    for sequence in _sequences().finditer(text):
        first, after = sequence.span()
        new = unicodedata.normalize("NFC", sequence[0])
        whole = [[spans[first, 0], spans[after - 1, 1]]]
        found.append(spans[first:after] if new == sequence[0] else np.repeat(whole, len(new), 0))
        parts.append(new)
    return "".join(parts), np.concatenate(found)


@functools.cache
def _sequences() -> re.Pattern[str]:
    """Return a pattern of a character and the marks after it; white space is on its own."""
    return re.compile(rf"\s|\S[{character_ranges(map(ord, composing_marks()))}]*")


@functools.cache
def composing_marks() -> frozenset[str]:
    """Return the characters that NFC may compose with, or reorder after, the one before them."""
    seconds = {*map(chr, range(0x1161, 0x1176)), *map(chr, range(0x11A8, 0x11C3))}  # of Hangul
    characters = [*map(chr, range(0x300, 0x20000))]
    for character in characters:
        parts = unicodedata.decomposition(character).split()
        if len(parts) == 2 and not parts[0].startswith("<"):
            seconds.add(chr(int(parts[1], 16)))

    def is_mark(character: str) -> bool:
        first = unicodedata.normalize("NFD", character)[0]
        return unicodedata.combining(first) > 0 or first in seconds

    return frozenset(filter(is_mark, characters))


def composed_spans(offsets: Iterable[int], spans: np.ndarray) -> np.ndarray:
    """Return the spans of a text that was normalized a second time.

    Args:
        offsets: int `[characters + 1]`, for each character of the new text, and its end, the
            position in the intermediate text; characters that come from the same one share it.
        spans: of the intermediate text in the raw text, int64 `[intermediate characters, 2]`.
    """
    offsets = np.array(offsets, np.int64)
    if len(offsets) < 2 or not len(spans):
        return np.zeros([max(len(offsets) - 1, 0), 2], np.int64)
    first = np.minimum(offsets[:-1], len(spans) - 1)
    after = np.append(offsets, len(spans))
    last = np.maximum(after[np.searchsorted(offsets, offsets[:-1], side="right")] - 1, first)
    return np.stack([spans[first, 0], spans[last, 1]], axis=1)


def piece_spans(text: str, pieces: Iterable[tuple[str, bool]]) -> Iterator[tuple[int, int]]:
    """Yield the spans of pieces in a normalized text: some characters, or one byte of a character.

    `pieces` are these with whether each is a byte.
    """
    position = bytes_before = 0
    for piece, is_byte in pieces:
        first = position
        if not is_byte:
            position += len(piece)
            yield first, position
            continue
        bytes_before += 1
        if bytes_before == len(text[first].encode()):
            position, bytes_before = first + 1, 0
        yield first, first + 1


def visible(
    first: int, after: int, is_space: list[bool], spans: np.ndarray, text: str
) -> tuple[int, int]:
    """Return the span in the raw text, without spaces, of characters first to after - 1.

    It ends before control characters, which the model drops and attributes to the one before.
    """
    while first < after and is_space[first]:
        first += 1
    while first < after and is_space[after - 1]:
        after -= 1
    if first == after:
        start = int(spans[first, 0]) if first < len(spans) else len(text.rstrip())
        return start, start
    start, end = int(spans[first, 0]), int(spans[after - 1, 1])
    while start < end and text[start].isspace():
        start += 1
    while start < end and text[end - 1].isspace():
        end -= 1
    while start < end - 1 and unicodedata.category(text[end - 1]) == "Cc":
        end -= 1
    return start, end
