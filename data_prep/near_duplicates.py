"""Near duplicates among the documents of a corpus, by MinHash.

The similarity of two documents is the Jaccard index of their sets of shingles: sequences of five
tokens. A token is a word without regard to case, or a character of a script written without spaces.
A sequence of numbers is one token, the same for all numbers; punctuation is none, but where signs
such as = stand alone, so do others. A document of numbers, symbols or single letters rather than
words is only similar to one with the same characters.

Workers compute a signature of each document, 128 minima of hashes of its shingles. The similarity
of two documents is the share of the minima that agree. Documents are compared if they have a band
(a few minima) of their signatures in common.
"""

import math
import tempfile

import numpy as np

from albert_tf.environment import compiled
from albert_tf.errors import InputError
from albert_tf.terminal import ThroughputLine
from data_prep.word_sequences import (
    MULTIPLIER,
    NUMBER,
    PUNCTUATION,
    SIGN,
    SINGLE,
    SPACE,
    SYMBOL,
    WORD,
    character_kinds,
)

try:
    from rensa import RMinHash
except ImportError:
    raise InputError(
        "`near_duplicates`: rensa is not installed; pip install 'albert-tf[clean]'"
    ) from None

SHINGLE_TOKENS = 5
PERMUTATIONS = 128

# At most this share of the pairs at the threshold have no band in common.
_CANDIDATES_MISSED = 0.01
# A document is compared with so many earlier ones per band, which bounds its time.
_MAX_COMPARED = 1000
_ROWS_AT_ONCE = 100_000

_NUMBER_TOKEN = 1


def signature(text: str) -> bytes:
    """Compute the signature of a text, uint16 `[PERMUTATIONS]` in little-endian order."""
    shingles = shingle_hashes(text)
    (row,) = RMinHash.digest_matrix_from_flat_token_hashes(
        shingles, [0, len(shingles)], PERMUTATIONS, 0
    ).to_rows()
    # The low bits suffice: those of different hashes agree once in 65,536 times.
    return np.array(row, np.uint32).astype("<u2").tobytes()


def shingle_hashes(text: str) -> np.ndarray:
    """Return the hashes of the shingles of a text, in order.

    Returns:
        uint64 `[shingles]`; a single one for fewer tokens than a shingle has.
    """
    codes = np.frombuffer(text.lower().encode("utf-32-le", "replace"), np.uint32)
    return _shingle_hashes(codes, character_kinds())


@compiled
def _shingle_hashes(codes: np.ndarray, kinds: np.ndarray) -> np.ndarray:
    others = words = signs = letters = 0
    before, stands_alone = SPACE, np.zeros(len(codes), np.bool_)
    for position, code in enumerate(codes):
        kind, after = kinds[code], position + 1
        letters = letters + 1 if kind == WORD else 0
        words += kind == SINGLE or letters == 2
        others += kind in (NUMBER, SYMBOL) and before != kind
        if kind in (PUNCTUATION, SIGN):
            if before in (PUNCTUATION, SIGN):
                stands_alone[position] = stands_alone[position - 1]
            elif before == SPACE:
                while after < len(codes) and kinds[codes[after]] in (PUNCTUATION, SIGN):
                    after += 1
                stands_alone[position] = after == len(codes) or kinds[codes[after]] == SPACE
        if kind == SIGN and before != SIGN:
            signs += stands_alone[position]
        if kind == SIGN and before != SPACE and after < len(codes):  # as in x(y)=z
            others += kinds[codes[after]] not in (SPACE, SIGN)
        before = kind
    is_table = others + signs >= words
    tokens = np.empty(len(codes) + 1, np.uint64)
    count = 0
    before = last_token = SPACE
    for position, code in enumerate(codes):
        kind = kinds[code]
        is_sign = signs and stands_alone[position] or kind in (SYMBOL, SIGN)
        if is_sign or is_table and kind != SPACE:
            kind = WORD
        if kind == NUMBER:
            if last_token != NUMBER:
                tokens[count] = _NUMBER_TOKEN
                count += 1
        elif kind == WORD and before == WORD:
            tokens[count - 1] = (tokens[count - 1] ^ code) * MULTIPLIER
        elif kind > PUNCTUATION:
            tokens[count] = (MULTIPLIER ^ code) * MULTIPLIER
            count += 1
        if kind > PUNCTUATION:
            last_token = kind
        before = kind
    length = count if is_table else min(count, SHINGLE_TOKENS)
    shingles = np.zeros(count - length + 1, np.uint64)
    for start in range(len(shingles)):
        for token in tokens[start : start + length]:
            mixed = (shingles[start] ^ token) * MULTIPLIER
            shingles[start] = mixed ^ (mixed >> np.uint64(32))
    return shingles


