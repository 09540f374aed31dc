"""Reads and writes fields of a SentencePiece `.model` file that the library does not expose.

The file is a protocol buffer (`sentencepiece_model.proto`). The generated classes in the
sentencepiece wheel require a specific protobuf release, so the few relevant fields are read and
written in the wire format here.
"""

from __future__ import annotations

import dataclasses
import functools
import struct
from collections.abc import Collection, Iterator
from typing import Any, NamedTuple

UNIGRAM = 1  # TrainerSpec.ModelType
NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = range(1, 7)  # SentencePiece.Type

# No key of these rules contains a space. (In "identity" there are no keys.)
_NORMALIZERS = ("nmt_nfkc", "nfkc", "identity")
_PIECES, _TRAINER, _NORMALIZER = 1, 2, 3  # fields of ModelProto
_VARINT, _EIGHT_BYTES, _MESSAGE, _FOUR_BYTES = 0, 1, 2, 5  # wire types


class Piece(NamedTuple):
    text: str
    score: float
    type: int


@dataclasses.dataclass(frozen=True)
class SentencePieceModel:
    """The pieces, and how text is normalized before it is split."""

    piece_messages: list[bytes]
    model_type: int
    treat_whitespace_as_suffix: bool
    normalizer: str
    precompiled_charsmap: bytes
    add_dummy_prefix: bool
    remove_extra_whitespaces: bool
    escape_whitespaces: bool

    @functools.cached_property
    def pieces(self) -> list[Piece]:
        """The pieces by id."""
        return [_piece(message) for message in self.piece_messages]

    @property
    def separates_words(self) -> bool:
        """Whether a space always begins a piece, as far as settings decide.

        False for models that treat white space otherwise than by default, and for rules of
        normalization that are not SentencePiece's own, which might concern spaces.
        """
        return (
            self.model_type == UNIGRAM
            and self.normalizer in _NORMALIZERS
            and self.add_dummy_prefix
            and self.remove_extra_whitespaces
            and self.escape_whitespaces
            and not self.treat_whitespace_as_suffix
        )


def read(model: bytes) -> SentencePieceModel:
    """Read a serialized model that SentencePiece has loaded."""
    pieces: list[bytes] = []
    trainer: dict[int, Any] = {}
    normalizer: dict[int, Any] = {}
    for number, value in _fields(model):
        if number == _PIECES:
            pieces.append(value)
        elif number == _TRAINER:
            trainer.update(_fields(value))
        elif number == _NORMALIZER:
            normalizer.update(_fields(value))
    return SentencePieceModel(
        pieces,
        model_type=trainer.get(3, UNIGRAM),
        treat_whitespace_as_suffix=bool(trainer.get(24, False)),
        normalizer=normalizer.get(1, b"").decode(),
        precompiled_charsmap=normalizer.get(2, b""),
        add_dummy_prefix=bool(normalizer.get(3, True)),
        remove_extra_whitespaces=bool(normalizer.get(4, True)),
        escape_whitespaces=bool(normalizer.get(5, True)),
    )


def with_control_pieces(model: bytes, names: Collection[str]) -> bytes:
    """Return the model with the pieces `names` as control symbols, which never match text."""
    as_control = field(3, CONTROL)  # the last value of a repeated field wins
    parts = []
    for number, value in _fields(model):
        if number == _PIECES and _piece(value).text in names:
            value += as_control
        parts.append(field(number, value))
    return b"".join(parts)


def without_dummy_prefix(model: bytes) -> bytes:
    """Return the model without a space before a text, which may then continue a word."""
    return model + field(_NORMALIZER, field(3, 0))  # messages that occur twice are merged


def piece_field(text: str, score: float, type: int) -> bytes:
    """Return the field of a model for a piece; its id is the number of those before it."""
    packed_score = _varint(2 << 3 | _FOUR_BYTES) + struct.pack("<f", score)
    return field(_PIECES, field(1, text.encode()) + packed_score + field(3, type))


def field(number: int, value: int | bytes) -> bytes:
    """Return a field of a message: a number, or a text or a message in bytes."""
    if isinstance(value, int):
        return _varint(number << 3 | _VARINT) + _varint(value)
    return _varint(number << 3 | _MESSAGE) + _varint(len(value)) + value


def _piece(message: bytes) -> Piece:
    fields = dict(_fields(message))
    (score,) = struct.unpack("<f", fields.get(2, b"\0\0\0\0"))
    return Piece(fields.get(1, b"").decode("utf-8"), score, fields.get(3, NORMAL))


def _fields(message: bytes) -> Iterator[tuple[int, Any]]:
    position = 0
    while position < len(message):
        key, position = _read_varint(message, position)
        number, wire_type = key >> 3, key & 7
        if wire_type == _VARINT:
            value, position = _read_varint(message, position)
            yield number, value
            continue
        if wire_type == _MESSAGE:
            length, position = _read_varint(message, position)
        else:
            length = {_FOUR_BYTES: 4, _EIGHT_BYTES: 8}[wire_type]
        yield number, message[position : position + length]
        position += length


def _read_varint(message: bytes, position: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = message[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
        shift += 7


def _varint(value: int) -> bytes:
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*encoded, value])
