"""Adapts weights to other text: more or other pieces in the vocabulary, more positions.

The rows of the tables that exist stay as they are, so that text without new pieces gets the same
outputs as before. The embedding of a new piece, and its bias in the head of the masked language
model, are the means of those of the pieces that its text consisted of. Further positions repeat the
table from the start, as in Longformer (arXiv 2004.05150, section 5), because attention to nearby
tokens, the most of what a model learns of positions, then works in every copy. What the rows of a
vocabulary of another language start from is in new_vocabulary.py.
"""

import dataclasses
import logging
from collections.abc import Sequence

import numpy as np

from albert_tf import files
from albert_tf.config import AlbertConfig
from albert_tf.errors import InputError, arguments_renamed
from albert_tf.interop.convert_options import ConvertOptions
from albert_tf.interop.new_vocabulary import find_sources
from albert_tf.tokenizers import Tokenizer, extension
from albert_tf.tokenizers.wordpiece import WordPieceTokenizer
from albert_tf.tokenizers.words import WORD_START
from albert_tf.weights import Tensor, Weights

_PIECE_TABLES = ("bert/embeddings/word_embeddings", "cls/predictions/output_bias")
_ARGUMENTS = ("new_vocabulary", "add_pieces", "learn_pieces_from")
_POSITIONS = "bert/embeddings/position_embeddings"
_MOST_SHOWN = 5
_SEED = 12345

logger = logging.getLogger(__name__)


def with_new_pieces(
    tokenizer: Tokenizer | None, options: ConvertOptions, folder: str
) -> Tokenizer | None:
    """Return a tokenizer with the pieces that the options add; the same if they add none.

    Its vocabulary is a file in `folder`, which must exist as long as the tokenizer is used, or the
    new one of the options.

    Raises:
        InputError: If there is no tokenizer, a piece is invalid, or options contradict each other.
    """
    given = [name for name in _ARGUMENTS if getattr(options, name)]
    if not given:
        return tokenizer
    if tokenizer is None:
        raise InputError(f"`{given[0]}`: needs the vocabulary of the model in `spm_model_file`")
    if options.new_vocabulary:
        if len(given) > 1:
            raise InputError(f"`{given[1]}`: adds to the model's vocabulary, not `new_vocabulary`")
        with arguments_renamed(path="new_vocabulary"):
            return Tokenizer.load(options.new_vocabulary, options.do_lower_case)
    if options.add_pieces:
        pieces = _listed_pieces(options.add_pieces, tokenizer)
        with arguments_renamed(pieces="add_pieces"):
            tokenizer = extension.with_pieces(tokenizer, pieces, folder)
    if options.learn_pieces_from:
        tokenizer = _with_learned_pieces(tokenizer, options, folder)
    return tokenizer


def _with_learned_pieces(tokenizer: Tokenizer, options: ConvertOptions, folder: str) -> Tokenizer:
    paths = files.expand_globs(options.learn_pieces_from, "learn_pieces_from")
    words = extension.count_words(paths)
    count = 1000 if options.num_new_pieces is None else options.num_new_pieces
    pieces = extension.learn_pieces(tokenizer, words, count)
    if len(pieces) < count:
        raise InputError(
            f"`num_new_pieces`={count}: too many for this text of {len(words):,} distinct words; "
            + (f"{len(pieces)} works" if pieces else "it repeats none that has several pieces")
        )
    with arguments_renamed(pieces="learn_pieces_from"):
        extended = extension.with_pieces(tokenizer, pieces, folder)
    before, after = (extension.count_tokens(each, words) for each in (tokenizer, extended))
    logger.info(
        "learned %s pieces, such as %s: %s instead of %s tokens (%.1f%% fewer)",
        f"{count:,}", _shown(pieces), f"{after:,}", f"{before:,}", 100 * (1 - after / before),
    )  # fmt: skip
    return extended


