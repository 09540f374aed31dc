"""One run of fine-tuning: a model that is trained, evaluated and used in a folder of its own."""

import dataclasses
import functools
import json
import logging
import math
from collections.abc import Sequence
from typing import Any, NamedTuple, TypedDict

import keras

from albert_tf import files
from albert_tf.checkpoints import step_of
from albert_tf.config import CONFIG_FILE
from albert_tf.engines.base import Engine
from albert_tf.engines.device_options import DeviceOptions
from albert_tf.engines.steps import PredictionStep
from albert_tf.errors import InputError, arguments_renamed
from albert_tf.finetuning.context import RunContext
from albert_tf.finetuning.finetuning_options import FineTuningOptions
from albert_tf.finetuning.run_report import ResultRow, write_predict_results, write_report
from albert_tf.finetuning.streaming import predict_stream
from albert_tf.finetuning.task import ExampleSet, FineTuningTask, Outputs, data_key
from albert_tf.input.examples import MemoryStream
from albert_tf.interop.file_names import (
    BEST_FOLDER,
    EVALUATION_DATA_FILE,
    FROZEN_FILE,
    RESULTS_FILE,
)
from albert_tf.modeling.model import freeze
from albert_tf.report.sections import Section, to_tsv
from albert_tf.training.evaluation import BestCheckpoint, PeriodicEvaluation, describe, is_better
from albert_tf.training.loop import has_nan, predict, refuse_nan, train
from albert_tf.training.restoring import iter_checkpoints, restore_trained
from albert_tf.training.run import create_training_step, restore, unless_read_only, with_dtype

logger = logging.getLogger(__name__)

CHECKPOINT_SCORES_FILE = "eval_checkpoints.tsv"
# In the folder of one of several runs: that it is finished.
FINISHED_FILE = "finished.json"

# What does not change the results of a run.
_WITHOUT_EFFECT = {
    *("output_dir", "do_predict", "predict_file", "predict_batch_size", "predict_output"),
    *("do_train", "do_eval", "cached_dir", "iterations_per_loop", "peak_tflops"),
    *({field.name for field in dataclasses.fields(DeviceOptions)} - {"dtype", "engine"}),
    # They decide what the examples are, of which there is a hash.
    *("header", "text_column", "text_pair_column", "label_column", "label_separator"),
    *("regression", "multi_label"),
}


class Scored(NamedTuple):
    """Results of a model by name, why it has collapsed, if so, and its outputs for each set."""

    results: dict[str, float]
    collapsed: str | None
    outputs: list[Outputs]


class RunRecord(TypedDict):
    """What `finished.json` contains about a run."""

    folder: str
    learning_rate: float
    train_batch_size: int
    random_seed: int
    step: int
    checkpoint: str
    results: dict[str, float]
    collapsed: str | None
    options: dict[str, Any]
    data: str


