"""Pretraining: masked language model and sentence order, on TFRecords."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from typing import Any, NamedTuple

import tensorflow as tf

from albert_tf.config import AlbertConfig
from albert_tf.errors import InputError
from albert_tf.files import expand_globs
from albert_tf.flops import pretraining_flops
from albert_tf.input.features import Feature, pretraining_features, unmasked_features
from albert_tf.input.manifest import (
    DynamicMasks,
    check_manifests,
    dynamic_masks,
    find_manifests,
    pair_objective,
)
from albert_tf.input.pretraining import check_files, evaluation_batches, training_batches
from albert_tf.input.share import Share
from albert_tf.interop.companions import DATA_FILE
from albert_tf.modeling.heads import AlbertForPreTraining
from albert_tf.modeling.losses import Objective, PretrainingObjective
from albert_tf.training import workers
from albert_tf.training.advice import warnings
from albert_tf.training.evaluation import BestCheckpoint, PeriodicEvaluation
from albert_tf.training.loop import evaluate
from albert_tf.training.options import PretrainingOptions
from albert_tf.training.run import (
    prepare,
    restore_trained,
    train_model,
    trained_step,
    training_folder,
    write_results,
)
from albert_tf.training.step import EvalStep
from albert_tf.training.strategy import dtype_policy, makes_batches_here


class Records(NamedTuple):
    """TFRecord files and what their manifests say of them.

    Attributes:
        files: the files.
        features: what an example holds.
        masks: how to draw masks; None where the files hold them.
        pair_objective: what pairs are to teach: "sop", "nsp" or "none".
        manifests: of the files, by name.
    """

    files: list[str]
    features: dict[str, Feature]
    masks: DynamicMasks | None
    pair_objective: str
    manifests: dict[str, Any]

    @classmethod
    def find(cls, options: PretrainingOptions, flag: str, config: AlbertConfig) -> Records:
        """The files of a flag.

        Raises:
            InputError: they, or their manifests, do not fit the flags or the model.
        """
        files = expand_globs(getattr(options, flag), flag)
        length, predictions = options.max_seq_length, options.max_predictions_per_seq
        manifests = find_manifests(files)
        check_manifests(manifests, length, predictions, config.vocab_size)
        masks = dynamic_masks(manifests, predictions)
        features = unmasked_features(length) if masks else pretraining_features(length, predictions)
        check_files(files, features, config.vocab_size)
        by_name = {os.path.basename(path): manifest for path, manifest in manifests.items()}
        return cls(files, features, masks, pair_objective(manifests), by_name)


def pretrain(options: PretrainingOptions) -> None:
    """Trains and evaluates as the options say; everything ends up in `--output_dir`.

    Leaves checkpoints, `albert_config.json`, `training_data.json` (the manifests of the files),
    `metrics.jsonl`, TensorBoard events in `train/` and, with `--do_eval`, `eval_results.txt`.

    Raises:
        InputError: a flag or file is not what it should be.
    """
    config, strategy = prepare(options)
    held_out = None
    with workers.losses_named(), workers.everyone():
        train = Records.find(options, "input_file", config) if options.do_train else None
        if options.do_eval or (options.do_train and options.eval_every_steps):
            flag = "eval_input_file" if options.eval_input_file else "input_file"
            held_out = Records.find(options, flag, config)
        _check_masks(strategy, train, held_out)
    with training_folder(options):
        _pretrain(options, config, strategy, train, held_out)


def _check_masks(strategy: tf.distribute.Strategy, *of: Records | None) -> None:
    if any(records and records.masks for records in of) and not makes_batches_here(strategy):
        raise InputError(
            "--input_file: made with --masking=dynamic, whose masks this process draws; a TPU that "
            "is reached by name reads its files itself: run on the TPU VM with --tpu=local, or use "
            "files made with --masking=static"
        )


def _pretrain(
    options: PretrainingOptions,
    config: AlbertConfig,
    strategy: tf.distribute.Strategy,
    train: Records | None,
    held_out: Records | None,
) -> None:
    with strategy.scope():
        model = AlbertForPreTraining(config, dtype=dtype_policy(options.dtype))
    objective = PretrainingObjective((train or held_out).pair_objective != "none")
    evaluator = EvalStep(model, objective, strategy)

    def evaluation() -> dict[str, float]:
        def batches(share: Share):
            return evaluation_batches(
                held_out.files,
                held_out.features,
                options.eval_batch_size,
                options.random_seed,
                held_out.masks,
                share,
            )

        results = evaluate(evaluator, batches, options.max_eval_steps)
        return {"loss": sum(results[name] for name in objective.losses), **results}

    if train:

        def batches_from(step: int):
            return lambda share: training_batches(
                train.files,
                train.features,
                options.train_batch_size,
                options.random_seed,
                options.shuffle_buffer_size,
                first_step=step,
                masks=train.masks,
                share=share,
            )

        data = json.dumps(train.manifests, indent=2, ensure_ascii=False) + "\n"
        flops = pretraining_flops(
            config,
            options.max_seq_length,
            options.max_predictions_per_seq,
            "sentence_order" in objective.parts,
        )
        for line in warnings(options):
            print(f"warning: {line}", file=sys.stderr)
        train_model(
            model,
            objective,
            batches_from,
            strategy,
            options,
            flops,
            {DATA_FILE: data},
            _periodic(evaluation, objective, options),
        )
    if options.do_eval:
        if options.do_train:
            global_step = trained_step(options.output_dir)
        else:
            global_step = restore_trained(model, options.output_dir)
        write_results(options.output_dir, {**evaluation(), "global_step": global_step})


def _periodic(
    evaluation: Callable[[], dict[str, float]], objective: Objective, options: PretrainingOptions
) -> PeriodicEvaluation | None:
    """Evaluation in the course of training, as the flags say."""
    if not options.eval_every_steps:
        return None
    metric, best = options.best_checkpoint_metric, None
    if metric != "none":
        valid = ("loss", *objective.quantities)
        if metric not in valid:
            raise InputError(
                f"--best_checkpoint_metric={metric}: the data has no pairs; must be one of "
                f"{', '.join(valid)}"
            )
        best = BestCheckpoint(options.output_dir, metric)
    return PeriodicEvaluation(evaluation, options.eval_every_steps, options.output_dir, best)
