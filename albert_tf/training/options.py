"""Options of the training programs. Imports no framework, so that `--help` is fast."""

from __future__ import annotations

import dataclasses
import re
from typing import TYPE_CHECKING, Any

from albert_tf.config import AlbertConfig
from albert_tf.engines.device_options import DeviceOptions
from albert_tf.errors import InputError
from albert_tf.optimization import OPTIMIZERS, SCHEDULES
from albert_tf.optimization.variables import OF_PIECES
from albert_tf.options import check_limits, option, seed_option
from albert_tf.pair_objectives import PAIR_OBJECTIVES
from albert_tf.training.stages import Stage, find_stages


@dataclasses.dataclass(frozen=True, kw_only=True)
class TrainingOptions(DeviceOptions):
    """How any model is trained, and what is saved.

    Subclasses add `num_train_steps` and `num_warmup_steps`, whose flags the original calls
    differently from program to program.
    """

    if TYPE_CHECKING:

        @property
        def num_train_steps(self) -> int: ...

        @property
        def num_warmup_steps(self) -> int: ...

    albert_config_file: str | None = option(
        None,
        "The model's albert_config.json; by default the config in --output_dir, else the one next "
        "to --init_checkpoint.",
        group="Model",
        common=True,
    )
    output_dir: str = option(help="Folder for checkpoints, logs and results; local or gs://.")
    init_checkpoint: str | None = option(
        None,
        "Initial weights if there is no checkpoint to resume from: a training folder or a "
        "checkpoint, of this project or the original, a Hugging Face folder, a TF-Hub SavedModel, "
        "a Keras .weights.h5 file, or the name of published weights, which are fetched: "
        "albert/albert-base-v2, albert_base_v2, https://tfhub.dev/google/albert_base/1 or others "
        "(docs/weights.md).",
        common=True,
        path="weights",
    )
    init_from_group0: bool = option(
        False, "Initialize every group of layers from group 0 of --init_checkpoint."
    )
    do_train: bool = option(False, "Whether to train.", group="Training", common=True)
    do_eval: bool = option(
        False,
        "Whether to evaluate, after training if both are set.",
        group="Evaluation",
        common=True,
    )
    max_seq_length: int = option(
        512, "Length of an example, in tokens.", minimum=1, group="Data", common=True
    )

    train_batch_size: int = option(
        4096,
        "Examples in a training step, over all devices.",
        minimum=1,
        group="Training",
        common=True,
    )
    eval_batch_size: int = option(
        64, "Examples in an evaluation step, over all devices.", minimum=1, group="Evaluation"
    )
    micro_batch_size: int = option(
        0,
        "Examples that a device processes at a time, summing gradients; 0 for its whole share.",
        minimum=0,
        group="Training",
        common=True,
    )
    remat: bool = option(
        False,
        "Recompute layers in the backward pass instead of storing their activations: much less "
        "memory, about a third more time.",
    )
    optimizer: str = option("lamb", "lamb, adamw or muon.", choices=OPTIMIZERS)
    learning_rate: float = option(0.00176, "Peak learning rate.", minimum=0, common=True)
    schedule: str = option(
        "polynomial",
        "Decay after the warm-up: polynomial (linear with --poly_power=1), wsd (constant until "
        "the last --cooldown_steps, then linear) or cosine.",
        choices=SCHEDULES,
    )
    poly_power: float = option(1.0, "Exponent of the polynomial decay; 1 is linear.", minimum=0)
    cooldown_steps: int = option(
        0, "Steps of linear cool-down at the end of --schedule=wsd; 0 for none.", minimum=0
    )
    final_learning_rate_ratio: float = option(
        0.0, "Final learning rate, as a fraction of the peak.", minimum=0, maximum=1
    )
    start_warmup_step: int = option(0, "Step at which the warm-up starts.", minimum=0)
    weight_decay_rate: float = option(0.01, "Weight decay of kernels and embeddings.", minimum=0)
    bias_correction: bool | None = option(
        None, "Correct the bias of the moments; by default with muon alone, as its class does."
    )
    clip_norm: float = option(
        1.0, "Global norm to which gradients are clipped; 0 for no clipping.", minimum=0
    )
    random_seed: int = seed_option(
        12345, "Seed of initial weights, data order and dropout.", common=True
    )

    max_train_minutes: float = option(
        0.0,
        "Minutes of training after which it ends as at its last step, counted over restarts; 0 for "
        "no limit. Start-up, the first step of each process and batch size (which compiles), "
        "evaluation and saving do not count. The learning rate still follows the number of steps.",
        minimum=0,
    )
    save_checkpoints_steps: int = option(5000, "Steps between checkpoints.", minimum=1, common=True)
    keep_checkpoint_max: int = option(5, "Number of latest checkpoints to keep.", minimum=1)
    keep_checkpoint_every_n_hours: float = option(
        0.0,
        "In addition, keep one checkpoint per this many hours permanently; 0 for none.",
        minimum=0,
    )
    save_steps: tuple[str, ...] = option(
        (),
        "Steps whose checkpoints are saved too and kept permanently, such as 1000,2000,5000, "
        "besides the latest ones.",
    )
    iterations_per_loop: int = option(
        0,
        "Steps per call of the engine and per line of the logs; does not change the weights. 0 "
        "for 1000 on TPU and 10 elsewhere.",
        minimum=0,
        group="Advanced",
    )
    max_nonfinite_steps: int = option(
        10,
        "Number of consecutive steps with a non-finite loss or gradient that ends the run; the "
        "updates of such steps are skipped.",
        minimum=1,
    )
    peak_tflops: float = option(
        0.0,
        "Peak TFLOP/s of one replica's device, to compute its utilization (MFU); 0 to look it up "
        "by the device's name.",
        minimum=0,
    )

    def check(self) -> None:
        """Raise InputError for values out of range or options that contradict each other."""
        check_limits(self)
        defaults = {field.name: field.default for field in dataclasses.fields(self)}
        for schedule, row in SCHEDULES.items():
            for name in row.options.values():
                value = getattr(self, name)
                if schedule != self.schedule and value != defaults[name]:
                    raise InputError(
                        f"`{name}`={value}: is for `schedule`={schedule}, "
                        f"not for `schedule`={self.schedule}"
                    )

    def check_steps(self) -> None:
        """Raise InputError if the cool-down, or a step to save, is beyond the training steps."""
        for step in self.save_steps:
            if not (step.isdecimal() and 1 <= int(step) <= self.num_train_steps):
                raise InputError(
                    f"`save_steps`={','.join(self.save_steps)}: must be steps from 1 to "
                    f"{self.num_train_steps}, the last training step"
                )
        warm = self.start_warmup_step + self.num_warmup_steps
        if self.cooldown_steps and warm + self.cooldown_steps > self.num_train_steps:
            raise InputError(
                f"`cooldown_steps`={self.cooldown_steps}: must be at most "
                f"{max(self.num_train_steps - warm, 0)}, what the warm-up leaves of the "
                f"{self.num_train_steps} training steps"
            )

    @property
    def steps_to_save(self) -> tuple[int, ...]:
        """`save_steps` as numbers, in order."""
        return tuple(sorted(map(int, self.save_steps)))

    @property
    def stages(self) -> tuple[Stage, ...]:
        """The stages of training, in each of which batches have one size."""
        warmup = getattr(self, "batch_size_warmup", ())
        return find_stages(warmup, self.train_batch_size, self.num_train_steps)

    def stage(self, step: int) -> Stage:
        """Return the stage of the step that follows so many steps."""
        return next(stage for stage in self.stages if step < stage.end)

    def schedule_arguments(self) -> dict[str, Any]:
        """Return arguments of the chosen learning-rate schedule, by name."""
        own = SCHEDULES[self.schedule].options
        return {
            "learning_rate": self.learning_rate,
            "num_train_steps": self.num_train_steps,
            "num_warmup_steps": self.num_warmup_steps,
            "start_warmup_step": self.start_warmup_step,
            "final_learning_rate_ratio": self.final_learning_rate_ratio,
            **{argument: getattr(self, name) for argument, name in own.items()},
        }

    def optimizer_arguments(self, config: AlbertConfig) -> dict[str, Any]:
        """Return arguments of the optimizer, besides its schedule, for a model of this config."""
        own = OPTIMIZERS[self.optimizer].options
        arguments = {"weight_decay_rate": "weight_decay_rate", "bias_correction": "bias_correction"}
        given = {name: getattr(self, value) for name, value in {**arguments, **own}.items()}
        return {name: value for name, value in given.items() if value is not None}


