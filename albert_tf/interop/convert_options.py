"""Options of the conversion program; loads neither TensorFlow nor Keras."""

import dataclasses

from albert_tf.options import WithPaths, option
from albert_tf.task_kinds import heads


@dataclasses.dataclass(frozen=True, kw_only=True)
class ConvertOptions(WithPaths):
    """Flags of convert_checkpoint.py."""

    from_format: str = option(
        "auto",
        "Format of --input; auto detects it. albert_tf: a training folder or a checkpoint of any "
        "engine, or a Keras .weights.h5 file; google: a checkpoint of the original project; "
        "huggingface: a folder with config.json and model.safetensors; saved_model: a TF-Hub "
        "SavedModel.",
        choices=("auto", "google", "albert_tf", "huggingface", "saved_model"),
        flag="from",
    )
    to_format: str = option(
        help="Format of --output. albert_tf and jax: a training folder of engine tensorflow or "
        "jax, with the state of the optimizer if --input has it, so that training can resume.",
        choices=("google", "albert_tf", "jax", "huggingface"),
        flag="to",
    )
    input: str = option(
        help="Weights to convert: a file, the name of a checkpoint, a folder, or the name of "
        "published weights, such as albert/albert-base-v2 or albert_base_v2.",
        path="weights",
    )
    output: str = option(
        help="Folder to write; must not exist. With --to=albert_tf, a name that ends in "
        ".weights.h5 writes a Keras weights file.",
        path="any",
    )
    config: str | None = option(
        None,
        "albert_config.json or Hugging Face config.json of the model; by default, the config next "
        "to the weights.",
        path="any",
    )
    head: str = option(
        "auto",
        "Kind of model; auto detects it from the weights. A head with a single score counts as a "
        "classifier unless config.json names a multiple-choice model. A classifier of a Hugging "
        "Face folder whose config.json names no architecture labels tokens (tagger) if there is "
        "no pooler, and sequences otherwise.",
        choices=("auto", *heads()),
    )
    spm_model_file: str | None = option(
        None,
        "Vocabulary of the model (.model or vocab.txt); by default, the one next to the weights. "
        "One that begins with it and has more pieces adds these to the model.",
    )
    do_lower_case: bool | None = option(
        None,
        "Whether to lower-case text before tokenization with the vocabulary of --output; by "
        "default, what is recorded next to it, or true unless it has capital letters.",
    )
    allow_partial: bool = option(
        False, "Convert the weights that match even if others are missing or unknown."
    )
    license: str | None = option(
        None, "With --to=huggingface: license named in the model card, such as apache-2.0."
    )
    add_pieces: str | None = option(
        None,
        "List of pieces to add to the vocabulary, one a line, written as in the vocabulary. Their "
        "embeddings are the means of those of the pieces that they replace.",
        path="any",
    )
    learn_pieces_from: tuple[str, ...] = option(
        (), "Text files or globs: add the pieces that shorten this text most.", path="any"
    )
    num_new_pieces: int | None = option(
        None,
        "With --learn_pieces_from: how many; by default, 1000.",
        minimum=1,
        needs=("learn_pieces_from",),
    )
    new_vocabulary: str | None = option(
        None,
        "Vocabulary of another language (.model or vocab.txt) instead of that of --input. Rows of "
        "pieces that both have are copied; others are means of the pieces that spell them, or "
        "drawn.",
        path="any",
    )
    dictionary: str | None = option(
        None,
        "Text file with a word of --new_vocabulary, a tab and its translation in each line. A "
        "piece that is such a word starts from its translation.",
        path="any",
        needs=("new_vocabulary",),
    )
    max_position_embeddings: int | None = option(
        None,
        "Longest sequence of the output, in tokens, above that of --input. Further positions "
        "repeat those that exist.",
    )
