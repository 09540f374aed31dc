"""Multiple-choice questions, and how they are read: RACE, C3, COPA, Belebele and JSON lines.

RACE is read as published, a file per article, or as the Hugging Face Hub has it, in Parquet files.
C3 (arXiv 1904.09679) is read as CLUE or its authors publish it. A file is a list of `[sentences,
questions, id]`; questions on dialogues and on mixed texts are in files of their own, except in the
test sets of CLUE. COPA (of SuperGLUE) and Belebele (arXiv 2308.16884), a test set, have a question
in each row.
"""

import dataclasses
import functools
import glob
import itertools
import logging
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from albert_tf import files
from albert_tf.errors import InputError
from albert_tf.hub.huggingface import LANGUAGE, PREFIX, PublishedSet, local_folder
from albert_tf.tasks.multiple_choice.choices import (
    RACE_BLANK,
    ChoiceQuestion,
    answer_number,
    checked_choices,
    letter_number,
)
from albert_tf.tasks.multiple_choice.options import MultipleChoiceOptions

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
    name = options.data_set
    if name not in DATASETS:
        raise InputError(f"`task_name`={options.task_name}: must be one of {', '.join(DATASETS)}")
    questions = list(DATASETS[name](options, split))
    if not questions:
        source = _file(options, split) if name == "json" else options.data_dir or HUB_RACE
        raise InputError(f"{source}: contains no question")
    return questions


def _file(options: MultipleChoiceOptions, split: str) -> str | None:
    return getattr(options, options.files[split])


def groups_of(options: MultipleChoiceOptions) -> Sequence[str]:
    """Return the groups of questions for which results are also reported."""
    groups = {"race": _levels(options), "c3": tuple(C3_GROUPS.values())}
    return groups.get(options.data_set, ())


def _levels(options: MultipleChoiceOptions) -> list[str]:
    chosen = {"high": options.high_only, "middle": options.middle_only}
    return [level for level in LEVELS if chosen[level]] or list(LEVELS)


def _read_race(options: MultipleChoiceOptions, split: str) -> Iterator[ChoiceQuestion]:
    if _file(options, split):
        logger.warning("%s_file is ignored, because task_name=race reads data_dir", split)
    places = {level: _places(split, level) for level in _levels(options)}
    data_dir = local_folder(options.data_dir or HUB_RACE, [*places.values()], "data_dir")
    root = glob.escape(data_dir)
    for level, names in places.items():
        found = (files.matches(f"{root}/{each}") for each in names)
        paths = next(filter(None, found), [])
        if not paths:
            raise InputError(
                f"`data_dir`={data_dir}: no .txt file in {FOLDERS[split]}/{level}; RACE contains "
                "RACE/{train,dev,test}/{middle,high}/*.txt, and its copy on the Hugging Face Hub "
                "{middle,high}/{train,validation,test}-*.parquet"
            )
        if paths[0].endswith(".parquet"):
            yield from _hub_questions(paths, level)
            continue
        for path in paths:
            for location, line in files.located_lines(path):
                article = files.parse_json(line, location, _Article)
                yield from _race_questions(location, article, level, split)


def _places(split: str, level: str) -> list[str]:
    """Return globs of the Hub's files, and of the published ones, in RACE/ or around it."""
    name = f"{FOLDERS[split]}/{level}/*.txt"
    return [f"{level}/{_HUB_SPLITS[split]}-*.parquet", f"RACE/{name}", name]


@dataclasses.dataclass(frozen=True)
class _Article:
    """A published file."""

    article: str
    id: str
    questions: list[str]
    options: list[list[str]]
    answers: list[Any] | None = None


