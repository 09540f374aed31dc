"""Which pieces begin a word, for whole-word masking."""

from __future__ import annotations

import functools
import string
import unicodedata
from collections.abc import Callable, Iterable

import regex

WORD_START = "\u2581"  # SentencePiece writes the space before a word as this character

# Punctuation that is a word on its own but does not end one in the middle of a piece ("co-op").
# In the original it excludes the apostrophe and the signs < = >, which always start a word.
_INNER_PUNCTUATION = frozenset(string.punctuation) - frozenset("'<=>")

# Characters that lines may break between although no space separates words, by Unicode's classes of
# line breaking (UAX #14): SA is Thai, Lao, Khmer, Burmese, Tai Tham, ...; AK to VI are the scripts
# of Java, Bali and others; ID, CJ and NS are ideographs, kana, Yi, ... The classes also contain
# full-width Latin and some Hangul, which are written with spaces.
UNSPACED = (
    r"[[\p{LB=SA}\p{LB=AK}\p{LB=AP}\p{LB=AS}\p{LB=VF}\p{LB=VI}\p{LB=ID}\p{LB=CJ}\p{LB=NS}]"
    r"&&[\p{L}\p{M}\p{Nl}]--[\p{Latin}\p{Hangul}]]"
)
_UNSPACED = regex.compile(UNSPACED, regex.V1)


def starts_word(piece: str) -> bool:
    """Return whether a SentencePiece piece begins a word, for whole-word masking.

    As in the original's `is_start_piece`, these are `▁...`, `<...`, single punctuation marks, and
    pieces that contain anything other than letters and punctuation, such as digits. In the
    original, only the letters a to z continue a word. Here, letters of every script written with
    spaces do, since otherwise no Greek or Russian word would ever be masked as a whole. In scripts
    without spaces, every piece is a word, unless it begins with a vowel sign or accent.
    """
    if piece.startswith((WORD_START, "<")) or piece in _INNER_PUNCTUATION:
        return True
    if is_mark(piece[0]):
        return False
    return not all(c in _INNER_PUNCTUATION or _continues_word(c) for c in piece)


def starts_unspaced_word(text: str) -> bool:
    """Return whether a text inside a word can begin one (scripts written without spaces)."""
    return bool(text) and is_unspaced(text[0]) and not is_mark(text[0])


def _continues_word(character: str) -> bool:
    if character.isascii():
        return character.isalpha()
    return unicodedata.category(character)[0] in "LM" and not is_unspaced(character)


def is_mark(character: str) -> bool:
    """Return whether a character belongs to the one before it, as vowel signs and accents do."""
    return unicodedata.category(character)[0] == "M"


@functools.lru_cache(maxsize=100_000)
def is_unspaced(character: str) -> bool:
    """Return whether a character is a letter or mark of a script written without spaces."""
    return _UNSPACED.match(character) is not None


def unspaced_in(text: str) -> list[int]:
    """Return where the letters and marks of scripts written without spaces are in a text."""
    return [found.start() for found in _UNSPACED.finditer(text)]


def character_ranges(
    characters: Iterable[int], write: Callable[[int], str] = r"\U{:08x}".format
) -> str:
    """Return the inside of a character class; as ranges, since beyond U+FFFF each entry costs time.

    Args:
        characters: code points.
        write: how a regular expression writes one.
    """
    ranges: list[list[int]] = []
    for character in sorted(characters):
        if ranges and ranges[-1][1] == character - 1:
            ranges[-1][1] = character
        else:
            ranges.append([character, character])
    return "".join(f"{write(first)}-{write(last)}" for first, last in ranges)