@dataclasses.dataclass(frozen=True, kw_only=True)
class PretrainingOptions(TrainingOptions):
    """Flags of run_pretraining.py, with the defaults of the original."""

    input_file: tuple[str, ...] = option(
        (), "TFRecord files or globs to train on.", group="Data", common=True
    )
    eval_input_file: tuple[str, ...] = option(
        (),
        "TFRecord files or globs to evaluate on; by default --input_file, as in the original.",
        group="Evaluation",
        common=True,
    )
    max_seq_length: int = option(
        None,
        "Length of an example, in tokens, as in the TFRecords; by default that of the data of the "
        "model in --output_dir, else 512.",
    )
    max_predictions_per_seq: int = option(
        None,
        "Masked tokens per example, as in the TFRecords; by default that of the data of the model "
        "in --output_dir, else 20.",
        minimum=1,
        group="Data",
        common=True,
    )
    teacher: str | None = option(
        None,
        "Model with the same vocabulary, a BERT or an ALBERT, whose last layer is learned besides "
        "masked tokens: weights as for --init_checkpoint.",
        group="Training",
        path="weights",
    )
    num_train_steps: int = option(
        125000,
        "Total number of steps, with those before a restart.",
        minimum=1,
        group="Training",
        common=True,
    )
    num_warmup_steps: int = option(3125, "Steps of linear warm-up.", minimum=0, common=True)
    batch_size_warmup: tuple[str, ...] = option(
        (),
        "Smaller batches at first: 256:10000,1024:30000 trains on batches of 256 examples up to "
        "step 10,000, then of 1024 up to step 30,000, then of --train_batch_size.",
    )
    train_only: str | None = option(
        None,
        "Part that alone is trained in the first steps: embeddings:2000 trains the embeddings of "
        "pieces, and their output bias, for 2,000 steps, such as those of a new vocabulary.",
    )
    max_eval_steps: int = option(
        100,
        "Maximum number of evaluation steps; 0 for all examples.",
        minimum=0,
        group="Evaluation",
    )
    eval_checkpoints: str = option(
        "newest",
        "Checkpoints of --output_dir that --do_eval evaluates: newest or all.",
        choices=("newest", "all"),
    )
    eval_every_steps: int = option(
        0, "Steps between evaluations during training; 0 for none.", minimum=0, common=True
    )
    eval_pairs: tuple[str, ...] = option(
        (),
        "Files or globs of minimal pairs, whose accuracy evaluations report too: .tsv with a good "
        "and a bad sentence, and maybe a phenomenon, in each line; or .jsonl with sentence_good "
        "and sentence_bad, as BLiMP.",
        path="any",
    )
    best_checkpoint_metric: str = option(
        "loss",
        "With --eval_every_steps, the checkpoint with the best value is kept in OUTPUT_DIR/best.",
        choices=(
            "loss",
            *(
                f"{part}_{quantity}"
                for part in ("masked_lm", *(pair.part for pair in PAIR_OBJECTIVES.values()))
                if part
                for quantity in ("loss", "accuracy")
            ),
            "none",
        ),
    )
    shuffle_buffer_size: int = option(
        10000, "Examples are shuffled as well as by a buffer of this size.", minimum=1, group="Data"
    )

    def check(self) -> None:
        """Raise InputError for values out of range or options that contradict each other."""
        super().check()
        self.check_steps()
        self.stage(0)  # raises the errors of `batch_size_warmup`
        if self.train_only:
            if not re.fullmatch("embeddings:[1-9][0-9]{0,8}", self.train_only):
                raise InputError(f"`train_only`={self.train_only}: must be embeddings:STEPS")
            if not self.init_checkpoint:
                raise InputError(f"`train_only`={self.train_only}: needs `init_checkpoint`")
        if not (self.do_train or self.do_eval):
            raise InputError("nothing to do: set `do_train`, `do_eval` or both")
        if self.do_train and not self.input_file:
            raise InputError("`input_file`: TFRecord files to train on are required")
        if self.do_train and self.eval_every_steps and not self.eval_input_file:
            raise InputError(
                f"`eval_every_steps`={self.eval_every_steps}: requires `eval_input_file`, TFRecord "
                "files that are not trained on"
            )
        if self.eval_pairs and not (self.do_eval or (self.do_train and self.eval_every_steps)):
            raise InputError(
                f"`eval_pairs`={','.join(self.eval_pairs)}: needs `do_eval` or `eval_every_steps`"
            )
        if self.do_eval and not (self.eval_input_file or self.input_file):
            raise InputError("`eval_input_file`: TFRecord files to evaluate on are required")

    def optimizer_arguments(self, config: AlbertConfig) -> dict[str, Any]:
        """Return arguments of the optimizer, with the steps at which weights start to change."""
        arguments = super().optimizer_arguments(config)
        if self.train_only:
            of_pieces = ((pattern, 1.0) for pattern in OF_PIECES)
            arguments["learning_rate_scales"] = (*of_pieces, ("", 1.0, self.steps_of_embeddings))
        return arguments

    @property
    def steps_of_embeddings(self) -> int:
        """How many steps train nothing else."""
        return int(self.train_only.partition(":")[2]) if self.train_only else 0
