"""How answers are compared with true ones, in three definitions, and the results of a file.

f1("任天堂游戏谜之村雨城", "村雨城", SQUAD)      # 0.0: one word each
f1("任天堂游戏谜之村雨城", "村雨城", CMRC)       # 0.46: 3 of 10 and 3 of 3 characters
"""

import collections
import difflib
import itertools
import re
import string
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from albert_tf.tasks.question_answering.readers import SquadQuestion
from albert_tf.tokenizers.words import is_unspaced

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


def choose_metric(answers: Iterable[str]) -> tuple[AnswerMetric, str]:
    """Choose a metric by the scripts of the answers of a file; also return why, if they matter."""
    counts = collections.Counter(itertools.chain.from_iterable(answers))
    letters = {c: count for c, count in counts.items() if c.isalnum()}
    unspaced = {c: count for c, count in letters.items() if is_unspaced(c)}
    other = sum(n for c, n in unspaced.items() if not unicodedata.name(c, "").startswith("CJK"))
    share = sum(unspaced.values()) / max(sum(letters.values()), 1)
    if share <= _UNSPACED:
        metric, language = SQUAD, ""
    elif other <= _NOT_CHINESE * sum(unspaced.values()):
        metric, language = CMRC, ", nearly all Chinese"
    else:
        metric, language = CHARACTERS, ", not only Chinese"
    reason = f"{share:.1%} of the letters and digits in the answers are of scripts without spaces"
    return metric, reason + language if unspaced else ""


def question_scores(
    question: SquadQuestion, prediction: str, version_2: bool, metric: AnswerMetric = SQUAD
) -> tuple[float, float]:
    """Return exact match and F1 of a prediction, each the best over the answers.

    In 2.0, answers without units (words, by default) are ignored. If none is left, "" is correct.
    """
    answers = [answer.text for answer in question.answers]
    if version_2:
        answers = [answer for answer in answers if metric.split(answer)]
    answers = answers or [""]
    return (
        max(exact_match(prediction, answer, metric) for answer in answers),
        max(f1(prediction, answer, metric, version_2) for answer in answers),
    )


# Abbreviations end sentences, too: reports show a sentence, and a baseline answers with one.
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+(?=\W?[A-Z0-9])|(?<=[\u3002\uff01\uff1f])")


def sentence_places(text: str) -> list[tuple[int, int]]:
    """Return start and end of the sentences of a text, which have no gap between them."""
    ends = [found.end() for found in _SENTENCE_END.finditer(text)]
    return [*itertools.pairwise([0, *ends, len(text)])]


def overlapping_sentence(question: SquadQuestion, metric: AnswerMetric = SQUAD) -> str:
    """Return the first sentence of the context with the most words of the question."""
    words = set(metric.split(question.text))
    sentences = [question.context[a:b].strip() for a, b in sentence_places(question.context)]
    return max(sentences, key=lambda sentence: len(words & set(metric.split(sentence))))


def evaluate(
    questions: Sequence[SquadQuestion],
    predictions: Mapping[str, str],
    version_2: bool,
    metric: AnswerMetric = SQUAD,
) -> dict[str, float]:
    """Return results in percent: `exact_match`, `f1`, and `total`, the number of questions.

    In 2.0 also for the questions with and without an answer: `HasAns_exact`, `HasAns_f1`,
    `HasAns_total`, `NoAns_exact` and so on, if there are any. Another metric than SQuAD's adds its
    prefix: `cmrc_f1`, `HasAns_cmrc_f1`. Predictions are by question id, "" for no answer.
    """
    scores = np.array([question_scores(q, predictions[q.id], version_2, metric) for q in questions])
    has_answer = np.array([bool(question.answers) for question in questions])
    exact, mean_f1 = (100 * scores.mean(axis=0)).tolist()
    prefix = metric.prefix
    results = {f"{prefix}exact_match": exact, f"{prefix}f1": mean_f1, "total": len(questions)}
    groups = {"HasAns": has_answer, "NoAns": ~has_answer} if version_2 else {}
    for name, members in groups.items():
        if members.any():
            exact, mean_f1 = (100 * scores[members].mean(axis=0)).tolist()
            results |= {f"{name}_{prefix}exact": exact, f"{name}_{prefix}f1": mean_f1}
            results[f"{name}_total"] = int(members.sum())
    return results


def best_threshold(
    answered: np.ndarray, has_answer: np.ndarray, null_scores: np.ndarray
) -> tuple[float, float]:
    """Return the best mean score in percent, and the threshold of null scores that gives it.

    A question is answered if its null score is at most the threshold, so questions of equal null
    score stay together. Among equally good thresholds the lowest is returned: the null score of the
    last question that is answered, or, if none should be, one below all of them.

    Args:
        answered: `[questions]` scores, in [0, 1], of the answers if they are given.
        has_answer: bool `[questions]`, whether there is one; if not, giving none scores 1.
        null_scores: `[questions]`, higher if it is more likely that there is none.
    """
    order = np.argsort(null_scores, kind="stable")
    ranked = null_scores[order]
    gains = (answered - ~has_answer)[order]
    totals = np.sum(~has_answer) + np.concatenate([[0.0], np.cumsum(gains)])
    # Before the first, and after the last of each score.
    possible = np.concatenate([[True], ranked[1:] != ranked[:-1], [True]])
    thresholds = np.concatenate([[ranked[0] - 1.0], ranked])
    best = int(np.where(possible, totals, -np.inf).argmax())
    return float(100 * totals[best] / len(answered)), float(thresholds[best])
