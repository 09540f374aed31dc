"""Pretraining of a tiny model in the process of a test."""

import pathlib

from albert_tf.checkpoints.saving import Checkpoints
from albert_tf.config import AlbertConfig
from albert_tf.engines.base import Engine
from albert_tf.engines.steps import TrainingStep
from albert_tf.training.evaluation import PeriodicEvaluation
from albert_tf.training.loop import train
from albert_tf.training.options import PretrainingOptions
from tests.support.batches import ListStream
from tests.support.tiny import LENGTH, PREDICTIONS, batch, write_records


def train_on(
    batches: list,
    engine: Engine,
    step: TrainingStep,
    folder,
    evaluation: PeriodicEvaluation | None = None,
    keep: int = 5,
    **changes,
) -> bool:
    """Train on all batches, one save at the end; return whether a checkpoint was resumed from."""
    checkpoints = Checkpoints(engine.checkpoints_in(str(folder)), step, engine.workers, keep)
    resumed = checkpoints.restore_latest()
    steps = ("num_train_steps", "save_checkpoints_steps", "iterations_per_loop")
    settings = {**dict.fromkeys(steps, len(batches)), "max_seq_length": LENGTH, **changes}
    options = PretrainingOptions(output_dir=str(folder), **settings)
    train(engine, step, ListStream(batches), checkpoints, options, 1e6, evaluation)
    return resumed


def options_of(
    folder: pathlib.Path, config: AlbertConfig, examples: int, **changes
) -> PretrainingOptions:
    """Write a config and `a.tfrecord`; return options that train on it, in the folder `out`."""
    write_records(folder / "a.tfrecord", batch(examples))
    (folder / "albert_config.json").write_text(config.to_json())
    return PretrainingOptions(
        albert_config_file=str(folder / "albert_config.json"),
        input_file=(str(folder / "a.tfrecord"),),
        output_dir=str(folder / "out"),
        max_seq_length=LENGTH,
        max_predictions_per_seq=PREDICTIONS,
        do_train=True,
        **changes,
    )
