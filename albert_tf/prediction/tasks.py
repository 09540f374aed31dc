"""What albert-predict predicts: the kinds of fine-tuning tasks, masks and vectors; and its flags.

Every task maps columns of texts to a dictionary of results per row.
"""

import dataclasses
import functools
import os
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from albert_tf.engines.device_options import DTYPE_POLICIES
from albert_tf.engines.registry import ENGINES
from albert_tf.errors import InputError, arguments_renamed
from albert_tf.files import exists, sha256_of, text_of, without_magic
from albert_tf.finetuning.finetuning_options import STANDARD_STREAM
from albert_tf.interop.file_names import SAVED_MODEL, read_export
from albert_tf.options import WithPaths, check_limits, option
from albert_tf.task_kinds import PRETRAINING, TaskKind, task_kinds
from albert_tf.tokenizers import Tokenizer

# Needs no head of its own: any weights compute vectors.
EMBED = "embed"

# Input -> its values, one per row; and a dictionary per row.
Columns = dict[str, list]
Results = list[dict[str, Any]]


class PredictionTask(NamedTuple):
    """What to predict.

    Attributes:
        model: returns the class of the text model, which is imported once there is work to do; it
            has `_predict_rows`, see `TaskKind.text_model`.
        inputs: names of what it reads -> type; see `TaskKind`.
        optional: those of them that some models do not read.
        options: flags that `_predict_rows` takes.
        heads: heads of models for which it is chosen.
    """

    model: Callable[[], Any]
    inputs: Mapping[str, type]
    optional: tuple[str, ...]
    options: tuple[str, ...]
    heads: tuple[str, ...]


def _masked_lm() -> Any:
    from albert_tf.text_models.masked_lm import MaskedLM

    return MaskedLM


_KINDS = {kind.predict_task: kind for kind in task_kinds() if kind.text_model}

PREDICTION_TASKS = {
    name: PredictionTask(
        functools.partial(kind.load, "text_model"),
        kind.inputs,
        kind.optional_inputs,
        kind.predict_options,
        tuple(head.name for head in kind.heads),
    )
    for name, kind in _KINDS.items()
}
PREDICTION_TASKS["fill_mask"] = PredictionTask(
    _masked_lm, {"text": str}, (), ("top_k", "targets"), (PRETRAINING.name,)
)

# The texts that tasks read, each a flag and the name of a column.
INPUTS = ("text", "text_pair", "question", "context", "options")


@dataclasses.dataclass(frozen=True)
class PredictOptions(WithPaths):
    """Flags of albert-predict."""

    model: str = option(
        help="A training folder, a converted folder, an export, or the name of published weights, "
        "such as albert/albert-base-v2.",
        path="weights",
    )
    task: str = option(
        "auto",
        "What to predict; auto chooses by the head of the model: a pretraining model fills masks, "
        "a model without a head computes vectors (embed).",
        choices=("auto", *PREDICTION_TASKS),
        group="Data",
        common=True,
    )
    text: str | None = option(None, "A text, instead of --input_file.", common=True)
    text_pair: str | None = option(
        None, "The second text of a pair, for a classifier of pairs.", common=True
    )
    question: str | None = option(None, "A question, instead of --input_file.", common=True)
    context: str | None = option(None, "The text that --question is about.", common=True)
    options: tuple[str, ...] = option(
        (), "The options of --question, separated by commas.", common=True
    )
    input_file: str | None = option(
        None,
        "What to predict: a table (.tsv, .csv, .jsonl, .parquet, .xlsx) with a row per example, a "
        ".txt file with a text per line, or - for lines of standard input as they arrive. Also "
        "remote.",
        common=True,
    )
    output_file: str = option(
        STANDARD_STREAM,
        "Where results go: .jsonl, .tsv or .parquet, with the columns of the input first; - for "
        "JSON lines on standard output.",
        common=True,
        path="file",
    )
    text_column: str = option("text", "Column of the texts.")
    text_pair_column: str | None = option(None, "Column of the second texts of pairs.")
    question_column: str = option("question", "Column of the questions.")
    context_column: str = option("context", "Column of the texts that questions are about.")
    options_column: str = option("options", "Column of the options, lists of texts.")
    batch_size: int = option(
        32, "Examples that are computed at a time.", minimum=1, group="Prediction", common=True
    )
    top_k: int = option(5, "fill_mask: number of candidates per mask.", minimum=1, common=True)
    targets: tuple[str, ...] = option(
        (), "fill_mask: the only candidates to consider, separated by commas."
    )
    pooling: str | None = option(
        None,
        "embed: mean over all tokens, the hidden state at [CLS], or the output of the pooler; by "
        "default as the model was trained, else mean.",
        choices=("mean", "cls", "pooler"),
    )
    layer: int = option(-1, "embed: which hidden states are pooled; 0 for the first layer's input.")
    normalize: bool = option(False, "embed: whether to scale vectors to length 1.")
    max_length: int | None = option(
        None,
        "embed: maximum length of a text in tokens; by default as the model was trained, else as "
        "long as it reads.",
    )
    spm_model_file: str | None = option(
        None,
        "Vocabulary (.model or vocab.txt); by default the one next to the weights.",
        group="Model",
    )
    do_lower_case: bool | None = option(
        None, "Whether to lower-case text; by default as recorded next to the weights."
    )
    dtype: str = option(
        "float32", "Precision of matrix products.", choices=DTYPE_POLICIES, group="Devices"
    )
    engine: str | None = option(
        None,
        "tensorflow or jax; by default the one that is installed.",
        tuple(ENGINES),
        common=True,
    )

    def __post_init__(self):
        super().__post_init__()
        check_limits(self)
        given = self.given_inputs()
        if self.input_file and given:
            raise InputError(f"`input_file` and `{next(iter(given))}` exclude each other")
        if not self.input_file and not given:
            raise InputError("`input_file`: required, or `text`, or `question` and `context`")

    def given_inputs(self) -> dict[str, str | tuple[str, ...]]:
        """Return the texts that are flags, by the name of the input."""
        values = {name: getattr(self, name) for name in INPUTS}
        return {name: value for name, value in values.items() if value not in (None, ())}

    def columns(self) -> dict[str, str | None]:
        """Return the column of each input; None if there is none."""
        return {name: getattr(self, f"{name}_column") for name in INPUTS}


