"""Flags of run_classifier.py; loads no TensorFlow."""

import dataclasses
from collections.abc import Mapping
from typing import Any, ClassVar, Literal, get_args

from albert_tf import original_flags
from albert_tf.errors import InputError
from albert_tf.finetuning.finetuning_options import TaughtOptions, inherited_option
from albert_tf.finetuning.trained_settings import TaskSettings
from albert_tf.options import option, seed_option
from albert_tf.tasks.classification import KIND

# What a classifier reads, without and with pairs; for errors.
TEXTS = ("single texts", "pairs of texts")

# How texts that are longer than `max_seq_length` are read.
LongTexts = Literal["head", "head_tail", "windows", "windows_max"]

# What `folds` leaves no choice of.
_NOT_OF_FOLDS = (
    *("eval_file", "test_size", "do_predict", "eval_every_steps", "eval_checkpoints"),
    *("seeds", "learning_rates", "train_batch_sizes"),
)


def in_windows(long_texts: str | None) -> bool:
    """Return whether a long text is several sequences, whose logits are combined."""
    return long_texts in ("windows", "windows_max")


def check_long_texts(long_texts: str | None, pairs: bool) -> None:
    """Raise InputError if pairs of texts cannot be read so."""
    if pairs and in_windows(long_texts):
        raise InputError(
            f"`long_texts`={long_texts}: windows are of single texts; for pairs of texts, use head "
            "or head_tail"
        )


@dataclasses.dataclass(frozen=True)
class ClassificationSettings(TaskSettings):
    """How a classifier reads texts, and what its outputs mean.

    Attributes:
        kind: "classification", "regression" or "multi_label".
        pairs: whether it was trained on pairs of texts; None if unknown.
        long_texts: as for `ClassificationOptions`.
    """

    kind: Literal["classification", "regression", "multi_label"] = "classification"
    pairs: bool | None = None
    long_texts: LongTexts = "head"

    @property
    def min_length(self) -> int:
        """Return the smallest `max_seq_length` with room for a pair."""
        return 5


@dataclasses.dataclass(frozen=True, kw_only=True)
class ClassificationOptions(TaughtOptions):
    """Flags of run_classifier.py."""

    settings_file: ClassVar[str] = KIND.settings_file
    original = original_flags.CLASSIFIER
    lengths: ClassVar[tuple[str, ...]] = ("max_seq_length", "long_texts")

    task_name: str = inherited_option(
        "table",
        "A task of GLUE, SuperGLUE or CLUE, XNLI, PAWS-X or SIB-200, in any case, or table for "
        "your own files",
        group="Data",
        common=True,
    )
    data_dir: str | None = option(
        None,
        "Folder of the data set as published (CoLA/train.tsv, ...) or as on the Hugging Face Hub, "
        "from which all but CLUE and SuperGLUE are taken by default; may be "
        "hf://datasets/ORGANIZATION/NAME.",
        common=True,
    )
    submission: bool = option(
        False,
        "Whether --do_predict also writes the file that the server of GLUE, SuperGLUE or CLUE "
        "accepts.",
        group="Evaluation",
    )

    train_file: str | None = option(
        None,
        "Table to train on: .tsv, .csv, .jsonl, .parquet, .xlsx; may be "
        "hf://datasets/ORGANIZATION/NAME/FILE.",
        group="Data",
        common=True,
    )
    eval_file: str | None = option(
        None, "Table to evaluate on, with the same columns.", common=True
    )
    predict_file: str | None = option(
        None,
        "Table to predict; the label column is optional. - for lines of standard input: one text "
        "each, or two separated by a tab.",
        common=True,
    )
    class_files: tuple[str, ...] = option(
        (), "Instead of --train_file: one file per label, named after it; comma-separated."
    )
    header: bool = inherited_option(True, "Whether the first line of the tables names the columns")
    text_column: str | None = inherited_option(
        None, "Column of the text: text, or 1 with --noheader, if not given", common=True
    )
    text_pair_column: str | None = inherited_option(
        None, "Column of the second text, for pairs of texts", common=True
    )
    label_column: str | None = inherited_option(
        None, "Column of the label: label, or 2 with --noheader, if not given", common=True
    )
    id_column: str | None = option(None, "Column that identifies rows in predictions.")
    regression: bool = inherited_option(False, "Whether the labels are numbers to predict")
    multi_label: bool = inherited_option(False, "Whether a row may have several labels, or none")
    label_separator: str = inherited_option(
        ",", "With --multi_label: separates the labels of a row"
    )
    long_texts: str = inherited_option(
        ClassificationSettings.long_texts,
        "How texts longer than --max_seq_length are read: head keeps their beginning; head_tail "
        "the first quarter of the length from the beginning, the rest from the end; windows reads "
        "parts that overlap by half and takes the mean of their logits, windows_max the maximum",
        choices=get_args(LongTexts),
    )
    class_weights: str | None = option(
        None,
        "Weights of the labels in the training loss: balanced, which gives all labels the same "
        "total weight, or a JSON file {label: weight}, 1 for labels that it does not name.",
        group="Training",
        common=True,
    )
    test_size: float = option(
        0.0, "Share of the training rows held out for evaluation; 0: none.", minimum=0, below=1
    )
    folds: int = option(
        None,
        "Cross-validation with this number of models: each is trained on all training rows but "
        "those of its fold, and predicts these.",
        minimum=2,
        maximum=1000,
        needs=("do_train",),
    )
    test_seed: int = seed_option(0, "Seed that chooses the held-out rows, or the folds.")

    def check(self) -> None:
        """As of the base class; also if options exclude `folds`."""
        super().check()
        if not self.folds:
            return
        for field in dataclasses.fields(self):
            if field.name in _NOT_OF_FOLDS and getattr(self, field.name) != field.default:
                raise InputError(
                    f"`{field.name}`: cannot be combined with `folds`, which scores every training "
                    "row by a model that did not see it, after its last step"
                )

    def splits(self) -> tuple[str, ...]:
        return ("train",) if self.folds else super().splits()

    def recorded(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """As of the base class: those of tables only if the rows are in tables."""
        files = (self.train_file, self.eval_file, self.predict_file, self.class_files)
        if values.get("task_name") not in (None, "table") and (self.streams or not any(files)):
            return {n: values[n] for n in ("task_name", *self.lengths) if n in values}
        values = {name: value for name, value in values.items() if name != "task_name"}
        kind = values.get("kind")
        if kind and not (self.regression or self.multi_label):
            values |= {name: kind == name for name in ("regression", "multi_label")}
        return values
