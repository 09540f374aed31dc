"""The TFRecord files that pretraining reads, and what their manifests say about them."""

import contextlib
import dataclasses
import hashlib
import logging
import os
import zlib
from collections import ChainMap
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from albert_tf.checkpoints import step_of
from albert_tf.config import AlbertConfig
from albert_tf.engines.base import Engine
from albert_tf.errors import InputError
from albert_tf.files import converted, exists, is_remote, read_bytes, read_json, sha256_of, size
from albert_tf.input import record_order
from albert_tf.input.features import Feature, limited, pretraining_features, row_features
from albert_tf.input.manifest import (
    Manifest,
    Rows,
    check_manifests,
    dynamic_masks,
    find_manifests,
    packed_rows,
    pair_objective,
    record_files,
    vocabularies,
)
from albert_tf.input.masking import Masks
from albert_tf.input.record_batches import RecordStream
from albert_tf.input.record_index import FileIndex, RecordIndex, find_indexes, fingerprint
from albert_tf.input.record_reader import check_files
from albert_tf.interop.adjacent_files import (
    AdjacentFiles,
    EvaluatedSet,
    evaluation_data,
    find_adjacent_files,
    json_text,
    load_tokenizer,
)
from albert_tf.tokenizers import Tokenizer
from albert_tf.training.folder import is_trained
from albert_tf.training.options import PretrainingOptions
from albert_tf.training.pretraining_tasks import PretrainingTask, find_pretraining_task

_logger = logging.getLogger(__name__)

# What the order of the training examples of a run depends on.
ORDER_FILE = "data_order.json"
# The TFRecord files in which the length of every record was checked.
CHECKED_FILE = "checked_records.json"

# Other data differs in its first examples, so that there is no need to read all of it.
_MOST_HASHED, _HASHED_BYTES = 64, 1 << 16

# Option -> its default, if the model in the output folder does not record it.
_LENGTHS = {"max_seq_length": 512, "max_predictions_per_seq": 20}


