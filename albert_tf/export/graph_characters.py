"""Normalizes text as code points inside a TensorFlow graph.

Every character keeps the span of the raw text that it comes from, as in
`albert_tf.tokenizers.normalization`. They must become the same characters as there, regardless of
the Unicode version and locale of TensorFlow, so a graph contains Python's handling of them as
tables. A table maps code points to numbers, those that it lacks to 0; replacements map them to the
code points that take their place.
"""

import functools
import sys
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from albert_tf.tokenizers import normalization

_CASED, _CASE_IGNORABLE = 1, 2
SPACE, ALONE = 1, 2  # kinds of characters

_PAGE = 256  # code points or ids in a row of a table

_SPACE = ord(" ")
_CAPITAL_SIGMA, _SIGMA, _FINAL_SIGMA = map(ord, "Σσς")


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
def _casing() -> dict[int, int]:
    # Python has no function for these properties. They follow from which sigma `str.lower` chooses
    # after each character.
    classes = {}
    for character in characters():
        if (character + "Σ").lower()[-1] == "ς":
            classes[ord(character)] = _CASED
        elif ("A" + character + "Σ").lower()[-1] == "ς":
            classes[ord(character)] = _CASE_IGNORABLE
    return classes


@functools.cache
def characters() -> list[str]:
    """Return all assigned characters, without surrogates, which valid text does not contain."""
    return [c for c in map(chr, code_points()) if unicodedata.category(c) not in ("Cn", "Cs")]


def code_points() -> range:
    """Return all code points, including unassigned ones."""
    return range(sys.maxunicode + 1)


class Characters(NamedTuple):
    """The characters of several texts, text by text.

    Attributes:
        codes: int32 `[characters]`, code points.
        rows: int64 `[characters]`, index of the text; never decreases.
        starts, ends: int64 `[characters]`, span in the raw text that the character comes from.
        count: int64, the number of texts.
    """

    codes: tf.Tensor
    rows: tf.Tensor
    starts: tf.Tensor
    ends: tf.Tensor
    count: tf.Tensor

    def gather(self, index: tf.Tensor) -> "Characters":
        """Gather characters by index."""
        codes, rows, starts, ends = (tf.gather(part, index) for part in self[:-1])
        return Characters(codes, rows, starts, ends, self.count)

    def strings(self) -> tf.Tensor:
        """Return the texts as UTF-8 strings `[count]`."""
        ragged = tf.RaggedTensor.from_value_rowids(
            self.codes, self.rows, nrows=self.count, validate=False
        )
        return tf.strings.unicode_encode(ragged, "UTF-8")


def decode(texts: tf.Tensor) -> Characters:
    """Return the characters of strings `[texts]`; invalid UTF-8 becomes U+FFFD."""
    ragged = tf.strings.unicode_decode(texts, "UTF-8", errors="replace")
    rows = ragged.value_rowids()
    positions = tf.range(tf.size(rows, tf.int64)) - tf.gather(ragged.row_starts(), rows)
    return Characters(ragged.values, rows, positions, positions + 1, ragged.nrows())


def lower_bound(ascending: tf.Tensor, values: tf.Tensor) -> tf.Tensor:
    """Return, as int32, the index of the first element of `ascending` not below each value."""
    return tf.raw_ops.LowerBound(sorted_inputs=ascending[None], values=values[None])[0]


