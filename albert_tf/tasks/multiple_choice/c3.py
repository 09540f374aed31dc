"""Reads C3 (arXiv 1904.09679), Chinese multiple choice, as CLUE or its authors publish it.

A file is a list of `[sentences, questions, id]`. Questions on dialogues and on mixed texts are in
files of their own, except in the test sets of CLUE.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterator
from typing import Any

from albert_tf.errors import InputError
from albert_tf.files import converted, exists, read_json, shown
from albert_tf.tasks.multiple_choice.question import ChoiceQuestion, checked_choices

GROUPS = {"d": "dialogue", "m": "mixed"}
_FOLDERS = ("c3", "c3_public", "C3")


def _both(form: str) -> dict[str, str]:
    """Return file name -> group, for the two files of a split."""
    return {form.format(letter): group for letter, group in GROUPS.items()}


# Split -> its possible layouts: file name -> group of the questions. The first that exists is read.
_LAYOUTS: dict[str, tuple[dict[str, str], ...]] = {
    "train": (_both("{}-train.json"), _both("c3-{}-train.json")),
    "eval": (_both("{}-dev.json"), _both("c3-{}-dev.json")),
    "predict": (
        {"test1.1.json": ""},
        {"test1.0.json": ""},
        {"test.json": ""},
        _both("c3-{}-test.json"),
    ),
}


@dataclasses.dataclass(frozen=True)
class _Question:
    question: str
    choice: list[str]
    answer: str = ""


def read_c3(data_dir: str | None, split: str) -> Iterator[ChoiceQuestion]:
    """Yield the questions of a split.

    Args:
        data_dir: folder of CLUE, which contains `c3`, or the folder of C3 itself.
        split: "train", "eval" or "predict"; in the latter, answers may be missing.

    Raises:
        InputError: If a file is missing or invalid.
    """
    for path, group in _files(data_dir, split).items():
        prefix = f"{group[0]}-" if group else ""  # ids are unique within a group only
        for number, document in enumerate(read_json(path, list[list[Any]])):
            where = f"{path}: [{number}]"
            if len(document) < 2:
                raise InputError(f"{where}: must be a list of sentences, questions and an id")
            context = "\n".join(converted(document[0], f"{where}[0]", list[str]))
            name = document[2] if len(document) > 2 else number
            entries = converted(document[1], f"{where}[1]", list[_Question])
            for count, entry in enumerate(entries, start=1):
                yield _question(
                    f"{where}[1][{count - 1}]",
                    f"{prefix}{name}-{count}",
                    group,
                    context,
                    entry,
                    split == "predict",
                )


def submission_file(data_dir: str | None) -> str:
    """Return what the CLUE server calls the predictions of the test set in a folder."""
    (path, *_) = _files(data_dir, "predict")
    return f"c3{'11' if path.endswith('test1.1.json') else '10'}_predict.json"


def _files(data_dir: str | None, split: str) -> dict[str, str]:
    if data_dir is None:
        raise InputError("`data_dir`: `task_name`=c3 needs the folder of CLUE or of C3")
    places = [*(os.path.join(data_dir, folder) for folder in _FOLDERS), data_dir]
    for layout in _LAYOUTS[split]:
        for place in places:
            files = {os.path.join(place, name): group for name, group in layout.items()}
            if all(map(exists, files)):
                return files
    expected = " or ".join(" and ".join(layout) for layout in _LAYOUTS[split])
    raise InputError(f"`data_dir`={data_dir}: neither it nor {places[0]} contains {expected}")


def _question(
    location: str, name: str, group: str, context: str, entry: _Question, hidden: bool
) -> ChoiceQuestion:
    choices = checked_choices(location, entry.choice, "choice")
    answer = None
    if entry.answer in choices:
        # Of two equal choices the first counts, as in the predictions.
        answer = choices.index(entry.answer)
    elif not hidden:
        raise InputError(
            f"{location}: answer {shown(entry.answer)} is none of the choices, "
            f"{shown(entry.choice)}"
        )
    return ChoiceQuestion.filled(location, name, group, context, entry.question, choices, answer)
