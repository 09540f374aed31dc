"""Fine-tuning of a classifier: train, evaluate, predict."""

from __future__ import annotations

import json

import numpy as np
import tensorflow as tf

from albert_tf.config import AlbertConfig
from albert_tf.errors import InputError
from albert_tf.files import exists, open_file, write_text
from albert_tf.finetuning.featurize import featurize
from albert_tf.finetuning.metrics import score, softmax
from albert_tf.finetuning.options import ClassifierOptions
from albert_tf.finetuning.tasks import (
    Example,
    Task,
    create_task,
    label_ids,
    labels_of,
    read_examples,
)
from albert_tf.flops import classification_flops
from albert_tf.input.examples import evaluation_batches, training_batches
from albert_tf.interop.companions import LABELS_FILE
from albert_tf.modeling.heads import AlbertForSequenceClassification
from albert_tf.modeling.losses import ClassificationObjective
from albert_tf.tokenization import Tokenizer
from albert_tf.training import workers
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


def classify(options: ClassifierOptions) -> None:
    """Trains, evaluates and predicts as the options say; everything ends up in `--output_dir`.

    Leaves checkpoints, `albert_config.json`, `labels.json`, `metrics.jsonl`, TensorBoard events,
    and with `--do_eval` `eval_results.txt`, with `--do_predict` `test_results.tsv` (a row of
    probabilities per input row, in the order of `labels.json`) and `predictions.tsv` (row number
    and label).

    Raises:
        InputError: a flag or file is not what it should be.
    """
    options.check()
    task = create_task(options)
    wanted = {
        "train": options.do_train,
        "eval": options.do_eval,
        "predict": options.do_predict,
    }
    examples = {split: read_examples(task, split) for split in wanted if wanted[split]}
    labels = _labels(task, examples, options)
    ids = {
        split: np.array(label_ids(examples[split], labels), np.int32)
        for split in examples
        if split != "predict"
    }
    tokenizer = Tokenizer.load(options.spm_model_file, options.do_lower_case)
    _check_vocabulary(tokenizer, options)
    features = {split: _features(split, examples[split], tokenizer, options) for split in examples}
    config, strategy = prepare(options)
    per_replica("predict_batch_size", options.predict_batch_size, strategy)
    with training_folder(options):
        _classify(options, config, strategy, task, labels, features, ids)


def _classify(
    options: ClassifierOptions,
    config: AlbertConfig,
    strategy: tf.distribute.Strategy,
    task: Task,
    labels: tuple[str, ...],
    features: dict[str, dict[str, np.ndarray]],
    ids: dict[str, np.ndarray],
) -> None:
    with strategy.scope():
        model = AlbertForSequenceClassification(
            config, len(labels), options.classifier_dropout, dtype=dtype_policy(options.dtype)
        )
    if options.do_train:
        arrays = {**features["train"], "label_ids": ids["train"]}

        def batches_from(step: int):
            return training_batches(arrays, options.train_batch_size, options.random_seed, step)

        description = {LABELS_FILE: json.dumps(labels, ensure_ascii=False) + "\n"}
        flops = classification_flops(config, options.max_seq_length, len(labels))
        train_model(
            model, ClassificationObjective(), batches_from, strategy, options, flops, description
        )
        global_step = trained_step(options.output_dir)
    else:
        global_step = restore_trained(model, options.output_dir)

    step = PredictStep(model, strategy)
    if options.do_eval:
        logits = predict(step, evaluation_batches(features["eval"], options.eval_batch_size))
        results = score(task.metrics, ids["eval"], logits)
        write_results(options.output_dir, {**results, "global_step": global_step})
    if options.do_predict:
        logits = predict(step, evaluation_batches(features["predict"], options.predict_batch_size))
        _write_predictions(options.output_dir, labels, softmax(logits))


def _labels(task: Task, examples: dict[str, list[Example]], options: ClassifierOptions):
    """The labels: of the training rows, or those that the model in the folder was trained on."""
    path = f"{options.output_dir}/{LABELS_FILE}"
    if "train" in examples:
        labels = labels_of(task, examples["train"])
        if exists(path) and _read_labels(path) != labels:
            raise InputError(
                f"--output_dir={options.output_dir}: holds a classifier of other labels "
                f"({', '.join(_read_labels(path)[:10])})"
            )
        return labels
    if not exists(path):
        raise InputError(
            f"--output_dir={options.output_dir}: holds no trained classifier ({LABELS_FILE})"
        )
    return _read_labels(path)


def _read_labels(path: str) -> tuple[str, ...]:
    with open_file(path) as file:
        return tuple(json.load(file))


def _check_vocabulary(tokenizer: Tokenizer, options: ClassifierOptions) -> None:
    config = AlbertConfig.from_json_file(options.albert_config_file)
    config.check_vocabulary(tokenizer.vocab_size, options.spm_model_file)


def _features(split: str, examples, tokenizer: Tokenizer, options: ClassifierOptions):
    features, truncated = featurize(examples, tokenizer, options.max_seq_length)
    cut = f", {truncated} cut to {options.max_seq_length} tokens" if truncated else ""
    print(f"{split}: {len(examples)} examples{cut}")
    return features


def _write_predictions(output_dir: str, labels: tuple[str, ...], probabilities: np.ndarray) -> None:
    if not workers.is_chief():
        return
    rows = ("\t".join(f"{value:.8g}" for value in row) for row in probabilities)
    write_text(f"{output_dir}/test_results.tsv", "".join(f"{row}\n" for row in rows))
    guesses = probabilities.argmax(axis=-1)
    lines = ["id\tlabel", *(f"{row}\t{labels[guess]}" for row, guess in enumerate(guesses))]
    write_text(f"{output_dir}/predictions.tsv", "\n".join(lines) + "\n")
    print(f"{len(guesses)} predictions in {output_dir}/predictions.tsv")
