"""Options that the fine-tuning programs share; loads no TensorFlow."""

import dataclasses
import itertools
from collections.abc import Mapping
from typing import Any, ClassVar, TypeVar

from albert_tf.config import AlbertConfig
from albert_tf.errors import InputError
from albert_tf.files import check_outputs
from albert_tf.hub.huggingface import local_file
from albert_tf.interop.file_names import SETTINGS_FILE
from albert_tf.options import check_limits, option
from albert_tf.original_flags import OriginalFlag
from albert_tf.training.options import TrainingOptions

# Value of `predict_file` and `predict_output` for the standard streams.
STANDARD_STREAM = "-"

# The original's value of the vocabulary flags for the vocabulary inside the module.
FROM_HUB = "from_tf_hub"

# Of several runs, folds and an ensemble, in their folder: a comparison, what the folds were trained
# on, and a row for each model.
SEEDS_FILE, FOLD_ROWS_FILE, ENSEMBLE_FILE = "seeds.json", "folds.json", "ensemble.tsv"

Options = TypeVar("Options", bound="FineTuningOptions")


def inherited_option(default: Any, help: str, **declared: Any) -> Any:
    """Declare an `option` that a trained folder records, and that is then taken from there.

    The default is its value without such a folder; the text for `--help` is completed.
    """
    otherwise = "" if default is None else f", else {str(default).lower() or 'empty'}"
    text = f"{help}; by default as when the model in --output_dir was trained{otherwise}."
    field = option(None, text, **declared)
    return dataclasses.field(default=None, metadata={**field.metadata, "inherited": default})


