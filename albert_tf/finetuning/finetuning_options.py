"""Options of the fine-tuning programs; loads no TensorFlow."""

from __future__ import annotations

import dataclasses
import itertools

from albert_tf.errors import InputError
from albert_tf.options import option
from albert_tf.training.options import TrainingOptions

# Where --predict_file or --predict_output stand for the standard streams.
STANDARD_STREAM = "-"

# The comparison of several runs, in the folder of all of them.
SEEDS_FILE = "seeds.json"


@dataclasses.dataclass(frozen=True, kw_only=True)
class FineTuningOptions(TrainingOptions):
    """What the fine-tuning programs have in common; names are the original's where it has them."""

    albert_config_file: str | None = option(
        None,
        "The model's albert_config.json; without it, the config in --output_dir, else the one "
        "beside --init_checkpoint.",
    )
    albert_hub_module_handle: str | None = option(
        None,
        "Folder of a TF-Hub module, or of an export with encoder/ in it: weights to start from, "
        "the model's config and, without --spm_model_file or with --spm_model_file=from_tf_hub, "
        "its vocabulary.",
    )
    spm_model_file: str | None = option(
        None,
        "SentencePiece model of the vocabulary; without it, the vocabulary in --output_dir, else "
        "the one beside --init_checkpoint.",
    )
    vocab_file: str | None = option(
        None, "WordPiece vocabulary (.txt); counts where there is no --spm_model_file."
    )
    do_lower_case: bool | None = option(
        None,
        "Whether to lower-case, as the vocabulary was trained; without it, as is noted beside the "
        "vocabulary or weights, else yes.",
    )
    albert_dropout: float | None = option(
        None,
        "Dropout of hidden states and attention, in place of both that the config has; "
        "--classifier_dropout is another.",
    )
    cached_dir: str | None = option(
        None,
        "Folder in which examples are kept as token ids, by the content of file, vocabulary and "
        "settings, to be read again by later runs.",
    )

    do_predict: bool = option(False, "Whether to write predictions.")
    predict_batch_size: int = option(8, "Examples in a prediction step, over all devices.")
    predict_output: str = option(
        STANDARD_STREAM,
        "With --predict_file=-, where results go as they come: a file, or - for standard output.",
    )
    classifier_dropout: float = option(0.1, "Dropout before the task's head, in training.")

    train_batch_size: int = option(32, "Examples in a training step, over all devices.")
    eval_batch_size: int = option(8, "Examples in an evaluation step, over all devices.")
    pad_to_max_length: bool = option(
        False,
        "Fill every batch up to --max_seq_length and sort nothing by length, as on TPU always.",
    )
    optimizer: str = option("adamw", "adamw or lamb.")
    learning_rate: float = option(5e-5, "Peak learning rate.")
    train_step: int = option(1000, "Steps in all, those before a restart included.")
    warmup_step: int = option(0, "Steps of linear warm-up.")
    save_checkpoints_steps: int = option(1000, "Steps between checkpoints.")

    eval_every_steps: int = option(
        0,
        "Steps between evaluations in the course of training, the best checkpoint of which is kept "
        "in OUTPUT_DIR/best; 0: none.",
    )
    early_stopping_evaluations: int = option(
        0, "With --eval_every_steps, evaluations without a better one after which training ends."
    )
    eval_checkpoints: str = option(
        "auto",
        "The checkpoint that is evaluated and predicts: newest; best, that of --eval_every_steps; "
        "all, the best of all that are in OUTPUT_DIR; auto: best where there is one, else newest.",
        choices=("auto", "newest", "best", "all"),
    )
    seeds: int = option(
        1, "Runs with --random_seed, the next one and so on, each in a folder of OUTPUT_DIR."
    )
    learning_rates: tuple[str, ...] = option(
        (), "Several learning rates, each tried in a run of its own."
    )
    train_batch_sizes: tuple[str, ...] = option(
        (), "Several training batch sizes, each tried with each learning rate."
    )

    @property
    def num_train_steps(self) -> int:
        return self.train_step

    @property
    def num_warmup_steps(self) -> int:
        return self.warmup_step

    @property
    def streams(self) -> bool:
        """Whether texts are read from standard input, and predicted as they come."""
        return self.do_predict and getattr(self, "predict_file", None) == STANDARD_STREAM

    def check(self) -> None:
        """Raises InputError for values out of range or flags that do not go together."""
        super().check()
        for name, minimum in (
            ("predict_batch_size", 1),
            ("seeds", 1),
            ("eval_every_steps", 0),
            ("early_stopping_evaluations", 0),
        ):
            self._check_minimum(name, minimum)
        for name in ("classifier_dropout", "albert_dropout"):
            value = getattr(self, name)
            if value is not None and not 0 <= value < 1:
                raise InputError(f"--{name}={value}: must be at least 0 and below 1")
        if not (self.do_train or self.do_eval or self.do_predict):
            raise InputError("nothing to do: give --do_train, --do_eval or --do_predict")
        if self.early_stopping_evaluations and not self.eval_every_steps:
            raise InputError(
                f"--early_stopping_evaluations={self.early_stopping_evaluations}: "
                "--eval_every_steps is needed too"
            )
        if self.eval_checkpoints == "all" and not self.do_eval:
            raise InputError("--eval_checkpoints=all: needs --do_eval, which compares them")
        if self.predict_output != STANDARD_STREAM and not self.streams:
            raise InputError(
                f"--predict_output={self.predict_output}: goes with --do_predict and "
                "--predict_file=-; other predictions are files in --output_dir"
            )
        variants = self.variants()
        if len(variants) > 1 and not self.do_eval:
            flag = self._several()
            raise InputError(f"{flag}: needs --do_eval, by whose results runs are compared")
        for variant in variants if len(variants) > 1 else ():
            variant.check()

    def _several(self) -> str:
        """The flag that asks for several runs."""
        for name in ("learning_rates", "train_batch_sizes"):
            if values := getattr(self, name):
                return f"--{name}={','.join(values)}"
        return f"--seeds={self.seeds}"

    def variants(self) -> list[FineTuningOptions]:
        """The options of each run that these ask for, in folders of their own if it is several.

        Raises:
            InputError: --learning_rates or --train_batch_sizes holds something else than numbers.
        """
        rates = _numbers("learning_rates", self.learning_rates, float) or [self.learning_rate]
        sizes = _numbers("train_batch_sizes", self.train_batch_sizes, int)
        sizes = sizes or [self.train_batch_size]
        seeds = range(self.random_seed, self.random_seed + self.seeds)
        runs = []
        for rate, size, seed in itertools.product(rates, sizes, seeds):
            varied = (
                ("learning_rate", rate, len(rates)),
                ("train_batch_size", size, len(sizes)),
                ("seed", seed, self.seeds),
            )
            names = [f"{name}-{value:g}" for name, value, count in varied[:1] if count > 1]
            names += [f"{name}-{value}" for name, value, count in varied[1:] if count > 1]
            runs.append(
                dataclasses.replace(
                    self,
                    output_dir="/".join([self.output_dir, *(["_".join(names)] if names else [])]),
                    learning_rate=rate,
                    train_batch_size=size,
                    random_seed=seed,
                    seeds=1,
                    learning_rates=(),
                    train_batch_sizes=(),
                )
            )
        return runs

    def splits(self) -> tuple[str, ...]:
        """The splits whose examples are asked for."""
        asked = {
            "train": self.do_train,
            "eval": self.do_eval or (self.do_train and self.eval_every_steps > 0),
            "predict": self.do_predict and not self.streams,
        }
        return tuple(split for split, wanted in asked.items() if wanted)


def _numbers(flag: str, values: tuple[str, ...], kind: type) -> list:
    """The different numbers of a flag."""
    try:
        numbers = [kind(value) for value in values]
    except ValueError:
        raise InputError(
            f"--{flag}={','.join(values)}: must be numbers separated by commas"
        ) from None
    if len(set(numbers)) < len(numbers):
        raise InputError(f"--{flag}={','.join(values)}: the same number twice")
    return numbers


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
    predict_file: str | None = option(
        None,
        "Table to predict, without a label column if need be; - for lines of standard input, a "
        "text each, or two with a tab between.",
    )
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
