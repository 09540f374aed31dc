"""The tokenizers of `albert_tf.tokenizers` inside a TensorFlow graph, with the same ids.

    tokenizer = graph_tokenizer(Tokenizer.load("30k-clean.model"))
    tokenizer.encode(tf.constant(["The cat sat."]))         # RaggedTensor [[14, 2008, 847, 9]]

TensorFlow Text is required wherever such a graph is created, loaded or served.
"""

import abc
import functools
import types
from collections.abc import Callable
from typing import NamedTuple

import tensorflow as tf

from albert_tf.errors import InputError
from albert_tf.export import graph_characters
from albert_tf.export.graph_characters import Characters
from albert_tf.tokenizers import wordpiece
from albert_tf.tokenizers.base import Tokenizer
from albert_tf.tokenizers.normalization import Normalization, compatible, without_accents
from albert_tf.tokenizers.sentencepiece import SentencePieceTokenizer
from albert_tf.tokenizers.wordpiece import WordPieceTokenizer
from albert_tf.tokenizers.words import WORD_START, byte_of

# A text that matches no piece: pieces contain no white space, except one that may be a space.
_NO_PIECE = "  "


def tensorflow_text() -> types.ModuleType:
    """Import TensorFlow Text, whose operations the graphs contain.

    Raises:
        InputError: If it is not installed, or was built for another TensorFlow.
    """
    try:
        import tensorflow_text
    except ImportError:
        reason = "is not installed"
    except tf.errors.NotFoundError:  # a symbol that this TensorFlow does not have
        reason = f"was built for another TensorFlow than {tf.__version__}"
    else:
        return tensorflow_text
    raise InputError(
        f"TensorFlow Text {reason}; pip install 'albert-tf[export]' installs it with the "
        "TensorFlow that it was built for"
    )


def check_tokenizer(tokenizer: Tokenizer) -> None:
    """Raise InputError if no graph can contain the counterpart of a tokenizer."""
    if tokenizer.added_tokens:
        example = tokenizer.added_tokens[max(tokenizer.added_tokens)].content
        raise InputError(
            f"{tokenizer.path}: a graph cannot find tokens that were added in Hugging Face, such "
            f"as {example!r}"
        )
    tensorflow_text()


class Symbols(NamedTuple):
    """Ids of the special symbols around texts."""

    cls: int
    sep: int
    pad: int


class GraphTokenizer(tf.Module, abc.ABC):
    """Maps strings to the ids of a vocabulary, as the tokenizer that it is created from.

    Attributes:
        vocab_size, pad_id, unk_id, cls_id, sep_id, mask_id: as in the tokenizer.
        symbols: the special symbols that `packed` adds.
    """

    def __init__(self, tokenizer: Tokenizer):
        super().__init__(name="tokenizer")
        self.vocab_size = tokenizer.vocab_size
        self.pad_id, self.unk_id = tokenizer.pad_id, tokenizer.unk_id
        self.cls_id, self.sep_id = tokenizer.cls_id, tokenizer.sep_id
        self.mask_id = tokenizer.mask_id
        self.symbols = Symbols(self.cls_id, self.sep_id, self.pad_id)

    @abc.abstractmethod
    def tokenize(self, texts: tf.Tensor) -> tf.RaggedTensor:
        """Return the int32 ids of strings `[texts]`.

        Their shape is `[texts, (tokens)]` or `[texts, (words), (pieces)]`.
        """

    @abc.abstractmethod
    def encode_with_offsets(
        self, texts: tf.Tensor
    ) -> tuple[tf.RaggedTensor, tf.RaggedTensor, tf.RaggedTensor]:
        """Return the ids of strings `[texts]`, and their starts and ends in characters.

        They are as of `Tokenizer.encode_with_offsets`, int32 and int64 `[texts, (tokens)]`.
        """

    def encode(self, texts: tf.Tensor) -> tf.RaggedTensor:
        """Return the int32 ids of strings `[texts]`, `[texts, (tokens)]`."""
        ids = self.tokenize(texts)
        return ids.merge_dims(1, -1) if ids.ragged_rank > 1 else ids


