"""Flags of albert-analyze, one dataclass per analysis."""

from __future__ import annotations

import dataclasses

from albert_tf.engines.registry import ENGINES
from albert_tf.errors import InputError
from albert_tf.options import check_limits, option
from albert_tf.tokenizers.packing import MIN_LENGTH

FORMATS = ("svg", "png")


@dataclasses.dataclass(frozen=True, kw_only=True)
class OutputOptions:
    """Flags of every analysis."""

    output_dir: str | None = option(
        None, "Folder for the files of the analysis; without it, only tables are printed."
    )
    formats: tuple[str, ...] = option(("svg",), "Formats of pictures: svg, png, or svg,png.")

    def __post_init__(self):
        check_limits(self)
        for name in self.formats:
            if name not in FORMATS:
                raise InputError(f"`formats`={name}: must be of {', '.join(FORMATS)}")


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
    "A training folder, a converted folder, an export, or the name of published weights, such as "
    "albert/albert-base-v2."
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class LayersOptions(ModelOptions):
    """Flags of `albert-analyze layers`."""

    model: tuple[str, ...] = option(
        help="Models to compare, separated by commas, each a folder or name of weights, or "
        "LABEL=FOLDER to choose its name in the picture."
    )
    text: str | None = option(None, "A text, instead of --input_file.")
    input_file: str | None = option(None, "A .txt file with a text per line. Also remote.")
    max_length: int | None = option(
        None,
        "Maximum length of a text in tokens; by default as long as the model reads.",
        minimum=MIN_LENGTH,
    )
    batch_size: int = option(16, "Texts that are computed at a time.", minimum=1)

    def __post_init__(self):
        super().__post_init__()
        if (self.text is None) == (self.input_file is None):
            raise InputError("`text` or `input_file`: exactly one of them is required")


@dataclasses.dataclass(frozen=True, kw_only=True)
class AttentionOptions(ModelOptions):
    """Flags of `albert-analyze attention`."""

    model: str = option(help=_ONE_MODEL)
    text: str = option(help="The sentence, in which special symbols such as [MASK] are read.")
    text_pair: str | None = option(None, "The second sentence of a pair.")


@dataclasses.dataclass(frozen=True, kw_only=True)
class ParametersOptions(OutputOptions):
    """Flags of `albert-analyze parameters`."""

    config: tuple[str, ...] = option(
        help="Shapes to compare, separated by commas: names such as base_v2, albert_config.json "
        "files, folders with one, or names of published weights."
    )
    max_seq_length: int = option(
        512, "Length of the sequence whose operations are counted.", minimum=1
    )
    max_predictions_per_seq: int = option(20, "Masked tokens of this sequence.", minimum=0)
    bert: bool = option(
        True, "Whether to compare each shape with a BERT: E = H, and no parameters are shared."
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class EmbeddingsOptions(ModelOptions):
    """Flags of `albert-analyze embeddings`."""

    model: str = option(help=_ONE_MODEL)
    pieces: tuple[str, ...] = option(
        help="Words or pieces of the vocabulary, separated by commas. A word of several pieces "
        "stands for each of them."
    )
    top_k: int = option(10, "Number of neighbors.", minimum=1)


@dataclasses.dataclass(frozen=True, kw_only=True)
class ProbeOptions(ModelOptions):
    """Flags of `albert-analyze probe`."""

    model: str = option(help=f"{_ONE_MODEL} It must have the masked-LM head.")
    text: str = option(help="A sentence with one or more [MASK].")
    target: str | None = option(
        None, "A word that is one token of the vocabulary, whose probability and rank are shown."
    )
    top_k: int = option(5, "Number of candidates per layer and mask.", minimum=1)
