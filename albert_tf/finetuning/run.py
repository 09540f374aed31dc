"""Fine-tuning of any problem: train, evaluate, predict."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator

from albert_tf.errors import InputError
from albert_tf.finetuning.finetuning_options import STANDARD_STREAM, FineTuningOptions
from albert_tf.finetuning.finetuning_run import Setting, Work
from albert_tf.finetuning.run_report import Outputs, write_report
from albert_tf.finetuning.sources import (
    companion_files,
    find_config,
    find_tokenizer,
    with_hub_module,
)
from albert_tf.finetuning.streaming import predict_lines
from albert_tf.finetuning.sweep import run_all
from albert_tf.finetuning.task import Problem
from albert_tf.tokenizers import Tokenizer
from albert_tf.training.run import micro_batches, prepare, training_folder


def fine_tune(
    options: FineTuningOptions, create: Callable[[FineTuningOptions, Tokenizer], Problem]
) -> None:
    """Trains, evaluates and predicts as the options say; everything ends up in `--output_dir`.

    Leaves checkpoints, `albert_config.json`, the vocabulary, the problem's description,
    `metrics.jsonl`, TensorBoard events, and with `--do_eval` `eval_results.txt`, with
    `--do_predict` the problem's files of predictions, and with either a report. Several runs
    (`--seeds`, `--learning_rates`, `--train_batch_sizes`) leave this in folders of their own, and
    their comparison.

    Args:
        options: of the program.
        create: makes the problem: reads and checks all examples that are asked for.

    Raises:
        InputError: a flag or file is not what it should be.
    """
    options.check()
    with _results_alone_on_standard_output(options):
        options = with_hub_module(options)
        config = find_config(options)
        tokenizer = find_tokenizer(options)
        config.check_vocabulary(tokenizer.vocab_size, tokenizer.path)
        problem = create(options, tokenizer)
        if options.streams and type(problem).read_lines is Problem.read_lines:
            raise InputError(f"--predict_file={STANDARD_STREAM}: this program reads files only")
        _tell_sizes(options, problem)
        config, engine = prepare(options, config)
        engine.per_replica("predict_batch_size", options.predict_batch_size)
        variants = options.variants()
        for variant in variants:
            micro_batches(variant, engine)
        if engine.workers.count > 1 and (len(variants) > 1 or options.streams):
            raise InputError(
                "--strategy=multi_worker: several runs, and predictions of standard input, are for "
                "one machine"
            )
        setting = Setting(problem, config, engine, companion_files(tokenizer))
        with training_folder(options, engine):
            if len(variants) > 1:
                work = run_all(options, variants, setting)
            else:
                work = Work(variants[0], setting)
                work.train()
                work.choose()
            _finish(options, work)


def _finish(options: FineTuningOptions, work: Work) -> None:
    """Evaluates and predicts with the weights that were chosen, and reports."""
    given: list[Outputs] = []
    if options.do_eval:
        work.write_results()
        sets, outputs = work.problem.sets["eval"], work.outcome.outputs
        given += [Outputs("eval", *each) for each in zip(sets, outputs, strict=True)]
    if options.streams:
        predict_lines(work)
    elif options.do_predict:
        sets, outputs = work.problem.sets["predict"], work.write_predictions()
        given += [Outputs("predict", *each) for each in zip(sets, outputs, strict=True)]
    if given and work.setting.engine.workers.is_chief:
        write_report(options, work.problem, given)


def _tell_sizes(options: FineTuningOptions, problem: Problem) -> None:
    """Prints how many examples there are, and what was cut from them."""
    for split, sets in problem.sets.items():
        for examples in sets:
            cut = examples.features.tokens_cut
            lost = ""
            if count := int((cut > 0).sum()):
                lost = f", {count} cut to {options.max_seq_length} tokens ({cut.sum()} tokens lost)"
            name = f"{split} {examples.name}".strip()
            print(f"{name}: {len(examples.features)} examples{lost}")


@contextlib.contextmanager
def _results_alone_on_standard_output(options: FineTuningOptions) -> Iterator[None]:
    """Sends what is told of the work to standard error while predictions go to standard output."""
    if not (options.streams and options.predict_output == STANDARD_STREAM):
        yield
        return
    with contextlib.redirect_stdout(sys.stderr):
        yield