def bands(similarity: float) -> list[slice]:
    """Return the columns of the bands by which nearly all pairs of a similarity become candidates.

    The larger the bands, the fewer other pairs become candidates.
    """
    rows = PERMUTATIONS
    while rows > 1 and (1 - similarity**rows) ** (PERMUTATIONS // rows) > _CANDIDATES_MISSED:
        rows -= 1
    return [slice(start, start + rows) for start in range(0, PERMUTATIONS - rows + 1, rows)]


def find_near_duplicates(
    signatures: np.ndarray, similarity: float, folder: str | None = None
) -> np.ndarray:
    """Find the documents that are near duplicates of an earlier one that is none itself.

    Memory holds about 30 bytes per document, besides the signatures, which may be in a file, and a
    temporary file about 100.

    Args:
        signatures: uint16 `[documents, PERMUTATIONS]`, in the order of the corpus.
        similarity: that of near duplicates, at least.

    Returns:
        Whether each document is one, bool `[documents]`.
    """
    keys = np.empty(len(signatures), np.uint64)
    columns_of_bands = bands(similarity)
    with (
        tempfile.TemporaryFile(dir=folder) as file,
        ThroughputLine("compared", "bands of signatures", len(columns_of_bands)) as progress,
    ):
        for number, columns in enumerate(columns_of_bands):
            progress.update(number)
            for start in range(0, len(keys), _ROWS_AT_ONCE):
                part = slice(start, start + _ROWS_AT_ONCE)
                keys[part] = _keys(np.ascontiguousarray(signatures[part, columns]))
            order = np.argsort(keys, kind="stable")
            previous = np.full(len(keys), -1, np.int32 if len(keys) < 2**31 else np.int64)
            previous[order[1:]] = np.where(np.diff(keys[order]) == 0, order[:-1], -1)
            file.write(previous.data)
        file.flush()
        links = np.memmap(file, previous.dtype, shape=(len(columns_of_bands), len(keys)))
        agreeing = math.ceil(similarity * PERMUTATIONS)
        return _near_duplicates(signatures, links.view(np.ndarray), agreeing, _MAX_COMPARED)


@compiled
def _keys(columns: np.ndarray) -> np.ndarray:
    keys = np.zeros(len(columns), np.uint64)
    for number in range(len(columns)):
        for value in columns[number]:
            mixed = (keys[number] ^ value) * MULTIPLIER
            keys[number] = mixed ^ (mixed >> np.uint64(32))
    return keys


@compiled
def _near_duplicates(
    signatures: np.ndarray, previous: np.ndarray, agreeing: int, max_compared: int
) -> np.ndarray:
    """Return which documents are similar to an earlier one that is kept, in one of the bands.

    `previous[band, document]` is the one before with the same key, or -1; here, that which is kept.
    """
    is_duplicate = np.zeros(len(signatures), np.bool_)
    for document in range(len(signatures)):
        for band in range(len(previous)):
            other = previous[band, document]
            if other >= 0 and is_duplicate[other]:
                other = previous[band, other]
                previous[band, document] = other
            compared = 0
            while other >= 0 and compared < max_compared and not is_duplicate[document]:
                same = 0
                for column in range(signatures.shape[1]):
                    same += signatures[document, column] == signatures[other, column]
                is_duplicate[document] = same >= agreeing
                other = previous[band, other]
                compared += 1
    return is_duplicate
