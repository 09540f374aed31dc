"""WordPiece vocabularies in the format of BERT and Chinese ALBERT, one piece per line."""

from __future__ import annotations

import collections
from collections.abc import Iterable, Iterator

from albert_tf.errors import InputError
from albert_tf.tokenizers.normalization import Normalization
from albert_tf.tokenizers.wordpiece import (
    CONTINUES,
    LONGEST_WORD,
    SPECIAL_SYMBOLS,
    resolved,
    words,
)

# The special symbols, and at least one learned piece.
MIN_SIZE = len(SPECIAL_SYMBOLS) + 1

_MAX_REPEATS_PER_TEXT = 10_000


def prepare(line: str, normalization: Normalization) -> str:
    """The words of a line as the tokenizer will see them, separated by spaces."""
    return " ".join(words(line, resolved(normalization)))


def train(
    sentences: list[str],
    vocab_size: int,
    character_coverage: float = 0.99995,
    user_defined_symbols: tuple[str, ...] = (),
) -> list[bytes]:
    """Trains a vocabulary and returns the content of its file.

    Args:
        sentences: text returned by `prepare`.
        vocab_size: number of pieces, including special symbols.
        character_coverage: fraction of the characters of the text that the vocabulary covers; the
            rarest ones are unknown.
        user_defined_symbols: none; WordPiece splits text at punctuation before it knows pieces.

    Raises:
        InputError: if the text does not yield that many pieces, or needs more for its characters
            alone, and the message names a size that works; or if there are symbols.
    """
    if user_defined_symbols:
        raise InputError(
            f"`user_defined_symbols`={','.join(user_defined_symbols)}: only for "
            "`model_type`=unigram"
        )
    counts: collections.Counter[str] = collections.Counter()
    for sentence in sentences:
        counts.update(word for word in sentence.split() if len(word) <= LONGEST_WORD)
    characters = _covered(counts, character_coverage)
    counts = collections.Counter(
        {word: counts[word] for word in sorted(counts) if characters.issuperset(word)}
    )
    inner = {character for word in counts for character in word[1:]}
    alphabet = [*sorted(characters), *(CONTINUES + character for character in sorted(inner))]
    required = len(SPECIAL_SYMBOLS) + len(alphabet)
    if vocab_size < required:
        raise InputError(
            f"`vocab_size`={vocab_size}: too small; the characters and special symbols of this "
            f"text alone need {required}"
        )
    pieces = _train_pieces(counts, [*SPECIAL_SYMBOLS, *alphabet], vocab_size)
    if len(pieces) < vocab_size:
        raise InputError(
            f"`vocab_size`={vocab_size}: too large for this text ({len(sentences):,} sentences); "
            f"{len(pieces)} works"
        )
    return ["".join(f"{piece}\n" for piece in pieces).encode()]


def _covered(counts: collections.Counter[str], coverage: float) -> set[str]:
    """The most frequent characters, which make up `coverage` of the text."""
    frequencies: collections.Counter[str] = collections.Counter()
    for word, count in counts.items():
        for character in word:
            frequencies[character] += count
    wanted = frequencies.total() * coverage
    covered: set[str] = set()
    for character, count in sorted(frequencies.items(), key=lambda item: (-item[1], item[0])):
        if wanted <= 0:
            break
        covered.add(character)
        wanted -= count
    return covered


def _train_pieces(
    counts: collections.Counter[str], first_pieces: list[str], vocab_size: int
) -> list[str]:
    """The pieces by id: `first_pieces`, then learned pieces, `vocab_size` in total at most."""
    from tokenizers import Tokenizer
    from tokenizers.models import WordPiece
    from tokenizers.pre_tokenizers import WhitespaceSplit
    from tokenizers.trainers import WordPieceTrainer

    tokenizer = Tokenizer(WordPiece(unk_token=SPECIAL_SYMBOLS[1]))
    tokenizer.pre_tokenizer = WhitespaceSplit()
    trainer = WordPieceTrainer(
        vocab_size=vocab_size,
        min_frequency=2,
        # By itself, the trainer numbers ##a, ##b, ... in the order of a hash table, which differs
        # between runs, and breaks ties between pairs by these numbers.
        special_tokens=first_pieces,
        limit_alphabet=len(first_pieces),
        continuing_subword_prefix=CONTINUES,
        show_progress=False,
    )
    tokenizer.train_from_iterator(_repeated(counts.items()), trainer)
    ids = tokenizer.get_vocab()
    return sorted(ids, key=ids.__getitem__)


def _repeated(counts: Iterable[tuple[str, int]]) -> Iterator[str]:
    """Yields each word as often as it was counted, since the trainer takes texts, not counts."""
    for word, count in counts:
        while count > 0:
            yield " ".join([word] * min(count, _MAX_REPEATS_PER_TEXT))
            count -= _MAX_REPEATS_PER_TEXT
