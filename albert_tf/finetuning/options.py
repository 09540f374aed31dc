"""Options of the fine-tuning programs; loads no TensorFlow."""

from __future__ import annotations

import dataclasses

from albert_tf.errors import InputError
from albert_tf.options import option
from albert_tf.training.options import TrainingOptions


@dataclasses.dataclass(frozen=True, kw_only=True)
class FineTuningOptions(TrainingOptions):
    """What the fine-tuning programs have in common; names are the original's where it has them."""

    spm_model_file: str = option(help="SentencePiece model of the vocabulary.")
    do_lower_case: bool = option(True, "Whether to lower-case, as the vocabulary was trained.")

    do_predict: bool = option(False, "Whether to write predictions.")
    predict_batch_size: int = option(8, "Examples in a prediction step, over all devices.")
    classifier_dropout: float = option(0.1, "Dropout before the task's head, in training.")

    train_batch_size: int = option(32, "Examples in a training step, over all devices.")
    eval_batch_size: int = option(8, "Examples in an evaluation step, over all devices.")
    optimizer: str = option("adamw", "adamw or lamb.")
    learning_rate: float = option(5e-5, "Peak learning rate.")
    train_step: int = option(1000, "Steps in all, those before a restart included.")
    warmup_step: int = option(0, "Steps of linear warm-up.")
    save_checkpoints_steps: int = option(1000, "Steps between checkpoints.")

    @property
    def num_train_steps(self) -> int:
        return self.train_step

    @property
    def num_warmup_steps(self) -> int:
        return self.warmup_step

    def check(self) -> None:
        """Raises InputError for values out of range or flags that do not go together."""
        super().check()
        self._check_minimum("predict_batch_size", 1)
        if not 0 <= self.classifier_dropout < 1:
            raise InputError(
                f"--classifier_dropout={self.classifier_dropout}: must be at least 0 and below 1"
            )
        if not (self.do_train or self.do_eval or self.do_predict):
            raise InputError("nothing to do: give --do_train, --do_eval or --do_predict")

    def splits(self) -> tuple[str, ...]:
        """The splits whose examples are asked for."""
        asked = {"train": self.do_train, "eval": self.do_eval, "predict": self.do_predict}
        return tuple(split for split, wanted in asked.items() if wanted)


@dataclasses.dataclass(frozen=True, kw_only=True)
class ClassifierOptions(FineTuningOptions):
    """Flags of run_classifier.py."""

    task_name: str = option("table", "Task: a row of albert_tf/finetuning/tasks.py.")
    train_file: str | None = option(None, "Rows to train on (.tsv, with a header line).")
    eval_file: str | None = option(None, "Rows to evaluate on; same columns.")
    predict_file: str | None = option(None, "Rows to predict; needs no label column.")
    text_column: str = option("text", "Column of the text.")
    text_pair_column: str | None = option(None, "Column of a second text, if there is one.")
    label_column: str = option("label", "Column of the label.")


@dataclasses.dataclass(frozen=True, kw_only=True)
class RaceOptions(FineTuningOptions):
    """Flags of run_race.py; defaults are the original's, which trains and evaluates unasked."""

    task_name: str = option("race", "race, or json for any multiple choice as JSON lines.")
    data_dir: str | None = option(
        None, "Folder of RACE, with RACE/{train,dev,test}/{middle,high}/*.txt in it."
    )
    train_file: str | None = option(None, "With --task_name=json: JSON lines to train on.")
    eval_file: str | None = option(None, "With --task_name=json: JSON lines to evaluate on.")
    predict_file: str | None = option(
        None, "With --task_name=json: JSON lines to predict; they need no answer."
    )
    high_only: bool = option(False, "Only the high school questions of RACE.")
    middle_only: bool = option(False, "Only the middle school questions of RACE.")
    max_qa_length: int = option(
        128, "Tokens of question and choice together; longer ones lose their beginning."
    )

    do_train: bool = option(True, "Whether to train.")
    do_eval: bool = option(True, "Whether to evaluate, after training if both are asked for.")
    classifier_dropout: float = option(
        0.1, "Dropout before the task's head, in training.", aliases=("dropout_prob",)
    )
    learning_rate: float = option(1e-5, "Peak learning rate.")
    train_step: int = option(12000, "Steps in all, those before a restart included.")
    warmup_step: int = option(1000, "Steps of linear warm-up.")
    save_checkpoints_steps: int = option(100, "Steps between checkpoints.")
    keep_checkpoint_max: int = option(
        5, "Newest checkpoints that are kept.", aliases=("num_keep_checkpoint",)
    )

    def check(self) -> None:
        """Raises InputError for values out of range or flags that do not go together."""
        super().check()
        if self.high_only and self.middle_only:
            raise InputError("--high_only and --middle_only exclude each other")
        if self.task_name.lower() == "json":
            for name in ("data_dir", "high_only", "middle_only"):
                if getattr(self, name):
                    raise InputError(
                        f"--{name}={getattr(self, name)}: is for --task_name=race, not for "
                        f"--task_name={self.task_name}, which reads --train_file, --eval_file "
                        "and --predict_file"
                    )
