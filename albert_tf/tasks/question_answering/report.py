"""Report sections for question answering."""

import re
from collections.abc import Mapping, Sequence

import numpy as np

from albert_tf.report.breakdowns import by_group, by_length
from albert_tf.report.intervals import Interval, bootstrap_mean, wilson
from albert_tf.report.sections import (
    MARKED,
    MOST_ERRORS,
    Card,
    Part,
    Section,
    counted_errors,
    marked_parts,
)
from albert_tf.tasks.question_answering.metrics import (
    SQUAD,
    AnswerMetric,
    question_scores,
    sentence_places,
)
from albert_tf.tasks.question_answering.readers import SquadQuestion
from albert_tf.tasks.question_answering.spans import Prediction

_SHARE = "exact matches"


def squad_sections(
    questions: Sequence[SquadQuestion],
    predictions: Mapping[str, Prediction],
    threshold: float | None,
    version_2: bool,
    metric: AnswerMetric = SQUAD,
    reason: str = "",
) -> list[Section]:
    """Return results by kind of question and by length, and the worst errors.

    Above the threshold of null scores, no answer is given; None: always one. The `reason` is that
    of the choice of the metric.
    """
    answers = [predictions[question.id].answer(threshold) for question in questions]
    scores = np.array(
        [question_scores(q, a, version_2, metric) for q, a in zip(questions, answers, strict=True)]
    )
    has_answer = np.array([bool(question.answers) for question in questions])
    exact = scores[:, 0] > 0
    because = f", because {reason}" if reason else ""
    sections = [Section("Scores", f"answer_metric={metric.name}{because}: {metric.source}.")]
    if version_2:
        names = ["with an answer" if has else "without an answer" for has in has_answer]
        sections += by_group("With and without an answer", names, exact, "questions", _SHARE)
    words = [question_word(question.text) for question in questions]
    sections += by_group("By question word", words, exact, "word", _SHARE)
    first = [len(metric.split(q.answers[0].text)) for q in questions if q.answers]
    contexts = [len(question.context.split()) for question in questions]
    of_texts = (("answer", first, exact[has_answer]), ("context", contexts, exact))
    for text, lengths, right in of_texts if first else of_texts[1:]:
        title = f"By length of the {text}"
        sections += by_length(np.array(lengths), right, title, "words", _SHARE)
    prefix = metric.prefix
    intervals = _intervals(scores, f"{prefix}exact_match", f"{prefix}f1")
    for name, of in (("HasAns", has_answer), ("NoAns", ~has_answer)):
        if version_2 and of.any():
            intervals |= _intervals(scores[of], f"{name}_{prefix}exact", f"{name}_{prefix}f1")
    errors = []
    for n in np.flatnonzero(~exact).tolist():
        best = predictions[questions[n].id].nbest()
        confidence = float(best[0]["probability"]) if best and answers[n] else 0.0
        errors.append((scores[n, 1], -confidence, n))  # of the same F1, the most confident first
    cards = [
        _card(questions[n], predictions[questions[n].id], answers[n], f1, -confidence)
        for f1, confidence, n in sorted(errors)[:MOST_ERRORS]
    ]
    worst = counted_errors(len(errors), len(questions), "questions", MARKED, cards=cards)
    return [*sections, worst._replace(intervals=intervals)]


def answered_section(answers: Sequence[str]) -> Section:
    """Return the number of questions that were answered."""
    answered = sum(bool(answer) for answer in answers)
    return Section("Predictions", f"{answered:,} of {len(answers):,} questions were answered.")


def _intervals(scores: np.ndarray, exact_match: str, f1: str) -> dict[str, Interval]:
    share = wilson(scores[:, 0].sum(), len(scores))
    return {
        exact_match: share._replace(low=100 * share.low, high=100 * share.high),
        f1: bootstrap_mean(100 * scores[:, 1]),
    }


_QUESTION_WORD = re.compile(r"\b(how (?:many|much)|who|whom|whose|what|which|when|where|why|how)\b")


def question_word(question: str) -> str:
    """Return the first question word in English, such as "how many"; "other" if there is none."""
    found = _QUESTION_WORD.search(question.lower())
    return {"whom": "who", "whose": "who"}.get(found[1], found[1]) if found else "other"


def _card(
    question: SquadQuestion, prediction: Prediction, answer: str, f1: float, confidence: float
) -> Card:
    """Return a question, its answers and the prediction, marked in the sentences around them."""
    first, *others = dict.fromkeys(each.text for each in question.answers) or [""]
    truth = [Part(first, "truth"), Part("".join(f", or {each}" for each in others))]
    truth = truth if question.answers else [Part("none")]
    shown, spans = [Part("none")], []
    if placed := question.placed_answer():
        spans.append((placed.start, placed.start + len(placed.text), "truth"))
    if answer:
        shown = [Part(answer, "prediction"), Part(f" {confidence:.1%}, F1 {f1:.0%}")]
        start = prediction.candidates[0].start
        if start < 0:
            start = question.context.find(answer)
        if start >= 0:
            spans.append((start, start + len(answer), "prediction"))
    facts = [("answer", truth), ("prediction", shown)]
    return Card(question.text, facts, sentences_around(question.context, spans))


_MOST_AROUND = 200  # characters of a sentence before and after a span


def sentences_around(text: str, spans: Sequence[tuple[int, int, str]]) -> list[Part]:
    """Return the sentences of a text that spans (start, end, mark) are in, with the spans marked.

    Long sentences lose words at their ends, and of a text without a span the first is returned.
    """
    parts: list[Part] = []
    shown_until = 0
    for start, end in sentence_places(text):
        within = [span for span in spans if span[0] < end and span[1] > start]
        if not within and (spans or start):
            continue
        low = max(start, min((s for s, _, _ in within), default=start) - _MOST_AROUND)
        high = min(end, max((e for _, e, _ in within), default=start) + _MOST_AROUND)
        # To the next spaces, if there are any nearby.
        if low > start:
            low = text.find(" ", low, low + 30) + 1 or low
        if high < end:
            high = max(text.rfind(" ", high - 30, high), 0) or high
        if low > shown_until:
            parts.append(Part("... "))
        clipped = [(max(s, low) - low, min(e, high) - low, mark) for s, e, mark in within]
        parts += marked_parts(text[low:high], clipped)
        shown_until = high
    return [*parts, Part(" ...")] if shown_until < len(text) else parts
