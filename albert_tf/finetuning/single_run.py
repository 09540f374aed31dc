"""One run of fine-tuning: a model that is trained, evaluated and used in a folder of its own."""

from __future__ import annotations

import functools
import json
import logging
import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import keras

from albert_tf.checkpoints import step_of
from albert_tf.config import CONFIG_FILE, AlbertConfig
from albert_tf.engines.base import Engine
from albert_tf.engines.steps import PredictionStep
from albert_tf.errors import InputError, arguments_renamed
from albert_tf.files import copy_file, exists, read_json, remove, write_text
from albert_tf.finetuning.finetuning_options import FineTuningOptions
from albert_tf.finetuning.run_comparison import data_key, to_tsv
from albert_tf.finetuning.streaming import predict_stream
from albert_tf.finetuning.task import ExampleSet, FineTuningTask, Outputs
from albert_tf.input.memory_batches import MemoryStream
from albert_tf.interop.adjacent_files import EvaluatedSet, evaluation_data
from albert_tf.interop.file_names import (
    BEST_FOLDER,
    EVALUATION_DATA_FILE,
    FROZEN_FILE,
    RESULTS_FILE,
)
from albert_tf.modeling.model import freeze
from albert_tf.training.evaluation import BestCheckpoint, PeriodicEvaluation, describe, is_better
from albert_tf.training.loop import has_nan, predict, refuse_nan, train
from albert_tf.training.restoring import iter_checkpoints, restore_trained
from albert_tf.training.run import (
    create_training_step,
    restore,
    unless_read_only,
    with_dtype,
    write_results,
)

logger = logging.getLogger(__name__)

CHECKPOINT_SCORES_FILE = "eval_checkpoints.tsv"


class RunContext(NamedTuple):
    """What the runs of one command share.

    Attributes:
        task: what is learned.
        sets: its examples.
        config: shape of the model.
        engine: where it runs.
        files: file name -> content that goes next to the checkpoints, besides the config and the
            task's own files next to the checkpoints.
    """

    task: FineTuningTask
    sets: list[ExampleSet]
    config: AlbertConfig
    engine: Engine
    files: dict[str, str | bytes]

    def of_split(self, split: str) -> list[ExampleSet]:
        """Return the sets of a split."""
        return [examples for examples in self.sets if examples.split == split]

    @property
    def epoch_size(self) -> int:
        """The number of examples in an epoch; 0 without training."""
        return sum(map(self.task.epoch_size, self.of_split("train")))

    @property
    def description(self) -> dict[str, str | bytes]:
        """All files that go next to the checkpoints, except the model's config."""
        files = {**self.files, **self.task.adjacent_files()}
        if self.of_split("eval"):
            files[EVALUATION_DATA_FILE] = self.evaluation_data
        return files

    @property
    def evaluation_data(self) -> str:
        """The content of `evaluation_data.json`."""
        return evaluation_data(
            EvaluatedSet(each.name, self.task.data_name(each), len(each.examples))
            for each in self.of_split("eval")
        )


class Scored(NamedTuple):
    """Results of a model on the sets of the split "eval".

    Attributes:
        results: by name.
        collapsed: see `FineTuningTask.collapse`.
        outputs: of the model, per set.
    """

    results: dict[str, float]
    collapsed: str | None
    outputs: list[Outputs]


