"""What the runs of a command share: all that is read before the first one starts."""

import dataclasses
import itertools
import logging
import zlib
from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from albert_tf.config import AlbertConfig
from albert_tf.engines.base import Engine
from albert_tf.errors import InputError, arguments_renamed
from albert_tf.files import is_folder, is_read_only, read_bytes, write_text
from albert_tf.finetuning.finetuning_options import FROM_HUB, STANDARD_STREAM, FineTuningOptions
from albert_tf.finetuning.task import ExampleSet, FineTuningTask, data_key
from albert_tf.hub.names import local_weights
from albert_tf.interop.adjacent_files import (
    AdjacentFiles,
    EvaluatedSet,
    check_tokenizer,
    evaluation_data,
    find_adjacent_files,
    load_tokenizer,
    tokenizer_files,
)
from albert_tf.interop.convert import convert
from albert_tf.interop.convert_options import ConvertOptions
from albert_tf.interop.file_names import EVALUATION_DATA_FILE, encoder_folder, folder_of
from albert_tf.interop.heads import possible_heads
from albert_tf.interop.loading import open_weights
from albert_tf.logs import counted
from albert_tf.task_kinds import task_kinds
from albert_tf.tokenizers import Tokenizer
from albert_tf.tokenizers.unknown import NOTABLE_SHARE, UnknownCharacters, describe_unknown
from albert_tf.training import folder
from albert_tf.training.evaluation import BestCheckpoint
from albert_tf.training.restoring import with_local_weights
from albert_tf.training.run import prepare, unless_read_only, write_results

logger = logging.getLogger(__name__)

# In which unknown characters are looked for, and of which unknown tokens are measured; each takes
# at most about a second.
_MOST_TEXTS, _MOST_MEASURED = 20_000, 2_000

CreateTask: TypeAlias = Callable[[Any, Tokenizer], FineTuningTask]


class RunContext(NamedTuple):
    """What the runs of one command share.

    The `files` are file name -> content that goes next to the checkpoints, besides the config and
    the task's own files.
    """

    task: FineTuningTask
    sets: list[ExampleSet]
    config: AlbertConfig
    engine: Engine
    files: dict[str, str | bytes]

    def of_split(self, split: str) -> list[ExampleSet]:
        """Return the sets of a split."""
        return [examples for examples in self.sets if examples.split == split]

    @property
    def epoch_size(self) -> int:
        """The number of examples in an epoch; 0 without training."""
        return sum(map(self.task.epoch_size, self.of_split("train")))

    @property
    def description(self) -> dict[str, str | bytes]:
        """All files that go next to the checkpoints, except the model's config."""
        files = {**self.files, **self.task.adjacent_files()}
        if self.of_split("eval"):
            files[EVALUATION_DATA_FILE] = self.evaluation_data
        return files

    @property
    def evaluation_data(self) -> str:
        """The content of `evaluation_data.json`."""
        return evaluation_data(
            EvaluatedSet(each.name, self.task.data_name(each), len(each.examples))
            for each in self.of_split("eval")
        )

    def write_results(self, folder: str, results: dict[str, float]) -> None:
        """Print and write `eval_results.txt` and `evaluation_data.json`; only the chief does so."""
        write_results(self.engine, folder, results)
        if self.engine.workers.is_chief:
            with unless_read_only():
                write_text(f"{folder}/{EVALUATION_DATA_FILE}", self.evaluation_data)


# The options of a run, with `resolved` numbers of steps, and its task and examples.
Run: TypeAlias = tuple[FineTuningOptions, RunContext]


