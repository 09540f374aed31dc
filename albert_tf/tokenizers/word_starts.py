"""Which pieces of a SentencePiece model begin a word, for whole-word masking."""

from __future__ import annotations

import string
import unicodedata

WORD_START = "\u2581"  # SentencePiece writes the space before a word as this character

# Punctuation that is a word on its own but does not end one in the middle of a piece ("co-op").
# In the original it excludes the apostrophe and the signs < = >, which always start a word.
_INNER_PUNCTUATION = frozenset(string.punctuation) - frozenset("'<=>")

# Scripts written without spaces, in which every piece counts as a word.
_UNSPACED_SCRIPTS = ("CJK", "HIRAGANA", "KATAKANA", "BOPOMOFO", "THAI", "LAO", "KHMER", "MYANMAR")


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
