"""Options of the export program and of the check of an export; loads no TensorFlow."""

import dataclasses

from albert_tf.options import WithPaths, option
from albert_tf.task_kinds import heads


@dataclasses.dataclass(frozen=True, kw_only=True)
class ExportOptions(WithPaths):
    """Flags of export_saved_model.py."""

    init_checkpoint: str = option(
        help="Weights to export: a training folder or checkpoint of this project, a checkpoint of "
        "the original project, a Hugging Face folder, a SavedModel, a Keras .weights.h5 file, or "
        "the name of published weights, such as albert/albert-base-v2.",
        path="weights",
    )
    export_path: str = option(
        help="Folder to write; must not exist, unless it is an export of the same weights."
    )
    albert_config_file: str | None = option(
        None,
        "albert_config.json of the model; by default, the config next to the weights.",
        group="Model",
    )
    spm_model_file: str | None = option(
        None,
        "SentencePiece model or vocab.txt of the vocabulary; by default, the one next to the "
        "weights.",
    )
    do_lower_case: bool | None = option(
        None,
        "Whether to lower-case text before tokenization; by default, what is recorded next to the "
        "weights, or true unless the vocabulary has capital letters.",
    )
    preprocess: bool | None = option(
        None,
        "Whether to write preprocess/, which turns strings into token ids and requires TensorFlow "
        "Text; by default, if that is installed.",
        group="Output",
    )
    max_seq_length: int | None = option(
        None,
        "Length of a text in tokens: the default length to which preprocess/ packs texts (128, or "
        "the longest that the model supports), and the length to which the folder of a task "
        "truncates them (by default, what is recorded next to the weights, or the default of the "
        "fine-tuning program).",
    )
    head: str = option(
        "auto",
        "Kind of model to export; auto detects it from the weights and the files next to them. "
        "encoder leaves out the head of a task.",
        choices=("auto", *heads()),
        group="Model",
    )
    max_query_length: int | None = option(
        None,
        "Maximum length of a question in squad/, in tokens; by default, the recorded value or 64.",
        group="Output",
    )
    doc_stride: int | None = option(
        None,
        "Tokens between the starts of consecutive windows of a long context in squad/; by default, "
        "the recorded value or 128.",
    )
    max_answer_length: int | None = option(
        None,
        "Maximum length of an answer of squad/, in tokens; by default, the recorded value or 30.",
    )
    null_score_diff_threshold: float | None = option(
        None,
        "Null score above which squad/ gives no answer; by default, the value in eval_results.txt "
        "or 0.",
    )
    max_qa_length: int | None = option(
        None,
        "Maximum length of question and option together in choice/, in tokens; by default, the "
        "recorded value or 128.",
    )
    tflite_lengths: tuple[str, ...] = option(
        (),
        "Sequence lengths, separated by commas, for which to write TFLite files in float32 and "
        "int8.",
    )
    license: str | None = option(None, "License named in the model card, such as apache-2.0.")


@dataclasses.dataclass(frozen=True, kw_only=True)
class CheckOptions(WithPaths):
    """Flags of `python -m albert_tf.export check DIR`."""

    words: tuple[str, ...] = option((), "check, and the folder of an export.")
    init_checkpoint: str | None = option(
        None,
        "Weights that the export was made from; outputs are compared with a model loaded from "
        "them instead of from the export.",
        path="weights",
    )
    seq_lengths: tuple[str, ...] = option(
        ("32", "128", "512"),
        "Sequence lengths to time; those that the model does not support are skipped.",
    )
