"""Trains a SentencePiece vocabulary on text with a sentence a line.

    python -m data_prep.train_vocabulary --input_file=corpus.txt --output_prefix=vocabulary/30k

writes vocabulary/30k.model and vocabulary/30k.vocab.
"""

from __future__ import annotations

import dataclasses
import os
import time

from albert_tf.errors import InputError
from albert_tf.options import command, option


@dataclasses.dataclass(frozen=True)
class Options:
    input_file: tuple[str, ...] = option(help="Text files or globs, separated by commas.")
    output_prefix: str = option(help="Path of the two files, without .model and .vocab.")
    vocab_size: int = option(30000, "Number of pieces, special symbols included.")
    do_lower_case: bool = option(True, "Whether to lower-case the text.")
    input_sentence_size: int = option(
        2_000_000, "Trains on a uniform sample of so many sentences; 0: on all of them."
    )
    random_seed: int = option(12345, "Decides which sentences are sampled.")


def run(options: Options) -> None:
    from albert_tf import files
    from data_prep import vocabulary

    if options.vocab_size < vocabulary.SMALLEST_VOCABULARY:
        raise InputError(
            f"--vocab_size: {options.vocab_size} is too few; the special symbols alone need "
            f"{vocabulary.SMALLEST_VOCABULARY - 1}"
        )
    if options.input_sentence_size < 0:
        raise InputError(
            f"--input_sentence_size: {options.input_sentence_size} is negative; 0 takes all"
        )
    paths = files.expand_globs(options.input_file, "input_file")
    files.make_folder(os.path.dirname(options.output_prefix), "output_prefix")

    start = time.monotonic()
    sentences = vocabulary.sample(
        vocabulary.read_sentences(paths, options.do_lower_case),
        options.input_sentence_size,
        options.random_seed,
    )
    if not sentences:
        raise InputError(f"--input_file: no text in {', '.join(paths)}")
    megabytes = sum(len(sentence.encode()) for sentence in sentences) / 1e6
    print(f"training on {len(sentences):,} sentences, {megabytes:.1f} MB", flush=True)
    vocabulary.train(sentences, options.output_prefix, options.vocab_size)
    print(
        f"{options.output_prefix}.model: {options.vocab_size:,} pieces "
        f"in {time.monotonic() - start:.1f} s"
    )


cli = command(Options, run)

if __name__ == "__main__":
    cli()
