"""Reads multiple-choice questions: RACE, C3 and JSON lines.

RACE is read as published, a file per article, or as the Hugging Face Hub has it, in Parquet files.
"""

from __future__ import annotations

import dataclasses
import glob
import itertools
import logging
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from albert_tf.errors import InputError
from albert_tf.files import converted, matches, parquet_rows, parse_json, read_lines, shown
from albert_tf.hub.huggingface import local_folder
from albert_tf.tasks.multiple_choice.c3 import GROUPS, read_c3
from albert_tf.tasks.multiple_choice.options import MultipleChoiceOptions
from albert_tf.tasks.multiple_choice.question import (
    LETTERS,
    RACE_BLANK,
    ChoiceQuestion,
    checked_choices,
    fill,
)

logger = logging.getLogger(__name__)

LEVELS = ("middle", "high")

# Split -> folder of RACE, as published; and start of the names of the files on the Hub.
FOLDERS = {"train": "train", "eval": "dev", "predict": "test"}
_HUB_SPLITS = {"train": "train", "eval": "validation", "predict": "test"}

HUB_RACE = "hf://datasets/ehovy/race"


def read_questions(options: MultipleChoiceOptions, split: str) -> list[ChoiceQuestion]:
    """Return the questions of a split of the data set that `task_name` names.

    Raises:
        InputError: If there is no such data set, or a file is missing or invalid; the message names
            file and line.
    """
    name = options.with_defaults().task_name.lower()
    if name not in DATASETS:
        raise InputError(f"`task_name`={options.task_name}: must be one of {', '.join(DATASETS)}")
    questions = list(DATASETS[name](options, split))
    if not questions:
        raise InputError(f"{_source(options, split)}: contains no question")
    return questions


def _file(options: MultipleChoiceOptions, split: str) -> str | None:
    return getattr(options, options.files[split])


def _source(options: MultipleChoiceOptions, split: str) -> str | None:
    if options.reads_json:
        return _file(options, split)
    return options.data_dir or HUB_RACE


def groups_of(options: MultipleChoiceOptions) -> Sequence[str]:
    """Return the groups of questions for which results are also reported."""
    if options.reads_json:
        return ()
    return _levels(options) if options.reads_race else tuple(GROUPS.values())


def _levels(options: MultipleChoiceOptions) -> list[str]:
    return [
        level
        for level in LEVELS
        if not (options.high_only and level != "high")
        and not (options.middle_only and level != "middle")
    ]


def _read_race(options: MultipleChoiceOptions, split: str) -> Iterator[ChoiceQuestion]:
    if _file(options, split):
        logger.warning("%s_file is ignored, because task_name=race reads data_dir", split)
    levels = _levels(options)
    place = options.data_dir or HUB_RACE
    needed = [
        [f"{level}/{_HUB_SPLITS[split]}-*.parquet", *_published(split, level)] for level in levels
    ]
    data_dir = local_folder(place, needed, "data_dir")
    for level in levels:
        root = glob.escape(data_dir)
        tables = matches(f"{root}/{level}/{_HUB_SPLITS[split]}-*.parquet")
        if tables:
            yield from _hub_questions(tables, level)
            continue
        found = (matches(f"{root}/{each}") for each in _published(split, level))
        paths = next(filter(None, found), None)
        if paths is None:
            raise InputError(
                f"`data_dir`={data_dir}: no .txt file in {FOLDERS[split]}/{level}; RACE contains "
                "RACE/{train,dev,test}/{middle,high}/*.txt, and its copy on the Hugging Face Hub "
                "{middle,high}/{train,validation,test}-*.parquet"
            )
        for path in paths:
            for location, record in _read_json_lines(path):
                yield from _race_questions(location, record, level, split)


def _published(split: str, level: str) -> tuple[str, str]:
    """Return globs of the published files, in RACE/ or the folder that contains it."""
    name = f"{FOLDERS[split]}/{level}/*.txt"
    return f"RACE/{name}", name


def _race_questions(
    location: str, record: dict[str, Any], level: str, split: str
) -> Iterator[ChoiceQuestion]:
    article = _text(location, record, "article")
    name = _text(location, record, "id")
    questions, options = (_list(location, record, field) for field in ("questions", "options"))
    hidden = split == "predict" and "answers" not in record
    answers = [None] * len(questions) if hidden else _list(location, record, "answers")
    if not len(questions) == len(options) == len(answers):
        raise InputError(
            f"{location}: {len(questions)} questions, {len(options)} options and {len(answers)} "
            "answers; every question needs one of each"
        )
    for number, (question, choices, answer) in enumerate(
        zip(questions, options, answers, strict=True), start=1
    ):
        where = f"{location}: question {number}"
        if not isinstance(question, str):
            raise InputError(f"{where}: must be a text, not {shown(question)}")
        # Published files contain a few empty options.
        choices = checked_choices(where, choices, "options", empty=True)
        correct = None if answer is None else _letter(where, answer, choices)
        texts = tuple(fill(question, choice, RACE_BLANK) for choice in choices)
        yield ChoiceQuestion(
            location, f"{name}-{number}", level, article, question, choices, texts, correct
        )


