"""Trains a vocabulary on a sample of the sentences of text files."""

from __future__ import annotations

import logging
import os
import random
from collections.abc import Iterable, Iterator, Sequence

from albert_tf import files
from albert_tf.errors import InputError
from data_prep.throughput import ThroughputLine
from data_prep.vocabulary_options import VocabularyOptions
from data_prep.vocabulary_types import VOCABULARY_TYPES

logger = logging.getLogger(__name__)


def train_vocabulary(options: VocabularyOptions) -> str:
    """Trains a vocabulary and writes its files.

    Returns:
        Path of the file that other commands read.

    Raises:
        InputError: if an option is invalid, a file is missing, or the text does not yield a
            vocabulary of the requested size.
    """
    options.check()
    vocabulary_type = VOCABULARY_TYPES[options.model_type]
    paths = files.expand_globs(options.input_file, "input_file")
    output_file = options.output_prefix + vocabulary_type.ending
    if os.path.realpath(output_file) in map(os.path.realpath, paths):
        raise InputError(
            f"`output_prefix`={options.output_prefix}: {output_file} is also an `input_file`"
        )
    files.make_folder(os.path.dirname(options.output_prefix), "output_prefix")
    sentences = sample(read_lines(paths), options.input_sentence_size, options.random_seed)
    for number, sentence in enumerate(sentences):  # in place: the sample may fill the memory
        sentences[number] = vocabulary_type.prepare(sentence, options.do_lower_case)
    sentences = [sentence for sentence in sentences if sentence]
    if not sentences:
        raise InputError(f"`input_file`: no text in {', '.join(paths)}")
    megabytes = sum(len(sentence.encode()) for sentence in sentences) / 1e6
    logger.info("training on %s sentences, %.1f MB", f"{len(sentences):,}", megabytes)
    vocabulary_type.train(sentences, options.output_prefix, options.vocab_size)
    return output_file


def read_lines(paths: Sequence[str]) -> Iterator[str]:
    """Yields the lines of text files that are not blank, and shows the progress."""
    done = 0
    with ThroughputLine("read", "MB", sum(map(files.size, paths)) / 1e6) as progress:
        for path in paths:
            for line in files.read_lines(path):
                done += len(line.encode()) + 1
                progress.update(done / 1e6)
                if line := line.strip():
                    yield line


def sample(sentences: Iterable[str], size: int, seed: int) -> list[str]:
    """Draws a uniform sample in one pass.

    Args:
        sentences: the sentences.
        size: number of sentences to draw; 0 for all of them.
        seed: seed of the draw.

    Returns:
        The drawn sentences in their original order.
    """
    if not size:
        return list(sentences)
    generator = random.Random(seed)
    kept: list[tuple[int, str]] = []
    for number, sentence in enumerate(sentences):
        if len(kept) < size:
            kept.append((number, sentence))
        elif (place := generator.randrange(number + 1)) < size:
            kept[place] = (number, sentence)
    return [sentence for _, sentence in sorted(kept)]
