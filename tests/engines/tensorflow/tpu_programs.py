"""Run by a test: every program is traced under the real `TPUStrategy`, on a machine without a TPU.

Its two cores are parts of the CPU that pass for parts of a TPU. Tracing is complete, with all that
TensorFlow refuses in a program for TPUs; the first step then fails, since TensorFlow for CPUs has
no kernel of the operations that start such a program.
"""

import collections
import contextlib
import dataclasses
import functools
import json
import pathlib
import tempfile
from collections.abc import Callable, Sequence
from typing import Any
from unittest import mock

import numpy as np
import tensorflow as tf
from tensorflow.python.tpu.tpu_system_metadata import TPUSystemMetadata

from albert_tf.engines.steps import HISTORY, StepResults
from albert_tf.engines.tensorflow import devices
from albert_tf.engines.tensorflow.step import TrainingStep
from albert_tf.errors import InputError
from albert_tf.finetuning.command import fine_tune
from albert_tf.tasks.classification.task import ClassificationTask
from albert_tf.tasks.question_answering.options import QuestionAnsweringOptions
from albert_tf.tasks.question_answering.task import QuestionAnsweringTask
from albert_tf.training.pretraining import pretrain
from tests.support import finetuning, tiny
from tests.support.pretraining import options_of

CORES = 2
NO_KERNEL = "No OpKernel was registered to support Op 'TPUReplicatedInput'"
ON_TPU = {"use_tpu": True, "tpu_name": "local"}


class _Name(str):
    """The name of a part of the CPU, in which TensorFlow looks for a word."""

    def __contains__(self, part: Any) -> bool:
        return part == "device:TPU:" or super().__contains__(part)


class _Resolver(tf.distribute.cluster_resolver.ClusterResolver):
    """Finds a TPU of this machine whose cores are parts of the CPU."""

    environment = ""

    def __init__(self, **settings: Any):
        assert settings == {"tpu": "local", "zone": None, "project": None}

    def get_tpu_system_metadata(self) -> TPUSystemMetadata:
        device = collections.namedtuple("device", ["name", "device_type"])
        names = [each.name for each in tf.config.list_logical_devices("CPU")[-CORES:]]
        places = [_Name("/job:localhost/replica:0/task:0" + name) for name in names]
        return TPUSystemMetadata(CORES, 1, CORES, None, [device(name, "TPU") for name in places])

    def cluster_spec(self) -> tf.train.ClusterSpec:
        return tf.train.ClusterSpec({})

    def master(self, *_, **__) -> str:
        return ""

    get_master = master


ONE_LAYER = dataclasses.replace(tiny.CONFIG, num_hidden_layers=1)
PLAIN: dict[str, Any] = {}
# Together, they trace what is traced without them, and more.
IN_MICRO_BATCHES = {"micro_batch_size": 4, "remat": True, "dtype": "bfloat16"}


def check(work: Callable[[Any], Any], options: Any, kind: str) -> None:
    """Trace a program of that kind: training, evaluation or prediction."""
    try:
        work(dataclasses.replace(options, **ON_TPU))
    except InputError as error:
        problem = str(error)
    else:
        problem = "it ran without a TPU"
    assert problem.startswith(f"the {kind} step failed: {NO_KERNEL}"), problem


def traced(step: TrainingStep, checksums: Callable) -> tuple[list[str], np.ndarray]:
    """Return the same checksum of all replicas, after the program that computes them was traced."""
    try:
        checksums(step)
    except tf.errors.InvalidArgumentError as error:
        if NO_KERNEL not in str(error):
            raise
    return ["all"], np.zeros((CORES, 1), np.int64)