class FineTuningRun:
    """A model that is trained, evaluated and used in a folder of its own, by options of its own.

    Attributes:
        step: training steps of the chosen weights.
        checkpoint: path of their checkpoint.
    """

    def __init__(self, options: FineTuningOptions, context: RunContext):
        self.options = with_dtype(options, context.engine)
        self.context, self.task, self.engine = context, context.task, context.engine
        self.step, self.checkpoint = 0, ""
        self.engine.set_random_seed(options.random_seed)
        devices = self.engine.devices
        with devices.scope():
            self.model = self.task.build_model(context.config, self.options.dtype_policy)
        self._predict_step = self.engine.prediction_step(self.model, self.task.outputs, devices)
        self._pad = options.pad_to_max_length or devices.is_tpu

    def start(self) -> "FineTuningRun":
        """Train or resume, if the options ask for it, and load the checkpoint to evaluate.

        Raises:
            InputError: If `eval_checkpoints` names a checkpoint that does not exist.
        """
        if self.options.do_train:
            files.make_folder(self.options.output_dir, "output_dir")
            self.train()
        choice = self.options.eval_checkpoints
        if choice == "all":
            self._load_best_of_all()
        elif choice == "best" or (choice == "auto" and self.best.current() is not None):
            self.load_best()
        elif self.options.do_train:  # the model has the newest
            self.step = step_of(self.checkpoint)
        else:
            self._load(self.options.output_dir)
        return self

    def train(self) -> None:
        """Train or resume."""
        (examples,) = self.context.of_split("train")
        options, engine, task = self.options, self.engine, self.task
        freeze_variables(engine, self.model, options)
        step = create_training_step(engine, self.model, task.objective, options)
        description = {**self.context.description, **frozen_file(options)}
        checkpoints = restore(engine, step, options, description, data_key([examples]))
        length, size = options.max_seq_length, options.train_batch_size
        stream = MemoryStream(examples.features, length, size, options.random_seed, self._pad)
        evaluation = None
        if options.eval_every_steps:
            evaluation = PeriodicEvaluation(
                engine.workers,
                lambda: self._evaluate().results,
                options.eval_every_steps,
                options.output_dir,
                self.best,
                options.early_stopping_evaluations,
                options,
            )
        flops = task.flops_per_example(self.context.config)
        self.checkpoint = train(engine, step, stream, checkpoints, options, flops, evaluation)

    @functools.cached_property
    def best(self) -> BestCheckpoint:
        """Keeps the best checkpoint of `output_dir` and the files that go with it."""
        adjacent = (CONFIG_FILE, FROZEN_FILE, *self.context.description)
        evaluated = self.context.of_split("eval")
        examples, folder = data_key(evaluated) if evaluated else "", self.options.output_dir
        return BestCheckpoint(self.engine, folder, self.task.metric, adjacent, examples)

    def _load(self, folder: str, path: str | None = None) -> None:
        self.checkpoint = restore_trained(self.engine, self.model, folder, path)
        self.step = step_of(self.checkpoint)

    def _load_best_of_all(self) -> None:
        """Evaluate all checkpoints of the folder and load the best; write their results."""
        folder, metric = self.options.output_dir, self.task.metric
        found = self.engine.workers.from_chief(self._valid_checkpoints)
        paths = {step_of(path): path for path in found}
        if not paths:
            raise InputError(f"`output_dir`={folder}: contains no checkpoint to evaluate")
        rows, best = [], None
        found = [paths[step] for step in sorted(paths)]
        for path in iter_checkpoints(self.engine, self.model, folder, found):
            self.checkpoint, self.step = path, step_of(path)
            evaluation = self._evaluate()
            logger.info("%s", describe(self.step, evaluation.results))
            rows.append({"step": self.step, **evaluation.results})
            value = evaluation.results[metric]
            if is_better(metric, value, best[1].results[metric] if best else None):
                best = self.step, evaluation
        if self.engine.workers.is_chief:
            with unless_read_only():
                files.write_text(f"{folder}/{CHECKPOINT_SCORES_FILE}", to_tsv(rows))
        chosen, self.evaluation = best or (self.step, evaluation)
        if chosen != self.step:
            self._load(folder, paths[chosen])
        logger.info("best of %d checkpoints: step %d", len(rows), chosen)

    def _valid_checkpoints(self) -> list[str]:
        """Return the checkpoints of the folder, that in `best/` first, without damaged ones."""
        found: list[str] = []
        for folder in (f"{self.options.output_dir}/{BEST_FOLDER}", self.options.output_dir):
            checkpoints = self.engine.checkpoints_in(folder)
            listed = checkpoints.read_list()
            found += (path for path in checkpoints.all() if checkpoints.is_valid(path, listed))
        return found

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
        outputs = outputs_of(self.engine, self._predict_step, self.task, examples, size, self._pad)
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

    @functools.cached_property
    def evaluation(self) -> Scored:
        """Of the chosen weights."""
        return self._evaluate()

    def write_results(self) -> None:
        """Print and write `eval_results.txt`, and what it is about."""
        evaluation, folder = self.evaluation, self.options.output_dir
        self.context.write_results(folder, {**evaluation.results, "global_step": self.step})
        best = f"{folder}/{BEST_FOLDER}"
        if self.engine.workers.is_chief and self.checkpoint.startswith(f"{best}/"):
            with unless_read_only():
                for name in (RESULTS_FILE, EVALUATION_DATA_FILE):
                    files.copy_file(f"{folder}/{name}", f"{best}/{name}")
        if evaluation.collapsed:
            logger.warning("this run has collapsed: %s", evaluation.collapsed)

    def _predict_lines(self, lines: Sequence[str], first: int) -> list[str]:
        """Return predictions for lines of standard input, numbered from `first`."""
        parsed = self.task.parse_lines(lines, first)
        examples = ExampleSet("predict", "", parsed, self.task.encode("predict", parsed))
        return self.task.decode(examples, self.outputs_of(examples))

    def finish(self, options: FineTuningOptions) -> None:
        """Evaluate and predict with the chosen weights, and write the report.

        The options are those of the program: those of this run lack the flags for several runs.
        """
        reported: list[tuple[ExampleSet, Outputs]] = []
        if options.do_eval:
            self.write_results()
            pairs = zip(self.context.of_split("eval"), self.evaluation.outputs, strict=True)
            reported += [pair for pair in pairs if not has_nan(pair[1])]
        if options.streams:
            predict_stream(options, self._predict_lines)
        elif options.do_predict:
            reported += [(each, self.outputs_of(each)) for each in self.context.of_split("predict")]
        write_answers(options, self.context, reported)


