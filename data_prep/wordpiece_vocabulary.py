"""WordPiece vocabularies in the format of BERT and Chinese ALBERT, one piece per line."""

from __future__ import annotations

import collections
from collections.abc import Iterable, Iterator

from albert_tf import files
from albert_tf.errors import InputError
from albert_tf.tokenizers.wordpiece import CONTINUES, LONGEST_WORD, SPECIAL_SYMBOLS, words

# The special symbols, and at least one learned piece.
MIN_SIZE = len(SPECIAL_SYMBOLS) + 1

# Fraction of the characters of the text that the vocabulary covers; the rarest ones are unknown.
# The same as for a unigram vocabulary.
_CHARACTER_COVERAGE = 0.99995
_MAX_REPEATS_PER_TEXT = 10_000


def prepare(line: str, do_lower_case: bool) -> str:
    """The words of a line as the tokenizer will see them, separated by spaces."""
    return " ".join(words(line, do_lower_case))


def train(sentences: list[str], prefix: str, vocab_size: int) -> None:
    """Trains a vocabulary and writes `<prefix>.txt`.

    Args:
        sentences: text returned by `prepare`.
        prefix: path of the file without its ending.
        vocab_size: number of pieces, including special symbols.

    Raises:
        InputError: if the text does not yield that many pieces, or needs more for its characters
            alone; the message names a size that works.
    """
    counts: collections.Counter[str] = collections.Counter()
    for sentence in sentences:
        counts.update(word for word in sentence.split() if len(word) <= LONGEST_WORD)
    characters = _covered(counts)
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
    files.write_text(prefix + ".txt", "".join(f"{piece}\n" for piece in pieces))


def _covered(counts: collections.Counter[str]) -> set[str]:
    """The most frequent characters, which make up `_CHARACTER_COVERAGE` of the text."""
    frequencies: collections.Counter[str] = collections.Counter()
    for word, count in counts.items():
        for character in word:
            frequencies[character] += count
    wanted = frequencies.total() * _CHARACTER_COVERAGE
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
