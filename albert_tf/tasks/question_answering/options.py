"""Flags of run_squad.py, and the data sets that it knows by name; loads no TensorFlow."""

import dataclasses
from typing import ClassVar

from albert_tf import original_flags
from albert_tf.errors import InputError
from albert_tf.files import Positive
from albert_tf.finetuning.finetuning_options import FineTuningOptions, inherited_option
from albert_tf.finetuning.trained_settings import TaskSettings
from albert_tf.hub.huggingface import PREFIX, PublishedSet
from albert_tf.options import option
from albert_tf.tasks.question_answering import KIND

# In results: the null score above which there is no answer.
(THRESHOLD,) = KIND.kept_results

HEAD_NAMES = ("span", "conditional")
METRIC_NAMES = ("squad", "cmrc", "characters")


def _squad(hub: str, train: tuple[str, ...], dev: tuple[str, ...]) -> PublishedSet:
    return PublishedSet({"train": train, "eval": dev, "predict": dev}, hub)


_VERSION_1 = _squad(
    f"{PREFIX}rajpurkar/squad",
    ("plain_text/train-*.parquet", "train-v1.1.json"),
    ("plain_text/validation-*.parquet", "dev-v1.1.json"),
)
_VERSION_2 = _squad(
    f"{PREFIX}rajpurkar/squad_v2",
    ("squad_v2/train-*.parquet", "train-v2.0.json"),
    ("squad_v2/validation-*.parquet", "dev-v2.0.json"),
)

SQUAD_SETS = {"squad": _VERSION_1, "squad_v1": _VERSION_1, "squad_v2": _VERSION_2}


@dataclasses.dataclass(frozen=True)
class QuestionAnsweringSettings(TaskSettings):
    """How a question-answering model reads texts and chooses answers.

    Attributes:
        version_2_with_negative: whether questions may have no answer.
        max_query_length: maximum length of a question in tokens; longer ones are truncated.
        doc_stride: tokens between the starts of consecutive windows of a long context.
        max_answer_length: maximum length of an answer in tokens.
        start_n_top: number of start positions that the conditional head considers.
        end_n_top: number of end positions for each of them.
        null_score_diff_threshold: null score above which there is no answer; None for the value
            in the results next to the weights.
    """

    default_length: ClassVar[int] = 384
    part: ClassVar[str] = "max_query_length"

    version_2_with_negative: bool = False
    max_query_length: Positive = 64
    doc_stride: Positive = 128
    max_answer_length: Positive = 30
    start_n_top: Positive = 5
    end_n_top: Positive = 5
    null_score_diff_threshold: float | None = None

    @property
    def min_length(self) -> int:
        """Return the smallest `max_seq_length` with room for one token of the context."""
        return self.max_query_length + 4