def untrained(step: TrainingStep, batches: Any, count: int) -> StepResults:
    """In place of training on the CPU, of which nothing but the files is needed."""
    step.optimizer.iterations.assign_add(count)
    sums, weights = (
        dict.fromkeys(names, 1.0) for names in (step.objective.quantities, step.objective.parts)
    )
    names = ("learning_rate", "gradient_norm", "parameter_norm", "input_wait_seconds")
    scalars = dict.fromkeys((*names, *step.optimizer.measures), 1.0)
    return StepResults(sums, weights, scalars, {name: np.ones(count) for name in HISTORY})


def check_pretraining(folder: pathlib.Path) -> None:
    options = options_of(
        folder,
        ONE_LAYER,
        examples=32,
        train_batch_size=16,
        num_train_steps=1,
        num_warmup_steps=0,
        learning_rate=1e-4,
    )
    training = dataclasses.replace(options, **IN_MICRO_BATCHES, output_dir=f"{folder}/micro")
    check(pretrain, training, "training")
    with mock.patch.object(devices.hardware, "tpu_chips", return_value=["v4"]):
        check(pretrain, dataclasses.replace(training, attention="fused"), "training")
    with mock.patch.object(TrainingStep, "__call__", untrained):
        pretrain(options)
    evaluation = dataclasses.replace(options, do_train=False, do_eval=True)
    check(pretrain, evaluation, "evaluation")


def check_fine_tuning(
    task: Any, options: Any, *predictions: str, trainings: Sequence[dict] = (IN_MICRO_BATCHES,)
) -> None:
    """Trace training, and what is done with the model of a run on the CPU."""
    off = dict.fromkeys(("do_eval", "do_predict"), False)

    def work(options: Any) -> None:
        fine_tune(options, task)

    training = dataclasses.replace(options, **off, do_train=True)
    for settings in trainings:
        other = {**settings, "output_dir": f"{options.output_dir}-{len(settings)}"}
        check(work, dataclasses.replace(training, **other), "training")
    with mock.patch.object(TrainingStep, "__call__", untrained):
        work(training)
    for flag, kind in zip(("do_eval", "do_predict"), predictions, strict=False):
        check(work, dataclasses.replace(options, **{**off, flag: True, "do_train": False}), kind)


def main() -> None:
    with tempfile.TemporaryDirectory() as name, contextlib.ExitStack() as stack:
        patch = mock.patch.object
        checksums = functools.partialmethod(traced, checksums=TrainingStep._checksums)
        stack.enter_context(patch(tf.distribute.cluster_resolver, "TPUClusterResolver", _Resolver))
        stack.enter_context(patch(tf.tpu.experimental, "initialize_tpu_system"))
        stack.enter_context(patch(TrainingStep, "_checksums", checksums))
        folder = pathlib.Path(name)
        check_pretraining(folder)
        finetuning.write_files(folder)
        short = {"train_step": 1, "pad_to_max_length": True}
        classifier = finetuning.options_of(folder, folder / "classifier", **short)
        # From its training steps, those of the others differ in the objective alone.
        both = (PLAIN, IN_MICRO_BATCHES)
        check_fine_tuning(
            ClassificationTask, classifier, "prediction", "prediction", trainings=both
        )
        model = {
            name: getattr(classifier, name)
            for name in ("albert_config_file", "vocab_file", "max_seq_length", "train_batch_size")
        }
        squad = folder / "squad.json"
        squad.write_text(json.dumps({"version": "v2.0", "data": [ARTICLE]}))
        options = QuestionAnsweringOptions(
            output_dir=f"{folder}/squad",
            train_file=str(squad),
            predict_file=str(squad),
            squad_head="conditional",
            max_query_length=8,
            doc_stride=4,
            **model,
            **short,
        )
        check_fine_tuning(QuestionAnsweringTask, options, "prediction", "prediction")


ANSWER = {"text": "cat", "answer_start": 0}
ARTICLE = {
    "title": "t",
    "paragraphs": [
        {
            "context": "cat saw dog bird horse drill",
            "qas": [{"id": str(n), "question": "saw", "answers": [ANSWER]} for n in range(8)],
        }
    ],
}
