"""How a vocabulary normalizes text, and the original's normalization for SentencePiece models.

The original removes all accents, which suits English: it takes the vowels of Tibetan, Thai and
Hindi away, and the tones of Vietnamese and Yoruba. A vocabulary therefore records what it does, in
the `tokenizer_config.json` next to it, under the names that Hugging Face uses. A vocabulary without
a record is normalized as the original does it.
"""

import dataclasses
import functools
import json
import os
import re
import unicodedata
from typing import Any, Literal

import numpy as np

from albert_tf.files import exists, read_json
from albert_tf.tokenizers import alignment

CONFIG_FILE = "tokenizer_config.json"


@dataclasses.dataclass(frozen=True)
class Normalization:
    """What a vocabulary does to text before it splits it; None for what is not recorded.

    Attributes:
        do_lower_case: whether text is lower-cased.
        keep_accents: whether combining marks are kept: accents, but also the vowel signs and tone
            marks of many scripts.
        tokenize_chinese_chars: whether every Chinese character is a word (WordPiece).
        unicode_form: the Unicode form in which text with accents is encoded, so that a letter and
            its accent give the same ids whether they are one character or two: "NFKC", which
            SentencePiece's own normalizer approximates, or "NFC" (WordPiece). WordPiece then also
            keeps what BERT's rules lose: it treats zero-width spaces and non-joiners as spaces and
            keeps joiners, as SentencePiece does, and cuts words that are too long for it.
    """

    do_lower_case: bool | None = None
    keep_accents: bool | None = None
    tokenize_chinese_chars: bool | None = None
    unicode_form: Literal["NFC", "NFKC"] | None = None

    def otherwise(self, *others: "Normalization") -> "Normalization":
        """Fill in what is not recorded from others, in order of precedence."""
        values = {}
        for field in dataclasses.fields(self):
            recorded = (getattr(each, field.name) for each in (self, *others))
            values[field.name] = next((value for value in recorded if value is not None), None)
        return Normalization(**values)

    def to_json(self) -> str:
        """Return the content of `tokenizer_config.json`."""
        return json.dumps(self.to_dict()) + "\n"

    def to_dict(self) -> dict[str, Any]:
        """Return what is recorded, under the names of Hugging Face."""
        entries = dataclasses.asdict(self)
        if self.keep_accents is not None:  # as BertTokenizer calls it
            entries["strip_accents"] = not self.keep_accents
        return {name: value for name, value in entries.items() if value is not None}


@dataclasses.dataclass(frozen=True)
class _BertTokenizerConfig:
    strip_accents: bool | None = None


UNRECORDED = Normalization()
# Of the original, for vocabularies without a record.
DEFAULT_NORMALIZATION = Normalization(do_lower_case=True, keep_accents=False)


def read_normalization(folder: str) -> Normalization:
    """Return what the `tokenizer_config.json` in a folder records.

    Raises:
        InputError: If the file is damaged.
    """
    path = os.path.join(folder, CONFIG_FILE)
    if not exists(path):
        return UNRECORDED
    strips = read_json(path, _BertTokenizerConfig).strip_accents
    of_bert = Normalization(keep_accents=None if strips is None else not strips)
    return read_json(path, Normalization).otherwise(of_bert)


def preprocess(text: str, normalization: Normalization) -> str:
    """Normalize text for a SentencePiece model, whose own normalizer follows.

    Collapses white space, removes accents (NFKD) or composes them (NFC), and lower-cases. Unless
    accents are kept, this is the original's `preprocess_text`. (XLNet's, which the Hugging Face
    tokenizer follows, also turns `` and '' into straight quotes; ALBERT's does not.)
    """
    text = " ".join(text.split())
    if not text.isascii():
        if not normalization.keep_accents:
            text = without_accents(text)
        elif normalization.unicode_form:
            text = unicodedata.normalize(normalization.unicode_form, text)
    return text.lower() if normalization.do_lower_case else text


def without_accents(text: str) -> str:
    """Apply NFKD and remove combining marks, independently for each character."""
    return _combining_marks().sub("", unicodedata.normalize("NFKD", text))


def preprocess_with_spans(text: str, normalization: Normalization) -> tuple[str, np.ndarray]:
    """Return the result of `preprocess`, and the spans of its characters in `text`, `[..., 2]`."""

    def normalize_character(character: str) -> str:
        if not normalization.keep_accents:
            character = without_accents(character)
        return character.lower() if normalization.do_lower_case else character

    folded, spans = " ".join(text.split()), alignment.folded_spans(text)
    if normalization.keep_accents and normalization.unicode_form:
        folded, spans = alignment.composed(folded, spans, normalization.unicode_form)
    spans = alignment.expanded_spans(folded, spans, normalize_character)
    return preprocess(text, normalization), spans


@functools.cache
def _combining_marks() -> re.Pattern:
    # There are none above this range, and going through all characters would take 0.2 s.
    marks = (c for c in map(chr, range(0x300, 0x20000)) if unicodedata.combining(c))
    return re.compile(f"[{''.join(marks)}]+")
