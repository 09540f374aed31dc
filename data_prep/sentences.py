"""Splits paragraphs into sentences with `sentencex`, Wikimedia's splitter for 240 languages."""

from __future__ import annotations

import re

import sentencex

from albert_tf.errors import InputError


def check_language(language: str) -> None:
    """Checks that a language code has the form that `sentencex` accepts.

    A code without rules of its own is split by the rules of the closest language that has some.

    Raises:
        InputError: if it is not a language code.
    """
    if not re.fullmatch(r"[a-z]{2,3}([-_][A-Za-z0-9]+)*", language):
        raise InputError(f"`language`={language}: must be a language code such as en, de or zh")


def split_sentences(paragraph: str, language: str = "en") -> list[str]:
    """The sentences of a paragraph, each on one line with white space folded; no empty ones."""
    folded = (" ".join(sentence.split()) for sentence in sentencex.segment(language, paragraph))
    return [sentence for sentence in folded if sentence]
