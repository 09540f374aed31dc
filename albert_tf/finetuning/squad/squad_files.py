"""Files of SQuAD, 1.1 and 2.0: questions on paragraphs, with or without their answers."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from typing import Any, NamedTuple

from albert_tf.errors import InputError
from albert_tf.files import exists, read_text


class Answer(NamedTuple):
    """An answer, and its first character in the context; -1 where the file does not say."""

    text: str
    start: int


class Question(NamedTuple):
    """A question on a context; `answers` are empty where there is none, or none is known."""

    id: str
    text: str
    context: str
    answers: tuple[Answer, ...]

    def placed_answer(self) -> Answer | None:
        """The first answer that stands in the context where the file says."""
        for answer in self.answers:
            end = answer.start + len(answer.text)
            if answer.start >= 0 and self.context[answer.start : end] == answer.text:
                return answer
        return None


@dataclasses.dataclass(frozen=True)
class SquadFile:
    """What a file holds.

    Attributes:
        path: of the file.
        questions: in the order of the file.
        labelled: whether it says what the answers are; a test set does not.
        version_2: whether questions may have no answer.
    """

    path: str
    questions: list[Question]
    labelled: bool
    version_2: bool

    def without_answer(self) -> int:
        """Questions that have none, in a labelled file."""
        return sum(not question.answers for question in self.questions)


def read_squad(path: str) -> SquadFile:
    """The questions of a file.

    A question has no answer where `is_impossible` is true, or `answers` is empty while others of
    the file have some. A file that says neither of any question is not labelled.

    Raises:
        InputError: the file is missing, no SQuAD file, lacks a field, holds an id twice or no
            question; the message names the place.
    """
    if not exists(path):
        raise InputError(f"{path}: no such file")
    try:
        content = json.loads(read_text(path).removeprefix("\ufeff"))
    except ValueError as error:
        raise InputError(f"{path}: not a JSON file ({error})") from None
    place = _Place(path, "", content)
    questions, impossible, unsaid = [], 0, []
    seen: dict[str, str] = {}
    for paragraph in _paragraphs(place):
        context = paragraph.field("context", str)
        for entry in paragraph.items("qas"):
            question = _question(entry, context)
            if question.id in seen:
                raise InputError(
                    f"{entry}: the id {question.id!r} is that of {seen[question.id]}, too"
                )
            seen[question.id] = entry.name
            questions.append(question)
            impossible += entry.field("is_impossible", bool, False)
            if "answers" not in entry.value and not entry.value.get("is_impossible"):
                unsaid.append(entry)
    if not questions:
        raise InputError(f"{path}: holds no question")
    labelled = impossible > 0 or any(question.answers for question in questions)
    if labelled and unsaid:
        raise InputError(f"{unsaid[0]}: lacks 'answers', which other questions have")
    negative = labelled and not all(question.answers for question in questions)
    version = str(content.get("version", "")).lower().removeprefix("v")
    return SquadFile(path, questions, labelled, negative or version.startswith("2"))


class _Place(NamedTuple):
    """A value in a file, and where it stands: `dev.json: data[0].paragraphs[3]`."""

    path: str
    name: str
    value: Any

    def __str__(self) -> str:
        return f"{self.path}: {self.name}" if self.name else self.path

    def field(self, name: str, kind: type, *default: Any) -> Any:
        """The field of an object, of a given type."""
        if not isinstance(self.value, dict):
            raise InputError(f"{self}: must be an object, with {name!r}, as in a SQuAD file")
        if name not in self.value and default:
            return default[0]
        if name not in self.value:
            raise InputError(f"{self}: lacks {name!r}")
        value = self.value[name]
        # True is an integer to Python.
        if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
            raise InputError(
                f"{self}: {name!r} must be of type {_TYPES[kind]}, not {str(value)[:40]!r}"
            )
        return value

    def items(self, name: str, *default: Any) -> Iterator[_Place]:
        """The elements of a list in a field."""
        start = f"{self.name}." if self.name else ""
        for number, value in enumerate(self.field(name, list, *default)):
            yield _Place(self.path, f"{start}{name}[{number}]", value)


_TYPES = {str: "string", int: "integer", list: "list", bool: "true or false"}


def _paragraphs(place: _Place) -> Iterator[_Place]:
    for article in place.items("data"):
        yield from article.items("paragraphs")


def _question(entry: _Place, context: str) -> Question:
    id, text = entry.field("id", str), entry.field("question", str)
    answers = []
    for answer in entry.items("answers", []):
        given = answer.field("text", str), answer.field("answer_start", int, -1)
        answers.append(Answer(*given))
    if answers and entry.field("is_impossible", bool, False):
        raise InputError(f"{entry}: question {id!r} has answers, but 'is_impossible' is true")
    return Question(id, text, context, tuple(answers))