class Records(NamedTuple):
    """TFRecord files, and what their manifests say about them.

    Attributes:
        record_index: where the records of the files are.
        features: what an example contains.
        masks: how to draw masks; None where the files contain them.
        task: the objective that they were made for.
        manifests: of the files, by path.
        checked: file -> fingerprint of its index, which fits the lengths of the records.
        rows: what a record has on average if it is a row of examples; None if it is an example.
    """

    record_index: RecordIndex
    features: dict[str, Feature]
    masks: Masks | None
    task: PretrainingTask
    manifests: dict[str, Any]
    checked: Mapping[str, str] = {}
    rows: Rows | None = None

    @classmethod
    def find(
        cls, engine: Engine, options: PretrainingOptions, argument: str, config: AlbertConfig
    ) -> "Records":
        """Return the files of an option.

        Raises:
            InputError: If they, or their manifests, do not fit the options or the model.
        """
        with engine.workers.synchronized():
            files = record_files(getattr(options, argument), argument)
            length, predictions = options.max_seq_length, options.max_predictions_per_seq
            manifests = find_manifests(files)
            rows = packed_rows(manifests, files)
            check_manifests(manifests, length, predictions, config.vocab_size)
            masks = dynamic_masks(manifests, predictions)
            task = find_pretraining_task(pair_objective(manifests))
            features = task.stored_features(length, predictions, dynamic_masks=masks is not None)
            if rows:
                if task.features is not pretraining_features:
                    raise InputError(
                        f"`{argument}`: has rows, but {task.name} reads only files made without "
                        "--pack_rows"
                    )
                features = row_features(length, None if masks else predictions)
            features = limited(features, config.vocab_size, config.type_vocab_size)
            check_files(files, features)
        engine.workers.check_same(
            {
                f"`{argument}`": {
                    "files": list(map(os.path.basename, files)),
                    "bytes": [0 if is_remote(file) else size(file) for file in files],
                    "checksums of the beginnings": [
                        zlib.crc32(b"" if is_remote(file) else read_bytes(file, 0, _HASHED_BYTES))
                        for file in files[:_MOST_HASHED]
                    ],
                    **{os.path.basename(path): each for path, each in manifests.items()},
                }
            }
        )
        indexes, checked = engine.workers.from_chief(lambda: _find_indexes(engine, options, files))
        index = RecordIndex.create(files, indexes)
        return cls(index, features, masks, task, manifests, checked, rows)

    def data_so_far(self, folder: str) -> dict[str, Any]:
        """Return the manifests by name, then others that the model in a folder was trained on."""
        data = {os.path.basename(path): manifest for path, manifest in self.manifests.items()}
        before = find_adjacent_files(folder).data if is_trained(folder) else {}
        for name, manifest in before.items():
            if manifest not in data.values():
                while name in data:
                    name = f"earlier {name}"
                data[name] = manifest
        return data

    def training_stream(self, options: PretrainingOptions) -> RecordStream:
        """Return endless shuffled batches."""
        stream = self.evaluation_stream(options)
        return dataclasses.replace(
            stream,
            batch_size=options.train_batch_size,
            shuffle_buffer_size=options.shuffle_buffer_size,
        )

    def evaluation_stream(self, options: PretrainingOptions) -> RecordStream:
        """Return all examples once."""
        return RecordStream(
            self.record_index,
            self.features,
            options.eval_batch_size,
            options.random_seed,
            self.masks,
        )

    def order(self, options: PretrainingOptions) -> dict[str, int | str]:
        """Return the content of `data_order.json`."""
        size: int | str = options.train_batch_size
        if options.batch_size_warmup:
            size = ",".join((*options.batch_size_warmup, str(size)))
        return {
            "version": record_order.VERSION,
            "examples": self.record_index.examples,
            "random_seed": options.random_seed,
            "train_batch_size": size,
            "shuffle_buffer_size": options.shuffle_buffer_size,
        }

    def vocabulary_files(self) -> dict[str, bytes]:
        """Return the vocabulary that the files were made with, to be kept next to the checkpoints.

        It is searched under the name that a manifest records, and next to the manifest.

        Returns:
            File name -> content; empty, with a note, if the vocabulary is not found.
        """
        name, found = self._vocabulary()
        if found:
            is_model = name.endswith(".model")
            return {os.path.basename(name) if is_model else "vocab.txt": read_bytes(found)}
        if name:
            _logger.info(
                "note: the vocabulary %s of the training data was not found unchanged, and is not "
                "copied to the output folder",
                name,
            )
        return {}

    def _vocabulary(self) -> tuple[str, str | None]:
        """Return the recorded name of the vocabulary, "" if none, and the path of the file."""
        name = ""
        for path, manifest in self.manifests.items():
            settings = manifest["settings"]
            name = settings.get("spm_model_file") or settings.get("vocab_file") or ""
            digest = (manifest.get("vocabulary") or {}).get("sha256")
            for found in (name, os.path.join(os.path.dirname(path), os.path.basename(name))):
                if name and digest and exists(found) and sha256_of(found) == digest:
                    return name, found
        return name, None

    def tokenizer(self, folder: str) -> Tokenizer | None:
        """Load the vocabulary of the files, or else that in a training folder; None without any."""
        adjacent = find_adjacent_files(folder)
        path = self._vocabulary()[1] or adjacent.vocabulary
        if not path:
            return None
        manifests = (converted(each, path, Manifest) for path, each in self.manifests.items())
        own = [AdjacentFiles(normalization=each.normalization) for each in manifests]
        return load_tokenizer(path, None, [*own, adjacent])

    def evaluation_data(self, options: PretrainingOptions) -> str:
        """Return the content of `evaluation_data.json`: what the results are about."""
        listed = ", ".join(map(os.path.basename, self.record_index.files))
        return evaluation_data([EvaluatedSet("", listed, self.evaluated(options))])

    def evaluated(self, options: PretrainingOptions) -> int:
        """Return the number of examples that an evaluation is about; of rows, the mean number."""
        steps = options.max_eval_steps or self.record_index.examples
        records = min(self.record_index.examples, steps * options.eval_batch_size)
        return round(records * self.rows.examples) if self.rows else records

    def flops(self, task: PretrainingTask, config: AlbertConfig, lengths: tuple[int, int]) -> float:
        """Return the operations on a record; `lengths` are those of a row or an example.

        Those of a row are of its real tokens, each example of the mean length.
        """
        if not self.rows:
            return task.flops_per_example(config, *lengths)
        count = max(self.rows.examples, 1)
        length, predictions = self.rows.tokens / count, lengths[1] / count
        return count * task.flops_per_example(config, length, predictions)

    def identity(self) -> str:
        """Return a hash of the sizes and beginnings of the files, wherever they are."""
        digest = hashlib.sha256(self.record_index.bytes.tobytes())
        for path in self.record_index.files[:_MOST_HASHED]:
            digest.update(read_bytes(path, 0, _HASHED_BYTES))
        return digest.hexdigest()


