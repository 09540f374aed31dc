"""Fine-tuning on any kind of task: train, evaluate, predict, report."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import gc
import logging
import os
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import keras

from albert_tf.config import CONFIG_FILE, AlbertConfig
from albert_tf.engines.base import Engine
from albert_tf.errors import InputError
from albert_tf.files import make_folder
from albert_tf.finetuning.checkpoint_scores import compare_checkpoints
from albert_tf.finetuning.finetuning_options import STANDARD_STREAM, FineTuningOptions
from albert_tf.finetuning.run_comparison import (
    checkpoint_of,
    compare_runs,
    data_key,
    finish,
    finished_record,
)
from albert_tf.finetuning.run_report import write_report
from albert_tf.finetuning.sources import (
    companion_files,
    find_config,
    find_tokenizer,
    with_hub_module,
)
from albert_tf.finetuning.streaming import predict_stream
from albert_tf.finetuning.task import ExampleSet, FineTuningTask, Outputs
from albert_tf.tokenizers import Tokenizer
from albert_tf.training.evaluation import BEST_FOLDER, BestCheckpoint, PeriodicEvaluation
from albert_tf.training.initial_weights import with_local_weights
from albert_tf.training.loop import predict
from albert_tf.training.run import (
    find_trained,
    micro_batches,
    prepare,
    restore_trained,
    train_model,
    trained_step,
    training_folder,
    write_description,
    write_results,
)

logger = logging.getLogger(__name__)

# What programs write to `output_dir`, besides checkpoints and what describes the model.
_RESULTS = re.compile(
    r"(predictions|nbest_predictions|null_odds|test_results|eval_results|checkpoint_scores|grid|"
    r"metrics|evaluations|seeds|finished|report|predict_results)\b.*"
)


def fine_tune(
    options: FineTuningOptions, create_task: Callable[[Any, Tokenizer], FineTuningTask]
) -> None:
    """Trains, evaluates and predicts as specified by the options; all results go to `output_dir`.

    Leaves checkpoints, `albert_config.json`, the vocabulary, the task's companion files,
    `metrics.jsonl` and TensorBoard events; with `do_eval` `eval_results.txt`; with `do_predict`
    the task's predictions; and with either a report. Several runs (`seeds`, `learning_rates`,
    `train_batch_sizes`) leave these in folders of their own, and a comparison.

    Args:
        options: of the program.
        create_task: the kind of task: a subclass of `FineTuningTask`.

    Raises:
        InputError: an argument or file is invalid.
    """
    options.check()
    _check_inputs(options)
    with _standard_output_for_predictions(options):
        options = with_local_weights(with_hub_module(options))
        config = find_config(options)
        tokenizer = find_tokenizer(options)
        config.check_vocabulary(tokenizer.vocab_size, tokenizer.path)
        task = create_task(options, tokenizer)
        if options.streams and not task.reads_standard_input:
            raise InputError(f"`predict_file`={STANDARD_STREAM}: this program reads files only")
        sets = read_sets(task)
        options = task.options
        config, engine = prepare(options, config)
        engine.per_replica("predict_batch_size", options.predict_batch_size)
        variants = options.variants()
        for variant in variants:
            micro_batches(variant, engine)
        if engine.workers.count > 1 and (len(variants) > 1 or options.streams):
            raise InputError(
                "`strategy`=multi_worker: several runs, and predictions of standard input, need a "
                "single machine"
            )
        context = RunContext(task, sets, config, engine, companion_files(tokenizer))
        with training_folder(options, engine):
            if len(variants) > 1:
                run = _run_all(options, variants, context)
            else:
                run = _train_and_choose(variants[0], context)
            run.finish(options)


def _check_inputs(options: FineTuningOptions) -> None:
    """Raises InputError if a file to be read is one that the results would replace."""
    for field in dataclasses.fields(options):
        path = getattr(options, field.name)
        if not field.name.endswith("_file") or not path or path == STANDARD_STREAM:
            continue
        folder, name = os.path.split(os.path.realpath(path))
        if folder == os.path.realpath(options.output_dir) and _RESULTS.fullmatch(name):
            raise InputError(
                f"`{field.name}`={path}: is in `output_dir`, under a name of results, which would "
                "replace it; move it or choose another `output_dir`"
            )


def read_sets(task: FineTuningTask) -> list[ExampleSet]:
    """Reads and encodes every split that the task's options ask for, and reports the sizes."""
    read = {split: task.read(split) for split in task.options.splits()}
    sets = [
        ExampleSet(split, name, examples, task.encode(split, examples))
        for split, by_name in read.items()
        for name, examples in by_name.items()
    ]
    for each in sets:
        truncated = each.features.tokens_cut
        note = ""
        if count := int((truncated > 0).sum()):
            note = (
                f"; {count:,} truncated to {task.options.max_seq_length} tokens "
                f"({truncated.sum():,} tokens dropped)"
            )
        title = f"{each.split} {each.name}".strip()
        logger.info("%s: %s examples%s", title, f"{len(each.features):,}", note)
    return sets


