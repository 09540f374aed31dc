"""Fine-tuning of any problem: train, evaluate, predict."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import tensorflow as tf

from albert_tf.config import AlbertConfig
from albert_tf.finetuning.options import FineTuningOptions
from albert_tf.finetuning.problem import ExampleSet, Problem
from albert_tf.finetuning.report import Outputs, write_report
from albert_tf.input.examples import evaluation_batches, training_batches
from albert_tf.tokenization import Tokenizer
from albert_tf.training.loop import predict
from albert_tf.training.run import (
    prepare,
    restore_trained,
    train_model,
    trained_step,
    training_folder,
    write_results,
)
from albert_tf.training.step import PredictStep
from albert_tf.training.strategy import dtype_policy, per_replica


def fine_tune(
    options: FineTuningOptions, create: Callable[[FineTuningOptions, Tokenizer], Problem]
) -> None:
    """Trains, evaluates and predicts as the options say; everything ends up in `--output_dir`.

    Leaves checkpoints, `albert_config.json`, the problem's description, `metrics.jsonl`,
    TensorBoard events, and with `--do_eval` `eval_results.txt`, with `--do_predict` the problem's
    files of predictions, and with either `report.html`.

    Args:
        options: of the program.
        create: makes the problem: reads and checks all examples that are asked for.

    Raises:
        InputError: a flag or file is not what it should be.
    """
    options.check()
    tokenizer = Tokenizer.load(options.spm_model_file, options.do_lower_case)
    config = AlbertConfig.from_json_file(options.albert_config_file)
    config.check_vocabulary(tokenizer.vocab_size, options.spm_model_file)
    problem = create(options, tokenizer)
    config, strategy = prepare(options)
    per_replica("predict_batch_size", options.predict_batch_size, strategy)
    with training_folder(options):
        _fine_tune(options, problem, config, strategy)


def _fine_tune(
    options: FineTuningOptions,
    problem: Problem,
    config: AlbertConfig,
    strategy: tf.distribute.Strategy,
) -> None:
    with strategy.scope():
        model = problem.create_model(config, dtype_policy(options.dtype))
    if options.do_train:
        (train,) = problem.sets["train"]

        def batches_from(step: int):
            return training_batches(
                train.features,
                options.max_seq_length,
                options.train_batch_size,
                options.random_seed,
                step,
            )

        train_model(
            model,
            problem.objective,
            batches_from,
            strategy,
            options,
            problem.flops_per_example(config),
            problem.description(),
        )
        global_step = trained_step(options.output_dir)
    else:
        global_step = restore_trained(model, options.output_dir)

    step = PredictStep(model, strategy, problem.outputs)

    def outputs_of(examples: ExampleSet, batch_size: int) -> dict[str, np.ndarray]:
        batches = evaluation_batches(examples.features, options.max_seq_length, batch_size)
        return predict(step, batches)

    given = []
    if options.do_eval:
        results = {}
        for examples in problem.sets["eval"]:
            outputs = outputs_of(examples, options.eval_batch_size)
            results |= problem.score(examples, outputs)
            given.append(Outputs("eval", examples, outputs))
        write_results(options.output_dir, {**results, "global_step": global_step})
    if options.do_predict:
        for examples in problem.sets["predict"]:
            outputs = outputs_of(examples, options.predict_batch_size)
            problem.write_predictions(options.output_dir, examples, outputs)
            given.append(Outputs("predict", examples, outputs))
    if given:
        write_report(options, problem, given)
