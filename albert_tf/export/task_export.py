"""Exports of fine-tuned models, which take strings."""

import abc
import contextlib
import dataclasses
import functools
import json
import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

import keras
import tensorflow as tf

from albert_tf.config import CONFIG_FILE, AlbertConfig
from albert_tf.errors import InputError
from albert_tf.export.export_options import ExportOptions
from albert_tf.export.graph_tokenizers import graph_tokenizer
from albert_tf.files import read_bytes, write_bytes, write_text
from albert_tf.finetuning.trained_settings import TaskSettings, read_settings
from albert_tf.interop.adjacent_files import AdjacentFiles, labels_text
from albert_tf.interop.file_names import LABELS_FILE
from albert_tf.interop.heads import create_model
from albert_tf.interop.loading import Preset
from albert_tf.task_kinds import TaskKind, heads
from albert_tf.tokenizers import Tokenizer, normalization
from albert_tf.weights import Weights

TEXTS = tf.TensorSpec([None], tf.string)

# Number of windows that a model reads at a time, which bounds memory for very long texts.
_BATCH = 32


class TrainedModel(NamedTuple):
    """A fine-tuned model with everything that its export needs.

    `adjacent` are the files next to its weights; `settings` say how it reads texts.
    """

    head: str
    model: keras.Model
    tokenizer: Tokenizer
    adjacent: AdjacentFiles
    settings: Any

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels next to the weights, or their numbers if there are none."""
        return self.adjacent.labels_of(self.model.num_labels)


class TaskExport(tf.Module, abc.ABC):
    """A fine-tuned model together with its tokenizer: takes strings and returns answers.

    Files are saved as assets: config, vocabulary, labels.

    Attributes:
        settings_class: how models of this kind read texts.
        inputs: of `_answers`, whose arguments give them their names.
        example_inputs: examples of them as Python code.
    """

    settings_class: ClassVar[type[TaskSettings]]
    inputs: ClassVar[tuple[tf.TensorSpec, ...]] = (TEXTS,)
    example_inputs: ClassVar[str] = ""

    def __init__(self, trained: TrainedModel, files: list[str]):
        super().__init__(name="albert")
        model, tokenizer = trained.model, trained.tokenizer
        # Not tracked: a tracked Keras model would be saved with a second copy of every weight.
        object.__setattr__(self, "_model", model)
        self._settings = trained.settings
        # Keys of the weights as in training checkpoints, so that an export can be read like one.
        self.params = {weight.path: weight.value for weight in model.weights}
        self.dropout_state = model.encoder.seed_generator.state.value
        self.tokenizer = graph_tokenizer(tokenizer)
        self.files = [tf.saved_model.Asset(file) for file in files]
        self._symbols = self.tokenizer.symbols

    @classmethod
    def example(cls, settings: Any) -> str:
        """Return `example_inputs` of a model with some settings."""
        return cls.example_inputs

    def signatures(self) -> dict:
        """Return the serving signatures by name; by default `serving_default`, with `inputs`."""
        answered = functools.wraps(self._answers)(lambda *texts: self._answered(*texts))
        function = tf.function(answered, autograph=False, input_signature=self.inputs)
        return {"serving_default": function}

    @abc.abstractmethod
    def _answers(self, *texts: tf.Tensor) -> dict[str, tf.Tensor]:
        """Return the outputs of the signature for at least one text of each kind."""

    def _answered(self, *texts: tf.Tensor) -> dict[str, tf.Tensor]:
        """Return the same also for a batch of 0, by way of an empty text."""
        count = tf.shape(texts[0])[0]
        outputs = self._answers(*(_with_empty_text(each, count == 0) for each in texts))
        return {name: values[:count] for name, values in outputs.items()}

    def _in_batches(
        self, features: dict[str, tf.Tensor], names: Sequence[str]
    ) -> dict[str, tf.Tensor]:
        """Return outputs of the model for windows, `[windows, seq]`, computed in batches."""
        windows = tf.shape(features["input_ids"])[0]

        def read(first, *arrays):
            after = first + _BATCH
            outputs = self._model({name: values[first:after] for name, values in features.items()})
            pairs = zip(arrays, names, strict=True)
            number = first // _BATCH
            return after, *(array.write(number, outputs[name]) for array, name in pairs)

        arrays = [
            tf.TensorArray(
                tf.int32 if name.endswith("_index") else tf.float32,
                size=(windows + _BATCH - 1) // _BATCH,
                infer_shape=False,
            )
            for name in names
        ]
        _, *arrays = tf.while_loop(
            lambda first, *_: first < windows, read, [0, *arrays], parallel_iterations=1
        )
        return {name: array.concat() for name, array in zip(names, arrays, strict=True)}


def _with_empty_text(texts: tf.Tensor, is_needed: tf.Tensor) -> tf.Tensor:
    """Add a row of empty texts (or zeros), at least one, to `[batch]` or `[batch, options]`."""
    shape = tf.shape(texts)
    row = tf.tensor_scatter_nd_update(tf.maximum(shape, 1), [[0]], shape[:1] + 1)
    wanted = tf.where(is_needed, row, shape)
    missing = tf.reduce_prod(wanted) - tf.size(texts)
    return tf.reshape(
        tf.concat([tf.reshape(texts, [-1]), tf.zeros([missing], texts.dtype)], 0), wanted
    )


def task_settings(kind: TaskKind, options: ExportOptions, source: Preset) -> Any:
    """Return how a model reads texts: the options win over the files next to the weights.

    Raises:
        InputError: If a length is longer than the model supports, or too short for the task; or as
            of `Preset.target`.
    """
    settings_class = kind.load("export").settings_class
    names = [field.name for field in dataclasses.fields(settings_class)]
    changes = {name: getattr(options, name, None) for name in names}
    if kind.problem_types:
        changes["kind"] = source.target(kind)
    path, part = options.init_checkpoint, settings_class.part
    settings = read_settings(settings_class, path, kind.settings_file, changes)
    longest = source.config.max_position_embeddings
    length = settings.max_seq_length
    if length is None:
        length = min(settings.default_length, longest)
    if length > longest:
        raise InputError(
            f"`max_seq_length`={length}: must be at most {longest}, the model's "
            "max_position_embeddings"
        )
    excess = settings.min_length - length
    if part and excess > 0 and changes[part] is None:
        recorded = read_settings(settings_class, path, kind.settings_file, {})
        if recorded.max_seq_length is None:  # nor is the part, whose default has to fit
            fitting = max(getattr(settings, part) - excess, 1)
            settings = dataclasses.replace(settings, **{part: fitting})
    if length < settings.min_length:
        raise InputError(f"`max_seq_length`={length}: must be at least {settings.min_length}")
    return dataclasses.replace(settings, max_seq_length=length)


def create_exported_model(
    head: str, config: AlbertConfig, settings: Any, weights: Weights
) -> keras.Model:
    """Create a model with as many outputs as its weights have, and as its settings say."""
    shapes = {path: tensor.shape for path, tensor in weights.tensors.items()}
    arguments = {name: getattr(settings, name) for name in heads()[head].arguments}
    return create_model(head, config, shapes, **arguments)


@contextlib.contextmanager
def assets(texts: Mapping[str, str], vocabulary: str) -> Iterator[list[str]]:
    """Yield the paths of files with these texts, and of a copy of a vocabulary.

    TensorFlow copies them into a SavedModel when it is saved, and itself reaches few servers.
    """
    with tempfile.TemporaryDirectory() as folder:
        paths = [os.path.join(folder, name) for name in texts]
        for path, text in zip(paths, texts.values(), strict=True):
            write_text(path, text)
        paths.append(os.path.join(folder, os.path.basename(vocabulary)))
        write_bytes(paths[-1], read_bytes(vocabulary))
        yield paths


def write_task(folder: str, kind: TaskKind, trained: TrainedModel) -> str:
    """Write a model that takes strings into its folder in an export; return a line about it.

    Raises:
        InputError: If TensorFlow Text is missing.
    """
    files = {
        CONFIG_FILE: trained.model.config.to_json(),
        normalization.CONFIG_FILE: trained.tokenizer.normalization.to_json(),
    }
    if trained.adjacent.labels:
        files[LABELS_FILE] = labels_text(trained.adjacent.labels)
    target = os.path.join(folder, kind.export_folder)
    with assets(files, trained.tokenizer.path) as paths:
        module = kind.load("export")(trained, paths)
        signatures = module.signatures()
        tf.saved_model.save(module, target, signatures=signatures)
    # Where weights that are read from the export have what says what they mean.
    files[kind.settings_file] = json.dumps(dataclasses.asdict(trained.settings)) + "\n"
    for name in {LABELS_FILE, kind.settings_file}.intersection(files):
        write_text(os.path.join(target, name), files[name])
    return f"{kind.export_folder}: signatures {', '.join(sorted(signatures))}"
