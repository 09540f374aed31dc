"""Reads SQuAD files, 1.1 and 2.0: questions on paragraphs, with or without answers.

A file is JSON, as published, or a question in each row, as the Hugging Face Hub has the same data:
Parquet, JSON lines, or a list. CMRC 2018 and DRCD are published in the format of SQuAD, CMRC 2018
also in one of its own. Ids may be numbers, which predictions then have as text.
"""

import dataclasses
import io
import itertools
import types
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple, TypedDict, cast

from albert_tf.errors import InputError
from albert_tf.files import converted, parquet_rows, parse_json, read_text
from albert_tf.logs import counted

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
        """Return the first answer that the context contains at the given position, or nearly there.

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
        labeled: whether it contains answers; a test set does not.
        version_2: whether questions may have no answer.
        unlabeled: id -> place of questions that lack the answers which others have.
    """

    path: str
    questions: list[SquadQuestion]
    labeled: bool
    version_2: bool
    unlabeled: Mapping[str, str]


def read_squad(path: str) -> SquadFile:
    """Return the questions of a file.

    A question has no answer if `is_impossible` is true, or if `answers` is empty, or has texts
    without characters only, while other questions of the file have some. A file without either is
    not labeled.

    Raises:
        InputError: If the file is missing, not a SQuAD file, lacks a field, repeats an id or has no
            question; the message names the location.
    """
    version, items = _content(path)
    questions, impossible, unlabeled = [], 0, {}
    seen: dict[str, str] = {}
    contexts: dict[str, str] = {}  # each is stored once, though several rows have it
    for item_place, item in items:
        for place, context, entry in item.entries(item_place):
            context = contexts.setdefault(context, context)
            question = _question(f"{path}: {place}", context, entry)
            if question.id in seen:
                first = seen[question.id]
                raise InputError(
                    f"{path}: {place}: the id {question.id!r} is already used at {first}"
                )
            seen[question.id] = place
            questions.append(question)
            impossible += bool(entry.is_impossible)
            if entry.answers is None and not entry.is_impossible:
                unlabeled[question.id] = place
    if not questions:
        raise InputError(f"{path}: contains no question")
    labeled = impossible > 0 or any(question.answers for question in questions)
    known = (question for question in questions if question.id not in unlabeled)
    negative = labeled and not all(question.answers for question in known)
    version_2 = negative or version.lower().removeprefix("v").startswith("2")
    return SquadFile(path, questions, labeled, version_2, unlabeled if labeled else {})


_Start = int | float | None
_Entries = Iterator[tuple[str, str, "_Entry"]]


@dataclasses.dataclass(frozen=True)
class _Answer:
    text: str
    answer_start: _Start = None


@dataclasses.dataclass(frozen=True)
class _AnswerColumns:
    """Answers as the Hugging Face Hub has them."""

    text: list[str] | str
    answer_start: list[_Start] | _Start = None


@dataclasses.dataclass(frozen=True)
class _Entry:
    """A question as files contain it."""

    id: str | int
    question: str
    answers: list[_Answer] | _AnswerColumns | None = None
    is_impossible: bool | int | None = False


@dataclasses.dataclass(frozen=True)
class _Row(_Entry):
    """A question with its context: a row of a table."""

    context: str = dataclasses.field(kw_only=True)

    def entries(self, place: str) -> _Entries:
        """Yield where every question is, its context, and the question."""
        yield place, self.context, self


@dataclasses.dataclass(frozen=True)
class _Paragraph:
    context: str
    qas: list[_Entry]

    def entries(self, place: str) -> _Entries:
        for number, entry in enumerate(self.qas):
            yield f"{place}.qas[{number}]", self.context, entry


@dataclasses.dataclass(frozen=True)
class _Article:
    paragraphs: list[_Paragraph]

    def entries(self, place: str) -> _Entries:
        for number, paragraph in enumerate(self.paragraphs):
            yield from paragraph.entries(f"{place}.paragraphs[{number}]")


@dataclasses.dataclass(frozen=True)
class _CmrcEntry:
    query_id: str | int
    query_text: str
    answers: list[str | int | float] | None = None  # one of the development set is a number