def _race_questions(
    location: str, entry: _Article, level: str, split: str
) -> Iterator[ChoiceQuestion]:
    if entry.answers is None and split != "predict":
        raise InputError(f"{location}: lacks 'answers'")
    answers = [None] * len(entry.questions) if entry.answers is None else entry.answers
    if not len(entry.questions) == len(entry.options) == len(answers):
        raise InputError(
            f"{location}: {len(entry.questions)} questions, {len(entry.options)} options and "
            f"{len(answers)} answers; every question needs one of each"
        )
    rows = zip(entry.questions, entry.options, answers, strict=True)
    for number, (question, options, answer) in enumerate(rows, start=1):
        where, name = f"{location}: question {number}", f"{entry.id}-{number}"
        # Published files contain a few empty options.
        choices = checked_choices(where, options, "options", empty=True)
        correct = None if answer is None else letter_number(where, answer, choices)
        yield ChoiceQuestion(
            location, name, level, entry.article, question, choices, correct, RACE_BLANK
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
        for location, values in files.parquet_rows(path):
            row = files.converted(values, location, _HubQuestion)
            rows.append((row, location, articles.setdefault(row.article, row.article)))
    rows.sort(key=lambda each: each[0].example_id)  # keeps the questions of an article in order
    for name, group in itertools.groupby(rows, key=lambda each: each[0].example_id):
        for number, (row, location, article) in enumerate(group, start=1):
            choices = checked_choices(location, row.options, "options", empty=True)
            answer, id = letter_number(location, row.answer, choices), f"{name}-{number}"
            yield ChoiceQuestion(
                location, id, level, article, row.question, choices, answer, RACE_BLANK
            )


@dataclasses.dataclass(frozen=True)
class _JsonQuestion:
    """A question in a line of its own."""

    context: str
    question: str
    choices: list[str]
    answer: Any = None
    id: str | int | None = None


def _read_json(options: MultipleChoiceOptions, split: str) -> Iterator[ChoiceQuestion]:
    path = _file(options, split)
    if path is None:
        raise InputError(f"`{split}_file`: a file of JSON lines is required")
    may_lack_answer = split == "predict" or (split == "train" and options.taught)
    for number, (location, line) in enumerate(files.located_lines(path), start=1):
        row = files.parse_json(line, location, _JsonQuestion)
        if not row.context.strip() and not row.question.strip():
            raise InputError(f"{location}: has neither context nor question")
        choices = checked_choices(location, row.choices, "choices")
        if row.answer is None and not may_lack_answer:
            raise InputError(f"{location}: lacks 'answer'")
        answer = None if row.answer is None else answer_number(location, row.answer, choices)
        name = " ".join(str(number if row.id is None else row.id).split())
        yield ChoiceQuestion(location, name, "", row.context, row.question, choices, answer)


C3_GROUPS = {"d": "dialogue", "m": "mixed"}
_C3_FOLDERS = ("c3", "c3_public", "C3")


# Split -> its possible files, with the letters of `C3_GROUPS` for {}; the first existing are read.
_C3_LAYOUTS = {
    "train": ("{}-train.json", "c3-{}-train.json"),
    "eval": ("{}-dev.json", "c3-{}-dev.json"),
    "predict": ("test1.1.json", "test1.0.json", "test.json", "c3-{}-test.json"),
}


@dataclasses.dataclass(frozen=True)
class _C3Question:
    question: str
    choice: list[str]
    answer: str = ""


def read_c3(data_dir: str | None, split: str) -> Iterator[ChoiceQuestion]:
    """Yield the questions of a split; in "predict", answers may be missing.

    `data_dir` is the folder of CLUE, which contains `c3`, or the folder of C3 itself.
    """
    for path, group in _files_of_c3(data_dir, split).items():
        prefix = f"{group[0]}-" if group else ""  # ids are unique within a group only
        for number, document in enumerate(files.read_json(path, list[list[Any]])):
            where = f"{path}: [{number}]"
            if len(document) < 2:
                raise InputError(f"{where}: must be a list of sentences, questions and an id")
            context = "\n".join(files.converted(document[0], f"{where}[0]", list[str]))
            name = document[2] if len(document) > 2 else number
            entries = files.converted(document[1], f"{where}[1]", list[_C3Question])
            for count, entry in enumerate(entries, start=1):
                place, id = f"{where}[1][{count - 1}]", f"{prefix}{name}-{count}"
                choices = checked_choices(place, entry.choice, "choice")
                # Of two equal choices the first counts, as in the predictions.
                answer = choices.index(entry.answer) if entry.answer in choices else None
                if answer is None and split != "predict":
                    raise InputError(
                        f"{place}: answer {files.shown(entry.answer)} is none of the choices, "
                        f"{files.shown(entry.choice)}"
                    )
                yield ChoiceQuestion(place, id, group, context, entry.question, choices, answer)


def _files_of_c3(data_dir: str | None, split: str) -> dict[str, str]:
    if data_dir is None:
        raise InputError("`data_dir`: `task_name`=c3 needs the folder of CLUE or of C3")
    places = [*(os.path.join(data_dir, folder) for folder in _C3_FOLDERS), data_dir]
    layouts = [
        {form.format(letter): group if "{}" in form else "" for letter, group in C3_GROUPS.items()}
        for form in _C3_LAYOUTS[split]
    ]
    for layout, place in itertools.product(layouts, places):
        groups = {os.path.join(place, name): group for name, group in layout.items()}
        if all(map(files.exists, groups)):
            return groups
    expected = " or ".join(map(" and ".join, layouts))
    raise InputError(f"`data_dir`={data_dir}: neither it nor {places[0]} contains {expected}")


class _Rows(NamedTuple):
    """A data set with a question in each row.

    Attributes:
        files: where its rows are.
        ids, context, question, choices, answer: names of their columns.
        first: number of the first choice in the column of the answers.
        asked: what a value of the column of the questions stands for.
    """

    files: PublishedSet
    ids: tuple[str, ...]
    context: str
    question: str
    choices: tuple[str, ...]
    answer: str
    first: int = 0
    asked: Mapping[str, str] = {}


_COPA = _Rows(
    PublishedSet(
        {"train": ("train.jsonl",), "eval": ("val.jsonl",), "predict": ("test.jsonl",)},
        folders=("COPA",),
    ),
    ("idx",),
    "premise",
    "question",
    ("choice1", "choice2"),
    "label",
    asked={"cause": "What was the cause of this?", "effect": "What happened as a result?"},
)
_BELEBELE = _Rows(
    PublishedSet(
        dict.fromkeys(("eval", "predict"), (f"{LANGUAGE}.jsonl",)),
        f"{PREFIX}facebook/belebele/data",
        ("data", "Belebele"),
        languages="deu_Latn",
    ),
    ("link", "question_number"),
    "flores_passage",
    "question",
    ("mc_answer1", "mc_answer2", "mc_answer3", "mc_answer4"),
    "correct_answer_num",
    first=1,
)


def _read_rows(rows: _Rows, options: MultipleChoiceOptions, split: str) -> Iterator[ChoiceQuestion]:
    (path,) = rows.files.find(split, options.data_dir, options.language)
    for row in files.read_rows(path):
        choices = tuple(row.text(column) for column in rows.choices)
        answer = None
        if split == "eval" or rows.answer in row.values:
            numbers = [str(rows.first + number) for number in range(len(choices))]
            if (label := row.value(rows.answer)) not in numbers:
                raise InputError(
                    f"{row.location}: {rows.answer}={label}: must be one of {', '.join(numbers)}"
                )
            answer = numbers.index(label)
        id, question = "#".join(map(row.text, rows.ids)), row.text(rows.question)
        context = row.text(rows.context)
        if rows.asked and question not in rows.asked:
            raise InputError(
                f"{row.location}: {rows.question}={question}: must be one of "
                f"{', '.join(rows.asked)}"
            )
        question = rows.asked.get(question, question)
        yield ChoiceQuestion(row.location, id, "", context, question, choices, answer)


def submission(
    options: MultipleChoiceOptions, questions: Sequence[ChoiceQuestion], chosen: Sequence[int]
) -> tuple[str, list[dict[str, int]]]:
    """Return the name of the file for the server of a benchmark, and the objects in its lines."""
    if options.data_set == "copa":
        pairs = zip(questions, chosen, strict=True)
        return "COPA.jsonl", [{"idx": int(each.id), "label": choice} for each, choice in pairs]
    (path, *_) = _files_of_c3(options.data_dir, "predict")
    name = f"c3{'11' if path.endswith('test1.1.json') else '10'}_predict.json"
    return name, [{"id": row, "label": choice} for row, choice in enumerate(chosen)]


DATASETS: dict[str, Callable[[MultipleChoiceOptions, str], Iterator[ChoiceQuestion]]] = {
    "race": _read_race,
    "c3": lambda options, split: read_c3(options.data_dir, split),
    "copa": functools.partial(_read_rows, _COPA),
    "belebele": functools.partial(_read_rows, _BELEBELE),
    "json": _read_json,
}
