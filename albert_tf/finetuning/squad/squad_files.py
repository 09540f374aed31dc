"""Reads SQuAD files, 1.1 and 2.0: questions on paragraphs, with or without answers.

A file is JSON, as published, or Parquet, as the Hugging Face Hub has the same data. CMRC 2018 and
DRCD are published in this format, CMRC 2018 also in one of its own.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator
from typing import NamedTuple

from albert_tf.errors import InputError
from albert_tf.files import converted, read_json
from albert_tf.finetuning.parquet_rows import parquet_rows

# How many characters before `answer_start` an answer may begin. Seven answers of CMRC 2018's
# development set do; CLUE's baseline (mrc_pytorch/preprocess/cmrc2018_preprocess.py) looks as far.
_MOST_MOVED = 3


class Answer(NamedTuple):
    """An answer, and the index of its first character in the context; -1 if not given."""

    text: str
    start: int


class SquadQuestion(NamedTuple):
    """A question on a context; `answers` is empty if there is none, or none is known."""

    id: str
    text: str
    context: str
    answers: tuple[Answer, ...]

    def placed_answer(self) -> Answer | None:
        """The first answer that the context contains at the given position, or nearly there.

        If there is none, the first that begins up to three characters earlier counts, with its true
        position, and then the first without a position, where the context first contains it.
        """
        for moved, answer in itertools.product(range(_MOST_MOVED + 1), self.answers):
            start = answer.start - moved
            if start >= 0 and self.context.startswith(answer.text, start):
                return Answer(answer.text, start)
        for answer in self.answers:
            start = self.context.find(answer.text)
            if answer.start < 0 <= start:
                return Answer(answer.text, start)
        return None


@dataclasses.dataclass(frozen=True)
class SquadFile:
    """The content of a file.

    Attributes:
        path: of the file.
        questions: in file order.
        labeled: whether it contains the answers; a test set does not.
        version_2: whether questions may have no answer.
    """

    path: str
    questions: list[SquadQuestion]
    labeled: bool
    version_2: bool

    def without_answer(self) -> int:
        """Number of questions without an answer, in a labeled file."""
        return sum(not question.answers for question in self.questions)


def read_squad(path: str) -> SquadFile:
    """The questions of a file.

    A question has no answer if `is_impossible` is true, or if `answers` is empty while other
    questions of the file have some. A file without either is not labeled.

    Raises:
        InputError: the file is missing, not a SQuAD file, lacks a field, repeats an id or has no
            question; the message names the location.
    """
    content = _content(path)
    questions, impossible, unlabeled = [], 0, []
    seen: dict[str, str] = {}
    for place, context, entry in content.entries():
        question = _question(f"{path}: {place}", context, entry)
        if question.id in seen:
            raise InputError(
                f"{path}: {place}: the id {question.id!r} is already used at {seen[question.id]}"
            )
        seen[question.id] = place
        questions.append(question)
        impossible += entry.is_impossible
        if entry.answers is None and not entry.is_impossible:
            unlabeled.append(place)
    if not questions:
        raise InputError(f"{path}: contains no question")
    labeled = impossible > 0 or any(question.answers for question in questions)
    if labeled and unlabeled:
        raise InputError(f"{path}: {unlabeled[0]}: lacks 'answers', which other questions have")
    negative = labeled and not all(question.answers for question in questions)
    version = str(content.version).lower().removeprefix("v")
    return SquadFile(path, questions, labeled, negative or version.startswith("2"))


@dataclasses.dataclass(frozen=True)
class _Answer:
    text: str
    answer_start: int = -1


@dataclasses.dataclass(frozen=True)
class _Entry:
    id: str
    question: str
    answers: list[_Answer] | None = None
    is_impossible: bool = False


@dataclasses.dataclass(frozen=True)
class _Paragraph:
    context: str
    qas: list[_Entry]


@dataclasses.dataclass(frozen=True)
class _Article:
    paragraphs: list[_Paragraph]


@dataclasses.dataclass(frozen=True)
class _File:
    """The fields of a SQuAD file, as published."""

    data: list[_Article]
    version: str | float = ""

    def entries(self) -> Iterator[tuple[str, str, _Entry]]:
        """Yields where every question is, its context, and the question."""
        for a, article in enumerate(self.data):
            for p, paragraph in enumerate(article.paragraphs):
                for q, entry in enumerate(paragraph.qas):
                    yield f"data[{a}].paragraphs[{p}].qas[{q}]", paragraph.context, entry


@dataclasses.dataclass(frozen=True)
class _CmrcEntry:
    query_id: str
    query_text: str
    answers: list[str | int | float] | None = None  # one of the development set is a number


@dataclasses.dataclass(frozen=True)
class _CmrcParagraph:
    context_text: str
    qas: list[_CmrcEntry]


@dataclasses.dataclass(frozen=True)
class _CmrcFile:
    """The fields of a file of CMRC 2018 in its own format, a list of paragraphs."""

    data: list[_CmrcParagraph]
    version: str = ""

    def entries(self) -> Iterator[tuple[str, str, _Entry]]:
        for p, paragraph in enumerate(self.data):
            for q, entry in enumerate(paragraph.qas):
                texts = entry.answers
                answers = None if texts is None else [_Answer(str(text)) for text in texts]
                yield (
                    f"[{p}].qas[{q}]",
                    paragraph.context_text,
                    _Entry(entry.query_id, entry.query_text, answers),
                )


@dataclasses.dataclass(frozen=True)
class _RowAnswers:
    text: list[str]
    answer_start: list[int]


@dataclasses.dataclass(frozen=True)
class _Row:
    """A question in a Parquet file."""

    id: str
    question: str
    context: str
    answers: _RowAnswers | None = None


@dataclasses.dataclass(frozen=True)
class _Table:
    """A Parquet file, with the interface of `_File`."""

    path: str
    version = ""

    def entries(self) -> Iterator[tuple[str, str, _Entry]]:
        contexts: dict[str, str] = {}  # each is stored once, though several rows have it
        for location, values in parquet_rows(self.path):
            row = converted(values, location, _Row)
            answers = None
            if row.answers is not None:
                texts, starts = row.answers.text, row.answers.answer_start
                if len(texts) != len(starts):
                    raise InputError(
                        f"{location}: {len(texts)} texts of answers, but {len(starts)} positions"
                    )
                answers = list(map(_Answer, texts, starts))
            place = f"row {location.rpartition(':')[2]}"
            context = contexts.setdefault(row.context, row.context)
            yield place, context, _Entry(row.id, row.question, answers)


def _content(path: str) -> _File | _CmrcFile | _Table:
    if path.endswith(".parquet"):
        return _Table(path)
    content = read_json(path, object)
    if isinstance(content, list):
        return _CmrcFile(converted(content, path, list[_CmrcParagraph]))
    return converted(content, path, _File)


def _question(location: str, context: str, entry: _Entry) -> SquadQuestion:
    answers = tuple(Answer(answer.text, answer.answer_start) for answer in entry.answers or ())
    if answers and entry.is_impossible:
        raise InputError(
            f"{location}: question {entry.id!r} has answers, but 'is_impossible' is true"
        )
    return SquadQuestion(entry.id, entry.question, context, answers)
