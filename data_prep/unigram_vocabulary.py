"""SentencePiece unigram vocabularies with the settings of the original ALBERT."""

from __future__ import annotations

import io
import re

from albert_tf import files
from albert_tf.errors import InputError

CONTROL_SYMBOLS = ("[CLS]", "[SEP]", "[MASK]")
USER_DEFINED_SYMBOLS = ("(", ")", '"', "-", ".", "–", "£", "€")

# <pad>, <unk>, the symbols above, and at least one learned piece.
MIN_SIZE = 2 + len(CONTROL_SYMBOLS) + len(USER_DEFINED_SYMBOLS) + 1


def train(sentences: list[str], prefix: str, vocab_size: int) -> None:
    """Trains a unigram model and writes `<prefix>.model` and `<prefix>.vocab`, both or neither.

    Args:
        sentences: text preprocessed by `albert_tf.tokenizers.normalization.preprocess`.
        prefix: path of the two files without their endings.
        vocab_size: number of pieces, including special symbols.

    Raises:
        InputError: if the text does not yield that many pieces; the message names a size that
            works.
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
    """Trains a model and returns it serialized.

    Raises:
        RuntimeError: if SentencePiece cannot make that many, or that few, pieces of this text.
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
        # Fixed, because sums over another number of threads round differently: the same text must
        # give the same model on any machine.
        num_threads=16,
        shuffle_input_sentence=False,
        minloglevel=3,
    )
    return model.getvalue()


def _explain(reason: str, sentences: list[str], vocab_size: int) -> str:
    """Turns an error of SentencePiece into a message that says what to do."""
    if required := re.search(r"smaller than required_chars\. \d+ vs (\d+)", reason):
        return (
            f"`vocab_size`={vocab_size}: too small; the characters and special symbols of this "
            f"text alone need {required[1]}"
        )
    size = _largest_size(sentences, vocab_size, reason)
    return (
        f"`vocab_size`={vocab_size}: too large for this text ({len(sentences):,} sentences); "
        + (f"{size} works" if size else "more text is needed")
    )


def _largest_size(sentences: list[str], vocab_size: int, reason: str) -> int:
    """A size below `vocab_size` that was tried and works; 0 if there is none.

    SentencePiece names a limit in its message ("... a value <= 812."), but it is not always right.
    """
    size = vocab_size
    while True:
        named = re.search(r"<= (\d+)", reason)
        size = min(size - 1, int(named[1]) if named else size * 9 // 10)
        if size < MIN_SIZE:
            return 0
        try:
            _train_model(sentences, size)
            return size
        except RuntimeError as error:
            reason = str(error)
