"""What exports of fine-tuned models know of their task, beside the weights; loads no TensorFlow."""

from __future__ import annotations

import dataclasses
import json
import os
from typing import Any, ClassVar, TypeVar

from albert_tf.errors import InputError
from albert_tf.files import exists, is_folder, read_text

Settings = TypeVar("Settings")


@dataclasses.dataclass(frozen=True)
class ClassifierSettings:
    """How a classifier reads texts, and what its outputs are.

    Attributes:
        kind: "classification", "regression" or "multi_label".
        pairs: whether it was trained on pairs of texts; None where that is not known.
        max_seq_length: tokens of a text, or pair, at most, special symbols included; None where
            that is not known.
    """

    usual_length: ClassVar[int] = 512

    kind: str = "classification"
    pairs: bool | None = None
    max_seq_length: int | None = None

    @property
    def least_length(self) -> int:
        """The least `max_seq_length` that has room for a pair."""
        return 5


@dataclasses.dataclass(frozen=True)
class SpanSettings:
    """How questions and contexts are read, and answers chosen.

    Attributes:
        version_2_with_negative: whether questions may have no answer.
        max_seq_length: tokens of a question with a part of its context, at most; None where that
            is not known.
        max_query_length: tokens of a question that are kept.
        doc_stride: tokens from the start of a part of a long context to that of the next.
        max_answer_length: tokens in an answer, at most.
        start_n_top: starts that the conditional head looks at.
        end_n_top: ends of each of them.
        null_score_diff_threshold: null score above which there is no answer; None for the one
            among the results beside the weights.
    """

    usual_length: ClassVar[int] = 384

    version_2_with_negative: bool = False
    max_seq_length: int | None = None
    max_query_length: int = 64
    doc_stride: int = 128
    max_answer_length: int = 30
    start_n_top: int = 5
    end_n_top: int = 5
    null_score_diff_threshold: float | None = None

    @property
    def least_length(self) -> int:
        """The least `max_seq_length` that has room for a token of the context."""
        return self.max_query_length + 4


@dataclasses.dataclass(frozen=True)
class ChoiceSettings:
    """How a question with its context and choices is read.

    Attributes:
        task_name: "race", where every run of low lines is a blank and options may be empty, or
            "json".
        max_seq_length: tokens of a sequence, at most; None where that is not known.
        max_qa_length: tokens of question and choice together; longer ones lose their beginning.
    """

    usual_length: ClassVar[int] = 512

    task_name: str = "json"
    max_seq_length: int | None = None
    max_qa_length: int = 128

    @property
    def least_length(self) -> int:
        """The least `max_seq_length` that has room for question and choice."""
        return self.max_qa_length + 3


def folder_of(path: str) -> str:
    """The folder that some weights, a file or a folder, stand in."""
    return path if is_folder(path) else os.path.dirname(path)


def read_settings(
    kind: type[Settings], path: str, file_name: str, changes: dict[str, Any]
) -> Settings:
    """What a file beside some weights says, with defaults for what it does not.

    Args:
        kind: one of the classes above.
        path: of the weights, a file or a folder.
        file_name: of the settings; it may hold more than these, or not be there.
        changes: what counts instead of it, by attribute; None for nothing.

    Raises:
        InputError: the file is damaged.
    """
    file = os.path.join(folder_of(path), file_name)
    told: dict[str, Any] = {}
    if exists(file):
        try:
            told = json.loads(read_text(file))
        except ValueError as error:
            raise InputError(f"{file}: not a JSON file ({error})") from None
    told |= {name: value for name, value in changes.items() if value is not None}
    names = {field.name for field in dataclasses.fields(kind)}
    return kind(**{name: value for name, value in told.items() if name in names})
