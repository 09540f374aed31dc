"""Python's handling of characters as tables, which a TensorFlow graph contains.

Normalization inside a graph must give the same characters as `albert_tf.tokenizers.normalization`,
regardless of the Unicode version and locale of TensorFlow. A table maps code points to numbers,
those that it lacks to 0; replacements map them to the code points that take their place.
"""

import functools
import sys
import unicodedata
from collections.abc import Callable, Iterable

from albert_tf.tokenizers import alignment

CASED, CASE_IGNORABLE = 1, 2


def among(some: Iterable[str]) -> dict[int, int]:
    """Return a table with 1 for some characters."""
    return {ord(c): 1 for c in some}


@functools.cache  # goes through all of Unicode
def replacements_of(rewrite: Callable[[str], str]) -> dict[int, list[int]]:
    """Return what a function of single characters replaces."""
    changed = ((c, rewrite(c)) for c in characters())
    return {ord(c): list(map(ord, new)) for c, new in changed if new != c}


@functools.cache
def white_space() -> dict[int, int]:
    """Return a table with 1 for what `str.split` treats as white space."""
    return among(c for c in characters() if c.isspace())


@functools.cache
def control_characters() -> dict[int, int]:
    """Return a table with 1 for the characters of category Cc."""
    return among(c for c in characters() if unicodedata.category(c) == "Cc")


@functools.cache
def composing_marks() -> dict[int, int]:
    """Return a table with 1 for `albert_tf.tokenizers.alignment.composing_marks`."""
    return among(alignment.composing_marks())


@functools.cache
def casing() -> dict[int, int]:
    """Return a table of `CASED` and `CASE_IGNORABLE` characters, as `str.lower` defines them.

    Python has no function for these properties. They follow from which sigma `str.lower` chooses
    after each character.
    """
    classes = {}
    for character in characters():
        if (character + "Σ").lower()[-1] == "ς":
            classes[ord(character)] = CASED
        elif ("A" + character + "Σ").lower()[-1] == "ς":
            classes[ord(character)] = CASE_IGNORABLE
    return classes


@functools.cache
def characters() -> list[str]:
    """Return all assigned characters, without surrogates, which valid text does not contain."""
    return [c for c in map(chr, code_points()) if unicodedata.category(c) not in ("Cn", "Cs")]


def code_points() -> range:
    """Return all code points, including unassigned ones."""
    return range(sys.maxunicode + 1)
