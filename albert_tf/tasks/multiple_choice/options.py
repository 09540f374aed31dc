"""Flags of run_race.py; loads no TensorFlow."""

import dataclasses
from typing import ClassVar, Literal

from albert_tf.errors import InputError
from albert_tf.files import Positive
from albert_tf.finetuning.finetuning_options import TaughtOptions, inherited_option
from albert_tf.finetuning.trained_settings import TaskSettings
from albert_tf.options import option
from albert_tf.tasks.multiple_choice import KIND

# Option -> the tasks that it is for.
_TASKS_OF = {
    "data_dir": ("race", "c3", "copa", "belebele"),
    "language": ("belebele",),
    "submission": ("c3", "copa"),
    "high_only": ("race",),
    "middle_only": ("race",),
    "train_file": ("json",),
    "eval_file": ("json",),
    "predict_file": ("json",),
}


@dataclasses.dataclass(frozen=True)
class MultipleChoiceSettings(TaskSettings):
    """How a multiple-choice model reads a question with its context and options.

    Attributes:
        task_name: "race", where every run of underscores is a blank and options may be empty, or
            another one.
        max_qa_length: maximum length of question and option together in tokens; longer ones are
            truncated at the beginning.
    """

    part: ClassVar[str] = "max_qa_length"

    task_name: Literal["race", "c3", "copa", "belebele", "json"] = "json"
    max_qa_length: Positive = 128

    @property
    def min_length(self) -> int:
        """Return the smallest `max_seq_length` with room for a question and an option."""
        return self.max_qa_length + 3


@dataclasses.dataclass(frozen=True, kw_only=True)
class MultipleChoiceOptions(TaughtOptions):
    """Flags of run_race.py; the original's defaults, which train and evaluate."""

    settings_file: ClassVar[str] = KIND.settings_file
    lengths = ("max_seq_length", "max_qa_length")

    task_name: str = inherited_option(
        "race",
        "race, c3 (Chinese, of CLUE), copa (of SuperGLUE), belebele (many languages), or json for "
        "any multiple choice as JSON lines",
        group="Data",
        common=True,
    )
    data_dir: str | None = option(
        None,
        "Folder of RACE, as published (RACE/{train,dev,test}/{middle,high}/*.txt) or as on the "
        "Hugging Face Hub, from which it is taken by default; may be "
        "hf://datasets/ORGANIZATION/NAME. Of CLUE (c3/d-train.json, ...), SuperGLUE (COPA/*.jsonl) "
        "or Belebele (deu_Latn.jsonl, ..., by default from the Hub) with their --task_name.",
        common=True,
    )
    submission: bool = option(
        False,
        "With --task_name=c3 or copa: whether --do_predict also writes the file for the server of "
        "CLUE or SuperGLUE.",
        group="Evaluation",
    )
    train_file: str | None = option(
        None, "With --task_name=json: JSON lines to train on.", group="Data", common=True
    )
    eval_file: str | None = option(
        None, "With --task_name=json: JSON lines to evaluate on.", common=True
    )
    predict_file: str | None = option(
        None, "With --task_name=json: JSON lines to predict; answers are optional.", common=True
    )
    high_only: bool = option(False, "Only the high school questions of RACE.")
    middle_only: bool = option(False, "Only the middle school questions of RACE.")
    max_qa_length: int = inherited_option(
        MultipleChoiceSettings.max_qa_length,
        "Maximum tokens of question and choice together, which are truncated at the beginning",
    )

    do_train: bool = option(True, "Whether to train.")
    do_eval: bool = option(True, "Whether to evaluate, after training if both are requested.")
    classifier_dropout: float = option(
        0.1, "Dropout before the task's head, in training.", aliases=("dropout_prob",)
    )
    learning_rate: float = option(1e-5, "Peak learning rate.")
    train_step: int = option(12000, "Training steps in total, including those before a restart.")
    warmup_step: int = option(1000, "Steps of linear warm-up.")
    save_checkpoints_steps: int = option(100, "Steps between checkpoints.")
    keep_checkpoint_max: int = option(
        5, "Number of newest checkpoints to keep.", aliases=("num_keep_checkpoint",)
    )

    def check(self) -> None:
        """Raise InputError for values out of range or options that exclude each other."""
        super().check()
        if self.high_only and self.middle_only:
            raise InputError("`high_only` and `middle_only` exclude each other")
        task = self.data_set
        for name, tasks in _TASKS_OF.items():
            value = getattr(self, name)
            # The original's commands for RACE name files, which have no effect.
            if value and task not in tasks and not (task == "race" and name.endswith("_file")):
                raise InputError(f"`{name}`={value}: needs `task_name`={' or '.join(tasks)}")
        if self.submission and not self.do_predict:
            raise InputError("`submission`: needs `do_predict`")

    def input_files(self) -> dict[str, str | None]:
        """As of the base class."""
        files = super().input_files()
        if self.data_set == "json":
            return files
        read = {name: path for name, path in files.items() if name not in self.files.values()}
        return read | {"data_dir": self.data_dir}

    @property
    def data_set(self) -> str:
        """The name of the data set; "json" for JSON lines."""
        return (self.task_name or "race").lower()
