"""Splits raw text into words inside a TensorFlow graph, as `albert_tf.tokenizers.words` does."""

from __future__ import annotations

import functools
import re
import string
from typing import NamedTuple

import tensorflow as tf

from albert_tf.export import character_tables, graph_characters
from albert_tf.export.graph_characters import Characters
from albert_tf.tokenizers.words import character_sets, pattern_of_words

_SPACE = ord(" ")
_MARK = "<"  # precedes each word


class RawWords(NamedTuple):
    """The words of several texts, text by text; `words` are those of all texts.

    Attributes:
        text: the characters of the words, which have their places in the raw texts.
        first: int64 `[words]`, index of the first character of each word in `text`.
        after: int64 `[words]`, index of the character after its last.
    """

    text: Characters
    first: tf.Tensor
    after: tf.Tensor

    @property
    def rows(self) -> tf.Tensor:
        """int64 `[words]`, the text of each word."""
        return tf.gather(self.text.rows, self.first)

    def spans(self) -> tuple[tf.Tensor, tf.Tensor]:
        """Return the start and the end of each word in its raw text, int64 `[words]`."""
        return tf.gather(self.text.starts, self.first), tf.gather(self.text.ends, self.after - 1)

    def joined(self) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        """Join the words of each text by single spaces.

        Returns:
            The new texts, strings `[texts]`, and the start and the end of each word in them.
        """
        rows, numbers = self.rows, tf.range(tf.size(self.first, tf.int64))
        number_in_row = numbers - tf.cast(graph_characters.lower_bound(rows, rows), tf.int64)
        of_words = tf.repeat(numbers, self.after - self.first)
        place = tf.range(tf.size(of_words, tf.int64))
        spaced = (place == tf.gather(self.first, of_words)) & (
            tf.gather(number_in_row, of_words) > 0
        )
        source = tf.repeat(place, 1 + tf.cast(spaced, tf.int64))
        is_space = tf.concat([source[1:] == source[:-1], [False]], 0)[: tf.size(source)]
        text = self.text.gather(source)
        text = text._replace(codes=tf.where(is_space, _SPACE, text.codes))
        first_of_row = tf.gather(self.first, graph_characters.lower_bound(rows, rows))
        start = self.first - first_of_row + number_in_row
        return text.strings(), start, start + self.after - self.first


class WordSplitter:
    """Splits texts into words.

    The regular expression runs on a string with a letter for the kind of each character, so its
    places are those of characters, and it needs no character classes of TensorFlow's Unicode.

    Args:
        joined: as in `albert_tf.tokenizers.words.split_words`.
    """

    def __init__(self, joined: bool):
        kinds, symbols = _kinds_of_characters()
        self._kinds = graph_characters.GraphTable(kinds)
        self._pattern = pattern_of_words(symbols, joined)
        self._spaces = symbols["space"]

    def __call__(self, texts: tf.Tensor) -> RawWords:
        """Return the words of strings `[texts]`."""
        text = graph_characters.decode(texts)
        kinds = self._kinds(text.codes) + ord(string.ascii_letters[0])
        strings = text._replace(codes=kinds).strings()
        marked = tf.strings.regex_replace(strings, self._pattern, rf"{_MARK}\0")
        found = tf.strings.unicode_decode(marked, "UTF-8").values
        is_mark = found == ord(_MARK)
        after_mark = tf.concat([[False], is_mark], 0)[: tf.size(found)]
        begins = tf.boolean_mask(after_mark, ~is_mark)
        in_words = tf.reduce_all(kinds[:, None] != [ord(symbol) for symbol in self._spaces], axis=1)
        first = tf.where(tf.boolean_mask(begins, in_words))[:, 0]
        text = text.gather(tf.where(in_words)[:, 0])
        after = tf.concat([first[1:], [tf.size(text.codes, tf.int64)]], 0)[: tf.size(first)]
        return RawWords(text, first, after)


@functools.cache  # goes through all of Unicode
def _kinds_of_characters() -> tuple[dict[int, int], dict[str, str]]:
    """Find the characters that are in the same of the sets that decide where words end.

    Returns:
        The kind of each character, and for each set the letters of the kinds in it.
    """
    sets = character_sets()
    everything = "".join(map(chr, character_tables.code_points()))
    membership: dict[int, int] = {}
    for bit, inside in enumerate(sets.values()):
        for found in re.finditer(f"[{inside}]", everything):
            code = found.start()
            membership[code] = membership.get(code, 0) | 1 << bit
    # Kind 0 is in no set.
    kinds = {members: kind for kind, members in enumerate(sorted({0, *membership.values()}))}
    symbols = {
        name: "".join(string.ascii_letters[kind] for m, kind in kinds.items() if m >> bit & 1)
        for bit, name in enumerate(sets)
    }
    return {c: kinds[m] for c, m in membership.items()}, symbols
