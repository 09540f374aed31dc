"""Pretraining: masked language model and a task on pairs of segments, on TFRecords."""

import contextlib
import dataclasses
import logging
import math
from collections.abc import Iterator

import keras
import numpy as np

from albert_tf.checkpoints import step_of
from albert_tf.config import AlbertConfig
from albert_tf.engines.base import Engine
from albert_tf.engines.early_failures import told_to_others
from albert_tf.errors import InputError
from albert_tf.files import write_files
from albert_tf.hub.names import local_weights
from albert_tf.input.minimal_pairs import read_pairs
from albert_tf.interop.adjacent_files import json_text
from albert_tf.interop.file_names import DATA_FILE, EVALUATION_DATA_FILE
from albert_tf.modeling.losses import PretrainingObjective
from albert_tf.training.evaluation import (
    BestCheckpoint,
    PeriodicEvaluation,
    describe,
    write_checkpoint_evaluations,
)
from albert_tf.training.folder import check_early
from albert_tf.training.health import warnings
from albert_tf.training.held_out import FILLED_FILE, HeldOut, characters_of
from albert_tf.training.loop import evaluate, train
from albert_tf.training.minimal_pairs import PairScorer
from albert_tf.training.options import PretrainingOptions
from albert_tf.training.pretraining_tasks import PretrainingTask
from albert_tf.training.records import (
    ORDER_FILE,
    Records,
    check_order,
    check_vocabularies,
    checked_file,
    untrained_positions,
    with_trained_lengths,
)
from albert_tf.training.restoring import iter_checkpoints, restore_trained, with_local_weights
from albert_tf.training.run import (
    create_training_step,
    prepare,
    restore,
    training_folder,
    unless_read_only,
    with_dtype,
    write_results,
)
from albert_tf.training.teacher import find_teacher, teacher_identity, with_teacher

_logger = logging.getLogger(__name__)


def pretrain(options: PretrainingOptions) -> None:
    """Train and evaluate as specified by the options; all results are in `output_dir`.

    Writes checkpoints, `albert_config.json`, `training_data.json` (the manifests of the files),
    `data_order.json`, the vocabulary, `metrics.jsonl`, TensorBoard events in `train/` and, with
    `do_eval`, `eval_results.txt` and `evaluation_data.json`. Finally, `report.html`.

    Training resumes from the latest checkpoint in `output_dir`, or else starts from
    `init_checkpoint`, or else from random weights (see `restore`).

    Raises:
        InputError: If an option or file is invalid.
    """
    with told_to_others(options):
        check_early(options)
        pretrain_checked(options)


def pretrain_checked(given: PretrainingOptions) -> None:
    """As `pretrain`, after `check_early`, which commands call before they load a framework."""
    # Config, on what devices, in what precision.
    options = with_local_weights(with_trained_lengths(given))
    if options.teacher:
        path = local_weights(options.teacher, argument="teacher")
        options = dataclasses.replace(options, teacher=path)
    config, engine = prepare(options)
    options = with_dtype(options, engine)
    with engine.workers.losses_reported(), engine.workers.synchronized():
        teacher_config = find_teacher(options, config)
    # Data.
    train_records, eval_records = _find_records(options, config, engine)
    task = _first(train_records, eval_records).task
    with training_folder(options, engine):
        # Model.
        with engine.devices.scope():
            model = task.model(config, dtype=options.dtype_policy)
        evaluation = Evaluation(options, engine, model, task, eval_records)
        trained: str | None = None
        if train_records is not None:
            _warn(options, engine, train_records)
            vocabulary = train_records.vocabulary_files() if engine.workers.is_chief else {}
            files = {
                DATA_FILE: json_text(train_records.data_so_far(options.output_dir)),
                ORDER_FILE: json_text(train_records.order(options)),
                **checked_file(train_records, eval_records),
                **vocabulary,
                **evaluation.data_files(),
            }
            periodic = evaluation.during_training(tuple(vocabulary))
            lengths = options.max_seq_length, options.max_predictions_per_seq
            flops = train_records.flops(task, config, lengths)
            # Teacher.
            learner, objective = model, task.objective
            if teacher_config is not None:
                learner, objective = with_teacher(engine, options, model, objective, teacher_config)
                # Without the backward pass, which has twice the operations of the forward pass.
                flops += train_records.flops(task, teacher_config, lengths) / 3
            # Optimizer.
            step = create_training_step(engine, learner, objective, options)
            # Restore.
            data = engine.workers.from_chief(train_records.identity)
            teacher = engine.workers.from_chief(lambda: teacher_identity(options))
            checkpoints = restore(engine, step, options, files, data, teacher)
            # Loop; evaluates and saves.
            stream = train_records.training_stream(options)
            rows = train_records.rows
            trained = train(engine, step, stream, checkpoints, options, flops, periodic, rows)
        # Evaluate.
        if options.do_eval:
            evaluation.of_checkpoints(trained)
        evaluation.write_report(given, trained)