class FineTuningRun:
    """A model that is trained, evaluated and used in a folder of its own.

    Args:
        options: of this run.
        context: what it shares with other runs.

    Attributes:
        step: training steps of the chosen weights.
        checkpoint: path of their checkpoint.
    """

    def __init__(self, options: FineTuningOptions, context: RunContext):
        self.options = with_dtype(options, context.engine)
        self.context = context
        self.task = context.task
        self.step = 0
        self.checkpoint = ""
        self._evaluation: Scored | None = None
        self.engine = context.engine
        self.engine.set_random_seed(options.random_seed)
        with self.engine.devices.scope():
            self.model = self.task.build_model(context.config, self.options.dtype_policy)
        self._predict_step = self.engine.prediction_step(
            self.model, self.task.outputs, self.engine.devices
        )
        self._pad = options.pad_to_max_length or self.engine.devices.is_tpu

    def train(self) -> None:
        """Train or resume, if the options ask for it."""
        if not self.options.do_train:
            return
        (examples,) = self.context.of_split("train")
        options, engine = self.options, self.engine
        freeze_variables(engine, self.model, options)
        step = create_training_step(engine, self.model, self.task.objective, options)
        checkpoints = restore(engine, step, options, self._description, data_key([examples]))
        stream = MemoryStream(
            examples.features,
            options.max_seq_length,
            options.train_batch_size,
            options.random_seed,
            self._pad,
        )
        flops = self.task.flops_per_example(self.context.config)
        evaluation = self._periodic_evaluation()
        self.checkpoint = train(engine, step, stream, checkpoints, options, flops, evaluation)

    @property
    def _description(self) -> dict[str, str | bytes]:
        """File name -> content of what goes next to the checkpoints, besides the config."""
        return {**self.context.description, **frozen_file(self.options)}

    @functools.cached_property
    def best(self) -> BestCheckpoint:
        """Keeps the best checkpoint of `output_dir` and the files that go with it."""
        adjacent = (CONFIG_FILE, *self._description)
        evaluated = self.context.of_split("eval")
        examples = data_key(evaluated) if evaluated else ""
        return BestCheckpoint(
            self.engine, self.options.output_dir, self.task.metric, adjacent, examples
        )

    def _periodic_evaluation(self) -> PeriodicEvaluation | None:
        if not self.options.eval_every_steps:
            return None
        return PeriodicEvaluation(
            self.engine.workers,
            lambda: self._evaluate().results,
            self.options.eval_every_steps,
            self.options.output_dir,
            self.best,
            self.options.early_stopping_evaluations,
            self.options,
        )

    def choose_checkpoint(self) -> None:
        """Load the checkpoint that `eval_checkpoints` asks for.

        Raises:
            InputError: If there is no such checkpoint.
        """
        choice = self.options.eval_checkpoints
        if choice == "all":
            self._load_best_of_all()
        elif choice == "best" or (choice == "auto" and self.best.current() is not None):
            self.load_best()
        elif self.options.do_train:  # the model has the newest
            self.step = step_of(self.checkpoint)
        else:
            self._load(self.options.output_dir)

    def _load(self, folder: str, path: str | None = None) -> None:
        self.checkpoint = restore_trained(self.engine, self.model, folder, path)
        self.step = step_of(self.checkpoint)

    def _load_best_of_all(self) -> None:
        """Evaluate all checkpoints of the folder and load the best; write their results."""
        folder, metric = self.options.output_dir, self.task.metric
        found = self.engine.workers.from_chief(lambda: list(self._valid_checkpoints()))
        paths = {step_of(path): path for path in found}
        if not paths:
            raise InputError(f"`output_dir`={folder}: contains no checkpoint to evaluate")
        rows, best = [], None
        found = [paths[step] for step in sorted(paths)]
        for path in iter_checkpoints(self.engine, self.model, folder, found):
            self.checkpoint, self.step = path, (step := step_of(path))
            evaluation = self._evaluate()
            logger.info("%s", describe(step, evaluation.results))
            rows.append({"step": step, **evaluation.results})
            value = evaluation.results[metric]
            if is_better(metric, value, best[1].results[metric] if best else None):
                best = step, evaluation
        if self.engine.workers.is_chief:
            with unless_read_only():
                write_text(f"{folder}/{CHECKPOINT_SCORES_FILE}", to_tsv(rows))
        chosen, self._evaluation = best or (step, evaluation)
        if chosen != step:
            self._load(folder, paths[chosen])
        logger.info("best of %d checkpoints: step %d", len(rows), chosen)

    def _valid_checkpoints(self) -> Iterator[str]:
        """Yield the checkpoints of the folder, that in `best/` first, without damaged ones."""
        for folder in (f"{self.options.output_dir}/{BEST_FOLDER}", self.options.output_dir):
            checkpoints = self.engine.checkpoints_in(folder)
            listed = checkpoints.read_list()
            yield from (path for path in checkpoints.all() if checkpoints.is_valid(path, listed))

    def load_best(self) -> None:
        """Load the checkpoint that is kept as the best."""
        best, folder = self.best.current(), self.options.output_dir
        if best is None:
            raise InputError(
                f"`eval_checkpoints`=best: {folder}/{BEST_FOLDER} contains no checkpoint chosen by "
                f"{self.task.metric}; train with `eval_every_steps`"
            )
        self._load(f"{folder}/{BEST_FOLDER}")
        logger.info("best checkpoint: step %d, %s %.4f", self.step, best.metric, best.value)

    def outputs_of(self, examples: ExampleSet) -> Outputs:
        """Return what the model computes for all examples, in their order.

        Raises:
            InputError: If predictions would be NaN.
        """
        options = self.options
        size = options.eval_batch_size if examples.split == "eval" else options.predict_batch_size
        step = self._predict_step
        outputs = outputs_of(self.engine, step, self.task, examples, size, self._pad)
        if examples.split == "predict":
            refuse_nan(outputs, self.checkpoint)
        return outputs

    def _evaluate(self) -> Scored:
        results: dict[str, float] = {}
        collapsed, all_outputs = None, []
        for examples in self.context.of_split("eval"):
            outputs = self.outputs_of(examples)
            scores = self.task.score(examples, outputs)
            if has_nan(outputs):
                scores, collapsed = dict.fromkeys(scores, math.nan), "its outputs are NaN"
            results |= scores
            collapsed = collapsed or self.task.collapse(examples, outputs)
            all_outputs.append(outputs)
        return Scored(results, collapsed, all_outputs)

    @property
    def evaluation(self) -> Scored:
        """Of the chosen weights."""
        if self._evaluation is None:
            self._evaluation = self._evaluate()
        return self._evaluation

    def write_results(self) -> None:
        """Print and write `eval_results.txt`, and what it is about."""
        evaluation, folder = self.evaluation, self.options.output_dir
        write_results(self.engine, folder, {**evaluation.results, "global_step": self.step})
        if self.engine.workers.is_chief:
            with unless_read_only():
                write_text(f"{folder}/{EVALUATION_DATA_FILE}", self.context.evaluation_data)
                if self.checkpoint.startswith(f"{folder}/{BEST_FOLDER}/"):
                    for name in (RESULTS_FILE, EVALUATION_DATA_FILE):
                        copy_file(f"{folder}/{name}", f"{folder}/{BEST_FOLDER}/{name}")
        if evaluation.collapsed:
            logger.warning("this run has collapsed: %s", evaluation.collapsed)

    def _predict_lines(self, lines: Sequence[str], first: int) -> list[str]:
        """Return predictions for lines of standard input, numbered from `first`."""
        parsed = self.task.parse_lines(lines, first)
        examples = ExampleSet("predict", "", parsed, self.task.encode("predict", parsed))
        return self.task.decode(examples, self.outputs_of(examples))

    def finish(self, options: FineTuningOptions) -> None:
        """Evaluate and predict with the chosen weights, and write the report.

        Args:
            options: of the program; those of this run lack the flags for several runs.
        """
        reported: list[tuple[ExampleSet, Outputs]] = []
        if options.do_eval:
            self.write_results()
            evaluated = self.context.of_split("eval")
            pairs = zip(evaluated, self.evaluation.outputs, strict=True)
            reported += [(examples, each) for examples, each in pairs if not has_nan(each)]
        if options.streams:
            predict_stream(options, self._predict_lines)
        elif options.do_predict:
            for examples in self.context.of_split("predict"):
                reported.append((examples, self.outputs_of(examples)))
                if self.engine.workers.is_chief:
                    self.task.write_predictions(self.options.output_dir, *reported[-1])
        if reported and self.engine.workers.is_chief:
            from albert_tf.finetuning.run_report import write_report  # loads Matplotlib

            with unless_read_only():
                write_report(options, self.task, self.context.sets, reported)


