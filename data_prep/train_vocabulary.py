"""Trains a vocabulary of subwords on text with a sentence a line.

    python -m data_prep.train_vocabulary --input_file=corpus.txt --output_prefix=vocabulary/30k

writes vocabulary/30k.model and vocabulary/30k.vocab, for SentencePiece; with --model_type=wordpiece
it writes vocabulary/30k.txt.
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
    output_prefix: str = option(help="Path of the files, without .model, .vocab or .txt.")
    model_type: str = option(
        "unigram",
        "SentencePiece, as English ALBERT; or WordPiece, as BERT and Chinese ALBERT.",
        choices=("unigram", "wordpiece"),
    )
    vocab_size: int = option(30000, "Number of pieces, special symbols included.")
    do_lower_case: bool = option(True, "Whether to lower-case the text.")
    input_sentence_size: int = option(
        2_000_000, "Trains on a uniform sample of so many sentences; 0: on all of them."
    )
    random_seed: int = option(12345, "Decides which sentences are sampled.")


def run(options: Options) -> None:
    from albert_tf import files
    from data_prep import vocabulary

    model_type = vocabulary.MODEL_TYPES[options.model_type]
    if options.vocab_size < model_type.smallest:
        raise InputError(
            f"--vocab_size: {options.vocab_size} is too few; the special symbols alone need "
            f"{model_type.smallest - 1}"
        )
    if options.input_sentence_size < 0:
        raise InputError(
            f"--input_sentence_size: {options.input_sentence_size} is negative; 0 takes all"
        )
    paths = files.expand_globs(options.input_file, "input_file")
    output_file = options.output_prefix + model_type.ending
    if os.path.realpath(output_file) in map(os.path.realpath, paths):
        raise InputError(f"--output_prefix: {output_file} is one of --input_file as well")
    files.make_folder(os.path.dirname(options.output_prefix), "output_prefix")

    start = time.monotonic()
    sentences = vocabulary.sample(
        vocabulary.read_lines(paths), options.input_sentence_size, options.random_seed
    )
    for number, sentence in enumerate(sentences):  # in place: the sample may fill the memory
        sentences[number] = model_type.prepare(sentence, options.do_lower_case)
    sentences = [sentence for sentence in sentences if sentence]
    if not sentences:
        raise InputError(f"--input_file: no text in {', '.join(paths)}")
    megabytes = sum(len(sentence.encode()) for sentence in sentences) / 1e6
    print(f"training on {len(sentences):,} sentences, {megabytes:.1f} MB", flush=True)
    model_type.train(sentences, options.output_prefix, options.vocab_size)
    print(f"{output_file}: {options.vocab_size:,} pieces in {time.monotonic() - start:.1f} s")


cli = command(Options, run)

if __name__ == "__main__":
    cli()
