"""Paragraphs to sentences with `sentencex`, the segmenter of Wikimedia: 240 languages."""

from __future__ import annotations

import re

import sentencex

from albert_tf.errors import InputError


def check_language(language: str) -> str:
    """The language code as `sentencex` takes it.

    Raises:
        InputError: it is not a language code. (A code without rules of its own is segmented by
            those of the nearest language that has some.)
    """
    if not re.fullmatch(r"[a-z]{2,3}([-_][A-Za-z0-9]+)*", language):
        raise InputError(f"--language: {language!r} is not a language code such as en, de or zh")
    return language


def split_sentences(paragraph: str, language: str = "en") -> list[str]:
    """The sentences of a paragraph, each on one line, white space folded; empty ones left out."""
    folded = (" ".join(sentence.split()) for sentence in sentencex.segment(language, paragraph))
    return [sentence for sentence in folded if sentence]
