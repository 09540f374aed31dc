"""Maps the characters of a normalized text to the characters of the raw text."""

import functools
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator
from typing import Literal

import numpy as np

from albert_tf.tokenizers.words import character_ranges

_WORD = re.compile(r"\S+")


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
        text: the text before normalization.
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
    """Compose a text, and for NFKC also replaces compatibility characters.

    A character and the marks after it are composed together, white space alone. If that changes
    them, all of the new characters have the span of all of the old ones.

    Args:
        text: the text.
        spans: of its characters in the raw text, int64 `[characters, 2]`.
        form: the Unicode form.

    Returns:
        The composed text and its spans.
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
    """Return the span in the raw text, without spaces, of characters first to after - 1."""
    while first < after and is_space[first]:
        first += 1
    while first < after and is_space[after - 1]:
        after -= 1
    if first == after:
        start = int(spans[first, 0]) if first < len(spans) else len(text.rstrip())
        return start, start
    return _trimmed(int(spans[first, 0]), int(spans[after - 1, 1]), text)


def _trimmed(start: int, end: int, text: str) -> tuple[int, int]:
    """Trim white space at both ends of a span and control characters at its end."""
    while start < end and text[start].isspace():
        start += 1
    while start < end and text[end - 1].isspace():
        end -= 1
    # The model drops these and attributes them to the preceding character.
    while start < end - 1 and unicodedata.category(text[end - 1]) == "Cc":
        end -= 1
    return start, end
