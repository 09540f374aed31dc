"""Makes TFRecord files for pretraining from text: a sentence a line, blank lines between documents.

    python -m data_prep.create_pretraining_data --input_file='corpus/*.txt' \\
        --output_file=train-0.tfrecord,train-1.tfrecord --spm_model_file=30k.model

Flags, defaults and features are the original's, so that either side reads the other's files.
Beside the first output, `<its name without ending>.manifest.json` says what was made of what.
"""

from __future__ import annotations

import dataclasses

from albert_tf.errors import InputError
from albert_tf.options import command, option


@dataclasses.dataclass(frozen=True)
class Options:
    input_file: tuple[str, ...] = option(help="Text files or globs, separated by commas.")
    output_file: tuple[str, ...] = option(
        help="TFRecord file, or several separated by commas; examples go to them in turn."
    )
    spm_model_file: str | None = option(None, "SentencePiece model.")
    vocab_file: str | None = option(
        None, "Vocabulary file; with --spm_model_file it is only checked to belong to the model."
    )
    do_lower_case: bool = option(True, "Whether to lower-case; as the vocabulary was trained.")
    do_whole_word_mask: bool = option(True, "Whether to mask whole words, not single tokens.")
    max_seq_length: int = option(512, "Tokens of an example, [CLS] and two [SEP] included.")
    max_predictions_per_seq: int = option(20, "The most tokens masked in an example.")
    random_seed: int = option(12345, "The same seed and input give the same bytes.")
    dupe_factor: int = option(40, "How often each document is used, cut and masked differently.")
    masked_lm_prob: float = option(0.15, "Share of the tokens to mask.")
    short_seq_prob: float = option(0.1, "Share of the documents cut to a random shorter length.")
    ngram: int = option(3, "The longest span to mask, in words.")
    favor_shorter_ngram: bool = option(
        True, "Spans of n words in proportion to 1/n; else reversed."
    )
    one_segment_chunks: str = option(
        "split",
        "A chunk of a single sentence is split inside it, or dropped.",
        choices=("split", "drop"),
    )


def run(options: Options) -> None:
    check(options)
    from data_prep.pipeline import create_pretraining_data

    manifest = create_pretraining_data(options)
    print(
        f"{manifest['examples']:,} examples of {manifest['documents']:,} documents, "
        f"{manifest['tokens']:,} tokens ({manifest['text_bytes'] / 1e6:.1f} MB), "
        f"in {manifest['seconds']:.1f} s; padding {manifest['padding_share']:.1%}, "
        f"masked {manifest['masked_share']:.1%}, swapped {manifest['swapped_share']:.1%}"
    )
    for file, examples in manifest["files"].items():
        print(f"{file}: {examples:,} examples")


def check(options: Options) -> None:
    """Checks what can be checked before anything is read.

    Raises:
        InputError: a flag is out of its range.
    """
    if not (options.spm_model_file or options.vocab_file):
        raise InputError("--spm_model_file: the vocabulary is missing; name a .model file")
    if not options.input_file or not options.output_file:
        raise InputError("--input_file and --output_file need a file each")
    if len(set(options.output_file)) < len(options.output_file):
        raise InputError(f"--output_file: a file is named twice in {','.join(options.output_file)}")
    for name, least, most in (
        ("max_seq_length", 5, None),  # [CLS] a [SEP] b [SEP]
        ("max_predictions_per_seq", 1, options.max_seq_length),
        ("dupe_factor", 1, None),
        ("ngram", 1, None),
        ("short_seq_prob", 0, 1),
        ("masked_lm_prob", 0, 1),
    ):
        value = getattr(options, name)
        if value < least or (most is not None and value > most):
            limits = f"at least {least}" if most is None else f"between {least} and {most}"
            raise InputError(f"--{name}: {value} must be {limits}")


cli = command(Options, run)

if __name__ == "__main__":
    cli()
