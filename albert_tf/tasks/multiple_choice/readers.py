"""Multiple-choice questions, and how they are read: RACE, C3 and JSON lines.

RACE is read as published, a file per article, or as the Hugging Face Hub has it, in Parquet files.
C3 (arXiv 1904.09679) is read as CLUE or its authors publish it. A file is a list of `[sentences,
questions, id]`; questions on dialogues and on mixed texts are in files of their own, except in the
test sets of CLUE.
"""

import dataclasses
import glob
import itertools
import logging
import os
import re
import string
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from albert_tf import files
from albert_tf.errors import InputError
from albert_tf.hub.huggingface import local_folder
from albert_tf.tasks.multiple_choice.options import MultipleChoiceOptions

logger = logging.getLogger(__name__)

LETTERS = string.ascii_uppercase

# Any run of underscores is one blank in RACE, where they mean nothing else; elsewhere they may be
# part of a name unless they touch no letter or digit.
RACE_BLANK = re.compile("[_\uff3f]+")
BLANK = re.compile("(?<![\\w\uff3f])[_\uff3f]+(?![\\w\uff3f])")


class ChoiceQuestion(NamedTuple):
    """A question about a context, and its choices.

    Attributes:
        location: "file:line", for errors.
        id: identifies its prediction.
        group: results are also reported per group, such as "middle"; "" for none.
        context: text that the question is about; may be empty.
        question: may be empty, or contain blanks that the choices fill.
        choices: at least two.
        answer: index of the correct choice; None if unknown.
        blank: matches the blanks of the question.
    """

    location: str
    id: str
    group: str
    context: str
    question: str
    choices: tuple[str, ...]
    answer: int | None
    blank: re.Pattern[str] = BLANK

    @property
    def candidates(self) -> tuple[str, ...]:
        """Question and choice as one text, per choice."""
        return tuple(fill(self.question, choice, self.blank) for choice in self.choices)


def fill(question: str, choice: str, blank: re.Pattern[str] = BLANK) -> str:
    """Return a question and one of its choices as one text.

    The choice fills every blank of the question; without a blank it follows the question.
    """
    choice = choice.strip()
    filled, blanks = blank.subn(lambda _: choice, question)
    return filled if blanks else f"{question} {choice}".strip()


def checked_choices(location: str, value: Any, name: str, empty: bool = False) -> tuple[str, ...]:
    """Return the choices of a question, which a field contains; some data sets have empty ones.

    Raises:
        InputError: If they are not 2 to 26 texts.
    """
    if not isinstance(value, list) or not all(isinstance(choice, str) for choice in value):
        raise InputError(f"{location}: {name!r} must be a list of texts, not {files.shown(value)}")
    if not 2 <= len(value) <= len(LETTERS):
        raise InputError(
            f"{location}: {len(value)} choices; a question must have 2 to {len(LETTERS)}"
        )
    if not empty and not all(choice.strip() for choice in value):
        raise InputError(f"{location}: a choice is empty in {files.shown(value)}")
    return tuple(value)


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
        source = _file(options, split) if options.reads_json else options.data_dir or HUB_RACE
        raise InputError(f"{source}: contains no question")
    return questions


def _file(options: MultipleChoiceOptions, split: str) -> str | None:
    return getattr(options, options.files[split])


def groups_of(options: MultipleChoiceOptions) -> Sequence[str]:
    """Return the groups of questions for which results are also reported."""
    if options.reads_json:
        return ()
    return _levels(options) if options.reads_race else tuple(C3_GROUPS.values())


def _levels(options: MultipleChoiceOptions) -> list[str]:
    chosen = {"high": options.high_only, "middle": options.middle_only}
    return [level for level in LEVELS if chosen[level]] or list(LEVELS)


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
        tables = files.matches(f"{root}/{level}/{_HUB_SPLITS[split]}-*.parquet")
        if tables:
            yield from _hub_questions(tables, level)
            continue
        found = (files.matches(f"{root}/{each}") for each in _published(split, level))
        paths = next(filter(None, found), None)
        if paths is None:
            raise InputError(
                f"`data_dir`={data_dir}: no .txt file in {FOLDERS[split]}/{level}; RACE contains "
                "RACE/{train,dev,test}/{middle,high}/*.txt, and its copy on the Hugging Face Hub "
                "{middle,high}/{train,validation,test}-*.parquet"
            )
        for path in paths:
            for location, line in files.located_lines(path):
                article = files.parse_json(line, location, _Article)
                yield from _race_questions(location, article, level, split)


def _published(split: str, level: str) -> tuple[str, str]:
    """Return globs of the published files, in RACE/ or the folder that contains it."""
    name = f"{FOLDERS[split]}/{level}/*.txt"
    return f"RACE/{name}", name


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
        correct = None if answer is None else _letter(where, answer, choices)
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
            answer, id = _letter(location, row.answer, choices), f"{name}-{number}"
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


def _c3_files(form: str) -> dict[str, str]:
    """Return file name -> group, for the two files of a split."""
    return {form.format(letter): group for letter, group in C3_GROUPS.items()}


# Split -> its possible layouts: file name -> group of the questions. The first that exists is read.
_C3_LAYOUTS: dict[str, tuple[dict[str, str], ...]] = {
    "train": (_c3_files("{}-train.json"), _c3_files("c3-{}-train.json")),
    "eval": (_c3_files("{}-dev.json"), _c3_files("c3-{}-dev.json")),
    "predict": (
        {"test1.1.json": ""},
        {"test1.0.json": ""},
        {"test.json": ""},
        _c3_files("c3-{}-test.json"),
    ),
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


def c3_submission(data_dir: str | None) -> str:
    """Return what the CLUE server calls the predictions of the test set in a folder."""
    (path, *_) = _files_of_c3(data_dir, "predict")
    return f"c3{'11' if path.endswith('test1.1.json') else '10'}_predict.json"


def _files_of_c3(data_dir: str | None, split: str) -> dict[str, str]:
    if data_dir is None:
        raise InputError("`data_dir`: `task_name`=c3 needs the folder of CLUE or of C3")
    places = [*(os.path.join(data_dir, folder) for folder in _C3_FOLDERS), data_dir]
    for layout in _C3_LAYOUTS[split]:
        for place in places:
            groups = {os.path.join(place, name): group for name, group in layout.items()}
            if all(map(files.exists, groups)):
                return groups
    expected = " or ".join(" and ".join(layout) for layout in _C3_LAYOUTS[split])
    raise InputError(f"`data_dir`={data_dir}: neither it nor {places[0]} contains {expected}")


DATASETS: dict[str, Callable[[MultipleChoiceOptions, str], Iterator[ChoiceQuestion]]] = {
    "race": _read_race,
    "c3": lambda options, split: read_c3(options.data_dir, split),
    "json": _read_json,
}


def _letter(location: str, answer: Any, choices: tuple[str, ...]) -> int:
    letters = LETTERS[: len(choices)]
    if not isinstance(answer, str) or len(answer) != 1 or answer not in letters:
        raise InputError(
            f"{location}: answer {files.shown(answer)} must be a letter from A to {letters[-1]}"
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
            raise InputError(
                f"{location}: answer {files.shown(answer)} matches {len(found)} choices"
            )
        if found:
            return found[0]
        letter = answer.strip()
        if len(letter) == 1 and letter in LETTERS[: len(choices)]:
            return LETTERS.index(letter)
    raise InputError(
        f"{location}: answer {files.shown(answer)} must be the number of a choice (from 0), its "
        f"letter (A to {LETTERS[len(choices) - 1]}) or its text"
    )
