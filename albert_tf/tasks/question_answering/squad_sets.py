"""SQuAD by name: which files of a folder, or of the Hugging Face Hub, `task_name` means."""

from __future__ import annotations

import glob
import os
from typing import NamedTuple

from albert_tf.errors import InputError
from albert_tf.files import matches
from albert_tf.hub.datasets import local_folder
from albert_tf.tasks.question_answering.options import QuestionAnsweringOptions


class _SquadSet(NamedTuple):
    """A version of SQuAD.

    Attributes:
        repository: on the Hub, whose files are Parquet.
        train: files to train on, of which one is needed: as on the Hub, and as published.
        dev: the same for evaluation and prediction.
    """

    repository: str
    train: tuple[str, ...]
    dev: tuple[str, ...]


_VERSION_1 = _SquadSet(
    "hf://datasets/rajpurkar/squad",
    ("plain_text/train-*.parquet", "train-v1.1.json"),
    ("plain_text/validation-*.parquet", "dev-v1.1.json"),
)
_VERSION_2 = _SquadSet(
    "hf://datasets/rajpurkar/squad_v2",
    ("squad_v2/train-*.parquet", "train-v2.0.json"),
    ("squad_v2/validation-*.parquet", "dev-v2.0.json"),
)

SQUAD_SETS = {"squad": _VERSION_1, "squad_v1": _VERSION_1, "squad_v2": _VERSION_2}


def split_file(options: QuestionAnsweringOptions, split: str) -> str:
    """The file of a split: the one that is named, else the one of `task_name`.

    Raises:
        InputError: neither is given, there is no such data set, or it lacks the file.
    """
    argument = options.files[split]
    path = getattr(options, argument)
    if path:
        return path
    if options.task_name is None:
        raise InputError(
            f"`{argument}`: `do_{split}` needs a file, or `task_name`={' or '.join(SQUAD_SETS)}"
        )
    name = options.task_name.lower().replace("-", "_")
    if name not in SQUAD_SETS:
        raise InputError(f"`task_name`={options.task_name}: must be one of {', '.join(SQUAD_SETS)}")
    squad_set = SQUAD_SETS[name]
    patterns = squad_set.train if split == "train" else squad_set.dev
    folder = options.data_dir or squad_set.repository
    folder = local_folder(folder, [patterns], "data_dir")
    found = [path for each in patterns for path in matches(f"{glob.escape(folder)}/{each}")]
    if not found:
        expected = " or ".join(os.path.join(folder, each) for each in patterns)
        raise InputError(f"`data_dir`={folder}: contains no {expected}")
    return found[0]
