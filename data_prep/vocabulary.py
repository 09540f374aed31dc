"""Trains a vocabulary on a sample of the sentences of text files."""

from __future__ import annotations

import contextlib
import json
import logging
import os

from albert_tf import files
from albert_tf.errors import InputError
from albert_tf.tokenizers import Tokenizer
from albert_tf.tokenizers.normalization import CONFIG_FILE, Normalization, read_normalization
from data_prep.accents import accent_loss
from data_prep.sentence_sample import sample_sentences
from data_prep.text_units import text_files
from data_prep.vocabulary_options import VocabularyOptions
from data_prep.vocabulary_types import VOCABULARY_TYPES, VocabularyType

logger = logging.getLogger(__name__)


def train_vocabulary(options: VocabularyOptions) -> str:
    """Trains a vocabulary and writes its files, and its normalization to `tokenizer_config.json`.

    Returns:
        Path of the file that other commands read.

    Raises:
        InputError: if an option is invalid, a file is missing, the folder contains a vocabulary
            with another normalization, or the text does not yield a vocabulary of the requested
            size.
    """
    options.check()
    vocabulary_type = VOCABULARY_TYPES[options.model_type]
    paths = text_files(options.input_file)
    folder = os.path.dirname(options.output_prefix)
    outputs = [options.output_prefix + ending for ending in vocabulary_type.endings]
    record = os.path.join(folder, CONFIG_FILE)
    files.check_outputs({"output_prefix": [*outputs, record]}, {"input_file": paths})
    files.make_folder(folder, "output_prefix")
    sentences = sample_sentences(paths, options.input_sentence_size, options.random_seed, options)
    normalization = _normalization(options, vocabulary_type, sentences)
    _check_symbols(options, vocabulary_type, normalization)
    _check_folder(folder, outputs, normalization)
    for number, sentence in enumerate(sentences):  # in place: the sample may fill the memory
        sentences[number] = vocabulary_type.prepare(sentence, normalization)
    sentences = [sentence for sentence in sentences if sentence]
    if not sentences:
        raise InputError(f"`input_file`: no text in {', '.join(paths)}")
    megabytes = sum(len(sentence.encode()) for sentence in sentences) / 1e6
    logger.info("training on %s sentences, %.1f MB", f"{len(sentences):,}", megabytes)
    contents = vocabulary_type.train(
        sentences, options.vocab_size, options.character_coverage, options.user_defined_symbols
    )
    config = {"tokenizer_class": vocabulary_type.huggingface_class, **normalization.to_dict()}
    contents.append((json.dumps(config, indent=2) + "\n").encode())
    with contextlib.ExitStack() as renamed_at_exit:
        for path, content in zip([*outputs, record], contents, strict=True):
            partial = renamed_at_exit.enter_context(files.replacing(path))
            with files.open_file(partial, "wb") as file:
                file.write(content)
        if read_normalization(folder) != normalization:
            for path in outputs:  # a vocabulary is never next to the record of another one
                files.remove(path)
    return outputs[0]


def _normalization(
    options: VocabularyOptions, vocabulary_type: VocabularyType, sentences: list[str]
) -> Normalization:
    """The normalization that the options name; without one for accents, the text decides."""
    keep_accents = options.keep_accents
    if keep_accents is None:
        loss = accent_loss(sentences, vocabulary_type.unicode_form, vocabulary_type.bare)
        keep_accents = not loss.is_negligible
        logger.info("%s", loss.describe(keep_accents))
    return Normalization(
        do_lower_case=options.do_lower_case,
        keep_accents=keep_accents,
        unicode_form=vocabulary_type.unicode_form if keep_accents else None,
    )


def _check_symbols(
    options: VocabularyOptions, vocabulary_type: VocabularyType, normalization: Normalization
) -> None:
    """Raises InputError if a symbol could never be found in normalized text."""
    for symbol in options.user_defined_symbols:
        normalized = vocabulary_type.prepare(symbol, normalization)
        if normalized != symbol or " " in symbol:
            raise InputError(
                f"`user_defined_symbols`={symbol}: never occurs in normalized text, in which it is "
                f"{normalized!r}"
            )


def _check_folder(folder: str, outputs: list[str], normalization: Normalization) -> None:
    """Raises InputError if the folder has another vocabulary, which is normalized otherwise."""
    for path in files.matches(os.path.join(folder, "*")):
        if path in outputs or not _may_be_vocabulary(path):
            continue
        try:
            found = Tokenizer.load(path).normalization
        except InputError:  # a file of another program
            continue
        if found != normalization.otherwise(found):
            raise InputError(
                f"`output_prefix`={outputs[0]}: {path} in the same folder is normalized otherwise "
                f"({found.to_json().strip()}, here {normalization.to_json().strip()}); choose "
                "another folder"
            )


def _may_be_vocabulary(path: str) -> bool:
    if path.endswith(".model"):
        return True
    if not path.endswith(".txt"):
        return False
    with files.open_file(path, "rb") as file:
        return file.read(5) == b"[PAD]"
