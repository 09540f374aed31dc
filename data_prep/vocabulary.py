"""Samples of text for a vocabulary, and SentencePiece ones with the original ALBERT's settings."""

from __future__ import annotations

import io
import random
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from albert_tf import files
from albert_tf.errors import InputError
from albert_tf.tokenizers.base import preprocess
from data_prep import wordpiece_vocabulary
from data_prep.progress import Progress

CONTROL_SYMBOLS = ("[CLS]", "[SEP]", "[MASK]")
USER_DEFINED_SYMBOLS = ("(", ")", '"', "-", ".", "–", "£", "€")

# <pad>, <unk>, the symbols above, and at least one piece to learn.
SMALLEST_VOCABULARY = 2 + len(CONTROL_SYMBOLS) + len(USER_DEFINED_SYMBOLS) + 1


def read_sentences(paths: Iterable[str], do_lower_case: bool) -> Iterator[str]:
    """Yields the lines of text files as the tokenizer will see them; empty ones are left out."""
    for path in paths:
        for line in files.read_lines(path):
            if sentence := preprocess(line, do_lower_case):
                yield sentence


def read_lines(paths: Sequence[str]) -> Iterator[str]:
    """Yields the lines of text files that are not blank, and shows how far it is."""
    done = 0
    with Progress("read", "MB", sum(map(files.size, paths)) / 1e6) as progress:
        for path in paths:
            for line in files.read_lines(path):
                done += len(line.encode()) + 1
                progress.update(done / 1e6)
                if line := line.strip():
                    yield line


def sample(sentences: Iterable[str], size: int, seed: int) -> list[str]:
    """A uniform sample of `size` sentences in their order, in one pass; all of them for size 0."""
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


def train(sentences: list[str], prefix: str, vocab_size: int) -> None:
    """Trains a unigram model and writes `<prefix>.model` and `<prefix>.vocab`, both or neither.

    Args:
        sentences: text that `preprocess` has been through.
        prefix: path of the two files without their endings.
        vocab_size: number of pieces, the special symbols included.

    Raises:
        InputError: the text does not give that many pieces; the message says how many it gives.
    """
    import sentencepiece

    try:
        model = _train_model(sentences, vocab_size)
    except RuntimeError as error:
        raise InputError(_explain(str(error), sentences, vocab_size)) from None
    processor = sentencepiece.SentencePieceProcessor(model_proto=model)
    vocabulary = "".join(
        f"{processor.id_to_piece(id)}\t{processor.get_score(id):g}\n"
        for id in range(processor.get_piece_size())
    )
    with (
        files.replacing(prefix + ".model") as model_file,
        files.replacing(prefix + ".vocab") as vocabulary_file,
    ):
        with files.open_file(model_file, "wb") as file:
            file.write(model)
        with files.open_file(vocabulary_file, "w") as file:
            file.write(vocabulary)


def _train_model(sentences: list[str], vocab_size: int) -> bytes:
    """The serialized model.

    Raises:
        RuntimeError: SentencePiece cannot make that many, or that few, pieces of this text.
    """
    import sentencepiece

    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(sentences),
        model_writer=model,
        model_type="unigram",
        vocab_size=vocab_size,
        pad_id=0,
        unk_id=1,
        bos_id=-1,
        eos_id=-1,
        control_symbols=list(CONTROL_SYMBOLS),
        user_defined_symbols=list(USER_DEFINED_SYMBOLS),
        character_coverage=0.99995,
        # A fixed number, since sums over threads round differently for another: the same text
        # gives the same model on any machine.
        num_threads=16,
        shuffle_input_sentence=False,
        minloglevel=3,
    )
    return model.getvalue()


def _explain(reason: str, sentences: list[str], vocab_size: int) -> str:
    """What to do about an error of SentencePiece."""
    if required := re.search(r"smaller than required_chars\. \d+ vs (\d+)", reason):
        return (
            f"--vocab_size: {vocab_size} is too few; the characters and special symbols of "
            f"this text alone need {required[1]}"
        )
    size = _largest_size(sentences, vocab_size, reason)
    return (
        f"--vocab_size: {vocab_size} is more than this text gives ({len(sentences):,} sentences); "
        + (f"{size} works" if size else "it needs more text")
    )


def _largest_size(sentences: list[str], vocab_size: int, reason: str) -> int:
    """A size below `vocab_size` that has been seen to work; 0 if there is none.

    SentencePiece names its limit in the message ("... a value <= 812."), not always one that holds.
    """
    size = vocab_size
    while True:
        named = re.search(r"<= (\d+)", reason)
        size = min(size - 1, int(named[1]) if named else size * 9 // 10)
        if size < SMALLEST_VOCABULARY:
            return 0
        try:
            _train_model(sentences, size)
            return size
        except RuntimeError as error:
            reason = str(error)


class ModelType(NamedTuple):
    """A row of the table of vocabularies.

    Attributes:
        prepare: `prepare(line, do_lower_case)` is the text as the trainer and the tokenizer see it.
        train: `train(sentences, prefix, vocab_size)` writes the files.
        ending: of the file that the other commands take.
        smallest: the least number of pieces.
    """

    prepare: Callable[[str, bool], str]
    train: Callable[[list[str], str, int], None]
    ending: str
    smallest: int


MODEL_TYPES: dict[str, ModelType] = {
    "unigram": ModelType(preprocess, train, ".model", SMALLEST_VOCABULARY),
    "wordpiece": ModelType(
        wordpiece_vocabulary.prepare,
        wordpiece_vocabulary.train,
        ".txt",
        wordpiece_vocabulary.SMALLEST_VOCABULARY,
    ),
}
