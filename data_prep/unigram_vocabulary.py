"""SentencePiece unigram vocabularies with the settings of the original ALBERT."""

from __future__ import annotations

import functools
import io
import re
from collections.abc import Callable

from albert_tf.errors import InputError

CONTROL_SYMBOLS = ("[CLS]", "[SEP]", "[MASK]")
USER_DEFINED_SYMBOLS = ("(", ")", '"', "-", ".", "–", "£", "€")

# SentencePiece ignores longer sentences, and those with a character that it uses itself.
_MAX_BYTES, _MAX_CHARACTERS = 4192, 4192 // 4
_RESERVED = "\u2585"

# <pad>, <unk>, the symbols above, and at least one learned piece.
MIN_SIZE = 2 + len(CONTROL_SYMBOLS) + len(USER_DEFINED_SYMBOLS) + 1


def train(
    sentences: list[str],
    vocab_size: int,
    character_coverage: float = 0.99995,
    user_defined_symbols: tuple[str, ...] = (),
) -> list[bytes]:
    """Trains a unigram model and returns the contents of its files, `.model` and `.vocab`.

    Args:
        sentences: text preprocessed by `albert_tf.tokenizers.normalization.preprocess`.
        vocab_size: number of pieces, including special symbols.
        character_coverage: fraction of the characters of the text that the vocabulary covers; the
            rarest ones are unknown.
        user_defined_symbols: pieces that text is always split into, besides the original's.

    Raises:
        InputError: if the text does not yield that many pieces; the message names a size that
            works.
    """
    import sentencepiece

    sentences = [part for sentence in sentences for part in _cut(sentence)]
    symbols = [*dict.fromkeys((*USER_DEFINED_SYMBOLS, *user_defined_symbols))]
    train_model = functools.partial(_train_model, sentences, character_coverage, symbols)
    try:
        model = train_model(vocab_size)
    except RuntimeError as error:
        raise InputError(_explain(str(error), len(sentences), vocab_size, train_model)) from None
    processor = sentencepiece.SentencePieceProcessor(model_proto=model)
    vocabulary = "".join(
        f"{processor.id_to_piece(id)}\t{processor.get_score(id):g}\n"
        for id in range(processor.get_piece_size())
    )
    return [model, vocabulary.encode()]


def _cut(sentence: str) -> list[str]:
    """Cuts a long sentence, which SentencePiece would ignore, at spaces if there are any."""
    sentence = sentence.replace(_RESERVED, " ")
    parts = []
    while len(sentence) > _MAX_CHARACTERS and len(sentence.encode()) > _MAX_BYTES:
        beginning = sentence.encode()[:_MAX_BYTES].decode(errors="ignore")
        end = beginning.rfind(" ") + 1 or len(beginning)
        parts.append(sentence[:end].strip())
        sentence = sentence[end:]
    return [*parts, sentence]


def _train_model(
    sentences: list[str], character_coverage: float, symbols: list[str], vocab_size: int
) -> bytes:
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
        user_defined_symbols=symbols,
        character_coverage=character_coverage,
        # Fixed, because sums over another number of threads round differently: the same text must
        # give the same model on any machine.
        num_threads=16,
        shuffle_input_sentence=False,
        minloglevel=3,
    )
    return model.getvalue()


def _explain(
    reason: str, sentences: int, vocab_size: int, train_model: Callable[[int], bytes]
) -> str:
    """Turns an error of SentencePiece into a message that says what to do."""
    if required := re.search(r"smaller than required_chars\. \d+ vs (\d+)", reason):
        return (
            f"`vocab_size`={vocab_size}: too small; the characters and special symbols of this "
            f"text alone need {required[1]}"
        )
    size = _largest_size(train_model, vocab_size, reason)
    return f"`vocab_size`={vocab_size}: too large for this text ({sentences:,} sentences); " + (
        f"{size} works" if size else "more text is needed"
    )


def _largest_size(train_model: Callable[[int], bytes], vocab_size: int, reason: str) -> int:
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
            train_model(size)
            return size
        except RuntimeError as error:
            reason = str(error)
