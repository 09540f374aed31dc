"""One run of fine-tuning, in a folder of its own."""

from __future__ import annotations

import functools
import logging
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from albert_tf.config import CONFIG_FILE, AlbertConfig
from albert_tf.engines.base import Engine
from albert_tf.errors import InputError
from albert_tf.files import matches, write_text
from albert_tf.finetuning.finetuning_options import FineTuningOptions
from albert_tf.finetuning.task import ExampleSet, Problem
from albert_tf.training.evaluation import (
    BEST_FOLDER,
    BestCheckpoint,
    PeriodicEvaluation,
    describe,
    is_better,
)
from albert_tf.training.loop import predict
from albert_tf.training.run import (
    find_trained,
    restore_trained,
    train_model,
    trained_step,
    write_results,
)

_logger = logging.getLogger(__name__)

CHECKPOINTS_FILE = "eval_checkpoints.tsv"


class Setting(NamedTuple):
    """What runs have in common.

    Attributes:
        problem: what is learnt.
        config: shape of the model.
        engine: where it runs.
        files: file name -> content of what is to stand beside the checkpoints, besides the
            problem's description.
    """

    problem: Problem
    config: AlbertConfig
    engine: Engine
    files: dict[str, str | bytes]

    @property
    def description(self) -> dict[str, str | bytes]:
        """All files that stand beside the checkpoints, but for the model's config."""
        return {**self.files, **self.problem.description()}


class Outcome(NamedTuple):
    """Results of a model on the sets of the split "eval".

    Attributes:
        results: by name.
        collapsed: what shows that it has learnt nothing; None if it has.
        outputs: of the model, for each of the sets.
    """

    results: dict[str, float]
    collapsed: str | None
    outputs: list[dict[str, np.ndarray]]


