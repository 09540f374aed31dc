"""Compiles what users run on GPUs, besides pretraining, on a machine without one.

    python -m tests.preflight.gpu_programs h100 a100-80

The programs run as usual, on tiny files and with a model of the size of base, up to their steps.
These are compiled for the GPU instead, and return zeros. Prints a row of a table for every step.
"""

import contextlib
import dataclasses
import json
import os
import pathlib
import sys
import tempfile
from typing import Any
from unittest import mock

# Before JAX loads.
os.environ["JAX_PLATFORMS"] = "cpu"
os.environ["KERAS_BACKEND"] = "jax"
from albert_tf.preflight.compiling import compile_program  # isort: skip

import jax
import numpy as np

from albert_tf.config import AlbertConfig
from albert_tf.engines.jax import engine, step
from albert_tf.engines.jax.devices import JaxDevices
from albert_tf.engines.steps import HISTORY, StepResults
from albert_tf.finetuning.command import run_kind
from albert_tf.hardware import GIB
from albert_tf.preflight.bounds import step_time
from albert_tf.preflight.gpus import parse_devices
from albert_tf.task_kinds import task_kinds
from albert_tf.training.pretraining import pretrain
from tests.support import tiny
from tests.support.finetuning import word_pieces
from tests.support.pretraining import options_of

WORDS = ["cat", "saw", "dog", "bird", "horse", "drill"]
TEXT = " ".join(WORDS)
QUESTION = {"id": "1", "question": "saw", "answers": [{"text": "cat", "answer_start": 0}]}
ARTICLE = {"title": "t", "paragraphs": [{"context": TEXT, "qas": [QUESTION]}]}
CHOICES = {"context": TEXT, "question": "saw", "choices": WORDS[:4], "answer": 1}
FILES = {
    "labels.tsv": "text\tlabel\n" + f"{TEXT}\ta\n{TEXT}\tb\n" * 32,
    "numbers.tsv": "text\tlabel\n" + f"{TEXT}\t1\n{TEXT}\t2\n" * 32,
    "squad.json": json.dumps({"version": "2", "data": [ARTICLE]}),
    "race.jsonl": (json.dumps(CHOICES) + "\n") * 32,
    "tags.txt": "".join(f"{word} B-a\n" for word in WORDS) + "\n",
    "pairs.tsv": "text\ttext_pair\n" + f"{TEXT}\tcat\n" * 64,
}
# What a row is called: package of the kind, its file, and further options.
RUNS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "classes": ("classification", "labels.tsv", {"train_batch_size": 128, "max_seq_length": 512}),
    "numbers": ("classification", "numbers.tsv", {"regression": True}),
    "labels, float32": ("classification", "labels.tsv", {"multi_label": True, "dtype": "float32"}),
    "SQuAD": ("question_answering", "squad.json", {"train_batch_size": 48, "max_seq_length": 384}),
    "RACE": ("multiple_choice", "race.jsonl", {"task_name": "json", "max_seq_length": 512}),
    "tags": ("tagging", "tags.txt", {}),
    "sentences": ("sentences", "pairs.tsv", {"train_batch_size": 64}),
}
PRETRAINING: dict[str, dict[str, Any]] = {
    "pretraining": {"do_eval": True},
    "version 1": {"do_eval": True},
    "Muon, remat": {"optimizer": "muon", "remat": True, "micro_batch_size": 16},
}


