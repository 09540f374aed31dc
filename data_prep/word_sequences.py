"""Sequences of words of any text, as hashes: what an evaluation set, or a document, repeats.

A word is a run of letters and digits, in lower case and Unicode's NFKC. Where no spaces separate
words, two characters of Chinese or Japanese count as one, and four of Thai, Khmer or Burmese, which
is about what dictionaries find.
"""

import functools
import unicodedata
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from albert_tf.environment import compiled
from albert_tf.tokenizers.words import is_unspaced

# Kinds of characters. A sign, such as $ or +, may be a part of a word.
SPACE, PUNCTUATION, WORD, SYMBOL, NUMBER, SINGLE, SIGN = range(7)
MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)
_INVERSE = np.uint64(pow(int(MULTIPLIER), -1, 2**64))
_PARTS = 4  # of a word
_FIRST_IDEOGRAPH = 0x2E80
_AFTER_IDEOGRAPHS = 0xA4D0  # other scripts without spaces up to U+FFFF
_SUPPLEMENT = 0x16FE0  # ideographs and kana of the planes above


class Words(NamedTuple):
    """The words of some paragraphs, and the characters of scripts without spaces.

    Attributes:
        text: the paragraphs in lower case, one per line.
        hashes: uint64 `[words]`.
        parts: uint8 `[words]`, how much of a word each is, in quarters.
        spans: int64 `[words, 2]`, where they begin and end in `text`.
        paragraphs: int64 `[words]`, index of the paragraph of each.
    """

    text: str
    hashes: np.ndarray
    parts: np.ndarray
    spans: np.ndarray
    paragraphs: np.ndarray

    def sequences(self, length: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the sequences of a number of words that begin with the first word, the second, ...

        Returns:
            Their hashes, uint64 `[sequences]`, and the word after the last one of each, int64
            `[sequences]`.
        """
        return _sequences(self.hashes, self.parts, length * _PARTS)


def find_words(paragraphs: Iterable[str]) -> Words:
    """Find the words of some paragraphs."""
    lines = [unicodedata.normalize("NFKC", text).lower() for text in paragraphs]
    text = "\n".join(lines)
    codes = np.frombuffer(text.encode("utf-32-le", "replace"), np.uint32)
    hashes, parts, spans = _words(codes, character_kinds())
    ends = np.cumsum([len(line) + 1 for line in lines])
    return Words(text, hashes, parts, spans, np.searchsorted(ends, spans[:, 0], "right"))


@functools.cache
def character_kinds() -> np.ndarray:
    """Return the kind of every code point, uint8 `[0x110000]`."""
    kinds = np.full(0x110000, WORD, np.uint8)
    for code in range(0x33480):  # the planes above have no text
        category = unicodedata.category(chr(code))
        if category[0] in "ZC":
            kinds[code] = SPACE
        elif category[0] == "P":
            kinds[code] = PUNCTUATION
        elif category[0] == "S":
            kinds[code] = SYMBOL if code > 0x7F else SIGN
        elif category == "Nd":
            kinds[code] = NUMBER
        elif category[0] in "LM" and is_unspaced(chr(code)):
            kinds[code] = SINGLE
    return kinds


@compiled
def _words(codes: np.ndarray, kinds: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    hashes = np.empty(len(codes), np.uint64)
    parts = np.empty(len(codes), np.uint8)
    spans = np.empty((len(codes), 2), np.int64)
    count = 0
    was_inside = False
    for position, code in enumerate(codes):
        kind = kinds[code]
        is_inside = kind in (WORD, NUMBER)
        if is_inside and was_inside:
            hashes[count - 1] = (hashes[count - 1] ^ code) * MULTIPLIER
            spans[count - 1, 1] = position + 1
        elif is_inside or kind == SINGLE:
            hashes[count] = (MULTIPLIER ^ code) * MULTIPLIER
            parts[count] = _PARTS
            if kind == SINGLE:
                is_ideograph = _FIRST_IDEOGRAPH <= code < _AFTER_IDEOGRAPHS or code >= _SUPPLEMENT
                parts[count] = 2 if is_ideograph else 1
            spans[count] = position, position + 1
            count += 1
        was_inside = is_inside
    return hashes[:count], parts[:count], spans[:count]


@compiled
def _sequences(hashes: np.ndarray, parts: np.ndarray, length: int) -> tuple[np.ndarray, np.ndarray]:
    found = np.empty(len(hashes), np.uint64)
    ends = np.empty(len(hashes), np.int64)
    end = begin = collected = 0
    value, power = np.uint64(0), np.uint64(1)  # of the multiplier, for the first word
    while True:
        while collected < length and end < len(hashes):
            word = hashes[end] ^ (hashes[end] >> np.uint64(32))
            value = value * MULTIPLIER + word
            power *= MULTIPLIER
            collected += parts[end]
            end += 1
        if collected < length:
            return found[:begin], ends[:begin]
        found[begin], ends[begin] = value, end
        power *= _INVERSE
        value -= (hashes[begin] ^ (hashes[begin] >> np.uint64(32))) * power
        collected -= parts[begin]
        begin += 1
