"""One run of a variant: trained, evaluated and fine-tuned; what is finished is not done again."""

import dataclasses
import json
from collections.abc import Sequence
from typing import Any

from albert_tf.config import AlbertConfig
from albert_tf.files import make_folder, write_text
from albert_tf.finetuning.metrics import METRICS
from albert_tf.flops import pretraining_flops
from albert_tf.training.rows import read_rows
from benchmarks.interleaving import in_rounds
from experiments.study import OWN, Flags, Study, Variant
from experiments.workspace import Workspace, digest, last_line, once, results_in, words_of

# Evaluations during training, for curves, and their number of batches.
CURVE_POINTS, CURVE_EVAL_STEPS = 10, 25


def config_of(workspace: Workspace, variant: Variant) -> AlbertConfig:
    """Return the shape of a variant's model."""
    return dataclasses.replace(workspace.scale.config, **variant.model)


def has_pairs(data: Flags) -> bool:
    """Return whether there is a task on pairs of segments."""
    return data.get("pair_objective", "sop") != "none"


def by_formula(workspace: Workspace, variant: Variant) -> dict[str, float]:
    """Return parameters in millions, and GFLOP of a training example."""
    config, data = config_of(workspace, variant), {**workspace.scale.data, **variant.data}
    flops = pretraining_flops(
        config, data["max_seq_length"], data["max_predictions_per_seq"], has_pairs(data)
    )
    return {"parameters": config.parameter_count() / 1e6, "gflops": flops / 1e9}


class Run:
    """A variant with a seed.

    Args:
        variant: how it differs from the scale.
        seed: of initial weights, data order and fine-tuning.
        training: further flags of run_pretraining.py.
    """

    def __init__(
        self, workspace: Workspace, variant: Variant, seed: int, training: Flags | None = None
    ):
        self._workspace = workspace
        self._variant = variant
        self._seed = seed
        self._config = config_of(workspace, variant)
        self._data = {**workspace.scale.data, **variant.data}
        self._training = {**workspace.scale.training, **variant.training, **(training or {})}
        described = {
            "text": workspace.text_digest(),
            "config": self._config.to_dict(),
            "data": self._data,
            "text_share": variant.text_share,
            "training": self._training,
        }
        self.folder = workspace.folder / "runs" / f"{digest(described)}-{seed}"

    def measured(
        self, study: Study, tasks: Sequence[str] = (), data_dir: str | None = None
    ) -> dict[str, Any]:
        """Train, if that is not done, and return everything that the study measures."""
        self.train()
        values: dict[str, Any] = {"seed": self._seed, "folder": self.folder.name, "on": {}}
        values.update(self._trained())
        for name in study.evaluation_sets():
            flags = self._variant.data if name == OWN else study.evaluate_on[name]
            values["on"][name] = self._learned(self._evaluated(flags))
        if tasks:
            values["tasks"] = {task: self._fine_tuned(task, data_dir) for task in tasks}
            values["downstream"] = sum(values["tasks"].values()) / len(tasks)
        return values

    def train(self, minutes: float = 0, last: bool = True) -> None:
        """Train, if that is not done.

        Args:
            minutes: training time in total, after which to stop; 0 for no limit.
            last: whether the run is finished then.
        """
        done = self.folder / "trained"
        if done.exists():
            return
        make_folder(str(self.folder))
        write_text(str(self.folder / "model.json"), json.dumps(self._config.to_dict()))
        steps = self._training["num_train_steps"]
        every = max(steps // CURVE_POINTS, 1)
        flags = {
            "do_train": True,
            "albert_config_file": self.folder / "model.json",
            "input_file": self._workspace.training_records(
                self._variant.data, self._variant.text_share
            ),
            "eval_input_file": self._workspace.evaluation_records(self._variant.data),
            "output_dir": self.folder,
            "random_seed": self._seed,
            "eval_every_steps": every,
            "max_eval_steps": CURVE_EVAL_STEPS,
            "save_checkpoints_steps": every,
            "keep_checkpoint_max": 1,
            "best_checkpoint_metric": "none",
            **self._lengths(),
            **self._training,
            **({"max_train_minutes": minutes} if minutes else {}),
        }
        self._workspace.run(self.folder / "log.txt", "run_pretraining.py", *words_of(flags))
        if last:
            done.touch()

    def steps_done(self) -> int:
        """Return the step of the last line of the training log."""
        return json.loads(last_line(self.folder / "metrics.jsonl"))["step"]

    def _trained(self) -> dict[str, Any]:
        curve = read_rows(str(self.folder / "evaluations.jsonl"))
        return {
            "steps": self.steps_done(),
            "curve": [[row["step"], row["masked_lm_accuracy"]] for row in curve],
        }

    def _lengths(self) -> dict[str, int]:
        return {name: self._data[name] for name in ("max_seq_length", "max_predictions_per_seq")}

    def _evaluated(self, data: Flags) -> dict[str, float]:
        """Return results on all examples of an evaluation set."""
        records = self._workspace.evaluation_records(data)

        def evaluate() -> dict[str, float]:
            flags = {
                "do_eval": True,
                "eval_input_file": records,
                "output_dir": self.folder,
                "max_eval_steps": 0,
                **self._lengths(),
                **self._engine(),
            }
            self._workspace.run(self.folder / "log.txt", "run_pretraining.py", *words_of(flags))
            return results_in(self.folder / "eval_results.txt")

        return once(self.folder / f"evaluated-{records.parent.name}.json", evaluate)

    def _learned(self, results: dict[str, float]) -> dict[str, float]:
        """Without the results of a head on pairs that was not trained."""
        if has_pairs(self._data):
            return results
        pairs = ("next_sentence", "sentence_order")
        return {name: value for name, value in results.items() if not name.startswith(pairs)}

    def _engine(self) -> dict[str, Any]:
        names = ("engine", "dtype")
        return {name: self._training[name] for name in names if name in self._training}

    def _fine_tuned(self, task: str, data_dir: str | None) -> float:
        """Return the task's first metric on its development set."""
        described = {"task": task, **self._workspace.scale.finetuning}
        folder = self.folder / f"{task}-{digest(described)}"

        def fine_tune() -> float:
            flags = {
                "do_train": True,
                "do_eval": True,
                "task_name": task,
                **({"data_dir": data_dir} if data_dir else {}),
                "init_checkpoint": self.folder,
                "spm_model_file": self._workspace.vocabulary,
                "cached_dir": self._workspace.folder / "encoded",
                "output_dir": folder,
                "random_seed": self._seed,
                **self._workspace.scale.finetuning,
                **self._engine(),
            }
            self._workspace.run(self.folder / "log.txt", "run_classifier.py", *words_of(flags))
            # Accuracy, for most tasks.
            results = results_in(folder / "eval_results.txt")
            return next(results[metric.key] for metric in METRICS.values() if metric.key in results)

        return once(self.folder / f"{folder.name}.json", fine_tune)


def train_in_rounds(runs: Sequence[Run], minutes: float, rounds: int) -> None:
    """Train runs for the same time each, a part of it in every round."""
    for number, run in in_rounds(runs, rounds):
        run.train(minutes * (number + 1) / rounds, last=number == rounds - 1)
