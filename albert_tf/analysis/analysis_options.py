"""Flags of albert-analyze, one dataclass per analysis."""

import dataclasses
import os
from collections.abc import Sequence
from typing import Any

from albert_tf.engines.registry import ENGINES
from albert_tf.errors import InputError
from albert_tf.files import exists
from albert_tf.options import WithPaths, check_limits, option


@dataclasses.dataclass(frozen=True, kw_only=True)
class OutputOptions(WithPaths):
    """Flags of every analysis."""

    output_dir: str | None = option(
        None, "Folder for the files of the analysis; without it, only tables are printed."
    )

    def __post_init__(self):
        super().__post_init__()
        check_limits(self)


@dataclasses.dataclass(frozen=True, kw_only=True)
class ModelOptions(OutputOptions):
    """Flags of every analysis that reads weights."""

    spm_model_file: str | None = option(
        None, "Vocabulary (.model or vocab.txt); by default the one next to the weights."
    )
    do_lower_case: bool | None = option(
        None, "Whether to lower-case text; by default as recorded next to the weights."
    )
    engine: str | None = option(
        None, "tensorflow or jax; by default the one that is installed.", tuple(ENGINES)
    )


_ONE_MODEL = (
    "A training folder, a converted folder, an export, a checkpoint, or the name of published "
    "weights, such as albert/albert-base-v2."
)
_MODELS = (
    "Models to compare, separated by commas, each a folder, checkpoint or name of weights, or "
    "LABEL=NAME to choose the name that it is shown by."
)


def _model_option(help: str) -> Any:
    return option(help=help, aliases=("config",), path="weights")


def labeled_models(models: Sequence[str]) -> dict[str, str]:
    """Map labels to names of models: `LABEL=NAME`, or the last part of a name is its label.

    Raises:
        InputError: If a label occurs twice, or a name is empty.
    """
    labeled: dict[str, str] = {}
    for model in models:
        label, equals, name = model.partition("=")
        if not equals or exists(model):
            label, name = os.path.basename(model.rstrip("/")), model
        if not label or not name:
            raise InputError(f"`model`={model}: must be a name of a model, or LABEL=NAME")
        if label in labeled:
            raise InputError(
                f"`model`={model}: {label} is already the label of {labeled[label]}; write "
                "LABEL=NAME with another label"
            )
        labeled[label] = name
    if not labeled:
        raise InputError("`model`: at least one model is required")
    return labeled


@dataclasses.dataclass(frozen=True, kw_only=True)
class LayersOptions(ModelOptions):
    """Flags of `albert-analyze layers`."""

    model: tuple[str, ...] = _model_option(_MODELS)
    text: str | None = option(None, "A text, instead of --input_file.")
    input_file: str | None = option(None, "A .txt file with a text per line. Also remote.")

    def __post_init__(self):
        super().__post_init__()
        if (self.text is None) == (self.input_file is None):
            raise InputError("`text` or `input_file`: exactly one of them is required")


@dataclasses.dataclass(frozen=True, kw_only=True)
class PairsOptions(ModelOptions):
    """Flags of `albert-analyze pairs`."""

    model: tuple[str, ...] = _model_option(_MODELS)
    input_file: tuple[str, ...] = option(
        help="Files or globs of minimal pairs: .tsv with a good and a bad sentence, and maybe a "
        "phenomenon, in each line; or .jsonl with sentence_good and sentence_bad, as BLiMP."
    )
    phenomenon_column: str | None = option(
        None,
        "Column by which results are split; by default the first of phenomenon, linguistics_term, "
        "UID and field that exists.",
    )
    batch_size: int = option(64, "Sequences that are computed at a time.", minimum=1)


@dataclasses.dataclass(frozen=True, kw_only=True)
class AttentionOptions(ModelOptions):
    """Flags of `albert-analyze attention`."""

    model: str = _model_option(_ONE_MODEL)
    text: str = option(help="The sentence, in which special symbols such as [MASK] are read.")
    text_pair: str | None = option(None, "The second sentence of a pair.")


@dataclasses.dataclass(frozen=True, kw_only=True)
class ParametersOptions(OutputOptions):
    """Flags of `albert-analyze parameters`."""

    model: tuple[str, ...] = _model_option(
        "Shapes to compare, separated by commas: names of configs such as base_v2, their files, or "
        "models as of the other analyses; LABEL=NAME chooses the name in the picture."
    )
    max_seq_length: int = option(
        512, "Length of the sequence whose operations are counted.", minimum=1
    )
    max_predictions_per_seq: int = option(20, "Masked tokens of this sequence.", minimum=0)
    bert: bool = option(
        True, "Whether to compare each shape with a BERT: E = H, and no parameters are shared."
    )
