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

    task_name: str = option(
        "table", "Task: a name of GLUE (CoLA, MNLI, ..., in any case), or table for own files."
    )
    data_dir: str | None = option(None, "Folder of GLUE, with CoLA/train.tsv and so on in it.")
    submission: bool = option(
        False, "Whether --do_predict also writes the file that GLUE's server takes."
    )

    train_file: str | None = option(None, "Table to train on: .tsv, .csv, .jsonl, .parquet, .xlsx.")
    eval_file: str | None = option(None, "Table to evaluate on; same columns.")
    predict_file: str | None = option(None, "Table to predict; needs no label column.")
    class_files: tuple[str, ...] = option(
        (), "Instead of --train_file: a file for each label, which is its name; comma-separated."
    )
    header: bool = option(True, "Whether the first line of the tables names the columns.")
    text_column: str | None = option(
        None, "Column of the text; text, or 1 with --noheader, if not given."
    )
    text_pair_column: str | None = option(None, "Column of a second text, if there is one.")
    label_column: str | None = option(
        None, "Column of the label; label, or 2 with --noheader, if not given."
    )
    id_column: str | None = option(None, "Column of what tells rows apart in predictions.")
    regression: bool = option(False, "Whether the labels are numbers to be predicted.")
    multi_label: bool = option(False, "Whether a row may have several labels, or none.")
    label_separator: str = option(",", "With --multi_label: what stands between labels.")
    test_size: float = option(0.0, "Share of the training rows held out to evaluate on; 0: none.")
    test_seed: int = option(0, "Seed of which rows are held out.")
