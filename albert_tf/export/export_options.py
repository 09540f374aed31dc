"""Options of the export program; loads no TensorFlow."""

from __future__ import annotations

import dataclasses

from albert_tf.options import option

_HEADS = ("pretraining", "classifier", "span", "conditional_span", "choice", "encoder")


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
        choices=("auto", *_HEADS),
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
    license: str | None = option(
        None, "With --to=huggingface: what the model card states, such as apache-2.0."
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class ExportOptions:
    """Flags of export_saved_model.py."""

    init_checkpoint: str = option(
        help="Weights to export: a training folder or a checkpoint, of this project or the "
        "original, a Hugging Face folder, another SavedModel, or a .weights.h5 file of Keras."
    )
    export_path: str = option(
        help="Folder to write; must not exist, unless this command made it from the same weights."
    )
    albert_config_file: str | None = option(
        None, "The model's albert_config.json; without it, the config beside the weights."
    )
    spm_model_file: str | None = option(
        None,
        "SentencePiece model of the vocabulary, or vocab.txt; without it, the one beside the "
        "weights.",
    )
    do_lower_case: bool | None = option(
        None,
        "Whether text is to be lower-cased before the tokenizer; without it, what stands beside "
        "the weights says, else yes.",
    )
    preprocess: bool | None = option(
        None,
        "Whether to write preprocess/, which turns strings into token ids and needs TensorFlow "
        "Text; without it, if that is installed.",
    )
    max_seq_length: int | None = option(
        None,
        "Tokens of a text: what preprocess/ packs texts to unless it is asked for another length "
        "(128, or the model's longest if that is less), and what a task's folder cuts them to (as "
        "is noted beside the weights, else as the fine-tuning programs do).",
    )
    head: str = option(
        "auto",
        "Kind of model to export; auto looks at the weights and what is noted beside them. encoder "
        "leaves the head of a task out.",
        choices=("auto", *_HEADS),
    )
    max_query_length: int | None = option(
        None, "Tokens of a question that squad/ keeps; else as noted beside the weights, or 64."
    )
    doc_stride: int | None = option(
        None, "Tokens between the parts of a long context in squad/; else as noted, or 128."
    )
    max_answer_length: int | None = option(
        None, "Tokens of an answer of squad/, at most; else as noted, or 30."
    )
    null_score_diff_threshold: float | None = option(
        None, "Null score above which squad/ gives no answer; else that of eval_results.txt, or 0."
    )
    max_qa_length: int | None = option(
        None, "Tokens of question and choice in choice/; else as noted, or 128."
    )
    tflite_lengths: tuple[str, ...] = option(
        (), "Lengths at which tflite/ holds the model in float32 and int8, separated by commas."
    )
    measure_latency: bool = option(
        True, "Whether to time the encoder on this machine, for the model card."
    )
    license: str | None = option(None, "What the model card states, such as apache-2.0.")


@dataclasses.dataclass(frozen=True, kw_only=True)
class CheckOptions:
    """Flags of `python -m albert_tf.interop.saved_model check DIR`."""

    words: tuple[str, ...] = option((), "check, and the folder of an export.")
    init_checkpoint: str | None = option(
        None,
        "Weights that the export was made from: outputs are compared with a model that has them, "
        "not with one that has the weights in the export.",
    )
    seq_lengths: tuple[str, ...] = option(
        ("32", "128", "512"), "Lengths that are timed, as far as the model can read them."
    )