@dataclasses.dataclass(frozen=True)
class _CmrcParagraph:
    """A paragraph of CMRC 2018 in its own format."""

    context_text: str
    qas: list[_CmrcEntry]

    def entries(self, place: str) -> _Entries:
        for number, entry in enumerate(self.qas):
            texts = entry.answers
            answers = None if texts is None else [_Answer(str(text)) for text in texts]
            question = _Entry(entry.query_id, entry.query_text, answers)
            yield f"{place}.qas[{number}]", self.context_text, question


_Item = _Article | _Paragraph | _CmrcParagraph | _Row

# What a file is a list of, by a key that tells; articles have none of these.
_KINDS: dict[str, type[_Item]] = {
    "context_text": _CmrcParagraph,
    "qas": _Paragraph,
    "question": _Row,
}


def _content(path: str) -> tuple[str, Iterable[tuple[str, _Item]]]:
    """Return a file's version, and its articles, paragraphs or rows with their locations."""
    if path.endswith(".parquet"):
        return "", (
            (f"row {location.rpartition(':')[2]}", converted(values, location, _Row))
            for location, values in parquet_rows(path)
        )
    text = read_text(path).removeprefix("\ufeff")
    # Not `splitlines`: texts may contain other separators, such as U+2028.
    numbered = enumerate(io.StringIO(text, newline=None), start=1)
    lines = [(n, line.removesuffix("\n")) for n, line in numbered if line.strip()]
    if path.endswith(".jsonl") or (len(lines) > 1 and _is_object(lines[0][1])):
        return "", ((f"line {n}", _item(line, f"{path}:{n}")) for n, line in lines)
    content = parse_json(text, path, object)
    if isinstance(content, dict) and content.keys() & {*_KINDS, "paragraphs"}:
        content = [content]
    if isinstance(content, list):
        found: list[_Item] = converted(content, path, _list_for(content))
        return "", ((f"[{n}]", item) for n, item in enumerate(found))
    items = content.get("data") if isinstance(content, dict) else None
    file: Any = cast(Any, TypedDict)("SquadFile", {"data": _list_for(items)})
    found = converted(content, path, file)["data"]
    version = str(cast(dict, content).get("version", ""))
    return version, ((f"data[{n}]", item) for n, item in enumerate(found))


def _is_object(text: str) -> bool:
    try:
        parse_json(text, "", dict[str, Any])
    except InputError:
        return False
    return True


def _list_for(items: Any) -> Any:
    """Return the type of the list that a file is, or has as `data`."""
    return types.GenericAlias(list, (_kind_of(items),))


def _kind_of(items: Any) -> type[_Item]:
    first = items[0] if isinstance(items, list) and items else None
    keys = first if isinstance(first, dict) else ()
    return next((kind for key, kind in _KINDS.items() if key in keys), _Article)


def _item(line: str, location: str) -> _Item:
    value = parse_json(line, location, object)
    return converted(value, location, _kind_of([value]))


def _question(location: str, context: str, entry: _Entry) -> SquadQuestion:
    answers = tuple(answer for answer in _answers(location, entry) if answer.text.strip())
    if entry.is_impossible:
        # Placeholders are no answers: nothing, or words that are not in the context.
        answers = tuple(a for a in answers if a.start >= 0 or a.text in context)
    if answers and entry.is_impossible:
        raise InputError(
            f"{location}: question {entry.id!r} has answers, but 'is_impossible' is true"
        )
    return SquadQuestion(str(entry.id), entry.question, context, answers)


def _answers(location: str, entry: _Entry) -> list[Answer]:
    found = entry.answers or []
    if isinstance(found, _AnswerColumns):
        texts = [found.text] if isinstance(found.text, str) else found.text
        starts = found.answer_start
        starts = starts if isinstance(starts, list) else [starts] * len(texts)
        if len(texts) != len(starts):
            raise InputError(
                f"{location}: {counted(len(texts), 'text')} of answers, but "
                f"{counted(len(starts), 'position')}"
            )
        found = list(map(_Answer, texts, starts))
    return [Answer(each.text, _start(location, each.answer_start)) for each in found]


def _start(location: str, value: _Start) -> int:
    if value is None:
        return -1
    if isinstance(value, float) and not value.is_integer():
        raise InputError(f"{location}: answer_start={value}: must be a whole number")
    return int(value)