def finish(options: FineTuningOptions, data: str, run: FineTuningRun) -> RunRecord:
    """Record in the folder of an evaluated run on `data`, a key, that it is finished."""
    record: RunRecord = {
        "folder": options.output_dir.rsplit("/", 1)[1],
        "learning_rate": options.learning_rate,
        "train_batch_size": options.train_batch_size,
        "random_seed": options.random_seed,
        "step": run.step,
        "checkpoint": run.checkpoint.removeprefix(f"{options.output_dir}/"),
        "results": run.evaluation.results,
        "collapsed": run.evaluation.collapsed,
        "options": _with_effect(options),
        "data": data,
    }
    text = files.to_json(record, indent=2) + "\n"
    files.write_text(f"{options.output_dir}/{FINISHED_FILE}", text)
    return record


def finished_record(options: FineTuningOptions, data: str) -> RunRecord | None:
    """Return the record of a run that finished with the same options and data, if there is one."""
    path = f"{options.output_dir}/{FINISHED_FILE}"
    if not files.exists(path):
        return None
    try:
        content = files.read_json(path, dict[str, Any])
        if isinstance(results := content.get("results"), dict):
            content["results"] = {n: math.nan if v is None else v for n, v in results.items()}
        record = files.converted(content, path, RunRecord)
    except InputError as error:
        raise InputError(f"{error}; delete the file to evaluate the run again") from None
    # A record of an earlier version lacks the options that it did not have.
    recorded = {field.name: field.default for field in dataclasses.fields(options)}
    recorded |= {**options.inherited, **record["options"]}
    same = all(recorded[name] == value for name, value in _with_effect(options).items())
    return record if same and record["data"] == data else None


def _with_effect(options: FineTuningOptions) -> dict[str, Any]:
    """Return the options that the results of a run depend on, as JSON stores them."""
    return {
        name: list(value) if isinstance(value, tuple) else value
        for name, value in dataclasses.asdict(options).items()
        if name not in _WITHOUT_EFFECT
    }


def write_answers(
    options: FineTuningOptions,
    context: RunContext,
    reported: Sequence[tuple[ExampleSet, Outputs]],
    runs: Sequence[Section] = (),
) -> dict[str, ResultRow]:
    """Write predictions and the report; only the chief does so, and gets the results by name.

    Reported are evaluated or predicted sets with their outputs, by the model or models of the
    context; `runs` are sections on several models.
    """
    if not reported or not context.engine.workers.is_chief:
        return {}
    predicted = [each for each in reported if each[0].split == "predict"]
    for examples, outputs in predicted:
        context.task.write_predictions(options.output_dir, examples, outputs)
    write_predict_results(options.output_dir, context.task, predicted)
    with unless_read_only():
        return write_report(options, context.task, context.sets, reported, runs)
    return {}


def outputs_of(
    engine: Engine,
    step: PredictionStep,
    task: FineTuningTask,
    examples: ExampleSet,
    batch_size: int,
    pad: bool,
) -> Outputs:
    """Return what a model of a task computes for its examples, in their order, with progress.

    The batch size is that of all devices; `pad` gives all batches the maximum length.
    """
    length = task.options.max_seq_length
    stream = MemoryStream(examples.features, length, batch_size, pad_to_max_length=pad)
    return task.per_example(examples, predict(engine, step, stream, shows_progress=True))


def freeze_variables(engine: Engine, model: keras.Model, options: FineTuningOptions) -> None:
    """Freeze the variables of a model that the options name, and log what is left to train.

    Raises:
        InputError: If a pattern matches nothing, or the training run in `output_dir`, which would
            be resumed, froze other variables.
    """
    path, given = f"{options.output_dir}/{FROZEN_FILE}", sorted(set(options.freeze))
    with engine.workers.synchronized():
        trained = files.read_json(path, list[str]) if files.exists(path) else []
        if trained != given and engine.checkpoints_in(options.output_dir).all():
            raise InputError(
                f"`freeze`={','.join(options.freeze)}: {options.output_dir} was trained with "
                f"{','.join(trained) or 'no frozen variables'}; use the same, or another "
                "`output_dir` with its checkpoint as `init_checkpoint`"
            )
    with engine.workers.synchronized():
        if trained and not given and engine.workers.is_chief:
            files.remove(path)  # of a run that was stopped before its first checkpoint
    if not given:
        return
    with arguments_renamed(patterns="freeze"):
        frozen = freeze(model, options.freeze)
    counts = (
        sum(math.prod(weight.shape) for weight in weights)
        for weights in (model.trainable_weights, model.weights)
    )
    form = "trainable parameters: %s of %s; frozen: %d variables"
    logger.info(form, *(f"{count:,}" for count in counts), len(frozen))


def frozen_file(options: FineTuningOptions) -> dict[str, str]:
    """Return file name -> content of the file of patterns next to the checkpoints, if any."""
    patterns = sorted(set(options.freeze))
    return {FROZEN_FILE: json.dumps(patterns) + "\n"} if patterns else {}
