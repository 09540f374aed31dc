"""Opens what a run needs: config, vocabulary, task, examples and engine."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Callable
from typing import Any

import numpy as np

from albert_tf.engines.base import Engine
from albert_tf.errors import InputError
from albert_tf.finetuning.finetuning_options import STANDARD_STREAM, FineTuningOptions
from albert_tf.finetuning.single_run import RunContext
from albert_tf.finetuning.sources import (
    adjacent_files,
    find_config,
    find_tokenizer,
    with_hub_module,
)
from albert_tf.finetuning.task import ExampleSet, FineTuningTask
from albert_tf.tokenizers import Tokenizer
from albert_tf.tokenizers.unknown import NOTABLE_SHARE, UnknownCharacters, describe_unknown
from albert_tf.training.evaluation import BestCheckpoint
from albert_tf.training.initial_weights import with_local_weights
from albert_tf.training.run import prepare

logger = logging.getLogger(__name__)

# In which unknown characters are looked for, and of which unknown tokens are measured; each takes
# at most about a second.
_MOST_TEXTS, _MOST_MEASURED = 20_000, 2_000


def open_context(
    options: FineTuningOptions,
    create_task: Callable[[Any, Tokenizer], FineTuningTask],
    engine: Engine | None = None,
) -> tuple[FineTuningOptions, RunContext]:
    """Read all that a run needs, and fetch what is not here; write nothing.

    Args:
        options: of the program, checked.
        create_task: the kind of task.
        engine: of an earlier model in this process; None to create it.

    Returns:
        The options, completed by the task, and what the runs share.

    Raises:
        InputError: If an argument or file is invalid.
    """
    options = with_local_weights(with_hub_module(options.with_local_files()))
    config = find_config(options)
    options = options.with_defaults(config.max_position_embeddings)
    tokenizer = find_tokenizer(options)
    config.check_vocabulary(tokenizer.vocab_size, tokenizer.path)
    task = create_task(options, tokenizer)
    if options.streams and not task.reads_standard_input:
        raise InputError(f"`predict_file`={STANDARD_STREAM}: this program reads files only")
    task.metric = find_metric(task)
    sets = read_sets(task)
    options = task.options
    train_examples = sum(len(each.examples) for each in sets if each.split == "train")
    config, engine = prepare(options.resolved(train_examples), config, engine)
    check_batches(options, engine)
    if not options.do_train and options.metric_for_best is None:
        recorded = BestCheckpoint(engine, options.output_dir, task.metric).recorded()
        if recorded and recorded.metric in task.metric_names:
            task.metric = recorded.metric
    engine.devices.per_replica("predict_batch_size", options.predict_batch_size)
    return options, RunContext(task, sets, config, engine, adjacent_files(tokenizer))


def check_batches(options: FineTuningOptions, engine: Engine) -> None:
    """Raise InputError if another machine, without Python, would have to order the examples."""
    if options.do_train and not engine.devices.makes_batches_locally:
        raise InputError(
            "`do_train`=True: the batches of fine-tuning are made by this process, not on the "
            "hosts of a TPU that is reached by name; run on the TPU VM with `tpu`=local"
        )


def find_metric(task: FineTuningTask) -> str:
    """Return the result by which checkpoints and runs are compared.

    Raises:
        InputError: If `metric_for_best` is not one of the task's.
    """
    chosen = task.options.metric_for_best
    if chosen is None:
        return task.metric
    if chosen not in task.metric_names:
        raise InputError(
            f"`metric_for_best`={chosen}: must be one of {', '.join(task.metric_names)}"
        )
    return chosen


def read_sets(task: FineTuningTask) -> list[ExampleSet]:
    """Read and encode every split that the task's options ask for, and report the sizes."""
    read = {split: task.read(split) for split in task.options.splits()}
    sets = [
        ExampleSet(split, name, examples, task.encode(split, examples))
        for split, by_name in read.items()
        for name, examples in by_name.items()
    ]
    for each in sets:
        truncated = each.features.tokens_cut
        note = ""
        if count := int((truncated > 0).sum()):
            note = (
                f"; {count:,} truncated to {task.options.max_seq_length} tokens "
                f"({truncated.sum():,} tokens dropped)"
            )
        title = f"{each.split} {each.name}".strip()
        logger.info("%s: %s examples%s", title, f"{len(each.features):,}", note)
        if unknown := _unknown_tokens(task, each):
            logger.info("%s: %s", title, unknown)
    return sets


def _unknown_tokens(task: FineTuningTask, examples: ExampleSet) -> str:
    """Return a line on the unknown tokens of a set; "" if they are fewer than `NOTABLE_SHARE`."""
    tokenizer, ids = task.tokenizer, examples.features.ids
    unknown = int((ids == tokenizer.unk_id).sum())
    tokens = int((~np.isin(ids, (tokenizer.cls_id, tokenizer.sep_id))).sum())
    if not unknown or unknown < NOTABLE_SHARE * tokens:
        return ""
    texts = list(itertools.islice(task.texts(examples.examples), _MOST_TEXTS))
    characters = UnknownCharacters(tokenizer)
    sample = texts[:_MOST_MEASURED]
    _, lost = characters.in_unknown_tokens(sample)
    share = lost / max(sum(map(len, sample)), 1)
    return describe_unknown(unknown, tokens, characters.count(texts), share)