def check_vocabularies(
    options: PretrainingOptions, is_trained: bool, *records: Records | None
) -> None:
    """Check that files, the model to use or to start from, and the teacher have one vocabulary.

    Those are compared of which it is known.

    Raises:
        InputError: If ids would mean other pieces.
    """
    found = vocabularies(ChainMap(*(each.manifests for each in records if each is not None)))
    if len(found) > 1:
        listed = ", ".join(sorted(found.values()))
        raise InputError(f"the files were made with different vocabularies: {listed}")
    models = ["output_dir" if is_trained else "init_checkpoint"]
    models += ["teacher"] if options.do_train else []
    for argument in models if found else ():
        model = getattr(options, argument)
        known = find_adjacent_files(model).vocabulary_digests() if model else set()
        if known and known.isdisjoint(found):
            raise InputError(
                f"`{argument}`={model}: has another vocabulary than the examples "
                f"({', '.join(found.values())})"
            )


def check_order(
    options: PretrainingOptions, order: dict[str, int | str], checkpoint: str | None
) -> None:
    """Warn if a resumed run has its examples in another order than before.

    `checkpoint` is the latest in `output_dir`.

    Raises:
        InputError: If the run was started by a version with another order.
    """
    if checkpoint is None or step_of(checkpoint) >= options.num_train_steps:
        return
    path = f"{options.output_dir}/{ORDER_FILE}"
    before = read_json(path, dict[str, int | str]) if exists(path) else {"version": 1}
    version = before.get("version")
    if version != order["version"]:
        raise InputError(
            f"`output_dir`={options.output_dir}: {os.path.basename(checkpoint)} was trained on "
            f"examples in the order of version {version}, but this program has version "
            f"{order['version']}; resume with the program that started the run, or write "
            f'{{"version": {order["version"]}}} to {path} to continue in the new order, in which '
            "some examples of the current epoch are repeated and others are left out"
        )
    changed = [
        f"{name} was {before[name]} and is {value}"
        for name, value in order.items()
        if before.get(name, value) != value
    ]
    if changed:
        _logger.warning(
            "%s: %s; examples are in another order from here, in which some of the current epoch "
            "are repeated and others are left out",
            path,
            ", ".join(changed),
        )


def _find_indexes(
    engine: Engine, options: PretrainingOptions, files: Sequence[str]
) -> tuple[list[FileIndex], dict[str, str]]:
    """Return the indexes of TFRecord files, and `Records.checked`.

    TensorFlow's reader takes memory for the length that a record declares, and the process ends if
    there is not as much. All lengths are therefore followed before a run reads its files for the
    first time; a run that resumes believes the indexes of files that have not changed since.
    """
    if engine.checks_lengths:
        return find_indexes(files), {}
    before: dict[str, str] = {}
    with contextlib.suppress(InputError):  # missing or damaged: check again
        before = read_json(f"{options.output_dir}/{CHECKED_FILE}", dict[str, str])
    indexes = find_indexes(files, before)
    return indexes, dict(zip(files, map(fingerprint, files, indexes), strict=True))


def with_trained_lengths(options: PretrainingOptions) -> PretrainingOptions:
    """Return the options with lengths that were not given as in the manifests of the training data.

    Without a record in `output_dir`, they are the defaults of the original.

    Raises:
        InputError: If the record is damaged.
    """
    missing = [name for name in _LENGTHS if getattr(options, name) is None]
    if not missing:
        return options
    data = find_adjacent_files(options.output_dir).data if exists(options.output_dir) else {}
    settings: dict[str, Any] = next((manifest["settings"] for manifest in data.values()), {})
    return dataclasses.replace(
        options, **{name: settings.get(name, _LENGTHS[name]) for name in missing}
    )


def untrained_positions(options: PretrainingOptions, source: str | None) -> str | None:
    """Return a line if examples are longer than those that the weights of `source` come from."""
    data = find_adjacent_files(source).data if source else {}
    before = max((manifest["settings"]["max_seq_length"] for manifest in data.values()), default=0)
    if not 0 < before < options.max_seq_length:
        return None
    return (
        f"{source}: the training data so far had up to {before} tokens; weight decay apart, the "
        f"embeddings of positions {before + 1} to {options.max_seq_length} begin as initialized"
    )


def checked_file(*records: Records | None) -> dict[str, str]:
    """`CHECKED_FILE` and its content, if lengths were checked."""
    checked = {file: mark for each in records if each for file, mark in each.checked.items()}
    return {CHECKED_FILE: json_text(checked)} if checked else {}
