"""Nearest neighbors in the embedding table."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from albert_tf.analysis.analysis_options import EmbeddingsOptions
from albert_tf.analysis.models import open_model
from albert_tf.analysis.pictures import write_json
from albert_tf.errors import InputError
from albert_tf.report.sections import text_table
from albert_tf.tokenizers import Tokenizer

_TABLE = "bert/embeddings/word_embeddings"


class Neighbor(NamedTuple):
    """A piece close to another one."""

    piece: str
    cosine: float


def nearest_neighbors(
    table: np.ndarray, ids: list[int], top_k: int
) -> list[list[tuple[int, float]]]:
    """Find the rows of a table with the highest cosine similarity to some of its rows.

    Args:
        table: `[rows, width]`.
        ids: numbers of rows.
        top_k: neighbors per row.

    Returns:
        For each of `ids`, the numbers of the other rows with their cosines, closest first. Rows of
        equal cosines are in the order of the table.
    """
    norms = np.linalg.norm(table, axis=1, keepdims=True)
    unit = table / np.maximum(norms, 1e-12)
    neighbors = []
    for id in ids:
        cosines = unit @ unit[id]
        order = [other for other in np.argsort(-cosines, kind="stable") if other != id]
        neighbors.append([(int(other), float(cosines[other])) for other in order[:top_k]])
    return neighbors


def ids_of(tokenizer: Tokenizer, words: tuple[str, ...]) -> list[int]:
    """Return the ids of pieces, or of the pieces that words consist of, each once.

    Raises:
        InputError: If a word has no known piece.
    """
    by_piece = {piece: id for id, piece in enumerate(tokenizer.pieces)}
    ids: list[int] = []
    for word in words:
        encoded = tokenizer.encode(word, special_symbols=True)
        # Pieces that are no words, such as "##ing", are looked up as they are.
        if tokenizer.unk_id in encoded or not encoded or (word in by_piece and len(encoded) > 1):
            encoded = [by_piece[word]] if word in by_piece else []
        if not encoded:
            raise InputError(
                f"`pieces`={word}: contains a piece that is not in the vocabulary {tokenizer.path}"
            )
        ids += encoded
    return list(dict.fromkeys(ids))


def run(options: EmbeddingsOptions) -> None:
    """Print the neighbors of every piece, and write `embeddings.json`.

    Raises:
        InputError: If a flag, the model or a word is invalid.
    """
    preset = open_model(options.model, options)
    ids = ids_of(preset.tokenizer, options.pieces)
    if not ids:
        raise InputError("`pieces`: at least one is required")
    if _TABLE not in preset.weights.tensors:
        raise InputError(f"`model`={options.model}: lacks {_TABLE}")
    pieces = preset.tokenizer.pieces
    found = {
        pieces[id]: [Neighbor(pieces[other], cosine) for other, cosine in neighbors]
        for id, neighbors in zip(
            ids,
            nearest_neighbors(preset.weights.read(_TABLE), ids, options.top_k),
            strict=True,
        )
    }
    for piece, neighbors in found.items():
        rows = [(each.piece, f"{each.cosine:.4f}") for each in neighbors]
        print(f"{text_table((piece, 'cosine'), rows, {1})}\n")
    if options.output_dir is not None:
        rows_of = {piece: [each._asdict() for each in rows] for piece, rows in found.items()}
        write_json(
            options.output_dir, "embeddings.json", {"model": options.model, "neighbors": rows_of}
        )
        print(f"wrote embeddings.json to {options.output_dir}")