@dataclasses.dataclass(frozen=True)
class _HubQuestion:
    """A row of the Hub's files."""

    example_id: str
    article: str
    question: str
    options: list[str]
    answer: str


def _hub_questions(paths: list[str], level: str) -> Iterator[ChoiceQuestion]:
    """Yield the questions of the Hub's files, in the order in which the published ones are read."""
    rows = []
    articles: dict[str, str] = {}  # each is stored once, though all of its questions repeat it
    for path in paths:
        for location, values in parquet_rows(path):
            row = converted(values, location, _HubQuestion)
            rows.append((row, location, articles.setdefault(row.article, row.article)))
    rows.sort(key=lambda each: each[0].example_id)  # keeps the questions of an article in order
    for name, group in itertools.groupby(rows, key=lambda each: each[0].example_id):
        for number, (row, location, article) in enumerate(group, start=1):
            choices = checked_choices(location, row.options, "options", empty=True)
            texts = tuple(fill(row.question, choice, RACE_BLANK) for choice in choices)
            answer = _letter(location, row.answer, choices)
            yield ChoiceQuestion(
                location, f"{name}-{number}", level, article, row.question, choices, texts, answer
            )


def _read_json(options: MultipleChoiceOptions, split: str) -> Iterator[ChoiceQuestion]:
    path = _file(options, split)
    if path is None:
        raise InputError(f"`{split}_file`: a file of JSON lines is required")
    for number, (location, record) in enumerate(_read_json_lines(path), start=1):
        context, question = (_text(location, record, name) for name in ("context", "question"))
        if not context.strip() and not question.strip():
            raise InputError(f"{location}: has neither context nor question")
        if "choices" not in record:
            raise InputError(f"{location}: no field 'choices'; the fields are {_fields(record)}")
        choices = checked_choices(location, record["choices"], "choices")
        answer = None
        may_lack_answer = split == "predict" or (split == "train" and options.taught)
        if not may_lack_answer or record.get("answer") is not None:
            if "answer" not in record:
                raise InputError(f"{location}: no field 'answer'; the fields are {_fields(record)}")
            answer = answer_number(location, record["answer"], choices)
        texts = tuple(fill(question, choice) for choice in choices)
        name = record.get("id", number)
        if isinstance(name, bool) or not isinstance(name, (str, int)):
            raise InputError(f"{location}: 'id' must be a text or a number, not {shown(name)}")
        yield ChoiceQuestion(
            location, " ".join(str(name).split()), "", context, question, choices, texts, answer
        )


DATASETS: dict[str, Callable[[MultipleChoiceOptions, str], Iterator[ChoiceQuestion]]] = {
    "race": _read_race,
    "c3": lambda options, split: read_c3(options.data_dir, split),
    "json": _read_json,
}


def _read_json_lines(path: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the JSON objects of a file, one per line, each with its "file:line"."""
    for number, line in enumerate(read_lines(path), start=1):
        if not line.strip():
            continue
        location = f"{path}:{number}"
        yield location, parse_json(line, location, dict[str, Any])


def _fields(record: dict[str, Any]) -> str:
    return ", ".join(map(repr, record)) or "none"


def _field(location: str, record: dict[str, Any], name: str, kind: type, kind_name: str) -> Any:
    if name not in record:
        raise InputError(f"{location}: no field {name!r}; the fields are {_fields(record)}")
    if not isinstance(record[name], kind):
        raise InputError(f"{location}: {name!r} must be a {kind_name}, not {shown(record[name])}")
    return record[name]


def _text(location: str, record: dict[str, Any], name: str) -> str:
    return _field(location, record, name, str, "text")


def _list(location: str, record: dict[str, Any], name: str) -> list:
    return _field(location, record, name, list, "list")


def _letter(location: str, answer: Any, choices: tuple[str, ...]) -> int:
    letters = LETTERS[: len(choices)]
    if not isinstance(answer, str) or len(answer) != 1 or answer not in letters:
        raise InputError(
            f"{location}: answer {shown(answer)} must be a letter from A to {letters[-1]}"
        )
    return letters.index(answer)


def answer_number(location: str, answer: Any, choices: tuple[str, ...]) -> int:
    """Return the index of an answer given by number (from 0), text or letter."""
    if isinstance(answer, int) and not isinstance(answer, bool):
        if not 0 <= answer < len(choices):
            raise InputError(
                f"{location}: answer {answer} must be 0 to {len(choices) - 1}, the numbers of "
                f"{len(choices)} choices"
            )
        return answer
    texts = [choice.strip() for choice in choices]
    if isinstance(answer, str):
        found = [number for number, text in enumerate(texts) if text == answer.strip()]
        if len(found) > 1:
            raise InputError(f"{location}: answer {shown(answer)} matches {len(found)} choices")
        if found:
            return found[0]
        letter = answer.strip()
        if len(letter) == 1 and letter in LETTERS[: len(choices)]:
            return LETTERS.index(letter)
    raise InputError(
        f"{location}: answer {shown(answer)} must be the number of a choice (from 0), its letter "
        f"(A to {LETTERS[len(choices) - 1]}) or its text"
    )