class GraphSentencePieceTokenizer(GraphTokenizer):
    """The ids of a `SentencePieceTokenizer`; `tokenize` gives `[texts, (tokens)]`."""

    def __init__(self, tokenizer: SentencePieceTokenizer):
        super().__init__(tokenizer)
        normalization = tokenizer.normalization
        steps: list[Callable[[Characters], Characters]] = [graph_characters.Whitespace()]
        if not normalization.keep_accents:
            removed = graph_characters.replacements_of(without_accents)
            steps.append(graph_characters.Normalizer(removed))
        steps += _composing(normalization)
        if normalization.do_lower_case:
            steps += _lower_casing()
        self._steps = tuple(steps)
        self._model = tensorflow_text().SentencepieceTokenizer(
            tokenizer.serialized_model, out_type=tf.int32
        )
        self._commas = graph_characters.GraphReplacements(tokenizer.ids_of_split)
        characters = graph_characters.characters()
        normalized = [*zip(characters, tokenizer.normalized_apart(characters), strict=True)]
        self._visible = graph_characters.Visible(
            graph_characters.among([c for c, new in normalized if new == WORD_START != c]),
            graph_characters.among([c for c, new in normalized if not new]),
        )
        self._piece_lengths = tf.constant([len(piece) for piece in tokenizer.pieces], tf.int64)
        is_byte = [byte_of(piece) is not None for piece in tokenizer.pieces]
        self._bytes = tf.constant(is_byte, tf.int64) if any(is_byte) else None

    def tokenize(self, texts):
        ids = self._model.tokenize(_through(self._steps, texts).strings())
        return self._with_commas_apart(ids)[0]

    def encode_with_offsets(self, texts):
        text = _through(self._steps, texts)
        pieces, starts, ends = self._model.tokenize_with_offsets(text.strings())
        rows = pieces.value_rowids()
        first, after = (
            graph_characters.index_of_byte(text, rows, tf.cast(part.values, tf.int64))
            for part in (starts, ends)
        )
        if self._bytes is not None:  # each stands for the whole character
            after = tf.maximum(after, first + tf.gather(self._bytes, pieces.values))
        ids, source, position = self._with_commas_apart(pieces)
        # From the right, since a piece that is split may lose its mark of a word's start.
        lengths = tf.gather(self._piece_lengths, ids.values)
        written = tf.cumsum(lengths)
        last = graph_characters.lower_bound(source, source + 1) - 1
        behind = tf.gather(written, last) - written
        first, after = tf.gather(first, source), tf.gather(after, source)
        parts = self._visible.kept_before(text, after, behind + lengths, first)
        after = tf.where(behind == 0, after, self._visible.kept_before(text, after, behind, first))
        first = tf.where(position == 0, first, parts)
        starts, ends = self._visible(text, tf.gather(rows, source), first, after)
        return ids, ids.with_values(starts), ids.with_values(ends)

    def _with_commas_apart(self, ids: tf.RaggedTensor):
        """Apply the digit-and-comma rule; return new ids, and the piece and place of each in it."""
        new, source, position, _ = self._commas(ids.values)
        rows = tf.gather(ids.value_rowids(), source)
        ragged = tf.RaggedTensor.from_value_rowids(new, rows, nrows=ids.nrows(), validate=False)
        return ragged, source, position