@contextlib.contextmanager
def _standard_output_for_predictions(options: FineTuningOptions) -> Iterator[None]:
    """Sends messages to standard error while predictions go to standard output."""
    if not (options.streams and options.predict_output == STANDARD_STREAM):
        yield
        return
    with contextlib.redirect_stdout(sys.stderr):
        yield


class RunContext(NamedTuple):
    """What the runs of one command share.

    Attributes:
        task: what is learned.
        sets: its examples.
        config: shape of the model.
        engine: where it runs.
        files: file name -> content that goes next to the checkpoints, besides the config and the
            task's own companion files.
    """

    task: FineTuningTask
    sets: list[ExampleSet]
    config: AlbertConfig
    engine: Engine
    files: dict[str, str | bytes]

    def of_split(self, split: str) -> list[ExampleSet]:
        """The sets of a split."""
        return [examples for examples in self.sets if examples.split == split]

    @property
    def description(self) -> dict[str, str | bytes]:
        """All files that go next to the checkpoints, except the model's config."""
        return {**self.files, **self.task.companion_files()}


class Evaluation(NamedTuple):
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
        self.options = options
        self.context = context
        self.task = context.task
        self.step = 0
        self.checkpoint = ""
        self._evaluation: Evaluation | None = None
        self.engine = context.engine
        self.engine.set_random_seed(options.random_seed)
        with self.engine.scope():
            self.model = self.task.build_model(context.config, options.dtype_policy)
        self._predict_step = self.engine.create_prediction_step(self.model, self.task.outputs)
        self._pad = options.pad_to_max_length or self.engine.is_tpu

    def train(self) -> None:
        """Trains or resumes, if the options ask for it."""
        if not self.options.do_train:
            return
        (train,) = self.context.of_split("train")
        options = self.options
        train_model(
            self.engine,
            self.model,
            self.task.objective,
            lambda step: self.engine.memory_training_batches(
                train.features,
                options.max_seq_length,
                options.train_batch_size,
                seed=options.random_seed,
                first_step=step,
                pad_to_max_length=self._pad,
            ),
            options,
            self.task.flops_per_example(self.context.config),
            self.context.description,
            self._periodic_evaluation(),
        )

    @functools.cached_property
    def best(self) -> BestCheckpoint:
        """Keeps the best checkpoint of `output_dir` and the files that go with it."""
        companions = (CONFIG_FILE, *self.context.description)
        return BestCheckpoint(self.engine, self.options.output_dir, self.task.metric, companions)

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
        )

    def choose_checkpoint(self) -> None:
        """Loads the checkpoint that `eval_checkpoints` asks for.

        Raises:
            InputError: there is no such checkpoint.
        """
        choice = self.options.eval_checkpoints
        if choice == "all":
            self.checkpoint, self.step, self._evaluation = compare_checkpoints(
                self.engine, self.options.output_dir, self.task.metric, self._load, self._evaluate
            )
        elif choice == "best" or (choice == "auto" and self.best.current() is not None):
            self.load_best()
        else:
            self._load_newest()

    def _load(self, path: str) -> int:
        self.checkpoint = path
        self.step = restore_trained(self.engine, self.model, self.options.output_dir, path)
        return self.step

    def _load_newest(self) -> None:
        folder = self.options.output_dir
        if self.options.do_train:  # the model has its weights
            self.checkpoint = find_trained(self.engine, folder)
            self.step = trained_step(self.engine, folder)
        else:
            self._load(self.engine.latest_checkpoint(folder) or find_trained(self.engine, folder))

    def load_best(self) -> None:
        """Loads the checkpoint that is kept as the best."""
        best, folder = self.best.current(), self.options.output_dir
        if best is None:
            raise InputError(
                f"`eval_checkpoints`=best: {folder}/{BEST_FOLDER} contains no checkpoint chosen by "
                f"{self.task.metric}; train with `eval_every_steps`"
            )
        self._load(find_trained(self.engine, f"{folder}/{BEST_FOLDER}"))
        logger.info("best checkpoint: step %d, %s %.4f", self.step, best.metric, best.value)

    def _outputs_of(self, examples: ExampleSet, batch_size: int) -> Outputs:
        """What the model computes for all examples, in their order."""
        batches = self.engine.memory_evaluation_batches(
            examples.features,
            self.options.max_seq_length,
            batch_size,
            pad_to_max_length=self._pad,
        )
        return predict(self.engine, self._predict_step, batches)

    def _evaluate(self) -> Evaluation:
        results: dict[str, float] = {}
        collapsed, all_outputs = None, []
        for examples in self.context.of_split("eval"):
            outputs = self._outputs_of(examples, self.options.eval_batch_size)
            results |= self.task.score(examples, outputs)
            collapsed = collapsed or self.task.collapse(outputs)
            all_outputs.append(outputs)
        return Evaluation(results, collapsed, all_outputs)

    @property
    def evaluation(self) -> Evaluation:
        """Of the chosen weights."""
        if self._evaluation is None:
            self._evaluation = self._evaluate()
        return self._evaluation

    def write_results(self) -> None:
        """Prints and writes `eval_results.txt`."""
        evaluation = self.evaluation
        results = {**evaluation.results, "global_step": self.step}
        write_results(self.engine, self.options.output_dir, results)
        if evaluation.collapsed:
            logger.warning("this run has collapsed: %s", evaluation.collapsed)

    def _write_predictions(self, examples: ExampleSet) -> Outputs:
        """Writes the predictions of a set; returns the outputs that they were made from."""
        outputs = self._outputs_of(examples, self.options.predict_batch_size)
        if self.engine.workers.is_chief:
            self.task.write_predictions(self.options.output_dir, examples, outputs)
        return outputs

    def _predict_lines(self, lines: Sequence[str], first: int) -> list[str]:
        """Predictions for lines of standard input; `first` is the number of the first line."""
        parsed = self.task.parse_lines(lines, first)
        examples = ExampleSet("predict", "", parsed, self.task.encode("predict", parsed))
        outputs = self._outputs_of(examples, self.options.predict_batch_size)
        return self.task.decode(examples, outputs)

    def finish(self, options: FineTuningOptions) -> None:
        """Evaluates and predicts with the chosen weights, and writes the report.

        Args:
            options: of the program; those of this run lack the flags for several runs.
        """
        reported: list[tuple[ExampleSet, Outputs]] = []
        if options.do_eval:
            self.write_results()
            evaluated = self.context.of_split("eval")
            reported += zip(evaluated, self.evaluation.outputs, strict=True)
        if options.streams:
            predict_stream(options, self._predict_lines)
        elif options.do_predict:
            for examples in self.context.of_split("predict"):
                reported.append((examples, self._write_predictions(examples)))
        if reported and self.engine.workers.is_chief:
            write_report(options, self.task, self.context.sets, reported)


