"""Pretraining: masked language model and sentence order, on TFRecords."""

from __future__ import annotations

from albert_tf.files import expand_globs
from albert_tf.input.features import pretraining_features
from albert_tf.input.pretraining import check_files, evaluation_batches, training_batches
from albert_tf.modeling.heads import AlbertForPreTraining
from albert_tf.modeling.losses import PretrainingObjective
from albert_tf.training.loop import evaluate
from albert_tf.training.options import PretrainingOptions
from albert_tf.training.run import initialize, prepare, train_model, trained_step, write_results
from albert_tf.training.step import EvalStep
from albert_tf.training.strategy import dtype_policy


def pretrain(options: PretrainingOptions) -> None:
    """Trains and evaluates as the options say; everything ends up in `--output_dir`.

    Leaves checkpoints, `albert_config.json`, `metrics.jsonl`, TensorBoard events in `train/` and,
    with `--do_eval`, `eval_results.txt`.

    Raises:
        InputError: a flag or file is not what it should be.
    """
    config, strategy = prepare(options)
    features = pretraining_features(options.max_seq_length, options.max_predictions_per_seq)
    train_files: list[str] = []
    eval_files: list[str] = []
    if options.do_train:
        train_files = expand_globs(options.input_file, "input_file")
        check_files(train_files, features, config.vocab_size)
    if options.do_eval:
        flag = "eval_input_file" if options.eval_input_file else "input_file"
        eval_files = expand_globs(getattr(options, flag), flag)
        check_files(eval_files, features, config.vocab_size)

    with strategy.scope():
        model = AlbertForPreTraining(config, dtype=dtype_policy(options.dtype))
    objective = PretrainingObjective()
    if options.do_train:

        def batches_from(step: int):
            return training_batches(
                train_files,
                features,
                options.train_batch_size,
                options.random_seed,
                options.shuffle_buffer_size,
                first_step=step,
            )

        train_model(model, objective, batches_from, strategy, options)
    if options.do_eval:
        if not options.do_train:
            initialize(model, options.output_dir, "output_dir")
        results = evaluate(
            EvalStep(model, objective, strategy),
            evaluation_batches(eval_files, features, options.eval_batch_size),
            options.max_eval_steps,
        )
        results["loss"] = sum(results[name] for name in objective.losses)
        results["global_step"] = trained_step(options.output_dir)
        write_results(options.output_dir, results)
