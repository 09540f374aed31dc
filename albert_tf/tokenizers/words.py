"""Splits raw text into words, for models that label words.

    split_words("Anna O'Brien's train left London-Paris at 7:30.")
    # Anna  O'Brien  '  s  train  left  London-Paris  at  7:30  .

A word contains no white space. Punctuation and symbols are words on their own, except hyphens and
periods between other characters ("London-Paris", "U.S"), an apostrophe after a first letter, and a
period, comma or colon between digits; this is close to corpora such as CoNLL-2003. Every letter of
a script that is written without spaces is a word, with the marks after it, as in Chinese corpora.
Loads no framework.
"""

from __future__ import annotations

import functools
import re
import unicodedata
from collections.abc import Iterable, Mapping

from albert_tf.tokenizers.word_starts import character_ranges, unspaced_in

_JOINERS = "-.\u2010\u2011"  # parts of a word between two characters that are neither


def split_words(text: str, joined: bool = True) -> list[tuple[int, int]]:
    """Split a text into words.

    Args:
        text: raw text.
        joined: whether punctuation may be part of a word or number, as described above. Otherwise
            it always stands alone, so that an entity may begin or end at each, as "Paris" in
            "Paris-based".

    Returns:
        The first character of each word and the one after its last, in order. Characters outside
        of all words are white space.
    """
    return [match.span() for match in _words(joined).finditer(text)]


@functools.cache
def _words(joined: bool) -> re.Pattern[str]:
    return re.compile(pattern_of_words(character_sets(), joined))


@functools.cache
def character_sets() -> dict[str, str]:
    """Return the sets of characters that end words, as in brackets of a regular expression.

    A character may be in several sets or in none.
    """
    # Scanning all planes would take 0.2 s; above these are ideographs and their variants alone.
    categories = {code: unicodedata.category(chr(code))[0] for code in range(0x20000)}
    unspaced = unspaced_in("".join(map(chr, categories)))

    def ranges(characters: Iterable[int]) -> str:
        return character_ranges(characters, write=lambda code: re.escape(chr(code)))

    return {
        "space": r"\s",
        "apart": ranges(code for code in categories if categories[code] in "PS"),
        "unspaced": ranges(code for code in unspaced if categories[code] != "M")
        + "\U00020000-\U0003ffff",
        "unspaced_marks": ranges(code for code in categories if categories[code] == "M")
        + "\U000e0100-\U000e01ef",
        "joiners": re.escape(_JOINERS),
        "letters": "A-Za-z",
        "apostrophes": "'’",
        "digits": "0-9",
        "separators": ".,:",
    }


def pattern_of_words(sets: Mapping[str, str], joined: bool) -> str:
    """Return the regular expression of a word.

    Args:
        sets: those of `character_sets`, or symbols that stand for their characters.
        joined: as in `split_words`.
    """
    chars = sets.__getitem__
    plain = f"[^{chars('space')}{chars('apart')}{chars('unspaced')}]"
    single = f"[{chars('unspaced')}][{chars('unspaced_marks')}]*|[{chars('apart')}]"
    if not joined:
        return f"{plain}+|{single}"
    # No look-around, which the regular expressions of TensorFlow graphs do not have.
    first_letter = f"(?:[{chars('letters')}][{chars('apostrophes')}])?"
    inner = f"{first_letter}{plain}+(?:[{chars('joiners')}]{plain}+)*"
    number = f"[{chars('digits')}]+(?:[{chars('separators')}][{chars('digits')}]+)+"
    return f"{number}|{inner}|{single}"
