"""Pretraining: masked language model and a task on pairs of segments, on TFRecords."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import tensorflow as tf

from albert_tf.config import AlbertConfig
from albert_tf.engines.tensorflow import workers
from albert_tf.engines.tensorflow.records import check_files, evaluation_batches, training_batches
from albert_tf.engines.tensorflow.share import Share
from albert_tf.engines.tensorflow.step import EvalStep
from albert_tf.engines.tensorflow.strategy import dtype_policy, makes_batches_here
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
from albert_tf.interop.companions import DATA_FILE, find_companions
from albert_tf.modeling.heads import AlbertForPreTraining
from albert_tf.modeling.losses import PretrainingObjective
from albert_tf.training.advice import warnings
from albert_tf.training.evaluation import BestCheckpoint, CheckpointEvaluations, PeriodicEvaluation
from albert_tf.training.loop import evaluate
from albert_tf.training.options import PretrainingOptions
from albert_tf.training.run import (
    check_trained,
    prepare,
    restore_each,
    restore_trained,
    train_model,
    trained_step,
    training_folder,
    write_results,
)

# Makes the examples of `--eval_reading_set` in `--output_dir`, in the way of training data with
# these manifests (by name; none where nothing tells), and returns their TFRecord file.
ReadingSetMaker = Callable[[PretrainingOptions, dict[str, Any]], str]


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
    def find(
        cls, options: PretrainingOptions, flag: str, config: AlbertConfig, made: Sequence[str] = ()
    ) -> Records:
        """The files of a flag, or those that were made for it.

        Raises:
            InputError: they, or their manifests, do not fit the flags or the model.
        """
        files = list(made) or expand_globs(getattr(options, flag), flag)
        length, predictions = options.max_seq_length, options.max_predictions_per_seq
        manifests = find_manifests(files)
        check_manifests(manifests, length, predictions, config.vocab_size)
        masks = dynamic_masks(manifests, predictions)
        features = unmasked_features(length) if masks else pretraining_features(length, predictions)
        check_files(files, features, config.vocab_size)
        by_name = {os.path.basename(path): manifest for path, manifest in manifests.items()}
        return cls(files, features, masks, pair_objective(manifests), by_name)


def pretrain(options: PretrainingOptions, make_reading_set: ReadingSetMaker | None = None) -> None:
    """Trains and evaluates as the options say; everything ends up in `--output_dir`.

    Leaves checkpoints, `albert_config.json`, `training_data.json` (the manifests of the files),
    `metrics.jsonl`, TensorBoard events in `train/` and, with `--do_eval`, `eval_results.txt`.

    Args:
        options: the flags.
        make_reading_set: needed with `--eval_reading_set` only.

    Raises:
        InputError: a flag or file is not what it should be.
    """
    config, strategy = prepare(options)
    held_out = None
    evaluates = options.do_eval or (options.do_train and options.eval_every_steps > 0)
    with workers.losses_named(), workers.everyone():
        train = Records.find(options, "input_file", config) if options.do_train else None
        if evaluates and not options.eval_reading_set:
            flag = "eval_input_file" if options.eval_input_file else "input_file"
            held_out = Records.find(options, flag, config)
        if not options.do_train:
            check_trained(options.output_dir)
        _check_masks(strategy, train, held_out)
    with training_folder(options):
        if evaluates and options.eval_reading_set:
            held_out = _reading_set(options, config, train, make_reading_set)
        _pretrain(options, config, strategy, train, held_out)


def _check_masks(strategy: tf.distribute.Strategy, *of: Records | None) -> None:
    if any(records and records.masks for records in of) and not makes_batches_here(strategy):
        raise InputError(
            "--input_file: made with --masking=dynamic, whose masks this process draws; a TPU that "
            "is reached by name reads its files itself: run on the TPU VM with --tpu=local, or use "
            "files made with --masking=static"
        )


def _reading_set(
    options: PretrainingOptions,
    config: AlbertConfig,
    train: Records | None,
    make_reading_set: ReadingSetMaker | None,
) -> Records:
    """The examples of `--eval_reading_set`, made in the way of the training data."""
    if make_reading_set is None:
        raise InputError("--eval_reading_set: only run_pretraining.py makes examples of it")
    manifests = train.manifests if train else find_companions(options.output_dir).data
    if not manifests and options.input_file:
        manifests = find_manifests(expand_globs(options.input_file, "input_file"))
    made = workers.from_chief(lambda: make_reading_set(options, manifests))
    with workers.everyone():
        return Records.find(options, "eval_reading_set", config, [made])


def _pretrain(
    options: PretrainingOptions,
    config: AlbertConfig,
    strategy: tf.distribute.Strategy,
    train: Records | None,
    held_out: Records | None,
) -> None:
    with strategy.scope():
        model = AlbertForPreTraining(config, dtype=dtype_policy(options.dtype))
    objective = PretrainingObjective((train or held_out).pair_objective)
    # Pairs to evaluate on may be of another kind than those trained on, and are called by it.
    measured = objective
    if held_out and objective.pair_objective != "none":
        measured = PretrainingObjective(held_out.pair_objective)
    evaluator = EvalStep(model, measured, strategy, options.jit_compile)

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
        return {"loss": sum(results[name] for name in measured.losses), **results}

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
            train.pair_objective != "none",
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
            _periodic(evaluation, measured, options),
        )
    if options.do_eval:
        if options.eval_checkpoints == "all":
            rows = CheckpointEvaluations(options.output_dir)
            for global_step in restore_each(model, options.output_dir):
                results = evaluation()
                with workers.everyone():
                    rows.add(global_step, results)
        else:
            if options.do_train:
                global_step = trained_step(options.output_dir)
            else:
                global_step = restore_trained(model, options.output_dir)
            results = evaluation()
        write_results(options.output_dir, {**results, "global_step": global_step})


def _periodic(
    evaluation: Callable[[], dict[str, float]],
    objective: PretrainingObjective,
    options: PretrainingOptions,
) -> PeriodicEvaluation | None:
    """Evaluation in the course of training, as the flags say."""
    if not options.eval_every_steps:
        return None
    metric, best = options.best_checkpoint_metric, None
    if metric != "none":
        valid = ("loss", *objective.quantities)
        if metric not in valid:
            raise InputError(
                f"--best_checkpoint_metric={metric}: the examples evaluated on are made with "
                f"--pair_objective={objective.pair_objective}; must be one of "
                f"{', '.join((*valid, 'none'))}"
            )
        best = BestCheckpoint(options.output_dir, metric)
    return PeriodicEvaluation(evaluation, options.eval_every_steps, options.output_dir, best)
