"""Which tokens continue a word of a script written without spaces, for masking whole words.

Without spaces, nothing in a text says where words begin, and the tokenizer takes every piece as a
word. A segmenter finds words of several pieces. Words of other scripts are left to the tokenizer.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import numpy as np
import regex

from albert_tf.errors import InputError
from albert_tf.tokenizers import Tokenizer
from albert_tf.tokenizers.wordpiece import IDEOGRAPHS
from albert_tf.tokenizers.words import UNSPACED


class Segmenter(NamedTuple):
    """Finds words.

    Attributes:
        words: returns the words of a text, which together are the text.
        letters: pattern of one or more letters of the scripts whose words it knows.
    """

    words: Callable[[str], Iterable[str]]
    letters: regex.Pattern[str]


def load_segmenter(name: str) -> Segmenter:
    """Load a segmenter, one of `WORD_SEGMENTERS`.

    Raises:
        InputError: If its package is not installed.
    """
    load, extra = WORD_SEGMENTERS[name]
    try:
        return load()
    except ImportError as error:
        raise InputError(
            f"`word_segmenter`={name}: {error.name} is not installed; pip install "
            f"'albert-tf[{extra}]'"
        ) from None


def _jieba() -> Segmenter:
    import rjieba  # the algorithm and dictionary of jieba, in Rust

    return Segmenter(rjieba.cut, regex.compile(f"[{IDEOGRAPHS}]+"))


def _icu() -> Segmenter:
    from icu4py.breakers import WordBreaker

    # The scripts that ICU has dictionaries for; it takes a run of any other as one word.
    scripts = r"\p{scx=Thai}\p{scx=Laoo}\p{scx=Khmr}\p{scx=Mymr}\p{scx=Hani}\p{scx=Hira}"
    letters = regex.compile(rf"[{UNSPACED}&&[{scripts}]]+", regex.V1)
    return Segmenter(lambda text: WordBreaker(text, "en"), letters)  # the same in every locale


# By name: what loads the segmenter, and the extra that installs its package.
WORD_SEGMENTERS: dict[str, tuple[Callable[[], Segmenter], str]] = {
    "icu": (_icu, "words"),
    "jieba": (_jieba, "chinese"),
}


def continuing_tokens(
    tokenizer: Tokenizer, texts: Sequence[str], lengths: np.ndarray, segmenter: Segmenter
) -> np.ndarray:
    """Find the tokens that begin inside a word.

    Args:
        lengths: int64 `[texts]`, their numbers of tokens.

    Returns:
        bool `[tokens]`, for all texts.
    """
    found = np.zeros(lengths.sum(), np.bool_)
    ends = np.cumsum(lengths)
    for text, end, length in zip(texts, ends, lengths, strict=True):
        if not segmenter.letters.search(text):
            continue
        inside = np.zeros(len(text) + 1, np.bool_)
        position = 0
        for word in segmenter.words(text):
            if len(word) > 1 and segmenter.letters.fullmatch(word):
                inside[position + 1 : position + len(word)] = True
            position += len(word)
        _, spans = tokenizer.encode_with_offsets(text)
        found[end - length : end] = inside[spans[:, 0]]
    return found
