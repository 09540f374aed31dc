"""Reads multiple-choice questions: the RACE folders as published, and JSON lines."""

from __future__ import annotations

import logging
import re
import string
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from albert_tf.errors import InputError
from albert_tf.files import is_folder, matches, read_lines
from albert_tf.finetuning.race.race_options import RaceOptions
from albert_tf.json_files import parse_json, shown

logger = logging.getLogger(__name__)

LETTERS = string.ascii_uppercase
LEVELS = ("middle", "high")

# Split -> folder of RACE, as published.
FOLDERS = {"train": "train", "eval": "dev", "predict": "test"}

# Any run of underscores is one blank in RACE, where they mean nothing else; elsewhere they may be
# part of a name unless they touch no letter or digit.
_RACE_BLANK = re.compile("[_\uff3f]+")
_BLANK = re.compile("(?<![\\w\uff3f])[_\uff3f]+(?![\\w\uff3f])")


class ChoiceQuestion(NamedTuple):
    """A question about a context, and its choices.

    Attributes:
        location: "file:line", for errors.
        id: identifies its prediction.
        group: results are also reported per group, such as "middle"; "" for none.
        context: text that the question is about; may be empty.
        question: may be empty, or contain blanks that the choices fill.
        choices: at least two.
        candidates: question and choice as one text, per choice.
        answer: index of the correct choice; None if unknown.
    """

    location: str
    id: str
    group: str
    context: str
    question: str
    choices: tuple[str, ...]
    candidates: tuple[str, ...]
    answer: int | None


def fill(question: str, choice: str, blank: re.Pattern[str] = _BLANK) -> str:
    """A question and one of its choices as one text.

    The choice fills every blank of the question; without a blank it follows the question.
    """
    choice = choice.strip()
    filled, blanks = blank.subn(lambda _: choice, question)
    return filled if blanks else f"{question} {choice}".strip()


def read_questions(options: RaceOptions, split: str) -> list[ChoiceQuestion]:
    """The questions of a split of the data set that `task_name` names.

    Raises:
        InputError: there is no such data set, or a file is missing or invalid; the message names
            file and line.
    """
    name = options.with_defaults().task_name.lower()
    if name not in DATASETS:
        raise InputError(f"`task_name`={options.task_name}: must be one of {', '.join(DATASETS)}")
    questions = list(DATASETS[name](options, split))
    if not questions:
        raise InputError(f"{_source(options, split)}: contains no question")
    return questions


def _files(options: RaceOptions) -> dict[str, str | None]:
    return {
        "train": options.train_file,
        "eval": options.eval_file,
        "predict": options.predict_file,
    }


def _source(options: RaceOptions, split: str) -> str | None:
    """What a split is read from, for messages."""
    return _files(options)[split] if options.reads_json else options.data_dir


def levels_of(options: RaceOptions) -> list[str]:
    """The school levels of RACE that are read."""
    return [
        level
        for level in LEVELS
        if not (options.high_only and level != "high")
        and not (options.middle_only and level != "middle")
    ]


def _read_race(options: RaceOptions, split: str) -> Iterator[ChoiceQuestion]:
    if options.data_dir is None:
        raise InputError("`data_dir`: the folder of RACE is required")
    if _files(options)[split]:
        logger.warning("%s_file is ignored, because task_name=race reads data_dir", split)
    outer = f"{options.data_dir}/RACE"
    root = outer if is_folder(outer) else options.data_dir
    for level in levels_of(options):
        folder = f"{root}/{FOLDERS[split]}/{level}"
        paths = matches(f"{folder}/*.txt")
        if not paths:
            raise InputError(
                f"`data_dir`={options.data_dir}: no .txt file in {folder}; RACE contains "
                "RACE/{train,dev,test}/{middle,high}/*.txt"
            )
        for path in paths:
            for location, record in _read_json_lines(path):
                yield from _race_questions(location, record, level, split)


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
        choices = _choices(where, choices, "options", empty=True)
        correct = None if answer is None else _letter(where, answer, choices)
        texts = tuple(fill(question, choice, _RACE_BLANK) for choice in choices)
        yield ChoiceQuestion(
            location, f"{name}-{number}", level, article, question, choices, texts, correct
        )


def _read_json(options: RaceOptions, split: str) -> Iterator[ChoiceQuestion]:
    path = _files(options)[split]
    if path is None:
        raise InputError(f"`{split}_file`: a file of JSON lines is required")
    for number, (location, record) in enumerate(_read_json_lines(path), start=1):
        context, question = (_text(location, record, name) for name in ("context", "question"))
        if not context.strip() and not question.strip():
            raise InputError(f"{location}: has neither context nor question")
        if "choices" not in record:
            raise InputError(f"{location}: no field 'choices'; the fields are {_fields(record)}")
        choices = _choices(location, record["choices"], "choices")
        answer = None
        if split != "predict" or record.get("answer") is not None:
            if "answer" not in record:
                raise InputError(f"{location}: no field 'answer'; the fields are {_fields(record)}")
            answer = _answer(location, record["answer"], choices)
        texts = tuple(fill(question, choice) for choice in choices)
        name = record.get("id", number)
        if isinstance(name, bool) or not isinstance(name, (str, int)):
            raise InputError(f"{location}: 'id' must be a text or a number, not {shown(name)}")
        yield ChoiceQuestion(
            location, " ".join(str(name).split()), "", context, question, choices, texts, answer
        )


DATASETS: dict[str, Callable[[RaceOptions, str], Iterator[ChoiceQuestion]]] = {
    "race": _read_race,
    "json": _read_json,
}


def _read_json_lines(path: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """The JSON objects of a file, one per line, each with its "file:line"."""
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


def _choices(location: str, value: Any, name: str, empty: bool = False) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(choice, str) for choice in value):
        raise InputError(f"{location}: {name!r} must be a list of texts, not {shown(value)}")
    if not 2 <= len(value) <= len(LETTERS):
        raise InputError(
            f"{location}: {len(value)} choices; a question must have 2 to {len(LETTERS)}"
        )
    if not empty and not all(choice.strip() for choice in value):
        raise InputError(f"{location}: a choice is empty in {shown(value)}")
    return tuple(value)


def _letter(location: str, answer: Any, choices: tuple[str, ...]) -> int:
    letters = LETTERS[: len(choices)]
    if not isinstance(answer, str) or len(answer) != 1 or answer not in letters:
        raise InputError(
            f"{location}: answer {shown(answer)} must be a letter from A to {letters[-1]}"
        )
    return letters.index(answer)


def _answer(location: str, answer: Any, choices: tuple[str, ...]) -> int:
    """The index of an answer given by number (from 0), text or letter."""
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
