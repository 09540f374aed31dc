"""Reads SQuAD files, 1.1 and 2.0: questions on paragraphs, with or without answers."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from typing import Any, NamedTuple

from albert_tf.errors import InputError
from albert_tf.files import exists, read_text


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
        """The first answer that the context contains at the given position."""
        for answer in self.answers:
            end = answer.start + len(answer.text)
            if answer.start >= 0 and self.context[answer.start : end] == answer.text:
                return answer
        return None


@dataclasses.dataclass(frozen=True)
class SquadFile:
    """The content of a file.

    Attributes:
        path: of the file.
        questions: in file order.
        labelled: whether it contains the answers; a test set does not.
        version_2: whether questions may have no answer.
    """

    path: str
    questions: list[SquadQuestion]
    labelled: bool
    version_2: bool

    def without_answer(self) -> int:
        """Number of questions without an answer, in a labelled file."""
        return sum(not question.answers for question in self.questions)


def read_squad(path: str) -> SquadFile:
    """The questions of a file.

    A question has no answer if `is_impossible` is true, or if `answers` is empty while other
    questions of the file have some. A file without either is not labelled.

    Raises:
        InputError: the file is missing, not a SQuAD file, lacks a field, repeats an id or has no
            question; the message names the location.
    """
    if not exists(path):
        raise InputError(f"{path}: no such file")
    try:
        content = json.loads(read_text(path).removeprefix("\ufeff"))
    except ValueError as error:
        raise InputError(f"{path}: not a JSON file ({error})") from None
    place = _Place(path, "", content)
    questions, impossible, unlabelled = [], 0, []
    seen: dict[str, str] = {}
    for paragraph in _paragraphs(place):
        context = paragraph.field("context", str)
        for entry in paragraph.items("qas"):
            question = _question(entry, context)
            if question.id in seen:
                raise InputError(
                    f"{entry}: the id {question.id!r} is already used at {seen[question.id]}"
                )
            seen[question.id] = entry.name
            questions.append(question)
            impossible += entry.field("is_impossible", bool, False)
            if "answers" not in entry.value and not entry.value.get("is_impossible"):
                unlabelled.append(entry)
    if not questions:
        raise InputError(f"{path}: contains no question")
    labelled = impossible > 0 or any(question.answers for question in questions)
    if labelled and unlabelled:
        raise InputError(f"{unlabelled[0]}: lacks 'answers', which other questions have")
    negative = labelled and not all(question.answers for question in questions)
    version = str(content.get("version", "")).lower().removeprefix("v")
    return SquadFile(path, questions, labelled, negative or version.startswith("2"))


class _Place(NamedTuple):
    """A value in a file, and its location: `dev.json: data[0].paragraphs[3]`."""

    path: str
    name: str
    value: Any

    def __str__(self) -> str:
        return f"{self.path}: {self.name}" if self.name else self.path

    def field(self, name: str, kind: type, *default: Any) -> Any:
        """A field of an object, which must be of a given type."""
        if not isinstance(self.value, dict):
            raise InputError(f"{self}: must be an object with {name!r}, as in a SQuAD file")
        if name not in self.value and default:
            return default[0]
        if name not in self.value:
            raise InputError(f"{self}: lacks {name!r}")
        value = self.value[name]
        # In Python, True is an integer.
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


def _question(entry: _Place, context: str) -> SquadQuestion:
    id, text = entry.field("id", str), entry.field("question", str)
    answers = []
    for answer in entry.items("answers", []):
        given = answer.field("text", str), answer.field("answer_start", int, -1)
        answers.append(Answer(*given))
    if answers and entry.field("is_impossible", bool, False):
        raise InputError(f"{entry}: question {id!r} has answers, but 'is_impossible' is true")
    return SquadQuestion(id, text, context, tuple(answers))