def _train_and_choose(options: FineTuningOptions, context: RunContext) -> FineTuningRun:
    run = FineTuningRun(options, context)
    run.train()
    run.choose_checkpoint()
    return run


def _run_all(
    options: FineTuningOptions, variants: list[FineTuningOptions], context: RunContext
) -> FineTuningRun:
    """Trains and evaluates every variant that is not finished yet, and compares them.

    Returns:
        The best run as one in `output_dir`, with its checkpoint in `best/` there.
    """
    data, metric = data_key(context.sets), context.task.metric
    records = []
    for number, variant in enumerate(variants, start=1):
        logger.info("run %d of %d: %s", number, len(variants), variant.output_dir)
        record = finished_record(variant, data)
        if record is None:
            make_folder(variant.output_dir, "output_dir")
            run = _train_and_choose(variant, context)
            run.write_results()
            record = finish(variant, data, run.step, run.checkpoint, *run.evaluation[:2])
            del run
            keras.backend.clear_session()  # or the graphs of all runs stay in memory
            gc.collect()
        else:
            logger.info("already finished")
        records.append(record)
    best = compare_runs(options.output_dir, records, metric, options.seeds > 1)
    path = checkpoint_of(context.engine, variants[best], records[best])
    write_description(context.engine, options.output_dir, context.config, context.description)
    run = FineTuningRun(dataclasses.replace(variants[best], output_dir=options.output_dir), context)
    run.best.keep(path, records[best]["results"][metric], records[best]["step"])
    run.load_best()
    return run