def rounded(value: Any) -> Any:
    """Round the numbers in results to eight digits, as run_classifier.py writes probabilities."""
    if isinstance(value, dict):
        return {name: rounded(each) for name, each in value.items()}
    if isinstance(value, list):
        return list(map(rounded, value))
    return float(f"{value:.8g}") if isinstance(value, float | np.floating) else value


def _task_of(head: str) -> str:
    """Return the task of a model with this head."""
    found = (name for name, task in PREDICTION_TASKS.items() if head in task.heads)
    return next(found, EMBED)


def load_model(options: PredictOptions) -> tuple[str, Callable[[Columns], Results]]:
    """Return the task of a model, and a function of columns that returns the results of every row.

    Raises:
        InputError: As of `from_preset` of the text model; or if predictions would come from a new
            head, with random weights.
    """
    from albert_tf.interop.loading import open_preset  # loads Keras

    with arguments_renamed(name="model", vocabulary="spm_model_file"):
        vocabulary, lower = options.spm_model_file, options.do_lower_case
        preset = open_preset(options.model, vocabulary, lower)
        name = _task_of(preset.head) if options.task == "auto" else options.task
        task = PREDICTION_TASKS[name]
        # Which of several heads the weights have, converted ones do not say.
        if name != EMBED and not set(preset.heads).intersection(task.heads):
            raise InputError(
                f"`task`={name}: the weights of {preset.name} are of kind {preset.head}; must be "
                f"{' or '.join(dict.fromkeys([_task_of(preset.head), EMBED]))}"
            )
        model = task.model().from_preset(
            options.model, vocabulary=vocabulary, do_lower_case=lower, dtype=options.dtype
        )
    more = {each: getattr(options, each) for each in task.options}
    return name, functools.partial(model._predict_rows, batch_size=options.batch_size, **more)


def exported_task(path: str) -> str | None:
    """Return the task of `PREDICTION_TASKS` that an export serves; None if `path` is none."""
    for name, kind in _KINDS.items():
        if kind.export and exists(os.path.join(path, kind.export_folder, SAVED_MODEL)):
            return name
    return None


class Export:
    """The SavedModel of a task, which predicts rows in batches; the options name its folder.

    Attributes:
        settings: how the model reads texts, by name; {} for an export without `export.json`.
        labels: text of a label -> the same, with the number that it stands for.

    Raises:
        InputError: If TensorFlow Text is not installed, or the export is damaged.
    """

    def __init__(self, kind: TaskKind, options: PredictOptions):
        import tensorflow as tf

        from albert_tf.export.graph_tokenizers import tensorflow_text

        tensorflow_text()  # its operations are in the graph
        made_from = read_export(options.model).get("made_from", {})
        self.settings = made_from.get("task") or {}
        self.labels = {label: label for label in map(text_of, made_from.get("labels") or ())}
        folder = os.path.join(options.model, kind.export_folder)
        self._model = tf.saved_model.load(without_magic(folder))
        self._batch_size = options.batch_size

    def __call__(self, signature: str, columns: Columns) -> Iterator[dict[str, np.ndarray]]:
        """Yield the outputs of a signature for batches of all rows."""
        import tensorflow as tf

        count, size = len(next(iter(columns.values()))), self._batch_size
        for start in range(0, count, size):
            part = {name: tf.constant(each[start : start + size]) for name, each in columns.items()}
            outputs = self._model.signatures[signature](**part)
            yield {name: value.numpy() for name, value in outputs.items()}


def load_export(task: str, options: PredictOptions) -> Callable[[Columns], Results]:
    """Return a function of columns that returns the results of every row by an `Export`."""
    kind = _KINDS[task]
    for name in kind.predict_options:
        if (value := getattr(options, name)) != PredictOptions.__dataclass_fields__[name].default:
            raise InputError(f"`{name}`={value}: is fixed in an export; name the trained folder")
    made_from, lower = read_export(options.model).get("made_from", {}), options.do_lower_case
    if lower not in (None, made_from.get("normalization", {}).get("do_lower_case", lower)):
        raise InputError(f"`do_lower_case`={lower}: is fixed in an export; name the trained folder")
    if path := options.spm_model_file:
        with arguments_renamed(path="spm_model_file"):
            digest = sha256_of(Tokenizer.load(path).path)
        if digest != made_from.get("vocabulary", digest):
            raise InputError(f"`spm_model_file`={path}: is not the vocabulary of {options.model}")
    return functools.partial(kind.load("text_model")._predict_exported, Export(kind, options))
