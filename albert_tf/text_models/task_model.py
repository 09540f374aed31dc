"""Text models of a fine-tuning task: trained, evaluated, saved and exported as by its command."""

import dataclasses
import math
import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Generic, TypeVar

import keras

from albert_tf import files
from albert_tf.checkpoints import FOLDERS
from albert_tf.config import CONFIG_FILE
from albert_tf.errors import InputError, arguments_renamed
from albert_tf.export.export_options import ExportOptions
from albert_tf.finetuning.finetuning_options import FineTuningOptions
from albert_tf.finetuning.task import ExampleSet, FineTuningTask, Outputs
from albert_tf.finetuning.trained_settings import inherit
from albert_tf.interop.adjacent_files import tokenizer_files
from albert_tf.interop.file_names import SAVED_MODEL
from albert_tf.interop.heads import warn_of_random
from albert_tf.interop.loading import Preset
from albert_tf.task_kinds import TaskKind
from albert_tf.text_models.base import TextModel, create_with_weights
from albert_tf.text_models.fitting import (
    SEED,
    FitArguments,
    StopAfter,
    epochs_of,
    evaluation_batches,
    training_batches,
)
from albert_tf.text_models.inputs import check_any
from albert_tf.training.restoring import origin_file

Task = TypeVar("Task", bound=FineTuningTask)