class GraphWordPieceTokenizer(GraphTokenizer):
    """The ids of a `WordPieceTokenizer`; `tokenize` gives `[texts, (words), (pieces)]`."""

    def __init__(self, tokenizer: WordPieceTokenizer):
        super().__init__(tokenizer)
        normalization = tokenizer.normalization
        steps: list[Callable[[Characters], Characters]] = [
            graph_characters.Normalizer(_without_controls(normalization), accents=False)
        ]
        steps += _composing(normalization)
        if normalization.do_lower_case:
            steps += _lower_casing()
        if not normalization.keep_accents:
            removed = graph_characters.replacements_of(wordpiece.without_accents)
            steps.append(graph_characters.Normalizer(removed))
        self._steps = tuple(steps)
        self._words = graph_characters.Words(
            _kinds_of_characters(normalization),
            longest=wordpiece.LONGEST_WORD if normalization.unicode_form else None,
        )
        self._piece_lengths = tf.constant(
            [len(piece.removeprefix(wordpiece.CONTINUES)) for piece in tokenizer.pieces], tf.int64
        )
        ids = {piece: id for id, piece in enumerate(tokenizer.pieces)}
        vocabulary = tf.lookup.StaticHashTable(
            tf.lookup.KeyValueTensorInitializer(
                tf.constant([*ids]), tf.constant([*ids.values()], tf.int64)
            ),
            default_value=-1,
        )
        self._model = tensorflow_text().WordpieceTokenizer(
            vocabulary,
            suffix_indicator=wordpiece.CONTINUES,
            # Longer words were already replaced, by their number of characters.
            max_bytes_per_word=4 * wordpiece.LONGEST_WORD,
            token_out_type=tf.int32,
            unknown_token=tokenizer.pieces[tokenizer.unk_id],
        )

    def tokenize(self, texts):
        text, firsts = self._split(texts)
        pieces = self._pieces(text, firsts)
        rows = tf.gather(text.rows, firsts)
        return tf.RaggedTensor.from_value_rowids(pieces, rows, nrows=text.count, validate=False)

    def encode_with_offsets(self, texts):
        text, firsts = self._split(texts)
        pieces = self._pieces(text, firsts)
        ids, words = pieces.values, pieces.value_rowids()
        lengths = tf.gather(self._piece_lengths, ids)
        before = tf.cumsum(lengths, exclusive=True)
        first = tf.gather(firsts, words) + before
        first -= tf.gather(before, graph_characters.lower_bound(words, words))
        ends = tf.concat([firsts[1:], [tf.size(text.codes, tf.int64)]], 0)
        after = tf.where(ids == self.unk_id, tf.gather(ends, words), first + lengths)
        ids = tf.RaggedTensor.from_value_rowids(
            ids, tf.gather(text.rows, first), nrows=text.count, validate=False
        )
        starts, ends = tf.gather(text.starts, first), tf.gather(text.ends, after - 1)
        return ids, ids.with_values(starts), ids.with_values(ends)

    def _split(self, texts):
        return self._words(_through(self._steps, texts))

    def _pieces(self, text: Characters, firsts: tf.Tensor) -> tf.RaggedTensor:
        """int32 ids of each word, `[words, (pieces)]`."""
        ends = tf.concat([firsts[1:], [tf.size(text.codes, tf.int64)]], 0)
        words = tf.RaggedTensor.from_row_splits(
            text.codes, tf.concat([[0], ends], 0), validate=False
        )
        strings = tf.strings.unicode_encode(words, "UTF-8")
        long = words.row_lengths() > wordpiece.LONGEST_WORD
        # For no word at all, TensorFlow Text returns one without pieces.
        return self._model.tokenize(tf.where(long, _NO_PIECE, strings))[: tf.size(firsts)]


@functools.cache  # goes through all of Unicode
def _kinds_of_characters(normalization: Normalization) -> dict[int, int]:
    """Return for each character whether it is part of words, white space, or a word on its own."""
    # A character is classified by how many words it forms when doubled: none, one or two. Gaps in
    # the blocks of ideographs count as ideographs too.
    kinds = {0: graph_characters.SPACE, 1: 0, 2: graph_characters.ALONE}
    values: dict[int, int] = {}
    codes = graph_characters.code_points()
    for first in codes[::256]:
        page = [chr(code) for code in codes[first : first + 256]]
        if wordpiece.count(f"a{''.join(page)}a", normalization) > 1:  # not all part of words
            values |= {ord(c): kinds[wordpiece.count(2 * c, normalization)] for c in page}
    return values


def _composing(normalization: Normalization) -> list[Callable[[Characters], Characters]]:
    """Return the steps of `Normalization.unicode_form`: compatibility, then composition."""
    if not normalization.unicode_form:
        return []
    compose = graph_characters.Composed(tensorflow_text().normalize_utf8)
    if normalization.unicode_form == "NFC":
        return [compose]
    replaced = graph_characters.replacements_of(compatible)
    return [graph_characters.Normalizer(replaced, accents=False), compose]


def _lower_casing() -> list[Callable[[Characters], Characters]]:
    lower = graph_characters.replacements_of(str.lower)
    return [graph_characters.FinalSigma(), graph_characters.Normalizer(lower)]


@functools.cache  # goes through all of Unicode
def _without_controls(normalization: Normalization) -> dict[int, list[int]]:
    return graph_characters.replacements_of(
        lambda character: wordpiece.without_controls(character, normalization)
    )


def _through(steps, texts: tf.Tensor) -> Characters:
    text = graph_characters.decode(texts)
    for step in steps:
        text = step(text)
    return text


# Tokenizer class -> class of its counterpart in a graph.
_IN_GRAPH = {
    SentencePieceTokenizer: GraphSentencePieceTokenizer,
    WordPieceTokenizer: GraphWordPieceTokenizer,
}


def graph_tokenizer(tokenizer: Tokenizer) -> GraphTokenizer:
    """Return the counterpart of a tokenizer in a graph, with the same vocabulary and ids.

    Raises:
        InputError: If TensorFlow Text is missing, or tokens were added in Hugging Face.
    """
    check_tokenizer(tokenizer)
    return _IN_GRAPH[type(tokenizer)](tokenizer)
