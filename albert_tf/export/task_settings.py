"""How fine-tuned models read texts, as recorded next to their weights; loads no TensorFlow."""

from __future__ import annotations

import dataclasses
import os
from typing import Any, ClassVar, Literal, TypeVar

from albert_tf.files import Positive, converted, exists, read_json
from albert_tf.interop.layout import folder_of


@dataclasses.dataclass(frozen=True)
class ClassificationSettings:
    """How a classifier reads texts, and what its outputs mean.

    Attributes:
        kind: "classification", "regression" or "multi_label".
        pairs: whether it was trained on pairs of texts; None if unknown.
        max_seq_length: maximum length of a text or pair in tokens, including special symbols; None
            if unknown.
    """

    default_length: ClassVar[int] = 512

    kind: Literal["classification", "regression", "multi_label"] = "classification"
    pairs: bool | None = None
    max_seq_length: int | None = None

    @property
    def min_length(self) -> int:
        """The smallest `max_seq_length` with room for a pair."""
        return 5


@dataclasses.dataclass(frozen=True)
class QuestionAnsweringSettings:
    """How a question-answering model reads texts and chooses answers.

    Attributes:
        version_2_with_negative: whether questions may have no answer.
        max_seq_length: maximum length of a question with a window of its context, in tokens; None
            if unknown.
        max_query_length: maximum length of a question in tokens; longer ones are truncated.
        doc_stride: tokens between the starts of consecutive windows of a long context.
        max_answer_length: maximum length of an answer in tokens.
        start_n_top: number of start positions that the conditional head considers.
        end_n_top: number of end positions for each of them.
        null_score_diff_threshold: null score above which there is no answer; None for the value
            in the results next to the weights.
    """

    default_length: ClassVar[int] = 384

    version_2_with_negative: bool = False
    max_seq_length: int | None = None
    max_query_length: Positive = 64
    doc_stride: Positive = 128
    max_answer_length: Positive = 30
    start_n_top: Positive = 5
    end_n_top: Positive = 5
    null_score_diff_threshold: float | None = None

    @property
    def min_length(self) -> int:
        """The smallest `max_seq_length` with room for one token of the context."""
        return self.max_query_length + 4


@dataclasses.dataclass(frozen=True)
class MultipleChoiceSettings:
    """How a multiple-choice model reads a question with its context and options.

    Attributes:
        task_name: "race", where every run of underscores is a blank and options may be empty, or
            "c3" or "json".
        max_seq_length: maximum length of a sequence in tokens; None if unknown.
        max_qa_length: maximum length of question and option together in tokens; longer ones are
            truncated at the beginning.
    """

    default_length: ClassVar[int] = 512

    task_name: Literal["race", "c3", "json"] = "json"
    max_seq_length: int | None = None
    max_qa_length: Positive = 128

    @property
    def min_length(self) -> int:
        """The smallest `max_seq_length` with room for a question and an option."""
        return self.max_qa_length + 3


@dataclasses.dataclass(frozen=True)
class TaggingSettings:
    """How a tagger reads texts, and what its tags mean.

    Attributes:
        unit: "words" if it was trained on words, and reads those of a raw text joined by single
            spaces; "text" if it was trained on raw texts, and reads them as they are.
        tags: "entities" if tags have prefixes and types; "plain" if each word has a label.
        max_seq_length: maximum length of a window of a text in tokens; None if unknown.
    """

    default_length: ClassVar[int] = 512

    unit: Literal["words", "text"] = "words"
    tags: Literal["entities", "plain"] = "entities"
    max_seq_length: int | None = None

    @property
    def min_length(self) -> int:
        """The smallest `max_seq_length` with room for a token."""
        return 3


Settings = TypeVar(
    "Settings",
    ClassificationSettings,
    QuestionAnsweringSettings,
    MultipleChoiceSettings,
    TaggingSettings,
)


def read_settings(
    kind: type[Settings], path: str, file_name: str, changes: dict[str, Any]
) -> Settings:
    """Reads settings from a file next to some weights, with defaults for missing values.

    Args:
        kind: one of the classes above.
        path: path of the weights, a file or a folder.
        file_name: name of the file; it may contain other values too, or not exist.
        changes: attribute -> value that overrides the file; None to keep that of the file.

    Raises:
        InputError: if the file is damaged.
    """
    file = os.path.join(folder_of(path), file_name)
    values: dict[str, Any] = {}
    if exists(file):
        values = read_json(file, dict[str, Any])
    values |= {name: value for name, value in changes.items() if value is not None}
    return converted(values, file, kind)
