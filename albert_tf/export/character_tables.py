"""Python's handling of characters as arrays that a TensorFlow graph can contain.

Normalization inside a graph must give the same characters as `albert_tf.tokenizers.normalization`,
regardless of the Unicode version and locale of TensorFlow. The graph therefore contains Python's
own tables.
"""

from __future__ import annotations

import functools
import sys
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from albert_tf.tokenizers import alignment

PAGE = 256  # code points or ids in a row of a table

CASED, CASE_IGNORABLE = 1, 2


class Table(NamedTuple):
    """A number for each code point; equal pages of 256 code points share a row.

    Attributes:
        pages: int32 `[4352]`, row of `values` for each page.
        values: int32 `[rows, 256]`.
    """

    pages: np.ndarray
    values: np.ndarray


class Replacements(NamedTuple):
    """Replacements of code points or ids.

    Attributes:
        rule_of: rule of each code point or id; 0 if it is kept.
        starts: int32 `[rules + 1]`, where the replacement of each rule begins in `replacements`.
        replacements: int32, the replacements of all rules, concatenated.
    """

    rule_of: Table
    starts: np.ndarray
    replacements: np.ndarray


def table(values: Mapping[int, int]) -> Table:
    """Return the table of the given values, with 0 for all other code points."""
    dense = np.zeros(sys.maxunicode + 1, np.int32)
    dense[list(values)] = list(values.values())
    rows = dense.reshape(-1, PAGE)
    numbers: dict[bytes, int] = {}
    pages = [numbers.setdefault(row.tobytes(), len(numbers)) for row in rows]
    _, firsts = np.unique(pages, return_index=True)
    return Table(np.array(pages, np.int32), rows[firsts])


def replacements_table(replacements: Mapping[int, Sequence[int]]) -> Replacements:
    """Return replacements as arrays, from code points or ids to what replaces them."""
    numbers: dict[tuple[int, ...], int] = {}
    rule_of = {
        number: numbers.setdefault(tuple(new), len(numbers) + 1)
        for number, new in replacements.items()
    }
    lengths = [0, 0, *map(len, numbers)]  # rule 0 has no replacement
    flat = [number for new in numbers for number in new]
    return Replacements(
        table(rule_of), np.cumsum(lengths).astype(np.int32), np.array([*flat, 0], np.int32)
    )


@functools.cache  # goes through all of Unicode
def replacements_of(rewrite: Callable[[str], str]) -> Replacements:
    """Return a function of single characters as arrays."""
    changed = ((c, rewrite(c)) for c in characters())
    return replacements_table({ord(c): list(map(ord, new)) for c, new in changed if new != c})


@functools.cache
def white_space() -> Table:
    """Return a table with 1 for what `str.split` treats as white space."""
    return table({ord(c): 1 for c in characters() if c.isspace()})


@functools.cache
def control_characters() -> Table:
    """Return a table with 1 for the characters of category Cc."""
    return table({ord(c): 1 for c in characters() if unicodedata.category(c) == "Cc"})


@functools.cache
def composing_marks() -> Table:
    """Return a table with 1 for `albert_tf.tokenizers.alignment.composing_marks`."""
    return table({ord(c): 1 for c in alignment.composing_marks()})


@functools.cache
def casing() -> Table:
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
    return table(classes)


@functools.cache
def characters() -> list[str]:
    """Return all assigned characters, without surrogates, which valid text does not contain."""
    return [c for c in map(chr, code_points()) if unicodedata.category(c) not in _UNASSIGNED]


def code_points() -> range:
    """Return all code points, including unassigned ones."""
    return range(sys.maxunicode + 1)


_UNASSIGNED = ("Cn", "Cs")
