"""How a predicted answer is compared with a true one: the definitions of three evaluations.

f1("任天堂游戏谜之村雨城", "村雨城", SQUAD)      # 0.0: one word each
f1("任天堂游戏谜之村雨城", "村雨城", CMRC)       # 0.46: 3 of 10 and 3 of 3 characters
"""

from __future__ import annotations

import collections
import difflib
import itertools
import re
import string
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from albert_tf.tokenizers.word_starts import is_unspaced

Units = Sequence[str]


class AnswerMetric(NamedTuple):
    """A definition of exact match and F1.

    Attributes:
        name: the value of `--answer_metric`.
        prefix: of the names of its results, so that results of two definitions are never mixed.
        source: whose definition it is.
        normalize: returns the form of an answer that exact match compares.
        split: returns the units of an answer over which precision and recall are computed.
        common: returns how many units of two answers correspond.
    """

    name: str
    prefix: str
    source: str
    normalize: Callable[[str], str]
    split: Callable[[str], Units]
    common: Callable[[Units, Units], int]


def exact_match(prediction: str, answer: str, metric: AnswerMetric) -> float:
    """1 if two answers are equal after normalization, else 0."""
    return float(metric.normalize(prediction) == metric.normalize(answer))


def f1(prediction: str, answer: str, metric: AnswerMetric, version_2: bool = False) -> float:
    """Harmonic mean of precision and recall over the units of two answers.

    If one of them has no units, SQuAD 2.0 gives 1 if the other has none either; all others give 0.
    """
    units, truth = metric.split(prediction), metric.split(answer)
    if not units or not truth:
        return float(version_2 and not units and not truth)
    common = metric.common(units, truth)
    if not common:
        return 0.0
    precision, recall = common / len(units), common / len(truth)
    return 2 * precision * recall / (precision + recall)


def _common_bag(one: Units, other: Units) -> int:
    """Return the number of units in common, in any order."""
    return (collections.Counter(one) & collections.Counter(other)).total()


def _common_run(one: Units, other: Units) -> int:
    """Return the length of the longest run of units that both have."""
    return difflib.SequenceMatcher(None, one, other, autojunk=False).find_longest_match().size


_ARTICLES = re.compile(r"\b(a|an|the)\b")
_NO_ASCII_PUNCTUATION = str.maketrans("", "", string.punctuation)


def normalize_answer(text: str) -> str:
    """Lower-case; remove ASCII punctuation, articles (a, an, the) and extra white space."""
    plain = text.lower().translate(_NO_ASCII_PUNCTUATION)
    return " ".join(_ARTICLES.sub(" ", plain).split())


# What the script of CMRC 2018 removes. Other punctuation, such as "." and "…", stays.
_CMRC_PUNCTUATION = str.maketrans("", "", "-:_*^/\\~`+=，。：？！“”；’《》·、「」（）－～『』")
# Its Chinese characters: not those of the extensions, and no kana.
_CMRC_PARTS = re.compile(r"[\u4e00-\u9fa5]|[^\u4e00-\u9fa5]+")

# What separates from words in NLTK's word_tokenize, which the script applies between the Chinese
# characters: always; unless a digit follows; a period that ends the text or a word, unless it is
# part of an abbreviation such as "u.s." (there, NLTK asks a statistical model).
_APART = re.compile(
    r"\.{2,}"
    r"|[;@#$%&?!()\[\]{}<>\"«»‘„\u2012-\u2015]"
    r"|,(?=\D|$)"
    r"|(?<=[^.])\.(?=[\])}>\"'»]*\s*$)"
    r"|(?<=[^\W_]{2})\.(?=\s)(?<!\.[^\W_]{2}\.)"
)
_ENDINGS = re.compile(r"(?<=[^' ])(?:n't|'(?:s|m|d|ll|re|ve)?)(?=\s|$)")
_CONTRACTED = re.compile(r"\b(?:can(?=not\b)|gim(?=me\b)|gon(?=na\b)|got(?=ta\b)|lem(?=me\b))")


def _without_cmrc_punctuation(text: str) -> str:
    return text.lower().strip().translate(_CMRC_PUNCTUATION)


def cmrc_segments(text: str) -> list[str]:
    """Split an answer as CMRC's script does: Chinese characters, and words between them."""
    parts = _CMRC_PARTS.findall(_without_cmrc_punctuation(text))
    return [segment for part in parts for segment in _english_words(part)]


def _english_words(text: str) -> list[str]:
    apart = _APART.sub(r" \g<0> ", text)
    return _CONTRACTED.sub(r"\g<0> ", _ENDINGS.sub(r" \g<0>", apart)).split()


def _characters(text: str) -> list[str]:
    """Return characters of scripts without spaces, and words of others, without punctuation."""
    plain = unicodedata.normalize("NFKC", text).lower()
    kept = (c for c in plain if c not in string.punctuation and unicodedata.category(c)[0] != "P")
    return "".join(f" {c} " if is_unspaced(c) else c for c in kept).split()


SQUAD = AnswerMetric(
    "squad",
    "",
    "official evaluation of SQuAD: words, in any order",
    normalize_answer,
    lambda text: normalize_answer(text).split(),
    _common_bag,
)
CMRC = AnswerMetric(
    "cmrc",
    "cmrc_",
    "official evaluation of CMRC 2018: the longest run of Chinese characters and English words",
    _without_cmrc_punctuation,
    cmrc_segments,
    _common_run,
)
CHARACTERS = AnswerMetric(
    "characters",
    "character_",
    "characters of scripts without spaces, and words of others, in any order",
    lambda text: " ".join(_characters(text)),
    _characters,
    _common_bag,
)
METRICS = {metric.name: metric for metric in (SQUAD, CMRC, CHARACTERS)}

# Which share of the letters must be of scripts without spaces, and which share of those may be
# other than Chinese: kana in Japanese answers are far more, in Chinese ones far fewer.
_UNSPACED, _NOT_CHINESE = 0.5, 0.05


class Chosen(NamedTuple):
    """A metric, and why it was chosen."""

    metric: AnswerMetric
    reason: str


def choose_metric(answers: Iterable[str]) -> Chosen:
    """Choose a metric by the scripts of the answers of a file."""
    counts = collections.Counter(itertools.chain.from_iterable(answers))
    letters = {c: count for c, count in counts.items() if c.isalnum()}
    unspaced = {c: count for c, count in letters.items() if is_unspaced(c)}
    not_chinese = sum(count for c, count in unspaced.items() if not _is_chinese(c))
    share = sum(unspaced.values()) / max(sum(letters.values()), 1)
    if share <= _UNSPACED:
        metric, language = SQUAD, ""
    elif not_chinese <= _NOT_CHINESE * sum(unspaced.values()):
        metric, language = CMRC, ", nearly all Chinese"
    else:
        metric, language = CHARACTERS, ", not only Chinese"
    reason = f"{share:.1%} of the letters and digits in the answers are of scripts without spaces"
    return Chosen(metric, reason + language)


def _is_chinese(character: str) -> bool:
    return unicodedata.name(character, "").startswith("CJK")
