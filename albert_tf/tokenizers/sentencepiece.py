"""Tokenizer for SentencePiece models, with the digit-and-comma rule of the original."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from albert_tf import files
from albert_tf.errors import InputError
from albert_tf.tokenizers.added_tokens import TextPart
from albert_tf.tokenizers.base import Tokenizer
from albert_tf.tokenizers.normalization import (
    DEFAULT_NORMALIZATION,
    UNRECORDED,
    Normalization,
    composed_spans,
    piece_spans,
    preprocess,
    preprocess_with_spans,
    visible,
    with_case,
)
from albert_tf.tokenizers.words import WORD_START, starts_word

if TYPE_CHECKING:
    from albert_tf.tokenizers.word_table import WordTable

# A word is encoded on its own only if its best segmentation beats every other by more than 0.0625,
# in sums of scores. SentencePiece adds up scores as float32 from the beginning of a text, so where
# two segmentations are about as good, such as "ee" "e" and "e" "ee", rounding chooses between them.
# In texts of up to 1,000 bytes, with scores above -30 (an unknown character's is 10 below the
# lowest of a piece), each addition is off by at most 2**-10, and two segmentations of a word of 32
# characters by at most 2 * 32 * 2**-10 = 0.0625.
_MAX_TEXT, _MAX_WORD, _LOWEST_SCORE = 1000, 32, -20.0
# The entropy of two segmentations, 0.0625 apart, at this inverse temperature.
_INVERSE_TEMPERATURE, _MAX_ENTROPY = 64.0, 0.09

# No key of these rules contains a space. (In "identity" there are no keys.)
_NORMALIZERS = ("nmt_nfkc", "nfkc", "identity")


class SentencePieceTokenizer(Tokenizer, suffix=".model"):
    """A SentencePiece model with `<pad>` and the control symbols `[CLS]`, `[SEP]` and `[MASK]`."""

    def __init__(self, path: str, normalization: Normalization = UNRECORDED):
        import sentencepiece

        if not files.exists(path):
            raise InputError(f"`path`={path}: no such vocabulary file")
        model = files.read_bytes(path)
        self._processor = processor = sentencepiece.SentencePieceProcessor()
        symbols = ("<pad>", "[CLS]", "[SEP]", "[MASK]")
        try:
            # An empty file parses as a model with no pieces at all.
            if not model or not processor.LoadFromSerializedProto(model):
                raise RuntimeError
            # In some vocabularies they are ordinary pieces, which could match text.
            if not all(processor.is_control(processor.piece_to_id(symbol)) for symbol in symbols):
                model = with_control_pieces(model, symbols)
                processor.LoadFromSerializedProto(model)
            pieces = [processor.id_to_piece(id) for id in range(processor.get_piece_size())]
        except (RuntimeError, LookupError, UnicodeDecodeError):
            raise InputError(f"{path}: not a SentencePiece model, or damaged") from None
        normalization = with_case(normalization, pieces, path)
        super().__init__(path, normalization.otherwise(DEFAULT_NORMALIZATION))
        self.pieces = pieces
        self.serialized_model = model
        self.pad_id, self.unk_id = processor.pad_id(), processor.unk_id()
        specials = [processor.piece_to_id(symbol) for symbol in ("[CLS]", "[SEP]", "[MASK]")]
        if self.pad_id < 0 or self.unk_id in specials:
            raise InputError(
                f"{path}: the vocabulary lacks <pad>, [CLS], [SEP] or [MASK]; "
                "data_prep/train_vocabulary.py trains one that has them"
            )
        self.cls_id, self.sep_id, self.mask_id = specials
        self._space = processor.piece_to_id(WORD_START)
        self.word_starts = np.array([starts_word(piece) for piece in self.pieces])
        ids = range(self.vocab_size)
        special = [processor.is_control(id) or processor.is_unknown(id) for id in ids]
        self.replacement_ids = np.flatnonzero(np.logical_not(special)).astype(np.int32)
        with_comma = [p for p in self.pieces if len(p) > 1 and p[-1] == "," and p[-2].isdigit()]
        self._split_at_comma = {piece: self._comma_apart(piece) for piece in with_comma}
        # The ids that replace an id, as of the digit-and-comma rule.
        self.ids_of_split: dict[int, list[int]] = {
            processor.piece_to_id(piece): [processor.piece_to_id(token) for token in tokens]
            for piece, tokens in self._split_at_comma.items()
        }

    def normalized_apart(self, characters: Sequence[str]) -> list[str]:
        """Return what the model makes of each preprocessed character, such as `▁` or nothing."""
        found = [""] * len(characters)
        apart = "".join(f"q{c}" for c in characters)  # no accent composes with a q
        normalized, offsets = self._processor.normalize(apart, with_offsets=True)
        for c, offset in zip(normalized, offsets, strict=False):
            if offset % 2:
                found[offset // 2] += c
        return found

    def preprocess(self, text: str) -> str:
        return preprocess(text, self.normalization)

    def _normalizer(self):
        from tokenizers import normalizers

        names = [] if self.normalization.keep_accents else ["NFKD", "StripAccents"]
        names += ["Lowercase"] if self.do_lower_case else []
        steps = [getattr(normalizers, name)() for name in names]
        if charsmap := read_model(self.serialized_model).normalizer_spec.precompiled_charsmap:
            steps.append(normalizers.Precompiled(charsmap))
        return normalizers.Sequence(steps)

    def _add(self, tokens):
        super()._add(tokens)
        if self.vocab_size > self.base_size and self.prepends_always:
            # In transformers, a piece such as "12," stays whole, or is too unlikely to be chosen.
            self._split_at_comma, self.ids_of_split = {}, {}

    def _user_defined(self):
        pieces = enumerate(read_model(self.serialized_model).pieces)
        return [id for id, piece in pieces if piece.type == piece.USER_DEFINED]

    def _tokenize(self, part: TextPart) -> list[str]:
        processed = self.preprocess(part.text)
        pieces = self._processor_of(part, processed).encode(processed, out_type=str)
        return [token for piece in pieces for token in self._split_at_comma.get(piece, [piece])]

    def _encode_texts(self, texts: Sequence[str]) -> list[np.ndarray]:
        return [np.array(ids, np.int32) for ids in self._encode(texts, num_threads=-1)]

    def _encode_flat(self, texts: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        if self._table:
            return self._table.encode_flat(self._composed(texts))
        encoded = self._encode(texts, num_threads=1)
        lengths = np.fromiter(map(len, encoded), np.int64, len(encoded))
        ids = np.fromiter(itertools.chain.from_iterable(encoded), np.int32, int(lengths.sum()))
        return ids, lengths

    @functools.cached_property
    def _table(self) -> WordTable | None:
        """The ids of words, unless they depend on the words around them."""
        from albert_tf.tokenizers.word_table import WordTable  # loads numba

        processor, pieces = self._processor, set(self.pieces)
        if (
            not _separates_words(read_model(self.serialized_model))
            or any(WORD_START in piece[1:] for piece in self.pieces)
            # Unknown characters next to each other are one token, also at both ends of a space
            # that is unknown itself.
            or WORD_START not in pieces
            or processor.is_unused(processor.piece_to_id(WORD_START))
            or min(map(processor.get_score, range(self.vocab_size))) < _LOWEST_SCORE
        ):
            return None
        spaces = "".join(c for c in map(chr, range(128)) if c.isspace())
        others = [c for c in map(chr, range(128)) if not c.isspace()]
        normalized = self.normalized_apart([self.preprocess(c) for c in others])
        known = [(c, new) for c, new in zip(others, normalized, strict=True) if new in pieces]
        inseparable = {a + b for piece in self.pieces for a, b in itertools.pairwise(piece)}
        pairs = [
            before + after
            for (before, a), (after, b) in itertools.product(known, repeat=2)
            if a + b not in inseparable
        ]
        encode_texts = functools.partial(self._encode, num_threads=1)
        limits = (2 * _MAX_WORD, _MAX_TEXT)
        return WordTable(spaces, pairs, limits, self._encode_words, encode_texts)

    def _encode_words(self, words: Sequence[str]) -> list[list[int] | None]:
        """Return the ids of words, None for those whose ids depend on the text around them."""
        encoded: list[list[int] | None] = [None] * len(words)
        for processor, starts in ((self._processor, True), (self._continuing, False)):
            numbers = [n for n, word in enumerate(words) if word.startswith(" ") == starts]
            processed = [self.preprocess(words[number]) for number in numbers]
            found = self._with_ids_split(processor.encode(processed, num_threads=1))
            entropies = processor.calculate_entropy(processed, _INVERSE_TEMPERATURE, num_threads=1)
            for number, word, ids, entropy in zip(
                numbers, processed, found, entropies, strict=True
            ):
                longest = min(_MAX_WORD, len(words[number].encode()))  # some characters expand
                if entropy < _MAX_ENTROPY and len(word) <= longest and WORD_START not in word:
                    encoded[number] = ids
        return encoded

    def _encode(self, texts: Sequence[str], num_threads: int) -> list[list[int]]:
        texts = [self.preprocess(text) for text in texts]
        return self._with_ids_split(self._processor.encode(texts, num_threads=num_threads))

    def _with_ids_split(self, encoded: list[list[int]]) -> list[list[int]]:
        """Split `▁1999,` in place, as the original separates a comma from digits."""
        for number, ids in enumerate(encoded):
            if not self.ids_of_split.keys().isdisjoint(ids):
                split = (self.ids_of_split.get(id, [id]) for id in ids)
                encoded[number] = [*itertools.chain.from_iterable(split)]
        return encoded

    def _encode_part(self, part: TextPart) -> tuple[list[int], list[tuple[int, int]]]:
        processed, spans = preprocess_with_spans(part.text, self.normalization)
        processor = self._processor_of(part, processed)
        normalized, offsets = processor.normalize(processed, with_offsets=True)
        own, spans = spans, composed_spans(offsets, spans)
        is_space = [c == WORD_START for c in normalized]
        if WORD_START in processed:  # where it is a character of the text, it is no space
            for number in np.flatnonzero(is_space):
                first = min(offsets[number], len(processed) - 1)
                after = max(offsets[number + 1], first + 1)
                place = processed.find(WORD_START, first, after)
                is_space[number] = place < 0
                if place >= 0:
                    end = processed.rfind(WORD_START, first, after)
                    spans[number] = own[place, 0], own[end, 1]
        found: list[int] = []
        found_spans: list[tuple[int, int]] = []
        pieces, ids = processor.encode(processed, out_type=str), processor.encode(processed)
        walk = piece_spans(normalized, zip(pieces, map(processor.is_byte, ids), strict=True))
        for piece, id, (first, after) in zip(pieces, ids, walk, strict=True):
            tokens = self._split_at_comma.get(piece, [piece])
            found += self.ids_of_split.get(id, [id])
            # From the right, since a piece that is split may lose its mark of a word's start.
            ends = [after]
            for token in reversed(tokens[1:]):
                ends.append(max(first, ends[-1] - len(token)))
            for end in reversed(ends):
                found_spans.append(visible(first, end, is_space, spans, part.text))
                first = end
        return found, found_spans

    def _processor_of(self, part: TextPart, processed: str):
        if part.starts_word:
            return self._processor
        # Some characters are white space only for the model, or only after normalization.
        begins = self._continuing.normalize(f"x{processed[:1]}x")
        return self._processor if WORD_START in begins else self._continuing

    @functools.cached_property
    def _continuing(self):
        """The model without the space that SentencePiece prepends to a text."""
        import sentencepiece

        processor = sentencepiece.SentencePieceProcessor()
        processor.LoadFromSerializedProto(without_dummy_prefix(self.serialized_model))
        return processor

    def _decode(self, ids: list[int]) -> str:
        return self._processor.decode(ids)

    def _comma_apart(self, piece: str) -> list[str]:
        """Split `▁1999,` into `▁1999` `,`, as the original separates a comma from digits."""
        digits = piece[:-1].replace(WORD_START, "")
        tokens = self._processor.encode(digits, out_type=str)
        if not piece.startswith(WORD_START) and tokens[0].startswith(WORD_START):
            tokens[0] = tokens[0][len(WORD_START) :]
        return [token for token in tokens if token] + [","]


def read_model(model: bytes) -> Any:
    """Return a serialized model that SentencePiece has loaded as a `ModelProto`."""
    from sentencepiece import sentencepiece_model_pb2  # loads protobuf

    return sentencepiece_model_pb2.ModelProto.FromString(model)


def with_control_pieces(model: bytes, names: Collection[str]) -> bytes:
    """Return a model with the pieces `names` as control symbols, which never match text."""
    changed = read_model(model)
    for piece in changed.pieces:
        if piece.piece in names:
            piece.type = piece.CONTROL
    return changed.SerializeToString()


def without_dummy_prefix(model: bytes) -> bytes:
    """Return a model without a space before a text, which may then continue a word."""
    changed = read_model(model)
    changed.normalizer_spec.add_dummy_prefix = False
    return changed.SerializeToString()


def _separates_words(model: Any) -> bool:
    """Return whether a space always begins a piece, as far as settings decide.

    False for models that treat white space otherwise than by default, and for rules of
    normalization that are not SentencePiece's own, which might concern spaces.
    """
    trainer, normalizer = model.trainer_spec, model.normalizer_spec
    return (
        trainer.model_type == trainer.UNIGRAM
        and normalizer.name in _NORMALIZERS
        and normalizer.add_dummy_prefix
        and normalizer.remove_extra_whitespaces
        and normalizer.escape_whitespaces
        and not trainer.treat_whitespace_as_suffix
    )
