"""Which tokens continue a Chinese word, for masking whole words.

A character is a token, and without spaces nothing in a text says where words begin; a segmenter
finds them. Words of other scripts are left to the tokenizer.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import numpy as np

from albert_tf.errors import InputError
from albert_tf.tokenizers import Tokenizer
from albert_tf.tokenizers.wordpiece import IDEOGRAPHS

_IDEOGRAPHS = re.compile(f"[{IDEOGRAPHS}]+")

# Returns the words of a text, which together are the text.
Segment = Callable[[str], list[str]]


def load_segmenter(name: str) -> Segment:
    """Loads a segmenter.

    Args:
        name: one of `WORD_SEGMENTERS`.

    Raises:
        InputError: if its package is not installed.
    """
    try:
        return WORD_SEGMENTERS[name]()
    except ImportError as error:
        raise InputError(
            f"`word_segmenter`={name}: {error.name} is not installed; pip install "
            "'albert-tf[chinese]'"
        ) from None


def _jieba() -> Segment:
    import rjieba  # the algorithm and dictionary of jieba, in Rust

    return rjieba.cut


WORD_SEGMENTERS: dict[str, Callable[[], Segment]] = {"jieba": _jieba}


def is_ideograph(text: str) -> bool:
    """Whether a text is a single Chinese character."""
    return len(text) == 1 and bool(_IDEOGRAPHS.match(text))


def continuing_tokens(
    tokenizer: Tokenizer, texts: Sequence[str], lengths: np.ndarray, segment: Segment
) -> np.ndarray:
    """Finds the tokens that begin inside a word of ideographs.

    Args:
        tokenizer: the tokenizer.
        texts: the texts.
        lengths: int64 `[texts]`, their numbers of tokens.
        segment: the segmenter.

    Returns:
        bool `[tokens]`, for all texts.
    """
    found = np.zeros(lengths.sum(), np.bool_)
    ends = np.cumsum(lengths)
    for text, end, length in zip(texts, ends, lengths, strict=True):
        if not _IDEOGRAPHS.search(text):
            continue
        inside = np.zeros(len(text) + 1, np.bool_)
        position = 0
        for word in segment(text):
            if len(word) > 1 and _IDEOGRAPHS.fullmatch(word):
                inside[position + 1 : position + len(word)] = True
            position += len(word)
        _, spans = tokenizer.encode_with_offsets(text)
        found[end - length : end] = inside[spans[:, 0]]
    return found
