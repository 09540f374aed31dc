"""Trains a vocabulary on a sample of the sentences of text files."""

from __future__ import annotations

import logging
import os

from albert_tf import files
from albert_tf.errors import InputError
from data_prep.sentence_sample import sample_sentences
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
    outputs = [options.output_prefix + ending for ending in vocabulary_type.endings]
    files.check_outputs({"output_prefix": outputs}, {"input_file": paths})
    files.make_folder(os.path.dirname(options.output_prefix), "output_prefix")
    sentences = sample_sentences(paths, options.input_sentence_size, options.random_seed, options)
    for number, sentence in enumerate(sentences):  # in place: the sample may fill the memory
        sentences[number] = vocabulary_type.prepare(sentence, options.do_lower_case)
    sentences = [sentence for sentence in sentences if sentence]
    if not sentences:
        raise InputError(f"`input_file`: no text in {', '.join(paths)}")
    megabytes = sum(len(sentence.encode()) for sentence in sentences) / 1e6
    logger.info("training on %s sentences, %.1f MB", f"{len(sentences):,}", megabytes)
    vocabulary_type.train(sentences, options.output_prefix, options.vocab_size)
    return outputs[0]
