"""Flags of run_squad.py; loads no TensorFlow."""

from __future__ import annotations

import dataclasses

from albert_tf.errors import InputError
from albert_tf.finetuning.finetuning_options import FineTuningOptions
from albert_tf.options import option

HEAD_NAMES = ("span", "conditional")
METRIC_NAMES = ("squad", "cmrc", "characters")


@dataclasses.dataclass(frozen=True, kw_only=True)
class SquadOptions(FineTuningOptions):
    """Flags of run_squad.py; names and defaults of the original's two programs."""

    task_name: str | None = option(
        None,
        "squad (1.1) or squad_v2 (2.0): provides the files that --train_file and --predict_file do "
        "not name, from --data_dir or the Hugging Face Hub.",
    )
    data_dir: str | None = option(
        None,
        "With --task_name: folder with the files of SQuAD, as published or as on the Hub; may be "
        "hf://datasets/ORGANIZATION/NAME.",
    )
    train_file: str | None = option(
        None, "SQuAD file to train on: .json, .parquet, or hf://datasets/ORGANIZATION/NAME/FILE."
    )
    predict_file: str | None = option(
        None, "SQuAD file to predict, and to evaluate on if it contains the answers."
    )
    version_2_with_negative: bool | None = option(
        None, "Whether questions may have no answer (SQuAD 2.0); by default derived from the files."
    )
    squad_head: str = option(
        "auto",
        "span: start and end independently, like the original for 1.1; conditional: the end given "
        "the start, and whether there is an answer, like the original for 2.0; auto: by version.",
        choices=("auto", *HEAD_NAMES),
    )
    answer_metric: str = option(
        "auto",
        "How answers are scored: squad: words, as SQuAD's official script; cmrc: Chinese "
        "characters, as CMRC 2018's; characters: those of any script without spaces; auto: by the "
        "scripts of the answers.",
        choices=("auto", *METRIC_NAMES),
    )
    max_seq_length: int = option(
        384, "Length of a question with a window of its context, in tokens."
    )
    doc_stride: int = option(
        128, "Tokens from the start of one window of a long context to the start of the next."
    )
    max_query_length: int = option(64, "Maximum tokens of a question; longer ones are truncated.")

    num_train_epochs: float = option(3.0, "Epochs over the questions; ignored with --train_step.")
    train_step: int = option(0, "Training steps in total; 0: from --num_train_epochs.")
    warmup_proportion: float = option(
        0.1, "Share of the steps used for warm-up; ignored with --warmup_step."
    )
    warmup_step: int = option(-1, "Steps of linear warm-up; -1: from --warmup_proportion.")
    dropout_prob: float | None = option(None, "The original's name for --classifier_dropout.")

    n_best_size: int = option(20, "Answers per question in nbest_predictions.json.")
    max_answer_length: int = option(30, "Maximum tokens in an answer.")
    start_n_top: int = option(5, "Starts that the conditional head considers.")
    end_n_top: int = option(5, "Ends that it considers for each start.")
    null_score_diff_threshold: float | None = option(
        None,
        "Null score above which a question has no answer; by default the threshold with the best "
        "F1 in --do_eval, or in the last evaluation of the model in the folder.",
    )

    train_feature_file: str | None = option(None, "Ignored: features are computed in memory.")
    predict_feature_file: str | None = option(None, "Ignored: features are computed in memory.")
    predict_feature_left_file: str | None = option(None, "Ignored: as above.")

    def check(self) -> None:
        """Raises InputError for values out of range or options that exclude each other."""
        if not 0 <= self.warmup_proportion <= 1:
            raise InputError(f"`warmup_proportion`={self.warmup_proportion}: must be in [0, 1]")
        if self.num_train_epochs <= 0:
            raise InputError(f"`num_train_epochs`={self.num_train_epochs}: must be above 0")
        for name in ("doc_stride", "max_query_length", "n_best_size", "max_answer_length"):
            self._check_minimum(name, 1)
        for name in ("start_n_top", "end_n_top"):
            self._check_minimum(name, 1)
            if getattr(self, name) > self.max_seq_length:
                raise InputError(
                    f"`{name}`={getattr(self, name)}: must be at most `max_seq_length`="
                    f"{self.max_seq_length}"
                )
        if self.max_seq_length <= self.max_query_length + 3:
            raise InputError(
                f"`max_seq_length`={self.max_seq_length}: must exceed `max_query_length`="
                f"{self.max_query_length} + 3, or no token of the context fits"
            )
        # Steps that `resolved` will compute have no value to check yet.
        steps = dataclasses.replace(
            self, train_step=self.train_step or 1, warmup_step=max(self.warmup_step, 0)
        )
        super(SquadOptions, steps).check()
        if self.data_dir and not self.task_name:
            raise InputError(
                f"`data_dir`={self.data_dir}: needs `task_name`, or name files with `train_file` "
                "and `predict_file`"
            )

    def resolved(self, train_questions: int) -> SquadOptions:
        """The options with numbers of steps computed from epochs and proportions.

        Args:
            train_questions: number of questions in the training file; 0 without training.
        """
        steps = self.train_step
        if not steps:
            batch = max(self.train_batch_size, 1)
            steps = max(1, int(train_questions / batch * self.num_train_epochs))
        warmup = self.warmup_step
        if warmup < 0:
            warmup = int(steps * self.warmup_proportion)
        dropout = self.classifier_dropout if self.dropout_prob is None else self.dropout_prob
        return dataclasses.replace(
            self, train_step=steps, warmup_step=warmup, classifier_dropout=dropout
        )
