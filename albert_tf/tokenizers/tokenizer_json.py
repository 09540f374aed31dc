"""Vocabularies of Hugging Face folders that have only `tokenizer.json`.

The file contains the pieces and how text is normalized, from which a SentencePiece model or a
`vocab.txt` with the same ids is written to a cache.
"""

import base64
import binascii
import dataclasses
import os
from collections.abc import Iterator
from typing import Any

from albert_tf.environment import cache_folder
from albert_tf.errors import InputError
from albert_tf.files import exists, make_folder, read_json, sha256_of, write_bytes
from albert_tf.tokenizers.normalization import Normalization

FILE = "tokenizer.json"


@dataclasses.dataclass(frozen=True)
class _AddedToken:
    content: str
    special: bool = False


@dataclasses.dataclass(frozen=True)
class _TokenizerFile:
    """What is read of `tokenizer.json`."""

    model: dict[str, Any]
    normalizer: dict[str, Any] | None = None
    added_tokens: tuple[_AddedToken, ...] = ()


def convert_vocabulary(path: str) -> tuple[str, Normalization]:
    """Return a vocabulary file with the ids of a `tokenizer.json`, and how it normalizes text.

    Args:
        path: of a `tokenizer.json` of AlbertTokenizerFast or BertTokenizerFast.

    Raises:
        InputError: If it is damaged, or of another kind of tokenizer.
    """
    read = read_json(path, _TokenizerFile)
    try:
        write = _WRITERS[read.model.get("type", "")]
        name, content, normalization = write(read)
    except (KeyError, TypeError, ValueError, binascii.Error) as error:
        raise InputError(
            f"{path}: not a tokenizer of ALBERT or BERT ({type(error).__name__}: {error}); name a "
            "spiece.model or vocab.txt"
        ) from None
    folder = os.path.join(cache_folder(), "vocabularies", sha256_of(path)[:16])
    file = os.path.join(folder, name)
    if not exists(file):
        make_folder(folder, "path")
        write_bytes(file, content)
    return file, normalization


def _unigram(read: _TokenizerFile) -> tuple[str, bytes, Normalization]:
    from sentencepiece import sentencepiece_model_pb2  # loads protobuf

    steps = list(_steps(read.normalizer))
    kinds = {step["type"] for step in steps}
    if unknown := kinds - {"Replace", "NFKD", "StripAccents", "Lowercase", "Precompiled"}:
        raise ValueError(f"normalizer {min(unknown)}")
    special = {token.content for token in read.added_tokens if token.special}
    model = sentencepiece_model_pb2.ModelProto()
    for id, (text, score) in enumerate(read.model["vocab"]):
        piece = model.pieces.add(piece=text)
        piece.type = piece.USER_DEFINED if score == 0 else piece.NORMAL
        if text in special:
            piece.type = piece.CONTROL
        if id == read.model["unk_id"]:
            piece.type = piece.UNKNOWN
        # Transformers takes 100 off the scores of "12," and the like, which ALBERT splits.
        is_number = len(text) > 1 and text[-1] == "," and text[-2].isdigit()
        piece.score = score + (100 if is_number and score < -100 else 0)
    charsmap = [step["precompiled_charsmap"] for step in steps if step["type"] == "Precompiled"]
    model.trainer_spec.unk_id = read.model["unk_id"]
    model.normalizer_spec.name = "nmt_nfkc" if charsmap else "identity"
    for each in charsmap:
        model.normalizer_spec.precompiled_charsmap = base64.b64decode(each, validate=True)
    normalization = Normalization(
        do_lower_case="Lowercase" in kinds, keep_accents="StripAccents" not in kinds
    )
    return "spiece.model", model.SerializeToString(), normalization


def _wordpiece(read: _TokenizerFile) -> tuple[str, bytes, Normalization]:
    (rules,) = _steps(read.normalizer)
    if rules["type"] != "BertNormalizer":
        raise ValueError(f"normalizer {rules['type']}")
    ids: dict[str, int] = read.model["vocab"]
    pieces = sorted(ids, key=ids.__getitem__)
    if [ids[piece] for piece in pieces] != list(range(len(pieces))):
        raise ValueError("ids are not 0, 1, 2, ...")
    strips = rules["strip_accents"]
    normalization = Normalization(
        do_lower_case=rules["lowercase"],
        keep_accents=not (rules["lowercase"] if strips is None else strips),
        tokenize_chinese_chars=rules["handle_chinese_chars"],
    )
    return "vocab.txt", "".join(f"{piece}\n" for piece in pieces).encode(), normalization


_WRITERS = {"Unigram": _unigram, "WordPiece": _wordpiece}


def _steps(normalizer: dict[str, Any] | None) -> Iterator[dict[str, Any]]:
    if normalizer and normalizer["type"] == "Sequence":
        for each in normalizer["normalizers"]:
            yield from _steps(each)
    elif normalizer:
        yield normalizer