def _listed_pieces(path: str, tokenizer: Tokenizer) -> list[str]:
    """Read a list with a piece a line; log which ones the vocabulary has."""
    lines: dict[str, int] = {}
    for number, line in enumerate(files.read_lines(path), start=1):
        piece = line.strip()
        if not piece:
            continue
        if len(piece.split()) > 1 or WORD_START in piece[1:]:
            raise InputError(f"`add_pieces`={path}: line {number}, {piece!r}, has a space")
        if lines.setdefault(piece, number) != number:
            raise InputError(
                f"`add_pieces`={path}: line {number} repeats line {lines[piece]}, {piece!r}"
            )
    known = lines.keys() & set(tokenizer.pieces)
    if known == lines.keys():
        raise InputError(
            f"`add_pieces`={path}: contains no piece that {tokenizer.path} lacks; the list has one "
            "piece a line"
        )
    if known:
        logger.info("note: in the vocabulary already: %s", _shown([p for p in lines if p in known]))
    pieces = [piece for piece in lines if piece not in known]
    inner = [piece for piece in pieces if not piece.startswith(WORD_START)]
    if inner and not isinstance(tokenizer, WordPieceTokenizer):
        logger.info(
            "note: %d of %d new pieces do not begin with %s and only continue words: %s",
            len(inner), len(pieces), WORD_START, _shown(inner),
        )  # fmt: skip
    return pieces


def _shown(pieces: Sequence[str]) -> str:
    more = f" and {len(pieces) - _MOST_SHOWN:,} more" if len(pieces) > _MOST_SHOWN else ""
    return f"{', '.join(pieces[:_MOST_SHOWN])}{more}"


def check_extension(tokenizer: Tokenizer, extended: Tokenizer) -> None:
    """Check that a vocabulary begins with all pieces of another.

    Raises:
        InputError: If it lacks one of them, or has it in another place.
    """
    pairs = zip(tokenizer.pieces, extended.pieces, strict=False)  # the other has more pieces
    for id, (piece, found) in enumerate(pairs):
        if found != piece:
            raise InputError(
                f"`spm_model_file`={extended.path}: piece {id} is {found!r}, but {piece!r} in "
                f"{tokenizer.path}; a larger vocabulary must begin with all pieces of the model's"
            )


def adapt(
    weights: Weights,
    config: AlbertConfig,
    tokenizer: Tokenizer | None,
    adapted: Tokenizer | None,
    options: ConvertOptions,
) -> tuple[Weights, AlbertConfig]:
    """Return weights for another vocabulary, or with more positions, and their config.

    Pieces that are added first take rows that no piece of the vocabulary has.

    Args:
        weights, config, tokenizer: of the model.
        adapted: the same tokenizer, one with more pieces, or that of `options.new_vocabulary`.
        options: with the number of positions.

    Raises:
        InputError: If the model has as many positions already, or the word list is invalid.
    """
    tensors = dict(weights.tensors)
    positions, old_positions = options.max_position_embeddings, config.max_position_embeddings
    if positions is not None:
        if positions <= old_positions:
            raise InputError(
                f"`max_position_embeddings`={positions}: must be above {old_positions}, what the "
                "model has"
            )
        config = dataclasses.replace(config, max_position_embeddings=positions)
        _rebuild(tensors, _POSITIONS, [[row % old_positions] for row in range(positions)])
    if tokenizer is not None and adapted is not None and adapted is not tokenizer:
        if options.new_vocabulary:
            rows = find_sources(tokenizer, adapted, options.dictionary)
        else:
            new = adapted.pieces[tokenizer.vocab_size :]
            rows = [[id] for id in range(max(config.vocab_size, adapted.vocab_size))]
            rows[tokenizer.vocab_size : adapted.vocab_size] = [
                extension.encode_piece(tokenizer, piece) or [tokenizer.unk_id] for piece in new
            ]
        for path in _PIECE_TABLES:
            _rebuild(tensors, path, rows)
        config = dataclasses.replace(config, vocab_size=len(rows))
    logger.info(
        "note: vocab_size of the output is %d, max_position_embeddings %d; %s",
        config.vocab_size, config.max_position_embeddings,
        "all other weights stay" if options.new_vocabulary else "rows that exist stay",
    )  # fmt: skip
    # What the optimizer knows is about other shapes.
    return dataclasses.replace(weights, tensors=tensors, config=config, optimizer={}), config


def _rebuild(tensors: dict[str, Tensor], path: str, sources: Sequence[Sequence[int]]) -> None:
    """Replace the rows of a table, if there is one, each by the mean of some or by a draw."""
    if path not in tensors:
        return
    tensor = tensors[path]

    def read() -> np.ndarray:
        table = tensor.read()
        mean, spread = table.mean(axis=0, dtype=np.float64), table.std(axis=0, dtype=np.float64)
        new = np.random.default_rng(_SEED).normal(mean, spread, (len(sources), *table.shape[1:]))
        for row, ids in enumerate(sources):
            if ids:
                new[row] = table[list(ids)].mean(axis=0, dtype=np.float64)
        return new.astype(table.dtype)

    shape = (len(sources), *tensor.shape[1:])
    tensors[path] = tensor._replace(shape=shape, read=read)
