"""The kinds of fine-tuning tasks: a record of each, in the order of the registry.

A kind is a package with everything that it is: options, files, the task, a model on strings, its
export. The record `KIND` in the package is all that other code knows about it. Records load no
framework; their parts are in modules that are imported once there is work to do.

To add a kind, add its package to `REGISTRY`.
"""

import dataclasses
import functools
import importlib
from collections.abc import Callable, Mapping
from typing import Any, Literal

_ENCODER_SCOPE = "bert/"

# Packages that contain a `KIND`. Of heads that share variables, the first one is assumed.
REGISTRY = (
    "albert_tf.tasks.classification",
    "albert_tf.tasks.question_answering",
    "albert_tf.tasks.multiple_choice",
    "albert_tf.tasks.tagging",
    "albert_tf.tasks.sentences",
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Head:
    """A model's head: its variables, and what it is called in other formats.

    Attributes:
        name: the value of `--head`.
        model: "module:class" of the Keras model with this head.
        scopes: prefixes of the paths of its variables. Weights with the first one have this head.
            By default it has none of its own, and any weights can be used with it.
        optional: prefixes of variables that weights may lack, because the head does not use them
            or published weights have none.
        arguments: settings of the kind that are arguments of the model.
        settings: those of the kind that the head itself says.
        labeled: whether it has an output for each label. Of heads with the same variables, those
            that are not have a single output.
        keras_group: group in a Keras weights file that only this head has. Keras names a head
            after its attribute, or after its class if the name of the attribute comes after
            "layers" in the alphabet.
        huggingface: its class in Hugging Face transformers; "" if there is none.
        huggingface_module: the module of that class that contains its variables.
        hub_task: the task of such models on the Hugging Face Hub; "" if there is none.
        hub_library: the library that loads its converted folders.
        lite_outputs: outputs of its TFLite files; () if none are written.
    """

    name: str
    model: str
    scopes: tuple[str, ...] = (_ENCODER_SCOPE,)
    optional: tuple[str, ...] = ()
    arguments: tuple[str, ...] = ()
    settings: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    labeled: bool = False
    keras_group: str = ""
    huggingface: str = ""
    huggingface_module: str = ""
    hub_task: str = ""
    hub_library: str = "transformers"
    lite_outputs: tuple[str, ...] = ()

    @property
    def scope(self) -> str:
        """The prefix by which weights with this head are recognized."""
        return self.scopes[0]

    @property
    def has_variables(self) -> bool:
        """Whether it has variables besides those of the encoder."""
        return self.scope != _ENCODER_SCOPE

    def load_model(self) -> Any:
        """Import the class of the model."""
        module, name = self.model.split(":")
        return getattr(importlib.import_module(module), name)


@dataclasses.dataclass(frozen=True, kw_only=True)
class TaskKind:
    """A kind of fine-tuning.

    `options`, `task`, `text_model` and `export` are functions that return a part; each names the
    module of its own name in the package, which `load` imports before.

    Attributes:
        package: name of the package.
        options: the dataclass of its flags, derived from `FineTuningOptions`.
        task: its `FineTuningTask`.
        check_data: function(options) that raises InputError if the data set that they name is
            invalid, before a framework is loaded; None if the task itself checks enough.
        settings_file: file next to the weights that says how the model reads examples.
        heads: the heads that its models may have.
        text_model: the model on strings, a `TaskModel`; None if there is none. For albert-predict,
            its `_predict_rows(columns, batch_size)` returns a row of results for each row of the
            columns, and its static `_predict_exported(export, columns)` the same by an
            `albert_tf.prediction.tasks.Export`.
        predict_task: the value of albert-predict's `--task`.
        inputs: names of what a prediction reads -> type: `str`, `int`, or `list` of texts.
        optional_inputs: those of them that some models do not read.
        predict_options: options of albert-predict that `_predict_rows` takes in addition.
        export: the exported graph, a `TaskExport`; None if there is none.
        export_folder: name of its folder in an export.
        kept_results: results of an evaluation that belong to the model, whatever the checkpoint.
        huggingface_files: function(path of the weights, config) that returns file name -> text of
            what a folder in the format of Hugging Face contains in addition; None for nothing.
        problem_types: values of "kind" in its settings file, but the default -> their names in the
            configs of Hugging Face.
    """

    package: str
    options: Callable[[], Any]
    task: Callable[[], Any]
    check_data: Callable[[Any], None] | None = None
    settings_file: str
    heads: tuple[Head, ...]
    text_model: Callable[[], Any] | None = None
    predict_task: str = ""
    inputs: Mapping[str, type] = dataclasses.field(default_factory=dict)
    optional_inputs: tuple[str, ...] = ()
    predict_options: tuple[str, ...] = ()
    export: Callable[[], Any] | None = None
    export_folder: str = ""
    kept_results: tuple[str, ...] = ()
    huggingface_files: Callable[..., dict[str, str]] | None = None
    problem_types: Mapping[str, str] = dataclasses.field(default_factory=dict)

    def load(self, part: Literal["options", "task", "text_model", "export"]) -> Any:
        """Import a part, which the kind must have."""
        importlib.import_module(f"{self.package}.{part}")
        return getattr(self, part)()

    def main(self) -> None:
        """Run the command that fine-tunes a model of this kind."""
        command = importlib.import_module("albert_tf.finetuning.command")
        command.fine_tuning_command(self)()


@functools.cache
def task_kinds() -> tuple[TaskKind, ...]:
    """Return the records of all kinds."""
    return tuple(importlib.import_module(package).KIND for package in REGISTRY)


def kind_of(head: str) -> TaskKind | None:
    """Return the kind that has a head; None for the models of `PRETRAINING` and `ENCODER`."""
    found = (kind for kind in task_kinds() if head in [each.name for each in kind.heads])
    return next(found, None)


def task_scopes() -> tuple[str, ...]:
    """Return the prefixes of the variables of all heads of tasks."""
    of_tasks = (head for kind in task_kinds() for head in kind.heads if head.has_variables)
    return tuple(scope for head in of_tasks for scope in head.scopes)


_ENCODER_OUTPUTS = ("pooled_output", "sequence_output")

PRETRAINING = Head(
    name="pretraining",
    model="albert_tf.modeling.heads:AlbertForPreTraining",
    scopes=("cls/predictions/", "cls/seq_relationship/"),
    # The second classifies pairs by the pooler: masked language models have neither. A model of
    # next sentences lacks the first.
    optional=("cls/predictions/", "cls/seq_relationship/", "bert/pooler/"),
    keras_group="layers/masked_lm_head",
    huggingface="AlbertForPreTraining",
    hub_task="fill-mask",
    lite_outputs=_ENCODER_OUTPUTS,
)
ENCODER = Head(
    name="encoder",
    model="albert_tf.modeling.encoder:AlbertEncoder",
    huggingface="AlbertModel",
    hub_task="feature-extraction",
    lite_outputs=_ENCODER_OUTPUTS,
)


@functools.cache
def heads() -> dict[str, Head]:
    """Return all heads by name, in the order in which weights are searched for them."""
    of_tasks = [head for kind in task_kinds() for head in kind.heads]
    # Weights of an encoder alone are those of a task only if a file says so.
    in_order = sorted([PRETRAINING, ENCODER, *of_tasks], key=lambda head: not head.has_variables)
    return {head.name: head for head in in_order}