class Work:
    """A model of a problem, trained and used as the options of one run say.

    Args:
        options: of the run.
        setting: what it shares with others.

    Attributes:
        step: steps of training behind the weights that were chosen.
        checkpoint: path of their checkpoint.
    """

    def __init__(self, options: FineTuningOptions, setting: Setting):
        self.options = options
        self.setting = setting
        self.problem = setting.problem
        self.step = 0
        self.checkpoint = ""
        self._outcome: Outcome | None = None
        setting.engine.set_random_seed(options.random_seed)
        self.engine = setting.engine
        with self.engine.scope():
            self.model = self.problem.create_model(setting.config, options.dtype_policy)
        self._predict_step = self.engine.create_prediction_step(self.model, self.problem.outputs)
        self._pad = options.pad_to_max_length or self.engine.is_tpu

    def train(self) -> None:
        """Trains, or goes on, if the options say so."""
        if not self.options.do_train:
            return
        (train,) = self.problem.sets["train"]
        options = self.options
        train_model(
            self.engine,
            self.model,
            self.problem.objective,
            lambda step: self.engine.memory_training_batches(
                train.features,
                options.max_seq_length,
                options.train_batch_size,
                seed=options.random_seed,
                first_step=step,
                pad_to_max_length=self._pad,
            ),
            options,
            self.problem.flops_per_example(self.setting.config),
            self.setting.description,
            self._periodic_evaluation(),
        )

    @functools.cached_property
    def best(self) -> BestCheckpoint:
        """Keeps the best checkpoint of `--output_dir`, and all that goes with it."""
        beside = (CONFIG_FILE, *self.setting.description)
        return BestCheckpoint(self.engine, self.options.output_dir, self.problem.metric, beside)

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

    def choose(self) -> None:
        """Loads the checkpoint that `--eval_checkpoints` asks for, and says which.

        Raises:
            InputError: it is not there.
        """
        _CHOICES[self.options.eval_checkpoints](self)

    def _load(self, path: str) -> None:
        self.step = restore_trained(self.engine, self.model, self.options.output_dir, path)
        self.checkpoint = path

    def _choose_newest(self) -> None:
        folder = self.options.output_dir
        if self.options.do_train:  # the model has its weights
            self.checkpoint = find_trained(self.engine, folder)
            self.step = trained_step(self.engine, folder)
        else:
            self._load(self.engine.latest_checkpoint(folder) or find_trained(self.engine, folder))

    def choose_best(self) -> None:
        """Loads the checkpoint that is kept as the best."""
        best, folder = self.best.current(), self.options.output_dir
        if best is None:
            raise InputError(
                f"--eval_checkpoints=best: {folder}/{BEST_FOLDER} holds no checkpoint that is best "
                f"in {self.problem.metric}; train with --eval_every_steps"
            )
        self._load(find_trained(self.engine, f"{folder}/{BEST_FOLDER}"))
        print(f"the best checkpoint: step {self.step}, {best.metric} {best.value:.4f}")

    def _choose_auto(self) -> None:
        if self.best.current() is None:
            self._choose_newest()
        else:
            self.choose_best()

    def _choose_among_all(self) -> None:
        folder, metric = self.options.output_dir, self.problem.metric
        found = self.engine.workers.from_chief(lambda: list(_readable(self.engine, folder)))
        paths = {int(path.rsplit("-", 1)[1]): path for path in found}
        if not paths:
            raise InputError(f"--output_dir={folder}: holds no checkpoint to evaluate")
        rows, best = [], None
        for step in sorted(paths):
            self._load(paths[step])
            outcome = self._evaluate()
            print(describe(step, outcome.results))
            rows.append({"step": step, **outcome.results})
            if is_better(metric, outcome.results[metric], best and best[1].results[metric]):
                best = step, outcome
        if self.engine.workers.is_chief:
            lines = ["\t".join(rows[0])]
            lines += ["\t".join(f"{value:.8g}" for value in row.values()) for row in rows]
            write_text(f"{folder}/{CHECKPOINTS_FILE}", "".join(f"{line}\n" for line in lines))
        chosen, outcome = best or (step, outcome)
        if chosen != step:
            self._load(paths[chosen])
        self._outcome = outcome
        print(f"the best of {len(rows)}: step {chosen}")

    def outputs_of(self, examples: ExampleSet, batch_size: int) -> dict[str, np.ndarray]:
        """What the model computes of all examples, in their order."""
        batches = self.engine.memory_evaluation_batches(
            examples.features,
            self.options.max_seq_length,
            batch_size,
            pad_to_max_length=self._pad,
        )
        return predict(self.engine, self._predict_step, batches)

    def _evaluate(self) -> Outcome:
        results, collapsed, all_outputs = {}, None, []
        for examples in self.problem.sets["eval"]:
            outputs = self.outputs_of(examples, self.options.eval_batch_size)
            results |= self.problem.score(examples, outputs)
            collapsed = collapsed or self.problem.collapsed(outputs)
            all_outputs.append(outputs)
        return Outcome(results, collapsed, all_outputs)

    @property
    def outcome(self) -> Outcome:
        """Results of the weights that were chosen."""
        if self._outcome is None:
            self._outcome = self._evaluate()
        return self._outcome

    def write_results(self) -> None:
        """Prints `eval_results.txt` and writes it."""
        outcome = self.outcome
        results = {**outcome.results, "global_step": self.step}
        write_results(self.engine, self.options.output_dir, results)
        if outcome.collapsed:
            print(f"warning: this run has collapsed: {outcome.collapsed}")

    def write_predictions(self) -> list[dict[str, np.ndarray]]:
        """Writes the files of predictions; returns the outputs that they were made of."""
        all_outputs = []
        for examples in self.problem.sets["predict"]:
            outputs = self.outputs_of(examples, self.options.predict_batch_size)
            if self.engine.workers.is_chief:
                self.problem.write_predictions(self.options.output_dir, examples, outputs)
            all_outputs.append(outputs)
        return all_outputs


def _readable(engine: Engine, folder: str) -> Iterator[str]:
    """The checkpoints of a training folder, the best one's first, without those damaged."""
    for place in (f"{folder}/{BEST_FOLDER}", folder):
        for index in matches(f"{place}/model.ckpt-*.index"):
            path = index.removesuffix(".index")
            if reason := engine.checkpoint_damage(path):
                _logger.warning("%s is damaged and skipped: %s", path, reason)
            else:
                yield path


_CHOICES = {
    "auto": Work._choose_auto,
    "newest": Work._choose_newest,
    "best": Work.choose_best,
    "all": Work._choose_among_all,
}