class GraphTable:
    """Looks up numbers of code points or ids, 0 for those that `values` lacks.

    Equal pages of the table are constants of the graph only once.
    """

    def __init__(self, values: Mapping[int, int]):
        dense = np.zeros(len(code_points()), np.int32)
        dense[list(values)] = list(values.values())
        rows = dense.reshape(-1, _PAGE)
        numbers: dict[bytes, int] = {}
        pages = [numbers.setdefault(row.tobytes(), len(numbers)) for row in rows]
        _, firsts = np.unique(pages, return_index=True)
        self._pages = tf.constant(np.array(pages, np.int32))
        self._values = tf.constant(rows[firsts].reshape(-1))

    def __call__(self, numbers: tf.Tensor) -> tf.Tensor:
        page = tf.gather(self._pages, numbers // _PAGE)
        return tf.gather(self._values, page * _PAGE + numbers % _PAGE)


class GraphReplacements:
    """Replaces code points or ids by others; each rule is a replacement, and rule 0 keeps them."""

    def __init__(self, replacements: Mapping[int, Sequence[int]]):
        numbers: dict[tuple[int, ...], int] = {}
        self._rule_of = GraphTable(
            {
                number: numbers.setdefault(tuple(new), len(numbers) + 1)
                for number, new in replacements.items()
            }
        )
        lengths = [0, 0, *map(len, numbers)]
        flat = [number for new in numbers for number in new]
        self._starts = tf.constant(np.cumsum(lengths).astype(np.int32))
        self._replacements = tf.constant(np.array([*flat, 0], np.int32))

    def __call__(self, numbers: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor, tf.Tensor]:
        """Replace int32 numbers `[n]`.

        Returns:
            int32 `[m]`: the new numbers, the index of the old number that each comes from, and its
            position in that replacement; and int32 `[n]`, the length of each replacement.
        """
        rules = self._rule_of(numbers)
        starts = tf.gather(self._starts, rules)
        lengths = tf.where(rules == 0, 1, tf.gather(self._starts, rules + 1) - starts)
        source = tf.repeat(tf.range(tf.size(numbers)), lengths)
        position = tf.range(tf.size(source)) - tf.gather(tf.cumsum(lengths, exclusive=True), source)
        # For a number that is kept, this reads an arbitrary replacement, which is not used.
        read = tf.minimum(tf.gather(starts, source) + position, tf.size(self._replacements) - 1)
        new = tf.where(
            tf.gather(rules, source) == 0,
            tf.gather(numbers, source),
            tf.gather(self._replacements, read),
        )
        return new, source, position, lengths


class Normalizer:
    """Replaces characters one by one, by rules.

    With `accents`, characters that are removed are accents of the preceding character.
    """

    def __init__(self, rules: Mapping[int, Sequence[int]], accents: bool = True):
        self._replace = GraphReplacements(rules)
        self._accents = accents
        self._is_space = GraphTable(white_space())

    def __call__(self, text: Characters) -> Characters:
        new, source, _, lengths = self._replace(text.codes)
        if self._accents:
            last = tf.gather(text.ends, _last_of_run(text.rows, lengths > 0))
            text = text._replace(ends=tf.where(self._is_space(text.codes) > 0, text.ends, last))
        return text.gather(source)._replace(codes=new)


def _last_of_run(rows: tf.Tensor, kept: tf.Tensor) -> tf.Tensor:
    """Return the last of the removed elements that follow each kept one in its row, or itself."""
    next_row = tf.concat([rows[1:], [-1]], 0)
    next_kept = tf.concat([kept[1:], [True]], 0)
    stops = tf.where((rows != next_row) | next_kept)[:, 0]
    return tf.gather(stops, lower_bound(stops, tf.range(tf.size(rows, tf.int64))))


class Whitespace:
    """Collapses white space as `" ".join(text.split())` does."""

    def __init__(self):
        self._is_space = GraphTable(white_space())

    def __call__(self, text: Characters) -> Characters:
        space = self._is_space(text.codes) > 0
        rows = text.rows
        same_row = tf.concat([rows[1:] == rows[:-1], [False]], 0)
        word_follows = tf.concat([~space[1:], [False]], 0) & same_row
        seen = tf.cumsum(tf.cast(~space, tf.int32))
        before = tf.gather(tf.concat([[0], seen], 0), lower_bound(rows, rows))
        text = text._replace(codes=tf.where(space, _SPACE, text.codes))
        return text.gather(tf.where(~space | (word_follows & (seen > before)))[:, 0])


class Composed:
    """Composes characters (NFC), with the spans of `albert_tf.tokenizers.normalization.composed`.

    `normalize` is `tensorflow_text.normalize_utf8`.
    """

    def __init__(self, normalize: Callable[[tf.Tensor, str], tf.Tensor]):
        self._normalize = normalize
        self._is_mark = GraphTable(among(normalization.composing_marks()))
        self._is_space = GraphTable(white_space())

    def __call__(self, text: Characters) -> Characters:
        composed = decode(self._normalize(text.strings(), "NFC"))
        old, new = self._sequences(text), self._sequences(composed)
        first, after = lower_bound(old, new), lower_bound(old, new + 1)
        first_new = lower_bound(new, new)
        position = first + tf.range(tf.size(new)) - first_new
        same = tf.minimum(position, tf.size(old) - 1)
        differs = tf.gather(text.codes, same) != composed.codes
        differs |= after - first != lower_bound(new, new + 1) - first_new
        counts = tf.math.unsorted_segment_sum(tf.cast(differs, tf.int32), new, tf.size(old) + 1)
        differs = tf.gather(counts, new) > 0
        return composed._replace(
            starts=tf.gather(text.starts, tf.where(differs, first, same)),
            ends=tf.gather(text.ends, tf.where(differs, after - 1, same)),
        )

    def _sequences(self, text: Characters) -> tf.Tensor:
        """Return, int32 `[characters]`, which sequence of a character and its marks each is in."""
        ends = (text.rows[1:] != text.rows[:-1]) | (self._is_space(text.codes[:-1]) > 0)
        starts = tf.concat([[True], ends], 0)[: tf.size(text.codes)]
        starts |= self._is_mark(text.codes) == 0
        return tf.cumsum(tf.cast(starts, tf.int32)) - 1


class FinalSigma:
    """Lower-cases the capital sigma, which becomes another letter at the end of a word.

    It is the only character whose lower case depends on its context.
    """

    def __init__(self):
        self._casing = GraphTable(_casing())

    def __call__(self, text: Characters) -> Characters:
        casing = self._casing(text.codes)
        counts = tf.cast(casing != _CASE_IGNORABLE, tf.int32)
        index = tf.where(counts > 0)[:, 0]
        # Padded with an uncased element at both ends, so positions are shifted by one.
        cased = tf.pad(tf.gather(casing, index) == _CASED, [[1, 1]])
        row = tf.pad(tf.gather(text.rows, index), [[1, 1]], constant_values=-1)
        position = tf.cumsum(counts)

        def is_cased(neighbor: tf.Tensor) -> tf.Tensor:
            return tf.gather(cased, neighbor) & (tf.gather(row, neighbor) == text.rows)

        # A sigma itself is never ignorable; at other positions the result is not used.
        final = is_cased(tf.maximum(position - 1, 0)) & ~is_cased(
            tf.minimum(position + 1, tf.size(row) - 1)
        )
        sigma = tf.where(final, _FINAL_SIGMA, _SIGMA)
        return text._replace(codes=tf.where(text.codes == _CAPITAL_SIGMA, sigma, text.codes))


class Words:
    """Splits texts into words, of which those longer than `longest` are cut.

    `kinds` are 0 for characters of words, `SPACE`, or `ALONE` for single-character words.
    """

    def __init__(self, kinds: Mapping[int, int], longest: int | None = None):
        self._kinds = GraphTable(kinds)
        self._longest = longest

    def __call__(self, text: Characters) -> tuple[Characters, tf.Tensor]:
        """Return the texts without white space, and the first character of each word.

        The latter are indices of characters, int64 `[words]`.
        """
        kinds = self._kinds(text.codes)
        inside = kinds == 0
        same_row = text.rows[1:] == text.rows[:-1]
        continues = tf.concat([[False], inside[1:] & inside[:-1] & same_row], 0)
        if self._longest:
            words = tf.cumsum(tf.cast(~continues, tf.int32)) - 1
            position = tf.range(tf.size(words)) - lower_bound(words, words)
            continues &= position % self._longest > 0
        kept = tf.where(kinds != SPACE)[:, 0]
        return text.gather(kept), tf.where(~tf.gather(continues, kept))[:, 0]


def index_of_byte(text: Characters, rows: tf.Tensor, bytes: tf.Tensor) -> tf.Tensor:
    """Map byte offsets in UTF-8 texts, int64 `[n]`, to indices of characters.

    `rows` are the text of each offset, int64 `[n]`.
    """
    width = 1 + sum(tf.cast(text.codes >= first, tf.int64) for first in (0x80, 0x800, 0x10000))
    starts = tf.cumsum(width, exclusive=True)
    # For an empty text this is the first character of the next one, which is never used.
    first = tf.gather(tf.concat([starts, [0]], 0), lower_bound(text.rows, rows))
    return tf.cast(lower_bound(starts, first + bytes), tf.int64)


class Visible:
    """Maps spans to the raw texts, without surrounding white space and control characters.

    `spaces` has 1 for what counts as white space in the normalized texts, and `dropped` for
    characters that are part of no piece, mostly control characters.
    """

    def __init__(self, spaces: Mapping[int, int], dropped: Mapping[int, int]):
        self._is_space = GraphTable(spaces)
        self._is_dropped = GraphTable(dropped)
        self._is_control = GraphTable(
            among(c for c in characters() if unicodedata.category(c) == "Cc")
        )

    def kept_before(
        self, text: Characters, after: tf.Tensor, count: tf.Tensor, first: tf.Tensor
    ) -> tf.Tensor:
        """Move back `count` characters from `after`, but not before `first`: int64 `[n]`.

        Dropped characters are not counted.
        """
        kept = tf.where(self._is_dropped(text.codes) == 0)[:, 0]
        position = tf.cast(lower_bound(kept, after), tf.int64) - count
        return tf.maximum(tf.gather(tf.concat([kept, [0]], 0), tf.maximum(position, 0)), first)

    def __call__(
        self, text: Characters, rows: tf.Tensor, first: tf.Tensor, after: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Return the start and end of spans in the raw texts, int64 `[n]`.

        Of each span in the normalized texts, there are its row, its first character and the one
        after its last, int64 `[n]`.
        """
        shown = self._is_space(text.codes) == 0
        begins = tf.where(shown & (self._is_dropped(text.codes) == 0))[:, 0]
        # As in `normalization.visible`, a control character with an accent is kept.
        bare = (self._is_control(text.codes) > 0) & (text.ends - text.starts == 1)
        stops = tf.where(shown & ~bare)[:, 0]
        count = tf.size(text.codes, tf.int64)
        start = tf.gather(tf.concat([begins, [count]], 0), lower_bound(begins, first))
        end = tf.gather(tf.concat([[-1], stops], 0), lower_bound(stops, after))
        empty = start >= after
        # A span of white space becomes the position where the following text begins, if any.
        follows = tf.gather(tf.concat([text.rows, [-1]], 0), after) == rows
        position = tf.where(
            follows,
            tf.gather(tf.concat([text.starts, [0]], 0), after),
            tf.gather(text.ends, tf.maximum(after - 1, 0)),
        )
        starts = tf.gather(tf.concat([text.starts, [0]], 0), start)
        ends = tf.gather(text.ends, tf.maximum(end, tf.minimum(start, count - 1)))
        return tf.where(empty, position, starts), tf.where(empty, position, ends)
