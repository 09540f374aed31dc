"""The original's normalization of text, before a SentencePiece model."""

from __future__ import annotations

import functools
import re
import unicodedata

import numpy as np

from albert_tf.tokenizers import alignment


def preprocess(text: str, do_lower_case: bool) -> str:
    """Collapses white space, removes accents (NFKD) and optionally lower-cases.

    This is the original's `preprocess_text`. (XLNet's, which the Hugging Face tokenizer follows,
    also turns `` and '' into straight quotes; ALBERT's does not.)
    """
    text = " ".join(text.split())
    if not text.isascii():
        text = without_accents(text)
    return text.lower() if do_lower_case else text


def without_accents(text: str) -> str:
    """Applies NFKD and removes combining marks, independently for each character."""
    return _combining_marks().sub("", unicodedata.normalize("NFKD", text))


def preprocess_with_spans(text: str, do_lower_case: bool) -> tuple[str, np.ndarray]:
    """Returns the result of `preprocess`, and the span in `text` of each of its characters.

    The spans are int64 `[characters, 2]`.
    """

    def normalize_character(character: str) -> str:
        character = without_accents(character)
        return character.lower() if do_lower_case else character

    folded, positions = " ".join(text.split()), alignment.folded_positions(text)
    spans = alignment.expanded_spans(folded, positions, normalize_character)
    return preprocess(text, do_lower_case), spans


@functools.cache
def _combining_marks() -> re.Pattern:
    # There are none above this range, and going through all characters would take 0.2 s.
    marks = (c for c in map(chr, range(0x300, 0x20000)) if unicodedata.combining(c))
    return re.compile(f"[{''.join(marks)}]+")