def _warn(options: PretrainingOptions, engine: Engine, records: Records) -> None:
    """Log what may be wrong with the options or with how they have changed."""
    for line in warnings(options, records.rows):
        _logger.warning("%s", line)
    masks = records.masks
    if masks and (note := masks.masking.shortfall(options.max_seq_length)):
        _logger.info("%s", note)
    with engine.workers.synchronized():
        latest = engine.checkpoints_in(options.output_dir).listed()
        check_order(options, records.order(options), latest)
        source = options.output_dir if latest else options.init_checkpoint
        if note := untrained_positions(options, source):
            _logger.info("%s", note)


def _first(*records: Records | None) -> Records:
    return next(each for each in records if each is not None)


def _find_records(
    options: PretrainingOptions, config: AlbertConfig, engine: Engine
) -> tuple[Records | None, Records | None]:
    """Return the files to train and to evaluate on; None where the options ask for neither."""
    train_records = eval_records = None
    with engine.workers.losses_reported():
        if options.do_train:
            train_records = Records.find(engine, options, "input_file", config)
        if options.do_eval or (options.do_train and options.eval_every_steps):
            argument = "eval_input_file" if options.eval_input_file else "input_file"
            eval_records = Records.find(engine, options, argument, config)
        with engine.workers.synchronized():
            is_trained = bool(engine.checkpoints_in(options.output_dir).all())
            if not (options.do_train or is_trained):
                engine.checkpoints_in(options.output_dir).find("output_dir")  # raises the error
            _check_masks(engine, train_records, eval_records)
            check_vocabularies(options, is_trained, train_records, eval_records)
    return train_records, eval_records


def _check_masks(engine: Engine, *records: Records | None) -> None:
    """Raise InputError if masks would have to be drawn on another machine."""
    dynamic = any(each is not None and each.masks for each in records)
    if dynamic and not engine.devices.makes_batches_locally:
        raise InputError(
            "`input_file`: made with --masking=dynamic, whose masks this process draws; a TPU that "
            "is reached by name reads its files itself: run on the TPU VM with `tpu`=local, or use "
            "files made with --masking=static"
        )


@contextlib.contextmanager
def _harmless(work: str) -> Iterator[None]:
    """Turn any error into a warning: a report must not end the run that it is about."""
    try:
        with unless_read_only():
            yield
    except Exception as error:
        message = " ".join(str(error).split())
        _logger.warning("%s was not written: %s: %s", work, type(error).__name__, message)