class TaskModel(TextModel, Generic[Task]):
    """A text model around a `FineTuningTask`, which encodes, scores and interprets.

    The task is created from the options of its command, and fed with examples made of Python values
    instead of files. A subclass must define the class attributes, and methods that make examples
    and call `_fit`, `_outputs` and `_score`. `from_preset` takes the `seed` of a new head, and
    `settings`.

    If the weights have no head of this task, `_use_task` creates one with initial weights. Where
    its shape depends on the training data, `fit` calls it. Until then, `model` raises InputError.

    Attributes:
        kind: of the task.
        settings: names of options that `from_preset` takes.
        warmup_proportion: default of `fit`; None for that of the command.
        task: what examples and outputs mean; None until that is known.
        step: training steps of the head.
    """

    kind: ClassVar[TaskKind]
    warmup_proportion: ClassVar[float | None] = None
    settings: ClassVar[tuple[str, ...]] = ("max_seq_length", "albert_dropout", "classifier_dropout")

    def __init__(self, preset: Preset, options: FineTuningOptions, dtype: str, seed: int):
        super().__init__(None, preset.tokenizer)
        self._preset = preset
        self._options = options
        self._dtype = dtype
        self._seed = seed
        self.task: Task | None = None
        self.step = preset.weights.step or 0 if self._has_head(preset) else 0

    def __getstate__(self) -> dict[str, Any]:
        # Only the names and shapes of weights are needed, not what reads them from open files.
        weights = self._preset.weights
        tensors = {name: t._replace(read=None) for name, t in weights.tensors.items()}  # type: ignore[arg-type]
        known = dataclasses.replace(weights, tensors=tensors, optimizer={})
        return {**super().__getstate__(), "_preset": self._preset._replace(weights=known)}

    @classmethod
    def _from_preset(cls, preset, dtype, *, seed=SEED, **settings):
        model = cls(preset, cls._options_of(preset, settings), dtype, seed)
        model._use_task(cls.kind.load("task")(model._options, model.tokenizer))
        return model

    @classmethod
    def _options_of(
        cls, preset: Preset, settings: dict[str, Any], **fixed: Any
    ) -> FineTuningOptions:
        """Return the options of the command: as given, else as recorded next to the weights.

        Users may give those in the attribute `settings`; the class gives `fixed`.
        """
        if unknown := set(settings).difference(cls.settings):
            raise InputError(f"`{min(unknown)}`: must be one of {', '.join(cls.settings)}")
        folder = preset.folder if cls._has_head(preset) else os.devnull
        options = cls.kind.load("options")(
            output_dir=folder, do_train=False, do_eval=False, do_predict=True, **settings, **fixed
        )
        options = inherit(options)
        options.check()
        longest = preset.config.max_position_embeddings
        options = options.with_defaults(longest)
        if options.max_seq_length > longest:
            raise InputError(
                f"`max_seq_length`={options.max_seq_length}: must be at most {longest}, the "
                "model's max_position_embeddings"
            )
        # Without splits, a task reads no files.
        return dataclasses.replace(options, do_predict=False)

    @classmethod
    def _has_head(cls, preset: Preset) -> bool:
        return any(head.name in preset.heads for head in cls.kind.heads)

    @property
    def starts_with_head(self) -> bool:
        """Whether the weights that it was created from have a head of this task."""
        return self._has_head(self._preset)

    @property
    def model(self) -> keras.Model:
        """The Keras model. Its weights may be changed, by Keras or by hand, at any time.

        Raises:
            InputError: If the model has no head yet, whose shape `fit` learns from the data.
        """
        return self._trained_model

    @property
    def _trained_model(self) -> keras.Model:
        """What `fit` trains."""
        self._known_task()
        return self._model

    def _known_task(self) -> Task:
        if self.task is None:
            name = self._preset.name
            if files.exists(os.path.join(name, self.kind.export_folder, SAVED_MODEL)):
                raise InputError(
                    f"`name`={name}: is an export, of which only the encoder is loaded; name the "
                    f"folder that it was made from, or predict with albert-predict --model={name}"
                )
            raise InputError(f"`name`={name}: has no head for this task; call `fit` first")
        return self.task

    def _use_task(self, task: Task) -> None:
        """Set the task and, if there is none yet, create its model with the preset's weights."""
        self.task = task
        if self._model is not None:
            return
        config, rate = self._preset.config, self._options.albert_dropout
        if rate is not None:
            config = dataclasses.replace(
                config, hidden_dropout_prob=rate, attention_probs_dropout_prob=rate
            )
        self._model, matched = create_with_weights(
            lambda: task.build_model(config, self._dtype), self._preset, self._seed
        )
        in_head = [path for path in matched.missing if not path.startswith("bert/")]
        if in_head and self._has_head(self._preset):
            raise InputError(
                f"`name`={self._preset.name}: {self._preset.weights.path} lacks "
                f"{', '.join(in_head)} in this shape; it was trained for another task"
            )
        warn_of_random(self._preset.name, self._model, matched)

    def _set(self, split: str, examples: Sequence[Any]) -> ExampleSet:
        return ExampleSet(split, "", examples, self._known_task().encode(split, examples))

    def _outputs(self, examples: ExampleSet, batch_size: int) -> Outputs:
        task = self._known_task()
        length = task.options.max_seq_length
        outputs = self._predict(examples.features, task.outputs, batch_size, length)
        return task.per_example(examples, outputs)

    def _score(self, examples: Sequence[Any], batch_size: int) -> dict[str, float]:
        """Return the results for labeled examples, as in `eval_results.txt`."""
        check_any(examples)
        encoded = self._set("eval", examples)
        return self._known_task().score(encoded, self._outputs(encoded, batch_size))

    def _fit(
        self,
        examples: Sequence[Any],
        validation: Sequence[Any] | None,
        arguments: Mapping[str, Any],
    ) -> keras.callbacks.History:
        """Train the model with Keras' `fit`, on the batches of the command, in their order.

        Every call is a run of its own: it starts with the current weights, a new optimizer and a
        new schedule. `validation` is evaluated after every epoch; `arguments` are those of
        `FitArguments`.
        """
        given = FitArguments.checked(arguments)
        if given.warmup_proportion is None and isinstance(given.optimizer, str):
            given = dataclasses.replace(given, warmup_proportion=self.warmup_proportion)
        task = self._known_task()
        train_set = self._set("train", examples)
        train = train_set.features
        options = given.options(task.options, task.epoch_size(train_set))
        length, size = options.max_seq_length, options.train_batch_size
        validation_data = None
        if validation:
            held_out = self._set("train", validation).features
            held_out.arrays.pop("example_weights", None)  # of training
            validation_data = evaluation_batches(held_out, length, size)
        steps = options.num_train_steps
        epochs, steps_per_epoch = epochs_of(steps, math.ceil(len(train) / size), given.passes)
        model = self._trained_model
        model.encoder.seed_generator.state.assign([given.seed, 0])
        optimizer = given.create_optimizer(options, model.encoder.config)
        model.compile(optimizer=optimizer, metrics=self._metrics())
        history = model.fit(
            training_batches(train, length, size, given.seed),
            epochs=epochs,
            steps_per_epoch=steps_per_epoch,
            validation_data=validation_data,
            callbacks=[*given.callbacks, StopAfter(steps)],
            verbose=given.verbose,
            shuffle=False,  # they are in order
        )
        self.step = int(model.optimizer.iterations)
        return history

    @staticmethod
    def _given(
        examples: Callable[..., list[Any]],
        columns: Mapping[str, Any],
        validation_data: Any,
        arguments: Mapping[str, Any],
    ) -> tuple[list[Any], list[Any] | None]:
        """Return the examples to train on, and those of `validation_data`, if there is any.

        `examples` makes them of the `columns`, arguments of `fit` by name, of which
        `validation_data` is a tuple. The other arguments are checked first.
        """
        FitArguments.checked(arguments)
        found = examples(*columns.values())
        if not found:
            raise InputError(f"`{next(iter(columns))}`: at least one is required to train on")
        if validation_data is None:
            return found, None
        if not isinstance(validation_data, tuple | list) or len(validation_data) != len(columns):
            raise InputError(f"`validation_data`: must be a tuple ({', '.join(columns)})")
        with arguments_renamed(**dict.fromkeys(columns, "validation_data")):
            return found, examples(*validation_data)

    def _metrics(self) -> Any:
        """Return what `fit` reports besides the loss, as of `keras.Model.compile`."""
        return None

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Write the model as a folder like those that the command leaves.

        `from_preset` reads it, and so do the command with `--output_dir`, albert-export and
        albert-convert. The checkpoint is one of the engine of Keras' backend.

        Args:
            folder: must not exist, or be empty.

        Raises:
            InputError: If the folder contains something, or the model has no head yet.
            OSError: If it cannot be written; nothing is left behind.
        """
        folder = files.normalized(folder)
        if not folder:
            raise InputError("`folder`: must not be empty")
        if files.exists(folder) and not (files.is_folder(folder) and not files.names_in(folder)):
            raise InputError(f"`folder`={folder}: already exists; remove it or choose another name")
        if parent := os.path.dirname(folder):
            files.make_folder(parent, "folder")
        values = {weight.path: keras.ops.convert_to_numpy(weight) for weight in self.model.weights}
        with files.replacing(folder) as partial:
            files.make_folder(partial, "folder")
            FOLDERS[keras.backend.backend()](partial).write(self.step, values)
            config = {CONFIG_FILE: self.model.config.to_json()}
            files.write_files(partial, config | self._adjacent_files())

    def _adjacent_files(self) -> dict[str, str | bytes]:
        """Return file name -> content of what goes next to the weights, besides the config."""
        return {
            **tokenizer_files(self.tokenizer),
            **origin_file(self._preset.path),
            **self._known_task().adjacent_files(),
        }

    def export(self, folder: str | os.PathLike[str], **options: Any) -> None:
        """Export the model as SavedModels that take strings, as export_saved_model.py does.

        Args:
            folder: must not exist, unless it is an export of the same weights.
            **options: of export_saved_model.py, such as `license` or `max_seq_length`.

        Raises:
            InputError: If the folder contains something else, an option is invalid, or Keras runs
                on another backend than TensorFlow.
        """
        if keras.backend.backend() != "tensorflow":
            raise InputError(
                f"KERAS_BACKEND={keras.backend.backend()}: exports are made with tensorflow; use "
                "`save` and run albert-export"
            )
        names = [field.name for field in dataclasses.fields(ExportOptions)]
        if unknown := set(options).difference(names[2:]):
            raise InputError(f"`{min(unknown)}`: must be one of {', '.join(names[2:])}")
        from albert_tf.export.build import export_saved_model  # loads TensorFlow

        with tempfile.TemporaryDirectory() as temporary:
            folder = files.normalized(folder)
            saved = os.path.join(temporary, os.path.basename(folder) or "model")
            self.save(saved)
            with arguments_renamed(export_path="folder"):
                chosen = ExportOptions(init_checkpoint=saved, export_path=folder, **options)
                export_saved_model(chosen)