def open_context(
    options: FineTuningOptions, create_task: CreateTask, engine: Engine | None = None
) -> Run:
    """Read all that a run needs, and fetch what is not here; write nothing.

    The options are checked. The engine may be that of an earlier model in this process.

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
    epoch_size = sum(task.epoch_size(each) for each in sets if each.split == "train")
    inputs = {
        f"{each.split} {each.name}".strip(): {
            "examples": len(each.examples),
            "checksum of tokens": zlib.crc32(each.features.ids.tobytes()),
            "checksum of tokens and labels to train or evaluate on": data_key([each]),
        }
        for each in sets
    }
    inputs = {"vocabulary": {"checksum": zlib.crc32(read_bytes(tokenizer.path))}, **inputs}
    config, engine = prepare(options.resolved(epoch_size), config, engine, inputs)
    check_batches(options, engine)
    if not options.do_train and options.metric_for_best is None:
        recorded = BestCheckpoint(engine, options.output_dir, task.metric).recorded()
        if recorded and recorded.metric in task.metric_names:
            task.metric = recorded.metric
    engine.devices.per_replica("predict_batch_size", options.predict_batch_size)
    return options, RunContext(task, sets, config, engine, tokenizer_files(tokenizer))


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
    chosen, names = task.options.metric_for_best, task.metric_names
    if chosen not in (None, *names):
        raise InputError(f"`metric_for_best`={chosen}: must be one of {', '.join(names)}")
    return chosen or task.metric


def read_sets(task: FineTuningTask) -> list[ExampleSet]:
    """Read and encode every split that the task's options ask for, and report the sizes."""
    read = {split: task.read(split) for split in task.options.splits()}
    sets = [
        ExampleSet(split, name, examples, task.encode(split, examples))
        for split, by_name in read.items()
        for name, examples in by_name.items()
    ]
    for each in sets:
        features, length, note = each.features, task.options.max_seq_length, ""
        if count := int((features.tokens_cut > 0).sum()):
            note = (
                f"; {count:,} ({count / len(features):.1%}) truncated to {length} tokens "
                f"({counted(features.tokens_cut.sum(), 'token')} dropped)"
            )
        elif count := features.texts_split:
            note = (
                f"; {count:,} ({count / len(each.examples):.1%}) longer than {length} tokens, so "
                f"that there are {counted(len(features), 'window')}"
            )
        title = f"{each.split} {each.name}".strip()
        logger.info("%s: %s%s", title, counted(len(each.examples), "example"), note)
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
    characters, sample = UnknownCharacters(tokenizer), texts[:_MOST_MEASURED]
    lost = characters.in_unknown_tokens(sample)[1] / max(sum(map(len, sample)), 1)
    return describe_unknown(unknown, tokens, characters.count(texts), lost)


def with_hub_module(options: FineTuningOptions) -> FineTuningOptions:
    """Return the options with `albert_hub_module_handle` as the weights to start from.

    Raises:
        InputError: If it is no module, cannot be fetched, or contradicts `init_checkpoint`.
    """
    handle = options.albert_hub_module_handle
    if not handle:
        for name in ("spm_model_file", "vocab_file"):
            if getattr(options, name) == FROM_HUB:
                raise InputError(f"`{name}`={FROM_HUB}: needs `albert_hub_module_handle`")
        return options
    if options.init_checkpoint:
        raise InputError(
            f"`albert_hub_module_handle`={handle}: give either this or "
            f"`init_checkpoint`={options.init_checkpoint}, not both"
        )
    # The original's README writes `--albert_hub_module_handle==https://...`.
    name = handle.removeprefix("=")
    folder = local_weights(name, argument="albert_hub_module_handle")
    if is_read_only(folder) or not is_folder(folder):
        raise InputError(
            f"`albert_hub_module_handle`={handle}: neither a folder nor a handle such as "
            "https://tfhub.dev/google/albert_base/1"
        )
    return dataclasses.replace(options, init_checkpoint=encoder_folder(folder))