def outputs_of(
    engine: Engine,
    step: PredictionStep,
    task: FineTuningTask,
    examples: ExampleSet,
    batch_size: int,
    pad_to_max_length: bool,
) -> Outputs:
    """Return what a model of a task computes for examples, in their order, with progress.

    Args:
        engine: where it runs.
        step: of the model.
        task: that encoded the examples.
        examples: to predict.
        batch_size: of all devices.
        pad_to_max_length: whether all batches have the maximum length.
    """
    stream = MemoryStream(
        examples.features,
        task.options.max_seq_length,
        batch_size,
        pad_to_max_length=pad_to_max_length,
    )
    return task.per_example(examples, predict(engine, step, stream, shows_progress=True))


def freeze_variables(engine: Engine, model: keras.Model, options: FineTuningOptions) -> None:
    """Freeze the variables of a model that the options name, and log what is left to train.

    Raises:
        InputError: If a pattern matches nothing, or the training run in `output_dir`, which would
            be resumed, froze other variables.
    """
    _check_resumed(engine, options)
    if not options.freeze:
        return
    with arguments_renamed(patterns="freeze"):
        frozen = freeze(model, options.freeze)
    logger.info(
        "trainable parameters: %s of %s; frozen: %d variables",
        *(f"{_count(weights):,}" for weights in (model.trainable_weights, model.weights)),
        len(frozen),
    )


def frozen_file(options: FineTuningOptions) -> dict[str, str]:
    """Return file name -> content of the file of patterns next to the checkpoints, if any."""
    if not options.freeze:
        return {}
    return {FROZEN_FILE: json.dumps(sorted(set(options.freeze))) + "\n"}


def _check_resumed(engine: Engine, options: FineTuningOptions) -> None:
    path = f"{options.output_dir}/{FROZEN_FILE}"
    with engine.workers.synchronized():
        trained = read_json(path, tuple[str, ...]) if exists(path) else ()
        given = tuple(sorted(set(options.freeze)))
        if trained != given and engine.checkpoints_in(options.output_dir).all():
            raise InputError(
                f"`freeze`={','.join(options.freeze)}: {options.output_dir} was trained with "
                f"{','.join(trained) or 'no frozen variables'}; use the same, or another "
                "`output_dir` with its checkpoint as `init_checkpoint`"
            )
    with engine.workers.synchronized():
        if trained and not given and engine.workers.is_chief:
            remove(path)  # of a run that was stopped before its first checkpoint


def _count(weights: list[keras.Variable]) -> int:
    return sum(math.prod(weight.shape) for weight in weights)