class Programs:
    """Compiles every step that a program would run, and prints a row of the table for it."""

    def __init__(self, kinds: list[str]):
        self.places = [parse_devices(kind) for kind in kinds]
        self.name = ""
        self.seen: set[tuple] = set()

    def report(self, kind: str, function: Any, batch: dict[str, Any], *arguments: Any) -> None:
        shape = " x ".join(map(str, batch["input_ids"].shape))
        cells = [f"{self.name}, {kind}", shape]
        for where in self.places:
            lowered = function.trace(*arguments).lower(lowering_platforms=("cuda",))
            result = compile_program(lowered.compiler_ir("stablehlo"), where, 1)
            assert result.error is None, result.error
            time = step_time(result, where)
            cells += [f"{result.fused_attention:.0f}", f"{result.memory / GIB:.1f}"]
            cells += [f"{1e3 * time.estimate:.1f}"]
        print(f"| {' | '.join(cells)} |", flush=True)

    def train(self, training: step.TrainingStep, batches: Any, count: int) -> StepResults:
        batch = next(batches)
        self.report("training", training.program, batch, training.tree, batch, {})
        training.optimizer.iterations.assign_add(count)
        objective, measures = training.objective, training.optimizer.measures
        sums, weights = (dict.fromkeys(n, 1.0) for n in (objective.quantities, objective.parts))
        scalars = ("learning_rate", "gradient_norm", "parameter_norm", "input_wait_seconds")
        history = {name: np.ones(count) for name in HISTORY}
        return StepResults(sums, weights, dict.fromkeys((*scalars, *measures), 1.0), history)

    def forward(self, forward: Any, batch: dict[str, Any]) -> Any:
        params = {v.path: v.value for v in forward._model.weights}
        key = self.name, forward._kind
        if key not in self.seen:
            self.seen.add(key)
            self.report(forward._kind, forward._run, batch, params, batch)
        shapes = jax.eval_shape(forward._run, params, batch)
        results = jax.tree.map(lambda each: np.zeros(each.shape, each.dtype), shapes)
        if forward._kind == "prediction":
            return np.asarray(batch["example_number"]), results[1]
        return results


def main(kinds: list[str]) -> None:
    programs = Programs(kinds)
    shape = AlbertConfig.preset("base", version=2)
    patch = mock.patch.object
    with tempfile.TemporaryDirectory() as name, contextlib.ExitStack() as stack:
        folder = pathlib.Path(name)
        stack.enter_context(patch(JaxDevices, "platform", "gpu"))
        train, forward = programs.train, programs.forward
        # Bound methods would not get the step.
        stack.enter_context(patch(step.TrainingStep, "__call__", lambda *each: train(*each)))
        stack.enter_context(patch(engine._ForwardStep, "_results", lambda *each: forward(*each)))
        stack.enter_context(mock.patch.multiple(tiny, LENGTH=512, PREDICTIONS=20))
        word_pieces(folder, WORDS)
        (folder / "config.json").write_text(shape.to_json())
        for file, text in FILES.items():
            (folder / file).write_text(text)
        common: dict[str, Any] = {"engine": "jax", "dtype": "bfloat16", "train_batch_size": 32}
        for programs.name, changes in PRETRAINING.items():
            changes |= {"num_train_steps": 1, "num_warmup_steps": 0, "learning_rate": 1e-3}
            version = 1 if programs.name == "version 1" else 2
            config = AlbertConfig.preset("base", version=version)
            pretraining = options_of(folder, config, 64, **common, **changes)
            lengths: dict[str, Any] = {"max_seq_length": 512, "max_predictions_per_seq": 20}
            output = f"{folder}/{programs.name}"
            pretrain(dataclasses.replace(pretraining, **lengths, output_dir=output))
        for programs.name, (package, file, changes) in RUNS.items():
            kind = next(each for each in task_kinds() if each.package.endswith(package))
            options = {
                "albert_config_file": str(folder / "config.json"),
                "vocab_file": str(folder / "vocab.txt"),
                "output_dir": f"{folder}/{programs.name}",
                **dict.fromkeys(("train_file", "eval_file", "predict_file"), str(folder / file)),
                **dict.fromkeys(("do_train", "do_eval", "do_predict", "pad_to_max_length"), True),
                **{"train_step": 1, "learning_rate": 1e-5, "max_seq_length": 128},
                **{**common, **changes},
            }
            known = {field.name for field in dataclasses.fields(kind.load("options"))}
            given = {key: value for key, value in options.items() if key in known}
            run_kind(kind, kind.load("options")(**given))


if __name__ == "__main__":
    main(sys.argv[1:])