@dataclasses.dataclass(frozen=True, kw_only=True)
class FineTuningOptions(TrainingOptions):
    """Options of every fine-tuning program; names match the original where it has them.

    Options in `inherited` are None unless given. `trained_settings.with_trained_settings` takes
    them from the model in `output_dir`, and `with_defaults` completes the others.

    Attributes:
        settings_file: file next to the checkpoints that records the options in `inherited`.
        lengths: those of them that change what a model reads.
        files: split -> option that names its file.
        original: other flags of the original's program; see `albert_tf.options.command`.
    """

    settings_file: ClassVar[str] = SETTINGS_FILE
    lengths: ClassVar[tuple[str, ...]] = ("max_seq_length",)
    files: ClassVar[Mapping[str, str]] = {
        "train": "train_file",
        "eval": "eval_file",
        "predict": "predict_file",
    }
    original: ClassVar[Mapping[str, OriginalFlag]] = {}

    max_seq_length: int = inherited_option(
        512,
        "Length of an example, in tokens, at most the model's max_position_embeddings",
        minimum=3,  # a token between [CLS] and [SEP]
    )
    albert_hub_module_handle: str | None = option(
        None,
        "TF-Hub handle such as https://tfhub.dev/google/albert_base/1, folder of a module, or an "
        "export that contains encoder/: provides the initial "
        "weights, the model's config and, without --spm_model_file or with "
        "--spm_model_file=from_tf_hub, the vocabulary.",
        group="Model",
    )
    spm_model_file: str | None = option(
        None,
        "SentencePiece model of the vocabulary; by default the vocabulary in --output_dir, else "
        "the one next to --init_checkpoint.",
        common=True,
    )
    vocab_file: str | None = option(
        None, "WordPiece vocabulary (.txt); ignored with --spm_model_file."
    )
    do_lower_case: bool | None = option(
        None,
        "Whether to lower-case text, as when the vocabulary was trained; by default as recorded "
        "next to the vocabulary or weights, else true unless the vocabulary has capital letters.",
    )
    albert_dropout: float | None = option(
        None,
        "Dropout of hidden states and attention, instead of the rates in the config; the dropout "
        "before the task's head is --classifier_dropout.",
        minimum=0,
        below=1,
    )
    cached_dir: str | None = option(
        None,
        "Folder that caches encoded examples for later runs, keyed by the content of file, "
        "vocabulary and settings.",
        group="Data",
    )

    do_predict: bool = option(
        False, "Whether to write predictions.", group="Evaluation", common=True
    )
    predict_batch_size: int = option(
        8, "Examples per prediction step, over all devices.", minimum=1
    )
    predict_output: str = option(
        STANDARD_STREAM,
        "With --predict_file=-, where results go: a file, or - for standard output.",
        path="file",
    )
    classifier_dropout: float = option(
        0.1, "Dropout before the task's head, in training.", minimum=0, below=1, group="Model"
    )

    train_batch_size: int = option(32, "Examples per training step, over all devices.")
    eval_batch_size: int = option(8, "Examples per evaluation step, over all devices.")
    pad_to_max_length: bool = option(
        False,
        "Pad every batch to --max_seq_length and do not sort by length; always so on TPU.",
        group="Training",
    )
    optimizer: str = option("adamw", "adamw, lamb or muon.")
    learning_rate: float = option(5e-5, "Peak learning rate.")
    layer_decay: float = option(
        1.0,
        "Layer-wise decay of the learning rate: this to the power of the distance from the head, "
        "which is 1 for the pooler and the last group of layers, then counts groups, and "
        "embeddings are last; 1: the same rate for all.",
        above=0,
        maximum=1,
    )
    freeze: tuple[str, ...] = option(
        (),
        "Variables that training leaves as they are: names with wildcards, separated by commas, "
        "such as bert/embeddings/*.",
    )
    train_step: int = option(
        1000, "Training steps in total, including those before a restart.", minimum=1, common=True
    )
    num_train_epochs: float = option(
        0.0,
        "Epochs over the training examples, instead of --train_step; 0: --train_step decides.",
        minimum=0,
        maximum=1_000_000,
        common=True,
    )
    warmup_step: int = option(0, "Steps of linear warm-up.", minimum=0)
    warmup_proportion: float = option(
        0.0,
        "Share of the steps used for warm-up, instead of --warmup_step; 0: --warmup_step decides.",
        minimum=0,
        maximum=1,
        common=True,
    )
    save_checkpoints_steps: int = option(1000, "Steps between checkpoints.")

    eval_every_steps: int = option(
        0,
        "Steps between evaluations during training; the best checkpoint is kept in "
        "OUTPUT_DIR/best. 0: no evaluation during training.",
        minimum=0,
        group="Evaluation",
        common=True,
    )
    metric_for_best: str | None = option(
        None,
        "Result by which checkpoints and runs are compared, under its name in eval_results.txt; "
        "by default the first metric of the task. Lower is better for losses and MSE.",
    )
    early_stopping_evaluations: int = option(
        0,
        "With --eval_every_steps: stop training after this many evaluations without improvement.",
        minimum=0,
        needs=("eval_every_steps",),
    )
    eval_checkpoints: str = option(
        "auto",
        "Checkpoint to evaluate and predict with: newest; best (from --eval_every_steps); all (the "
        "best of all in OUTPUT_DIR, each evaluated); auto (best if there is one, else newest).",
        choices=("auto", "newest", "best", "all"),
    )
    ensemble: tuple[str, ...] = option(
        (),
        "Folders with trained models of one task, or globs such as out/mrpc/seed-*: --do_eval and "
        "--do_predict average their predictions; results go to --output_dir.",
        path="any",
    )
    seeds: int = option(
        1,
        "Number of runs, with seeds from --random_seed on, each in a folder of OUTPUT_DIR.",
        minimum=1,
        maximum=1000,
        group="Training",
        common=True,
    )
    learning_rates: tuple[str, ...] = option((), "Learning rates to try, each in a run of its own.")
    train_batch_sizes: tuple[str, ...] = option(
        (), "Training batch sizes to try, each with each learning rate."
    )

    @property
    def inherited(self) -> dict[str, Any]:
        """Option -> default, of the options that a trained folder records."""
        fields = dataclasses.fields(self)
        return {f.name: f.metadata["inherited"] for f in fields if "inherited" in f.metadata}

    @property  # type: ignore[misc]
    def num_train_steps(self) -> int:
        return self.train_step

    @property  # type: ignore[misc]
    def num_warmup_steps(self) -> int:
        return self.warmup_step

    @property
    def streams(self) -> bool:
        """Whether texts are read from standard input and predicted as they arrive."""
        return self.do_predict and getattr(self, "predict_file", None) == STANDARD_STREAM

    def check(self) -> None:
        """Raise InputError for values out of range or options that exclude each other."""
        super().check()
        if not (self.do_train or self.do_eval or self.do_predict):
            raise InputError("nothing to do: set `do_train`, `do_eval` or `do_predict`")
        if self.eval_checkpoints == "all" and not self.do_eval:
            raise InputError("`eval_checkpoints`=all: needs `do_eval`, which compares them")
        if self.predict_output != STANDARD_STREAM:
            check_outputs({"predict_output": [self.predict_output]}, {})
        if self.predict_output != STANDARD_STREAM and not self.streams:
            raise InputError(
                f"`predict_output`={self.predict_output}: needs `do_predict` and "
                "`predict_file`=-; other predictions are files in `output_dir`"
            )
        variants = self.variants()
        if len(variants) > 1 and not self.do_eval:
            several = f"`seeds`={self.seeds}"
            for name in ("train_batch_sizes", "learning_rates"):
                if values := getattr(self, name):
                    several = f"`{name}`={','.join(values)}"
            raise InputError(f"{several}: needs `do_eval`, whose results compare the runs")
        for variant in variants:
            check_limits(variant)

    def variants(self) -> "list[FineTuningOptions]":
        """Return the options of each run that these ask for; several runs get folders of their own.

        Raises:
            InputError: If `learning_rates` or `train_batch_sizes` are not distinct numbers, or
                there are not as many seeds.
        """
        if self.random_seed + self.seeds > 2**31:
            raise InputError(
                f"`seeds`={self.seeds}: `random_seed`={self.random_seed} must then be at most "
                f"{2**31 - self.seeds}"
            )
        rates = _numbers("learning_rates", self.learning_rates, float) or [self.learning_rate]
        sizes = _numbers("train_batch_sizes", self.train_batch_sizes, int) or [
            self.train_batch_size
        ]
        seeds = range(self.random_seed, self.random_seed + self.seeds)
        runs = []
        for rate, size, seed in itertools.product(rates, sizes, seeds):
            names = [f"learning_rate-{rate:g}"] if len(rates) > 1 else []
            names += [f"train_batch_size-{size}"] if len(sizes) > 1 else []
            names += [f"seed-{seed}"] if self.seeds > 1 else []
            folder = f"{self.output_dir}/{'_'.join(names)}" if names else self.output_dir
            changes: dict[str, Any] = {
                **{"learning_rate": rate, "train_batch_size": size, "random_seed": seed},
                **{"learning_rates": (), "train_batch_sizes": (), "seeds": 1},
            }
            runs.append(dataclasses.replace(self, output_dir=folder, **changes))
        return runs

    def optimizer_arguments(self, config: AlbertConfig) -> dict[str, Any]:
        """Return arguments of the optimizer, besides its schedule, for a model of this config."""
        from albert_tf.optimization.variables import layer_decay_scales  # loads Keras

        scales = layer_decay_scales(config, self.layer_decay)
        return {**super().optimizer_arguments(config), "learning_rate_scales": scales}

    def recorded(self, values: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return option -> value, of the content of a trained folder's `settings_file`.

        Names that are not in `inherited` are ignored.
        """
        return values

    def with_defaults(self: Options, longest: int | None = None) -> Options:
        """Return the options with defaults for those in `inherited` that are still None.

        That of `max_seq_length` is at most the `longest`, the model's `max_position_embeddings`.
        """
        defaults = dict(self.inherited)
        if longest is not None:
            defaults["max_seq_length"] = min(defaults["max_seq_length"], longest)
        missing = {n: value for n, value in defaults.items() if getattr(self, n) is None}
        return dataclasses.replace(self, **missing)

    def with_local_files(self: Options) -> Options:
        """Return the options with the local copy of each file that is `hf://datasets/...`.

        Raises:
            InputError: If there is no such file, or it cannot be fetched.
        """
        local: dict[str, Any] = {}
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if field.name.endswith("_file") and isinstance(value, str):
                local[field.name] = local_file(value, field.name)
            elif field.name.endswith("_files"):
                local[field.name] = tuple(local_file(path, field.name) for path in value)
        return dataclasses.replace(self, **local)

    def resolved(self: Options, train_examples: int) -> Options:
        """Return the options with numbers of steps computed from epochs and proportions.

        The number of examples to train on is 0 without training.
        """
        steps, warmup = self.train_step, self.warmup_step
        if self.num_train_epochs and train_examples:
            steps = max(1, int(train_examples / self.train_batch_size * self.num_train_epochs))
        if self.warmup_proportion:
            warmup = int(steps * self.warmup_proportion)
        return dataclasses.replace(self, train_step=steps, warmup_step=warmup)

    def input_files(self) -> dict[str, str | None]:
        """Return option -> the file or folder that it names, of those that are going to be read."""
        names = ["spm_model_file", "vocab_file", "init_checkpoint"]
        names += [self.files[split] for split in self.splits()]
        paths = {name: getattr(self, name, None) for name in names}
        return {name: path for name, path in paths.items() if path != FROM_HUB}

    def splits(self) -> tuple[str, ...]:
        """Return the splits whose examples are needed, "train" first."""
        asked = {
            "train": self.do_train,
            "eval": self.do_eval or (self.do_train and self.eval_every_steps > 0),
            "predict": self.do_predict and not self.streams,
        }
        return tuple(split for split, wanted in asked.items() if wanted)


@dataclasses.dataclass(frozen=True, kw_only=True)
class TaughtOptions(FineTuningOptions):
    """Options of programs that train on classes, which a teacher may predict, too."""

    language: str | None = option(
        None,
        "Language of a data set by name that has several, such as de.",
        group="Data",
        needs=("task_name",),
    )
    teacher: str | None = option(
        None,
        "Trained model whose probabilities are learned, besides labels: a training folder of this "
        "program, a folder of Hugging Face or a name on its Hub. Training rows may then lack "
        "labels.",
        group="Training",
        path="weights",
    )
    teacher_temperature: float = option(
        2.0, "Divides the logits of teacher and student in the teacher's part of the loss.", above=0
    )
    teacher_weight: float = option(
        0.5,
        "Weight of the teacher's part of the loss; that of the labels is 1 minus this.",
        minimum=0,
        maximum=1,
    )

    @property
    def taught(self) -> bool:
        """Whether training learns from a teacher, so that rows may lack labels."""
        return bool(self.teacher and self.do_train)

    def input_files(self) -> dict[str, str | None]:
        """As of the base class."""
        return super().input_files() | ({"teacher": self.teacher} if self.taught else {})


def _numbers(name: str, values: tuple[str, ...], kind: type) -> list:
    """Return the numbers of an option, which must be distinct."""
    try:
        numbers = [kind(value) for value in values]
    except ValueError:
        raise InputError(
            f"`{name}`={','.join(values)}: must be numbers separated by commas"
        ) from None
    if len(set(numbers)) < len(numbers):
        raise InputError(f"`{name}`={','.join(values)}: contains the same number twice")
    return numbers
