"""Remembers the ids of words, since few distinct words make up most of a text.

A tokenizer whose subwords never cross certain places in a text can encode what is between them on
its own, once. `WordTable` cuts texts at these places, numbers the distinct words in a hash table,
and copies the ids of known words; only new ones reach the tokenizer.
"""

import itertools
from collections.abc import Callable, Sequence

import numpy as np

from albert_tf.environment import compiled

EncodeWords = Callable[[Sequence[str]], Sequence[Sequence[int] | None]]
EncodeTexts = Callable[[Sequence[str]], Sequence[Sequence[int]]]

# The table is emptied when it is full; it takes about 30 MB.
_MAX_WORDS = 1 << 19
_MAX_KEY_BYTES = 16 * _MAX_WORDS
_SLOTS = 2 * _MAX_WORDS

_SPACE = ord(" ")
_FNV_OFFSET, _FNV_PRIME = np.uint64(0xCBF29CE484222325), np.uint64(0x100000001B3)
_EMPTY = -1  # slot
_WHOLE = -1  # number of words, or of ids, of a text that has to be encoded as a whole


class WordTable:
    """The ids of words that texts are cut into, in bounded memory.

    Args:
        spaces: the ASCII characters that separate words.
        pairs: pairs of ASCII characters between which no subword extends.
        limits: maximum size in UTF-8 of a word, and of a text that is cut, at most 100,000.
        encode_words: returns the ids of each of a list of words. A word begins with a space if one
            precedes it in the text, or if the text begins with it. None: the ids depend on the
            rest of the text.
        encode_texts: returns the ids of texts that are encoded as a whole: those that contain a
            word without ids of its own, and those beyond the limits.
    """

    def __init__(
        self,
        spaces: str,
        pairs: Sequence[str],
        limits: tuple[int, int],
        encode_words: EncodeWords,
        encode_texts: EncodeTexts,
    ):
        self._encode_words, self._encode_texts = encode_words, encode_texts
        self._limits = np.array(limits)
        self._is_space = np.zeros(256, np.bool_)
        self._is_space[[ord(c) for c in spaces]] = True
        self._ends_word = np.tile(self._is_space, (256, 1))
        for pair in pairs:
            self._ends_word[ord(pair[0]), ord(pair[1])] = True
        self._slots = np.full(_SLOTS, _EMPTY, np.int32)
        self._keys = np.empty(_MAX_KEY_BYTES, np.uint8)
        self._key_ends = np.zeros(_MAX_WORDS + 1, np.int64)
        self._id_ends = np.zeros(_MAX_WORDS + 1, np.int64)
        self._ids: np.ndarray = np.empty(0, np.int32)
        self._needs_text = np.zeros(_MAX_WORDS, np.bool_)
        self._count = 0

    def encode_flat(self, texts: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        """Return the ids of all texts, int32 `[tokens]`, and their number per text, `[texts]`."""
        encoded = [text.encode() for text in texts]
        data = np.frombuffer(b"".join(encoded), np.uint8)
        ends = np.cumsum([0, *map(len, encoded)])
        ids, lengths = [np.empty(0, np.int32)], [np.empty(0, np.int64)]
        done = 0
        while done < len(texts):
            numbers = np.empty(ends[-1] - ends[done], np.int32)  # a word has at least one byte
            words = np.empty(len(texts) - done, np.int64)
            count, numbered = _number_words(
                data, ends[done:], self._is_space, self._ends_word, self._limits,
                self._slots, self._keys, self._key_ends, self._count, numbers, words,
            )  # fmt: skip
            self._learn(count)
            found, found_lengths = self._join(texts[done:], numbers, words[:numbered])
            ids.append(found)
            lengths.append(found_lengths)
            done += numbered
            if done < len(texts):  # the table is full
                self._slots[:] = _EMPTY
                self._count, self._ids = 0, self._ids[:0]
        return np.concatenate(ids), np.concatenate(lengths)

    def _learn(self, count: int) -> None:
        """Encode the words that have been numbered since the last call."""
        if count == self._count:
            return
        ends = self._key_ends[self._count : count + 1]
        keys = self._keys[ends[0] : ends[-1]].tobytes()
        bounds = itertools.pairwise((ends - ends[0]).tolist())
        words = [keys[begin:end].decode() for begin, end in bounds]
        found = self._encode_words(words)
        self._needs_text[self._count : count] = [
            ids is None or _depends_on_more(word) for word, ids in zip(words, found, strict=True)
        ]
        known = [ids or () for ids in found]
        sizes = np.fromiter(map(len, known), np.int64)
        self._id_ends[self._count + 1 : count + 1] = len(self._ids) + np.cumsum(sizes)
        new = np.fromiter(itertools.chain.from_iterable(known), np.int32)
        self._ids = np.concatenate([self._ids, new])
        self._count = count

    def _join(
        self, texts: Sequence[str], numbers: np.ndarray, words: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        numbers = numbers[: np.maximum(words, 0).sum()]
        ids, lengths = _join_ids(numbers, words, self._id_ends, self._ids, self._needs_text)
        if len(whole := np.flatnonzero(lengths == _WHOLE)):
            encoded = self._encode_texts([texts[text] for text in whole.tolist()])
            lengths[whole] = 0
            positions = np.cumsum(lengths)[whole]
            lengths[whole] = [len(found) for found in encoded]
            flat = list(itertools.chain.from_iterable(encoded))
            ids = np.insert(ids, np.repeat(positions, lengths[whole]), flat)
        return ids, lengths


def _depends_on_more(word: str) -> bool:
    """Return whether the lower case of a word can depend on what it was cut from.

    A capital sigma at the end of a word has a form of its own, and a period or an apostrophe does
    not always end a word.
    """
    return "\u03a3" in word and not word.removeprefix(" ").isalpha()


@compiled
def _number_words(
    text, ends, is_space, ends_word, limits, slots, keys, key_ends, count, numbers, words
):  # fmt: skip
    """Cut texts into words and numbers these in the order in which they first occur.

    Args:
        text: uint8 `[bytes]`, the texts without anything between them.
        ends: int64 `[texts + 1]`, where the first text begins, and where each ends.
        is_space: bool `[256]`.
        ends_word: bool `[256, 256]`, whether a word ends between two bytes.
        limits: int64 `[2]`, maximum size of a word and of a text in bytes.
        slots: int32, a hash table with linear probing, of numbers or `_EMPTY`.
        keys: uint8, the distinct words, one after the other.
        key_ends: int64, where each of them ends in `keys`, after a 0.
        count: how many there are.
        numbers: int32, filled with the number of each word.
        words: int64 `[texts]`, filled with the number of words of each text, or `_WHOLE`.

    Returns:
        How many distinct words there are now, and how many texts have been cut; fewer than there
        are if the table is full.
    """
    found = 0
    for index in range(len(words)):
        position, end = ends[index], ends[index + 1]
        size = end - position
        words[index] = _WHOLE
        if size > limits[1]:
            continue
        # Every byte could be a word of its own, and have a space in front.
        if count + size > len(slots) // 2 or key_ends[count] + 2 * size > len(keys):
            return count, index
        first = found
        after_space = True
        while position < end:
            if is_space[text[position]]:
                position += 1
                after_space = True
                continue
            begin = position
            hashed = np.uint64(after_space) ^ _FNV_OFFSET  # FNV-1a
            while True:
                hashed = (hashed ^ np.uint64(text[position])) * _FNV_PRIME
                position += 1
                if position == end or ends_word[text[position - 1], text[position]]:
                    break
            if position - begin > limits[0]:
                break
            slot = _slot_of(text, begin, position, after_space, hashed, slots, keys, key_ends)
            if slots[slot] == _EMPTY:
                slots[slot] = count
                key_end = key_ends[count]
                if after_space:
                    keys[key_end] = _SPACE
                    key_end += 1
                for byte in range(begin, position):
                    keys[key_end] = text[byte]
                    key_end += 1
                count += 1
                key_ends[count] = key_end
            numbers[found] = slots[slot]
            found += 1
            after_space = False
        else:
            words[index] = found - first
            continue
        found = first
    return count, len(words)


@compiled
def _slot_of(text, begin, end, after_space, hashed, slots, keys, key_ends):
    """Return the slot of the word `text[begin:end]`, or the empty one where it belongs."""
    mask = np.uint64(len(slots) - 1)
    slot = (hashed ^ (hashed >> np.uint64(32))) & mask
    while True:
        number = slots[slot]
        if number == _EMPTY:
            return slot
        key_begin, key_end = key_ends[number], key_ends[number + 1]
        same_size = key_end - key_begin == end - begin + after_space
        if same_size and (keys[key_begin] == _SPACE) == after_space:
            position = begin
            while position < end and keys[position + key_end - end] == text[position]:
                position += 1
            if position == end:
                return slot
        slot = (slot + np.uint64(1)) & mask


@compiled
def _join_ids(numbers, words, id_ends, ids, needs_text):
    """Return the ids of all texts, and the number of each, or `_WHOLE`."""
    joined = np.empty((id_ends[numbers + 1] - id_ends[numbers]).sum(), np.int32)
    lengths = np.empty(len(words), np.int64)
    found = total = 0
    for index in range(len(words)):
        lengths[index] = _WHOLE
        if words[index] == _WHOLE:
            continue
        first = total
        text = numbers[found : found + words[index]]
        found += words[index]
        for number in text:
            if needs_text[number]:
                total = first
                break
            for position in range(id_ends[number], id_ends[number + 1]):
                joined[total] = ids[position]
                total += 1
        else:
            lengths[index] = total - first
    return joined[:total], lengths
