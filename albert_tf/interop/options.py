"""Options of the export program; loads no TensorFlow."""

from __future__ import annotations

import dataclasses

from albert_tf.options import option


@dataclasses.dataclass(frozen=True, kw_only=True)
class ConvertOptions:
    """Flags of convert_checkpoint.py."""

    from_format: str = option(
        "auto",
        "Format of --input; auto looks at it. albert_tf: a training folder, a checkpoint or a "
        ".weights.h5 file of Keras; google: a checkpoint of the original; huggingface: a folder "
        "with config.json and model.safetensors; saved_model: a TF-Hub SavedModel.",
        choices=("auto", "google", "albert_tf", "huggingface", "saved_model"),
        flag="from",
    )
    to_format: str = option(
        help="Format of --output.", choices=("google", "albert_tf", "huggingface"), flag="to"
    )
    input: str = option(help="Weights to convert: a file, a checkpoint's name or a folder.")
    output: str = option(
        help="Folder to write; must not exist. With --to=albert_tf a name that ends in .weights.h5 "
        "writes a Keras weights file."
    )
    config: str | None = option(
        None,
        "The model's albert_config.json, or Hugging Face's config.json; without it, the one "
        "beside the weights.",
    )
    head: str = option(
        "auto",
        "Kind of model; auto looks at the tensors, and takes one score for a classifier's, unless "
        "config.json says choice.",
        choices=(
            "auto",
            "pretraining",
            "classifier",
            "span",
            "conditional_span",
            "choice",
            "encoder",
        ),
    )
    spm_model_file: str | None = option(
        None, "Vocabulary of the model (.model, or vocab.txt); without it, the one beside it."
    )
    do_lower_case: bool | None = option(
        None,
        "Whether text is to be lower-cased before the tokenizer; without it, what stands beside "
        "the weights says, else yes.",
    )
    allow_partial: bool = option(
        False, "Convert what matches, although something that should have matched did not."
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class ExportOptions:
    """Flags of export_saved_model.py."""

    init_checkpoint: str = option(
        help="Weights to export: a training folder or a checkpoint, of this project or the "
        "original, a Hugging Face folder, another SavedModel, or a .weights.h5 file of Keras."
    )
    export_path: str = option(help="Folder to write the SavedModel to; must not exist.")
    albert_config_file: str | None = option(
        None, "The model's albert_config.json; without it, the config beside the weights."
    )
    spm_model_file: str = option(help="SentencePiece model of the vocabulary.")
    do_lower_case: bool = option(True, "Whether text is to be lower-cased before the tokenizer.")
