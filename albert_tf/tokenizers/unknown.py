"""Which characters of a text have no piece in the vocabulary, and how many tokens they cost.

A WordPiece vocabulary turns the whole word around such a character into one `[UNK]`; SentencePiece
turns a run of such characters into one `<unk>`.
"""

from collections import Counter
from collections.abc import Iterable, Mapping

import numpy as np

from albert_tf.tokenizers.base import Tokenizer

NOTABLE_SHARE = 0.001  # of the tokens, from which on unknown ones are reported
_MOST_SHOWN = 8


class UnknownCharacters:
    """Counts the characters that a tokenizer has no piece for, each looked up once."""

    def __init__(self, tokenizer: Tokenizer):
        self._tokenizer = tokenizer
        self._in_pieces = set().union(*tokenizer.pieces)
        self._unknown: dict[str, bool] = {}

    def count(self, texts: Iterable[str]) -> Counter[str]:
        """Return how often the texts contain each unknown character.

        A word that becomes unknown for another reason is not counted: because it is too long, or
        because the vocabulary has its characters in other words only.
        """
        counts: Counter[str] = Counter()
        for text in texts:
            for character in set(text):
                if self._is_unknown(character):
                    counts[character] += text.count(character)
        return counts

    def in_unknown_tokens(self, texts: Iterable[str]) -> tuple[int, int]:
        """Return the number of unknown tokens of texts, and of the characters in them."""
        tokens = characters = 0
        for text in texts:
            ids, spans = self._tokenizer.encode_with_offsets(text)
            unknown = ids == self._tokenizer.unk_id
            tokens += int(unknown.sum())
            characters += int(np.diff(spans[unknown]).sum())
        return tokens, characters

    def _is_unknown(self, character: str) -> bool:
        unknown = self._unknown.get(character)
        if unknown is None:
            tokenizer = self._tokenizer
            unknown = not self._in_pieces.issuperset(tokenizer.preprocess(character))
            # A SentencePiece model may replace or drop a character that no piece has.
            unknown = unknown and tokenizer.unk_id in tokenizer.encode(character)
            self._unknown[character] = unknown
        return unknown


def texts_at(positions: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Return the texts that some tokens belong to, int64 `[texts]`, ascending.

    `positions` are those in the ids that `Tokenizer.encode_flat` returns, with `lengths`.
    """
    return np.unique(np.searchsorted(np.cumsum(lengths), positions, side="right"))


def describe_unknown(
    unknown: int, tokens: int, characters: Mapping[str, int], character_share: float
) -> str:
    """Return a line on the unknown tokens of a file.

    Args:
        unknown, tokens: number of unknown tokens, and of all.
        characters: how often each unknown character was seen.
        character_share: share of the characters of the file that unknown tokens stand for.
    """
    line = (
        f"{unknown / max(tokens, 1):.2%} of the tokens ({unknown:,} of {tokens:,}) are unknown to "
        f"the vocabulary, and with them {character_share:.2%} of the characters"
    )
    most = sorted(characters, key=lambda c: (-characters[c], c))[:_MOST_SHOWN]
    shown = " ".join(c if c.isprintable() else f"U+{ord(c):04X}" for c in most)
    return f"{line}, most often because of {shown}" if shown else line
