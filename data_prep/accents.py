"""Whether a vocabulary keeps accents, decided by what the text itself would lose without them.

The original removes accents. English loses next to nothing: its accents are those of names and of a
few borrowed words. In other languages they are part of the words, of the vowels in Thai and Tibetan
for example, and different words become the same without them.
"""

import collections
import itertools
import unicodedata
from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple

# Accents are kept if more words than this could be affected: of words in small letters (or of a
# script without capitals), and of words with a capital letter, which may be foreign names. In
# English novels, 0.01 and 0.1 % are; in 97 articles of the English Wikipedia, 0.1 and 1.1 %.
_MAX_SHARE, _MAX_SHARE_OF_CAPITALIZED = 0.0015, 0.02
_MAX_SENTENCES = 100_000
_MOST_SHOWN, _LONGEST_SHOWN = 5, 20


class AccentLoss(NamedTuple):
    """What a text would lose without accents.

    Attributes:
        words, affected: number of words in small letters, and of those with accents.
        capitalized, capitalized_affected: the same of words with a capital letter.
        merged: words that become another word of the text without accents, and that word, the most
            frequent first.
        changed: words with accents and what remains of them, the most frequent first.
    """

    words: int
    affected: int
    capitalized: int
    capitalized_affected: int
    merged: list[tuple[str, str]]
    changed: list[tuple[str, str]]

    @property
    def is_negligible(self) -> bool:
        """Whether the losses, also in text that was not seen, are below the limits.

        In a short text, a single accent cannot be told from a frequent one: the upper end of the
        95 % confidence interval decides (Clopper and Pearson).
        """
        if not (self.affected or self.capitalized_affected):
            return True
        return (
            _largest_share(self.affected, self.words) < _MAX_SHARE
            and _largest_share(self.capitalized_affected, self.capitalized)
            < _MAX_SHARE_OF_CAPITALIZED
        )

    def describe(self, kept: bool) -> str:
        """Return a line on what was decided, and why."""
        words, affected = self.words + self.capitalized, self.affected + self.capitalized_affected
        shown = [f"{a} → {b}" for a, b in (self.merged or self.changed)[:_MOST_SHOWN]]
        examples = f", such as {', '.join(shown)}" if shown else ""
        merged = " (another word of the text)" if self.merged else ""
        return (
            f"accents are {'kept' if kept else 'removed'}: {affected:,} of {words:,} words "
            f"({affected / max(words, 1):.2%}) change without them{examples}{merged}; "
            f"--{'no' if kept else ''}keep_accents {'removes' if kept else 'keeps'} them"
        )


def accent_loss(
    sentences: Sequence[str], form: Literal["NFC", "NFKC"], bare: Callable[[str], str]
) -> AccentLoss:
    """Measure what sentences would lose, on at most 100,000 of them.

    Args:
        sentences: the text.
        form: the Unicode form of words with accents.
        bare: removes the accents of a word.
    """
    step = max(len(sentences) // _MAX_SENTENCES, 1)
    counts = collections.Counter(
        itertools.chain.from_iterable(map(str.split, itertools.islice(sentences, 0, None, step)))
    )
    totals, affected = [0, 0], [0, 0]
    changed: dict[str, str] = {}
    variants: dict[str, set[str]] = collections.defaultdict(set)
    for word, count in counts.items():
        capitalized = word != word.lower()
        totals[capitalized] += count
        kept = unicodedata.normalize(form, word)
        without = word if word.isascii() else bare(word)
        if without != kept:
            affected[capitalized] += count
            changed[word] = without
        variants[without.lower()].add(kept.lower())

    def shown(words: Sequence[str]) -> list[tuple[str, str]]:
        short = sorted(words, key=lambda word: (len(word) > _LONGEST_SHOWN, -counts[word], word))
        return [
            (word[:_LONGEST_SHOWN], changed[word][:_LONGEST_SHOWN]) for word in short[:_MOST_SHOWN]
        ]

    merged = [word for word, without in changed.items() if len(variants[without.lower()]) > 1]
    return AccentLoss(
        totals[False],
        affected[False],
        totals[True],
        affected[True],
        shown(merged),
        shown(list(changed)),
    )


def _largest_share(count: int, total: int) -> float:
    from scipy.stats import binomtest

    return binomtest(count, total).proportion_ci().high if total else 0.0
