"""What Python makes of characters, as arrays that a TensorFlow graph can hold.

Normalisation inside a graph must give the characters that `albert_tf.tokenizers.base` gives,
whatever Unicode version and locale TensorFlow was built with. The graph therefore gets Python's own
tables.
"""

from __future__ import annotations

import functools
import sys
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

PAGE = 256  # numbers that share a row of a table

CASED, CASE_IGNORABLE = 1, 2


class Table(NamedTuple):
    """A number for each code point; most pages of 256 code points are the same.

    Attributes:
        pages: int32 `[4352]`: row of `values` for each page.
        values: int32 `[rows, 256]`.
    """

    pages: np.ndarray
    values: np.ndarray


class Replacements(NamedTuple):
    """What each of some numbers is replaced with; the others stay.

    Attributes:
        rule_of: rule of each code point or id; 0: it stays.
        starts: int32 `[rules + 1]`: where the replacement of each begins in `replacements`.
        replacements: int32, of all rules, one after the other.
    """

    rule_of: Table
    starts: np.ndarray
    replacements: np.ndarray


def table(values: Mapping[int, int]) -> Table:
    """The table of some values; 0 for all other code points."""
    dense = np.zeros(sys.maxunicode + 1, np.int32)
    dense[list(values)] = list(values.values())
    rows, pages = np.unique(dense.reshape(-1, PAGE), axis=0, return_inverse=True)
    return Table(pages.reshape(-1).astype(np.int32), rows)


def replacements_table(replacements: Mapping[int, Sequence[int]]) -> Replacements:
    """The arrays of what some code points, or ids, are replaced with."""
    numbers: dict[tuple[int, ...], int] = {}
    rule_of = {
        number: numbers.setdefault(tuple(new), len(numbers) + 1)
        for number, new in replacements.items()
    }
    lengths = [0, 0, *map(len, numbers)]  # rule 0 has nothing
    flat = [number for new in numbers for number in new]
    return Replacements(
        table(rule_of), np.cumsum(lengths).astype(np.int32), np.array([*flat, 0], np.int32)
    )


@functools.cache  # all of Unicode is looked at
def replacements_of(rewrite: Callable[[str], str]) -> Replacements:
    """The arrays of a function of single characters."""
    changed = ((c, rewrite(c)) for c in characters())
    return replacements_table({ord(c): list(map(ord, new)) for c, new in changed if new != c})


@functools.cache
def white_space() -> Table:
    """1 for what `str.split` takes for white space."""
    return table({ord(c): 1 for c in characters() if c.isspace()})


def control_characters() -> Table:
    """1 for the characters of category Cc."""
    return table({ord(c): 1 for c in characters() if unicodedata.category(c) == "Cc"})


@functools.cache
def casing() -> Table:
    """`CASED` and `CASE_IGNORABLE` characters, as `str.lower` sees them around a capital sigma.

    Python names no function for them, so it is asked which sigma it makes after each character.
    """
    classes = {}
    for character in characters():
        if (character + "Σ").lower()[-1] == "ς":
            classes[ord(character)] = CASED
        elif ("A" + character + "Σ").lower()[-1] == "ς":
            classes[ord(character)] = CASE_IGNORABLE
    return table(classes)


@functools.cache
def characters() -> list[str]:
    """All characters that Unicode has assigned, without surrogates, which no text holds."""
    return [c for c in map(chr, code_points()) if unicodedata.category(c) not in _NONE]


def code_points() -> range:
    """All of Unicode, with what no character has."""
    return range(sys.maxunicode + 1)


_NONE = ("Cn", "Cs")