@dataclasses.dataclass(frozen=True, kw_only=True)
class QuestionAnsweringOptions(FineTuningOptions):
    """Flags of run_squad.py; names and defaults of the original's two programs."""

    settings_file: ClassVar[str] = KIND.settings_file
    original = original_flags.SQUAD
    lengths = ("max_seq_length", "max_query_length", "doc_stride")
    files = {"train": "train_file", "eval": "predict_file", "predict": "predict_file"}

    task_name: str | None = option(
        None,
        "squad (1.1) or squad_v2 (2.0): provides the files that --train_file and --predict_file do "
        "not name, from --data_dir or the Hugging Face Hub.",
        group="Data",
        common=True,
    )
    data_dir: str | None = option(
        None,
        "With --task_name: folder with the files of SQuAD, as published or as on the Hub; may be "
        "hf://datasets/ORGANIZATION/NAME.",
        common=True,
        needs=("task_name",),
    )
    train_file: str | None = option(
        None,
        "SQuAD file to train on: .json, .parquet, or hf://datasets/ORGANIZATION/NAME/FILE.",
        common=True,
    )
    predict_file: str | None = option(
        None, "SQuAD file to predict, and to evaluate on if it contains the answers.", common=True
    )
    version_2_with_negative: bool | None = option(
        None,
        "Whether questions may have no answer (SQuAD 2.0); by default as in the training file, or "
        "as the model in --output_dir was trained.",
        common=True,
    )
    squad_head: str = option(
        "auto",
        "span: start and end independently, like the original for 1.1; conditional: the end given "
        "the start, and whether there is an answer, like the original for 2.0; auto: by version.",
        choices=("auto", *HEAD_NAMES),
        group="Model",
    )
    answer_metric: str = option(
        "auto",
        "How answers are scored: squad: words, as SQuAD's official script; cmrc: Chinese "
        "characters, as CMRC 2018's; characters: those of any script without spaces; auto: by the "
        "scripts of the answers.",
        choices=("auto", *METRIC_NAMES),
        group="Evaluation",
    )
    max_seq_length: int = inherited_option(
        QuestionAnsweringSettings.default_length,
        "Length of a question with a window of its context, in tokens, at most the model's "
        "max_position_embeddings",
    )
    doc_stride: int = inherited_option(
        QuestionAnsweringSettings.doc_stride,
        "Tokens from the start of one window of a long context to the start of the next",
        minimum=1,
        group="Data",
    )
    max_query_length: int = inherited_option(
        QuestionAnsweringSettings.max_query_length,
        "Maximum tokens of a question, which loses its end",
        minimum=1,
    )

    num_train_epochs: float = option(
        3.0, "Epochs over the questions; ignored with --train_step.", above=0, maximum=1_000_000
    )
    train_step: int = option(0, "Training steps in total; 0: from --num_train_epochs.", minimum=0)
    warmup_proportion: float = option(
        0.1, "Share of the steps used for warm-up; ignored with --warmup_step."
    )
    warmup_step: int = option(
        -1, "Steps of linear warm-up; -1: from --warmup_proportion.", minimum=-1
    )
    classifier_dropout: float = option(
        0.1, "Dropout before the task's head, in training.", aliases=("dropout_prob",)
    )

    n_best_size: int = option(
        20, "Answers per question in nbest_predictions.json.", minimum=1, group="Evaluation"
    )
    max_answer_length: int = inherited_option(
        QuestionAnsweringSettings.max_answer_length, "Maximum tokens in an answer", minimum=1
    )
    start_n_top: int = inherited_option(
        QuestionAnsweringSettings.start_n_top,
        "Starts that the conditional head considers",
        minimum=1,
    )
    end_n_top: int = inherited_option(
        QuestionAnsweringSettings.end_n_top, "Ends that it considers for each start", minimum=1
    )
    null_score_diff_threshold: float | None = option(
        None,
        "Null score above which a question has no answer; by default the threshold with the best "
        "F1 in --do_eval, or in the last evaluation of the model in the folder.",
    )

    def check(self) -> None:
        """Raise InputError for values out of range or options that exclude each other."""
        super().check()
        full = self.with_defaults()
        length = full.max_seq_length
        for name in ("start_n_top", "end_n_top"):
            if (most := getattr(full, name)) > length:
                raise InputError(f"`{name}`={most}: must be at most `max_seq_length`={length}")

    def split_file(self, split: str) -> str:
        """Return the file of a split: the one that is named, else the one of `task_name`.

        Raises:
            InputError: If neither is given, there is no such data set, or it lacks the file.
        """
        argument = self.files[split]
        if path := getattr(self, argument):
            return path
        if self.task_name is None:
            raise InputError(
                f"`{argument}`: `do_{split}` needs a file, or `task_name`={' or '.join(SQUAD_SETS)}"
            )
        squad_set = SQUAD_SETS.get(self.task_name.lower().replace("-", "_"))
        if squad_set is None:
            raise InputError(
                f"`task_name`={self.task_name}: must be one of {', '.join(SQUAD_SETS)}"
            )
        return squad_set.find(split, self.data_dir)[0]

    def resolved(self, train_examples: int) -> "QuestionAnsweringOptions":
        """As of the base class; but `train_step` and `warmup_step` win where they are given."""
        steps = self.train_step
        if not steps:
            share = train_examples / max(self.train_batch_size, 1)
            steps = max(1, int(share * self.num_train_epochs))
        warmup = self.warmup_step
        if warmup < 0:
            warmup = int(steps * self.warmup_proportion)
        return dataclasses.replace(self, train_step=steps, warmup_step=warmup)