def convert_weights(options: FineTuningOptions) -> None:
    """Convert the weights of a fine-tuned model, `init_checkpoint`, to a trained `output_dir`.

    Raises:
        InputError: If they have no head of the task, `output_dir` exists, or there are several
            processes, all of which would write it.
    """
    if options.strategy == "multi_worker" or (options.num_processes or 1) > 1:
        raise InputError(
            f"`init_checkpoint`={options.init_checkpoint}: is evaluated without `do_train` by a "
            "single process only; convert it first: convert_checkpoint.py"
        )
    path = local_weights(options.init_checkpoint or "", argument="init_checkpoint")
    with arguments_renamed(path="init_checkpoint"):
        found = possible_heads(open_weights(path), folder_of(path))
    kinds = (kind for kind in task_kinds() if kind.settings_file == options.settings_file)
    of_task = [head for kind in kinds for head in kind.heads]
    heads = [head.name for head in of_task if head.name in found or not head.has_variables]
    if not heads:
        raise InputError(
            f"`init_checkpoint`={options.init_checkpoint}: has no head of this task, but of kind "
            f"{found[0]}; train one with `do_train`"
        )
    vocabularies = (options.spm_model_file, options.vocab_file)
    with arguments_renamed(input="init_checkpoint", output="output_dir"):
        convert(
            ConvertOptions(
                input=path,
                output=options.output_dir,
                to_format="jax" if options.engine == "jax" else "albert_tf",
                head=heads[0],
                spm_model_file=next((v for v in vocabularies if v and v != FROM_HUB), None),
                do_lower_case=options.do_lower_case,
            )
        )


def find_config(options: FineTuningOptions) -> AlbertConfig:
    """Return the model's config (see `folder.find_config`), with `albert_dropout` applied.

    Raises:
        InputError: If there is none, or it is invalid.
    """
    config = folder.find_config(options)
    rate = options.albert_dropout
    if rate is None:
        return config
    return dataclasses.replace(config, hidden_dropout_prob=rate, attention_probs_dropout_prob=rate)


def find_tokenizer(options: FineTuningOptions) -> Tokenizer:
    """Return the tokenizer of the model.

    Its vocabulary is `spm_model_file`, else `vocab_file`, else the one in `output_dir`, else the
    one next to `init_checkpoint`.

    Raises:
        InputError: If there is none, it is invalid, or the weights are of another one.
    """
    # The output folder may not exist yet; for a file, its folder is searched.
    places = [options.output_dir] if is_folder(options.output_dir) else []
    places += [options.init_checkpoint] if options.init_checkpoint else []
    adjacent = [find_adjacent_files(path) for path in places]
    path = _vocabulary_of(options, adjacent)
    with arguments_renamed(path="spm_model_file" if options.spm_model_file else "vocab_file"):
        tokenizer = load_tokenizer(path, options.do_lower_case, adjacent)
        for place, found in zip(places, adjacent, strict=True):
            # A folder without checkpoints is of a run that has saved nothing.
            if place == options.init_checkpoint or folder.is_trained(place):
                check_tokenizer(tokenizer, place, found)
                given, lower = options.do_lower_case, found.normalization.do_lower_case
                if None not in (given, lower) and given != lower:
                    form = "do_lower_case=%s: the model in %s was trained with %s"
                    logger.warning(form, given, place, lower)
                break
    return tokenizer


def _vocabulary_of(options: FineTuningOptions, adjacent: list[AdjacentFiles]) -> str:
    for named in (options.spm_model_file, options.vocab_file):
        if named and named != FROM_HUB:
            return named
    hub_only = FROM_HUB in (options.spm_model_file, options.vocab_file)
    for found in adjacent[-1:] if hub_only else adjacent:
        if found.vocabulary:
            return found.vocabulary
    if options.albert_hub_module_handle:
        raise InputError(
            f"`albert_hub_module_handle`={options.albert_hub_module_handle}: contains no "
            "vocabulary; name one with `spm_model_file`"
        )
    raise InputError(
        "`spm_model_file`: the vocabulary of the model is required; there is none in `output_dir`"
        + (f" or next to {options.init_checkpoint}" if options.init_checkpoint else "")
    )
