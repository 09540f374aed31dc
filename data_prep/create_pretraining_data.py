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
    do_permutation: bool = option(
        False, "Whether as many tokens again change places and are predicted too."
    )
    masking: str = option(
        "static",
        "static: masks are in the files, different ones in every copy; dynamic: the files hold "
        "whole text, and training draws new masks at every visit.",
        choices=("static", "dynamic"),
    )
    pair_objective: str | None = option(
        None,
        "sop: are the two segments in order (the default); nsp: is the second from the same "
        "document; none: one segment.",
        choices=("sop", "nsp", "none"),
    )
    random_next_sentence: bool = option(False, "The original's name of --pair_objective=nsp.")
    one_segment_chunks: str = option(
        "split",
        "A chunk of a single sentence is split inside it, or dropped.",
        choices=("split", "drop"),
    )
    num_shards: int = option(
        0, "Writes --output_file as so many files NAME-00000-of-00008; 0: just the files named."
    )
    num_processes: int = option(0, "Worker processes; 0: one for each core.")
    work_dir: str | None = option(
        None, "Local folder for unfinished work, instead of one beside the output."
    )
    runner: str | None = option(
        None,
        "Apache Beam runner to use instead of this machine: DirectRunner, DataflowRunner, ...",
    )
    beam_options: tuple[str, ...] = option(
        (), "Options of the runner, separated by commas: --project=p,--region=r,..."
    )

    @property
    def output_files(self) -> tuple[str, ...]:
        """The files to write, `--num_shards` taken into account."""
        if not self.num_shards:
            return self.output_file
        (name,) = self.output_file
        return tuple(f"{name}-{n:05d}-of-{self.num_shards:05d}" for n in range(self.num_shards))

    @property
    def objective(self) -> str:
        """What is to be told about a pair: "sop", "nsp" or "none"."""
        return self.pair_objective or ("nsp" if self.random_next_sentence else "sop")


_LISTED_FILES = 10
_LABELS = {"sop": "swapped", "nsp": "from another document"}


def run(options: Options) -> None:
    check(options)
    if options.runner:
        from data_prep.beam import create_pretraining_data
    else:
        from data_prep.pipeline import create_pretraining_data

    manifest = create_pretraining_data(options)
    shares = [f"padding {manifest['padding_share']:.1%}"]
    if options.masking == "static":
        shares.append(f"masked {manifest['masked_share']:.1%}")
    if options.objective in _LABELS:
        label = _LABELS[options.objective]
        shares.append(f"{label} {manifest['positive_label_share']:.1%}")
    megabytes, seconds = manifest["text_bytes"] / 1e6, manifest["seconds"]
    print(
        f"{manifest['examples']:,} examples of {manifest['documents']:,} documents, "
        f"{manifest['tokens']:,} tokens ({megabytes:.1f} MB), in {seconds:.1f} s "
        f"({megabytes / seconds:.1f} MB/s); {', '.join(shares)}"
    )
    if manifest["skipped_lines"]:
        print(f"{manifest['skipped_lines']:,} lines of more than a megabyte were left out")
    for file, examples in list(manifest["files"].items())[:_LISTED_FILES]:
        print(f"{file}: {examples:,} examples")
    if len(manifest["files"]) > _LISTED_FILES:
        print(f"... and {len(manifest['files']) - _LISTED_FILES} more files")


def check(options: Options) -> None:
    """Checks what can be checked before anything is read.

    Raises:
        InputError: a flag is out of its range.
    """
    if not (options.spm_model_file or options.vocab_file):
        raise InputError(
            "--spm_model_file: the vocabulary is missing; name a .model file, or a WordPiece "
            "vocab.txt with --vocab_file"
        )
    if not options.input_file or not options.output_file:
        raise InputError("--input_file and --output_file need a file each")
    if len(set(options.output_file)) < len(options.output_file):
        raise InputError(f"--output_file: a file is named twice in {','.join(options.output_file)}")
    if options.num_shards and len(options.output_file) > 1:
        raise InputError(
            f"--num_shards: {options.num_shards} shards need one name in --output_file, not "
            f"{len(options.output_file)}"
        )
    if options.random_next_sentence and options.pair_objective not in (None, "nsp"):
        raise InputError(
            f"--random_next_sentence means --pair_objective=nsp, not {options.pair_objective}"
        )
    if options.work_dir and "://" in options.work_dir and not options.runner:
        raise InputError(f"--work_dir: {options.work_dir} is not a folder of this machine")
    if options.beam_options and not options.runner:
        raise InputError("--beam_options: they need a --runner")
    for name, least, most in (
        ("num_shards", 0, 99_999),
        ("num_processes", 0, None),
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