class Evaluation:
    """Evaluates a model on held-out records, during training and afterwards.

    Records made for another task of the same heads than the model is trained on, such as NSP
    instead of SOP, are evaluated by their own names. They are None without evaluation.
    """

    def __init__(
        self,
        options: PretrainingOptions,
        engine: Engine,
        model: keras.Model,
        task: PretrainingTask,
        records: Records | None,
    ):
        self._options = options
        self._engine = engine
        self._model = model
        self._records = records
        measures = records is not None and task.measured_by(records.task)
        self._task = records.task if records is not None and measures else task
        with engine.workers.losses_reported(), engine.workers.synchronized():
            self._tokenizer = records.tokenizer(options.output_dir) if records else None
        objective = self._task.objective
        if type(objective) is PretrainingObjective and self._tokenizer:
            characters = characters_of(self._tokenizer)
            objective = PretrainingObjective(objective.pair_objective, characters)
        self._step = engine.evaluation_step(model, objective, engine.devices)
        self._pairs = self._find_pairs()
        self._results: dict[str, float] = {}
        self._predictions: dict[str, np.ndarray] = {}
        self._held_out: HeldOut | None = None
        if records is not None:
            stream = records.evaluation_stream(options)
            self._held_out = HeldOut(stream, options.max_eval_steps, options.output_dir)

    def _find_pairs(self) -> PairScorer | None:
        """Return what scores the minimal pairs of the options; None without any."""
        paths, engine, records = self._options.eval_pairs, self._engine, self._records
        if not paths or records is None:
            return None
        with engine.workers.losses_reported(), engine.workers.synchronized():
            if (tokenizer := self._tokenizer) is None or "masked_lm" not in self._task.heads:
                lacks = "has no masked-LM head" if tokenizer else "comes without its vocabulary"
                raise InputError(f"`eval_pairs`={','.join(paths)}: the model {lacks}")
            pairs = read_pairs(paths, "eval_pairs")
        return PairScorer(engine, self._model, tokenizer, pairs, self._options.eval_batch_size)

    def evaluate(self) -> dict[str, float]:
        """Return metrics of the current weights, and their loss."""
        stream = _first(self._records).evaluation_stream(self._options)
        limit = self._options.max_eval_steps
        results, self._predictions = evaluate(self._engine, self._step, stream, limit)
        if results.get("characters_weight"):
            results["bits_per_character"] = results["characters_loss"] / math.log(2)
        results.pop("characters_loss", None)
        loss = sum(results[name] for name in self._task.objective.losses)
        pairs = self._pairs.results() if self._pairs else {}
        self._results = {"loss": loss, **results, **pairs}
        return self._results

    def record(self, step: int) -> None:
        """Keep what the report shows of the evaluation of a step; only the chief does so."""
        if not self._engine.workers.is_chief or self._held_out is None:
            return
        self._results = {**self._results, "global_step": step}
        with _harmless(FILLED_FILE):
            self._held_out.record(step, self._predictions)

    def write_report(self, given: PretrainingOptions, trained: str | None) -> None:
        """Write `report.html`, with the options as `given`; `trained` is as for `of_checkpoints`.

        Only the chief does so.
        """
        if not self._engine.workers.is_chief:
            return
        with _harmless("report.html"):
            from albert_tf.training import pretraining_report  # loads what draws pages

            step = step_of(trained) if trained else int(self._results["global_step"])
            pretraining_report.write_report(
                self._options,
                given,
                self._model,
                self._task,
                step,
                self._held_out,
                self._results,
                BestCheckpoint(self._engine, self._options.output_dir, "loss").recorded(),
            )

    def data_files(self) -> dict[str, str]:
        """Return file name -> content of what names the data to evaluate on; empty without any."""
        if self._records is None:
            return {}
        return {EVALUATION_DATA_FILE: self._records.evaluation_data(self._options)}

    def during_training(self, adjacent: tuple[str, ...]) -> PeriodicEvaluation | None:
        """Return evaluation every `eval_every_steps`, which keeps the best checkpoint.

        Further files of the folder, those named by `adjacent`, go with it.
        """
        options, best = self._options, None
        if not options.eval_every_steps:
            return None
        metric = options.best_checkpoint_metric
        if metric != "none":
            valid = ("loss", *self._task.objective.quantities)
            if metric not in valid:
                raise InputError(
                    f"`best_checkpoint_metric`={metric}: the examples to evaluate on were made "
                    f"with --pair_objective={self._task.name}; must be one of "
                    f"{', '.join((*valid, 'none'))}"
                )
            records = _first(self._records)
            identity = self._engine.workers.from_chief(records.identity)
            identity += f"/{records.evaluated(options)}"
            best = BestCheckpoint(self._engine, options.output_dir, metric, examples=identity)
            best.adjacent += adjacent
        return PeriodicEvaluation(
            self._engine.workers,
            self.evaluate,
            options.eval_every_steps,
            options.output_dir,
            best,
            options=options,
            recorded=self.record,
        )

    def of_checkpoints(self, trained: str | None) -> None:
        """Evaluate the checkpoints that `eval_checkpoints` asks for, and write the results.

        `trained` is the one whose weights the model has after training; None without training.
        """
        options, engine, folder = self._options, self._engine, self._options.output_dir
        every = options.eval_checkpoints == "all"
        if every:
            paths = iter_checkpoints(engine, self._model, folder)
        else:
            paths = iter([trained or restore_trained(engine, self._model, folder)])
        evaluations: dict[int, dict[str, float]] = {}
        for step in map(step_of, paths):
            evaluations[step] = results = self.evaluate()
            with engine.workers.synchronized():
                if every and engine.workers.is_chief:
                    _logger.info("%s", describe(step, results))
                    with unless_read_only():
                        write_checkpoint_evaluations(folder, evaluations)
                self.record(step)
        write_results(engine, folder, {**results, "global_step": step})
        if engine.workers.is_chief:
            with unless_read_only():
                write_files(folder, self.data_files())
