"""Adapts weights to another domain: more pieces in the vocabulary, more positions.

The rows of the tables that exist stay as they are, so that text without new pieces gets the same
outputs as before. The embedding of a new piece, and its bias in the head of the masked language
model, are the means of those of the pieces that its text consisted of. Further positions repeat the
table from the start, as in Longformer (arXiv 2004.05150, section 5), because attention to nearby
tokens, the most of what a model learns of positions, then works in every copy.
"""

import dataclasses
import logging
from collections.abc import Sequence

import numpy as np

from albert_tf import files
from albert_tf.config import AlbertConfig
from albert_tf.errors import InputError, arguments_renamed
from albert_tf.interop.convert_options import ConvertOptions
from albert_tf.tokenizers import Tokenizer, extension
from albert_tf.tokenizers.wordpiece import WordPieceTokenizer
from albert_tf.tokenizers.words import WORD_START
from albert_tf.weights import Tensor, Weights

_PIECE_TABLES = ("bert/embeddings/word_embeddings", "cls/predictions/output_bias")
_POSITIONS = "bert/embeddings/position_embeddings"
_MOST_SHOWN = 5

logger = logging.getLogger(__name__)


def with_new_pieces(
    tokenizer: Tokenizer | None, options: ConvertOptions, folder: str
) -> Tokenizer | None:
    """Return a tokenizer with the pieces that the options add; the same if they add none.

    Its vocabulary is a file in `folder`, which must exist as long as the tokenizer is used.

    Raises:
        InputError: If there is no tokenizer, a piece is invalid, or an option needs another.
    """
    if options.num_new_pieces is not None and not options.learn_pieces_from:
        raise InputError(f"`num_new_pieces`={options.num_new_pieces}: is for `learn_pieces_from`")
    if not options.add_pieces and not options.learn_pieces_from:
        return tokenizer
    argument = "add_pieces" if options.add_pieces else "learn_pieces_from"
    if tokenizer is None:
        raise InputError(f"`{argument}`: needs the vocabulary of the model in `spm_model_file`")
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
    extended: Tokenizer | None,
    max_position_embeddings: int | None,
) -> tuple[Weights, AlbertConfig]:
    """Return weights with rows for more pieces and positions, and their config.

    New pieces first take rows that no piece of the vocabulary has.

    Raises:
        InputError: If the model has as many positions already.
    """
    tensors = dict(weights.tensors)
    positions = config.max_position_embeddings
    if max_position_embeddings is not None:
        if max_position_embeddings <= positions:
            raise InputError(
                f"`max_position_embeddings`={max_position_embeddings}: must be above {positions}, "
                "what the model has"
            )
        rows = [[row % positions] for row in range(positions, max_position_embeddings)]
        positions = max_position_embeddings
        _extend(tensors, _POSITIONS, config.max_position_embeddings, rows)
    if tokenizer is not None and extended is not None and extended is not tokenizer:
        new = extended.pieces[tokenizer.vocab_size :]
        rows = [extension.encode_piece(tokenizer, piece) or [tokenizer.unk_id] for piece in new]
        for path in _PIECE_TABLES:
            _extend(tensors, path, tokenizer.vocab_size, rows)
        size = max(config.vocab_size, extended.vocab_size)
        config = dataclasses.replace(config, vocab_size=size)
    config = dataclasses.replace(config, max_position_embeddings=positions)
    logger.info(
        "note: vocab_size of the output is %d, max_position_embeddings %d; rows that exist stay",
        config.vocab_size, positions,
    )  # fmt: skip
    # What the optimizer knows is about other shapes.
    return dataclasses.replace(weights, tensors=tensors, config=config, optimizer={}), config


def _extend(
    tensors: dict[str, Tensor], path: str, first: int, sources: Sequence[Sequence[int]]
) -> None:
    """Set rows of a table, if there is one, from `first` on, each the mean of some other rows."""
    if path not in tensors:
        return
    tensor = tensors[path]

    def read() -> np.ndarray:
        table = tensor.read()
        new = [table[rows].mean(axis=0, dtype=np.float64) for rows in map(list, sources)]
        after = first + len(sources)
        return np.concatenate([table[:first], np.array(new, table.dtype), table[after:]])

    count, *width = tensor.shape
    rows = max(count, first + len(sources))
    tensors[path] = tensor._replace(shape=(rows, *width), read=read)
